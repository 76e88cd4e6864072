"""Nonlinear problems with several solutions say so; those with one do not; unresolved answers have no estimate."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.pde.pieces.refine import Changes

LINE = flm.Box(x=(0, 1))
ENDS = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]
SAID = "more than one solution"


@pytest.mark.parametrize(
    "equation",
    [
        lambda u, u_xx: u_xx + jnp.exp(u),  # Bratu
        lambda u, u_xx: 1e-14 * (u_xx + jnp.exp(u)),  # the same, in other units
        lambda u, u_xx: u_xx + u**3 + 1,
        lambda u, u_xx: 0.02 * u_xx + u - u**3 + 0.05,  # Allen-Cahn
    ],
)
def test_several_solutions_are_told(equation):
    solution = flm.solve(flm.PDE(LINE, equation, ENDS), 1e-6)
    assert SAID in solution.status.sentence
    assert solution.converged
    # The answer is a solution: its estimate is of the one that is returned.
    x = np.linspace(0.05, 0.95, 19)[:, None]
    left = equation(solution(x), solution.d("xx")(x))
    assert np.abs(left).max() < 1e-3 * np.abs(solution.d("xx")(x)).max()


@pytest.mark.parametrize(
    "equation",
    [
        lambda x, u, u_xx: u_xx - u**3 + 10 * jnp.sin(3 * x),  # monotone
        lambda x, u_x, u_xx: u_xx + u_x**2 + jnp.sin(3 * x),  # linear in exp(u)
    ],
)
def test_one_solution_is_not_said_to_be_several(equation):
    solution = flm.solve(flm.PDE(LINE, equation, ENDS), 1e-6)
    assert solution.converged
    assert SAID not in solution.status.sentence


def test_changes_that_do_not_fall_promise_nothing():
    changes = Changes()
    for change in (1e-2, 1e-3, 1e-4):
        changes.add(change)
    assert 1e-5 < changes.to_come < 2e-3
    changes.add(0.95e-4)
    assert changes.to_come == np.inf


@pytest.mark.slow
def test_without_a_solution_there_is_no_estimate():
    """Bratu's equation has no solution above 3.51."""
    solution = flm.solve(flm.PDE(LINE, lambda u, u_xx: u_xx + 8 * jnp.exp(u), ENDS), 1e-6, max_columns=100)
    assert solution.error_estimate == np.inf
    assert not solution.converged
