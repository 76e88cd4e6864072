"""What lies between the nodes, what grows from below the tolerance, and what rounding becomes: all of it is in the estimate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import flm

PI = np.pi
LINE, SQUARE = flm.Box(x=(0, 1)), flm.Box(x=(0, 1), y=(0, 1))


def error_at(solution, points):
    truth = np.asarray(solution.exact(points)).reshape(len(points), -1)
    found = np.asarray(solution(points)).reshape(truth.shape)
    return np.max(np.linalg.norm(found - truth, axis=0) / np.linalg.norm(truth, axis=0))


@pytest.mark.parametrize(("width", "tol"), [(1e-2, 1e-3), (2e-3, 1e-5), (1e-3, 1e-5), (1e-4, 1e-3), (1e-4, 1e-7)])
def test_a_narrow_source_is_found_or_said_to_be_unresolved(width, tol):
    truth = lambda x: jnp.sin(2 * x) + 20 * jnp.exp(-(((x - 0.5137) / width) ** 2))
    source = jnp.vectorize(jax.grad(jax.grad(truth)))
    problem = flm.PDE(LINE, lambda x, u_xx: u_xx - source(x), [flm.dirichlet("boundary", truth)], exact=truth)
    solution = flm.solve(problem, tol)
    assert solution.converged or solution.error_estimate == np.inf
    assert solution.converged or width < 1e-3
    assert error_at(solution, np.linspace(0, 1, 100_003)[:, None]) <= 2 * solution.error_estimate


def test_a_narrow_source_in_the_plane_is_found():
    truth = lambda x, y: jnp.sin(2 * x) * jnp.cos(y) + 2 * jnp.exp(-((x - 0.513) ** 2 + (y - 0.377) ** 2) / 2e-4)
    slopes = [jnp.vectorize(jax.grad(jax.grad(truth, k), k)) for k in (0, 1)]
    equation = lambda x, y, u_xx, u_yy: u_xx + u_yy - slopes[0](x, y) - slopes[1](x, y)
    solution = flm.solve(flm.PDE(SQUARE, equation, [flm.dirichlet("boundary", truth)], exact=truth), 1e-3)
    assert solution.converged
    points = np.random.default_rng(0).uniform(size=(50_000, 2))
    assert error_at(solution, points) <= 2 * solution.error_estimate


@pytest.mark.parametrize("radius", [0.03, 1e-3])
def test_a_small_hole_is_resolved(radius):
    """A polynomial of one piece meets the value on the hole, but not the equation around it."""
    ring = flm.Disk(x=0, y=0, radius=1) - flm.Disk(x=0, y=0, radius=radius)
    truth = lambda x, y: jnp.log(jnp.hypot(x, y)) / np.log(radius)
    problem = flm.PDE(ring, lambda u_xx, u_yy: u_xx + u_yy, [flm.dirichlet("boundary", truth)], exact=truth)
    solution = flm.solve(problem, 0.1)
    assert solution.converged
    assert solution.num_columns < 25_000
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate


def test_a_small_square_hole_is_like_a_disk_of_its_capacity():
    square, given = flm.Box(x=(-1, 1), y=(-1, 1)), lambda x, y: jnp.where(x**2 + y**2 < 0.1, 1.0, 0.0)
    holes = flm.Box(x=(-0.01, 0.01), y=(-0.01, 0.01)), flm.Disk(x=0, y=0, radius=0.59017 * 0.02)
    equation, points = lambda u_xx, u_yy: u_xx + u_yy, np.array([[0.1, 0.1], [0.5, 0.3], [0.8, 0.2]])
    found = [flm.solve(flm.PDE(square - hole, equation, [flm.dirichlet("boundary", given)]), 0.1) for hole in holes]
    np.testing.assert_allclose(found[0](points), found[1](points), rtol=0.05)


def test_a_pulse_between_the_nodes_of_a_linear_equation_is_found():
    pulse = lambda t: 50 * jnp.exp(-(((t - 6.1234) / 0.02) ** 2))
    solution = flm.solve(flm.PDE(flm.Box(t=(0, 10)), lambda t, u, u_t: u_t + u - pulse(t), [flm.initial(1.0)]), 1e-8)
    reference = solve_ivp(
        lambda t, u: -u + 50 * np.exp(-(((t - 6.1234) / 0.02) ** 2)),
        (0, 6.2),
        [1.0],
        "DOP853",
        rtol=1e-12,
        max_step=5e-3,
    )
    assert solution.converged
    assert float(solution(t=6.2)) == pytest.approx(reference.y[0, -1], rel=1e-8)


def test_a_hot_spot_that_no_node_sees_is_not_trivial():
    start = lambda x: 5 * jnp.exp(-(((x - 0.6123) / 2e-3) ** 2))
    sides = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]
    heat = flm.PDE(flm.Box(x=(0, 1), t=(0, 1)), lambda u_t, u_xx: u_t - 1e-3 * u_xx, [flm.initial(start), *sides])
    solution = flm.solve(heat, 1e-3)
    assert solution.status.word != "trivial"
    if np.isfinite(solution.error_estimate):
        assert float(solution(x=0.6123, t=0.0)) == pytest.approx(5.0, rel=1e-2)


@pytest.mark.parametrize(("given", "word"), [(1.0, "inconsistent"), (-0.105, "converged")])
def test_a_value_inside_must_agree_with_the_rest(given, word):
    ends = [flm.dirichlet("x=0"), flm.dirichlet("x=1"), flm.on("x=0.3", lambda u: u - given)]
    assert flm.solve(flm.PDE(LINE, lambda u_xx: u_xx - 1.0, ends), 1e-4).status.word == word


@pytest.mark.parametrize("distance", [1e-6, 1e-8, 1e-9])
def test_rounding_near_a_resonance_is_in_the_estimate(distance):
    k2 = 2 * np.pi**2 + distance
    wave = lambda x, y: jnp.sin(np.pi * x) * jnp.sin(np.pi * y)
    truth = lambda x, y: wave(x, y) + x * y
    equation = lambda x, y, u, u_xx, u_yy: u_xx + u_yy + k2 * u + 2 * np.pi**2 * wave(x, y) - k2 * truth(x, y)
    solution = flm.solve(flm.PDE(SQUARE, equation, [flm.dirichlet("boundary", truth)], exact=truth), 1e-3)
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate


@pytest.mark.parametrize(("start", "tol"), [(8.0, 1e-4), (12.0, 1e-6), (15.0, 1e-2)])
def test_prey_that_almost_dies_out_comes_back(start, tol):
    equations = [lambda u, v, u_t: u_t - u * (1 - v), lambda u, v, v_t: v_t - v * (u - 1)]
    given = [flm.initial(start, unknown="u"), flm.initial(start, unknown="v")]
    solution = flm.solve(flm.PDE(flm.Box(t=(0, 60)), equations, given, unknowns=("u", "v")), tol)
    logs = lambda t, q: [1 - np.exp(q[1]), np.exp(q[0]) - 1]
    times = np.linspace(0, 60, 4001)
    truth = np.exp(solve_ivp(logs, (0, 60), np.log([start, start]), "DOP853", times, rtol=1e-12, atol=1e-12).y).T
    apart = np.linalg.norm(np.asarray(solution(times[:, None])) - truth, axis=0) / np.linalg.norm(truth, axis=0)
    assert solution.converged
    assert apart.max() <= 2 * solution.error_estimate


@pytest.mark.parametrize("time", [20.0, 24.0, 28.0, 32.0])
def test_a_solution_that_rounding_leaves_has_a_wide_estimate(time):
    problem = flm.PDE(flm.Box(t=(0, time)), lambda u, u_tt: u_tt - u, [flm.initial(1.0, velocity=-1.0)])
    solution = flm.solve(problem, 1e-4)
    times = np.linspace(0, time, 20_001)
    truth = np.exp(-times)
    assert np.linalg.norm(np.asarray(solution(t=times)) - truth) / np.linalg.norm(truth) <= 3 * solution.error_estimate


@pytest.mark.parametrize("power", [2, 3])
def test_nothing_is_missed_at_a_corner_with_unbounded_derivatives(power):
    def truth(x, y):
        radius, angle = jnp.hypot(x, y) + 1e-300, jnp.arctan2(y, x)
        return radius**power * (jnp.log(radius) * jnp.sin(power * angle) + angle * jnp.cos(power * angle)) + x * y

    laplace = flm.PDE(SQUARE, lambda u_xx, u_yy: u_xx + u_yy, [flm.dirichlet("boundary", truth)], exact=truth)
    solution = flm.solve(laplace, 1e-5)
    assert solution.converged
    assert solution.num_columns < 5_000
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate


@pytest.mark.parametrize(("width", "diffusion"), [(1e-3, 0.01), (1e-4, 0.01)])
def test_a_pulse_on_a_side_that_enters_late_is_found(width, diffusion):
    pulse = lambda t: jnp.exp(-(((t - 0.5137) / width) ** 2))
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda u_t, u_xx: u_t - diffusion * u_xx,
        [flm.initial(0.0), flm.dirichlet("x=0", pulse), flm.dirichlet("x=1")],
    )
    solution = flm.solve(problem, 1e-3)
    assert solution.converged
    # long after the pulse, as after heat sqrt(pi) width at one instant
    x, late = np.linspace(0.05, 0.3, 9), 0.6 - 0.5137
    truth = np.sqrt(PI) * width * x / np.sqrt(4 * PI * diffusion * late**3) * np.exp(-(x**2) / (4 * diffusion * late))
    assert np.abs(np.asarray(solution(x=x, t=0.6)) - truth).max() < 0.01 * truth.max()


def test_what_is_too_faint_to_be_measured_has_no_estimate():
    """A march that stops before the pulse enters, where the solution is 1e-157 and its square vanishes."""
    pulse = lambda t: jnp.exp(-(((t - 0.5137) / 1e-3) ** 2))
    given = [flm.initial(0.0), flm.dirichlet("x=0", pulse)]
    problem = flm.PDE(flm.Box(x=(0, 1), t=(0, 1)), lambda u_t, u_x: u_t + u_x, given)
    solution = flm.solve(problem, 1e-3, max_columns=40_000)
    assert solution.error_estimate == np.inf
    if solution.trusted_until is not None:
        t = np.linspace(0.02, 1, 50) * solution.trusted_until
        truth = np.asarray(pulse(t))
        assert np.abs(np.asarray(solution(x=0.0, t=t)) - truth).max() <= 2 * solution.estimate_until * truth.max()


@pytest.mark.slow
def test_a_spark_is_found_in_slabs():
    """A source narrow in space and time, where sides that radiate leave the problem to slabs."""
    spark = lambda x, t: 1e5 * jnp.exp(-(((t - 0.4137) / 4e-3) ** 2) - ((x - 0.3713) / 4e-3) ** 2)
    heat = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda x, t, u_t, u_xx: u_t - 0.1 * u_xx - spark(x, t),
        [flm.initial(jnp.cos), flm.robin("x=0", 1.0, 1.0), flm.robin("x=1", 1.0, 1.0)],
    )
    solution = flm.solve(heat, 1e-3)
    assert solution.converged
    # 1.6e5 pi 1e-5 units of heat spread for t = 0.0263: the sides are ten widths away
    t, x = 0.44, np.linspace(0.3, 0.44, 15)
    with_it, wide = np.asarray(solution(x=x, t=t)), 4 * 0.1 * (t - 0.4137) + 4e-3**2
    heat_now = 1e5 * PI * 4e-3**2 / np.sqrt(PI * wide) * np.exp(-((x - 0.3713) ** 2) / wide)
    assert np.abs(with_it - heat_now - with_it[0] + heat_now[0]).max() < 0.05 * heat_now.max()


def test_an_unknown_of_tiny_values_counts_by_its_own_size():
    problem = flm.PDE(
        flm.Box(t=(0, 10)),
        [lambda a, a_t: a_t + a, lambda a, b, b_t: b_t + b - 1e-24 * a],
        [flm.initial(1e12, unknown="a"), flm.initial(0.0, unknown="b")],
        unknowns=("a", "b"),
        exact={"a": lambda t: 1e12 * jnp.exp(-t), "b": lambda t: 1e-12 * t * jnp.exp(-t)},
    )
    solution = flm.solve(problem, 1e-8)
    assert solution.converged
    assert error_at(solution, np.linspace(0, 10, 201)[:, None]) <= 2 * solution.error_estimate
