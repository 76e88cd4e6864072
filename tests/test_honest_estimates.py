"""Defects that the honesty benchmark found, and some of its problems."""

import jax.numpy as jnp
import numpy as np

import flm


def test_the_boundary_of_a_line_is_both_ends():
    points, normals = flm.Box(x=(2, 5)).piece("boundary").sample(9, seed=0)
    np.testing.assert_array_equal(points, [[2.0], [5.0]])
    np.testing.assert_array_equal(normals, [[-1.0], [1.0]])
    truth = lambda x: jnp.expm1((x - 1) / 0.1) / jnp.expm1(-1 / 0.1)
    layer = flm.PDE(
        flm.Box(x=(0, 1)), lambda u_x, u_xx: u_x - 0.1 * u_xx, [flm.dirichlet("boundary", truth)], exact=truth
    )
    solution = flm.solve(layer, 1e-8)
    assert solution.converged
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate
