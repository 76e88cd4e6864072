import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipe

import flm
from flm.domains import Ball, Box, Combination, Curve, Disk, Ellipse, Polygon, Product, Region

L_SHAPE = Polygon(x=[0, 1, 1, -1, -1, 0], y=[0, 0, 1, 1, -1, -1])


def flower(s):
    return (1 + 0.3 * jnp.cos(5 * s)) * jnp.cos(s), (1 + 0.3 * jnp.cos(5 * s)) * jnp.sin(s)


def flower_level(x, y):
    return jnp.hypot(x, y) - 1 - 0.3 * jnp.cos(5 * jnp.arctan2(y, x))


SQUARE = Box(x=(-1.5, 1.5), y=(-1.5, 1.5))
# ∫ ½ r² = π(1 + 0.3²/2); ∫ sqrt(r² + r'²)
FLOWER_AREA = np.pi * (1 + 0.045)
_S = 2 * np.pi * np.arange(4096) / 4096
FLOWER_LENGTH = 2 * np.pi * np.mean(np.hypot(1 + 0.3 * np.cos(5 * _S), 1.5 * np.sin(5 * _S)))

# domain, area or volume, measure of the boundary, tolerance of the latter
SHAPES = [
    (Disk(x=1, y=-2, radius=2), 4 * np.pi, 4 * np.pi, 1e-14),
    (Disk(radius=0.5), np.pi / 4, np.pi, 1e-14),
    (Ellipse(x=0, y=1, a=1.5, b=1), 1.5 * np.pi, 6 * ellipe(1 - 1 / 2.25), 1e-12),
    (Ellipse(x=0, y=0, a=1, b=3), 3 * np.pi, 12 * ellipe(1 - 1 / 9), 1e-12),
    (L_SHAPE, 3.0, 8.0, 1e-14),
    (Polygon(x=[0, 0, 1], y=[0, 1, 0]), 0.5, 2 + np.sqrt(2), 1e-14),
    (Ball(x=0, y=0, z=1, radius=1), 4 * np.pi / 3, 4 * np.pi, 1e-14),
    (Ball((0, 0, 0, 0), 2), np.pi**2 / 2 * 16, 2 * np.pi**2 * 8, 1e-14),
    (Curve(flower), FLOWER_AREA, FLOWER_LENGTH, 1e-12),
    (Curve(lambda s: flower(-s)), FLOWER_AREA, FLOWER_LENGTH, 1e-12),
    (Region(flower_level, bounds=SQUARE), FLOWER_AREA, FLOWER_LENGTH, 2e-4),
    (Region(lambda x, y: 1e-9 * (x**2 + y**2 - 1), bounds=SQUARE), np.pi, 2 * np.pi, 1e-4),
    (
        Region(lambda x, y, z: x**2 + y**2 + z**2 - 1, bounds=SQUARE * Box(z=(-1.2, 1.2))),
        4 * np.pi / 3,
        4 * np.pi,
        0.01,
    ),
    (Disk(radius=1) - Disk(x=0.2, y=0.1, radius=0.3), 0.91 * np.pi, 2.6 * np.pi, 1e-12),
    (Box(x=(-1, 1), y=(-1, 1)) - Box(x=(0, 1), y=(0, 1)), 3.0, 8.0, 1e-12),
    (Box(x=(-1, 0), y=(-1, 1)) | Box(x=(0, 1), y=(-1, 1)), 4.0, 8.0, 1e-12),
    (Box(x=(-1, 1), y=(-1, 1)) & Box(x=(-1, 0.5), y=(-1, 2)), 3.0, 7.0, 1e-3),
    (Disk(radius=1) & Box(x=(-2, 0), y=(-2, 2)), np.pi / 2, np.pi + 2, 1e-3),
    (Disk(radius=1) | Disk(x=1, y=0, radius=1), 4 * np.pi / 3 + np.sqrt(3) / 2, 8 * np.pi / 3, 1e-3),
    (Disk(radius=1) * Box(t=(0, 2)), 2 * np.pi, 4 * np.pi, 1e-12),
    (Box(t=(0, 2)) * L_SHAPE, 6.0, 16.0, 1e-12),
    ((Disk(radius=1) - Disk(radius=0.5)) * Box(t=(0, 2)), 1.5 * np.pi, 6 * np.pi, 1e-12),
]
NAMES = [repr(shape[0]) for shape in SHAPES]


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "area", "length", "tolerance"), SHAPES, ids=NAMES)
def test_area_length_points_and_normals(domain, area, length, tolerance):
    m = len(domain.axes)
    # inside
    points = domain.interior(2000, seed=0)
    assert points.shape == (2000, m)
    assert np.all(domain.level(points) < 0)
    assert domain.contains(points).all()
    np.testing.assert_array_equal(points, domain.interior(2000, seed=0))
    plain = Box(**dict(zip(domain.axes, domain.bounds, strict=True))).interior(20000, seed=1, warp=False)
    assert np.mean(domain.contains(plain)) * np.prod(domain.width) == pytest.approx(area, rel=0.01)
    # boundary
    piece = domain.piece("boundary")
    assert piece.measure == pytest.approx(length, rel=tolerance)
    points, normals = piece.sample(997, seed=0)
    assert points.shape == normals.shape == (997, m)
    size = domain.width.max()
    assert np.abs(domain.level(points)).max() <= 1e-14 * size
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, rtol=1e-14)
    assert np.all(domain.level(points + 1e-6 * size * normals) > 0)
    assert np.mean(domain.level(points - 1e-6 * size * normals) < 0) > 0.995
    again, _ = piece.sample(997, seed=0)
    np.testing.assert_array_equal(points, again)
    other, _ = piece.sample(997, seed=1)
    assert np.abs(np.sort(points[:, 0]) - np.sort(other[:, 0])).max() > 1e-6


@pytest.mark.parametrize("domain", [shape[0] for shape in SHAPES[:13]], ids=NAMES[:13])
def test_divergence_theorem(domain):
    """∮ x·n = m |domain|: points, normals and their even spread at once."""
    points, normals = domain.piece("boundary").sample(4000, seed=0, warp=False)
    piece = domain.piece("boundary")
    flux = piece.measure * np.mean(np.sum((points - domain.center) * normals, axis=1))
    area = next(area for shape, area, _, _ in SHAPES if shape is domain)
    assert flux / len(domain.axes) == pytest.approx(area, rel=0.02 if isinstance(domain, Region) else 2e-3)


def test_curves_are_even_by_arc_length_and_sides_are_chebyshev():
    for domain in (Ellipse(x=0, y=0, a=3, b=1), Curve(flower), Region(flower_level, bounds=SQUARE)):
        points, _ = domain.pieces[0].sample(3000, seed=0)
        steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
        assert np.ptp(steps) < 1e-2 * steps.mean()
    side, _ = Polygon(x=[0, 1, 0], y=[0, 0, 1]).pieces[0].restrict(lambda y: y == 0).sample(20, seed=0)
    np.testing.assert_allclose(side[:, 0], np.sin(np.pi / 2 * (np.arange(20) + 0.5) / 20) ** 2, atol=1e-14)


def test_level_set_points_are_on_the_curve():
    """Points of the flower against its polar equation, and normals against the curve's own."""
    region, curve = Region(flower_level, bounds=SQUARE), Curve(flower)
    points, normals = region.pieces[0].sample(500, seed=0)
    radius, angle = np.hypot(*points.T), np.arctan2(points[:, 1], points[:, 0])
    assert np.abs(radius - 1 - 0.3 * np.cos(5 * angle)).max() < 1e-14
    r, dr = 1 + 0.3 * np.cos(5 * angle), -1.5 * np.sin(5 * angle)
    tangent = np.stack([dr * np.cos(angle) - r * np.sin(angle), dr * np.sin(angle) + r * np.cos(angle)], axis=1)
    exact = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1) / np.linalg.norm(tangent, axis=1, keepdims=True)
    np.testing.assert_allclose(normals, exact, atol=1e-13)
    assert np.abs(curve.level(points)).max() < 1e-14


def test_curve_level_is_the_distance():
    curve = Curve(lambda s: (2 * jnp.cos(s), 2 * jnp.sin(s)))
    points = np.random.default_rng(0).uniform(-2, 2, (2000, 2))
    np.testing.assert_allclose(curve.level(points), np.hypot(*points.T) - 2, atol=1e-3)
    near = points * (2 + 1e-3 * points[:, :1]) / np.linalg.norm(points, axis=1, keepdims=True)
    np.testing.assert_allclose(curve.level(near), np.hypot(*near.T) - 2, atol=1e-14)


def test_polygon_level_is_the_distance():
    points = np.array([[-0.5, 0.5], [2.0, 0.5], [0.5, -0.5], [0.1, -0.1], [-0.2, 0.1]])
    np.testing.assert_allclose(L_SHAPE.level(points), [-0.5, 1.0, 0.5, 0.1, -np.hypot(0.2, 0.1)])


def test_booleans_keep_owners():
    hole = Disk(x=0.4, y=0.1, radius=0.3)
    plate = flm.Ellipse(x=0, y=0, a=1.5, b=1) - hole
    assert isinstance(plate, Combination)
    assert [piece.owner for piece in plate.pieces] == [Ellipse(x=0, y=0, a=1.5, b=1), hole]
    points, normals = plate.piece(hole).sample(100, seed=0)
    np.testing.assert_allclose(np.linalg.norm(points - [0.4, 0.1], axis=1), 0.3, rtol=1e-14)
    np.testing.assert_allclose(normals, ([0.4, 0.1] - points) / 0.3, atol=1e-14)
    assert plate.piece(plate).measure == plate.piece("boundary").measure
    with pytest.raises(ValueError, match=r"a shape that part of the boundary came from; got Disk\(x=5"):
        plate.piece(Disk(x=5, y=0, radius=1))
    cut = Box(x=(0, 1), y=(0, 1)) - Disk(x=0, y=0, radius=0.5)
    assert cut.piece("x=0").measure == pytest.approx(0.5, abs=1e-3)
    assert cut.piece("x=0").sample(50, seed=0)[0][:, 1].min() > 0.5 - 1e-6


def test_points_and_planes_of_regions():
    disk = Disk(x=0, y=0, radius=1)
    points, normals = disk.piece("x=0, y=0").sample(9, seed=0)
    np.testing.assert_array_equal(points, [[0, 0]])
    np.testing.assert_array_equal(normals, [[0, 0]])
    chord = disk.piece("x=0.6")
    assert chord.measure == pytest.approx(1.6, abs=1e-3)
    assert np.abs(chord.sample(50, seed=0)[0][:, 1]).max() <= 0.8
    with pytest.raises(ValueError, match="must be a place that meets the domain; got 'x=0"):
        disk.piece("x=0.9, y=0.9")
    right = disk.piece("boundary").restrict(lambda x: x > 0)
    assert right.measure == pytest.approx(np.pi, rel=1e-3)


def test_grid_of_a_region_keeps_points_inside():
    disk = Disk(radius=1)
    grid = disk.grid(201)
    assert np.all(np.hypot(*grid.T) <= 1 + 1e-11)
    assert len(grid) * 0.01**2 == pytest.approx(np.pi, rel=1e-2)


def test_product_with_time():
    hole = Disk(x=0.2, y=0, radius=0.3)
    domain = (Disk(radius=1) - hole) * Box(t=(0, 2))
    assert isinstance(domain, Product)
    assert domain.axes == ("x", "y", "t")
    assert [piece.name for piece in domain.pieces] == [
        "Disk(x=0, y=0, radius=1)",
        "Disk(x=0.2, y=0, radius=0.3)",
        "t=0",
        "t=2",
    ]
    start = domain.piece("t=0")
    points, normals = start.sample(500, seed=0)
    np.testing.assert_array_equal(points[:, 2], 0)
    np.testing.assert_array_equal(normals, np.tile([0, 0, -1.0], (500, 1)))
    assert domain.contains(points).all()
    assert start.measure == pytest.approx(0.91 * np.pi, rel=0.01)
    points, normals = domain.piece(hole).sample(500, seed=0)
    np.testing.assert_allclose(np.linalg.norm(points[:, :2] - [0.2, 0], axis=1), 0.3, rtol=1e-14)
    np.testing.assert_array_equal(normals[:, 2], 0)
    # angle and time spread independently
    angle = np.arctan2(points[:, 1], points[:, 0] - 0.2)
    assert abs(np.corrcoef(angle, points[:, 2])[0, 1]) < 0.05
    assert np.abs(np.histogram2d(angle, points[:, 2], bins=(4, 1))[0] - 125).max() < 10
    lateral = domain.piece("boundary")
    assert lateral.measure == pytest.approx(2 * 2.6 * np.pi)
    assert np.all(lateral.sample(100, seed=0)[1][:, 2] == 0)


def test_balls_as_initial_sets():
    ball = flm.Ball((0.2, 0.2, 0.6), 0.15)
    assert ball.axes == ("x", "y", "z")
    np.testing.assert_allclose(ball.center, [0.2, 0.2, 0.6], rtol=1e-15)
    assert ball.radius == 0.15
    assert Ball(r=0, z=0, radius=1).axes == ("r", "z")
    assert [piece.fixed for piece in Ball(x=1, radius=2).pieces] == [{"x": -1.0}, {"x": 3.0}]
    assert len({ball, flm.Ball((0.2, 0.2, 0.6), 0.15)}) == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Disk(x=0, y=0, radius=0), r"`radius` must be a positive number; got 0"),
        (lambda: Disk(x=0, radius=1), r"`Disk` must have 2 axes; got 1 \(x\)"),
        (lambda: Disk((0, 0), x=1, y=1), r"`center` must be given once"),
        (lambda: Disk(x=0, y=np.nan), r"`center` must be finite numbers"),
        (lambda: Ball("ab", 1), r"`center` must be numbers"),
        (lambda: Ellipse(x=0, y=0, a=1, b=-1), r"`b` must be a positive number; got -1"),
        (lambda: Polygon(x=[0, 1], y=[0, 1]), r"at least three finite vertices; got 2"),
        (lambda: Polygon(x=[0, 1, 2], y=[0, 1]), r"as many coordinates in each axis; got {'x': 3, 'y': 2}"),
        (lambda: Polygon(x=[0, 1, 0, 1], y=[0, 1, 1, 0]), r"must not cross itself"),
        (lambda: Polygon(x=[0, 1, 1, 0, 0.5], y=[0, 0, 1, 1, 0]), r"must not cross itself"),
        (lambda: Polygon(x=[0, 1, 2], y=[0, 1, 2]), r"must have an area"),
        (lambda: Polygon(x=[0, 0, 1, 1], y=[0, 0, 0, 1]), r"must not repeat a vertex"),
        (lambda: Curve(lambda s: (s, jnp.sin(s))), r"`path` must close, path\(0\) = path\(2π\)"),
        (lambda: Curve(lambda s: (jnp.sin(s), jnp.sin(2 * s))), r"`path` must not cross itself"),
        (lambda: Curve(lambda s: (np.sin(s), np.cos(s))), r"`path` must be elementwise and written with jax.numpy"),
        (lambda: Curve(lambda s: (jnp.sin(s), jnp.cos(s), s)), r"`path` must return two coordinates; got 3"),
        (
            lambda: Region(lambda x, y: x**2 + y**2 + 1, bounds=SQUARE),
            r"must be negative somewhere in Box.*an empty region",
        ),
        (lambda: Region("0 * x", bounds=SQUARE), r"must be negative somewhere in Box.*an empty region"),
        (
            lambda: Region(lambda x, y: x**2 + y**2 - 4, bounds=SQUARE),
            r"got one that touches x=min. Enlarge the bounds",
        ),
        (lambda: Region(lambda x, y: x - 1.4, bounds=SQUARE), r"touches x=min"),
        (lambda: Region(lambda x, z: x + z, bounds=SQUARE), r"must be a function of x, y; got the argument z"),
        (lambda: Region(lambda x, y: np.hypot(x, y) - 1, bounds=SQUARE), r"written with jax.numpy"),
        (lambda: Region(lambda x, y: jnp.log(x) + y, bounds=SQUARE), r"must be finite in its bounds"),
        (lambda: Region(lambda x: x, bounds=Box(x=(0, 1))), r"`bounds` must be a Box with two or more axes"),
        (lambda: Region(lambda x, y: (x**2 + y**2 - 1) ** 3, bounds=SQUARE).pieces, r"must cross zero with a slope"),
        (lambda: Disk(radius=1) & Disk(x=5, y=0, radius=1), r"`&` must leave a region; got an empty one"),
        (lambda: Disk(radius=1) - Disk(radius=2), r"`-` must leave a region; got an empty one"),
        (lambda: Disk(radius=1) - Disk(r=0, z=0, radius=1), r"must join domains with the same axes .* x, y and r, z"),
        (lambda: Disk(radius=1) * Box(x=(0, 1)), r"without common axes; got x in both"),
    ],
)
def test_refusals(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_booleans_are_the_closure_of_their_interior():
    """Faces that two shapes share stay only where there is an inside beside them; thin wedges and seams stay."""
    cut = Box(x=(0, 2), y=(0, 2)) - Box(x=(1, 2), y=(1, 2))
    drawn = Polygon(x=[0, 2, 2, 1, 1, 0], y=[0, 0, 1, 1, 2, 2])
    points = [[2, 2], [2, 1.5], [1.5, 2], [2, 1 + 1e-6], [2, 1], [1, 2], [1, 1], [1, 1.5], [2, 0.5], [0, 0], [1.5, 1.5]]
    np.testing.assert_array_equal(cut.contains(points), drawn.contains(points))
    np.testing.assert_array_equal(cut.contains(points), [False] * 4 + [True] * 6 + [False])
    assert len(cut.grid(21)) == len(drawn.grid(21)) == 441 - 100
    # a subtracted shape that touches from outside takes nothing away; a common part without an inside is not there
    assert (Box(x=(0, 1), y=(0, 1)) - Box(x=(1, 2), y=(0, 1))).contains([[1, 0.5], [1, 0], [1, 1]]).all()
    touching = (Box(x=(0, 1), y=(0, 3)) | Box(x=(0, 2), y=(0, 1))) & (Box(x=(1, 2), y=(0, 3)) | Box(x=(0, 2), y=(0, 1)))
    assert touching.contains([[1, 0.5], [1, 1], [1, 2], [1, 3]]).tolist() == [True, True, False, False]
    seam = Box(x=(-1, 0), y=(-1, 1)) | Box(x=(0, 1), y=(-1, 1))
    assert seam.contains([[0, 0], [0, 1], [0, -1], [1, 0]]).all()
    # the tips of a lens, and of a wedge of half a degree
    lens = Disk(radius=1) & Disk(x=1, y=0, radius=1)
    tip = np.sqrt(0.75)
    assert lens.contains([[0.5, tip], [0.5, -tip], [0.5, 0]]).all()
    wedge = Polygon(x=[0, 1, 1], y=[0, -1, 0.01]) & Polygon(x=[0, 1, 1], y=[0, 0, 1])
    assert wedge.contains([[0, 0], [1, 0], [1, 0.01]]).all()
    cube = Box(x=(0, 2), y=(0, 2), z=(0, 2)) - Box(x=(1, 2), y=(1, 2), z=(1, 2))
    assert (
        cube.contains([[2, 2, 2], [2, 1.5, 1.5], [2, 2, 1.5], [2, 2, 1], [1, 1, 1]]).tolist()
        == [False] * 3 + [True] * 2
    )


def test_booleans_of_products():
    """A region times time can be cut by another: its pieces keep their owners."""
    hole = Disk(x=0, y=0, radius=0.5)
    both = Disk(radius=1) * Box(t=(0, 1)) - hole * Box(t=(0, 1))
    assert both.contains([[0.7, 0, 0.5], [0, 0, 0.5], [0.5, 0, 1], [0, 0, 0]]).tolist() == [True, False, True, False]
    assert both.piece(hole).measure == pytest.approx(np.pi, rel=1e-3)


def test_a_ball_of_many_axes_in_time_divides_by_nothing():
    """The sphere's chart has no direction at its middle: nothing looks there."""
    with warnings.catch_warnings(action="error"):
        domain = Ball((0, 0, 0, 0, 0), 2.0) * Box(t=(0, 1))
        points, normals = domain.piece("boundary").sample(200, seed=0)
        start, _ = domain.piece("t=0").sample(50, seed=0)
    np.testing.assert_allclose(np.linalg.norm(points[:, :5], axis=1), 2.0, rtol=1e-12)
    np.testing.assert_allclose(normals[:, :5], points[:, :5] / 2.0, atol=1e-12)
    assert (normals[:, 5] == 0).all()
    assert (start[:, 5] == 0).all()


def test_a_level_that_looks_up_a_table_is_compiled():
    """jnp.interp has no program of NumPy operations; values and gradients are those of the formula."""
    nodes = jnp.linspace(0.0, 3.0, 4)
    region = Region(lambda x, y: jnp.interp(jnp.hypot(x, y), nodes, nodes - 1), bounds=SQUARE)
    points, normals = region.pieces[0].sample(300, seed=0)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(normals, points, atol=1e-13)
