"""Singular points: found by themselves, approached geometrically, with estimates that hold."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.pde.pieces.adapt import Adaptation
from flm.pde.pieces.places import breaks_of
from flm.pde.pieces.refine import SHARE, Corners
from flm.pde.pieces.setup import set_up
from flm.pde.pieces.shape import Shape
from flm.pde.pieces.tree import Cut, Tree
from flm.results import Record

UNIT = np.array([[0.0, 1.0], [0.0, 1.0]])


def laplace(u_xx, u_yy):
    return u_xx + u_yy


def on_sides(exact, *sides):
    return [flm.on(side, lambda u, x, y: u - exact(x, y)) for side in sides]


def true_error(solution, problem):
    points = problem.domain.interior(4000, seed=2, warp=False)
    exact = problem.exact_values(points)
    return np.linalg.norm(np.asarray(solution.model(points)) - exact) / np.linalg.norm(exact)


def mixed(at):
    """r^(1/2) sin(theta/2): held to the right of `at` on the lower side, insulated to its left."""

    def exact(x, y):
        return jnp.sqrt(jnp.hypot(x - at, y) + 1e-300) * jnp.sin(jnp.arctan2(y, x - at) / 2)

    low = [flm.dirichlet("y=0", where=lambda x: x >= at), flm.neumann("y=0", where=lambda x: x < at)]
    return flm.PDE(flm.Box(x=(-1, 1), y=(0, 1)), laplace, [*low, *on_sides(exact, "x=-1", "x=1", "y=1")], exact=exact)


def checkerboard(ratio):
    g = 4 / np.pi * np.arctan(1 / np.sqrt(ratio))
    b, q = 1 / np.tan(g * np.pi / 4), np.pi / 4

    def exact(x, y):
        r, angle = jnp.hypot(x, y) + 1e-300, jnp.mod(jnp.arctan2(y, x), 2 * jnp.pi)
        odd = jnp.where(angle < jnp.pi, -b * jnp.sin(g * (angle - 3 * q)), b * jnp.sin(g * (angle - 7 * q)))
        even = jnp.where(angle < jnp.pi, jnp.cos(g * (angle - q)), -jnp.cos(g * (angle - 5 * q)))
        return r**g * jnp.where(x * y > 0, even, odd)

    boxes = {flm.Box(x=(0, 1), y=(0, 1)): ratio, flm.Box(x=(-1, 0), y=(-1, 0)): ratio}
    return flm.PDE(
        flm.Box(x=(-1, 1), y=(-1, 1)),
        lambda a, u_xx, u_yy: a * (u_xx + u_yy),
        on_sides(exact, "boundary"),
        parameters={"a": flm.Piecewise(1.0, boxes)},
        flux=lambda a, u_n: a * u_n,
        exact=exact,
    )


def values_that_meet():
    exact = lambda x, y: 2 / jnp.pi * jnp.arctan2(y, x)
    held = [flm.dirichlet("y=0", 0.0), flm.dirichlet("x=0", 1.0)]
    return flm.PDE(flm.Box(x=(0, 1), y=(0, 1)), laplace, [*held, *on_sides(exact, "x=1", "y=1")], exact=exact)


def wedge(turns):
    """r^g sin(g theta), g = 1/(2 turns), in a polygon whose re-entrant corner is a little more than straight."""
    g, angles = 0.5 / turns, np.linspace(0, 2 * np.pi * turns, 7)

    def exact(x, y):
        angle = jnp.mod(jnp.arctan2(y, x) + 1e-9, 2 * jnp.pi) - 1e-9  # the first side is at angle zero
        return (jnp.hypot(x, y) + 1e-300) ** g * jnp.sin(g * angle)

    domain = flm.Polygon(x=[0, *np.cos(angles)], y=[0, *np.sin(angles)])
    return flm.PDE(domain, laplace, on_sides(exact, "boundary"), exact=exact)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "tol"),
    [
        (lambda: mixed(1 / 3), 1e-2),
        (lambda: checkerboard(2.0), 3e-2),
        (values_that_meet, 1e-4),
        (lambda: wedge(0.535), 3e-2),
    ],
)
def test_singular_answers_are_solved_and_their_estimates_hold(make, tol):
    problem = make()
    solution = flm.solve(problem, tol, method="pieces")
    assert solution.converged
    assert true_error(solution, problem) <= 2 * solution.error_estimate


SQUARE = flm.Box(x=(-1, 1), y=(-1, 1))
REENTRANT = {
    "difference": SQUARE - flm.Box(x=(0, 2), y=(-2, 0)),
    "polygon": flm.Polygon(x=[0, 1, 1, -1, -1, 0], y=[0, 0, 1, 1, -1, -1]),
    "sector": flm.Disk(x=0, y=0, radius=1) - flm.Box(x=(0, 2), y=(-2, 0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REENTRANT)
def test_the_corner_of_a_region_is_found(name):
    """r^(2/3) at an angle of three quarters of a turn; the corner is where the region has it."""

    def exact(x, y):
        angle = jnp.mod(jnp.arctan2(y, x), 2 * jnp.pi)
        return (jnp.hypot(x, y) + 1e-300) ** (2 / 3) * jnp.sin(2 / 3 * angle)

    problem = flm.PDE(REENTRANT[name], laplace, on_sides(exact, "boundary"), exact=exact)
    setup = set_up(problem)
    np.testing.assert_allclose(setup.suspects(), [[0, 0]], atol=1e-15)
    assert setup.start(setup.bounds).is_cut.any() == (name == "sector")
    if name == "sector":  # whole boxes around the corner, as the others have, and cut pieces at the arc
        solution = flm.solve(problem, tol=3e-2)
        assert solution.converged
        assert true_error(solution, problem) <= 2 * solution.error_estimate


def test_cuts_at_a_coordinate_are_exactly_there():
    """-1 + 2.56 (1 / 2.56) is -1e-16, where no corner is."""
    tree = Tree.whole(np.array([[-1.0, 1.5639104958593593], [-1.0, 1.0]]), (False, False)).cut_at(0, 0.0)
    assert sorted(tree.low[:, 0]) == [-1.0, 0.0]


def test_two_cuts_that_leave_the_tail_at_one_corner_make_it_singular():
    corners, tree, tails = Corners(), Tree.whole(UNIT, (False, False)), np.array([1.0])
    for level in range(2):
        cuts = {int(np.argmax(tails)): [Cut(0), Cut(1)]}
        new, parents = tree.split(cuts)
        at = np.all(new.lower == 0, axis=1)
        now = np.where(at, 0.6**level, 1e-6)
        corners.watch(tree, tails, cuts, new, now, parents)
        tree, tails = new, now
    assert corners.active == {((0, 0.0), (1, 0.0))}
    (cuts,) = corners.points(tree).values()
    assert {(cut.axis, cut.share) for cut in cuts} == {(0, SHARE), (1, SHARE)}


def test_a_front_that_leaves_its_tail_in_two_parts_is_no_corner():
    corners, tree, tails = Corners(), Tree.whole(UNIT, (False, False)), np.array([1.0])
    for _ in range(4):
        cuts = {leaf: [Cut(0), Cut(1)] for leaf in np.flatnonzero(tails > 0.1)}
        new, parents = tree.split(cuts)
        crossed = (new.lower.sum(axis=1) < 1) & (new.upper.sum(axis=1) > 1)
        now = np.where(crossed, 1.0, 1e-6)
        corners.watch(tree, tails, cuts, new, now, parents)
        tree, tails = new, now
    assert not corners.has_points


def test_the_end_of_a_condition_is_found_to_rounding():
    problem = mixed(1 / 3)
    setup = set_up(problem)
    (found,) = breaks_of(setup.places, setup.bounds)
    assert found[0] == 0
    assert found[1] == pytest.approx([1 / 3, 0.0], abs=1e-13)
    assert setup.start(setup.bounds).num_leaves == 2


@pytest.mark.slow
def test_each_layer_of_cuts_gains_the_power_that_theory_says():
    """Errors at a checkerboard's corner fall like 0.15^(2g) with the layers of pieces around it."""
    ratio = 100.0
    problem = checkerboard(ratio)
    setup, g = set_up(problem), 4 / np.pi * np.arctan(1 / np.sqrt(ratio))
    corners = Corners(singular=setup.singular_points()[:1])
    tree, errors = setup.start(setup.bounds), []
    points = np.random.default_rng(0).uniform(-1, 1, (3000, 2))
    exact = problem.exact_values(points)
    search = Adaptation(setup, 1e-6, 10**6, Record(lambda progress: None))
    for layer in range(7):
        if layer > 4:
            answer = search.solve(tree, 9)
            errors.append(np.linalg.norm(answer.evaluate(points)[:, 0] - exact))
        tree, _ = tree.split(corners.points(tree))
    assert errors[-1] / errors[-2] == pytest.approx(SHARE ** (2 * g), rel=0.2)


def test_reentrant_corners_between_oblique_and_curved_sides_are_found():
    """Cells end there; convex corners and smooth joints are no such points."""
    turned = flm.Polygon(x=[0.0, 1.0, 0.6, -0.8, -0.6, 0.6], y=[0.0, 0.0, 0.8, 0.6, -0.8, -0.8])
    assert np.allclose(Shape(turned).corners, [[0.0, 0.0]])
    keyhole = flm.Disk(x=0, y=0, radius=1) | flm.Box(x=(-0.6, 0.6), y=(0, 2))
    assert np.allclose(sorted(map(tuple, Shape(keyhole).corners)), [(-0.6, 0.8), (0.6, 0.8)], atol=1e-7)
    assert Shape(flm.Disk(x=0, y=0, radius=1) - flm.Disk(x=0, y=0, radius=0.4)).corners == []
    assert Shape(flm.Polygon(x=[0, 1, 0.3], y=[0, 0.2, 0.9])).corners == []


def test_a_corner_looks_the_same_in_cells_of_every_size():
    """The boundary's length and the share inside cells that shrink towards an oblique corner."""
    shape = Shape(flm.Polygon(x=[0.0, 1.0, 0.6, -0.8, -0.6, 0.6], y=[0.0, 0.0, 0.8, 0.6, -0.8, -0.8]))
    seen = []
    for width in 10.0 ** -np.arange(2, 8):
        corner = [
            shape.cell(np.minimum(far, 0.0), np.maximum(far, 0.0)) for far in width * np.array([[1, -1.2], [-1, 1.2]])
        ]
        lengths = [
            sum(part.length for patch in shape.patches for part in shape.stretches(cell, patch)) for cell in corner
        ]
        seen.append([*(length / width for length in lengths), *(cell.volume / width**2 for cell in corner)])
    np.testing.assert_allclose(seen, np.broadcast_to(seen[0], np.shape(seen)), rtol=1e-3)
