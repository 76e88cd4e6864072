"""Coefficients that jump: the tree follows their faces, value and flux are continuous across them."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_bvp

import flm
from flm.pde.pieces.setup import set_up
from flm.pde.pieces.tree import Cut

SQUARE = flm.Box(x=(0, 1), y=(0, 1))
ENDS = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]


def flow(a, u_n):
    return a * u_n


def rod(ratio: float) -> flm.PDE:
    """-(a u')' = 1 with a = ratio left of 0.3, exact by hand."""
    c = (0.3**2 / 2 / ratio + (1 - 0.3**2) / 2) / (0.3 / ratio + 0.7)

    def exact(x):
        left = jnp.minimum(x, 0.3)
        right = jnp.maximum(x, 0.3)
        return (c * left - left**2 / 2) / ratio + c * (right - 0.3) - (right**2 - 0.09) / 2

    a = flm.Piecewise(1.0, {flm.Box(x=(0, 0.3)): ratio})
    return flm.PDE(flm.Box(x=(0, 1)), lambda a, u_xx: a * u_xx + 1, ENDS, parameters={"a": a}, flux=flow, exact=exact)


@pytest.mark.parametrize("ratio", [1e-3, 2.0, 1e4])
def test_a_rod_of_two_materials_is_exact_in_two_pieces(ratio):
    solution = flm.solve(rod(ratio), 1e-10)
    assert solution.model.num_pieces == 2
    assert solution.errors().relative_l2 < 1e-13


def test_the_flux_is_continuous_and_the_slope_is_not():
    solution = flm.solve(rod(50.0), 1e-10)
    below, above = (float(solution.d("x")(x=x)) for x in (0.3 - 1e-9, 0.3 + 1e-9))
    assert 50 * below == pytest.approx(above, rel=1e-7)


def test_without_a_flux_the_slope_is_continuous():
    problem = rod(50.0)
    plain = flm.PDE(problem.domain, problem.source["equation"], ENDS, parameters=problem.parameters)
    solution = flm.solve(plain, 1e-10)
    below, above = (float(solution.d("x")(x=x)) for x in (0.3 - 1e-9, 0.3 + 1e-9))
    assert below == pytest.approx(above, rel=1e-6)


def test_a_nonlinear_flux_agrees_with_a_two_point_solver():
    a = flm.Piecewise(1.0, {flm.Box(x=(0.5, 1)): 10.0})
    problem = flm.PDE(
        flm.Box(x=(0, 1)),
        lambda a, u, u_x, u_xx: a * ((1 + u**2) * u_xx + 2 * u * u_x**2) + 1,
        [flm.dirichlet("x=0"), flm.dirichlet("x=1", 1.0)],
        parameters={"a": a},
        flux=lambda a, u, u_n: a * (1 + u**2) * u_n,
    )
    solution = flm.solve(problem, 1e-8)

    def rates(s, y):  # both halves on s in [0, 1]: (u, q) left and right, q = a (1 + u^2) u'
        return 0.5 * np.stack(
            [y[1] / (1 + y[0] ** 2), -np.ones_like(s), y[3] / (10 * (1 + y[2] ** 2)), -np.ones_like(s)]
        )

    ends = lambda a, b: np.array([a[0], b[2] - 1, b[0] - a[2], b[1] - a[3]])
    start = np.stack([np.linspace(0, 0.5, 20), np.ones(20), np.linspace(0.5, 1, 20), np.ones(20)])
    found = solve_bvp(rates, ends, np.linspace(0, 1, 20), start, tol=1e-9)
    for x, row in ((0.2, 0), (0.4, 0), (0.7, 2), (0.9, 2)):
        s = 2 * (x % 0.5)
        assert float(solution(x=x)) == pytest.approx(found.sol(s)[row], abs=1e-7)


def test_an_inclusion_cuts_only_where_its_faces_are():
    a = flm.Piecewise(1.0, {flm.Box(x=(0.25, 0.5), y=(0.5, 0.75)): 5.0})
    sides = [flm.dirichlet(s) for s in ("x=0", "x=1", "y=0", "y=1")]
    problem = flm.PDE(SQUARE, lambda a, u_xx, u_yy: a * (u_xx + u_yy) + 1, sides, parameters={"a": a}, flux=flow)
    tree = set_up(problem).start(np.array([[0.0, 1], [0, 1]]))
    assert 5 <= tree.num_leaves <= 9
    values = set_up(problem).jumps.values(tree)[0]
    assert np.sum(tree.shares[values == 5.0]) == pytest.approx(1 / 16)


def wall(ratio: float, exact_x, source) -> flm.PDE:
    a = flm.Piecewise(1.0, {flm.Box(x=(0.5, 1)): ratio})
    exact = lambda x, y: exact_x(x) * (1 + y)
    return flm.PDE(
        SQUARE,
        lambda a, u_xx, u_yy, x, y: a * (u_xx + u_yy) - source(x) * (1 + y),
        [flm.on("boundary", lambda u, x, y: u - exact(x, y))],
        parameters={"a": a},
        flux=flow,
        exact=exact,
    )


def test_a_solution_in_the_span_leaves_no_residual_on_hanging_faces():
    shape = lambda x: jnp.where(x < 0.5, x**2, 0.25 + (x - 0.5) / 4 + (x - 0.5) ** 2)
    problem = wall(4.0, shape, lambda x: jnp.where(x < 0.5, 2.0, 8.0))
    setup = set_up(problem)
    tree = setup.start(setup.bounds)
    tree, _ = tree.split({1: [Cut(0), Cut(1)]})
    tree, _ = tree.split({2: [Cut(1, 0.3)]})
    assert any(len(face.fine) > 1 for face in tree.faces)
    from flm.pde.pieces.newton import solve_system

    answer = solve_system(setup.system(tree, (6, 6)), None, True)
    assert answer.residual < 1e-14
    points = np.random.default_rng(0).uniform(size=(200, 2))
    assert np.abs(answer.evaluate(points)[:, 0] - problem.exact_values(points)).max() < 1e-12


def test_conductivity_that_jumps_in_space_marches_in_time():
    """Against the slowest mode: a cos-sin pair whose wavenumber solves tan = -sqrt-ratio tan."""
    low, high = 0.1, 1.0
    from scipy.optimize import brentq

    # X = sin(p x) on the left, B sin(q (1 - x)) on the right, low p^2 = high q^2; flux continuous at 1/2.
    q = lambda p: p * np.sqrt(low / high)
    gap = lambda p: low * p * np.cos(p / 2) * np.sin(q(p) / 2) + high * q(p) * np.cos(q(p) / 2) * np.sin(p / 2)
    p = brentq(gap, 3.5, 6.0)
    b = np.sin(p / 2) / np.sin(q(p) / 2)
    mode = lambda x: jnp.where(x < 0.5, jnp.sin(p * x), b * jnp.sin(q(p) * (1 - x)))
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda a, u_t, u_xx: u_t - a * u_xx,
        [flm.initial(mode), *ENDS],
        parameters={"a": flm.Piecewise(low, {flm.Box(x=(0.5, 1)): high})},
        flux=flow,
        exact=lambda x, t: mode(x) * jnp.exp(-low * p**2 * t),
    )
    solution = flm.solve(problem, 1e-8)
    assert solution.converged
    assert solution.errors().relative_l2 < 1e-8


def test_conductivity_that_jumps_in_time_ends_slabs_there():
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda a, u_t, u_xx: u_t - a * u_xx,
        [flm.initial(lambda x: jnp.sin(jnp.pi * x)), *ENDS],
        parameters={"a": flm.Piecewise(0.1, {flm.Box(t=(0.3, 1)): 1.0})},
        exact=lambda x, t: jnp.sin(jnp.pi * x) * jnp.exp(-(jnp.pi**2) * jnp.where(t < 0.3, 0.1 * t, 0.03 + t - 0.3)),
    )
    assert flm.solve(problem, 1e-8).errors().relative_l2 < 1e-8


def test_systems_have_a_flux_for_each_unknown():
    """-(a u')' = 1 and v'' = u, against a chain of two-point problems solved apart."""
    a = flm.Piecewise(1.0, {flm.Box(x=(0, 0.3)): 50.0})
    both = [flm.dirichlet(side, unknown=k) for side in ("x=0", "x=1") for k in ("u", "v")]
    equations = [lambda a, u_xx: a * u_xx + 1, lambda u, v_xx: v_xx - u]
    problem = flm.PDE(flm.Box(x=(0, 1)), equations, both, unknowns=("u", "v"), parameters={"a": a}, flux={"u": flow})
    solution = flm.solve(problem, 1e-9)
    alone = flm.solve(rod(50.0), 1e-9)
    x = np.linspace(0.01, 0.99, 50)
    assert np.abs(solution["u"](x=x) - alone(x=x)).max() < 1e-10
    fine, weights = np.polynomial.legendre.leggauss(60)
    green = lambda at: sum(
        (end - start) / 2 * np.sum(weights * np.where(s < at, s * (at - 1), at * (s - 1)) * alone(x=s))
        for start, end in ((0, min(0.3, at)), (min(0.3, at), at), (at, max(0.3, at)), (max(0.3, at), 1))
        for s in [start + (end - start) * (fine + 1) / 2]
    )
    assert float(solution["v"](x=0.6)) == pytest.approx(float(green(0.6)), abs=1e-11)


TEXT = """
[domain]
x = [0, 1]
[parameters]
a = {value = 1, where = [{box = {x = [0, 0.3]}, value = 50}]}
[equation]
balance = "a * u_xx = -1"
flux = "a * u_n"
[conditions]
"x=0" = "u = 0"
"x=1" = "u = 0"
"""


def test_a_file_says_the_same():
    problem = flm.problems.parse_problem(TEXT)
    assert repr(problem.parameters["a"]) == "Piecewise(1, {Box(x=(0, 0.3)): 50})"
    x = np.linspace(0, 1, 11)
    assert np.allclose(flm.solve(problem, 1e-10)(x=x), flm.solve(rod(50.0), 1e-10)(x=x), atol=1e-13)


@pytest.mark.parametrize("word", ["where = [3]", "where = [{box = {x = [1, 0]}, value = 2}]", "where = [{value = 2}]"])
def test_files_with_odd_boxes_are_refused(word):
    with pytest.raises(ValueError, match="parameters"):
        flm.problems.parse_problem(TEXT.replace("where = [{box = {x = [0, 0.3]}, value = 50}]", word))


def test_waves_and_training_refuse_jumps():
    with pytest.raises(ValueError, match="must not jump"):
        flm.solve(rod(2.0), 1e-6, method="sparse")
    with pytest.raises(ValueError, match="must not jump"):
        flm.train(rod(2.0), flm.FLM(flm.Box(x=(0, 1)), 2, key=0), None, 1, points={"equation": 4, "boundary": 2})


def test_a_source_that_a_formula_switches_is_exact_in_two_pieces():
    """u_xx = 1 left of 0.3 and 0 right of it: two polynomials."""
    at, slope = 0.3, -0.3 + 0.3**2 / 2
    exact = lambda x: jnp.where(x < at, x**2 / 2 + slope * x, at**2 / 2 + slope * at + (at + slope) * (x - at))
    problem = flm.PDE(flm.Box(x=(0, 1)), lambda x, u_xx: u_xx - jnp.where(x < at, 1.0, 0.0), ENDS, exact=exact)
    solution = flm.solve(problem, 1e-8)
    assert solution.converged
    assert len(solution.pieces) == 2
    assert solution.errors().relative_l2 < 1e-13


def test_a_force_that_switches_in_time_ends_slabs_there():
    """u' + u = 1 from t = 1 on, and a pair that a square wave drives."""
    switched = flm.PDE(
        flm.Box(t=(0, 3)),
        lambda t, u, u_t: u_t + u - jnp.where(t > 1, 1.0, 0.0),
        [flm.initial(0.0)],
        exact=lambda t: jnp.where(t > 1, 1 - jnp.exp(1 - t), 0.0),
    )
    assert flm.solve(switched, 1e-8).errors().relative_l2 < 1e-10
    driven = flm.PDE(flm.Box(t=(0, 4)), lambda t, u, u_t: u_t + u**2 - jnp.sign(jnp.sin(3 * t)) - 2, [flm.initial(1.0)])
    solution = flm.solve(driven, 1e-8)
    assert solution.converged
    assert {round(3 * float(end) / np.pi, 9) for end in solution.model.upper[:, 0]} >= {1.0, 2.0, 3.0}


@pytest.mark.slow
def test_a_side_that_switches_in_time_begins_another_layer():
    """A rod whose left end is heated from t = 1/2 on."""
    k = np.pi * np.arange(1, 1200)

    def exact(x, t):
        x, t = np.asarray(x), np.asarray(t)
        waves = np.sin(np.multiply.outer(x, k)) * np.exp(-0.1 * np.multiply.outer(np.maximum(t - 0.5, 0), k**2))
        hot = np.where(t > 0.5, 1 - x - waves @ (2 / k), 0.0)
        return np.sin(np.pi * x) * np.exp(-0.1 * np.pi**2 * t) + hot

    heated = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda u_t, u_xx: u_t - 0.1 * u_xx,
        [
            flm.initial(lambda x: jnp.sin(np.pi * x)),
            flm.dirichlet("x=0", lambda t: jnp.where(t > 0.5, 1.0, 0.0)),
            flm.dirichlet("x=1"),
        ],
    )
    solution = flm.solve(heated, 3e-2)
    points = heated.domain.interior(1000, seed=3, warp=False)
    truth = exact(*points.T)
    error = np.linalg.norm(np.asarray(solution(points)) - truth) / np.linalg.norm(truth)
    assert solution.converged, solution.status
    assert error <= 2 * solution.error_estimate
