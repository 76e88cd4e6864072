"""Cut pieces: regions of every kind against exact solutions, slivers, and estimates that are true."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.pde.pieces.newton import solve_system
from flm.pde.pieces.setup import set_up
from flm.pde.pieces.tree import Cut

DISK = flm.Disk(x=0, y=0, radius=1)
HOLE = flm.Disk(x=0.2, y=0.1, radius=0.3)
SQUARE = flm.Box(x=(0, 1), y=(0, 1))
L_SHAPE = flm.Box(x=(-1, 1), y=(-1, 1)) - flm.Box(x=(0, 1), y=(-1, 0))


def wave(x, y):
    return jnp.exp(x) * jnp.sin(2 * y + 0.3)


def slope(x, y, nx, ny):
    return jnp.exp(x) * (nx * jnp.sin(2 * y + 0.3) + 2 * ny * jnp.cos(2 * y + 0.3))


def smooth(region, conditions=None):
    """Δu = -3u of a function that extends beyond every region."""
    return flm.PDE(
        region,
        lambda u_xx, u_yy, x, y: u_xx + u_yy + 3 * wave(x, y),
        conditions or [flm.dirichlet("boundary", wave)],
        exact=wave,
    )


def check(problem, tol=1e-8, method="pieces"):
    solution = flm.solve(problem, tol, method=method)
    error = solution.errors().relative_l2
    assert solution.status.word == "converged"
    assert error <= 2 * max(solution.error_estimate, 1e-14)
    assert error <= tol
    return solution


REGIONS = {
    "disk": DISK,
    "annulus": DISK - HOLE,
    "ellipse": flm.Ellipse(x=0.3, y=-0.2, a=1.5, b=0.7),
    "triangle": flm.Polygon(x=[0, 1, 0.3], y=[0, 0.2, 0.9]),
    "pentagon": flm.Polygon(x=[0, 2, 2.2, 1, -0.3], y=[0, -0.2, 1, 0.5, 1.2]),
    "flower": flm.Curve(lambda s: ((1 + 0.2 * jnp.cos(5 * s)) * jnp.cos(s), (1 + 0.2 * jnp.cos(5 * s)) * jnp.sin(s))),
    "level set": flm.Region(lambda x, y: x**4 + y**4 - 1, bounds=flm.Box(x=(-1.2, 1.2), y=(-1.1, 1.1))),
    "union": SQUARE | flm.Disk(x=1, y=0.5, radius=0.3),
    "half disk": DISK & flm.Box(x=(-2, 0.31), y=(-2, 2)),
    "L-shape": L_SHAPE,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REGIONS)
def test_smooth_data_on_every_kind_of_region(name):
    check(smooth(REGIONS[name]))


def test_axis_parallel_edges_leave_whole_boxes():
    setup = set_up(smooth(L_SHAPE))
    tree = setup.start(setup.bounds)
    assert tree.num_leaves == 3
    assert not tree.is_cut.any()
    np.testing.assert_allclose(tree.shares, 1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["disk", "annulus", "triangle", "union"])
def test_a_polynomial_leaves_no_residual_on_many_pieces(name):
    exact = lambda x, y: x**3 * y - 2 * x * y**2 + y
    problem = flm.PDE(
        REGIONS[name],
        lambda u_xx, u_yy, x, y: u_xx + u_yy - (6 * x * y - 4 * x),
        [flm.dirichlet("boundary", exact)],
        exact=exact,
    )
    setup = set_up(problem)
    tree, _ = setup.start(setup.bounds).split({0: [Cut(0, 0.43), Cut(1)]})
    tree, _ = tree.split({0: [Cut(0), Cut(1)]})  # hanging faces
    answer = solve_system(setup.system(tree, (5, 5)), None, True)
    points = problem.domain.interior(500, seed=0, warp=False)
    assert answer.residual < 1e-13
    np.testing.assert_allclose(answer.evaluate(points)[:, 0], problem.exact_values(points), atol=1e-10)
    assert tree.shares.sum() == pytest.approx(1)


@pytest.mark.slow
def test_slivers_down_to_a_ten_thousandth_do_no_harm():
    problem = smooth(DISK)
    setup, rng, thinnest = set_up(problem), np.random.default_rng(3), 1.0
    points = problem.domain.interior(1000, seed=0, warp=False)
    exact = problem.exact_values(points)
    for trial in range(4):
        # The last cuts lie ever closer to the rim, down to a sliver that belongs to its neighbor.
        share = 10 ** -rng.uniform(2, 4.5) if trial % 2 else rng.uniform(0.2, 0.8)
        tree, _ = setup.start(setup.bounds).split({0: [Cut(0, float(share)), Cut(1, float(rng.uniform(0.2, 0.8)))]})
        tree, _ = tree.split({leaf: [Cut(1)] for leaf in range(tree.num_leaves)})
        cells = [cell.volume / np.prod(cell.high - cell.low) for cell in tree.cells]
        thinnest = min(thinnest, share, *cells)
        answer = solve_system(setup.system(tree, (13, 13)), None, True)
        gap = answer.evaluate(points)[:, 0] - exact
        assert np.sqrt(np.mean(gap**2) / np.mean(exact**2)) < 1e-10
    assert thinnest < 2e-4


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1e-2, 1e-4, 1e-6])
def test_a_region_that_pokes_into_the_next_piece(depth):
    """The tip of a triangle reaches a share `depth` of its width beyond a cut."""
    problem = smooth(flm.Polygon(x=[0, 1, 0], y=[0, 0.45, 1]))
    setup = set_up(problem)
    tree, _ = setup.start(setup.bounds).split({0: [Cut(0, 1 - depth)]})
    answer = solve_system(setup.system(tree, (13, 13)), None, True)
    points = problem.domain.interior(500, seed=0, warp=False)
    assert np.abs(answer.evaluate(points)[:, 0] - problem.exact_values(points)).max() < 1e-8


@pytest.mark.slow
def test_named_shapes_and_normals():
    conditions = [
        flm.on(HOLE, lambda u_n, x, y, nx, ny: u_n - slope(x, y, nx, ny)),
        flm.on("boundary", lambda u, u_n, x, y, nx, ny: u_n + 2 * u - slope(x, y, nx, ny) - 2 * wave(x, y)),
    ]
    check(smooth(DISK - HOLE, conditions))


@pytest.mark.slow
def test_conditions_on_parts_of_a_boundary():
    conditions = [
        flm.on("boundary", lambda u, x, y: u - wave(x, y), where=lambda x: x < 0.2),
        flm.on("boundary", lambda u_n, x, y, nx, ny: u_n - slope(x, y, nx, ny), where=lambda x: x >= 0.2),
    ]
    check(smooth(flm.Ellipse(x=0, y=0, a=1.2, b=0.8), conditions))


@pytest.mark.slow
def test_a_solution_shaped_by_a_hole():
    """log r between two circles has its singularity inside the hole: pieces are cut towards it."""
    inner = flm.Disk(x=0, y=0, radius=0.4)
    exact = lambda x, y: jnp.log(x**2 + y**2)
    problem = flm.PDE(
        DISK - inner,
        lambda u_xx, u_yy: u_xx + u_yy,
        [flm.dirichlet(DISK, 0.0), flm.neumann(inner, -2 / 0.4)],
        exact=exact,
    )
    solution = check(problem, 1e-5)
    assert solution.model.num_pieces > 4
    points = problem.domain.interior(300, seed=2, warp=False)
    values, largest = np.asarray(solution(points)), np.abs(np.asarray(solution(points))).max()
    found = np.zeros(len(points), bool)
    for box, series in solution.pieces:
        inside = box.contains(points) & ~found
        np.testing.assert_allclose(np.asarray(series(points[inside])), values[inside], atol=1e-6 * largest)
        assert np.abs(np.asarray(series.amplitudes)).max() < 10 * largest
        found |= inside
    assert found.all()
    assert not problem.domain.contains([[0.0, 0.0]]).any()


@pytest.mark.slow
def test_nonlinear_equations_and_systems():
    check(
        flm.PDE(
            DISK - HOLE,
            lambda u, u_xx, u_yy, x, y: u_xx + u_yy - u**3 + 3 * wave(x, y) + wave(x, y) ** 3,
            [flm.dirichlet("boundary", wave)],
            exact=wave,
        )
    )
    other = lambda x, y: jnp.cos(x) * y
    check(
        flm.PDE(
            DISK,
            [
                lambda u_xx, u_yy, v, x, y: u_xx + u_yy + v + 3 * wave(x, y) - other(x, y),
                lambda v_xx, v_yy, u, v, x, y: v_xx + v_yy + u * v + (1 - wave(x, y)) * other(x, y),
            ],
            [flm.dirichlet("boundary", wave), flm.dirichlet("boundary", other, unknown="v")],
            unknowns=("u", "v"),
            exact={"u": wave, "v": other},
        )
    )


@pytest.mark.slow
def test_a_ball_in_one_piece_and_a_half_ball():
    exact = lambda x, y, z: jnp.exp(0.5 * x) * jnp.sin(y) * jnp.cos(0.5 * z)
    equation = lambda u_xx, u_yy, u_zz, x, y, z: u_xx + u_yy + u_zz + exact(x, y, z)
    ball = flm.Ball(x=0, y=0, z=0, radius=1)
    for region in (ball, ball & flm.Box(x=(-2, 0.2), y=(-2, 2), z=(-2, 2))):
        check(flm.PDE(region, equation, [flm.dirichlet("boundary", exact)], exact=exact), 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        ([flm.dirichlet("boundary", 0.0, where=lambda x: x < 0)], "undetermined"),
        ([flm.dirichlet(DISK, 1.0), flm.dirichlet(DISK, 2.0)], "inconsistent"),
        ([flm.neumann("boundary", 0.0)], "inconsistent"),
        ([flm.neumann("boundary", 1.0)], "inconsistent"),
    ],
)
def test_what_has_no_solution_has_no_estimate(conditions, word):
    solution = flm.solve(flm.PDE(DISK, lambda u_xx, u_yy: u_xx + u_yy - 4, conditions), 1e-6, method="pieces")
    assert solution.status.word == word
    assert solution.error_estimate == np.inf


def random_region(rng):
    kind, radius = rng.integers(5), float(rng.uniform(0.6, 1.2))
    disk = flm.Disk(x=float(rng.uniform(-0.2, 0.2)), y=0, radius=radius)
    if kind == 0:
        return disk
    if kind == 1:
        return disk - flm.Disk(x=float(rng.uniform(-0.3, 0.3)), y=0.1, radius=float(rng.uniform(0.1, 0.3)))
    if kind == 2:
        return flm.Ellipse(x=0, y=0, a=radius, b=float(rng.uniform(0.4, 1)))
    if kind == 3:
        angles = np.sort(rng.uniform(0, 2 * np.pi, 3)) + np.array([0, 0.5, 1])
        return flm.Polygon(x=list(radius * np.cos(angles)), y=list(np.sin(angles)))
    return flm.Box(x=(-1, 0.7), y=(-0.5, 0.5)) - disk if radius < 0.7 else flm.Box(x=(-1, 1), y=(-0.5, 0.6)) & disk


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_estimates_are_true_on_random_regions(seed):
    rng = np.random.default_rng([14, seed])
    k, c = rng.uniform(1, 4, 2), float(rng.uniform(-2, 2))
    exact = lambda x, y: jnp.cos(k[0] * x + k[1] * y) + c * x
    region = random_region(rng)
    conditions = [flm.dirichlet("boundary", exact)]
    if seed % 3 == 1:
        rate = lambda x, y, nx, ny: -(k[0] * nx + k[1] * ny) * jnp.sin(k[0] * x + k[1] * y) + c * nx
        conditions = [flm.on("boundary", lambda u, u_n, x, y, nx, ny: u_n + u - rate(x, y, nx, ny) - exact(x, y))]
    source = lambda x, y: -(k[0] ** 2 + k[1] ** 2) * jnp.cos(k[0] * x + k[1] * y) - exact(x, y)
    problem = flm.PDE(region, lambda u, u_xx, u_yy, x, y: u_xx + u_yy - u - source(x, y), conditions, exact=exact)
    solution = flm.solve(problem, 10.0 ** -rng.uniform(4, 10), method="pieces")
    assert solution.status.word == "converged"
    assert solution.errors().relative_l2 <= 2 * max(solution.error_estimate, 1e-14)
