"""Tolerance in, series out: accuracy against exact solutions, and error bars that do not flatter."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.pde.waves.basis import WaveBasis
from flm.pde.waves.fit import Fitter

SMOOTH = [
    "heat",
    "poisson",
    "black_scholes",
    "advection",
    "wave",
    "helmholtz",
    "convection_diffusion",
    "reaction_diffusion",
    "klein_gordon",
    "allen_cahn",
    "biharmonic",
    "acoustics",
    "oscillator",
    "stiff",
]


@pytest.mark.parametrize("name", [*SMOOTH, pytest.param("poisson_3d", marks=pytest.mark.slow), "poisson_5d"])
def test_catalogue_converges_to_the_tolerance_with_an_honest_bar(name):
    solution = flm.solve(getattr(flm.problems, name)(), tol=1e-8)
    error = solution.errors().relative_l2
    assert solution.converged, solution.status
    assert error <= 1e-8
    assert solution.error_estimate >= error / 2


@pytest.mark.parametrize(
    ("name", "num_subnets", "mse"),
    [
        ("heat", 16, 1e-15),
        ("heat", 64, 1e-24),
        ("poisson", 4, 1e-28),
        ("black_scholes", 16, 1e-10),
        ("black_scholes", 64, 1e-18),
    ],
)
def test_paper_problems_at_the_paper_sizes(name, num_subnets, mse):
    solution = flm.solve(getattr(flm.problems, name)(), tol=1e-9, num_subnets=num_subnets)
    assert solution.model.num_subnets == num_subnets
    assert solution.errors().mse <= mse
    if name == "poisson":
        term = solution.series.terms(1)[0]
        np.testing.assert_allclose(np.abs(term.frequency), np.pi, rtol=1e-12)


def test_poisson_is_found_by_learned_frequencies_too():
    from flm.pde.waves.learn_frequencies import FrequencyLearner

    problem = flm.problems.poisson()
    start = np.random.default_rng(3).uniform(0.3, 3.0, (4, 2))
    fit = FrequencyLearner(Fitter(problem), 4).run(start)
    assert fit.estimate < 1e-13
    biggest = np.abs(fit.coefficients).reshape(2, 4, 2).max(axis=(0, 2)).argmax()
    # z = 2x - 1 on the unit square: frequency pi in x is pi/2 in z
    np.testing.assert_allclose(np.abs(fit.basis.frequencies[biggest]), np.pi / 2, rtol=1e-12)


@pytest.mark.parametrize("axis", ["x", "t", "u"])
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_rescaling_costs_no_digits(axis, factor):
    sx, st, su = (factor if axis == a else 1.0 for a in ("x", "t", "u"))
    problem = flm.PDE(
        flm.Box(x=(0, sx), t=(0, st)),
        lambda u_t, u_xx: st * u_t - 0.1 * sx**2 * u_xx,
        [flm.initial(lambda x: su * jnp.sin(jnp.pi * x / sx)), flm.dirichlet("boundary")],
        exact=lambda x, t: su * jnp.sin(jnp.pi * x / sx) * jnp.exp(-0.1 * jnp.pi**2 * t / st),
    )
    solution = flm.solve(problem, tol=1e-10)
    assert solution.converged
    assert solution.errors().relative_l2 < 1e-10


def smooth_on(domain):
    truth = lambda x, y: jnp.exp(x) * jnp.sin(2 * y) + x * y
    return flm.PDE(
        domain,
        lambda x, y, u_xx, u_yy: u_xx + u_yy + 3 * jnp.exp(x) * jnp.sin(2 * y),
        [flm.dirichlet("boundary", truth)],
        exact=truth,
    )


FLOWER = flm.Region(
    lambda x, y: jnp.sqrt(x**2 + y**2) - 1 - 0.3 * jnp.cos(5 * jnp.arctan2(y, x)),
    bounds=flm.Box(x=(-1.4, 1.4), y=(-1.4, 1.4)),
)
L_SHAPE = flm.Polygon(x=[0, 1, 1, -1, -1, 0], y=[0, 0, 1, 1, -1, -1])


@pytest.mark.parametrize("domain", [flm.Disk(x=0, y=0, radius=1), L_SHAPE, FLOWER], ids=["disk", "L", "flower"])
def test_poisson_on_regions(domain):
    solution = flm.solve(smooth_on(domain), tol=1e-11)
    assert solution.converged
    assert solution.errors().relative_l2 <= 1e-11


def test_nonlinear_ridge_on_the_iterate_reaches_rounding():
    truth = lambda x, y: jnp.exp(x * y) / 3
    problem = flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1)),
        lambda x, y, u, u_xx, u_yy: -u_xx - u_yy - jnp.exp(u) + (x**2 + y**2) * truth(x, y) + jnp.exp(truth(x, y)),
        [flm.dirichlet("boundary", truth)],
        exact=truth,
    )
    solution = flm.solve(problem, tol=1e-12)
    assert solution.converged
    assert solution.errors().relative_l2 < 1e-12


def test_statuses_say_what_happened():
    box = flm.Box(x=(0, 1), y=(0, 1))
    trivial = flm.solve(flm.PDE(box, lambda u, u_xx, u_yy: u_xx + u_yy + u, [flm.dirichlet("boundary")]))
    assert trivial.status.word == "trivial"
    assert float(trivial(x=0.3, y=0.2)) == 0.0

    clash = flm.solve(
        flm.PDE(
            flm.Box(x=(0, 1), t=(0, 1)), lambda u_t, u_xx: u_t - u_xx, [flm.initial(1.0), flm.dirichlet("boundary")]
        ),
        tol=1e-6,
        max_columns=300,
        method="sparse",
    )
    assert clash.status.word in ("stalled", "size")
    assert clash.error_estimate > 1e-3

    small = flm.solve(flm.problems.helmholtz(), tol=1e-10, max_columns=60)
    assert small.status.word == "size"
    assert small.error_estimate > 1e-3

    source = lambda x, u_xx, u_yy: u_xx + u_yy + jnp.pi**2 * jnp.cos(jnp.pi * x)
    free = flm.solve(flm.PDE(box, source, [flm.neumann("boundary")]))
    assert "constant" in free.status.sentence
    pinned = flm.solve(flm.PDE(box, source, [flm.neumann("boundary"), flm.dirichlet("x=0, y=0", 5.0)]))
    assert "constant" not in pinned.status.sentence
    assert abs(float(pinned(x=0.5, y=0.5)) - 4.0) < 1e-7  # cos(pi x) + 4


def test_interrupt_returns_the_best_so_far():
    steps = []

    def progress(step):
        steps.append(step)
        if len(steps) == 2:
            raise KeyboardInterrupt

    solution = flm.solve(flm.problems.black_scholes(), tol=1e-12, progress=progress)
    assert solution.status.word == "interrupted"
    assert solution.errors().relative_l2 < 1


def test_same_seed_same_answer():
    first, second = (flm.solve(flm.problems.heat(), tol=1e-9, seed=5, method="sparse") for _ in range(2))
    np.testing.assert_array_equal(np.asarray(first.model.coefficients), np.asarray(second.model.coefficients))


def readings(seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(200, 2))
    clean = np.sin(np.pi * points[:, 0]) * np.exp(-0.1 * np.pi**2 * points[:, 1])
    return flm.data(points, clean + 0.01 * rng.normal(size=200))


def inverse_heat(seed):
    return flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda u_t, u_xx, alpha: u_t - alpha * u_xx,
        [flm.initial(lambda x: jnp.sin(jnp.pi * x)), flm.dirichlet("boundary"), readings(seed)],
        parameters={"alpha": flm.Learn(0.5, lower=0.0)},
    )


def test_two_standard_errors_cover_the_diffusivity():
    problem = inverse_heat(0)  # one problem, so that its residuals compile once; the readings are exchanged
    *others, block = problem.conditions
    lattice = flm.lattice(2, 36, "box")
    errors, standard_errors = [], []
    for seed in range(40):
        problem.conditions = (*others, replace(block, data=readings(seed)))
        fit = Fitter(problem).fit(WaveBasis(problem.domain, lattice, (2.0, 6.5)))
        errors.append(abs(fit.parameters[0] - 0.1))
        standard_errors.append(np.sqrt(fit.covariance[0, 0]))
    assert np.mean(np.array(errors) <= 2 * np.array(standard_errors)) >= 0.9
    assert np.mean(np.array(errors) <= 0.001) >= 0.95  # within 1 % of 0.1


def test_converged_answers_have_amplitudes_of_their_own_size():
    for method in ("sparse", "pieces"):
        solution = flm.solve(flm.problems.heat(), tol=1e-7, method=method)
        assert solution.converged
        assert float(jnp.abs(solution.series.amplitudes).max()) <= 6


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


def test_learned_frequencies_respect_periodic_conditions():
    # sin(5 t) u(x) with a source: the equation alone leaves the periodic part free
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda x, t, u_t, u_x: u_t + u_x - 2.0,
        [flm.initial(lambda x: jnp.sin(2 * jnp.pi * x)), flm.periodic("x")],
        exact=lambda x, t: jnp.sin(2 * jnp.pi * (x - t)) + 2.0 * t,
    )
    solution = flm.solve(problem, tol=1e-7, num_subnets=6)
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate
