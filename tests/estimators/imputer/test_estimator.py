"""FLMImputer: scikit-learn's contract whole, tables in and out, gaps of every kind, error bars, clocks."""

import re

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import flm
from flm.estimators import ExtrapolationWarning
from flm.estimators.imputer.lags import straight

METHODS = ["coupled", "dense"]


def channels(n=600, C=3, seed=0, noise=0.1):
    """A daily cycle and a slow wave in every channel, the channels related."""
    rng = np.random.default_rng(seed)
    t = np.arange(float(n))
    slow = np.convolve(rng.normal(size=n + 60), np.hanning(41) / 4, "valid")[:n]
    columns = [
        (1 + 0.3 * c) * np.sin(2 * np.pi * t / 24 + 0.4 * c) + (0.5 + c) * slow + noise * rng.normal(size=n)
        for c in range(C)
    ]
    return np.stack(columns, axis=1) + 10 * np.arange(C)


def holes(shape, kind, rng):
    hidden = np.zeros(shape, bool)
    if kind == "points":
        hidden = rng.random(shape) < 0.2
    elif kind == "blocks":
        for c in range(shape[1]):
            for start in rng.choice(np.arange(20, shape[0] - 40, 40), 4, replace=False):
                hidden[start : start + 12, c] = True
    else:  # the same stretch in all channels
        for start in (100, 300, 450):
            hidden[start : start + 18] = True
    hidden[[0, -1]] = False
    return hidden


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_check_estimator_passes_whole():
    results = check_estimator(flm.FLMImputer(), on_fail=None)
    assert len(results) > 40
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["points", "blocks", "stretches"])
@pytest.mark.parametrize("method", METHODS)
def test_gaps_are_filled_better_than_by_interpolation(method, kind):
    X = channels()
    hidden = holes(X.shape, kind, np.random.default_rng(1))
    holed = np.where(hidden, np.nan, X)
    filled = flm.FLMImputer(method=method).fit_transform(holed)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[~hidden], X[~hidden])
    linear = pd.DataFrame(holed).interpolate(limit_direction="both").to_numpy()
    ours, theirs = (np.abs(v - X)[hidden].mean() for v in (filled, linear))
    bound = {"points": 0.95, "blocks": 0.4, "stretches": 0.6}
    assert ours < bound[kind] * theirs


@pytest.mark.slow
@pytest.mark.parametrize(("method", "C"), [("auto", 3), ("dense", 1)])
def test_error_bars_cover(method, C):
    inside = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = channels(1000, C, seed, noise=0.2)
        hidden = rng.random(X.shape) < 0.2
        hidden[[0, -1]] = False
        holed = np.where(hidden, np.nan, X)
        found = flm.FLMImputer(method=method).fit(holed).impute(holed, fitted=True)
        assert (found.std[hidden] > 0).all()
        assert (found.std[~hidden] == 0).all()
        error = np.abs(found.values - X)[hidden]
        covered = [(error < k * found.std[hidden]).mean() for k in (1, 1.96)]
        for level in (0.68, 0.95):
            lower, upper = found.interval(level)
            covered.append(((lower < X) & (upper > X))[hidden].mean())
        inside.append(covered)
    inside = np.mean(inside, axis=0)
    assert np.abs(inside[[0, 2]] - 0.68).max() <= 0.04, inside  # over eight seeds: 71, 96, 71 and 96 %
    assert np.abs(inside[[1, 3]] - 0.95).max() <= 0.03, inside


@pytest.mark.slow
def test_pandas_in_pandas_out():
    X = channels(120)
    index = pd.date_range("2024-03-01", periods=120, freq="h", tz="UTC")
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=index)
    holed = frame.copy()
    holed.iloc[50:60, 1] = np.nan
    imputer = flm.FLMImputer().fit(holed)
    filled, std = imputer.impute(holed)
    assert isinstance(filled, pd.DataFrame)
    pd.testing.assert_index_equal(filled.index, index)
    assert list(filled.columns) == list(std.columns) == ["a", "b", "c"]
    pd.testing.assert_frame_equal(filled[["a", "c"]], frame[["a", "c"]])
    assert (std["b"].iloc[50:60] > 0).all()
    assert isinstance(imputer.transform(holed.to_numpy()), np.ndarray)
    series = holed["b"]
    one = flm.FLMImputer().fit(series).transform(series)
    assert isinstance(one, pd.Series)
    pd.testing.assert_index_equal(one.index, index)
    assert one.notna().all()
    lower, upper = imputer.impute(holed).interval(0.9)
    assert (lower["b"].iloc[50:60] < upper["b"].iloc[50:60]).all()


def test_columns_without_holes_keep_their_type():
    X = channels(100, 2)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "count": np.arange(100) % 7})
    frame.loc[20:30, "a"] = np.nan
    filled = flm.FLMImputer().fit_transform(frame)
    pd.testing.assert_series_equal(filled["count"], frame["count"])
    assert filled.dtypes.tolist() == frame.dtypes.tolist()


@pytest.mark.slow
def test_dates_periods_and_durations_are_one_clock():
    X = channels(100, 2)
    X[3::11, 0] = np.nan
    index = pd.date_range("2024-03-01", periods=200, freq="h")[np.r_[:60, 160:200]]  # a break in the record
    frame = pd.DataFrame(X, index=index)
    by_date = flm.FLMImputer().fit_transform(frame)
    for other in (index.to_period("h"), index - index[0]):
        again = flm.FLMImputer().fit_transform(frame.set_axis(other))
        np.testing.assert_allclose(again, by_date, rtol=1e-9)
        pd.testing.assert_index_equal(again.index, other)
    assert (
        np.abs(flm.FLMImputer().fit_transform(X) - by_date).to_numpy().max() > 1e-3
    )  # the row number is another clock


def test_an_imputation_says_what_it_holds():
    X = channels(100, 2)
    X[40:45, 1] = X[-2:, 0] = X[-2:, 1] = np.nan
    with pytest.warns(ExtrapolationWarning):
        text = repr(flm.FLMImputer().fit(X).impute(X))
    assert text.startswith("Imputation of 100 rows: 9 values filled, 4 of them extrapolated\n  0: 2 filled, standard")
    series = pd.Series(X[:98, 1], name="load")
    imputer = flm.FLMImputer().fit(series)
    assert "\n  load: 5 filled, standard deviation about " in repr(imputer.impute(series))
    assert imputer.model_.coupled is None
    assert len(imputer.model_.dense.spectra) == 1


@pytest.mark.slow
def test_a_time_column_is_the_clock_and_stays():
    X = channels(150, 2)
    dates = pd.date_range("2024-03-01", periods=150, freq="30min")
    frame = pd.DataFrame({"when": dates, "a": X[:, 0], "b": X[:, 1]})
    holed = frame.copy()
    holed.loc[40:50, "a"] = np.nan
    shuffled = holed.sample(frac=1, random_state=0)
    filled = flm.FLMImputer(time="when").fit(holed).transform(holed)
    pd.testing.assert_series_equal(filled["when"], frame["when"])
    again = flm.FLMImputer(time="when").fit(shuffled).transform(shuffled)
    pd.testing.assert_frame_equal(again.sort_index(), filled, atol=1e-4)
    numbers = np.column_stack([np.arange(150.0), X])
    numbers[40:51, 1] = np.nan
    np.testing.assert_allclose(flm.FLMImputer(time=0).fit(numbers).transform(numbers)[:, 1], filled["a"], atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_irregular_clocks(method):
    rng = np.random.default_rng(2)
    t = np.sort(rng.uniform(0, 300, 300))
    X = np.stack([t, np.sin(0.26 * t), 5 + np.cos(0.26 * t)], axis=1) + [0, 0.05, 0.05] * rng.normal(size=(300, 3))
    hidden = rng.random(X.shape) < 0.2
    hidden[:, 0] = False
    hidden[[0, -1]] = False
    filled = flm.FLMImputer(time=0, method=method).fit_transform(np.where(hidden, np.nan, X))
    assert np.abs(filled - X)[hidden].mean() < 0.1
    # the row number would be the wrong clock
    blind = flm.FLMImputer(method=method).fit_transform(np.where(hidden, np.nan, X)[:, 1:])
    assert np.abs(filled - X)[hidden].mean() < np.abs(blind - X[:, 1:])[hidden[:, 1:]].mean()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_fitted_on_one_table_and_applied_to_another(method):
    X = channels(600)
    rng = np.random.default_rng(3)
    hidden = rng.random(X.shape) < 0.2
    hidden[[0, 399, 400, -1]] = False
    holed = np.where(hidden, np.nan, X)
    index = pd.date_range("2024-01-01", periods=600, freq="h")
    frame = pd.DataFrame(holed, index=index)
    imputer = flm.FLMImputer(method=method).fit(frame.iloc[:400])
    part = imputer.transform(frame.iloc[400:]).to_numpy()
    assert np.abs(part - X[400:])[hidden[400:]].mean() < 0.45
    complete = pd.DataFrame(X[400:], index=index[400:])
    pd.testing.assert_frame_equal(imputer.transform(complete), complete)


@pytest.mark.parametrize(("method", "columns"), [("coupled", 2), ("dense", 1)])
def test_forecasting_is_flagged_or_refused(method, columns):
    X = channels(300, columns)
    holed = X.copy()
    holed[-10:] = np.nan
    holed[100:105, 0] = np.nan
    imputer = flm.FLMImputer(method=method).fit(holed)
    with pytest.warns(ExtrapolationWarning, match=f"{10 * columns} missing values lie outside the time span"):
        found = imputer.impute(holed)
    assert found.extrapolated.sum() == 10 * columns
    assert found.extrapolated[-10:].all()
    assert found.filled.sum() == 10 * columns + 5
    assert found.std[-1, 0] > found.std[-10, 0]  # error bars grow
    with pytest.raises(ValueError, match="`X` must have observed values on both sides of every hole"):
        imputer.set_params(extrapolation="refuse").transform(holed)


def test_a_channel_that_ends_early_is_no_forecast_when_others_go_on():
    X = channels(300, 2)
    holed = X.copy()
    holed[-30:, 0] = np.nan
    found = flm.FLMImputer().fit(holed).impute(holed)
    assert not found.extrapolated.any()
    assert np.abs(found.values - X)[-30:, 0].mean() < 0.4


@pytest.mark.slow
def test_the_fitted_table_has_error_bars_of_its_own():
    X = channels(4000, 2, noise=0.2)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    imputer = flm.FLMImputer().fit(X)
    own, other = imputer.impute(X, fitted=True), imputer.impute(X)
    np.testing.assert_array_equal(own.values, other.values)
    np.testing.assert_array_equal(imputer.fit_transform(X), own.values)
    assert other.calibrations == imputer.calibrations_
    points = np.isnan(X) & (own.kinds == 0)
    ratio = own.calibrations[0].factor / other.calibrations[0].factor
    np.testing.assert_allclose(own.std[points] / other.std[points], ratio, rtol=1e-12)


@pytest.mark.slow
def test_the_blend_does_no_harm():
    rng = np.random.default_rng(5)
    # a random walk that straight lines fill best, a wave that they do not, and noise in which nothing helps
    t = np.arange(300)
    X = np.stack([np.cumsum(rng.normal(size=300)), np.sin(0.9 * t), rng.normal(size=300)], axis=1)
    for kind in ("points", "blocks"):
        hidden = holes(X.shape, kind, rng)
        holed = np.where(hidden, np.nan, X)
        filled = flm.FLMImputer().fit_transform(holed)
        linear = pd.DataFrame(holed).interpolate().to_numpy()
        ours, theirs = (np.array([np.abs(v - X)[hidden[:, c], c].mean() for c in range(3)]) for v in (filled, linear))
        assert (ours < 1.05 * theirs).all(), (kind, ours / theirs)
        assert ours[1] < 0.2 * theirs[1]


@pytest.mark.slow
def test_error_bars_cover_gaps_of_every_kind_and_their_means():
    inside = {"one": [], "all": []}
    means = []
    for seed in range(2):
        X = channels(2400, 3, seed, noise=0.2)
        for kind in inside:
            rng, hidden = np.random.default_rng(10 + seed), np.zeros(X.shape, bool)
            for start in range(30, 2300, 60):
                where = slice(None) if kind == "all" else rng.integers(3)
                hidden[start : start + 24, where] = True
            holed = np.where(hidden, np.nan, X)
            found = flm.FLMImputer().fit(holed).impute(holed, fitted=True)
            for level in (0.68, 0.95):
                lower, upper = found.interval(level)
                inside[kind].append(((lower < X) & (upper > X))[hidden].mean())
            if kind == "one":
                drawn = found.sample(100)
                for start in range(30, 2300, 60):
                    c = int(np.argmax(hidden[start]))
                    of_gap = drawn[:, start : start + 24, c].mean(axis=1)
                    low, high = np.quantile(of_gap, [0.025, 0.975])
                    means.append(low < X[start : start + 24, c].mean() < high)
    for kind, covered in inside.items():
        assert abs(np.mean(covered[::2]) - 0.68) <= 0.08, (kind, covered)  # of six seeds: 0.72 and 0.71
        assert abs(np.mean(covered[1::2]) - 0.95) <= 0.04, (kind, covered)
    assert np.mean(means) >= 0.82  # of 78; independent errors would cover 40 % or so


@pytest.mark.slow
def test_error_bars_cover_gaps_of_a_short_series():
    """Few gaps of 480 rows can be hidden at a time: they are hidden several times, where there is room, and as long as these."""
    covered, errors, lines = [], [], []
    for seed in (3, 4, 5):
        rng, t = np.random.default_rng(seed), np.arange(480.0)
        wandering = lfilter([0.3], [1, -0.8], rng.normal(size=480))
        X = (np.sin(2 * np.pi * t / 12) + 0.4 * np.cos(2 * np.pi * t / 6) + wandering)[:, None]
        hidden, rng = np.zeros(X.shape, bool), np.random.default_rng(50 + seed)
        for start in range(3, 468, 18):
            first = start + rng.integers(0, 9)
            hidden[first : first + 6] = True
        holed = np.where(hidden, np.nan, X)
        found = flm.FLMImputer().fit(holed).impute(holed, fitted=True)
        bands = [found.interval(level) for level in (0.68, 0.95)]
        covered.append([((lower < X) & (upper > X))[hidden].mean() for lower, upper in bands])
        errors.append(np.abs(found.values - X)[hidden].mean())
        lines.append(np.abs(straight(t, holed) - X)[hidden].mean())
    assert np.abs(np.mean(covered, axis=0) - [0.68, 0.95]).max() <= 0.06, covered  # without all that 0.49 and 0.80
    assert np.mean(errors) < 0.52 * np.mean(lines)  # 0.61


@pytest.mark.slow
def test_samples_of_their_own_and_tables_that_grow():
    X = channels(960)
    cube = X.reshape(20, 48, 3).copy()
    hidden = np.random.default_rng(6).random(cube.shape) < 0.2
    holed = np.where(hidden, np.nan, cube)
    imputer = flm.FLMImputer().fit(holed)
    found = imputer.impute(holed, fitted=True)
    assert found.values.shape == found.std.shape == found.filled.shape == (20, 48, 3)
    assert found.sample(2).shape == (2, 20, 48, 3)
    assert np.abs(found.values - cube)[hidden].mean() < 0.2
    # a sample is filled from its own values, wherever it stands
    np.testing.assert_allclose(imputer.transform(holed[::-1])[::-1], found.values, atol=1e-6)
    grown = flm.FLMImputer().partial_fit(X[:480])
    before = grown.model_.coupled.spectra[0].covariance.copy()
    grown.partial_fit(X[480:])
    assert grown.model_.coupled.num_rows == 960
    assert np.abs(grown.model_.coupled.spectra[0].covariance - before).max() > 1e-3
    table = X.copy()
    table[100:110, 0] = np.nan
    assert np.abs(grown.transform(table) - X)[100:110, 0].mean() < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_fit_tells_how_far_it_is(method, capsys, tmp_path):
    X = channels(120, 2)
    X[50:60, 0] = np.nan
    told = []
    imputer = flm.FLMImputer(method=method, progress=told.append).fit(X)
    shares = [event.share for event in told]
    assert shares == sorted(shares)
    assert (told[-1].stage, told[-1].share) == ("fitted", 1.0)
    assert clone(imputer).progress == told.append
    del told[:]
    imputer.transform(X)
    assert {event.stage for event in told} == {"filling"}
    assert capsys.readouterr().out == ""
    flm.save(imputer, tmp_path / "imputer")
    assert flm.load(tmp_path / "imputer").progress is False
    imputer.set_params(progress=True).fit(X)
    assert "100% fitted" in capsys.readouterr().out


@pytest.mark.parametrize("method", METHODS)
def test_round_trip(tmp_path, method):
    X = channels(200, 2)
    X[50:60, 0] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b"])
    imputer = flm.FLMImputer(method=method).fit(frame)
    found = imputer.impute(frame)
    joblib.dump(imputer, tmp_path / "joblib")
    flm.save(imputer, tmp_path / "safetensors")
    for back in (joblib.load(tmp_path / "joblib"), flm.load(tmp_path / "safetensors")):
        assert back.get_params() == imputer.get_params()
        for a, b in zip(back.impute(frame), found, strict=True):
            pd.testing.assert_frame_equal(a, b)
        assert list(back.get_feature_names_out()) == ["a", "b"]
        assert back.calibrations_ == imputer.calibrations_


@pytest.mark.slow
def test_wide_tables_are_coupled_in_groups():
    rng = np.random.default_rng(4)
    base = np.sin(2 * np.pi * np.arange(96) / 24)[:, None]
    X = base * rng.choice([-1, 1], 20) + 0.1 * rng.normal(size=(96, 20))
    hidden = rng.random(X.shape) < 0.1
    imputer = flm.FLMImputer(window=8, method="coupled").fit(np.where(hidden, np.nan, X))
    assert [len(group) for group in imputer.model_.coupled.groups] == [10, 10]
    filled = imputer.transform(np.where(hidden, np.nan, X))
    assert np.abs(filled - X)[hidden].mean() < 0.2


@pytest.mark.slow
def test_in_a_pipeline():
    X = channels(200)
    y = X.sum(axis=1)
    X[::9, 1] = np.nan
    piped = make_pipeline(flm.FLMImputer(), flm.FLMRegressor(max_columns=64)).fit(X, y)
    assert piped.score(X, y) > 0.98


TABLE = channels(60, 2)
CALLS = [
    ({"method": "spline"}, "`method` must be one of 'auto', 'coupled', 'dense'; got 'spline'."),
    ({"extrapolation": "no"}, "`extrapolation` must be 'flag' or 'refuse'; got 'no'."),
    ({"window": 2}, "`window` must be an integer of at least 4; got 2."),
    ({"time": 7}, "`time` must be a column's position below 2 when X is an array; got 7."),
]


@pytest.mark.parametrize(("options", "message"), CALLS, ids=[next(iter(o)) for o, _ in CALLS])
def test_bad_options_are_said(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        flm.FLMImputer(**options).fit(TABLE)


def test_bad_tables_are_said():
    with pytest.raises(ValueError, match="`X` must have an observed value in every column; got none in column 1"):
        flm.FLMImputer().fit(np.column_stack([TABLE[:, 0], np.full(60, np.nan)]))
    frame = pd.DataFrame(TABLE, columns=["hour", "load"])
    with pytest.raises(ValueError, match=r"got 'hours'\. Did you mean 'hour'"):
        flm.FLMImputer(time="hours").fit(frame)
    frame.loc[3, "hour"] = np.nan
    with pytest.raises(ValueError, match="`time` must have no missing values; got 1 in column 'hour'"):
        flm.FLMImputer(time="hour").fit(frame)
    with pytest.raises(ValueError, match="`X` must have a column besides `time`"):
        flm.FLMImputer(time=0).fit(TABLE[:, :1])


@pytest.mark.parametrize("value", [0.0, 3.0])
@pytest.mark.parametrize("num_channels", [1, 2])
def test_a_constant_stays_constant(value, num_channels):
    X = np.full((200, num_channels), value)
    holed = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    np.testing.assert_allclose(flm.FLMImputer().fit(holed).impute(holed).values, X, atol=1e-6)


def test_a_channel_of_steps_that_straight_lines_fill_exactly():
    X = np.repeat(np.random.default_rng(1).integers(0, 2, 15), 20).astype(float)[:, None]
    holed = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    error = np.abs(np.asarray(flm.FLMImputer().fit(holed).impute(holed).values) - X)
    assert error.max() < 1.01
    assert np.median(error[np.isnan(holed)]) < 0.1


def test_one_channel_keeps_the_tails_that_were_measured_deep_in_gaps():
    rng = np.random.default_rng(0)
    t = np.arange(600)
    X = (np.sin(2 * np.pi * t / 40) + 0.3 * rng.standard_t(2.5, 600))[:, None]
    X[100:124] = np.nan
    for calibration in flm.FLMImputer().fit(X).model_.calibrations[2:4]:
        assert calibration.tail < 10
        assert calibration.unit < calibration.factor  # a Student distribution with such tails is narrower in its middle
