"""Pieces: square rows leave no residual, neighbors agree, errors fall as they must, and estimates are true."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import flm
from flm.pde.pieces.elimination import eliminate, plan, reduced
from flm.pde.pieces.newton import solve_system
from flm.pde.pieces.setup import set_up
from flm.pde.pieces.tree import Cut, Tree

SIDES = ("x=0", "x=1", "y=0", "y=1")
SQUARE = flm.Box(x=(0, 1), y=(0, 1))


def poisson(exact, source):
    return flm.PDE(
        SQUARE,
        lambda u_xx, u_yy, x, y: u_xx + u_yy - source(x, y),
        [flm.dirichlet(side, exact) for side in SIDES],
        exact=exact,
    )


SMOOTH = poisson(lambda x, y: jnp.exp(x) * jnp.sin(2 * y), lambda x, y: -3 * jnp.exp(x) * jnp.sin(2 * y))


def trees(problem):
    """One piece, four pieces, seven pieces with hanging faces, and cuts that had to be mended to nest."""
    whole = Tree.whole(problem.domain.bounds, problem.periodic_axes)
    four = whole.split({0: [Cut(0), Cut(1)]})[0]
    odd = whole.split({0: [Cut(0)]})[0].split({0: [Cut(1, 0.3)], 1: [Cut(1, 0.6)]})[0]
    return {"one": whole, "four": four, "hanging": four.split({0: [Cut(0), Cut(1)]})[0], "odd": odd}


def error(problem, answer):
    points = problem.domain.grid(41)
    exact = problem.exact_values(points).reshape(len(points), -1)
    gap = answer.evaluate(points) - exact
    return float(np.max(np.sqrt(np.mean(gap**2, axis=0) / np.mean(exact**2, axis=0))))


@pytest.mark.parametrize("name", ["one", "four", "hanging", "odd"])
def test_a_solution_in_the_span_leaves_no_residual(name):
    problem = poisson(lambda x, y: x**3 * y**2 + y**4 - x, lambda x, y: 6 * x * y**2 + 2 * x**3 + 12 * y**2)
    setup = set_up(problem)
    answer = solve_system(setup.system(trees(problem)[name], (5, 5)), None, True)
    assert answer.residual < 1e-14
    assert error(problem, answer) < 1e-12


@pytest.mark.parametrize("name", ["four", "hanging", "odd"])
def test_neighbors_agree_and_errors_fall_geometrically(name):
    setup, tree = set_up(SMOOTH), trees(SMOOTH)[name]
    answers = [solve_system(setup.system(tree, (q, q)), None, True) for q in (3, 5, 7)]
    errors = [error(SMOOTH, answer) for answer in answers]
    assert errors[1] < errors[0] / 30
    assert errors[2] < errors[1] / 30
    # values and slopes agree across x = 1/2
    y = np.linspace(0.02, 0.98, 25)
    gaps = [answers[2].evaluate(np.stack([np.full(25, 0.5 + side), y], axis=1)) for side in (-1e-9, 1e-9)]
    np.testing.assert_allclose(gaps[0], gaps[1], atol=1e-7)


def test_more_pieces_converge_with_the_order_of_their_functions():
    setup, errors = set_up(SMOOTH), []
    tree = Tree.whole(SMOOTH.domain.bounds, (False, False))
    for _ in range(3):
        errors.append(error(SMOOTH, solve_system(setup.system(tree, (3, 3)), None, True)))
        tree, _ = tree.split({leaf: [Cut(0), Cut(1)] for leaf in range(tree.num_leaves)})
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders.min() > 3.5  # five functions along each axis


def test_the_order_of_merging_does_not_matter():
    setup, tree = set_up(SMOOTH), trees(SMOOTH)["hanging"]
    system = setup.system(tree, (5, 5))
    rows = system.assemble(np.zeros((tree.num_leaves, system.functions.num_columns)))
    order = plan(system.members, system.sizes)
    found = eliminate(rows, system.sizes, order)
    count = [len(piece.right) for piece in rows]
    width, columns = sum(system.sizes), system.functions.num_columns
    ends = np.cumsum([0, *system.sizes])
    dense = np.zeros((sum(count), len(rows) * columns + width))
    at = 0
    for i, piece in enumerate(rows):
        part = slice(at, at + len(piece.right))
        dense[part, i * columns : (i + 1) * columns] = piece.own
        start = 0
        for name in piece.names:
            size = system.sizes[name]
            dense[part, len(rows) * columns + ends[name] : len(rows) * columns + ends[name] + size] += piece.traces[
                :, start : start + size
            ]
            start += size
        at += len(piece.right)
    right = np.concatenate([piece.right for piece in rows])
    expected = np.linalg.lstsq(dense, right, rcond=None)[0][: len(rows) * columns].reshape(len(rows), columns)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def honest(solution, reference=None, factor=2.0):
    """The solution converged, and its error is within twice its estimate."""
    assert solution.converged, solution.status
    found = solution.errors(reference).relative_l2
    assert found <= factor * solution.error_estimate
    return found


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.02, 1e-4])
def test_layers(epsilon):
    assert honest(flm.solve(flm.problems.convection_diffusion(epsilon), 1e-8, method="pieces")) < 1e-8


@pytest.mark.slow
def test_steep_burgers_marches_in_slabs():
    solution = flm.solve(flm.problems.viscous_burgers(0.02 / np.pi), 1e-3, method="pieces")
    assert honest(solution) < 1e-3
    assert solution.model.num_pieces > 20


@pytest.mark.slow
def test_heat_from_a_step_against_cold_ends():
    rod = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda u_t, u_xx: u_t - 0.1 * u_xx,
        [flm.initial(1.0), flm.dirichlet("x=0"), flm.dirichlet("x=1")],
    )
    solution = flm.solve(rod, 3e-2, method="pieces")
    assert solution.converged
    k = np.arange(1, 121, 2)  # the last is damped by exp(-140) at the first time
    x, t = (g.ravel() for g in np.meshgrid(np.linspace(0, 1, 41), np.linspace(0.01, 1, 30)))
    exact = np.sum(
        4 / (np.pi * k) * np.sin(np.pi * x[:, None] * k) * np.exp(-0.1 * np.pi**2 * t[:, None] * k**2), axis=1
    )
    wrong = np.asarray(solution(x=x, t=t)) - exact
    assert np.sqrt(np.mean(wrong**2) / np.mean(exact**2)) <= 2 * solution.error_estimate


def test_nonlinear_odes_over_long_times():
    prey = flm.PDE(
        flm.Box(t=(0, 12)),
        [lambda x, x_t, y: x_t - 1.5 * x + x * y, lambda x, y, y_t: y_t + 3 * y - x * y],
        [flm.initial(10.0, unknown="x"), flm.initial(5.0, unknown="y")],
        unknowns=("x", "y"),
    )
    solution = flm.solve(prey, 1e-8)

    def reference(points):
        rates = lambda t, s: [1.5 * s[0] - s[0] * s[1], s[0] * s[1] - 3 * s[1]]
        return solve_ivp(rates, (0, 12), [10, 5], "DOP853", points[:, 0], rtol=1e-13, atol=1e-13).y.T

    assert honest(solution, reference) < 1e-8


@pytest.mark.slow
def test_systems_and_their_first_order_pairs():
    assert honest(flm.solve(flm.problems.acoustics(), 1e-8, method="pieces")) < 1e-8


def test_periodic_axes_on_one_and_on_many_pieces():
    ring = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda u_t, u_x: u_t + u_x,
        [flm.initial(lambda x: jnp.sin(2 * jnp.pi * x)), flm.periodic("x")],
        exact=lambda x, t: jnp.sin(2 * jnp.pi * (x - t)),
    )
    setup = set_up(ring)
    for tree in (Tree.whole(ring.domain.bounds, (True, False)), trees(ring)["four"]):
        assert error(ring, solve_system(setup.system(tree, (13, 13)), None, True)) < 1e-6


@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        ([flm.dirichlet("x=0")], "undetermined"),
        ([flm.dirichlet("x=0"), *(flm.dirichlet(side) for side in SIDES), flm.dirichlet("x=0", 1.0)], "inconsistent"),
        ([flm.neumann(side) for side in SIDES], "inconsistent"),
    ],
)
def test_what_has_no_solution_has_no_estimate(conditions, word):
    solution = flm.solve(flm.PDE(SQUARE, lambda u_xx, u_yy: u_xx + u_yy - 1, conditions), 1e-6, method="pieces")
    assert solution.status.word == word
    assert solution.error_estimate == np.inf


@pytest.mark.slow
def test_the_answer_is_a_function_and_a_series_for_each_piece():
    solution = flm.solve(flm.problems.convection_diffusion(0.02), 1e-6, method="pieces")
    points = solution.domain.interior(200, seed=3, warp=False)
    values = np.asarray(solution(points))
    np.testing.assert_allclose(np.asarray(jax.jit(solution)(points)), values, rtol=1e-10, atol=1e-12)
    slope = jax.grad(lambda points: solution(points).sum())(jnp.asarray(points))
    np.testing.assert_allclose(np.asarray(solution.d("x")(points)), slope[:, 0], rtol=1e-8, atol=1e-9)
    assert len(solution.pieces) == solution.model.num_pieces > 1
    largest = np.abs(values).max()
    for box, series in solution.pieces:
        inside = box.contains(points)
        np.testing.assert_allclose(np.asarray(series(points[inside])), values[inside], atol=1e-9 * largest)
        assert np.abs(np.asarray(series.amplitudes)).max() < 10 * largest


def test_a_number_of_subnetworks_is_no_matter_of_pieces():
    with pytest.raises(ValueError, match="Pieces solve problems of up to three axes"):
        flm.solve(flm.problems.poisson(), method="pieces", num_subnets=4)


@pytest.mark.slow
def test_the_size_limit_is_kept_and_said():
    solution = flm.solve(flm.problems.convection_diffusion(1e-4), 1e-10, method="pieces", max_columns=1500)
    assert solution.status.word == "size"
    assert solution.num_columns <= 1500
    assert not solution.converged
    assert dataclasses.replace(solution, error_estimate=1e-12).converged


def work(tree):
    """About how many operations one solve on a tree takes: the cube of the columns of every piece and of every front."""
    system = set_up(SMOOTH).system(tree, (9, 9))
    order = plan(system.members, system.sizes, tree.num_leaves)
    around = [
        sum(system.sizes[n] for n, touched in enumerate(system.members) if i in touched) for i in range(len(tree.low))
    ]
    fronts = [sum(system.sizes[name] for name in (*m.inside, *m.outside)) for m in order]
    return sum((system.functions.num_columns + traces) ** 3 for traces in around) + sum(front**3 for front in fronts)


@pytest.mark.slow
def test_operations_are_linear_in_graded_pieces_and_about_their_power_three_halves_in_uniform_ones():
    bounds = SMOOTH.domain.bounds
    trees = {"graded": [Tree.whole(bounds, (False, False))], "uniform": [Tree.whole(bounds, (False, False))]}
    for _ in range(24):
        last = trees["graded"][-1]
        trees["graded"].append(last.split({int(np.argmin(last.shares)): [Cut(0), Cut(1)]})[0])
    for _ in range(4):
        last = trees["uniform"][-1]
        trees["uniform"].append(last.split({leaf: [Cut(0), Cut(1)] for leaf in range(last.num_leaves)})[0])
    for kind, few, many, most in (("graded", 6, 24, 1.1), ("uniform", 2, 4, 1.6)):
        pair = [trees[kind][few], trees[kind][many]]
        order = np.log(work(pair[1]) / work(pair[0])) / np.log(pair[1].num_leaves / pair[0].num_leaves)
        assert 0.8 < order < most, (kind, order)


def test_rows_that_are_not_finite_leave_an_answer_that_is_not():
    """Newton's method on a blow-up runs away; LAPACK's least squares would raise."""
    front = reduced(np.full((4, 2), np.nan), 2)
    assert np.isnan(front.substitute(np.ones(4), np.zeros(0))).all()
