"""Where something must hold on the pieces: conditions, initial values, residuals at points, and ties between neighbors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flm.language.arguments import Linearized
from flm.pde.pieces.fields import AnyResidual, InSpace
from flm.pde.pieces.functions import Alpha

Keep = Callable[[np.ndarray, np.ndarray], np.ndarray]
Own = Callable[[int], list[np.ndarray]]  # the coefficients of a piece in its own functions, for each unknown


@dataclass(frozen=True, eq=False)
class Place:
    """A condition: a residual on the part of the domain where some axes are pinned."""

    residual: AnyResidual | InSpace  # what must vanish
    pinned: dict[int, float]  # values by axis number; none inside
    normal: np.ndarray  # the outward normal, (m,)
    keep: Keep | None = None  # which points belong to it; None keeps all


@dataclass(frozen=True, eq=False)
class Given:
    """Values that an unknown or its derivative must take where some axes are pinned: the end of the slab before."""

    unknown: int  # k
    alpha: Alpha  # which derivative
    pinned: dict[int, float]  # values by axis number
    values: Callable[[np.ndarray], np.ndarray]  # of points (P, m), (P,)


class Spot(NamedTuple):
    """Points in one piece, with outward normals, both (P, m)."""

    leaf: int
    points: np.ndarray
    normals: np.ndarray


class Part(NamedTuple):
    """What a sample needs of one piece: the places of its points among all, and tables of the functions there."""

    leaf: int
    where: slice
    tables: list[np.ndarray]  # for each jet of the residual, (P, N_k)
    scales: np.ndarray  # what turns them into physical derivatives, (A,)


class Linear(NamedTuple):
    """Rows on the coefficients of one piece, (P, C), and their right-hand sides, (P,) or (P, Q)."""

    leaf: int
    rows: np.ndarray
    right: np.ndarray


class Sample:
    """A residual at points of some pieces, where each has a table for each jet of the residual, (P, N_k).

    Scales, (A,) for each piece, turn these into physical derivatives; without scales the tables are physical.
    """

    def __init__(
        self,
        residual: AnyResidual | InSpace,
        spots: Sequence[Spot],
        tables: Sequence[list[np.ndarray]],
        scales: Sequence[np.ndarray] = (),
    ):
        self.residual, self.parts, end = residual, [], 0
        plain = [np.ones(len(residual.jets))] * len(spots)
        for spot, own, scale in zip(spots, tables, scales or plain, strict=True):
            self.parts.append(Part(spot.leaf, slice(end, end := end + len(spot.points)), own, scale))
        self.points = np.concatenate([spot.points for spot in spots] or [np.zeros((0, 1))])
        self.normals = np.concatenate([spot.normals for spot in spots] or [np.zeros((0, 1))])

    def jets(self, own: Own) -> np.ndarray:
        """The jets of the residual at all points, (A, P)."""
        out = np.zeros((len(self.residual.jets), len(self.points)))
        for leaf, where, tables, scales in self.parts:
            mine = own(leaf)
            for a, (k, _) in enumerate(self.residual.jets):
                out[a, where] = scales[a] * (tables[a] @ mine[k])
        return out

    def rows(
        self,
        own: Own,
        columns: Callable[[int], tuple[slice, ...]],
        parameters: np.ndarray,
        strength: float = 1.0,
        learned: Sequence[int] | None = None,
    ) -> Iterator[Linear]:
        """The rows of each piece, linearized at an iterate, for the answer or for its derivatives in learned parameters.

        With a strength s below one, a share of the nonlinear part acts: F_s(u) = s F(u) + (1 - s) (F(0) + F'(0) u), the
        homotopy from the problem that is linearized at zero.
        """
        jets = self.jets(own)
        found = self.residual.linearize(self.points, jets, parameters, self.normals)
        if strength < 1.0:
            plain = self.residual.linearize(self.points, np.zeros_like(jets), parameters, self.normals)
            there = plain.value + np.sum(plain.by_jet * jets, axis=0)
            mixed = strength * found.by_jet + (1 - strength) * plain.by_jet
            found = Linearized(strength * found.value + (1 - strength) * there, mixed, found.by_parameter)
        right = np.sum(found.by_jet * jets, axis=0) - found.value
        if learned is not None:  # F_u du/dp = -F_p
            right = -found.by_parameter[list(learned)].T
        for leaf, where, tables, scales in self.parts:
            place = columns(leaf)
            rows = np.zeros((where.stop - where.start, place[-1].stop))
            for (k, _), table, scale, slope in zip(self.residual.jets, tables, scales, found.by_jet, strict=True):
                rows[:, place[k]] += (scale * slope[where])[:, None] * table
            yield Linear(leaf, rows, right[where])


@dataclass(frozen=True, eq=False)
class Tie:
    """Rows on one side of a face: the unknown's normal derivative at the piece's side less a trace is zero."""

    leaf: int  # whose side
    parts: tuple[tuple[int, np.ndarray], ...]  # (k, (P, N_k)) on the piece's own columns, physical
    traces: tuple[tuple[int, np.ndarray], ...]  # (name, (P, size)) of what is subtracted
    flux: Sample | None = None  # where the trace is a flux: it replaces the parts, and changes with each iterate
    mean: np.ndarray | None = None  # what turns the flux at points into rows; None is the points themselves

    @property
    def height(self) -> int:
        """P, the number of rows."""
        return len(self.parts[0][1])
