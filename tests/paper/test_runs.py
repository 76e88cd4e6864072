"""The runners behind `flm paper`: small versions of each, scored against what is known."""

import numpy as np
import pytest

from flm.paper.imputation import find_series, fingerprint, train_recipe
from flm.paper.plan import FULL, RECIPE, SOLVER, Budget, Plan
from flm.study.runs import run_one

TINY = Budget(1, 20, (4,), 20, 50, 2, 2, 1, 1, 1)


def done(definition):
    status, outcome = run_one(definition)
    assert status == "done", outcome["reason"]
    return outcome


@pytest.mark.slow
def test_training_and_solving_draw_the_same_exact_surface():
    plan = Plan(budget=TINY)
    recipe = done(plan.recipe_surface("poisson", {}) | {"optimizer": {"name": "sgd", "rate": 1e-9}})
    solver = done(plan.solve("poisson", 49) | {"size": 9})
    assert recipe["epochs"] == 20
    assert solver["mse"] < 1e-20 < recipe["mse"]
    assert recipe["surface"]["exact"] == solver["surface"]["exact"]
    x, y = (np.asarray(line) for line in solver["surface"]["lines"])
    exact = np.sin(np.pi * x)[:, None] * np.sin(np.pi * y)
    np.testing.assert_allclose(solver["surface"]["exact"], exact, atol=1e-5)
    assert np.max(solver["surface"]["error"]) < 1e-9
    assert done(plan.solve("poisson", 0))["error_estimate"] <= 1e-10


@pytest.mark.slow
def test_control_is_scored_against_pontryagin():
    plan = Plan(budget=TINY)
    solver = done(plan.fixed((0.2, 0.2, 0.6), SOLVER))
    recipe = done(plan.fixed((0.2, 0.2, 0.6), RECIPE))
    assert solver["mape"] < 1e-5 < recipe["mape"]
    assert solver["reference_states"] == recipe["reference_states"]
    np.testing.assert_allclose(np.sum(solver["states"], axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(solver["states"], solver["reference_states"], atol=1e-3)
    family = done(plan.disk(SOLVER) | {"size": 4})
    assert [len(part["starts"]) for part in family["parts"]] == [1, 1, 1]
    centers = [np.argmax(part["starts"][0]) for part in family["parts"]]
    assert centers == [2, 1, 0]  # the disks in the order in which the paper prints them
    assert all(part["mape"] < 1.0 for part in family["parts"])


@pytest.mark.bench
@pytest.mark.parametrize("family", ["disk", "five"])
def test_the_penalty_method_has_the_papers_errors(family):
    """The whole budget, one seed: networks' own cost, simulated cost and the bias law below one per cent on 100 fresh states."""
    plan = Plan(budget=FULL)
    for part in done(getattr(plan, family)(RECIPE))["parts"]:
        errors = {key: part[key] for key in ("network_mape", "mape", "law_mape", "network_mae", "mae")}
        print(family, errors)
        assert max(errors["network_mape"], errors["mape"], errors["law_mape"]) < 1.0


@pytest.fixture
def series(tmp_path, monkeypatch):
    """A table like ETTh1, with days of eight hours in 24 months of five days."""
    rng = np.random.default_rng(0)
    hours = np.arange(24 * 40)
    day = 2 * np.pi * hours / 8
    load = np.sin(day) + 0.3 * np.sin(2 * day) + 0.1 * rng.normal(size=len(hours))
    lines = ["date,LOAD,OT"]
    lines += [
        f"20{16 + h // 480}-{h // 40 % 12 + 1:02d}-01,{a:.6f},{20 - 5 * a:.6f}"
        for h, a in zip(hours, load, strict=True)
    ]
    (tmp_path / "ETTh1.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("FLM_ETT", str(tmp_path))
    return tmp_path / "ETTh1.csv"


@pytest.mark.slow
def test_imputation_by_the_recipe_and_by_ours(series):
    assert find_series() == series
    plan = Plan(series=fingerprint(series))
    found = {}
    for model in ("recipe", "solver", "channels"):
        (definition,) = plan.imputation(0.5, model)
        if model == "recipe":
            definition["training"]["epochs"] = 50
        found[model] = done(definition)
    assert found["solver"]["mae"] < 0.6 * found["solver"]["linear"] < found["recipe"]["mae"]
    assert found["channels"]["mae"] < 0.5 * found["channels"]["linear"]
    assert found["recipe"]["parameters"] == 24
    series.write_text(series.read_text().replace("2016-01", "2016-02", 1))
    status, outcome = run_one(definition)
    assert status == "failed"
    assert "must name the folder of the ETTh1.csv that this run is about" in outcome["reason"]


@pytest.mark.bench
def test_the_papers_imputation():
    t = np.linspace(-np.pi, np.pi, 200)
    y = 1.3 * np.cos(t) + 0.6 * np.sin(2 * t)
    known = np.r_[:40, 50:170]
    fit = train_recipe(t[known], y[known], (t[0], t[-1]), epochs=4000)
    assert fit.num_parameters == 24
    assert np.abs(fit.frequencies[:, 0] - np.arange(8)).max() < 1  # they hardly move
    assert 0 < np.abs(fit(t) - y)[40:50].mean() < y.std()
