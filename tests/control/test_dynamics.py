"""Gauss collocation, its adjoint and second variation, against DOP853 and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from control_problems import simulate as follow_control
from scipy.integrate import solve_ivp

import flm
from flm.control.dynamics import adjoint, gauss, grid, simulate, sweep
from flm.control.equations import Multipliers
from flm.control.law import Controls
from flm.control.solve.levels import transcribe
from flm.problems import van_der_pol


def wavy(t):
    return 0.4 * np.sin(1.3 * t) - 0.2 * np.cos(3.1 * t)


def by_dop853(problem, control, x0, horizon):
    """Cost and final state, independent of the package's integrator."""

    @jax.jit
    def by_normalized_time(s, v, u):
        point = problem.equations.along(s, v, u, problem.numbers)
        return jnp.append(point.rates, point.running)

    def slope(t, y):
        return by_normalized_time(t / horizon, y[:-1], np.array([control(t)])) / horizon

    start = np.append(problem.starts.coordinates(x0)[0], 0.0)
    found = solve_ivp(slope, (0.0, horizon), start, method="DOP853", rtol=1e-11, atol=1e-13)
    return found.y[-1, -1], found.y[:-1, -1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "x0"),
    [
        (flm.problems.rock_paper_scissors(), (0.2, 0.2, 0.6)),
        (van_der_pol(bounds=None), (0.0, 1.0)),
        (flm.problems.pendulum(largest=5.0), (0.3, 0.0)),
    ],
    ids=["game", "oscillator", "pendulum"],
)
def test_costs_agree_with_dop853(problem, x0):
    cost, final = by_dop853(problem, wavy, x0, problem.numbers[-1])
    followed = follow_control(problem, wavy, x0)
    np.testing.assert_allclose(followed.cost[0], cost, rtol=2e-10)
    x = followed.states(np.ones((1, 1)))[0, -1]
    np.testing.assert_allclose(x[: len(final)], final, rtol=0, atol=2e-9)


@pytest.mark.slow
def test_the_cost_of_a_law_agrees_with_dop853(single):
    cost, _ = by_dop853(single.problem, single.control, (0.2, 0.2, 0.6), 6.0)
    np.testing.assert_allclose(single.cost(), cost, rtol=1e-10)


def test_the_order_at_the_edges_is_twice_the_nodes():
    """x' = -x with q = 2 nodes: order 4."""
    problem = flm.OptimalControl(lambda x, u: (-x + 0.0 * u,), lambda x: x**2, 1.0, ("x",), ("u",), initial=[1.0])
    errors = []
    for num_elements in (2, 4, 8):
        inputs = np.zeros((num_elements, 1, 2, 1))
        run = simulate(problem, np.ones((1, 1)), inputs, np.linspace(0, 1, num_elements + 1))
        errors.append(abs(run.edges[-1, 0, 0] - np.exp(-1.0)))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 4.0, atol=0.1)


def test_gauss_rules_integrate_polynomials():
    for q in (1, 2, 5, 8):
        scheme = gauss(q)
        for k in range(2 * q):
            np.testing.assert_allclose(scheme.weights @ scheme.nodes**k, 1 / (k + 1), rtol=1e-13)
        for k in range(q):
            np.testing.assert_allclose(scheme.matrix @ scheme.nodes**k, scheme.nodes ** (k + 1) / (k + 1), atol=1e-14)


CASES = {
    "game": flm.problems.rock_paper_scissors(),
    "free horizon, terminal": flm.problems.minimum_time(),
    "terminal cost": flm.problems.linear_quadratic(S=((2.0, 0.3), (0.3, 1.0))),
    "two controls": flm.problems.linear_quadratic(
        A=((0.0, 1.0), (0.5, -0.2)), B=((1.0, 0.0), (0.2, 1.0)), R=((1.0, 0.1), (0.1, 2.0))
    ),
    "path": flm.OptimalControl(
        lambda t, x, u: (-x + u * t,), lambda x, u: x**2 + u**2, 2.0, ("x",), ("u",), initial=[1.0],
        path=[lambda x, u: x + u - 0.1, lambda x: 0.3 - x],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_gradient_and_hessian_are_exact_for_the_discrete_problem(name):
    """Against central differences of the Lagrangian, with multipliers that are not zero."""
    problem = CASES[name]
    transcription = transcribe(problem, problem.starts.center[None], 3)
    rng = np.random.default_rng(0)
    c = 0.3 * rng.standard_normal((1, transcription.size))
    run = transcription.run(c)
    multipliers = None
    if problem.constrained:
        shape = (*run.s.shape, len(problem.equations.path))
        terminal = rng.standard_normal((1, 2 if problem.equations.terminal else 0))
        multipliers = Multipliers(rng.random(shape), terminal, 2.0)
        run = transcription.run(c, multipliers)
    found = transcription.derivatives(run, c, multipliers)

    def gradient(c):
        return transcription.derivatives(transcription.run(c, multipliers), c, multipliers).gradient[0]

    step = 1e-5
    for i in range(transcription.size):
        shift = step * np.eye(transcription.size)[i]
        slope = (
            transcription.run(c + shift, multipliers).lagrangian - transcription.run(c - shift, multipliers).lagrangian
        )
        np.testing.assert_allclose(found.gradient[0, i], slope[0] / (2 * step), rtol=1e-5, atol=1e-7)
        if name != "path":  # max(0, ...)^2 has a discontinuous second derivative
            row = (gradient(c + shift) - gradient(c - shift)) / (2 * step)
            np.testing.assert_allclose(found.hessian[0, i], row, rtol=1e-5, atol=1e-6)


def test_costates_converge_to_the_continuous_ones():
    problem = flm.problems.linear_quadratic()
    reference = flm.references.pontryagin(problem)
    solution = flm.solve(problem, tol=1e-12)
    v0 = problem.starts.center[None]
    run = solution.law.at(v0).follow(problem, v0)
    np.testing.assert_allclose(adjoint(run).initial[0], reference.costates([0.0])[0], atol=1e-6)


def test_a_start_that_runs_away_costs_infinity_and_spares_the_others():
    problem = flm.OptimalControl(
        lambda x, u: (x**2 + u,), lambda x: x**2, 2.0, ("x",), ("u",), initial=flm.Box(x=(-2, 2))
    )
    followed = follow_control(problem, lambda t: 0.0 * t, [[-1.0], [2.0]])
    assert np.isfinite(followed.cost[0])
    assert followed.cost[1] == np.inf
    # x = -1 / (1 + t): the integral of x^2 over [0, 2] is 2/3.
    np.testing.assert_allclose(followed.cost[0], 2 / 3, rtol=1e-11)


def test_crossings_are_where_the_control_meets_its_bounds():
    sine = np.array([[0.0, 1.0], [0.0, 0.2]])[..., None]  # of 2 pi s, for two starts
    found = Controls(np.array([2 * np.pi]), sine, np.zeros(1), np.array([-0.5]), np.array([0.5])).breaks()
    np.testing.assert_allclose(np.sort(found[0]), [1 / 12, 5 / 12, 7 / 12, 11 / 12], atol=1e-10)
    assert np.isnan(found[1]).all()


def test_grids_take_one_set_of_edges_or_one_for_each_start():
    even, width = grid(np.linspace(0, 1, 3), 2)
    own, widths = grid(np.array([[0.0, 0.0], [0.5, 0.2], [1.0, 1.0]]), 2)
    np.testing.assert_allclose(even[:, 0], own[:, 0])
    np.testing.assert_allclose(widths[:, 1], [0.2, 0.8])
    assert width.shape == (2, 2)


def test_a_start_that_meets_a_singular_matrix_is_lost_alone():
    """With one stage at the middle of a step of 2, x' = x has the matrix 1 - 2/2 = 0."""
    growth = np.array([1.0, -1.0]).reshape(1, 2, 1, 1, 1)
    stages, edge = sweep(gauss(1).matrix, np.full((1, 2), 2.0), growth, np.zeros((1, 2, 1, 1, 1)), np.ones((2, 1, 1)))
    assert np.isnan(edge[0]).all()
    assert edge[1, 0, 0] == pytest.approx(0.0, abs=1e-14)  # (1 - 1) / (1 + 1), the middle rule
    assert stages[0, 1, 0, 0, 0] == pytest.approx(0.5)
