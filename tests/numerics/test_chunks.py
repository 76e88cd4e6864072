"""Functions of rows in chunks: every row once, few shapes."""

import numpy as np
import pytest

from flm.numerics.chunks import in_chunks


@pytest.mark.parametrize("count", [0, 1, 4, 5, 16, 17, 50])
def test_all_rows_in_few_shapes(count):
    shapes = set()

    def rows(a, b):
        shapes.add((a.shape, b.shape))
        assert np.all(a == a[:, :1]), "a row is filled up with another row, never with parts of two"
        return a * b[:, None], (a.sum(axis=1) - b)

    a, b = np.repeat(np.arange(1.0, count + 1)[:, None], 3, axis=1), np.arange(count) / 7
    product, difference = in_chunks(rows, a, b, sizes=(4, 16))
    np.testing.assert_array_equal(product, a * b[:, None])
    np.testing.assert_array_equal(difference, a.sum(axis=1) - b)
    assert shapes == ({((4, 3), (4,))} if count <= 4 else {((16, 3), (16,))})


def test_rows_that_come_last():
    points = np.random.default_rng(0).normal(size=(11, 2))
    value, slopes = in_chunks(lambda p: (p.sum(axis=1), p.T), points, sizes=(4,), axis=-1)
    np.testing.assert_array_equal(value, points.sum(axis=1))
    np.testing.assert_array_equal(slopes, points.T)
