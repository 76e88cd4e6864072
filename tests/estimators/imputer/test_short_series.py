"""Single series of few values: no harm against straight lines, and intervals that hold."""

import numpy as np
import pytest

import flm


def walk(rng):
    """A random walk of 100 rows."""
    return np.cumsum(rng.normal(size=100))


def forgetful(rng):
    """AR(1) noise of correlation 0.8, 100 rows."""
    e = rng.normal(size=200)
    for i in range(1, 200):
        e[i] = 0.8 * e[i - 1] + 0.6 * e[i]
    return e[100:]


def season(rng):
    """A sine in noise, 80 rows."""
    return np.sin(2 * np.pi * np.arange(80) / 12 + rng.uniform(0, 6)) + 0.1 * rng.normal(size=80)


@pytest.mark.parametrize(("make", "largest"), [(walk, 1.05), (forgetful, 1.05), (season, 0.7)])
def test_half_of_a_short_series_is_filled_no_worse_than_by_straight_lines(make, largest):
    ours, lines, inside, count = 0.0, 0.0, np.zeros(2), 0
    for seed in range(8):
        y, rng = make(np.random.default_rng(1000 + seed)), np.random.default_rng(seed)
        hidden = rng.uniform(size=len(y)) < 0.5
        hidden[[0, -1]] = False
        X = np.where(hidden, np.nan, y)
        found = flm.FLMImputer().fit(X[:, None]).impute(X[:, None], fitted=True)
        straight = np.interp(np.flatnonzero(hidden), np.flatnonzero(~hidden), y[~hidden])
        ours += np.abs(found.values[hidden, 0] - y[hidden]).sum() / y.std()
        lines += np.abs(straight - y[hidden]).sum() / y.std()
        ends = [found.interval(level) for level in (0.68, 0.95)]
        inside += [((low[hidden, 0] <= y[hidden]) & (y[hidden] <= high[hidden, 0])).sum() for low, high in ends]
        count += hidden.sum()
    assert ours < largest * lines
    assert 0.58 < inside[0] / count < 0.85
    assert inside[1] / count > 0.88
