"""Channels that vary in proportion to their size, that depend on others by a curve, or that mostly stay the same."""

import numpy as np
import pytest

import flm
from flm.estimators.imputer.lags import LagRegression, straight
from flm.estimators.imputer.units import Warp, warp_of


def peaks(rng, n=600):
    """Cycles of a dozen rows, of very different heights."""
    t = np.arange(float(n))
    wander = np.convolve(rng.normal(size=n + 8), np.ones(9) / 3, "valid")
    return np.exp(2 * np.sin(2 * np.pi * t / 12) + 0.6 * wander + 0.2 * rng.normal(size=n))


@pytest.mark.parametrize("warp", [Warp(), Warp("root"), Warp("log", 0.3)])
def test_scales_lead_back(warp):
    x = np.array([0.0, 1e-3, 2.0, 1e6])
    np.testing.assert_allclose(warp.back(warp(x)), x, rtol=1e-12, atol=1e-12)
    assert warp.back(np.array([-1e3, 1e3])).min() >= 0 or not warp.kind
    assert np.isfinite(warp(np.array([-5.0, 0.0]))).all()


def test_a_scale_is_taken_where_lines_on_it_are_surely_better():
    rng = np.random.default_rng(0)
    t, x = np.arange(600.0), peaks(rng)
    holed = np.where(rng.random(600) < 0.3, np.nan, x)
    assert warp_of(t, holed).kind
    assert warp_of(t, np.exp(0.01 * t)).kind == "log"
    for plain in (
        rng.normal(size=600),
        10 + rng.normal(size=600),
        rng.exponential(size=600),  # nothing joins its rows
        100 + np.cumsum(rng.normal(size=600)),
        x - 1.0,  # has negative values
        np.ones(600),
        np.full(600, np.nan),
    ):
        assert warp_of(t, plain) == Warp()


def test_peaks_are_filled_on_their_scale_with_intervals_that_reach_up():
    errors, inside = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = peaks(rng)[:, None]
        mask = rng.random(x.shape) < 0.15
        mask[[0, -1]] = False
        holed = np.where(mask, np.nan, x)
        found = flm.FLMImputer().fit(holed).impute(holed, fitted=True)
        shifted = flm.FLMImputer().fit_transform(holed - 1000.0) + 1000.0  # negative values: as they are
        lower, upper = found.interval(0.95)
        assert (lower[mask] >= 0).all()
        assert (upper - found.values > found.values - lower)[mask].all()
        assert (found.sample(20) >= 0).all()
        drawn = found.sample(200, seed=1)
        middle = np.median(drawn, axis=0)[mask]
        assert np.median(middle / found.values[mask]) == pytest.approx(1.0, abs=0.05)
        errors.append([np.abs(filled - x)[mask].mean() for filled in (found.values, shifted)])
        inside.append(((lower <= x) & (x <= upper))[mask].mean())
    ours, plain = np.mean(errors, axis=0)
    assert ours < 0.9 * plain
    assert 0.91 <= np.mean(inside) <= 0.99


def test_a_curve_of_the_regressors_is_learned():
    rng = np.random.default_rng(1)
    t = np.arange(1500.0)
    first, second = (np.sin(2 * np.pi * t / p) + 0.5 * rng.normal(size=1500) for p in (31, 47))
    values = np.stack([first, second, first * second], axis=1)
    values[:, 2] += 0.05 * rng.normal(size=1500)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    holed = values.copy()
    holed[rng.random(1500) < 0.1, 2] = np.nan
    gone = np.isnan(holed)
    error = lambda filled: np.abs(filled - values)[gone].mean()
    plain, curved = (LagRegression.learn(t, holed, rng, curved=curved) for curved in (False, True))
    assert error(curved.fill(t, holed)) < 0.5 * error(plain.fill(t, holed))
    assert error(flm.FLMImputer().fit_transform(holed)) < 0.5 * error(plain.fill(t, holed))
    # Where nothing is left to explain, nothing is added.
    noise = rng.normal(size=(1500, 2))
    holed = np.where(rng.random(noise.shape) < 0.1, np.nan, noise)
    plain, curved = (LagRegression.learn(t, holed, rng, curved=curved).fill(t, holed) for curved in (False, True))
    assert np.abs(curved - noise)[np.isnan(holed)].mean() < 1.03 * np.abs(plain - noise)[np.isnan(holed)].mean()


def test_a_channel_that_mostly_stays_the_same_is_filled_no_worse_than_by_lines():
    """The squared error is smallest for values between those that are usual and those that are rare, which are never seen."""
    ours, lines = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        t = np.arange(3000.0)
        day = np.sin(2 * np.pi * t / 24)
        haze = np.convolve(rng.random(3000) < 0.03, np.ones(3), "same") * rng.exponential(3, size=3000)
        values = np.stack([day + 0.3 * rng.normal(size=3000), 10.0 - np.minimum(haze, 10)], axis=1)
        holed = np.where(rng.random(values.shape) < 0.1, np.nan, values)
        gone = np.isnan(holed[:, 1])
        for filled, errors in ((flm.FLMImputer().fit_transform(holed), ours), (straight(t, holed), lines)):
            errors.append(np.abs(filled - values)[gone, 1].mean())
    assert np.mean(ours) <= 1.05 * np.mean(lines)


def hyperinflation(rng):
    """Prices of eighty quarters that rise ten-billionfold, at a pace that itself rises and falls."""
    pace = 0.28 * np.exp(0.5 * np.convolve(rng.normal(size=86), np.ones(7) / np.sqrt(7), "valid"))
    return np.exp(np.cumsum(pace) * 23 / pace.sum())


def test_values_over_orders_of_magnitude_are_filled_by_their_own_size():
    ours, lines = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = hyperinflation(rng)[:, None]
        mask = rng.random(x.shape) < 0.2
        mask[[0, -1]] = False
        holed = np.where(mask, np.nan, x)
        assert warp_of(np.arange(80.0), holed[:, 0]).kind == "log"
        model = flm.FLMImputer().fit(holed)
        assert model.impute(holed, fitted=True).plot().axes[0].get_yscale() == "log"
        for filled, errors in (
            (model.impute(holed, fitted=True).values, ours),
            (straight(np.arange(80.0), holed), lines),
        ):
            errors.append([np.abs(filled - x)[mask].mean() / x.mean(), np.abs(filled / x - 1)[mask].mean()])
        assert np.isfinite(model.transform(np.where(x < 10, 0.0, holed))).all()  # zeros have no logarithm
    assert (np.mean(ours, axis=0) < 0.8 * np.mean(lines, axis=0)).all()


def test_a_scale_goes_on_below_zero_for_other_tables():
    t = np.arange(400.0)
    x = np.exp(3 * np.sin(2 * np.pi * t / 40))[:, None]
    holed = np.where(t[:, None] % 9 == 4, np.nan, x)
    model = flm.FLMImputer().fit(holed)
    assert model._state.units.warps[0].kind
    other = 5 * np.sin(2 * np.pi * t / 40)[:, None]
    filled = model.transform(np.where(np.isnan(holed), np.nan, other))
    assert np.abs(filled - other).max() < 1.0
    assert (model.transform(holed) >= 0).all()
    huge = np.exp(np.linspace(0, 149 * np.log(10), 400))[:, None]
    holed = np.where(t[:, None] % 9 == 4, np.nan, huge)
    assert np.abs(flm.FLMImputer().fit_transform(holed) / huge - 1).max() < 0.1
