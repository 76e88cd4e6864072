"""The m-Lexi sign matrix (paper, Definition 1)."""

import numpy as np

from flm.wording import InputError, check_count

MAX_SIGNS = 20  # a matrix of 2^19 rows, 84 MB


def sign_matrix(m: int) -> np.ndarray:
    """The m-Lexi sign matrix S(m), shape (2^(m-1), m).

    The first column is 1; the others run through {1, -1}^(m-1) in lexicographic order, 1 before -1. For m = 1: [[1]].

    Args:
        m: number of inputs, at least 1.

    Example:
        >>> sign_matrix(2)
        array([[ 1.,  1.],
               [ 1., -1.]])
    """
    check_count("m", m, 1)
    if m > MAX_SIGNS:
        raise InputError(f"`m` must be at most {MAX_SIGNS}; got {m}: the matrix would have 2^{m - 1} rows.")
    rows = np.arange(2 ** (m - 1))
    bits = (rows[:, None] >> np.arange(m - 1)[::-1]) & 1  # (l, m - 1), leftmost bit = input 2
    return np.concatenate([np.ones((len(rows), 1)), 1.0 - 2.0 * bits], axis=1)
