"""Tall-skinny QR: the triangular factor of a matrix that is seen a block of rows at a time.

[R; B] = Q R'  so that  R'^T R' = R^T R + B^T B. Only R is kept: memory is p^2 numbers whatever the number of rows, and
least squares from R has the accuracy of a QR of the whole matrix (normal equations would square its condition number).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from flm.wording import InputError

# Rows per block: eight times the columns make the triangle on top of each block an eighth of the work.
MIN_BLOCK, BLOCKS_PER_COLUMN, MAX_BLOCK_BYTES = 1024, 8, 1 << 26


def block_rows(columns: int) -> int:
    """Rows per block for a matrix of so many columns: tall enough to be fast, at most 64 MiB."""
    return max(MIN_BLOCK, min(BLOCKS_PER_COLUMN * columns, MAX_BLOCK_BYTES // (8 * max(columns, 1))))


def triangular_factor(matrix: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """R of a QR factorization, (min(n, p), p); `matrix` is destroyed when `overwrite` and column-major."""
    n, p = matrix.shape
    if n == 0 or p == 0:
        return np.zeros((min(n, p), p))
    lwork = int(lapack.dgeqrf_lwork(n, p)[0].real)  # pyright: ignore[reportAttributeAccessIssue]
    factored, _, _, info = lapack.dgeqrf(  # pyright: ignore[reportAttributeAccessIssue]
        matrix, lwork=lwork, overwrite_a=overwrite
    )
    if info != 0:  # pragma: no cover (LAPACK reports illegal arguments only)
        raise InputError(f"LAPACK dgeqrf reported {info}.")
    return np.triu(factored[: min(n, p)])


class RowAccumulator:
    """The triangular factor of all rows so far.

    Args:
        columns: p.
        factor: the R of earlier rows, to go on from.

    Example:
        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(1000, 3))
        >>> accumulator = RowAccumulator(3)
        >>> for block in np.array_split(rows, 7):
        ...     accumulator.add(block)
        >>> bool(np.allclose(accumulator.factor.T @ accumulator.factor, rows.T @ rows))
        True
    """

    def __init__(self, columns: int, factor: np.ndarray | None = None):
        self.factor = np.zeros((0, columns)) if factor is None else np.asarray(factor, float)

    def add(self, *parts: np.ndarray, scale: np.ndarray | None = None) -> None:
        """Absorb a block of rows (b, p), given as parts side by side; `scale` multiplies every row."""
        height, p = self.factor.shape
        width = sum(part.shape[1] for part in parts)
        if width != p:
            raise InputError(f"`parts` must have {p} columns together; got {width}.")
        stacked = np.empty((height + len(parts[0]), p), order="F")
        stacked[:height] = self.factor
        column = 0
        for part in parts:
            stacked[height:, column : column + part.shape[1]] = part
            column += part.shape[1]
        if scale is not None:
            stacked[height:] *= scale[:, None]
        self.factor = triangular_factor(stacked, overwrite=True)
