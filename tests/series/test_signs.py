import itertools

import numpy as np
import pytest

import flm


def test_the_papers_matrices():
    assert flm.sign_matrix(1).tolist() == [[1]]
    assert flm.sign_matrix(2).tolist() == [[1, 1], [1, -1]]
    assert flm.sign_matrix(3).tolist() == [[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]]


@pytest.mark.parametrize("m", range(1, 9))
def test_rows_are_all_combinations_in_order(m):
    rows = [(1, *tail) for tail in itertools.product((1, -1), repeat=m - 1)]
    np.testing.assert_array_equal(flm.sign_matrix(m), rows)


@pytest.mark.parametrize("m", [0, -1, 2.0, "2"])
def test_bad_dimension(m):
    with pytest.raises(ValueError, match=r"^`m` must be an integer of at least 1; got "):
        flm.sign_matrix(m)
