"""The elimination with its reflections kept, so that a further right-hand side costs a small share of the factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular

from flm.pde.pieces.elimination import BLOCK, Order, PieceRows, smallest_pivot, stack


class Front(NamedTuple):
    """Rows reduced by Householder reflections: Q is kept in `reflections`, and the first columns belong to this front."""

    reflections: np.ndarray
    tau: np.ndarray
    count: int

    def passed(self) -> np.ndarray:
        """What is left for the next front, with an empty right-hand side."""
        height = min(self.reflections.shape)
        rest = np.triu(self.reflections[:height])[self.count :, self.count :]
        return np.concatenate([rest, np.zeros((len(rest), 1), rest.dtype)], axis=1)

    def rotate(self, right: np.ndarray) -> np.ndarray:
        """Q* right, (H,)."""
        kind = "unmqr" if np.iscomplexobj(self.reflections) else "ormqr"
        (multiply,) = get_lapack_funcs((kind,), (self.reflections,))
        letter = "C" if kind == "unmqr" else "T"
        column = np.asfortranarray(right[:, None])
        return multiply("L", letter, self.reflections[:, : len(self.tau)], self.tau, column, BLOCK)[0][:, 0]

    def substitute(self, rotated: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The front's own unknowns, given those outside it."""
        count = self.count
        right = rotated[:count] - self.reflections[:count, count:] @ known
        return solve_triangular(self.reflections[:count, :count], right, check_finite=False)


class KeptFactors:
    """All fronts of a tree.

    Args:
        pieces: rows; their right-hand sides are not read.
        sizes: of the traces.
        order: of merging.
    """

    def __init__(self, pieces: Sequence[PieceRows], sizes: Sequence[int], order: Order):
        self.names, self.sizes, self.order = [piece.names for piece in pieces], sizes, order
        self.fronts: list[Front] = []
        self.pivot = np.inf
        rows: dict[int, tuple[tuple[int, ...], np.ndarray]] = {}
        for index, piece in enumerate(pieces):
            front = self._reduce(np.concatenate([piece.own, piece.traces], axis=1), piece.own.shape[1])
            rows[index] = (piece.names, front.passed())
        for new, merge in enumerate(order.merges, start=len(pieces)):
            stacked = stack([rows.pop(merge.first), rows.pop(merge.second)], (*merge.inside, *merge.outside), sizes)
            front = self._reduce(stacked[:, :-1], sum(sizes[name] for name in merge.inside))
            rows[new] = (merge.outside, front.passed())

    def _reduce(self, rows: np.ndarray, count: int) -> Front:
        (geqrf,) = get_lapack_funcs(("geqrf",), (rows,))
        reflections, tau, _, _ = geqrf(np.asfortranarray(rows), lwork=BLOCK * max(rows.shape[1], 1), overwrite_a=True)
        self.fronts.append(Front(reflections, tau, count))
        self.pivot = min(self.pivot, smallest_pivot(np.triu(reflections[: min(rows.shape)]), count))
        return self.fronts[-1]

    def solve(self, rights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The coefficients of each piece for one right-hand side of each."""
        rotated: list[np.ndarray] = []
        passed: dict[int, np.ndarray] = {}
        for index, (front, right) in enumerate(zip(self.fronts, rights, strict=False)):
            rotated.append(front.rotate(right))
            passed[index] = rotated[-1][front.count : min(front.reflections.shape)]
        merged = self.fronts[len(rights) :]
        for new, (merge, front) in enumerate(zip(self.order.merges, merged, strict=True), start=len(rights)):
            rotated.append(front.rotate(np.concatenate([passed.pop(merge.first), passed.pop(merge.second)])))
            passed[new] = rotated[-1][front.count : min(front.reflections.shape)]
        values: dict[int, np.ndarray] = {}
        gather = lambda names: np.concatenate([values[name] for name in names]) if names else np.zeros(0)
        for merge, front, right in zip(self.order.merges[::-1], merged[::-1], rotated[::-1], strict=False):
            found = front.substitute(right, gather(merge.outside))
            for name in merge.inside:
                values[name], found = found[: self.sizes[name]], found[self.sizes[name] :]
        leaves = zip(self.fronts, rotated, self.names, strict=False)
        return [front.substitute(right, gather(names)) for front, right, names in leaves]
