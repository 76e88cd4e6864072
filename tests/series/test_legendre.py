"""Legendre functions: orthonormal, differentiated exactly, restricted to a part, written as waves."""

import numpy as np
import pytest

from flm.series import legendre


def test_orthonormal_on_the_interval():
    nodes, weights = legendre.gauss(20)
    table = legendre.values(nodes, 15)
    np.testing.assert_allclose(table.T @ (weights[:, None] * table), np.eye(15), atol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_are_those_of_numpys_polynomials(order):
    rng = np.random.default_rng(order)
    coefficients = rng.normal(size=9)
    plain = coefficients * np.sqrt(2 * np.arange(9) + 1)
    z = np.linspace(-1, 1, 7)
    expected = np.polynomial.legendre.legval(z, np.polynomial.legendre.legder(plain, order))
    np.testing.assert_allclose(legendre.table(z, 9, order) @ coefficients, expected, rtol=1e-12, atol=1e-11)


def test_the_same_function_on_a_part():
    coefficients = np.random.default_rng(0).normal(size=8)
    part = legendre.restriction(8, -0.7, 0.1) @ coefficients
    z = np.linspace(-1, 1, 9)
    there = -0.7 + 0.8 * (z + 1) / 2
    np.testing.assert_allclose(legendre.values(z, 8) @ part, legendre.values(there, 8) @ coefficients, atol=1e-12)


def test_waves_reproduce_a_function_with_amplitudes_of_its_size():
    nodes, weights = legendre.gauss(30)
    coefficients = (legendre.values(nodes, 17) * weights[:, None]).T @ np.exp(2 * nodes)
    waves = legendre.to_waves(17, 41, 2.0) @ coefficients
    z = np.linspace(-1, 1, 201)
    np.testing.assert_allclose(legendre.wave_table(z, 41, 2.0) @ waves, np.exp(2 * z), atol=1e-11)
    assert np.abs(waves).max() < 10 * np.exp(2)
