"""Tensor products of Legendre functions on one piece, for several unknowns of different orders.

All equations hold at q_j Gauss nodes along axis j; unknown k has n_kj = q_j + p_kj functions along it, p_kj the number of
conditions that it takes there. Columns of a piece are the unknowns' coefficients one after the other, each in C order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import pairwise

import numpy as np

from flm.pde.pieces.count import Ties
from flm.series import legendre as line

Alpha = tuple[int, ...]
Nodes = tuple[int | float, ...]  # along each axis so many Gauss nodes, or one coordinate of the reference piece


@dataclass(frozen=True)
class Functions:
    """The functions of every piece."""

    nodes: tuple[int, ...]  # Gauss nodes of the equations along each axis, (m,)
    orders: tuple[tuple[int, ...], ...]  # p, (K, m)
    ties: tuple[Ties, ...]  # what neighbors share across each axis
    extra: int = 0  # further functions along each axis that only pieces cut by a boundary use

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """n_kj: the number of functions of each unknown along each axis."""
        return tuple(
            tuple(q + p + self.extra for q, p in zip(self.nodes, orders, strict=True)) for orders in self.orders
        )

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """Where the coefficients of each unknown lie."""
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in self.shapes)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @property
    def num_columns(self) -> int:
        """Coefficients of one piece."""
        return self.columns[-1].stop

    def table(self, unknown: int, alpha: Alpha, nodes: Nodes) -> np.ndarray:
        """D^alpha of an unknown's functions on a tensor grid of nodes, (P, N_k), on the reference piece."""
        return _tensor_table(self.shapes[unknown], alpha, nodes)

    def scattered(self, unknown: int, alpha: Alpha, points: np.ndarray) -> np.ndarray:
        """D^alpha of an unknown's functions at points (P, m) of the reference piece, (P, N_k)."""
        shape = self.shapes[unknown]
        tables = [line.table(points[:, j], n, a) for j, (n, a) in enumerate(zip(shape, alpha, strict=True))]
        return reduce(
            lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(points), a.shape[1] * b.shape[1]), tables
        )

    def fitted(self, coefficients: np.ndarray, others: Functions) -> np.ndarray:
        """Coefficients (..., C) of fewer or more functions as coefficients of these: zero, or cut, beyond the common ones."""
        lead = coefficients.shape[:-1]
        out = np.zeros((*lead, self.num_columns))
        for k, (mine, theirs) in enumerate(zip(self.shapes, others.shapes, strict=True)):
            common = (..., *(slice(0, min(n, o)) for n, o in zip(mine, theirs, strict=True)))
            block = np.zeros((*lead, *mine))
            block[common] = coefficients[..., others.columns[k]].reshape(*lead, *theirs)[common]
            out[..., self.columns[k]] = block.reshape(*lead, -1)
        return out


@lru_cache(maxsize=512)
def _tensor_table(shape: tuple[int, ...], alpha: Alpha, nodes: Nodes) -> np.ndarray:
    return reduce(np.kron, [line.node_table(z, n, a) for z, n, a in zip(nodes, shape, alpha, strict=True)])


@lru_cache(maxsize=256)
def grid(nodes: Nodes) -> np.ndarray:
    """The points of a tensor grid, (P, m), last axis fastest."""
    return np.stack([g.ravel() for g in np.meshgrid(*map(line.node_points, nodes), indexing="ij")], axis=1)
