"""The references against each other, against closed forms, and their refusals."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.problems import double_integrator, linear_quadratic, minimum_time, rock_paper_scissors
from flm.references import pontryagin, riccati

LQ = {
    "A": ((0.0, 1.0), (-1.0, 0.5)),
    "B": ((0.0,), (1.0,)),
    "Q": np.eye(2),
    "R": ((0.5,),),
    "S": ((1.0, 0.2), (0.2, 2.0)),
}


def double_integrator_cost(largest, horizon=2.0):
    """½∫u² for u = clip(k (t - T/2), -largest, largest) with k such that the mass moves by one."""
    # Displacement of an odd clipped ramp with corner at distance a from the middle: -∫∫u = largest (T²/4 - a²/3).
    a = np.sqrt(3 * (horizon**2 / 4 - 1 / largest))
    return largest**2 * (horizon / 2 - a) + largest**2 * a / 3


def test_riccati_in_closed_form():
    """x' = u, cost (x² + u²)/2: P = tanh(T)."""
    found = riccati([[0.0]], [[1.0]], [[1.0]], [[1.0]], None, 1.5, [[2.0], [1.0]])
    np.testing.assert_allclose(found.cost, 0.5 * np.tanh(1.5) * np.array([4.0, 1.0]), rtol=1e-12)
    np.testing.assert_allclose(found.gain(0.5), np.tanh([[1.0]]), rtol=1e-9)


@pytest.mark.slow
def test_pontryagin_agrees_with_riccati():
    problem = linear_quadratic(**LQ, horizon=3.0)
    found = pontryagin(problem)
    truth = riccati(*LQ.values(), 3.0, (1.0, 0.0))
    np.testing.assert_allclose(found.cost, truth.cost[0], rtol=1e-9)
    x = found.states([0.0, 1.0])
    np.testing.assert_allclose(x[0], [1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(found.controls([1.0])[0], -truth.gain(1.0) @ x[1], atol=1e-7)


@pytest.mark.slow
def test_pontryagin_on_bounds_constraints_and_a_free_horizon():
    np.testing.assert_allclose(pontryagin(double_integrator(largest=None)).cost, 0.75, rtol=1e-10)
    bounded = pontryagin(double_integrator(largest=1.25))
    np.testing.assert_allclose(bounded.cost, double_integrator_cost(1.25), rtol=1e-8)
    assert np.abs(bounded.controls(np.linspace(0, 2, 101))).max() <= 1.25
    soon = pontryagin(minimum_time())
    np.testing.assert_allclose([soon.horizon, soon.cost], [1.8**0.25, 4 * 1.8**0.25 / 3], rtol=1e-9)


def test_pontryagin_with_a_hamiltonian_that_is_not_quadratic():
    """x' = u, cost ∫ cosh(u), x(1) = 0 from 1: u = -1, cost cosh(1)."""
    problem = flm.OptimalControl(
        lambda u: (u,), lambda u: jnp.cosh(u), 1.0, ("x",), ("u",), initial=[1.0], terminal=lambda x: x
    )
    np.testing.assert_allclose(pontryagin(problem).cost, np.cosh(1.0), rtol=1e-9)


@pytest.mark.slow
def test_cyclic_symmetry_of_the_reference_costs():
    """Cyclic permutations of the start have the same cost to 1e-10."""
    start = (0.12, 0.27, 0.61)
    costs = [pontryagin(rock_paper_scissors(np.roll(start, k))).cost for k in range(3)]
    assert np.ptp(costs) < 1e-10
    swapped = pontryagin(rock_paper_scissors((0.27, 0.12, 0.61))).cost
    assert abs(swapped - costs[0]) > 1e-3  # a transposition is no symmetry


def test_refusals():
    path = flm.OptimalControl(lambda u: (u,), lambda u: u**2, 1.0, ("x",), ("u",), initial=[1.0], path=lambda x: x - 2)
    with pytest.raises(ValueError, match=r"^`problem` must have no path constraints for Pontryagin's principle\.$"):
        pontryagin(path)
    with pytest.raises(ValueError, match=r"^`x0` must be given for a problem with a set of initial states\.$"):
        pontryagin(rock_paper_scissors(flm.Ball((0.2, 0.2, 0.6), 0.1)))
    singular = flm.OptimalControl(
        lambda u: (u,), lambda x: x**2, 1.0, ("x",), ("u",), initial=[1.0], bounds=(-1.0, 1.0)
    )
    with pytest.raises(RuntimeError, match=r"strictly convex in the controls; got one that is linear in some of them"):
        pontryagin(singular)


def test_a_failure_is_said_with_its_reasons():
    """Infeasible: a unit move in two seconds needs a force of at least one."""
    with pytest.raises(RuntimeError, match=r"was not solved from .*constant state: "):
        pontryagin(double_integrator(largest=0.5), max_nodes=300)
