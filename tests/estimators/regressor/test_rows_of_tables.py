"""What the regressor must reach on series as people have them: trends, seasons, outliers, growing and colored noise."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import flm
from flm.estimators.regressor.spectral_prior import SpectralPrior


@pytest.mark.slow
def test_trend_and_season_five_years_ahead():
    months = np.arange(300) / 12
    f = 300 + 1.5 * months + 0.015 * months**2 + 3 * np.cos(2 * np.pi * months - 1)
    y = f + 0.3 * np.random.default_rng(0).normal(size=300)
    model = flm.FLMRegressor().fit(months[:240, None], y[:240])
    ahead = model.forecast(60)
    assert ((y[240:] >= ahead["lower"]) & (y[240:] <= ahead["upper"])).mean() >= 0.9
    assert np.sqrt(((ahead["mean"] - f[240:]) ** 2).mean()) / y[:240].std() <= 0.05
    assert len(model.spectrum_) == 1
    assert model.spectrum_.period[0, 0] == pytest.approx(1, abs=4 * model.spectrum_.period_error[0, 0])


def slow_series(seed, is_smooth):
    """Thirty years of quarters: a trend, a season, a continuum that forgets in a few years, and noise."""
    rng, t = np.random.default_rng(seed), np.arange(120) / 4
    apart = np.abs(t[:, None] - t)
    covariance = np.exp(-0.5 * (apart / 2.5) ** 2) if is_smooth else np.exp(-apart / 4)
    slow = np.linalg.cholesky(covariance + 1e-8 * np.eye(120)) @ rng.normal(size=120)
    return t, 300 + 0.5 * t + 2 * np.cos(2 * np.pi * t - 1) + slow + 0.3 * rng.normal(size=120)


@pytest.mark.slow
def test_bands_five_years_beyond_a_record_with_a_continuum(tmp_path):
    inside, widths, kinds = [], [], set()
    for seed in range(100, 102):  # four series: coverage of one series is that of one slow error
        for is_smooth in (False, True):
            t, y = slow_series(seed, is_smooth)
            model = flm.FLMRegressor().fit(t[:100, None], y[:100])
            ahead = model.forecast(20)
            inside.append(((y[100:] >= ahead["lower"]) & (y[100:] <= ahead["upper"])).mean())
            widths.append((ahead["upper"] - ahead["lower"]).max() / y[:100].std())
            kinds.add(model.kind_)
    assert np.mean(inside) >= 0.88, inside
    assert np.median(widths) <= 4, widths
    assert max(widths) <= 6, widths
    assert "both" in kinds
    flm.save(model, tmp_path / "model.safetensors")
    pd.testing.assert_frame_equal(flm.load(tmp_path / "model.safetensors").forecast(20), ahead)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "is_smooth"), [(0, True), (1, False)])
def test_far_beyond_the_record_a_continuum_is_known_to_no_better_than_the_spread_of_the_data(seed, is_smooth):
    t, y = slow_series(seed, is_smooth)
    model = flm.FLMRegressor(frequencies="lattice").fit(t[:100, None], y[:100])
    std = model.forecast(400)["std"]
    assert std.iloc[-200:].min() >= y[:100].std()
    assert std.iloc[0] < 0.5 * y[:100].std()


@pytest.mark.slow
def test_carbon_dioxide_by_quarters_five_years_ahead():
    co2 = pytest.importorskip("statsmodels.datasets.co2")
    quarters = co2.load_pandas().data["co2"].dropna().resample("QS").mean().dropna()
    for first, frequencies in (("1958", "auto"), ("1970", "lattice")):  # the whole record is the hard one
        y = quarters[first:]
        t = np.asarray((y.index - y.index[0]).days)[:, None] / 365.25
        model = flm.FLMRegressor(frequencies=frequencies).fit(t[:-20], y[:-20])
        mean, std = model.predict(t[-20:], return_std=True)
        assert (np.abs(y[-20:] - mean) < 1.96 * std).mean() >= 0.85
        assert 2 * 1.96 * std.max() < y[:-20].std()


def test_the_trend_is_told_in_units_of_the_data():
    t = np.arange(1000.0, 1100.0)
    y = 5 + 0.25 * t - 0.01 * (t - 1050) ** 2
    for trend, degree in (("linear", 1), ("quadratic", 2), (None, 0)):
        model = flm.FLMRegressor(trend=trend, num_subnets=1, frequencies="lines").fit(t[:, None], y)
        assert model.trend_.shape == (degree + 1,)
    model = flm.FLMRegressor(trend="quadratic", num_subnets=1, frequencies="lines").fit(t[:, None], y)
    whole = np.asarray(model.series_(t)) + np.polynomial.polynomial.polyval(t, model.trend_)
    np.testing.assert_allclose(whole, y, rtol=1e-6)
    with pytest.raises(
        ValueError, match=r"^`trend` must be one of \(None, 'linear', 'quadratic', 'auto'\); got 'cubic'"
    ):
        flm.FLMRegressor(trend="cubic").fit(t[:, None], y)


def two_waves(seed, n=400):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))
    return rng, x, lambda x: np.sin(9 * x) + 0.5 * np.cos(31 * x)


@pytest.mark.slow
def test_outliers_hardly_move_the_curve():
    grid, clean, dirty = np.linspace(0.01, 0.99, 300), [], []
    for seed in range(2):
        rng, x, f = two_waves(seed, 250)
        y = f(x) + 0.2 * rng.normal(size=250)
        spoiled = y + np.where(rng.random(250) < 0.05, 6 * rng.normal(size=250), 0)
        for found, values in ((clean, y), (dirty, spoiled)):
            model = flm.FLMRegressor(trend=None).fit(x[:, None], values)
            found.append(np.sqrt(((model.predict(grid[:, None]) - f(grid)) ** 2).mean()))
        assert model.noise_kind_ == "student"
    assert np.mean(dirty) <= 1.3 * np.mean(clean), (clean, dirty)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["feature", "level"])
def test_bands_follow_noise_that_grows_fivefold(by):
    rng, x, f = two_waves(0, 600)
    f = f if by == "feature" else lambda x: 2 + 8 * x + np.sin(20 * x)
    deviation = (lambda x: 0.1 + 0.4 * x) if by == "feature" else lambda x: 0.1 * f(x)
    y = f(x) + deviation(x) * rng.normal(size=600)
    held = rng.uniform(0, 1, 6000)
    new = f(held) + deviation(held) * rng.normal(size=6000)
    model = flm.FLMRegressor(trend=None if by == "feature" else "auto").fit(x[:, None], y)
    assert model.noise_kind_ == "growing"
    mean, std = model.predict(held[:, None], return_std=True)
    order = np.argsort(deviation(held))
    inside = (np.abs(new - mean) < 1.96 * std)[order]
    assert 0.92 <= inside[:2000].mean() <= 0.98
    assert 0.92 <= inside[-2000:].mean() <= 0.98


@pytest.mark.slow
def test_lines_of_sunspots_agree_over_the_centuries():
    datasets = pytest.importorskip("statsmodels.datasets")
    table = datasets.sunspots.load_pandas().data
    years, number = table["YEAR"].to_numpy(), table["SUNACTIVITY"].to_numpy()
    found = []
    for part in np.array_split(np.arange(len(years)), 3):
        spectrum = flm.FLMRegressor(noise="white", trend=None).fit(years[part, None], number[part]).spectrum_
        # A wave of a lattice has no error: it is known to half of the lattice's resolution.
        period, error = spectrum.period[0, 0], spectrum.period_error[0, 0]
        found.append((period, period**2 / (2 * len(part)) if np.isnan(error) else error))
    for (a, da), (b, db) in [(found[i], found[j]) for i, j in ((0, 1), (1, 2), (0, 2))]:
        assert abs(a - b) < 3 * np.hypot(da, db), found


# Whatever the evidence chooses, and on a lattice alone; with sines only, the second is at 0.5.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "largest", "asked"),
    [(1, 0.3, {"trend": None}), (9, 0.4, {"frequencies": "lattice", "trend": None})],
    ids=["1", "9"],
)
def test_sunspots_held_out_are_read_off_a_cycle_and_a_continuum(seed, largest, asked):
    datasets = pytest.importorskip("statsmodels.datasets")
    table = datasets.sunspots.load_pandas().data
    years, number = table["YEAR"].to_numpy(), table["SUNACTIVITY"].to_numpy()
    rng = np.random.default_rng(seed)
    held = np.isin(np.arange(309), rng.choice(309, 77, replace=False))
    model = flm.FLMRegressor(**asked).fit(years[~held, None], number[~held])
    error = np.sqrt(((model.predict(years[held, None]) - number[held]) ** 2).mean()) / number.std()
    straight = np.interp(years[held], years[~held], number[~held])
    assert error < largest
    assert error < 0.8 * np.sqrt(((straight - number[held]) ** 2).mean()) / number.std()
    assert len(model.frequencies_) > 100  # to where the evidence ends


def test_slopes_of_a_prior_with_overtones_agree_with_differences():
    prior = replace(SpectralPrior.start(1), harmonics=(1, 2)).with_band(20.0).with_band(33.0)
    omega = np.linspace(0.0, 90.0, 61)[:, None]
    for i, slope in enumerate(prior.log_variances(omega)[1].T):
        up, down = (
            replace(prior, theta=prior.theta + d * np.eye(len(prior.theta))[i]).log_variances(omega)[0]
            for d in (1e-5, -1e-5)
        )
        np.testing.assert_allclose(slope, (up - down) / 2e-5, atol=1e-7)


@pytest.mark.slow
def test_the_evidence_of_noise_that_is_asked_for():
    rng, x, f = two_waves(3, 200)
    y = f(x) + 0.2 * rng.normal(size=200)
    assert flm.FLMRegressor(frequencies="lattice").fit(x[:, None], y).noise_kind_ == "white"
    for kind in ("white", "student", "growing"):
        model = flm.FLMRegressor(frequencies="lattice", noise=kind).fit(x[:, None], y)
        assert model.noise_kind_ == kind
        assert model.noise_ == pytest.approx(0.2, rel=0.3)


@pytest.mark.slow
def test_a_hundred_columns_of_which_three_matter():
    rng = np.random.default_rng(0)
    X, held = rng.uniform(0, 1, (400, 100)), rng.uniform(0, 1, (500, 100))
    f = lambda X: np.sin(5 * X[:, 7]) + 2 * X[:, 50] + X[:, 98] ** 2
    model = flm.FLMRegressor(max_columns=128).fit(X, f(X) + 0.1 * rng.normal(size=400))
    assert ((model.predict(held) - f(held)) ** 2).mean() < 0.1 * f(held).var()
    assert np.count_nonzero(model.frequencies_.any(axis=0)) <= 60


@pytest.mark.parametrize(
    ("stamps", "ahead"),
    [
        ("MS", ["2020-01-01", "2020-02-01", "2020-03-01"]),
        ("ME", ["2020-01-31", "2020-02-29", "2020-03-31"]),
        ("QS", ["2020-01-01", "2020-04-01", "2020-07-01"]),
        ("YS", ["2020-01-01", "2021-01-01", "2022-01-01"]),
        ("2YS", ["2021-01-01", "2023-01-01", "2025-01-01"]),
        ("30D", ["2019-12-12", "2020-01-11", "2020-02-10"]),
    ],
)
def test_forecasts_of_months_follow_the_calendar(stamps, ahead):
    days = pd.date_range(end="2019-12-31", periods=60, freq=stamps) if stamps != "30D" else None
    days = pd.date_range("2015-01-07", periods=60, freq="30D") if days is None else days
    model = flm.FLMRegressor(frequencies="lines").fit(days.delete(20), np.cos(np.arange(60.0))[np.arange(60) != 20])
    assert [f"{day:%Y-%m-%d}" for day in model.forecast(3).index] == ahead
    pd.testing.assert_frame_equal(model.forecast(until=ahead[2]), model.forecast(3))
    assert len(model.forecast(until=pd.Timestamp(ahead[2]) - pd.Timedelta(1, "D"))) == 2


def test_forecasts_of_several_series():
    days = pd.date_range("2024-01-01", periods=120)
    week = np.arange(127) * 2 * np.pi / 7
    truth = np.stack([5 + np.sin(week), 2 * np.cos(week)], axis=1)
    y = truth[:120] + 0.1 * np.random.default_rng(0).normal(size=(120, 2))
    ahead = flm.FLMRegressor(trend=None, frequencies="lines").fit(days, y).forecast(7)
    np.testing.assert_allclose(ahead[["mean[0]", "mean[1]"]], truth[120:], atol=0.15)
    named = flm.FLMRegressor(trend=None, frequencies="lines").fit(days, pd.DataFrame(y, columns=["north", "south"]))
    assert list(named.forecast(7).columns[:4]) == ["mean[north]", "mean[south]", "std[north]", "std[south]"]


def test_forecasts_start_after_the_last_row_whatever_the_bounds(tmp_path):
    t = np.arange(200.0)[:, None]
    model = flm.FLMRegressor(frequencies="lines", bounds=[[0, 400]]).fit(t[:150], np.sin(0.3 * t[:150, 0]))
    assert list(model.forecast(3).index) == [150, 151, 152]
    model.partial_fit(t[150:], np.sin(0.3 * t[150:, 0]))
    assert list(model.forecast(until=202).index) == [200, 201, 202]
    flm.save(model, tmp_path / "fit.safetensors")
    pd.testing.assert_frame_equal(flm.load(tmp_path / "fit.safetensors").forecast(3), model.forecast(3))


def test_a_series_of_dates_is_one_feature():
    days = pd.Series(pd.date_range("2024-01-01", periods=60), name="day")
    y = np.sin(np.arange(60) * 2 * np.pi / 7)
    for clock in (days, days.dt.tz_localize("UTC"), days.dt.to_period("D")):
        model = flm.FLMRegressor().fit(clock, y)
        assert model.input_names_ == ("day",)
        assert model.spectrum_.period[0, 0] == pytest.approx(7, rel=1e-3)
        np.testing.assert_array_equal(model.predict(clock), model.predict(clock.to_frame()))


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series])
def test_holes_of_the_outputs_are_refused_in_our_own_words(kind):
    t, y = np.arange(30.0)[:, None], np.sin(np.arange(30.0))
    y[[3, 7]] = np.nan
    with pytest.raises(ValueError, match=r"^`y` must have no NaN; got 2 of 30\. Leave these rows out\.$"):
        flm.FLMRegressor().fit(t, kind(y))
    both = pd.DataFrame({"a": np.ones(30), "b": y})
    with pytest.raises(ValueError, match=r"^`y` must have no NaN; got 2 in 'b'\. Leave these rows out\.$"):
        flm.FLMRegressor().fit(t, both)
