import numpy as np
import pytest

import flm
from flm.domains import Box
from flm.domains.base import parse_where
from flm.domains.sequences import MAX_DIMENSION, sobol, split, unit_points


def test_box_is_a_value():
    box = Box(x=(0, 1), t=(0, 2))
    assert box == Box(x=(0, 1), t=(0, 2))
    assert hash(box) == hash(Box(x=(0.0, 1.0), t=(0.0, 2.0)))
    assert box != Box(t=(0, 2), x=(0, 1))
    assert repr(box) == "Box(x=(0, 1), t=(0, 2))"
    assert eval(repr(Box(x=(-1e-7, np.pi)))) == Box(x=(-1e-7, np.pi))
    assert box["t"] == (0.0, 2.0)
    assert dict(box) == {"x": (0.0, 1.0), "t": (0.0, 2.0)}
    assert list(box) == ["x", "t"]
    assert len(box) == 2
    assert flm.Box is Box
    np.testing.assert_array_equal(box.bounds, [[0, 1], [0, 2]])
    np.testing.assert_array_equal(box.width, [1, 2])
    np.testing.assert_array_equal(box.center, [0.5, 1])
    with pytest.raises(ValueError, match="read-only"):
        box.bounds[0, 0] = 5.0


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"x": (1, 0)}, r"`x` must be a finite interval with low < high; got \(1, 0\)"),
        ({"x": (0, np.inf)}, r"`x` must be a finite interval"),
        ({"x": (0, np.nan)}, r"`x` must be a finite interval"),
        ({"x": 3}, r"`x` must be an interval \(low, high\); got 3"),
        ({"x": (0, 1, 2)}, r"`x` must be an interval"),
        ({"n": (0, 1)}, r"must not contain 'n': u_n is the normal derivative"),
        ({"a b": (0, 1)}, r"`axes` must be valid Python names; got 'a b'"),
        ({"lambda": (0, 1)}, r"`axes` must be valid Python names"),
        ({}, r"`Box` must have at least one axis"),
    ],
)
def test_boxes_refused(axes, message):
    with pytest.raises(ValueError, match=message):
        Box(**axes)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("-1", -1.0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e-3", 1e-3),
        ("+2.5E2", 250.0),
        ("pi", np.pi),
        ("2*pi", 2 * np.pi),
        ("2 * pi", 2 * np.pi),
        ("-pi", -np.pi),
        ("-0.5*pi", -0.5 * np.pi),
        ("pi/2", np.pi / 2),
        ("min", "min"),
        ("max", "max"),
        ("2*pi/3", 2 * np.pi / 3),
    ],
)
def test_values_as_text(text, value):
    assert parse_where(f"x={text}", ("x", "y")) == {"x": value}


def test_faces_in_order_with_outward_normals():
    box = Box(x=(0, 1), y=(-1, 3), t=(0, 2 * np.pi))
    assert [p.name for p in box.pieces] == ["x=0", "x=1", "y=-1", "y=3", "t=0", "t=6.28318530718"]
    for index, piece in enumerate(box.pieces):
        points, normals = piece.sample(50, seed=0)
        axis, upper = divmod(index, 2)
        expected = np.zeros(3)
        expected[axis] = 2 * upper - 1
        assert points.shape == normals.shape == (50, 3)
        np.testing.assert_array_equal(normals, np.tile(expected, (50, 1)))
        np.testing.assert_array_equal(points[:, axis], box.bounds[axis, upper])
        assert box.contains(points).all()
        assert piece.dimension == 2
        assert piece.measure == pytest.approx(np.prod(box.width) / box.width[axis])


def test_places_by_text():
    box = Box(x=(0, 1), t=(0, 2 * np.pi))
    assert box.piece("x=min").name == box.piece("x = 0").name == box.piece("x=1e-13").name == "x=0"
    assert box.piece("t=2*pi").fixed == {"t": 2 * np.pi}
    assert box.piece("t=6.283185307").fixed == {"t": 2 * np.pi}
    corner = box.piece("t=0, x=max")
    assert corner.name == "x=1, t=0"
    assert corner.dimension == 0
    assert corner.measure == 1.0
    points, normals = corner.sample(40, seed=3)
    np.testing.assert_array_equal(points, [[1, 0]])
    np.testing.assert_array_equal(normals, [[1, 0]])
    plane = box.piece("x=0.5")
    assert plane.dimension == 1
    np.testing.assert_array_equal(plane.sample(5, seed=0)[1], 0)
    np.testing.assert_array_equal(box.piece("x=0.5, t=0").sample(1, seed=0)[1], [[0, -1]])
    assert box.piece(plane) is plane


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("x=3", r"0 <= x <= 1; got 'x=3'. The boundary pieces are: x=0, x=1, t=0, t=2"),
        ("y=0", r"must name an axis of the domain \(x, t\); got 'y' in 'y=0'"),
        ("X=0", r"Did you mean 'x'\?"),
        ("x<1", r"must be a place like \"x=0\""),
        ("x=0, x=1", r"must pin each axis once; got 'x' twice"),
        ("left", r"must be a place like"),
        ("x=", r"must be a place like"),
        ("x=inf", r"must be a place like"),
        ("x=1/0", r"must be a place like"),
        ("x=__import__('os')", r"must be a place like"),
        (3, r"must be a string like \"x=0\", or a shape; got 3"),
    ],
)
def test_places_refused(where, message):
    with pytest.raises(ValueError, match=message):
        Box(x=(0, 1), t=(0, 2)).piece(where)


@pytest.mark.parametrize("m", [1, 2, 3, 6])
@pytest.mark.parametrize("warp", [True, False])
def test_interior_points(m, warp):
    box = Box(**{f"x{j}": (1e6, 1e6 + 10.0**-j) for j in range(m)})
    points = box.interior(1000, seed=1, warp=warp)
    assert points.shape == (1000, m)
    assert np.all((points > box.bounds[:, 0]) & (points < box.bounds[:, 1]))
    np.testing.assert_array_equal(points, box.interior(1000, seed=1, warp=warp))
    assert not np.any(np.all(points == box.interior(1000, seed=2, warp=warp), axis=1))
    # E f for the uniform (1/2, 1/12) and the arcsine (1/2, 1/8) law
    unit = (points - box.bounds[:, 0]) / box.width
    np.testing.assert_allclose(unit.mean(axis=0), 0.5, atol=0.01)
    np.testing.assert_allclose(unit.var(axis=0), 1 / 8 if warp else 1 / 12, rtol=0.02)


def test_interior_fills_evenly():
    points = Box(x=(0, 1), y=(0, 1)).interior(4000, seed=0, warp=False)
    counts = np.histogram2d(*points.T, bins=8)[0]
    # 62.5 a cell; random points would spread by 7.9
    assert np.abs(counts - 62.5).max() < 10


def test_grid():
    box = Box(x=(0, 1), t=(0, 2))
    grid = box.grid((3, 5))
    assert grid.shape == (15, 2)
    np.testing.assert_array_equal(grid[:5, 0], 0)
    np.testing.assert_array_equal(grid[:5, 1], np.linspace(0, 2, 5))
    np.testing.assert_array_equal(grid[-1], [1, 2])
    assert box.grid(4).shape == (16, 2)
    with pytest.raises(ValueError, match="`shape` must be one number"):
        box.grid((3, 4, 5))


def test_contains_is_closed():
    box = Box(x=(0, 0.1), t=(0, 1e6))
    assert box.contains([[0, 0], [0.1, 1e6], [0.05, 3.0], [0.1 + 1e-15, 0]]).all()
    assert not box.contains([[0.1 + 1e-9, 0], [-1e-9, 0]]).any()
    with pytest.raises(ValueError, match=r"`points` must have shape \(P, 2\)"):
        box.contains([0.0, 1.0])


def test_boundary_shares_faces_equally_whatever_the_units():
    box = Box(x=(0, 1e-6), t=(0, 1e6))
    points, normals = box.piece("boundary").sample(80, seed=0)
    assert len(points) == 80
    for axis in range(2):
        for sign in (-1, 1):
            assert np.sum(normals[:, axis] == sign) == 20


def test_opposite_faces_are_sampled_alike():
    box = Box(x=(0, 1), y=(0, 1), t=(0, 1))
    low, high = (box.piece(f"y={end}").sample(30, seed=5)[0] for end in ("min", "max"))
    np.testing.assert_array_equal(low[:, [0, 2]], high[:, [0, 2]])
    with pytest.raises(KeyError, match="must be one of x, y, t; got 's'"):
        box["s"]


def test_restrict_splits_a_face():
    box = Box(x=(0, 1), t=(0, 1))
    early, late = (box.piece("x=0").restrict(rule) for rule in (lambda t: t < 0.3, lambda t, x: t >= 0.3 + x))
    assert early.measure == pytest.approx(0.3, abs=1e-3)
    assert early.measure + late.measure == pytest.approx(1.0)
    points, _ = early.sample(37, seed=0)
    assert len(points) == 37
    assert points[:, 1].max() < 0.3
    with pytest.raises(ValueError, match=r"`where` must be a function of x, t; got the argument z\."):
        box.piece("x=0").restrict(lambda z: z > 0)
    with pytest.raises(ValueError, match="must hold somewhere on 'x=0'"):
        box.piece("x=0").restrict(lambda t: t > 5)


def test_product_of_boxes_is_a_box():
    assert Box(x=(0, 1)) * Box(t=(0, 2)) == Box(x=(0, 1), t=(0, 2))
    with pytest.raises(ValueError, match="without common axes; got x in both"):
        Box(x=(0, 1)) * Box(x=(0, 2))


def test_sobol_is_scipys_and_scrambling_keeps_its_balance():
    import warnings

    from scipy.stats import qmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = qmc.Sobol(MAX_DIMENSION, scramble=False).random(777)
    np.testing.assert_array_equal(sobol(777, MAX_DIMENSION, seed=None) - 2.0**-31, expected)
    points = sobol(1024, 6, seed=3)
    assert not np.array_equal(points, sobol(1024, 6, seed=4))
    for j in range(6):
        # one point in each of 1024 slices of every axis
        assert len(np.unique((points[:, j] * 1024).astype(int))) == 1024
    # and one in each elementary box of the first two: 2^5 × 2^5
    assert len(np.unique((points[:, :2] * 32).astype(int), axis=0)) == 1024
    with pytest.raises(ValueError, match="`dimension` must be between 1 and 13; got 14"):
        sobol(4, 14, seed=0)


def test_sequences():
    assert split(10, [1, 1, 1]) == [3, 4, 3]
    assert split(102, [1.0, 3.0]) == [26, 76]
    assert sum(split(7, [0.001, 1, 1])) == 7
    assert min(split(7, [0.001, 1, 1])) == 1
    even = unit_points(10, (False,), seed=4, warp=True)[:, 0]
    np.testing.assert_allclose(np.diff(even), 0.1)
    offsets = {round(float(unit_points(1, (True,), seed=seed, warp=False)[0, 0]), 6) for seed in range(100)}
    assert len(offsets) == 100
