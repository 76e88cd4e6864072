"""Linear least squares for ill-conditioned but harmless bases.

Rows and columns are scaled to unit norm, then min |A c - b|^2 + mu^2 |c|^2 is solved by one QR factorization of
[A b; mu I 0] that keeps R alone: the last columns of R are Q^T b, so Q is never formed. No rank decision is taken.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular
from threadpoolctl import ThreadpoolController

RIDGE = 1e-15  # relative to unit columns; larger loses digits, smaller lets coefficients explode
ONE_THREAD = 2000  # below so many columns a second BLAS thread costs more than it brings on a busy machine
PANEL = 512  # columns that LAPACK takes at a time beyond ONE_THREAD: Ctrl-C waits for a panel, not for the whole


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread(num_columns: int) -> Any:
    """A context in which a small factorization keeps to one BLAS thread."""
    return _threads().limit(limits=1) if num_columns < ONE_THREAD else nullcontext()


def triangular_factor(transposed: np.ndarray) -> np.ndarray:
    """R of a QR factorization, below whose diagonal nothing is meant; the matrix is given transposed, and overwritten."""
    geqrf, lwork, ormqr = get_lapack_funcs(("geqrf", "geqrf_lwork", "ormqr"), (transposed,))
    columns, rows = transposed.shape
    factor = np.asfortranarray(transposed.T)
    if columns < ONE_THREAD:
        with _threads().limit(limits=1):
            return _checked(geqrf(factor, lwork=int(lwork(rows, columns)[0]), overwrite_a=True))[0]
    for j in range(0, columns, PANEL):
        k = min(j + PANEL, columns)
        panel, reflectors, *_ = _checked(geqrf(factor[j:, j:k], lwork=int(lwork(rows - j, k - j)[0])))
        factor[j:, j:k] = panel
        for i in range(k, columns, PANEL):
            beside = factor[j:, i : i + PANEL]
            work = int(ormqr("L", "T", panel, reflectors, beside, -1)[1][0])
            factor[j:, i : i + PANEL] = _checked(ormqr("L", "T", panel, reflectors, beside, work))[0]
    return factor


def _checked(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a LAPACK routine returned, unless its last number says that it failed."""
    if found[-1] != 0:
        raise np.linalg.LinAlgError(f"QR factorization failed with code {found[-1]}")
    return found


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
        columns, sides, used = self.num_columns, self.num_sides, self.used
        system = self.buffer[:, : used + columns]
        norms = np.sqrt(np.einsum("ij,ij->i", system[:columns, :used], system[:columns, :used]))
        norms[norms <= 1e-150] = 1.0  # a dead column: the ridge alone sets its coefficient, to zero
        system[:columns, :used] /= norms[:, None]
        system[:, used:] = 0.0
        np.fill_diagonal(system[:columns, used:], ridge)
        factor = triangular_factor(system)
        triangle = np.triu(factor[:columns, :columns])
        with one_thread(columns):
            solution = solve_triangular(triangle, factor[:columns, columns:], check_finite=False)
        tail = np.triu(factor[columns : columns + sides, columns:])
        residual = np.sqrt((tail**2).sum(axis=0))
        return LeastSquares(solution / norms[:, None], residual, triangle, norms)
