"""The command line as a user meets it: exit codes, one-line errors, plain output, files."""

import dataclasses
import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress

import flm
from flm.cli import output
from flm.cli.run import run

CONTROL_CHARACTER = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
HEAT = """
[domain]
t = [0, 1]
[parameters]
k = 1.0
[equation]
ode = "u_t = -k * u"
[conditions]
"t=0" = "u = 1"
[exact]
u = "exp(-k * t)"
"""


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """A folder with a solved problem and what `flm solve` printed."""
    path = tmp_path_factory.mktemp("solved")
    (path / "decay.toml").write_text(HEAT)
    code = run(["solve", str(path / "decay.toml"), "--tol", "1e-6", "--out", str(path / "out"), "--quiet"])
    assert code == 0
    return path


def command(*arguments, **environment):
    """A cold `flm`, its output piped."""
    env = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(
        [sys.executable, "-m", "flm", *arguments], capture_output=True, text=True, env=env, check=False, timeout=300
    )


def test_help_is_quick_and_imports_nothing_numerical():
    code = (
        "import sys, time; from flm.cli.run import run; began = time.process_time(); code = run(['--help'])\n"
        "heavy = [m for m in ('jax', 'scipy', 'matplotlib', 'sklearn', 'pandas') if m in sys.modules]\n"
        "print(code, heavy, time.process_time() - began < 0.5, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "0 [] True\n"
    for verb in ("solve", "train", "fit", "impute", "predict", "show", "demo", "doctor"):
        assert f"\n  {verb} " in done.stdout


@pytest.mark.parametrize("verb", ["solve", "train", "fit", "impute", "predict", "show", "demo", "doctor"])
def test_every_command_shows_an_example(verb, capsys):
    assert run([verb, "--help"]) == 0
    assert f"Example: flm {verb}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "heatt"], "Did you mean 'heat'?"),
        (["solve", "nowhere.toml"], "the problem file 'nowhere.toml' cannot be read"),
        (["solve", "heat", "--tol", "-1"], "`tol` must be a positive number; got -1.0."),
        (["solve", "heat", "--tol", "soon"], "Invalid value for '--tol'"),
        (["solve", "heat", "--tal", "1"], "No such option"),
        (
            ["solve", "heat", "--set", "alpa=1"],
            "`--set` for heat must be one of alpha; got 'alpa'. Did you mean 'alpha'?",
        ),
        (["solve", "heat", "--set", "alpha"], "`--set` must be name=number; got 'alpha'."),
        (["solve", "heat", "--method", "magic"], "`method` must be None or one of"),
        (["solv"], "No such command 'solv'."),
        (["solve"], "Missing argument"),
        (["show", "nothing.safetensors"], "`path` must be a file written by flm.save; got 'nothing.safetensors'"),
        (["fit", "nothing.csv", "--target", "y"], "the file 'nothing.csv' does not exist."),
        (["train", "heat", "--model", "flmm"], "`name` must be one of flm, siren-1"),
        (["train", "heat", "--rate", "0"], "`--rate` must be positive; got 0."),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, message, capsys):
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("flm: ")
    assert err.count("\n") == 1


def test_debug_shows_the_traceback():
    with pytest.raises(ValueError, match="Did you mean 'heat'"):
        run(["solve", "heatt", "--debug"])


def test_version_and_bare_command(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"flm {flm.__version__}\n"
    assert run([]) == 0
    assert "Usage: flm" in capsys.readouterr().out


@pytest.mark.slow
def test_a_cold_command_prints_plain_text_in_a_pipe(solved):
    done = command("show", str(solved / "out" / "model.safetensors"), PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    imports = done.stderr.splitlines()
    assert all(line.startswith("import time:") for line in imports)  # and nothing else on stderr
    slow = {"matplotlib", "sklearn", "pandas", "optax", "flm.control.solve", "flm.conservation.solve"}
    assert not slow & {line.rpartition("|")[2].strip() for line in imports}
    assert done.stdout.startswith("model.safetensors: Solution")
    assert not CONTROL_CHARACTER.search(done.stdout.replace("\n", ""))
    assert "period t" in done.stdout


@pytest.mark.slow
def test_solve_writes_everything(solved):
    out = solved / "out"
    names = {
        "model.safetensors",
        "record.json",
        "solution.csv",
        "solution.png",
        "solution.svg",
        "spectrum.png",
        "index.html",
    }
    assert names <= {p.name for p in out.iterdir()}
    record = json.loads((out / "record.json").read_text())
    assert record["converged"] is True
    assert record["errors"]["relative_l2"] < 1e-6
    table = np.loadtxt(out / "solution.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(table[:, 1], np.exp(-table[:, 0]), atol=1e-5)
    model = flm.load(out / "model.safetensors")
    assert float(model(t=0.5)) == pytest.approx(np.exp(-0.5), abs=1e-5)
    page = (out / "index.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "u_t = -k * u" in page
    assert "flm solve " in page
    assert "--quiet" not in page


@pytest.mark.slow
def test_a_solve_prints_text_or_json_alone_or_nothing(solved, capsys):
    line = ["solve", str(solved / "decay.toml"), "--tol", "1e-4"]
    assert run(line) == 0
    out, err = capsys.readouterr()
    assert out.startswith("decay: converged")
    assert "The largest terms of u" in out
    assert err == ""
    assert run([*line, "--set", "k=2", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["status"] == "converged"
    assert err == ""
    assert run([*line, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_terms_that_cannot_be_read_are_not_printed(tmp_path, capsys):
    text = '[domain]\nx = [0, 1]\ny = [0, 1]\n[equation]\na = "u_xx + u_yy = 0"\n[conditions]\n"x=0" = ["u = 0", "u_n = 1"]\n'
    text += '"x=1" = "u = 0"\n"y=0" = "u = 1"\n"y=1" = "u = sin(9 * y)"\n'
    (tmp_path / "odd.toml").write_text(text)
    assert run(["solve", str(tmp_path / "odd.toml"), "--tol", "1e-6"]) == 1
    out = capsys.readouterr().out
    assert "its terms say nothing one by one" in out
    assert "largest terms" not in out


def test_a_tolerance_that_is_not_reached_is_exit_1(solved, capsys):
    assert run(["solve", str(solved / "decay.toml"), "--tol", "1e-19", "--max-columns", "60"]) == 1
    assert "error estimate" in capsys.readouterr().out


def test_out_must_be_a_folder(solved, capsys):
    assert run(["solve", str(solved / "decay.toml"), "--tol", "1e-2", "--out", str(solved / "decay.toml")]) == 2
    assert "`--out` must be a folder" in capsys.readouterr().err


@pytest.mark.slow
def test_show_lists_terms(solved, tmp_path, capsys):
    model = solved / "out" / "model.safetensors"
    assert run(["show", str(model), "--json", "--terms", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    terms = flm.load(model).series.terms(2)
    assert [t["amplitude"] for t in found["terms"]["u"]] == [t.amplitude for t in terms]
    flm.save(flm.PhaseSeries([[1.0]], [[2.0]], [[0.0]]), tmp_path / "series.safetensors")
    assert run(["show", str(tmp_path / "series.safetensors"), "--out", str(tmp_path)]) == 0
    assert "period x1" in capsys.readouterr().out
    assert (tmp_path / "spectrum.png").stat().st_size > 1000


def test_predict_evaluates_a_solution(solved, tmp_path, capsys):
    points = tmp_path / "points.csv"
    points.write_text("other,t\n7,0.25\n8,0.5\n")
    assert run(["predict", str(solved / "out" / "model.safetensors"), str(points)]) == 0
    rows = np.array([line.split(",") for line in capsys.readouterr().out.split()[1:]], float)
    np.testing.assert_allclose(rows, [[0.25, np.exp(-0.25)], [0.5, np.exp(-0.5)]], atol=1e-5)
    points.write_text("t\n0.5\n2\n-1\n")  # two rows outside of [0, 1]
    assert run(["predict", str(solved / "out" / "model.safetensors"), str(points)]) == 0
    told = capsys.readouterr()
    assert [line.split(",")[1] for line in told.out.split()[2:]] == ["nan", "nan"]
    assert told.err == "flm: 2 of 3 rows are outside of the domain of the solution: their values are NaN.\n"
    points.write_text("s\n1\n")
    assert run(["predict", str(solved / "out" / "model.safetensors"), str(points)]) == 2
    assert "must be a column of points.csv (s); got 't'" in capsys.readouterr().err


@pytest.mark.slow
def test_train_runs_the_recipe(solved, monkeypatch, capsys):
    arguments = ["train", str(solved / "decay.toml"), "--size", "4", "--epochs", "30"]
    train = flm.train
    answers = []
    monkeypatch.setattr(flm, "train", lambda *given, **named: answers.append(train(*given, **named)) or answers[-1])
    assert run(arguments) == 0
    assert re.search(r"\n  loss +\S+\n  epochs +30\n", capsys.readouterr().out)
    monkeypatch.setattr(flm, "train", lambda *given, **named: answers[0])  # once is enough
    assert run([*arguments, "--json"]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert kept["model"] == "flm"
    assert kept["loss"] == min(answers[0].history["loss"]) > 0


# --- every verb: codes, plain text, quiet, JSON alone, files -------------------------------------------------------------

TIDES = Path(__file__).parents[2] / "examples" / "tables" / "tides.csv"


@pytest.fixture(scope="module")
def lines(solved, tmp_path_factory):
    """A command line of each verb that takes a second or two; `{out}` is a fresh place for its files."""
    points, holes = solved / "points.csv", solved / "holes.csv"
    points.write_text("t\n0.25\n0.5\n")
    rows = TIDES.read_text().splitlines()[:61]
    holes.write_text("\n".join(row.split(",")[0] + "," if i % 9 == 4 else row for i, row in enumerate(rows)) + "\n")
    model = str(solved / "out" / "model.safetensors")
    return {
        "fit": ["fit", str(TIDES), "--target", "height", "--features", "hour", "--subnets", "3", "--out", "{out}"],
        "impute": ["impute", str(holes), "--time", "hour", "--window", "12", "--out", "{out}/filled.csv"],
        "predict": ["predict", model, str(points), "--out", "{out}/values.csv"],
        "show": ["show", model, "--terms", "3"],
        "doctor": ["doctor", "--out", "{out}"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["fit", "impute", "predict", "doctor"])  # and show, above
def test_every_verb_is_plain_in_a_pipe_and_writes_its_files(verb, lines, tmp_path, capsys):
    assert run([word.format(out=tmp_path) for word in lines[verb]]) == 0
    out, err = capsys.readouterr()
    assert out.strip()
    assert not CONTROL_CHARACTER.search(out.replace("\n", "")), out
    assert not CONTROL_CHARACTER.search(err.replace("\n", "")), err
    assert any(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["impute", "predict", "show"])
def test_json_stands_alone_also_when_quiet_which_is_silent(verb, lines, tmp_path, capsys):
    words = [word.format(out=tmp_path) for word in lines[verb]]
    if verb != "impute":  # it and the others have a test of their own
        assert run([*words, "--json", "--quiet"]) == 0
        out, err = capsys.readouterr()
        assert isinstance(json.loads(out), dict)
        assert err == ""
        assert verb == "show" or any(tmp_path.iterdir())
    assert run(["-q", *words]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyboardInterrupt(), "flm: interrupted.\n"),
        (MemoryError(), "flm: out of memory; ask for less accuracy or a smaller grid.\n"),
        (ZeroDivisionError("by\nzero"), "flm: ZeroDivisionError: by zero Run again with --debug for the traceback.\n"),
    ],
)
def test_a_run_that_fails_is_exit_1_and_one_line(error, line, solved, monkeypatch, capsys):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(flm, "solve", fail)
    assert run(["solve", str(solved / "decay.toml")]) == 1
    assert capsys.readouterr() == ("", line)
    if isinstance(error, Exception):
        with pytest.raises(type(error)):
            run(["solve", str(solved / "decay.toml"), "--debug"])


def test_warnings_are_one_line_and_those_between_libraries_are_not_shown(solved, monkeypatch, capsys):
    solve = flm.solve

    def warn(*arguments, **options):
        warnings.warn("a column is constant\nthroughout", stacklevel=1)
        warnings.warn("parseString is deprecated", DeprecationWarning, stacklevel=1)
        return solve(*arguments, **options)

    monkeypatch.setattr(flm, "solve", warn)
    for quiet in (["--quiet"], []):
        assert run(["solve", str(solved / "decay.toml"), *quiet]) == 0
        assert capsys.readouterr().err == ("" if quiet else "flm: warning: a column is constant throughout\n")


class Terminal(io.StringIO):
    """Something that says it is a terminal."""

    def isatty(self):
        return True


def wait_for(text):
    """Give the bar, which draws itself in another thread, a few seconds for it."""
    end = time.monotonic() + 10
    while text not in sys.stderr.getvalue() and time.monotonic() < end:
        time.sleep(0.02)


def test_work_has_a_bar_in_a_terminal_and_lines_in_a_pipe(monkeypatch, capsys):
    with output.watching("tour", every=0.0) as report:
        report(flm.Progress("first", share=0.0))
        report(flm.Progress("second", share=0.5, error_estimate=1e-3))
    assert capsys.readouterr() == ("", "tour: first\ntour: second, error estimate 1.0e-03\n")
    with output.watching("solve") as report:
        report(flm.Progress("first", share=0.0))
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(output, "LATE", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with output.watching("tour") as report:
        for k, name in enumerate(("first", "second", "third")):
            report(flm.Progress(name, share=k / 3))
        wait_for("third")
    assert "third" in sys.stderr.getvalue()
    assert capsys.readouterr().out == ""


def test_the_tour_prints_a_table_and_writes_its_page(tmp_path, monkeypatch, capsys):
    """The tour with the quickest of its stops in place of the others."""
    from flm.report.pages import demo

    monkeypatch.setattr(demo, "PDES", {"poisson": 1e-6})
    monkeypatch.setattr(demo, "_family", lambda: dataclasses.replace(demo._pde("poisson", 1e-6), name="another"))
    assert run(["demo", "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[0] == "the tour: Poisson equation, to a relative error of 1e-06"
    assert len(err.splitlines()) == 2
    assert "the paper's" in out
    assert re.search(r"Poisson equation +MSE +\d", out)
    record = json.loads((tmp_path / "demo.json").read_text())
    assert [stop["converged"] for stop in record["stops"]] == [True, True]
    page = (tmp_path / "index.html").read_text()
    assert page.count("<h2>") == 4
    assert "https://" not in page


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_failure():
    line = f"{shlex.quote(sys.executable)} -m flm study --help | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    code = (
        "import os, sys; from flm.cli.run import run; import flm.cli.begin as d\n"
        "r, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)\n"  # nobody reads
        "print(run(['--help']), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "0\n")


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell):
    env = os.environ | {"_FLM_COMPLETE": f"complete_{shell}", "COMP_WORDS": "flm s", "COMP_CWORD": "1"}
    env |= {"_TYPER_COMPLETE_ARGS": "flm s", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run([sys.executable, "-m", "flm"], capture_output=True, text=True, env=env, check=False)
    assert {"solve", "show", "study"} <= set(re.findall(r"\w+", done.stdout))
    assert "train" not in done.stdout


def documented():
    """Every `flm …` line of a shell block in docs/cli.md."""
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    return [line for block in blocks for line in block.splitlines() if line.startswith("flm ")]


@pytest.mark.slow
@pytest.mark.parametrize("line", documented())
def test_documented_commands_are_understood(line):
    import typer

    from flm.cli.run import app

    words = [word for word in shlex.split(line)[1:] if word != "--json"]  # which may stand anywhere
    group = typer.main.get_command(app)
    if words[0].startswith("-"):
        assert any(
            words[0] in p.opts
            for p in [*group.params, group.get_help_option(group.make_context("flm", [], resilient_parsing=True))]
        )
    else:
        assert group.commands[words[0]].make_context(words[0], words[1:]).info_name == words[0]  # else it raises


def test_documentation_names_every_command():
    from flm.cli.run import app

    lines = documented()
    own = [c.name for c in app.registered_commands if c.callback.__module__ != "flm.cli.study"]
    for name in own:
        assert any(line.split()[1] == name for line in lines), name


def test_the_bar_of_a_solve_goes_to_one_and_takes_any_name(monkeypatch):
    told = []
    update = Progress.update
    monkeypatch.setattr(output, "LATE", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(
        Progress, "update", lambda bar, task, **new: (told.append(new["completed"]), update(bar, task, **new))
    )
    with output.watching("a{1}[/b].csv", tol=1e-6) as report:
        for error in (np.inf, 1e-2, 1e-4, 1e-3, 1e-6):
            report(flm.Progress("growing", error_estimate=error))
        wait_for("a{1}[/b].csv")
    assert told == pytest.approx([0.0, 0.5, 0.5, 1.0])
    assert "a{1}[/b].csv" in sys.stderr.getvalue()
    assert "Traceback" not in sys.stderr.getvalue()
