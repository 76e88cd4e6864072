"""Exponential collocation: exact for polynomials, of the order of its nodes, for stiff and oscillating rates."""

import numpy as np
import pytest
import scipy.integrate

from flm.pde.march.collocation import STIFF, Collocation


@pytest.mark.parametrize("num_nodes", [9, 10])
def test_weights_are_the_integrals(num_nodes):
    rule = Collocation(num_nodes)
    rates = np.array([0.0, -1e-3, 2.0, -STIFF + 0.1, -STIFF - 0.1, -300.0, 30j, 45j, -30 + 30j])
    degree = num_nodes - 1
    found = rule.propagator(rates, 1.0)(np.ones(len(rates)), np.repeat(rule.nodes[:, None] ** degree, len(rates), 1))
    nodes, weights = np.polynomial.legendre.leggauss(400)  # enough for e^{300 s}
    s = (nodes + 1) / 2
    for z, u in zip(rates, found[-1], strict=True):
        exact = np.exp(z) + np.sum(weights / 2 * np.exp(z * (1 - s)) * s**degree)
        np.testing.assert_allclose(u, exact, rtol=1e-11, atol=1e-13)


def test_the_order_is_the_number_of_nodes():
    """u' = λu + cos 5t: the error of one step falls as h^(K + 1)."""
    rule, rate = Collocation(6), np.array([-3.0])
    errors = []
    for h in (0.4, 0.2):
        own = rule.propagator(rate, h)(np.array([1.0]), np.cos(5 * h * rule.nodes)[:, None])[-1, 0]
        exact = np.exp(-3 * h) + scipy.integrate.quad(lambda s, h=h: np.exp(-3 * (h - s)) * np.cos(5 * s), 0, h)[0]
        errors.append(abs(own - exact))
    assert 5.5 < np.log2(errors[0] / errors[1]) < 9


def test_halves_are_the_same_polynomial():
    rule = Collocation(10)
    values = rule.nodes**9 - 2 * rule.nodes
    first, second = rule.halves
    np.testing.assert_allclose(first @ values, (rule.nodes / 2) ** 9 - rule.nodes, atol=1e-13)
    np.testing.assert_allclose(second @ values, ((1 + rule.nodes) / 2) ** 9 - 1 - rule.nodes, atol=1e-13)
