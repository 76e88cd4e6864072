"""Lag regression against ridge regression and cross-validation written out; what straight lines expect of themselves."""

import numpy as np
import pytest

import flm
from flm.estimators.imputer.lags import LagRegression, _Sums, _Way, line_deviations, straight


def two_waves(rng, n=800):
    t = np.arange(float(n))
    return t, np.stack([np.sin(0.9 * t), np.cos(0.9 * t)], axis=1) + 0.05 * rng.normal(size=(n, 2))


def around(values, rows):
    """Values of two channels within six rows, by lag and channel, the first at lag zero left out as zero; by steps; line."""
    block = np.stack([values[rows + lag] for lag in range(-6, 7)], axis=1)
    block[:, 6, 0] = 0.0
    first, second = block[:, :, 0], block[:, :, 1]
    steps = np.diff(first, axis=1)
    line = (first[:, 5] + first[:, 7]) / 2
    coordinates = np.c_[
        line, steps[:, :5], first[:, 7] - first[:, 5], steps[:, 7:], second[:, 6], np.diff(second, axis=1)
    ]
    return block.reshape(len(rows), 26), coordinates / coordinates.std(axis=0), line


def ridge(z, y, strength):
    """What ridge regression fits, and its degrees of freedom."""
    hat = z @ np.linalg.solve(z.T @ z + strength * np.eye(z.shape[1]), z.T)
    return hat @ y, np.trace(hat)


def test_lag_regression_is_ridge_regression_on_values_or_on_steps_beside_a_line():
    _, values = two_waves(np.random.default_rng(6), 120)
    rows = np.arange(6, 114)
    columns, coordinates, line = around(values, rows)
    y = values[rows, 0]
    sums = _Sums.of(columns, y)
    errors = {}
    for strength in (0.1, 10.0, 1000.0):
        for steps, z, toward in ((False, columns, 0.0), (True, coordinates, line)):
            fitted, freedom = ridge(z, y - toward, strength)
            found = sums.coefficients(_Way(steps, strength, 0.0))
            np.testing.assert_allclose(columns @ found, toward + fitted, atol=1e-8)
            assert abs(found[12]) < 1e-12  # not from itself
            way = _Way(steps, strength, 1.3 * freedom)
            errors[way] = np.sum((y - toward - fitted) ** 2) * len(y) / (len(y) - 1.3 * freedom) ** 2
            assert sums.expected(sums.left(found), way.freedom) == pytest.approx(errors[way], rel=1e-6)
    best = sums.best_way()
    assert sums.expected(sums.left(sums.coefficients(best)), best.freedom) <= min(errors.values()) * (1 + 1e-6)


def test_waves_are_filled_from_rows_nearby():
    rng = np.random.default_rng(6)
    t, values = two_waves(rng)
    holed = np.where(rng.random(values.shape) < 0.1, np.nan, values)
    error = lambda filled: np.abs(filled - values)[np.isnan(holed)].mean()
    lags = LagRegression.learn(t, holed, rng)
    assert error(lags.fill(t, holed)) < 0.35 * error(straight(t, holed))


def wandering(seed, n=200):
    """Three walks with a drift, of common and own steps, and two channels around a level, one the sum of the other and a walk."""
    rng = np.random.default_rng(seed)
    walks = np.cumsum(0.5 + rng.normal(size=(n, 1)) + rng.normal(size=(n, 3)), axis=0)
    level = rng.normal(size=n)
    X = np.c_[walks, level, level + np.diff(walks[:, 0], prepend=0.0)]
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "most"), [("points", 1.0), ("gaps of all", 1.1)])
def test_short_tables_of_walks_are_filled_no_worse_than_by_lines(kind, most):
    errors = {"ours": [], "lags": [], "lines": []}
    # In the last two tables, lags that are learned from all values fill gaps of all channels with values of several deviations.
    for seed in (0, 1, 2, 3) if kind == "points" else (0, 1, 6, 10):
        X = wandering(seed)
        t, rng = np.arange(float(len(X))), np.random.default_rng(100 + seed)
        hidden = rng.random(X.shape) < 0.3
        if kind == "gaps of all":
            hidden = np.broadcast_to(((t + rng.integers(50)) % 50 < 16)[:, None], X.shape).copy()
        hidden[[0, -1]] = False
        holed = np.where(hidden, np.nan, X)
        lags = LagRegression.learn(t, holed, rng).fill(t, holed)
        for name, filled in zip(errors, (flm.FLMImputer().fit_transform(holed), lags, straight(t, holed)), strict=True):
            errors[name].append(np.where(hidden, np.abs(filled - X), np.nan))
    ours, lags, lines = (np.nanmean(np.concatenate(of_name), axis=0) for of_name in errors.values())
    assert (ours < most * lines).all(), ours / lines
    if kind == "points":
        assert (lags < 1.02 * lines).all(), lags / lines


def test_lines_know_what_they_err_by():
    rng = np.random.default_rng(1)
    # Over a walk with steps of unit variance, the variance of a line's error is the depth; over white noise, 1 + (1 + 1) / 4.
    walk, noise = np.cumsum(rng.normal(size=20_000)), rng.normal(size=20_000)
    holed = np.stack([walk, noise], axis=1)
    holed[rng.random(holed.shape) < 0.3] = np.nan
    depths = np.tile([[0.5], [1.0], [4.0], [12.0]], (1, 2))
    found = line_deviations(np.arange(20_000.0), holed, depths)
    np.testing.assert_allclose(found[1:, 0], np.sqrt(depths[1:, 0]), rtol=0.1)
    np.testing.assert_allclose(found[:, 1], np.sqrt(1.5), rtol=0.05)
    assert (line_deviations(np.arange(2.0), np.zeros((2, 1)), np.ones((3, 1))) == 1).all()  # nothing is known


@pytest.mark.filterwarnings("error")
def test_lines_between_equal_times_say_nothing():
    t, values = np.repeat(np.arange(30.0), 8), np.sin(np.arange(240.0))[:, None]
    assert np.isfinite(line_deviations(t, values, np.ones((240, 1)))).all()
