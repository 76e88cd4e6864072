"""Ties: rows that make neighbors agree on what they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from flm.pde.pieces.jumps import Side
from flm.pde.pieces.tree import Face, Tree
from flm.series import legendre as line


@dataclass(frozen=True)
class Tie:
    """One side of a face: u's normal derivative at the piece's side less a trace is zero."""

    leaf: int  # whose side
    parts: tuple[tuple[int, np.ndarray], ...]  # (k, (P, N_k)) on the piece's own columns, physical
    traces: tuple[tuple[int, np.ndarray], ...]  # (name, (P, size)) of what is subtracted
    side: Side | None = None  # where it is a flux that the trace is of: its table changes with the iterate
    mean: np.ndarray | None = None  # what turns the flux at points into rows; None is the points themselves

    @property
    def height(self) -> int:
        """P."""
        return len(self.parts[0][1])


@lru_cache(maxsize=64)
def projection(shape: tuple[int, ...]) -> np.ndarray:
    """What turns values at the Gauss nodes of a side into coefficients, (size, size)."""
    lines = [(line.values(line.gauss(n)[0], n) * line.gauss(n)[1][:, None]).T for n in shape]
    return reduce(np.kron, lines, np.ones((1, 1)))


def share_of_mean(tree: Tree, face: Face, leaf: int, shape: list[int]) -> np.ndarray:
    """What a trace on a fine side adds to the coefficients on the coarse one, (size, size)."""
    others, parts = [a for a in range(tree.num_axes) if a != face.axis], []
    for a, n in zip(others, shape, strict=True):
        low, high = (
            float(2 * (end[leaf, a] - tree.lower[face.coarse, a]) / tree.widths[face.coarse, a] - 1)
            for end in (tree.lower, tree.upper)
        )
        parts.append((high - low) / 2 * line.restriction(n, low, high).T)
    return reduce(np.kron, parts, np.ones((1, 1)))
