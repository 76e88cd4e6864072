"""N sub-networks: the paper's sizes against exact solutions, bars that do not flatter, and the slopes by frequency."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.numerics.newton import Nielsen
from flm.numerics.variable_projection import project
from flm.pde.waves.distillation import Waves


@pytest.mark.parametrize(("m", "outputs"), [(1, 1), (2, 2), (3, 1)])
def test_slopes_by_frequency_are_derivatives(m, outputs):
    """Kaufman's slopes are not those of the fit, but they have its gradient."""
    rng = np.random.default_rng(m)
    points, values = rng.uniform(-1, 1, (90, m)), rng.normal(size=(90, outputs))
    fit = Waves(points, values, rng.uniform(0.3, 4, (3, m)))
    J, r = fit.projected()
    h, numeric = 1e-6, []
    for unit in np.eye(fit.frequencies.size):
        numeric.append((fit.moved(h * unit).value - fit.moved(-h * unit).value) / (2 * h))
    np.testing.assert_allclose(-2 * J.T @ r, numeric, rtol=1e-5, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_subnets", "mse"),
    [("heat", 16, 1e-19), ("poisson", 4, 1e-28), ("black_scholes", 64, 8.5e-24)],
)
def test_paper_problems_at_the_paper_sizes(name, num_subnets, mse):
    solution = flm.solve(getattr(flm.problems, name)(), tol=1e-9, num_subnets=num_subnets)
    errors = solution.errors()
    assert solution.model.num_subnets == num_subnets
    assert errors.mse <= mse
    assert errors.relative_l2 <= 2 * solution.error_estimate
    if name == "poisson":
        term = solution.series.terms(1)[0]
        np.testing.assert_allclose(np.abs(term.frequency), np.pi, rtol=1e-12)


def test_a_frequency_is_found_from_a_random_start():
    rng = np.random.default_rng(3)
    points = rng.uniform(-1, 1, (200, 2))
    values = np.cos(np.pi / 2 * points).prod(axis=1, keepdims=True)
    start = Waves(points, values, rng.uniform(0.3, 3.0, (4, 2)))
    fit = project(start, Nielsen(), max_steps=60, gain_tol=1e-4, settled=1e-3).point
    assert np.sqrt(fit.value / 200) < 1e-13
    biggest = np.abs(fit.coefficients).reshape(2, 4, 2).max(axis=(0, 2)).argmax()
    np.testing.assert_allclose(np.abs(fit.frequencies[biggest]), np.pi / 2, rtol=1e-12)


@pytest.mark.slow
def test_distill_shortens_a_solution():
    solution = flm.solve(flm.problems.heat(), tol=1e-9)
    small = flm.distill(solution, 9)
    assert small.model.num_subnets == 9
    assert small.errors().relative_l2 < 1e-5
    assert small.error_estimate >= small.errors().relative_l2 / 3


def test_distill_finds_the_frequency_of_a_function():
    small = flm.distill(lambda p: np.sin(3.3 * p[:, 0]), 2, domain=flm.Box(x=(0, 1)))
    assert small.converged
    np.testing.assert_allclose(np.abs(small.series.terms(1)[0].frequency), 3.3, rtol=1e-9)


@pytest.mark.slow
def test_periodic_axes_have_a_lattice_of_their_own_period():
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda x, t, u_t, u_x: u_t + u_x - 2.0,
        [flm.initial(lambda x: jnp.sin(2 * jnp.pi * x)), flm.periodic("x")],
        exact=lambda x, t: jnp.sin(2 * jnp.pi * (x - t)) + 2.0 * t,
    )
    solution = flm.solve(problem, tol=1e-7, num_subnets=6)
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate


@pytest.mark.slow
def test_an_exact_answer_of_a_given_size_is_known_to_be_one():
    """Its runners-up of the same size are all poor, which says nothing of it."""
    solution = flm.solve(flm.problems.wave(), 1e-10, num_subnets=2)
    assert solution.converged
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate <= 2e-10


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("acoustics", 2), ("convection_diffusion", 4)])
def test_an_answer_of_a_given_size_has_an_honest_bar(name, size):
    solution = flm.solve(getattr(flm.problems, name)(), 1e-7, num_subnets=size)
    assert not solution.converged
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate


@pytest.mark.slow
def test_parameters_are_learned_beside_a_given_size():
    points = np.random.default_rng(0).uniform(size=(60, 2))
    values = np.sin(np.pi * points[:, 0]) * np.exp(-0.1 * np.pi**2 * points[:, 1])
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda u_t, u_xx, alpha: u_t - alpha * u_xx,
        [flm.initial(lambda x: jnp.sin(jnp.pi * x)), flm.dirichlet("boundary"), flm.data(points, values, sigma=0.01)],
        parameters={"alpha": flm.Learn(0.5, lower=0.0)},
    )
    solution = flm.solve(problem, 1e-6, num_subnets=4)
    assert abs(solution.parameters["alpha"].value - 0.1) < 1e-6
    assert solution.model.num_subnets == 4


@pytest.mark.slow
def test_a_problem_without_an_answer_has_none_of_a_given_size():
    missing = flm.PDE(flm.Box(x=(0, 1)), lambda u_xx: u_xx + 1, [flm.dirichlet("x=0")])
    solution = flm.solve(missing, 1e-4, num_subnets=3)
    assert solution.status.word == "undetermined"
    assert solution.error_estimate == np.inf
