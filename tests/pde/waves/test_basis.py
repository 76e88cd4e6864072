"""Waves as columns, on a lattice and free: against their models and finite differences."""

import itertools

import numpy as np
import pytest

import flm
from flm.pde.waves.basis import WaveBasis


@pytest.mark.parametrize(("m", "order"), [(1, "box"), (2, "euclid"), (3, "total")])
def test_lattice_basis_equals_its_model(m, order):
    rng = np.random.default_rng(m)
    box = flm.Box(**{"xyz"[j]: (-j, 1 + j) for j in range(m)})
    basis = WaveBasis(box, flm.lattice(m, 12, order), [2.0, 1.3, 5.0][:m])
    per_point = 2 ** (basis.frequencies > 0).sum(axis=1)
    assert per_point.sum() == basis.num_columns  # no column twice
    coefficients = rng.normal(size=(basis.num_columns, 2))
    points = box.interior(20, seed=0)
    orders = tuple(a for a in itertools.product(range(3), repeat=m) if sum(a) <= 2)
    jets = np.asarray(basis.model(coefficients).jets(points, orders))
    scale = np.abs(jets).max(axis=(1, 2), keepdims=True)
    assert np.abs(basis.evaluate(points, coefficients, orders) - jets).max() <= 1e-12 * scale.max()
    weights = {alpha: rng.normal(size=20) for alpha in orders}
    out = np.empty((basis.num_columns, 20))
    basis.combine(points, weights, out)
    expected = sum(weights[a][:, None] * jets[i] for i, a in enumerate(orders))
    np.testing.assert_allclose(out.T @ coefficients, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("m", [1, 3])
def test_free_basis_equals_its_model_and_its_slopes_are_derivatives(m):
    rng = np.random.default_rng(m)
    box = flm.Box(**{"xyz"[j]: (-j, 1 + j) for j in range(m)})
    frequencies = rng.uniform(0.3, 4, (3, m))
    basis = WaveBasis(box, frequencies)
    coefficients = rng.normal(size=(basis.num_columns, 1))
    points = box.interior(9, seed=0)
    orders = tuple(a for a in itertools.product(range(3), repeat=m) if sum(a) <= 2)
    jets = np.asarray(basis.model(coefficients).jets(points, orders))
    np.testing.assert_allclose(basis.evaluate(points, coefficients, orders)[..., 0], jets, rtol=1e-10, atol=1e-9)
    weights = {alpha: rng.normal(size=9) for alpha in orders}

    def value(n):
        moved = WaveBasis(box, n)
        found = moved.evaluate(points, coefficients, orders)[..., 0]
        return sum(weights[a] * found[i] for i, a in enumerate(orders))

    out = np.zeros((frequencies.size, 9))
    basis.slopes(points, coefficients[:, 0], weights, out)
    h = 1e-5
    for i, unit in enumerate(np.eye(frequencies.size)):
        step = h * unit.reshape(frequencies.shape)
        numeric = (value(frequencies + step) - value(frequencies - step)) / (2 * h)
        np.testing.assert_allclose(out[i], numeric, rtol=1e-5, atol=1e-6 * np.abs(out).max())
