"""Where something must hold on the pieces: conditions, initial values, and residuals at points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flm.language.arguments import Linearized
from flm.pde.pieces.fields import AnyResidual
from flm.pde.pieces.functions import Alpha
from flm.pde.pieces.stages import InSpace

Keep = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Place:
    """A condition: a residual on the part of the domain where some axes are pinned."""

    residual: AnyResidual | InSpace  # what must vanish
    pinned: dict[int, float]  # values by axis number; none inside
    normal: np.ndarray  # the outward normal, (m,)
    keep: Keep | None = None  # which points belong to it; None is all


@dataclass(frozen=True, eq=False)
class Given:
    """Values that an unknown or its derivative must take where some axes are pinned: the end of the slab before."""

    unknown: int  # k
    alpha: Alpha  # which derivative
    pinned: dict[int, float]  # values by axis number
    values: Callable[[np.ndarray], np.ndarray]  # of points (P, m), (P,)


@dataclass(eq=False)
class Sample:
    """A residual at points of many pieces."""

    residual: AnyResidual | InSpace  # the function
    leaves: np.ndarray  # the pieces, (B,)
    points: np.ndarray  # of each, (B, P, m), physical
    normals: np.ndarray  # (B, P, m)
    tables: list[np.ndarray]  # for each jet of the residual, (T, P, N_k): reference tables, one for each kind of piece
    kinds: np.ndarray  # which of the tables belongs to each piece, (B,)
    keep: np.ndarray  # which rows hold, (B, P)

    def linearize(self, jets: np.ndarray, parameters: np.ndarray, strength: float = 1.0) -> Linearized:
        """The residual at the points from derivatives (A, B, P), all points in one row.

        With a strength s < 1 it is F_s(u) = s F(u) + (1 - s) (F(0) + F'(0) u): the homotopy from the problem that is
        linearized at zero.
        """
        m = self.points.shape[-1]
        points, normals = self.points.reshape(-1, m), self.normals.reshape(-1, m)
        return weakened(self.residual, points, jets.reshape(len(jets), -1), parameters, normals, strength)


def weakened(
    residual: AnyResidual | InSpace,
    points: np.ndarray,
    jets: np.ndarray,
    parameters: np.ndarray,
    normals: np.ndarray,
    strength: float,
) -> Linearized:
    """A residual at points from jets (A, P), with a share of its nonlinear part: see `Sample.linearize`."""
    found = residual.linearize(points, jets, parameters, normals)
    if strength == 1.0:
        return found
    plain = residual.linearize(points, np.zeros_like(jets), parameters, normals)
    there = plain.value + np.sum(plain.by_jet * jets, axis=0)
    mixed = strength * found.by_jet + (1 - strength) * plain.by_jet
    return Linearized(strength * found.value + (1 - strength) * there, mixed, found.by_parameter)
