"""Transforms and periodograms against sums and least squares written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flm.estimators.periodogram import Clock, LombScargle, NonuniformFFT, lattice_power


@given(st.integers(1, 300), st.floats(0.01, 3.0), st.integers(0, 1000))
def test_nonuniform_fft_is_the_sum(highest, step, seed):
    rng = np.random.default_rng(seed)
    times, values = rng.uniform(-50, 50, 40), rng.normal(size=(40, 2))
    plan = NonuniformFFT(times, step, highest)
    waves = np.exp(-1j * np.outer(step * np.arange(highest + 1), times))
    np.testing.assert_allclose(plan.forward(values), waves @ values, atol=1e-9 * np.abs(values).sum())
    g = rng.normal(size=highest + 1) + 1j * rng.normal(size=highest + 1)
    np.testing.assert_allclose(plan.backward(g), (waves.conj().T @ g).real, atol=1e-9 * np.abs(g).sum())


def test_clock_tells_regular_from_irregular():
    rng = np.random.default_rng(0)
    ticks = np.sort(rng.choice(1000, 600, replace=False))
    found = Clock.of(3.7 + 0.2 * ticks)
    assert found.step == pytest.approx(0.2)
    assert found.highest_frequency == pytest.approx(np.pi / 0.2)
    assert Clock.of(np.sort(rng.uniform(0, 1, 50))).step is None
    assert Clock.of(np.repeat(np.arange(20.0), 3)).step == pytest.approx(1.0)


def drop(times, weights, values, frequency):
    """By how much one sinusoid and a mean reduce the weighted sum of squares, beyond the mean alone."""
    root = np.sqrt(weights)

    def misfit(A):
        return np.sum((root * (values - A @ np.linalg.lstsq(root[:, None] * A, root * values, rcond=None)[0])) ** 2)

    one = np.ones((len(times), 1))
    waves = np.column_stack([one, np.cos(frequency * times), np.sin(frequency * times)])
    return misfit(one) - misfit(waves)


@pytest.mark.parametrize("clock", ["regular", "gaps", "irregular"])
def test_lomb_scargle_is_least_squares(clock):
    rng = np.random.default_rng(1)
    times = {
        "regular": np.arange(60.0),
        "gaps": np.sort(rng.choice(90, 60, replace=False)).astype(float),
        "irregular": np.sort(rng.uniform(0, 60, 60)),
    }[clock]
    weights, values = rng.uniform(0.5, 2, 60), rng.normal(size=60)
    scan = LombScargle(times, weights)
    power = scan.power(values[:, None])[:, 0]
    for i in [3, 10, 57, len(power) // 2, len(power) - 3]:
        assert power[i] == pytest.approx(drop(times, weights, values, scan.frequencies[i]), rel=1e-7, abs=1e-9)
    assert power[0] == 0


def test_lattice_power_is_the_sum_over_sign_flips():
    rng = np.random.default_rng(2)
    z, values = rng.uniform(-1, 1, (30, 3)), rng.normal(size=(30, 2))
    base = np.array([1.0, 0.7, 2.0])
    points, power = lattice_power(z, values, base, np.array([3, 2, 2]), 3)
    assert len(points) == 3 + 2 + 2 + 6 + 6 + 4 + 12
    for point, found in zip(points, power, strict=True):
        nonzero = np.flatnonzero(point)
        total = 0.0
        for bits in range(2 ** (len(nonzero) - 1)):
            signs = np.ones(3)
            signs[nonzero[1:]] = [1 - 2 * (bits >> i & 1) for i in range(len(nonzero) - 1)]
            total = total + np.abs(np.exp(-1j * z @ (signs * base * point)) @ values) ** 2
        np.testing.assert_allclose(found, total, rtol=1e-10)
