"""A region seen from the cells of a tree: which cells it fills, which its boundary cuts, and where.

In the plane the boundary is a list of arcs, charts of one parameter, followed at a few thousand points; the stretches of an
arc inside a cell end where bisection finds its sides. In space boundaries are points spread by area. A cell that the
boundary cuts keeps the box around its inner part, so that functions live where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np

from flm.domains import AbstractDomain
from flm.domains.piece import Patch

ASIDE = 1e-9  # of the region's size: how far to look on both sides of a boundary
BESIDE = 1e-6  # of a cell's width, if that is less
FLAT = 1e-7  # of a cell's width: a boundary this close to its sides does not cut it
THIN = 1e-3  # the same in space, where a boundary is known at some points only
FOLLOWED = 4096  # points along the whole boundary
SPREAD = 6000  # points on each surface in space
PLANES = 16  # planes along one axis at which the first cells are parted
BEND = 1e-6  # of the region's size: the radius of the circle that shows a corner; corners closer than this are one
SIDES = 64  # points on each piece of the boundary that show how wide it is
ROUNDS = 36  # of bisection between two points of an arc


@dataclass(frozen=True)
class Stretch:
    """Part of a patch of a planar boundary: from one parameter to another, of about `length`."""

    patch: Patch
    start: float
    end: float
    length: float

    def at(self, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points and outward normals at shares of the stretch, (P, m) both."""
        return self.patch.chart((self.start + (self.end - self.start) * share)[:, None])


class Arc:
    """A patch of a planar boundary, followed at many parameters."""

    def __init__(self, patch: Patch, count: int, aside: float):
        self.patch, self.aside = patch, aside
        self.parameters = np.linspace(0.0, 1.0, count + 1)
        self.points, _ = patch.chart(self.parameters[:, None])
        steps = np.linalg.norm(np.diff(self.points, axis=0), axis=1)
        self.length, self.step = float(steps.sum()), float(steps.max())

    def stretches(self, low: np.ndarray, high: np.ndarray) -> list[Stretch]:
        """The parts whose inner side lies in a cell."""
        width, reach, du = float(np.min(high - low)), self.step, self.parameters[1]
        close = lambda points: np.all((points >= low - 2 * reach) & (points <= high + 2 * reach), axis=1)
        u, near = self.parameters[:-1], close(self.points)
        u = u[np.logical_or(near[1:], near[:-1])]
        while len(u) and 16 * reach > width:  # followed more closely where the cell is, until finely enough for it
            finer = min(int(np.ceil(16 * reach / width)), 64)
            du, reach = du / finer, reach / finer
            u = (u[:, None] + du * np.arange(finer)).ravel()
            u = u[close(self.patch.chart(u[:, None])[0]) | close(self.patch.chart(u[:, None] + du)[0])]
        if not len(u):
            return []
        u, aside = np.append(u, min(u[-1] + du, 1.0)), min(self.aside, BESIDE * width)
        flags = self._member(u, low, high, aside)
        (change,) = np.nonzero(flags[1:] != flags[:-1])
        left, right, before = u[change], u[change + 1], flags[change]
        for _ in range(ROUNDS if len(change) else 0):
            middle = (left + right) / 2
            same = self._member(middle, low, high, aside) == before
            left, right = np.where(same, middle, left), np.where(same, right, middle)
        ends = [*([u[0]] if flags[0] else []), *((left + right) / 2), *([u[-1]] if flags[-1] else [])]
        pairs = [(float(a), float(b)) for a, b in zip(ends[::2], ends[1::2], strict=True) if b - a > 1e-6 * du]
        return [Stretch(self.patch, a, b, self.length * (b - a)) for a, b in pairs]

    def _member(self, u: np.ndarray, low: np.ndarray, high: np.ndarray, aside: float) -> np.ndarray:
        """Whether the patch is there at some parameters and its inner side in a cell, (P,)."""
        points, normals = self.patch.chart(u[:, None])
        inner = points - aside * np.where(normals.any(axis=1, keepdims=True), normals, -1.0)
        inside = np.all((inner >= low) & (inner <= high), axis=1)
        if self.patch.keep is not None and inside.any():
            inside[inside] = self.patch.keep(points[inside], normals[inside])
        return inside


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell of the tree and the part of it inside the region."""

    low: np.ndarray  # the cell, (m,)
    high: np.ndarray
    kind: str  # "whole", "outside", or "cut": then rows are a least-squares problem, instead of as many as columns
    lower: np.ndarray  # the box around the part inside, (m,)
    upper: np.ndarray
    volume: float  # of the part inside
    stretches: dict[int, list[Stretch]] = field(default_factory=dict)  # of patches, by their identity
    made: dict[object, object] = field(default_factory=dict)  # the functions that live here, by what they were made for

    @property
    def is_cut(self) -> bool:
        """Whether the boundary cuts the cell."""
        return self.kind == "cut"


class Shape:
    """A region: its arcs or surfaces, and the cells computed so far."""

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

    def planes(self) -> list[list[float]]:
        """Coordinates of the boundary's axis-parallel sides and re-entrant corners within the bounds, for each axis."""
        found: list[set[float]] = [set() for _ in self.bounds]
        for piece in self.domain.pieces:
            for axis, value in piece.fixed.items():
                found[self.domain.axes.index(axis)].add(float(value))
        for axis, value in filter(None, map(self._plane, self.patches)):
            found[axis].add(value)
        for axis, value in ((axis, float(value)) for bend in self._bends for axis, value in enumerate(bend)):
            if all(abs(value - other) > BEND * self.size for other in found[axis]):
                found[axis].add(value)
        slack = 1e-9 * np.ptp(self.bounds, axis=1)
        inner = [
            sorted(v for v in values if low + s < v < high - s)
            for values, (low, high), s in zip(found, self.bounds, slack, strict=True)
        ]
        return [values if len(values) <= PLANES else [] for values in inner]

    def _plane(self, patch: Patch) -> tuple[int, float] | None:
        """The axis that a flat patch is perpendicular to, and its coordinate; None for a patch that is oblique or curved."""
        if not all(patch.ends):
            return None
        vertices, _ = patch.chart(np.array(list(product((0.0, 1.0), repeat=len(patch.ends)))))
        flat = np.flatnonzero(np.ptp(vertices, axis=0) <= 1e-12 * self.size)
        return (int(flat[0]), float(vertices[0, flat[0]])) if len(flat) else None

    @cached_property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Points on each piece of the boundary, such as a hole, (P, m), and how wide that piece is, (P, 1)."""
        found = [piece.sample(SIDES, seed=0, warp=False)[0] for piece in self.domain.pieces]
        widths = [np.full((len(points), 1), np.ptp(points, axis=0).max()) for points in found]
        return np.concatenate(found), np.concatenate(widths)

    @cached_property
    def _is_boxes(self) -> bool:
        """Whether all of the boundary is axis-parallel: cells that end at its planes are whole or outside."""
        return all(map(self._plane, self.patches)) and any(self.planes())

    @cached_property
    def corners(self) -> list[np.ndarray]:
        """Re-entrant corners in the plane at which cells end."""
        return self._reentrant(np.array(list(product(*self.planes())))) if len(self.bounds) == 2 else []

    @cached_property
    def _bends(self) -> list[np.ndarray]:
        """Re-entrant corners between sides that are not both axis-parallel: where the arcs of a plane boundary end."""
        if len(self.bounds) != 2 or all(map(self._plane, self.patches)):
            return []
        low, high = self.bounds[:, 0] - self.size, self.bounds[:, 1] + self.size
        arcs = [stretch for patch in self.patches for stretch in self._arc(patch).stretches(low, high)]
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
        """Points of an even grid inside, (P, m): a mean over them equals one over the region to about three digits."""
        points = _midpoints(self.bounds[:, 0], self.bounds[:, 1], 160 if len(self.bounds) == 2 else 32)
        return points[self.inside(points)]

    def is_between(self, points: np.ndarray, axis: int, width: float = np.inf) -> np.ndarray:
        """Whether the region lies on both sides of points of a face of this width across an axis, (P,)."""
        step = np.zeros(points.shape[1])
        step[axis] = 10 * min(self.aside, BESIDE * width)
        return self.inside(points - step) & self.inside(points + step)

    def _arc(self, patch: Patch) -> Arc:
        if id(patch) not in self._arcs:
            count = int(np.clip(FOLLOWED * patch.measure / self.measure, 64, FOLLOWED))
            self._arcs[id(patch)] = Arc(patch, count, self.aside)
        return self._arcs[id(patch)]

    def stretches(self, cell: Cell, patch: Patch) -> list[Stretch]:
        """The parts of a patch in a cell, computed once."""
        if id(patch) not in cell.stretches:
            cell.stretches[id(patch)] = self._arc(patch).stretches(cell.low, cell.high)
        return cell.stretches[id(patch)]

    def cell(self, low: np.ndarray, high: np.ndarray) -> Cell:
        """The cell with the part of it inside the region, computed once."""
        key = low.tobytes() + high.tobytes()
        if key not in self._cells:
            self._cells[key] = self._fitted(low, high)
        return self._cells[key]

    def _fitted(self, low: np.ndarray, high: np.ndarray) -> Cell:
        width, center, planar = high - low, (low + high)[None] / 2, len(low) == 2
        made = lambda kind, lower=low, upper=high, share=1.0: Cell(
            low, high, kind, lower, upper, share * float(np.prod(upper - lower)), stretches
        )
        stretches = dict[int, list[Stretch]]()
        if self._is_boxes:
            return made("whole" if self.inside(center)[0] else "outside")
        near = self._surface[np.all((self._surface >= low) & (self._surface <= high), axis=1)]
        if planar:
            stretches |= {id(patch): self._arc(patch).stretches(low, high) for patch in self.patches}
            followed = [part.at(np.linspace(0, 1, 33))[0] for found in stretches.values() for part in found]
            near = np.concatenate([near, *followed])
        gaps = np.minimum(near - low, high - near) / width
        cuts = np.all(gaps > (FLAT if planar else THIN), axis=1).any()
        if not cuts and not self.inside(center)[0]:
            return made("outside")
        if not cuts and not self._has_mixed_sides(low, high):
            return made("whole")
        # the box around the known points of the part inside
        within = np.concatenate([np.array(list(product(*zip(low, high, strict=True)))), _midpoints(low, high, 20)])
        points = np.concatenate([near, within[self.inside(within)] if cuts else within])
        lower, upper = np.maximum(points.min(axis=0), low), np.minimum(points.max(axis=0), high)
        share = float(np.mean(self.inside(_midpoints(lower, upper, 32 if planar else 20))))
        lost = share == 0 or np.any(upper - lower < (FLAT if planar else THIN) * width)
        return made("outside") if lost else made("cut", lower, upper, share)

    def _has_mixed_sides(self, low: np.ndarray, high: np.ndarray) -> bool:
        """Whether some side of a cell lies partly between two parts of the region and partly on its boundary."""
        for axis, end in product(range(len(low)), (low, high)):
            first, last = low.copy(), high.copy()
            first[axis] = last[axis] = end[axis]
            side = _midpoints(first, last, 64 if len(low) == 2 else 8)
            if 0 < np.mean(self.is_between(side, axis, float(np.min(high - low)))) < 1:
                return True
        return False


def _midpoints(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """An even grid inside a box, one point along axes without width."""
    lines = [
        a + (b - a) * (np.arange(count) + 0.5) / count if b > a else np.array([a])
        for a, b in zip(low, high, strict=True)
    ]
    return np.stack([g.ravel() for g in np.meshgrid(*lines, indexing="ij")], axis=1)
