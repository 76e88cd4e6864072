"""Where conditions hold on a box: faces, edges and points, and what the end of an earlier slab hands on."""

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
