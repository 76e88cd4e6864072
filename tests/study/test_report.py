"""The study's report and its commands, on a study of quick scores."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flm.cli.run import run as command
from flm.paper.protocol import read_protocol
from flm.report.pages.study import final_tables, group_table, mean_and_deviation, study_page
from flm.study import Store, choose, read_rows, read_spec
from flm.study.results import Chosen
from flm.study.spec import parse_spec
from flm.study.store import Row, run_key

SPEC = """
title = "Scores"
runner = "study_runners:score"
problems = ["p", "q"]
seeds = 10
[[models]]
name = "m"
sizes = [1, 2, 4, 8]
[[optimizers]]
name = "adam"
rate = 0.01
[[optimizers]]
name = "adam"
rate = 0.02
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A finished study: its specification and its folder."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "s.toml").write_text(SPEC)
    assert command(["study", "run", str(folder / "s.toml"), "--workers", "2", "--quiet"]) == 0
    return folder


def text_of(capsys, *arguments, code=0):
    assert command(["study", *map(str, arguments)]) == code
    return capsys.readouterr().out


@pytest.mark.slow
def test_run_again_finds_nothing_to_do(study, capsys):
    record = json.loads(text_of(capsys, "run", study / "s.toml", "--json"))
    assert (record["new"], record["failed"], record["runs"]) == (0, 0, 160)


@pytest.mark.slow
def test_status_select_audit_and_export(study, capsys):
    assert "160 of 160 done, 0 failed." in text_of(capsys, "status", study / "s.toml")
    assert json.loads(text_of(capsys, "status", study / "s.toml", "--json"))["seconds_left"] in (0, None)
    assert "Chosen: 8, adam" in (told := text_of(capsys, "select", study / "s.toml")) or "chosen: 8, adam" in told
    groups = json.loads(text_of(capsys, "select", study / "s.toml", "--json"))["groups"]
    assert [(g["problem"], g["model"]) for g in groups] == [("p", "m"), ("q", "m")]
    assert all(g["label"].startswith("8, adam") for g in groups)  # the score is about 1.5 / size
    assert "160 rows: 160 done" in text_of(capsys, "audit", study / "s.toml")
    written = json.loads(text_of(capsys, "export", study / "s.toml", "--to", study / "runs.csv", "--json"))["written"]
    assert written == [str(study / "runs.csv")]
    with (study / "runs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 160


@pytest.mark.slow
def test_the_report_has_every_group_and_agrees_with_the_store(study, capsys):
    out = study / "report"
    assert "report.html" in text_of(capsys, "report", study / "s.toml", "--out", out)
    page = (out / "report.html").read_text()
    assert page.count("★") >= 2
    markdown = (out / "report.md").read_text()
    assert "## p: m" in markdown
    assert "## q: m" in markdown
    assert f"flm study run {study / 's.toml'}\nflm study report" in markdown
    assert SPEC.strip() in markdown
    spec = read_spec(study / "s.toml")
    with Store(study / "s.sqlite") as store:
        rows = read_rows(store)
    with (out / "p_m.csv").open() as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["", "configuration", "parameters", "MSE", "MAE", "max error", "epochs"]
    first = spec.groups[0].configurations[0]
    scores = [rows[run_key(spec.definition(first, seed))].outcome["mse"] for seed in spec.seeds]
    assert lines[1][1:4] == ["1, adam 0.01", "1", f"{np.mean(scores):.2e} ± {np.std(scores, ddof=1):.2e}"]
    chosen = choose(spec, rows, spec.groups[0])
    marks = [line[0] for line in lines[1:]]
    assert marks.count("★") == 1
    assert marks.index("★") == chosen.selection.winner
    assert {i for i, m in enumerate(marks) if m} == set(chosen.selection.finalists)
    assert group_table(spec, chosen).rows == lines[1:]


def test_an_unfinished_study_is_reported_as_far_as_it_is(study, tmp_path, capsys):
    (tmp_path / "s.toml").write_text(SPEC)
    spec = read_spec(tmp_path / "s.toml")
    with Store(study / "s.sqlite") as store:
        some = [(r.definition, r.status, r.outcome) for r in store.rows() if r.definition["problem"] == "p"]
    with Store(tmp_path / "s.sqlite", write=True) as store:
        store.add(some[:-1])
        rows = read_rows(store)
    page = study_page(spec, rows)
    assert page.facts["runs"] == "79 of 160"
    assert "Left out" in page.sections
    assert "on the 9 seeds that all have" in choose(spec, rows, spec.groups[0]).selection.explain()
    assert "Not decided: `scores` must have at least one run" in text_of(capsys, "select", tmp_path / "s.toml", code=1)


def test_final_runs_stand_beside_the_paper():
    spec = read_protocol("heat")
    group = spec.groups[0]
    configuration = group.configurations[7]
    rows = {}
    for c in group.configurations:
        for seed in spec.seeds:
            for final in (False, True) if c is configuration else (False,):
                definition = spec.definition(c, seed, final=final)
                good = 2.0**-30 if final else 1e-6 * (1 + seed / 10) * (1 if c is configuration else 9)
                outcome = {"mse": good, "mae": good, "max_error": good, "epochs": 5000 + seed, "parameters": 6 * c.size}
                rows[run_key(definition)] = Row(run_key(definition), "done", definition, outcome, 0.0)
    chosen = choose(spec, rows, group)
    assert chosen.configuration == configuration
    ours, beside = final_tables([chosen])
    assert ours.rows[0][:5] == ["heat", "flm", configuration.label, "10", "9.31e-10 ± 0.00e+00"]
    assert beside.rows == [["heat", "flm", *beside.rows[0][2:]]]
    assert len(set(beside.headers)) == len(beside.headers)  # they head the columns of a CSV file, too
    assert beside.rows[0][2:4] == ["6.24e-08", f"{2.0**-30 / 6.24e-8:.2g}"]
    assert isinstance(chosen, Chosen)


def test_mean_and_deviation():
    assert mean_and_deviation([1e-5, 3e-5]) == "2.00e-05 ± 1.41e-05"
    assert mean_and_deviation([10_000, 10_000]) == "10,000 ± 0"
    assert mean_and_deviation([1.0, np.inf, 3.0, np.nan]) == "2.00e+00 ± 1.41e+00 (2 of 3 runs)"
    assert (mean_and_deviation([np.inf]), mean_and_deviation([np.nan])) == ("failed", "–")


def test_a_dry_run_counts_and_writes_nothing(tmp_path, capsys):
    (tmp_path / "s.toml").write_text(SPEC)
    assert text_of(capsys, "run", tmp_path / "s.toml", "--dry-run", "--workers", "2").startswith(
        "160 runs of the selection, at most "
    )
    assert [p.name for p in tmp_path.iterdir()] == ["s.toml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "haet"], "flm: `SPEC` must be a TOML file or one of "),
        (["status", "quick", "--store", "none.sqlite"], "flm: There are no runs yet: none.sqlite does not exist."),
        (["run", "quick", "--workers", "-1"], "flm: `--workers` must be at least 0; got -1."),
    ],
)
def test_bad_calls_are_one_line(arguments, message, capsys):
    assert command(["study", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


def test_a_busy_store_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "s.toml").write_text(SPEC)
    with Store(tmp_path / "s.sqlite", write=True):
        assert command(["study", "run", str(tmp_path / "s.toml")]) == 2
    assert "is being written by another driver" in capsys.readouterr().err


def test_help_does_not_import_jax():
    code = (
        "import sys; from flm.cli.run import run; code = run(['study', '--help']); "
        "print(code, [m for m in ('jax', 'scipy', 'matplotlib', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
    for name in ("run", "status", "select", "report", "audit", "export"):
        assert name in done.stdout


def test_protocols_are_package_data():
    import flm.paper

    folder = Path(flm.paper.__file__).parent / "protocols"
    assert (folder.parent / "protocol.toml").is_file()
    assert parse_spec((folder / "quick.toml").read_text(), file=Path("quick.toml")).num_runs == 48
