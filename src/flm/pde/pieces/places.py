"""Where rows hold: conditions on faces, edges and points of a box, the end of an earlier slab, samples and ties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flm.language.arguments import Residual
from flm.pde.pieces.functions import Alpha

Keep = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Place:
    """A condition: a residual on the part of the domain where some axes are pinned.

    Args:
        residual: what must vanish.
        pinned: values by axis number; none inside.
        normal: the outward normal, (m,).
        keep: which points belong to it; None is all.
    """

    residual: Residual
    pinned: dict[int, float]
    normal: np.ndarray
    keep: Keep | None = None


@dataclass(frozen=True, eq=False)
class Given:
    """Values that an unknown or its derivative must take where some axes are pinned: the end of the slab before.

    Args:
        unknown: k.
        alpha: which derivative.
        pinned: values by axis number.
        values: of points (P, m), (P,).
    """

    unknown: int
    alpha: Alpha
    pinned: dict[int, float]
    values: Callable[[np.ndarray], np.ndarray]


@dataclass(eq=False)
class Sample:
    """A residual at points of many pieces.

    Args:
        residual: the function.
        leaves: the pieces, (B,).
        points: of each, (B, P, m), physical.
        normals: (B, P, m).
        tables: for each jet of the residual, (T, P, N_k): reference tables, one for each kind of piece.
        kinds: which of the tables belongs to each piece, (B,).
        keep: which rows hold, (B, P).
    """

    residual: Residual
    leaves: np.ndarray
    points: np.ndarray
    normals: np.ndarray
    tables: list[np.ndarray]
    kinds: np.ndarray
    keep: np.ndarray


@dataclass(frozen=True)
class Tie:
    """One side of a face: u's normal derivative at the piece's side less a trace is zero.

    Args:
        leaf: whose side.
        table: (P, N_k) on the piece's own columns, physical.
        unknown: k.
        traces: (name, (P, size)) of what is subtracted.
    """

    leaf: int
    unknown: int
    table: np.ndarray
    traces: tuple[tuple[int, np.ndarray], ...]
