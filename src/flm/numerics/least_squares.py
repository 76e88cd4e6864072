"""Linear least squares from the triangular factor of a QR factorization alone.

Conventions:
- A = Q R; the columns beside A are right-hand sides b, whose columns of the factor are Q^T b. So Q is never formed, and
  below the rows of R stands the part of b that the columns of A do not fit: its norm is that of the residual.
- A stream of rows keeps R only: [R; B] = Q R' means R'^T R' = R^T R + B^T B, and least squares from R has the accuracy of a
  factorization of all rows (normal equations would square its condition number).
- Ill-conditioned but harmless bases: rows and columns are scaled to unit norm, then min |A c - b|^2 + mu^2 |c|^2 is solved
  by one factorization of [A b; mu I 0]. No rank decision is taken.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular
from threadpoolctl import ThreadpoolController

from flm.wording import InputError

RIDGE = 1e-15  # relative to unit columns; larger loses digits, smaller lets coefficients explode
ONE_THREAD = 2000  # with fewer columns, a second BLAS thread costs more than it gains on a busy machine
PANEL = 512  # columns that LAPACK takes at a time beyond ONE_THREAD: Ctrl-C waits for a panel, not for the whole
# Rows per block of a stream: eight times the columns make the triangle on top of each block an eighth of the work.
MIN_BLOCK, BLOCKS_PER_COLUMN, MAX_BLOCK_BYTES = 1024, 8, 1 << 26


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread(num_columns: int = 0) -> AbstractContextManager[object]:
    """A context in which linear algebra with few columns (`num_columns`) uses one BLAS thread."""
    return _threads().limit(limits=1, user_api="blas") if num_columns < ONE_THREAD else nullcontext()


def free_memory() -> int:
    """The free memory in bytes; 2^60 where the system does not tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 60


def triangular_factor(matrix: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """R of a QR factorization of (n, p), (min(n, p), p); with `overwrite`, a column-major matrix is factored in place."""
    n, p = matrix.shape
    if n == 0 or p == 0:
        return np.zeros((min(n, p), p))
    geqrf, lwork, ormqr = get_lapack_funcs(("geqrf", "geqrf_lwork", "ormqr"), (matrix,))
    if p < ONE_THREAD:
        found = geqrf(matrix, lwork=int(lwork(n, p)[0].real), overwrite_a=overwrite)
        return np.triu(_checked(found)[0][: min(n, p)])
    factor = np.asfortranarray(matrix) if overwrite else np.array(matrix, order="F")
    for j in range(0, min(n, p), PANEL):
        k = min(j + PANEL, p)
        panel, reflectors, *_ = _checked(geqrf(factor[j:, j:k], lwork=int(lwork(n - j, k - j)[0].real)))
        factor[j:, j:k] = panel
        panel = panel[:, : len(reflectors)]
        for i in range(k, p, PANEL):
            beside = factor[j:, i : i + PANEL]
            work = int(ormqr("L", "T", panel, reflectors, beside, -1)[1][0])
            factor[j:, i : i + PANEL] = _checked(ormqr("L", "T", panel, reflectors, beside, work))[0]
    return np.triu(factor[: min(n, p)])


def _checked(found: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The arrays that a LAPACK routine returned, unless its last number says that it failed."""
    if found[-1] != 0:
        raise np.linalg.LinAlgError(f"QR factorization failed with code {found[-1]}")
    return found


def block_rows(columns: int) -> int:
    """Rows per block of a stream with this many columns: tall enough to be fast, at most 64 MiB."""
    return max(MIN_BLOCK, min(BLOCKS_PER_COLUMN * columns, MAX_BLOCK_BYTES // (8 * max(columns, 1))))


class RowAccumulator:
    """The triangular factor of all rows so far, and of `earlier` ones if given: p^2 numbers however many rows there are."""

    def __init__(self, columns: int, factor: np.ndarray | None = None):
        self.factor = np.zeros((0, columns)) if factor is None else np.asarray(factor, float)
        # Memory that blocks of one height use again: a worker of Dask gives freed pages back, and fresh ones cost half of its time.
        self._stacked = np.zeros((0, columns))

    def add(self, *parts: np.ndarray, scale: np.ndarray | None = None) -> None:
        """Absorb a block of rows (b, p), given as parts side by side; `scale` multiplies every row."""
        height, p = self.factor.shape
        width = sum(part.shape[1] for part in parts)
        if width != p:
            raise InputError(f"`parts` must have {p} columns together; got {width}.")
        if len(self._stacked) != height + len(parts[0]):
            self._stacked = np.empty((height + len(parts[0]), p), order="F")
        stacked = self._stacked
        stacked[:height] = self.factor
        np.concatenate(parts, axis=1, out=stacked[height:])
        if scale is not None:
            stacked[height:] *= scale[:, None]
        self.factor = triangular_factor(stacked, overwrite=True)


class LeastSquares(NamedTuple):
    """Coefficients (C, r), the norm of each residual (r,), and the triangular factor R of the scaled matrix (C, C)."""

    coefficients: np.ndarray
    residual: np.ndarray
    triangle: np.ndarray
    column_norms: np.ndarray


class Rows:
    """A growing stack of weighted equations, stored so that LAPACK factors it in place.

    The buffer is the transpose of [A b; mu I 0]: C-ordered (columns, rows) is Fortran-ordered (rows, columns).
    """

    def __init__(self, num_columns: int, num_rows: int, num_sides: int = 1):
        self.num_columns, self.num_sides = num_columns, num_sides
        self.buffer = np.empty((num_columns + num_sides, num_rows + num_columns))
        self.used = 0

    def take(self, count: int) -> np.ndarray:
        """A view (columns + sides, count) of fresh rows to be filled."""
        view = self.buffer[:, self.used : self.used + count]
        self.used += count
        return view

    def scale_rows(self, start: int, weight: float = 1.0) -> np.ndarray:
        """Scale the rows from `start` on so that their coefficients have norm `weight`; returns the factors."""
        view = self.buffer[:, start : self.used]
        norms = np.sqrt(np.einsum("ij,ij->j", view[: self.num_columns], view[: self.num_columns]))
        factors = weight / np.where(norms > 0, norms, 1.0)
        view *= factors
        return factors

    def solve(self, ridge: float = RIDGE) -> LeastSquares:
        """Factor and solve; the buffer is overwritten."""
        columns, used = self.num_columns, self.used
        system = self.buffer[:, : used + columns]
        norms = np.sqrt(np.einsum("ij,ij->i", system[:columns, :used], system[:columns, :used]))
        norms[norms <= 1e-150] = 1.0  # a dead column: the ridge alone sets its coefficient, to zero
        system[:columns, :used] /= norms[:, None]
        system[:, used:] = 0.0
        np.fill_diagonal(system[:columns, used:], ridge)
        with one_thread(columns):
            factor = triangular_factor(system.T, overwrite=True)
            triangle = factor[:columns, :columns]
            solution = solve_triangular(triangle, factor[:columns, columns:], check_finite=False)
        residual = np.sqrt((factor[columns:, columns:] ** 2).sum(axis=0))
        return LeastSquares(solution / norms[:, None], residual, triangle, norms)
