import itertools
import math
import re

import numpy as np
import pytest

import flm

SIZES = {
    "euclid": lambda k: sum(i * i for i in k),
    "box": max,
    "total": sum,
    "hyperbolic": lambda k: math.prod(i + 1 for i in k),
}


def test_the_papers_start():
    assert flm.lattice(2, 4).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert flm.lattice(2, 9)[4:].tolist() == [[0, 2], [2, 0], [1, 2], [2, 1], [2, 2]]
    assert flm.lattice(1, 5).tolist() == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("order", SIZES)
@pytest.mark.parametrize(("m", "n"), [(1, 12), (2, 30), (3, 40), (4, 60)])
def test_orders_equal_sorting_a_cube(order, m, n):
    # A cube of side n surely holds the first n points when m = 1; for m > 1 a side of 16 does (each axis has ever larger
    # points), except in the hyperbolic order, whose axis points come early: prod (1 + k) <= size of the last point.
    side = n + 1 if m <= 2 else 16 if m == 3 else 12
    cube = sorted(itertools.product(range(side), repeat=m), key=lambda k: (SIZES[order](k), k))[:n]
    points = flm.lattice(m, n, order)
    assert points.dtype == float
    np.testing.assert_array_equal(points, cube)
    assert points.max() < side - 1, "the cube must be larger than the points"


def test_nothing_and_high_dimensions():
    assert flm.lattice(3, 0).shape == (0, 3)
    first = flm.lattice(12, 13)
    np.testing.assert_array_equal(first[0], np.zeros(12))
    np.testing.assert_array_equal(first[1:], np.eye(12)[::-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, 4, "euclidean"), "`order` must be one of 'euclid', 'box', 'total', 'hyperbolic'; got 'euclidean'."),
        ((0, 4), "`m` must be an integer of at least 1; got 0."),
        ((2, -1), "`n` must be an integer of at least 0; got -1."),
    ],
)
def test_bad_calls(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        flm.lattice(*arguments)


def test_the_papers_matrices():
    assert flm.sign_matrix(1).tolist() == [[1]]
    assert flm.sign_matrix(2).tolist() == [[1, 1], [1, -1]]
    assert flm.sign_matrix(3).tolist() == [[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]]


@pytest.mark.parametrize("m", range(1, 9))
def test_rows_are_all_combinations_in_order(m):
    rows = [(1, *tail) for tail in itertools.product((1, -1), repeat=m - 1)]
    np.testing.assert_array_equal(flm.sign_matrix(m), rows)


@pytest.mark.parametrize("m", [0, -1, 2.0, "2"])
def test_sign_matrices_of_no_dimension(m):
    with pytest.raises(ValueError, match=r"^`m` must be an integer of at least 1; got "):
        flm.sign_matrix(m)
