"""Waves as columns: tables, derivatives by frequency, and the series that they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flm
from flm.estimators.waves import Scale, Waves

SEEDS = st.integers(0, 1000)


def direct(waves, z):
    theta = z @ waves.vectors.T
    return np.concatenate([np.cos(theta), np.sin(theta)[:, waves.has_sine]], axis=1)


@given(st.integers(1, 4), st.integers(1, 6), SEEDS)
def test_lattice_tables_are_the_direct_ones(m, n, seed):
    rng = np.random.default_rng(seed)
    integers = rng.integers(0, 9, (n, m))
    base = rng.uniform(0.2, 3, m)
    z = rng.uniform(-1, 1, (7, m))
    fast, plain = Waves.on_lattice(base, integers), Waves.of(base * integers)
    np.testing.assert_array_equal(fast.vectors, plain.vectors)
    np.testing.assert_allclose(fast.columns(z), direct(plain, z), atol=1e-13)
    np.testing.assert_allclose(plain.columns(z), direct(plain, z), atol=1e-13)
    assert fast.num_columns == (2 ** np.count_nonzero(integers, axis=1)).sum() == fast.columns(z).shape[1]


@pytest.mark.parametrize("degree", [0, 2])
def test_blocks_use_their_memory_again(degree):
    rng = np.random.default_rng(4)
    integers = np.array([[1, 0, 0], [0, 0, 0], [2, 5, 0], [0, 3, 0], [1, 1, 1], [0, 0, 4]])  # no sine in the middle
    waves, z = Waves.on_lattice(np.array([0.7, 1.1, 1.9]), integers, degree), rng.uniform(-1, 1, (90, 3))
    columns, memory = waves.blocks(), set()
    for block in np.split(z, [40, 80]):
        found = columns(block)
        memory.add(found.ctypes.data)
        np.testing.assert_allclose(found[:, : direct(waves, block).shape[1]], direct(waves, block), atol=1e-13)
        np.testing.assert_array_equal(found, waves.columns(block))
    assert len(memory) <= 2  # the last block is shorter


def test_a_subnet_costs_two_to_the_number_of_its_features():
    subnets = np.array([[0, 0, 0, 0], [0, 2, 0, 0], [1, 0, 0, 3], [1, 2, 3, 4.0]])
    assert Waves.of(subnets).num_columns == 1 + 2 + 4 + 16


@given(st.integers(1, 3), SEEDS)
def test_slopes_are_derivatives_by_the_frequencies(m, seed):
    rng = np.random.default_rng(seed)
    waves = Waves.of(rng.uniform(0.5, 4, (3, m)))
    z = rng.uniform(-1, 1, (5, m))
    c = rng.normal(size=(waves.num_columns, 2))
    columns, slopes = waves.columns_and_slopes(z, c)
    np.testing.assert_array_equal(columns, waves.columns(z))
    h = 1e-6
    for i in range(3 * m):
        step = np.zeros(3 * m)
        step[i] = h
        ends = [waves.moved(waves.subnets + s * step.reshape(3, m)).columns(z) @ c for s in (1, -1)]
        np.testing.assert_allclose(slopes[:, :, i], (ends[0] - ends[1]) / (2 * h), atol=1e-7)


def test_scale_keeps_a_constant_feature():
    scale = Scale.of(np.array([1.0, 5.0]), np.array([3.0, 5.0]))
    np.testing.assert_array_equal(scale(np.array([[1.0, 5.0], [3.0, 5.0]])), [[-1, 0], [1, 0]])


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 3, 7])
@pytest.mark.parametrize("outputs", [1, 2])
def test_series_is_the_prediction(m, outputs):
    rng = np.random.default_rng(m)
    X = 100 + 5 * rng.uniform(-1, 1, (80, m))
    y = np.stack([np.sin(X[:, 0]), X[:, -1] + 0.1 * X[:, 0] ** 2], axis=1)[:, :outputs]
    y = y[:, 0] if outputs == 1 else y
    model = flm.FLMRegressor(max_columns=60, frequencies="lattice", trend=None).fit(X, y)
    kind = flm.ExponentialSeries if m > 6 else flm.PhaseSeries
    assert isinstance(model.series_, kind)
    np.testing.assert_allclose(np.asarray(model.series_(X)), model.predict(X), rtol=1e-9, atol=1e-9)
    if m == 1:  # with a trend the series and the powers of X are the prediction
        model = flm.FLMRegressor(max_columns=60, frequencies="lattice", trend="linear").fit(X, y)
        both = np.asarray(model.series_(X)) + np.polynomial.polynomial.polyval(X[:, 0], model.trend_).T
        np.testing.assert_allclose(both, model.predict(X), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        np.sort(np.abs(np.asarray(model.series_.frequencies)).max(axis=1))[-1], np.abs(model.frequencies_).max()
    )
