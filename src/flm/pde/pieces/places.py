"""Where something must hold on the pieces, and where pieces must end.

Conditions and equations hold at points, ties between neighbors on their faces. Pieces end at the faces of coefficients that jump,
where one condition gives way to another, and at planes across which a formula jumps, such as `jnp.where(t > 1, 1.0, 0.0)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from flm.language.parameters import Piecewise
from flm.pde.pieces.fields import AnyResidual, plain
from flm.pde.pieces.tree import Tree

LOOKS = 1025  # points along a side that are tried first: shorter stretches are missed
HALVINGS = 50
LINES = 3  # along which a formula is sampled: a jump across a plane shows on all of them
STEPS = 64  # planes across one axis at which pieces end
OUTLIER = 4.0  # how much larger than its neighbors' a change between two points must be for a closer look

Keep = Callable[[np.ndarray, np.ndarray], np.ndarray]
Own = Callable[[int], list[np.ndarray]]  # the coefficients of a piece in its own functions, for each unknown
Columns = Callable[[int], tuple[slice, ...]]  # where they lie among those of the piece
NamedTable = tuple[int, np.ndarray]  # of an unknown's functions, (P, N_k), or of a trace's, (P, size)
Break = tuple[int, np.ndarray]  # the axis along which a condition ends, and the point, (2,)


@dataclass(frozen=True, eq=False)
class Place:
    """A condition: a residual on the part of the domain where some axes are pinned."""

    residual: AnyResidual  # what must vanish
    pinned: dict[int, float]  # values by axis number; none inside
    normal: np.ndarray  # the outward normal, (m,)
    keep: Keep | None = None  # which points belong to it; None keeps all


class Spot(NamedTuple):
    """Points in one piece, and the functions of a residual's unknowns there."""

    leaf: int
    points: np.ndarray  # (P, m)
    normals: np.ndarray  # outward, (P, m)
    tables: Sequence[np.ndarray] = ()  # for each jet of the residual, (P, N_k)
    scales: Sequence[float] | np.ndarray = ()  # what turns them into physical derivatives, (A,)


class Linear(NamedTuple):
    """Rows on the coefficients of one piece, (P, C), and their right-hand sides, (P,) or (P, Q)."""

    leaf: int
    rows: np.ndarray
    right: np.ndarray


class Sample:
    """A residual at points of some pieces."""

    def __init__(self, residual: AnyResidual, spots: Sequence[Spot]):
        self.residual, self.spots = residual, spots
        ends = np.cumsum([0, *(len(spot.points) for spot in spots)]).tolist()
        self.where = [slice(a, b) for a, b in pairwise(ends)]  # the points of each spot among all
        self.points = np.concatenate([spot.points for spot in spots] or [np.zeros((0, 1))])
        self.normals = np.concatenate([spot.normals for spot in spots] or [np.zeros((0, 1))])

    def jets(self, own: Own) -> np.ndarray:
        """The jets of the residual at all points, (A, P)."""
        out = np.zeros((len(self.residual.jets), len(self.points)))
        for spot, where in zip(self.spots, self.where, strict=True):
            mine = own(spot.leaf)
            for a, (k, _) in enumerate(self.residual.jets):
                out[a, where] = spot.scales[a] * (spot.tables[a] @ mine[k])
        return out

    def matrices(self, slopes: np.ndarray, columns: Columns) -> Iterator[np.ndarray]:
        """The rows of each spot, (P, C), for given derivatives of the residual in its jets, (A, P)."""
        for spot, where in zip(self.spots, self.where, strict=True):
            place = columns(spot.leaf)
            rows = np.zeros((len(spot.points), place[-1].stop), slopes.dtype)
            for (k, _), table, scale, slope in zip(self.residual.jets, spot.tables, spot.scales, slopes, strict=True):
                rows[:, place[k]] += (scale * slope[where])[:, None] * table
            yield rows

    def rows(
        self, own: Own, columns: Columns, parameters: np.ndarray, learned: Sequence[int] | None
    ) -> Iterator[Linear]:
        """The rows of each piece, linearized at an iterate, for the answer or for its derivatives in learned parameters."""
        jets = self.jets(own)
        found = self.residual.linearize(self.points, jets, parameters, self.normals)
        right = np.sum(found.by_jet * jets, axis=0) - found.value
        if learned is not None:  # F_u du/dp = -F_p
            right = -found.by_parameter[list(learned)].T
        matrices = self.matrices(found.by_jet, columns)
        for spot, where, rows in zip(self.spots, self.where, matrices, strict=True):
            yield Linear(spot.leaf, rows, right[where])


@dataclass(frozen=True, eq=False)
class Tie:
    """Rows on one side of a face: the unknown's normal derivative at the piece's side less a trace is zero."""

    leaf: int  # whose side
    parts: Sequence[NamedTable]  # on the piece's own columns, by unknown, physical
    traces: Sequence[NamedTable]  # of what is subtracted, by the trace's name
    flux: Sample | None = None  # where the trace is a flux: it replaces the parts, and changes with each iterate
    mean: np.ndarray | None = None  # what turns the flux at points into rows; None is the points themselves


@dataclass(frozen=True, eq=False)
class Jumps:
    """The parameters that jump, and the fluxes that are continuous across their faces.

    On such a face the trace of order one is the flux F(a, u_n) instead of the normal derivative; for equations of first order
    along an axis it is the flux instead of the value, where one is given.
    """

    parameters: tuple[Piecewise, ...]  # those that jump
    fluxes: dict[int, AnyResidual]  # by the number of the unknown; for others the normal derivative
    axes: tuple[str, ...]  # names of the axes

    @cached_property
    def boxes(self) -> np.ndarray:
        """The ends of all boxes along each axis, (B, m, 2)."""
        ends = [[box.along(axis) for axis in self.axes] for jump in self.parameters for box in jump.where]
        return np.array(ends).reshape(-1, len(self.axes), 2)

    def align(self, tree: Tree) -> Tree:
        """The tree cut until every leaf lies inside or outside every box."""
        for ends in self.boxes:
            for axis, value in ((axis, value) for axis, pair in enumerate(ends) for value in pair):
                close = 1e-9 * tree.widths
                touches = np.all((tree.upper > ends[:, 0] + close) & (tree.lower < ends[:, 1] - close), axis=1)
                tree = tree.cut_at(axis, value, touches)
        return tree

    def corners(self, bounds: np.ndarray) -> list[np.ndarray]:
        """The corners of all boxes that lie in the domain, each (m,)."""
        inside = np.clip(self.boxes, bounds[:, :1], bounds[:, 1:])
        return [np.array(corner) for ends in inside for corner in product(*ends)]

    def ends(self, axis: int) -> list[float]:
        """The coordinates at which boxes end along an axis."""
        return [float(v) for v in self.boxes[:, axis].ravel() if np.isfinite(v)]

    def values(self, tree: Tree) -> np.ndarray:
        """Each parameter's value in each leaf, (Q, L)."""
        center = (tree.lower + tree.upper) / 2
        at = {axis: center[:, j] for j, axis in enumerate(self.axes)}
        return np.stack([np.asarray(jump(**{a: at[a] for a in jump.axes})) for jump in self.parameters])


def steps_of(places: Sequence[Place], axis: int, bounds: np.ndarray, parameters: np.ndarray) -> list[float]:
    """Coordinates along an axis at which a residual jumps although the unknowns and their derivatives do not."""
    found: set[float] = set()
    for place in places:
        if axis not in place.pinned and _reads(place.residual, axis):
            found |= set(_steps(place, axis, bounds, parameters))
    return sorted(found) if len(found) <= STEPS else []


def _reads(residual: AnyResidual, axis: int) -> bool:
    """Whether a residual depends on a coordinate, and not only on the unknowns."""
    return any(reference.kind == "axis" and reference.index == axis for reference in plain(residual).references)


def _steps(place: Place, axis: int, bounds: np.ndarray, parameters: np.ndarray) -> list[float]:
    """The jumps of one residual that are the same on several random lines."""
    rng, common = np.random.default_rng(11), None
    jets = rng.uniform(0.5, 1.5, (len(place.residual.jets), 1))
    for _ in range(LINES if len(bounds) > 1 else 1):
        point = rng.uniform(bounds[:, 0], bounds[:, 1])

        def values(along: np.ndarray, point: np.ndarray = point) -> np.ndarray:
            points, normals = _line(place, point, axis, along)
            return place.residual.linearize(points, np.repeat(jets, len(along), axis=1), parameters, normals).value

        here, close = _switches(values, *bounds[axis])[0], 1e-9 * np.ptp(bounds[axis])
        common = here if common is None else np.array([v for v in common if np.any(np.abs(here - v) <= close)])
    return [] if common is None else common.tolist()


def _line(place: Place, point: np.ndarray, axis: int, along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of a place on the line through a point along an axis, and normals there, (P, m) both."""
    points = np.tile(point, (len(along), 1))
    points[:, list(place.pinned)], points[:, axis] = list(place.pinned.values()), along
    return points, np.tile(place.normal, (len(along), 1))


def _switches(values: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Where a function of one variable jumps: the last numbers before it does, and the first ones after."""
    even = np.linspace(low, high, LOOKS)
    with np.errstate(invalid="ignore", over="ignore"):
        at = values(even)
        rise, least = np.abs(np.diff(at)), 1e-6 * np.abs(at[np.isfinite(at)]).max(initial=0.0)
        around = np.pad(rise, 1)
        (large,) = np.nonzero((rise > OUTLIER * (around[:-2] + around[2:])) & (rise > least))
        left, right, last = even[large], even[large + 1], rise[large]
        for _ in range(HALVINGS if len(large) else 0):
            middle = (left + right) / 2
            below, center, above = values(left), values(middle), values(right)
            lower = np.abs(center - below) > np.abs(above - center)
            left, right = np.where(lower, left, middle), np.where(lower, middle, right)
            last = np.abs(above - below)
    stays = last > 0.5 * rise[large]
    return left[stays], right[stays]


def breaks_of(places: Sequence[Place], bounds: np.ndarray) -> tuple[Break, ...]:
    """The ends of all conditions that hold only on a part of a side."""
    found: dict[tuple[float, ...], Break] = {}
    for place in (place for place in places if len(place.pinned) == 1):
        ((side, value),), keep = place.pinned.items(), place.keep
        if keep is not None:
            kept = lambda along, place=place, keep=keep, other=1 - side: np.asarray(
                keep(*_line(place, np.zeros(2), other, along)), float
            )
            for end in _switches(kept, *bounds[1 - side])[1]:
                point = np.array([value, float(f"{end:.14g}")])[:: 1 if side == 0 else -1]
                found[tuple(np.round(point, 12))] = (1 - side, point)
    return tuple(found.values())
