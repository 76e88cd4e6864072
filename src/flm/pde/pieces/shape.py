"""A region seen from the cells of a tree: which cells it fills, which its boundary cuts, and where.

In the plane the boundary is a list of arcs, charts of one parameter, followed at a few thousand points; the stretches of an
arc inside a cell end where bisection finds its sides. In space boundaries are points spread by area. A cell that the
boundary cuts keeps the box around what is inside, so that functions live where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np

from flm.domains import AbstractDomain
from flm.domains.piece import Patch

ASIDE = 1e-9  # of the region's size: how far to look on both sides of a boundary
FLAT = 1e-7  # of a cell's width: a boundary this close to its sides does not cut it
SLIVER = 1e-3  # of a cell's width: thinner parts belong to the neighbors, whose functions reach that far
FOLLOWED = 4096  # points along the whole boundary
SPREAD = 6000  # points on each surface in space
PLANES = 16  # planes along one axis at which the first cells are parted
BEND = 1e-6  # of the region's size: a circle of this radius tells a corner, and corners closer than this are one
ROUNDS = 16  # of bisection between two points of an arc


@dataclass(frozen=True)
class Stretch:
    """Part of an arc: from one parameter to another."""

    arc: Arc
    start: float
    end: float

    @property
    def length(self) -> float:
        """About, by its chart's even speed."""
        return self.arc.length * (self.end - self.start)

    def at(self, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points and outward normals at shares of the way, (P, m) both."""
        return self.arc.patch.chart((self.start + (self.end - self.start) * share)[:, None])


class Arc:
    """A patch of a planar boundary, followed at many parameters."""

    def __init__(self, patch: Patch, count: int):
        self.patch = patch
        self.parameters = np.linspace(0.0, 1.0, count + 1)
        self.points, self.normals = patch.chart(self.parameters[:, None])
        steps = np.linalg.norm(np.diff(self.points, axis=0), axis=1)
        self.length, self.step = float(steps.sum()), float(steps.max())

    def stretches(self, low: np.ndarray, high: np.ndarray, aside: float) -> list[Stretch]:
        """The parts whose inner side lies in a cell."""
        u, flags = self._flags(low, high, aside)
        if len(u) == 0:
            return []
        (change,) = np.nonzero(flags[1:] != flags[:-1])
        left, right, before = u[change], u[change + 1], flags[change]
        for _ in range(ROUNDS if len(change) else 0):
            middle = (left + right) / 2
            same = self._member(middle, *self.patch.chart(middle[:, None]), low, high, aside) == before
            left, right = np.where(same, middle, left), np.where(same, right, middle)
        ends = [*([u[0]] if flags[0] else []), *((left + right) / 2), *([u[-1]] if flags[-1] else [])]
        return [Stretch(self, float(a), float(b)) for a, b in zip(ends[::2], ends[1::2], strict=True) if b > a]

    def _flags(self, low: np.ndarray, high: np.ndarray, aside: float) -> tuple[np.ndarray, np.ndarray]:
        """Parameters, finely enough for the cell, and whether the arc is in it there."""
        near = np.all((self.points >= low - 2 * self.step) & (self.points <= high + 2 * self.step), axis=1)
        if not near.any():
            return np.zeros(0), np.zeros(0, bool)
        finer = int(np.clip(np.ceil(16 * self.step / np.min(high - low)), 1, 1024))
        if finer == 1:
            u, points, normals = self.parameters, self.points, self.normals
        else:
            first = np.flatnonzero(np.logical_or(near[1:], near[:-1]))
            share = np.arange(finer) / finer
            u = np.unique((self.parameters[first, None] + share * (1 / (len(near) - 1))).ravel())
            u = np.append(u, min(1.0, self.parameters[first[-1] + 1]))
            points, normals = self.patch.chart(u[:, None])
        return u, self._member(u, points, normals, low, high, aside)

    def _member(
        self, u: np.ndarray, points: np.ndarray, normals: np.ndarray, low: np.ndarray, high: np.ndarray, aside: float
    ) -> np.ndarray:
        inner = points - aside * np.where(normals.any(axis=1, keepdims=True), normals, -1.0)
        inside = np.all((inner >= low) & (inner <= high), axis=1)
        if self.patch.keep is not None and inside.any():
            inside[inside] = self.patch.keep(points[inside], normals[inside])
        return inside


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell of the tree and what the region leaves of it.

    Attributes:
        low, high: the cell, (m,).
        kind: "whole", "cut", "sliver" or "outside".
        lower, upper: the box around the part inside, (m,).
        volume: of the part inside.
        marks: where the boundary meets the cell's sides in the plane, (K, 2).
        guests: slivers next to a cut cell that belong to it.
        stretches: of patches, by their identity.
        made: the functions that live here, by what they were made for.
    """

    low: np.ndarray
    high: np.ndarray
    kind: str
    lower: np.ndarray
    upper: np.ndarray
    volume: float
    marks: np.ndarray
    guests: tuple[Cell, ...] = ()
    stretches: dict[int, list[Stretch]] = field(default_factory=dict)
    made: dict[object, object] = field(default_factory=dict)

    @property
    def is_cut(self) -> bool:
        """Whether rows of the part inside are a least-squares problem, instead of as many as columns."""
        return self.kind == "cut"

    def reaches(self, points: np.ndarray) -> np.ndarray:
        """Whether points of a guest belong here, (P,)."""
        slack = 2 * SLIVER * (self.high - self.low)
        return np.all((points >= self.low - slack) & (points <= self.high + slack), axis=1)


class Shape:
    """A region: its arcs or surfaces, and the cells that were asked about.

    Args:
        domain: the region.
    """

    def __init__(self, domain: AbstractDomain):
        self.domain, self.bounds = domain, np.asarray(domain.bounds, float)
        self.size = float(domain.width.max())
        self.aside = ASIDE * self.size
        self.patches = [patch for piece in domain.pieces for patch in piece.patches]
        self.measure = sum(patch.measure for patch in self.patches)
        self._arcs: dict[int, Arc] = {}
        self._cells: dict[bytes, Cell] = {}
        self._surface = np.zeros((0, len(self.bounds)))
        if len(self.bounds) == 3:
            drawn = [patch.sample(SPREAD, seed=3, warp=False) for patch in self.patches]
            self._surface = np.concatenate([points - self.aside * normals for points, normals in drawn])

    def arc(self, patch: Patch) -> Arc:
        """A patch as an arc."""
        if id(patch) not in self._arcs:
            count = int(np.clip(FOLLOWED * patch.measure / self.measure, 64, FOLLOWED))
            self._arcs[id(patch)] = Arc(patch, count)
        return self._arcs[id(patch)]

    def planes(self) -> list[list[float]]:
        """Coordinates of the boundary's axis-parallel sides and re-entrant corners within the bounds, for each axis."""
        found: list[set[float]] = [set() for _ in self.bounds]
        for piece in self.domain.pieces:
            for axis, value in piece.fixed.items():
                found[self.domain.axes.index(axis)].add(float(value))
        for axis, value in filter(None, map(self.plane, self.patches)):
            found[axis].add(value)
        for axis, value in ((axis, float(value)) for bend in self._bends for axis, value in enumerate(bend)):
            if all(abs(value - other) > BEND * self.size for other in found[axis]):
                found[axis].add(value)
        slack = 1e-9 * (self.bounds[:, 1] - self.bounds[:, 0])
        inner = [
            sorted(v for v in values if low + s < v < high - s)
            for values, (low, high), s in zip(found, self.bounds, slack, strict=True)
        ]
        return [values if len(values) <= PLANES else [] for values in inner]

    def plane(self, patch: Patch) -> tuple[int, float] | None:
        """The axis across which a flat patch lies, and where; None for a patch that is oblique or curved."""
        if not all(patch.ends):
            return None
        vertices, _ = patch.chart(np.array(list(product((0.0, 1.0), repeat=len(patch.ends)))))
        flat = np.flatnonzero(np.ptp(vertices, axis=0) <= 1e-12 * self.size)
        return (int(flat[0]), float(vertices[0, flat[0]])) if len(flat) else None

    @cached_property
    def is_boxes(self) -> bool:
        """Whether all of the boundary is axis-parallel: cells that end at its planes are whole or outside."""
        return all(map(self.plane, self.patches)) and any(self.planes())

    @cached_property
    def corners(self) -> list[np.ndarray]:
        """Re-entrant corners in the plane at which cells end."""
        return self._reentrant(np.array(list(product(*self.planes())))) if len(self.bounds) == 2 else []

    @cached_property
    def _bends(self) -> list[np.ndarray]:
        """Re-entrant corners between sides that are not both axis-parallel: where the arcs of a plane boundary end."""
        if len(self.bounds) != 2 or all(map(self.plane, self.patches)):
            return []
        low, high = self.bounds[:, 0] - self.size, self.bounds[:, 1] + self.size
        arcs = [stretch for patch in self.patches for stretch in self.arc(patch).stretches(low, high, self.aside)]
        return self._reentrant(np.concatenate([np.zeros((0, 2)), *(arc.at(np.array([0.0, 1.0]))[0] for arc in arcs)]))

    def _reentrant(self, points: np.ndarray) -> list[np.ndarray]:
        """Those of some points of the boundary around which more than half of a small circle lies inside."""
        if not len(points):
            return []
        angles = 2 * np.pi * (np.arange(360) + 0.5) / 360
        circle = BEND * self.size * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        shares = self.inside((points[:, None] + circle).reshape(-1, 2)).reshape(len(points), -1).mean(axis=1)
        return list(points[(shares > 0.51) & (shares < 0.995)])

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Whether each point (P, m) is strictly inside."""
        return self.domain.level(points) < 0.0

    @cached_property
    def spread(self) -> np.ndarray:
        """Points of an even grid inside, (P, m): a mean over them is one over the region to three digits or so."""
        points = _midpoints(self.bounds[:, 0], self.bounds[:, 1], 160 if len(self.bounds) == 2 else 32)
        return points[self.inside(points)]

    def is_between(self, points: np.ndarray, axis: int) -> np.ndarray:
        """Whether the region lies on both sides of points of a plane across an axis, (P,)."""
        step = np.zeros(points.shape[1])
        step[axis] = 10 * self.aside
        return self.inside(points - step) & self.inside(points + step)

    def fit(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, tuple[Cell, ...]]:
        """Which cells stay, and what they are; those outside go, slivers go to their neighbors."""
        cells = [self.cell(low, high) for low, high in zip(lower, upper, strict=True)]
        slivers = [cell for cell in cells if cell.kind == "sliver"]
        keep = np.array([index for index, cell in enumerate(cells) if cell.kind in ("whole", "cut")], int)
        kept = [cells[index] for index in keep]
        for sliver in slivers:
            for index, cell in enumerate(kept):
                slack = FLAT * (cell.high - cell.low)
                if np.all((sliver.lower <= cell.high + slack) & (sliver.upper >= cell.low - slack)):
                    kept[index] = _grown(cell, sliver)
        return keep, tuple(kept)

    def cell(self, low: np.ndarray, high: np.ndarray) -> Cell:
        """What the region leaves of a cell."""
        key = low.tobytes() + high.tobytes()
        if key not in self._cells:
            if self.is_boxes:
                kind = "whole" if self.inside((low + high)[None] / 2)[0] else "outside"
                self._cells[key] = Cell(low, high, kind, low, high, float(np.prod(high - low)), np.zeros((0, len(low))))
            else:
                self._cells[key] = self._planar(low, high) if len(low) == 2 else self._solid(low, high)
        return self._cells[key]

    def stretches(self, cell: Cell, patch: Patch) -> list[Stretch]:
        """The parts of a patch in a cell; found once."""
        known = cell.stretches.get(id(patch))
        if known is None:
            known = cell.stretches[id(patch)] = self._stretches(cell.low, cell.high, patch)
        return known

    def _stretches(self, low: np.ndarray, high: np.ndarray, patch: Patch) -> list[Stretch]:
        arc, flat = self.arc(patch), self.plane(patch)
        if flat is not None:
            axis, value = flat
            other, inward = 1 - axis, -arc.normals[0, axis] or 1.0
            if not low[axis] < value + inward * FLAT * (high - low)[axis] < high[axis]:
                return []
            start, end = arc.points[[0, -1], other]
            first, last = sorted(np.clip((np.array([low[other], high[other]]) - start) / (end - start), 0, 1))
            if last <= first:
                return []
            points, normals = patch.chart(np.linspace(first, last, 35)[1:-1, None])
            kept = np.ones(1, bool) if patch.keep is None else patch.keep(points, normals)
            if kept.all() or not kept.any():
                return [Stretch(arc, float(first), float(last))] if kept.all() else []
        return arc.stretches(low, high, self.aside)

    def _planar(self, low: np.ndarray, high: np.ndarray) -> Cell:
        width, found, covered = high - low, [], np.zeros((2, 2))
        cuts = False
        for patch in self.patches:
            for stretch in self._stretches(low, high, patch):
                points = stretch.at(np.linspace(0, 1, 33))[0]
                found.append(points)
                gaps = np.stack([points - low, high - points]) / width  # (2, P, axes)
                if np.all(gaps > FLAT, axis=(0, 2)).any():
                    cuts = True
                    continue
                for side, axis in product(range(2), range(2)):
                    if np.all(gaps[side, :, axis] <= FLAT):
                        covered[side, axis] += stretch.length / width[1 - axis]
        marks = np.concatenate([points[[0, -1]] for points in found]) if found else np.zeros((0, 2))
        corners = np.array(list(product(*zip(low, high, strict=True))))
        if not cuts and not self.inside((low + high)[None] / 2)[0]:
            return Cell(low, high, "outside", low, high, 0.0, marks)
        partly = np.any((covered > 1e-6) & (covered < 1 - 1e-6))
        if not cuts and not partly:
            return Cell(low, high, "whole", low, high, float(np.prod(width)), marks)
        inner = corners[self.inside(corners)] if cuts else corners
        return self._cut(low, high, np.concatenate([*found, inner]), marks, 32)

    def _solid(self, low: np.ndarray, high: np.ndarray) -> Cell:
        width, none = high - low, np.zeros((0, 3))
        near = self._surface[np.all((self._surface >= low) & (self._surface <= high), axis=1)]
        gaps = np.minimum(near - low, high - near) / width
        if not np.all(gaps > 1e-3, axis=1).any():  # what is thinner is a sliver
            if not self.inside((low + high)[None] / 2)[0]:
                return Cell(low, high, "outside", low, high, 0.0, none)
            if not self._has_mixed_sides(low, high):
                return Cell(low, high, "whole", low, high, float(np.prod(width)), none)
        around = _midpoints(low, high, 20)
        return self._cut(low, high, np.concatenate([near, around[self.inside(around)]]), none, 20)

    def _has_mixed_sides(self, low: np.ndarray, high: np.ndarray) -> bool:
        """Whether some side of a cell lies partly between two parts of the region and partly on its boundary."""
        for axis, end in product(range(3), (low, high)):
            first, last = low.copy(), high.copy()
            first[axis] = last[axis] = end[axis]
            if 0 < np.mean(self.is_between(_midpoints(first, last, 8), axis)) < 1:
                return True
        return False

    def _cut(self, low: np.ndarray, high: np.ndarray, points: np.ndarray, marks: np.ndarray, count: int) -> Cell:
        """A cell that is cut, with the box around these points of it."""
        if len(points) == 0:
            return Cell(low, high, "outside", low, high, 0.0, marks)
        lower, upper = np.maximum(points.min(axis=0), low), np.minimum(points.max(axis=0), high)
        kind = "sliver" if np.any(upper - lower < SLIVER * (high - low)) else "cut"
        share = float(np.mean(self.inside(_midpoints(lower, upper, count))))
        kind = "sliver" if share == 0 else kind
        return Cell(low, high, kind, lower, upper, share * float(np.prod(upper - lower)), marks)


def _midpoints(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """An even grid inside a box, one point along axes without width."""
    lines = [
        a + (b - a) * (np.arange(count) + 0.5) / count if b > a else np.array([a])
        for a, b in zip(low, high, strict=True)
    ]
    return np.stack([g.ravel() for g in np.meshgrid(*lines, indexing="ij")], axis=1)


def _grown(cell: Cell, sliver: Cell) -> Cell:
    slack = 2 * SLIVER * (cell.high - cell.low)
    lower = np.minimum(cell.lower, np.maximum(sliver.lower, cell.low - slack))
    upper = np.maximum(cell.upper, np.minimum(sliver.upper, cell.high + slack))
    return replace(cell, kind="cut", lower=lower, upper=upper, guests=(*cell.guests, sliver), made={})
