"""FLMRegressor: scikit-learn's contract whole, and what it promises beyond."""

import re

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import flm


def friedman(rng, n, m, noise=1.0):
    """Friedman's first function: five of m features matter, two of them together."""
    X = rng.uniform(0, 1, (n, m))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f, f + noise * rng.normal(size=n)


def wiggle(rng, n=200, noise=0.1):
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(2 * X[:, 0]) * np.exp(-(X[:, 0] ** 2) / 6) + noise * rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_check_estimator_passes_whole():
    results = check_estimator(flm.FLMRegressor(max_columns=64), on_fail=None)
    assert len(results) > 50
    # the one skipped check needs SCIPY_ARRAY_API in the environment and is about arrays of other libraries
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")] == []


# smooth, kinked, oscillating, growing, two features, a sum of waves
FUNCTIONS = {
    "kink": (1, lambda X: np.abs(X[:, 0] - 0.4), 0.05, 100),
    "wave": (1, lambda X: np.sin(9 * X[:, 0]), 0.1, 120),
    "growth": (1, lambda X: np.exp(2 * X[:, 0]), 0.1, 80),
    "chirp": (1, lambda X: np.sin(25 * X[:, 0] ** 2), 0.2, 120),
    "surface": (2, lambda X: np.sin(5 * X[:, 0]) * np.cos(3 * X[:, 1] ** 2), 0.1, 120),
}


@pytest.mark.slow
def test_error_bars_cover_held_out_values():
    covered = {}
    for name, (m, f, noise, n) in FUNCTIONS.items():
        inside = []
        for seed in range(2):
            rng = np.random.default_rng(seed)
            X, held = rng.uniform(0, 1, (n, m)), rng.uniform(0, 1, (2000, m))
            model = flm.FLMRegressor().fit(X, f(X) + noise * rng.normal(size=n))
            mean, std = model.predict(held, return_std=True)
            error = np.abs(mean - f(held) - noise * rng.normal(size=2000)) / std
            inside.append([(error <= 1).mean(), (error <= 1.96).mean()])
        covered[name] = np.mean(inside, axis=0)
    overall = np.mean(list(covered.values()), axis=0)
    assert abs(overall[0] - 0.68) <= 0.03, covered
    assert abs(overall[1] - 0.95) <= 0.03, covered


@pytest.mark.slow
def test_weights_act_as_repeats():
    rng = np.random.default_rng(0)
    for m, frequencies in ((1, "lattice"), (1, "lines"), (2, "auto"), (8, "auto")):
        X, y = rng.uniform(0, 1, (60, m)), rng.normal(size=60)
        y += np.sin(20 * X[:, 0]) * 3
        weights = rng.integers(0, 4, 60)
        weights[[np.argmin(X[:, 0]), np.argmax(X[:, 0])]] = 1
        weighted = flm.FLMRegressor(frequencies=frequencies).fit(X, y, sample_weight=weights)
        repeated = flm.FLMRegressor(frequencies=frequencies).fit(X.repeat(weights, 0), y.repeat(weights))
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7, atol=1e-7)
        a, b = (model.predict(X, return_std=True)[1] for model in (weighted, repeated))
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.slow
def test_weights_do_not_hide_the_noise():
    rng = np.random.default_rng(13)
    X, y = wiggle(rng, 150)
    bootstrap = rng.integers(0, 150, 150)
    for model in (
        flm.FLMRegressor().fit(X, y, sample_weight=rng.integers(1, 5, 150)),
        flm.FLMRegressor().fit(X[bootstrap], y[bootstrap]),
        flm.FLMRegressor().fit(X, y, sample_weight=np.full(150, 1e-3)),
    ):
        assert model.noise_ == pytest.approx(0.1, rel=0.25)
    # rounded features with several outputs each are honest repeats: three times the rows, 1 / sqrt(3) of the error bars
    steps = np.round(X.repeat(3, 0) * 4) / 4
    y = np.sin(2 * steps[:, 0]) + 0.1 * rng.normal(size=450)
    once, thrice = (flm.FLMRegressor(frequencies="lattice", noise=0.1).fit(steps[::k], y[::k]) for k in (3, 1))
    of_curve = lambda model: model.predict(X, return_std=True)[1] ** 2 - 0.1**2
    assert np.median(of_curve(once) / of_curve(thrice)) == pytest.approx(3, rel=0.4)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(10, 400), pytest.param(30, 800, marks=pytest.mark.bench)])
def test_many_features_with_interactions_of_two(m, n):
    rng = np.random.default_rng(1)
    X, _, y = friedman(rng, n, m)
    held, truth, _ = friedman(rng, 2000, m)
    model = flm.FLMRegressor().fit(X, y)
    assert np.count_nonzero(model.frequencies_, axis=1).max() == 2
    assert isinstance(model.series_, flm.ExponentialSeries)
    relative = np.sqrt(((model.predict(held) - truth) ** 2).mean()) / truth.std()
    assert relative < {10: 0.12, 30: 0.12}[m]  # of the function; the noise is 0.2 of its deviation
    assert model.noise_ == pytest.approx(1.0, rel=0.12)
    linear = np.linalg.lstsq(np.column_stack([X, np.ones(n)]), y, rcond=None)[0]
    assert (
        relative < 0.3 * np.sqrt(((np.column_stack([held, np.ones(2000)]) @ linear - truth) ** 2).mean()) / truth.std()
    )


@pytest.mark.slow
def test_an_interaction_without_main_effects_is_found_among_thirty_features():
    rng = np.random.default_rng(2)
    f = lambda X: 4 * (X[:, 3] - 0.5) * (X[:, 17] - 0.5)
    X, held = rng.uniform(0, 1, (700, 30)), rng.uniform(0, 1, (1000, 30))
    model = flm.FLMRegressor(max_columns=256).fit(X, f(X) + 0.2 * rng.normal(size=700))
    assert ((model.predict(held) - f(held)) ** 2).mean() < 0.1 * f(held).var()


@pytest.mark.slow
def test_functions_without_noise_are_fitted_closely():
    rng = np.random.default_rng(3)
    X, held = rng.uniform(0, 1, (300, 2)), rng.uniform(0, 1, (500, 2))
    f = lambda X: np.exp(X[:, 0]) * np.cos(2 * X[:, 1])
    model = flm.FLMRegressor().fit(X, f(X))
    assert np.abs(model.predict(held) - f(held)).max() < 1e-6


def test_rescaling_costs_no_digits():
    X, y = wiggle(np.random.default_rng(4))
    plain = flm.FLMRegressor().fit(X, y).predict(X)
    for scale in (1e-6, 1e6):
        scaled = flm.FLMRegressor().fit(scale * X, y / scale).predict(scale * X)
        np.testing.assert_allclose(scaled * scale, plain, rtol=1e-6, atol=1e-9)


def test_several_outputs():
    rng = np.random.default_rng(5)
    X = rng.uniform(0, 1, (150, 2))
    y = np.stack([np.sin(6 * X[:, 0]), 100 + X[:, 1]], axis=1) + [0.1, 0.01] * rng.normal(size=(150, 2))
    model = flm.FLMRegressor().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (150, 2)
    np.testing.assert_allclose(model.noise_, [0.1, 0.01], rtol=0.25)
    assert model.spectrum_.amplitude.shape == (len(model.spectrum_), 2)
    assert model.score(X, y) > 0.95
    assert flm.FLMRegressor().fit(X, y[:, :1]).predict(X).shape == (150, 1)


def test_partial_fit_and_chunks_are_one_fit():
    rng = np.random.default_rng(6)
    X, y = wiggle(rng, 900)
    options = {"frequencies": "lattice", "bounds": [[-3, 3]]}
    parts = list(zip(np.array_split(X, 3), np.array_split(y, 3), strict=True))
    stepped = flm.FLMRegressor(**options)
    for part in parts:
        stepped.partial_fit(*part)
    listed = flm.FLMRegressor(**options).fit(parts)
    streamed = flm.FLMRegressor(**options).fit(part for part in parts)
    weighted = flm.FLMRegressor(**options).fit([(a, b, np.ones(len(b))) for a, b in parts])
    for model in (listed, streamed, weighted):
        np.testing.assert_allclose(model.predict(X), stepped.predict(X), rtol=1e-10, atol=1e-11)
    truth = np.sin(2 * X[:, 0]) * np.exp(-(X[:, 0] ** 2) / 6)
    first = flm.FLMRegressor(**options).fit(*parts[0])
    error = lambda model: np.sqrt(((model.predict(X) - truth) ** 2).mean())
    assert error(stepped) < 0.75 * error(first)  # three times the rows
    assert stepped.noise_ == pytest.approx(0.1, rel=0.1)


def test_period_makes_ends_meet():
    rng = np.random.default_rng(7)
    hour = rng.uniform(0, 24, (300, 1))
    y = np.exp(np.cos(2 * np.pi * hour[:, 0] / 24)) + 0.05 * rng.normal(size=300)
    model = flm.FLMRegressor(frequencies="lattice", period=24).fit(hour, y)
    np.testing.assert_allclose(model.predict([[0.0]]), model.predict([[24.0]]), rtol=1e-12)
    assert (np.round(model.frequencies_ * 24 / (2 * np.pi)) - model.frequencies_ * 24 / (2 * np.pi)).max() < 1e-9


def test_given_frequencies_stay():
    t = np.arange(200.0)[:, None]
    y = 1 + np.cos(0.31 * t[:, 0]) + 0.05 * np.random.default_rng(8).normal(size=200)
    fixed = flm.FLMRegressor(frequencies=[0.0, 0.3]).fit(t, y)
    np.testing.assert_allclose(fixed.frequencies_[:, 0], [0, 0.3])
    assert fixed.kind_ == "given"
    assert fixed.spectrum_.frequency_error[0, 0] == 0
    assert fixed.spectrum_.amplitude_error[0] > 0


def test_error_bars_grow_beyond_the_data():
    X, y = wiggle(np.random.default_rng(9))
    model = flm.FLMRegressor(frequencies="lattice").fit(X, y)
    inside = model.predict([[0.0]], return_std=True)[1][0]
    near, far = (model.predict([[v]], return_std=True)[1][0] for v in (4.5, 1000.0))
    assert near > 2 * inside
    assert far > y.std() * 0.5


@pytest.mark.slow
def test_pandas_pipeline_grid_search_and_clone():
    X, y = wiggle(np.random.default_rng(10), 100)
    frame = pd.DataFrame(X, columns=["hour"])
    model = flm.FLMRegressor().fit(frame, y)
    assert list(model.feature_names_in_) == ["hour"]
    assert model.series_.axes == ("hour",)
    assert model.spectrum_.feature_names == ("hour",)
    assert " · hour − (" in repr(model.spectrum_)
    assert list(model.spectrum_.to_pandas().columns)[:2] == ["frequency", "frequency error"]
    piped = make_pipeline(StandardScaler(), flm.FLMRegressor()).fit(frame, y)
    assert piped.score(frame, y) > 0.9
    search = GridSearchCV(flm.FLMRegressor(frequencies="lattice"), {"max_columns": [5, 64]}, cv=3).fit(X, y)
    assert search.best_params_ == {"max_columns": 64}
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("frequencies", ["lattice", "lines"])
def test_round_trip(tmp_path, frequencies):
    rng = np.random.default_rng(11)
    X, y = wiggle(rng)
    model = flm.FLMRegressor(frequencies=frequencies, bounds=[(-4, 4)]).fit(pd.DataFrame(X, columns=["x"]), y)
    joblib.dump(model, tmp_path / "joblib")
    flm.save(model, tmp_path / "safetensors")
    files = joblib.load(tmp_path / "joblib"), flm.load(tmp_path / "safetensors")
    frame = pd.DataFrame(np.linspace(-3, 3, 50)[:, None], columns=["x"])
    for back in files:
        for a, b in zip(back.predict(frame, return_std=True), model.predict(frame, return_std=True), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(back.spectrum_.frequency_error, model.spectrum_.frequency_error)
        assert back.kind_ == model.kind_
    more = wiggle(rng)
    frame = pd.DataFrame(more[0], columns=["x"])
    model.partial_fit(frame, more[1])
    for back in files:
        back.partial_fit(frame, more[1])
        np.testing.assert_allclose(back.predict(frame), model.predict(frame), rtol=1e-9, atol=1e-10)


X, Y = wiggle(np.random.default_rng(12), 50)


@pytest.mark.parametrize("frequencies", ["auto", "lattice", "lines"])
def test_a_fit_tells_how_far_it_is(frequencies):
    told = []
    model = flm.FLMRegressor(frequencies=frequencies, progress=told.append).fit(X, Y)
    shares = [event.share for event in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert shares[0] < 0.5
    assert clone(model).get_params() == model.get_params()


CALLS = [
    (
        {"frequencies": "line"},
        "`frequencies` must be one of ('auto', 'lines', 'lattice') or an array (N, 1); got 'line'.",
    ),
    ({"frequencies": np.ones((2, 3))}, "`frequencies` must have shape (N, 1); got (2, 3)."),
    ({"interactions": 0}, "`interactions` must be an integer of at least 1; got 0."),
    ({"num_subnets": 0}, "`num_subnets` must be an integer of at least 1; got 0."),
    ({"max_columns": 1.5}, "`max_columns` must be an integer of at least 1; got 1.5."),
    ({"ridge": -1}, "`ridge` must be positive or None; got -1."),
    ({"noise": 0.0}, "`noise` must be positive or None; got 0.0."),
    ({"bounds": [[1, 0]]}, "`bounds` must be 1 pairs (low, high), low < high; got [[1, 0]]."),
    ({"period": [1, 2]}, "`period` must be one number or one per feature (1); got [1, 2]."),
    ({"period": 0.5}, "`period` must be at least the extent of the data; got 0.5 for feature 0, whose values span"),
]


@pytest.mark.parametrize(("options", "message"), CALLS, ids=[next(iter(o)) + str(i) for i, (o, _) in enumerate(CALLS)])
def test_bad_options_are_said(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        flm.FLMRegressor(**options).fit(X, Y)


def test_bad_streams_are_said():
    model = flm.FLMRegressor(frequencies="lattice").partial_fit(X, Y)
    with pytest.raises(ValueError, match="Give `bounds`, the extent of all rows to come"):
        model.partial_fit(X + 1000, Y)
    with pytest.raises(ValueError, match="`y` must have 1 outputs, as before; got 2"):
        model.partial_fit(X, np.stack([Y, Y], axis=1))
    with pytest.raises(ValueError, match="at least one"):
        flm.FLMRegressor().fit(iter([]))
    with pytest.raises(ValueError, match="iterable of"):
        flm.FLMRegressor().fit(iter([X]))
    with pytest.raises(ValueError, match="at least one non-zero"):
        flm.FLMRegressor().fit(X, Y, sample_weight=np.zeros(len(Y)))


@pytest.mark.slow
def test_import_needs_no_jax():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, flm; X = np.linspace(0, 1, 30)[:, None]; "
        "flm.FLMRegressor().fit(X, np.sin(30 * X[:, 0])).predict(X, return_std=True); "
        "flm.FLMImputer().fit_transform(np.where(X > 0.5, np.nan, X)[:16]); assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@pytest.mark.slow
def test_clocks_and_categories_are_features():
    rng = np.random.default_rng(14)
    days = pd.date_range("2020-01-01", periods=400)
    y = pd.Series(3 + 2 * np.cos(2 * np.pi * np.arange(400) / 29.53) + 0.2 * rng.normal(size=400), name="tide [m]")
    model = flm.FLMRegressor().fit(pd.DataFrame({"day": days}), y)
    assert model.spectrum_.units == ("days",)
    assert "period 29." in repr(model.spectrum_)
    assert "days ± " in repr(model.spectrum_)
    assert abs(model.spectrum_.phase[0]) < 0.3  # counted from the first row
    assert model.plot().axes[0].get_ylabel() == "tide [m]"
    ahead = model.forecast(30)
    assert (ahead.index == pd.date_range(days[-1], periods=31)[1:]).all()
    truth = 3 + 2 * np.cos(2 * np.pi * np.arange(400, 430) / 29.53)
    assert np.abs(ahead["mean"] - truth).max() < 0.3
    pd.testing.assert_frame_equal(model.forecast(until=days[-1] + pd.Timedelta(30, "D")), ahead)
    color = pd.Series(rng.choice(["red", "green", "blue"], 300))
    x = rng.uniform(size=300)
    z = np.sin(5 * x) + color.map({"red": 1.0, "green": 0.0, "blue": -2.0}).to_numpy() + 0.1 * rng.normal(size=300)
    frame = pd.DataFrame({"x": x, "color": color})
    fitted = flm.FLMRegressor().fit(frame, z)
    assert fitted.score(frame, z) > 0.98
    assert list(fitted.feature_names_in_) == ["x", "color=green", "color=red"]
    with pytest.raises(ValueError, match=r"`X` must have the categories of 'color' that were fitted .* got 'pink'"):
        fitted.predict(pd.DataFrame({"x": [0.1], "color": ["pink"]}))
    frame.loc[3, "x"] = np.nan
    with pytest.raises(ValueError, match=r"`X` must have no NaN; got 1 in 'x'\. .* flm.FLMImputer"):
        flm.FLMRegressor().fit(frame, z)
    with pytest.raises(ValueError, match="`forecast` must have one feature, the clock; got 3"):
        fitted.forecast(3)
    with pytest.raises(ValueError, match="`until` must be after the last row, 2021-02-03"):
        model.forecast(until="2020-05-01")


def test_tables_of_xarray():
    xarray = pytest.importorskip("xarray")
    X, y = wiggle(np.random.default_rng(15))
    as_set = xarray.Dataset({"x": ("row", X[:, 0])})
    plain = flm.FLMRegressor().fit(pd.DataFrame(X, columns=["x"]), y)
    np.testing.assert_allclose(flm.FLMRegressor().fit(as_set, y).predict(as_set), plain.predict(as_set), rtol=1e-9)
