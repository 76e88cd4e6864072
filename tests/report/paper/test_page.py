"""`flm paper`: the plan, the page made from stored runs, and the command around them."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from study_runners import definitions

from flm.cli.run import run as command
from flm.paper import plan as study_paper
from flm.paper import printed
from flm.paper.plan import DISK, FULL, Plan, run_paper
from flm.report.pages.layout import Picture
from flm.report.paper.page import mean, paper_page, ratio
from flm.study import Store
from flm.study.execution import Workers
from flm.study.store import Row, run_key
from flm.wording import measured

PLAN = Plan(series="a" * 64)


def outcome(definition, rng):
    """What the run might have found, without finding it."""
    runner = definition["runner"].partition(":")[2]
    if runner == "impute":
        return {"mae": 0.05, "linear": 0.04, "mean_of_observed": 0.3}
    part = {"mape": 0.1, "mae": 1e-4, "network_mape": 0.6, "law_mape": 0.7}
    if runner == "control_fixed":
        states = rng.dirichlet(np.ones(3), 5).tolist()
        times = {"times": [0.0, 1.0, 2.0, 3.0, 6.0], "states": states, "control": [0.0] * 5}
        return part | times | {"reference_states": states, "reference_control": [0.1] * 5}
    if runner == "control_family":
        count = len(definition["training"]["center"])
        errors = {"percent": [0.1, 0.2], "absolute": [1e-4, 2e-4], "starts": rng.dirichlet(np.ones(count), 2).tolist()}
        return {"parts": [part | errors for _ in definition["training"]["images"]], "subnets": 27}
    grid = rng.random((4, 4))
    surface = {"axes": ["x", "t"], "lines": [[0.0, 0.3, 0.6, 1.0]] * 2, "error": (1e-9 * grid).tolist()}
    surface |= {"exact": grid.tolist(), "found": grid.tolist()}
    scores = {"mse": 2e-8, "mae": 1e-4, "max_error": 1e-3, "relative_l2": 1e-5, "error_estimate": 2e-5}
    return scores | {"surface": surface, "epochs": 100}


def stored(plan, keep=lambda definition: True):
    rng = np.random.default_rng(0)
    definitions = [d for d in plan.definitions({}) if keep(d)]
    return {run_key(d): Row(run_key(d), "done", d, outcome(d, rng) | {"seconds": 1.0}, 0.0) for d in definitions}


def test_the_plans_runs():
    short_keys = [run_key(d) for d in PLAN.definitions({})]
    assert len(short_keys) == len(set(short_keys)) == 83
    assert len(PLAN.definitions({})) - len(Plan().definitions({})) == 6  # two rates, three ways
    full = {run_key(d) for d in Plan("a" * 64, FULL).definitions({})}
    # 22 groups of 25 configurations, the figure's sizes that they lack (9, 36), each with ten seeds; 107 single runs.
    assert len(full) == 22 * 250 + 4 * 2 * 10 + 107
    assert DISK["images"] == [0, 2, 1]
    assert list(printed.DISKS) == [(0.2, 0.2, 0.6), (0.2, 0.6, 0.2), (0.6, 0.2, 0.2)]  # in the order of the images


@pytest.fixture(scope="module")
def page():
    """The short page of runs that are all there."""
    return paper_page(PLAN, stored(PLAN), "flm paper --quick")


@pytest.mark.slow
def test_ratios_are_to_the_printed_values(page):
    found = page.tables
    mse = found["table_2_four_pdes_1"]
    assert len(mse.rows) == sum(map(len, printed.PDE_ERRORS.values())) == 22
    heat = mse.rows[0]
    assert heat[:6] == ["heat equation", "flm", "49", "6.24e-08", "2.00e-08", "0.32"]
    assert heat[6:] == ["2.00e-08", "0.32"]
    assert mse.rows[1][6:] == ["–", "–"]  # our solver is of FLMs
    disks = found["optimal_control_families"]
    assert disks.rows[0][2:] == ["0.81", "2.54e-03", "0.6", "0.1", "0.7", "1.00e-04"]
    assert found["imputation_of_etth1_1"].rows[0][4:6] == ["0.050", "0.088"]
    assert all(row[-1] == "yes" for row in found["table_1_the_models_compared"].rows)


@pytest.mark.slow
def test_the_parts_of_the_paper_are_all_there(page):
    pictures = [file.removesuffix(".png") for file, item in page.files.items() if isinstance(item, Picture)]
    assert [p for p in pictures if p.startswith("solution_surfaces")] == [
        f"solution_surfaces_{i}" for i in (1, 2, 3, 4)
    ]
    assert {"optimal_control_fixed_starts", "optimal_control_families"} <= set(pictures)
    assert "n_against_mse" in pictures
    assert "Left out" not in page.sections
    assert {"flm", "machine"} <= {*page.facts}


def test_what_is_missing_is_a_dash_and_failures_are_told():
    assert list(paper_page(Plan(), {}, "flm paper").sections)[-2:] == ["Left out", "How to reproduce it"]
    rows = stored(PLAN, lambda d: d["problem"] == "heat")
    failed = PLAN.solve("poisson", 49)
    rows[run_key(failed)] = Row(run_key(failed), "failed", failed, {"reason": "MemoryError: no room"}, 0.0)
    page = paper_page(PLAN, rows, "")
    mse = page.tables["table_2_four_pdes_1"]
    assert mse.rows[0][4] == "2.00e-08"
    poisson = next(row for row in mse.rows if row[:2] == ["Poisson equation", "flm"])
    assert poisson[4:] == ["–"] * 4
    assert "poisson, our solver, size 49, seed 0 failed: MemoryError: no room" in page.sections["Left out"]


def test_without_the_series_imputation_is_left_out_plainly():
    page = paper_page(Plan(), {}, "")
    assert "FLM_ETT" in page.sections["Imputation of ETTh1"][0]
    assert all("imput" not in d["runner"] for d in Plan().definitions({}))


def test_the_full_plan_goes_on_when_selections_are_decided():
    plan = Plan(budget=FULL)
    spec = plan.protocols["heat"]
    small = replace(spec, models=(("flm", (4, 64)),), optimizers=spec.optimizers[:1])
    vars(plan)["protocols"] = {"heat": small}
    rng = np.random.default_rng(1)
    rows = {}
    for d in small.definitions():
        mse = float(rng.lognormal(-3 * np.log(d["size"]), 0.2))
        scores = {"mse": mse, "mae": mse**0.5, "max_error": 2 * mse**0.5, "epochs": 100, "parameters": d["size"]}
        rows[run_key(d)] = Row(run_key(d), "done", d, scores, 0.0)
    assert plan.recipe_surface("heat", {}) is None
    final = plan.final_definitions(rows)
    assert [d["seed"] for d in final] == [*range(10), 0]
    assert {d["size"] for d in final} == {64}
    assert all(d["training"]["legs"] == [[10_000, 1e-4], [30_000, 1e-8]] for d in final)
    assert final[-1]["runner"] == "flm.paper.runs:train_surface"


def test_cells():
    assert [measured(v) for v in (float("nan"), 0.0, 0.0512, 6.24e-8, 12345.0)] == [
        "–",
        "0",
        "0.0512",
        "6.24e-08",
        "1.23e+04",
    ]
    assert [ratio(v, 2.0) for v in (float("nan"), 1.0, 1e-9, 2468.0)] == ["–", "0.5", "5.0e-10", "1,234"]
    assert mean([1.0, 3.0]) == 2.0


def fake_run(interrupt):
    def run(plan, store, **options):
        rows = stored(plan, lambda d: d["problem"] == ("rpssl" if interrupt else "heat"))
        store.add([(row.definition, row.status, row.outcome) for row in rows.values()])
        if interrupt:
            raise KeyboardInterrupt
        return []

    return run


@pytest.mark.slow
def test_the_command_writes_page_tables_and_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FLM_ETT", raising=False)
    monkeypatch.setattr(study_paper, "run_paper", fake_run(False))
    assert command(["paper", "--quick", "--out", str(tmp_path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert not record["stopped"]
    assert record["facts"]["version"] == "quick"
    names = {path.name for path in tmp_path.iterdir()}
    assert {"paper.html", "paper.md", "runs.sqlite", "table_2_four_pdes_1.csv", "solution_surfaces.png"} <= names
    with (tmp_path / "table_2_four_pdes_1.csv").open() as file:
        assert list(csv.reader(file))[1:] == record["tables"]["table_2_four_pdes_1"]["rows"]
    assert "| heat equation | flm | 49 | 6.24e-08 |" in (tmp_path / "paper.md").read_text()


@pytest.mark.slow
def test_an_interrupt_leaves_the_page_of_what_was_found(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FLM_ETT", raising=False)
    monkeypatch.setattr(study_paper, "run_paper", fake_run(True))
    assert command(["paper", "--quick", "--out", str(tmp_path), "--workers", "1"]) == 1
    told = capsys.readouterr()
    assert "the same command goes on from there" in told.err
    assert "Imputation is left out" in told.out
    assert "runs are not done yet" in (tmp_path / "paper.md").read_text()


def test_a_folder_without_the_series_is_refused(tmp_path, capsys):
    assert command(["paper", "--quick", "--out", str(tmp_path), "--ett", str(tmp_path)]) == 2
    assert "must name the folder of ETTh1.csv" in capsys.readouterr().err


def test_runs_that_are_stored_are_not_done_again(tmp_path):
    runs = definitions(3)

    class Small(Plan):
        def definitions(self, rows):
            return runs

    with Store(tmp_path / "runs.sqlite", write=True) as store:
        store.add([(runs[0], "done", {"mse": 7.0})])
        (counts,) = run_paper(Small(), store, workers=Workers(1, lambda: ThreadPoolExecutor(1)))
        rows = {row.definition["seed"]: row for row in store.rows()}
    assert (counts.fresh, counts.done) == (2, 3)
    assert rows[0].outcome["mse"] == 7.0
    assert 1 <= rows[1].outcome["mse"] < 2
