"""The domain cut into boxes: a k-d tree, the faces between its leaves, and the traces that live on the faces.

A face belongs to the coarser of the leaves that it separates: on its other side lie one or more finer ones, each with its whole
side on the face. Values (the lower half of the normal derivatives) are traces on the whole face, fluxes (the upper half)
are traces on each finer side, so that every leaf has as many conditions on its side as it needs. Ties are the rows that make
neighbors agree on the traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import NamedTuple

import numpy as np

from flm.language.arguments import Jet
from flm.pde.pieces.shape import Cell, Shape
from flm.series import legendre as line

CLOSE = 1e-10  # of a leaf's width: coordinates closer than this are the same cut


@dataclass(frozen=True)
class Face:
    """The side of a leaf, with its neighbors on the other side."""

    axis: int  # across which axis
    coarse: int  # the leaf whose side it is
    side: int  # 0 where it is the leaf's lower side, 1 where it is its upper one
    fine: tuple[int, ...]  # the leaves on the other side


class _Pair(NamedTuple):
    """Two leaves that touch across an axis, the second above the first."""

    axis: int
    below: int
    above: int


@dataclass(frozen=True)
class Cut:
    """Where a leaf is cut: the axis, the share of its width below the cut, and the coordinate where it is known exactly."""

    axis: int
    share: float = 0.5
    at: float | None = None  # a corner at 0 must not become one at 1e-16: it would be another place


class Tree:
    """Boxes that tile a box, or what a region leaves of them."""

    def __init__(
        self,
        lower: np.ndarray,
        upper: np.ndarray,
        bounds: np.ndarray,
        periodic: tuple[bool, ...],
        shape: Shape | None = None,
        cells: tuple[Cell, ...] = (),
    ):
        self.lower, self.upper, self.widths = lower, upper, upper - lower  # of each leaf's functions, (L, m)
        self.num_leaves, self.num_axes = lower.shape
        self.bounds, self.periodic = bounds, periodic  # of the whole, (m, 2); which axes are joined end to end
        self.shape, self.cells = shape, cells  # the region, if it is not a box, and the cells that tile it
        # A cut leaf's functions live on part of its cell. Ends and widths of the cells, (L, m):
        self.low = np.array([cell.low for cell in cells]) if cells else lower
        self.high = np.array([cell.high for cell in cells]) if cells else upper
        self.spans = self.high - self.low
        self.is_cut = np.array([cell.is_cut for cell in cells] or [False] * self.num_leaves)
        volumes = np.array([cell.volume for cell in cells]) if cells else np.prod(self.widths, axis=1)
        self.shares = volumes / (volumes.sum() if cells else np.prod(np.ptp(bounds, axis=1)))  # of the volume, (L,)

    @classmethod
    def whole(cls, bounds: np.ndarray, periodic: Iterable[bool], shape: Shape | None = None) -> Tree:
        """The tree of one leaf; in a region, of as many as its axis-parallel sides need."""
        bounds = np.asarray(bounds, float)
        tree = cls(bounds[None, :, 0].copy(), bounds[None, :, 1].copy(), bounds, tuple(periodic))
        return tree if shape is None else tree.parted(shape.planes())._fitted(shape)[0]

    def parted(self, planes: Iterable[Sequence[float]]) -> Tree:
        """The tree with all leaves cut at some coordinates of each axis."""
        tree = self
        for axis, value in ((axis, value) for axis, values in enumerate(planes) for value in values):
            tree = tree.cut_at(axis, value)
        return tree

    def cut_at(self, axis: int, value: float, among: np.ndarray | bool = True) -> Tree:
        """The tree with all leaves, or those among some (L,), cut at a coordinate of one axis."""
        share = (value - self.lower[:, axis]) / self.widths[:, axis]
        inside = np.flatnonzero((share > CLOSE) & (share < 1 - CLOSE) & among)
        return (
            self.split({int(leaf): [Cut(axis, float(share[leaf]), float(value))] for leaf in inside})[0]
            if len(inside)
            else self
        )

    def _fitted(self, shape: Shape) -> tuple[Tree, np.ndarray]:
        """The tree without the cells that lie outside a region, and the old leaf of each new one."""
        every = [shape.cell(low, high) for low, high in zip(self.lower, self.upper, strict=True)]
        keep = np.array([index for index, cell in enumerate(every) if cell.kind != "outside"], int)
        cells = tuple(every[index] for index in keep)
        lower, upper = np.array([cell.lower for cell in cells]), np.array([cell.upper for cell in cells])
        return Tree(lower, upper, self.bounds, self.periodic, shape, cells), keep

    def physical(self, leaf: int, reference: np.ndarray) -> np.ndarray:
        """Points (P, m) of the reference piece [-1, 1]^m in a leaf."""
        return self.lower[leaf] + (reference + 1) / 2 * self.widths[leaf]

    def scales(self, leaf: int, jets: Sequence[Jet]) -> np.ndarray:
        """Factors from derivatives on the reference piece to derivatives in a leaf, (A,)."""
        return np.array([np.prod((2 / self.widths[leaf]) ** np.array(alpha)) for _, alpha in jets])

    def within(self, other: Tree, leaf: int, parent: int) -> tuple[np.ndarray, np.ndarray]:
        """The corners of another tree's leaf in the coordinates of a leaf of this one, (m,) both."""
        place = lambda corner: 2 * (corner - self.lower[parent]) / self.widths[parent] - 1
        return place(other.lower[leaf]), place(other.upper[leaf])

    def split(self, cuts: Mapping[int, Iterable[Cut]]) -> tuple[Tree, np.ndarray]:
        """The tree with some leaves cut, each along one or several axes, and the old leaf of each new one."""
        lower, upper, parents = [], [], []
        for leaf in range(self.num_leaves):
            boxes = [(self.low[leaf], self.high[leaf])]
            for cut in cuts.get(leaf, ()):
                boxes = [half for low, high in boxes for half in _halves(low, high, cut)]
            for low, high in boxes:
                lower.append(low)
                upper.append(high)
                parents.append(leaf)
        tree, old = Tree(np.array(lower), np.array(upper), self.bounds, self.periodic), np.array(parents)
        if self.shape is not None:
            tree, keep = tree._fitted(self.shape)
            old = old[keep]
        repairs = tree._repairs()
        if not repairs:
            return tree, old
        mended, between = tree.split(repairs)
        return mended, old[between]

    @cached_property
    def _pairs(self) -> list[_Pair]:
        """Pairs of leaves that share more than an edge."""
        found, span = [], self.spans
        for axis in range(self.num_axes):
            close = CLOSE * span[:, axis]
            touch = np.abs(self.high[:, None, axis] - self.low[None, :, axis]) <= np.minimum(close[:, None], close)
            if self.periodic[axis]:
                last = self.high[:, axis] >= self.bounds[axis, 1] - close
                first = self.low[:, axis] <= self.bounds[axis, 0] + close
                touch |= last[:, None] & first[None, :]
            for a in (a for a in range(self.num_axes) if a != axis):
                low = np.maximum(self.low[:, None, a], self.low[None, :, a])
                high = np.minimum(self.high[:, None, a], self.high[None, :, a])
                touch &= high - low > CLOSE * np.minimum(span[:, None, a], span[None, :, a])
            found += [_Pair(axis, int(i), int(j)) for i, j in np.argwhere(touch)]
        return found

    def _covers(self, leaf: int, other: int, axis: int) -> bool:
        """Whether a leaf's side across `axis` covers the other's."""
        close = CLOSE * self.spans[other]
        covers = (self.low[leaf] <= self.low[other] + close) & (self.high[leaf] >= self.high[other] - close)
        return bool(np.delete(covers, axis).all())

    def _repairs(self) -> dict[int, list[Cut]]:
        """Cuts that make every side nested in the side behind it: of two sides that only overlap, the first leaf is cut."""
        cuts: dict[int, list[Cut]] = {}
        for axis, i, j in self._pairs:
            if i in cuts or j in cuts or self._covers(i, j, axis) or self._covers(j, i, axis):
                continue
            shares = [(end[j] - self.low[i]) / self.spans[i] for end in (self.low, self.high)]
            others = (a for a in range(self.num_axes) if a != axis)
            inside = [Cut(a, float(s[a])) for a in others for s in shares if CLOSE < s[a] < 1 - CLOSE]
            cuts |= {i: inside[:1]} if inside else {}
        return cuts

    @cached_property
    def faces(self) -> tuple[Face, ...]:
        """All faces between leaves."""
        behind: dict[tuple[int, int, int], list[int]] = {}
        for axis, i, j in self._pairs:
            if self._covers(i, j, axis):
                behind.setdefault((axis, i, 1), []).append(j)
            else:
                behind.setdefault((axis, j, 0), []).append(i)
        return tuple(Face(axis, coarse, side, tuple(fine)) for (axis, coarse, side), fine in behind.items())

    def locate(self, points: np.ndarray) -> np.ndarray:
        """The leaf of each point, (P,); the nearest one for points outside."""
        inside = np.clip(points, self.bounds[:, 0], self.bounds[:, 1])
        leaf = np.zeros(len(points), int)
        for start in range(0, len(points), 4096):
            part = inside[start : start + 4096, None, :]
            beyond = np.maximum(self.lower - part, part - self.upper).max(axis=2)
            leaf[start : start + 4096] = np.argmin(beyond, axis=1)
        return leaf


def _halves(low: np.ndarray, high: np.ndarray, cut: Cut) -> list[tuple[np.ndarray, np.ndarray]]:
    middle = low[cut.axis] + cut.share * (high[cut.axis] - low[cut.axis]) if cut.at is None else cut.at
    below, above = high.copy(), low.copy()
    below[cut.axis] = above[cut.axis] = middle
    return [(low, below), (above, high)]


@lru_cache(maxsize=64)
def projection(shape: tuple[int, ...]) -> np.ndarray:
    """The matrix from values at the Gauss nodes of a side to coefficients, (size, size)."""
    lines = [(line.values(line.gauss(n)[0], n) * line.gauss(n)[1][:, None]).T for n in shape]
    return reduce(np.kron, lines, np.ones((1, 1)))


def share_of_mean(tree: Tree, face: Face, leaf: int, shape: list[int]) -> np.ndarray:
    """The matrix from a trace on a fine side to its part of the coefficients on the coarse one, (size, size)."""
    low, high = (np.delete(end, face.axis).tolist() for end in tree.within(tree, leaf, face.coarse))
    parts = [(b - a) / 2 * line.restriction(n, a, b).T for n, a, b in zip(shape, low, high, strict=True)]
    return reduce(np.kron, parts, np.ones((1, 1)))
