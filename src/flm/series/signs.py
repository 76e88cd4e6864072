"""The m-Lexi sign matrix (paper, Definition 1) and the fast transform that it generates."""

import numpy as np


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
    if not isinstance(m, int | np.integer) or m < 1:
        raise ValueError(f"`m` must be an integer of at least 1; got {m!r}.")
    rows = np.arange(2 ** (m - 1))
    bits = (rows[:, None] >> np.arange(m - 1)[::-1]) & 1  # (l, m - 1), leftmost bit = input 2
    return np.concatenate([np.ones((len(rows), 1)), 1.0 - 2.0 * bits], axis=1)
