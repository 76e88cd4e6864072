"""Where pieces must end: at the faces of coefficients that jump, and where one condition gives way to another.

On a face where a coefficient jumps the trace of order one is the flux F(a, u_n), continuous across it, instead of the normal
derivative; for equations of first order along an axis it is the flux instead of the value, where one is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from flm.language.piecewise import Piecewise
from flm.pde.pieces.fields import AnyResidual
from flm.pde.pieces.functions import Functions, grid
from flm.pde.pieces.places import Place, Sample
from flm.pde.pieces.tree import Cut, Face, Tree

LOOKS = 1025  # points along a side that are asked first: shorter stretches are not seen
HALVINGS = 50

Break = tuple[int, np.ndarray]  # the axis along which a condition ends, and the point, (2,)
INSIDE = 1e-13  # of a piece's width: how far inside its own side a flux looks its coefficient up


@dataclass(frozen=True, eq=False)
class Jumps:
    """Parameters that jump and what flows."""

    parameters: tuple[Piecewise, ...]  # those that jump
    fluxes: dict[int, AnyResidual]  # of unknowns by number; the normal derivative of others
    axes: tuple[str, ...]  # names of the axes

    def align(self, tree: Tree) -> Tree:
        """The tree cut until every leaf lies inside or outside every box."""
        while cuts := self._straddling(tree):
            tree, _ = tree.split(cuts)
        return tree

    def _straddling(self, tree: Tree) -> dict[int, list[Cut]]:
        """For each leaf that a box covers in part, a cut along one of the box's faces."""
        cuts: dict[int, list[Cut]] = {}
        for box in (box for jump in self.parameters for box in jump.where):
            ends = np.array([box.along(axis) for axis in self.axes])
            close = 1e-9 * tree.widths
            touches = np.all((tree.upper > ends[:, 0] + close) & (tree.lower < ends[:, 1] - close), axis=1)
            for leaf in np.flatnonzero(touches):
                for j in np.flatnonzero(np.isfinite(ends).any(axis=1)):
                    low, width = tree.lower[leaf, j], tree.widths[leaf, j]
                    inside = [v for v in ends[j] if low + close[leaf, j] < v < tree.upper[leaf, j] - close[leaf, j]]
                    if inside:
                        cuts.setdefault(int(leaf), [Cut(int(j), float((inside[0] - low) / width))])
        return cuts

    def corners(self, bounds: np.ndarray) -> list[np.ndarray]:
        """The corners of all boxes, as far as they lie in the domain, each (m,)."""
        found = []
        for box in (box for jump in self.parameters for box in jump.where):
            ends = [np.clip(box.along(axis), *bounds[j]) for j, axis in enumerate(self.axes)]
            found += [np.array(corner) for corner in product(*ends)]
        return found

    def ends(self, axis: int) -> list[float]:
        """Where boxes end along an axis."""
        name = self.axes[axis]
        return [v for jump in self.parameters for box in jump.where for v in box.along(name) if np.isfinite(v)]

    def values(self, tree: Tree) -> np.ndarray:
        """Each parameter's value in each leaf, (Q, L)."""
        center = (tree.lower + tree.upper) / 2
        at = {axis: center[:, j] for j, axis in enumerate(self.axes)}
        return np.stack([np.asarray(jump(**{a: at[a] for a in jump.axes})) for jump in self.parameters])


@dataclass(frozen=True)
class Side:
    """A side of a leaf on which a flux is wanted: its unknown, axis and reference coordinate, and which one of them."""

    unknown: int
    axis: int
    z: float
    index: int = 0


@dataclass(eq=False)
class Fluxes:
    """The sides of a tree's pieces on which fluxes are traces."""

    jumps: Jumps
    functions: Functions
    tree: Tree
    sides: dict[Side, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._values = self.jumps.values(self.tree)

    def is_flux(self, k: int, order: int, face: Face) -> bool:
        """Whether this trace of an unknown on this face is its flux."""
        axis, last = face.axis, self.functions.orders[k][face.axis] - 1
        if k not in self.jumps.fluxes or self.jumps.axes[axis] == "t" or order != last:
            return False
        here = self._values[:, face.coarse]
        return any((self._values[:, leaf] != here).any() for leaf in face.fine)

    def ask(self, k: int, axis: int, z: float, leaf: int) -> Side:
        """Note that a flux is wanted on a side; where it will be found."""
        leaves = self.sides.setdefault(Side(k, axis, z), [])
        leaves.append(leaf)
        return Side(k, axis, z, len(leaves) - 1)

    def samples(self) -> dict[Side, Sample]:
        """The fluxes at the Gauss nodes of all sides of a kind, a little inside."""
        tree, found = self.tree, {}
        for side, leaves in self.sides.items():
            shape, axis = self.functions.shapes[side.unknown], side.axis
            nodes = tuple(side.z if a == axis else n for a, n in enumerate(shape))
            points = np.stack([tree.physical(leaf, grid(nodes)) for leaf in leaves])
            shift = np.maximum(INSIDE * tree.widths[leaves, axis], 4 * np.spacing(np.abs(points[:, 0, axis])))
            points[:, :, axis] -= side.z * shift[:, None]
            normals = np.zeros_like(points)
            normals[:, :, axis] = 1.0
            residual = self.jumps.fluxes[side.unknown]
            tables = [self.functions.table(k, alpha, nodes)[None] for k, alpha in residual.jets]
            keep = np.ones(points.shape[:2], bool)
            found[side] = Sample(residual, np.array(leaves), points, normals, tables, np.zeros(len(leaves), int), keep)
        return found


def breaks_of(places: Sequence[Place], bounds: np.ndarray) -> tuple[Break, ...]:
    """The ends of all conditions that hold on a part of a side only."""
    found: dict[tuple[float, ...], Break] = {}
    for place in places:
        if place.keep is None or len(place.pinned) != 1:
            continue
        ((side, value),) = place.pinned.items()
        axis, (low, high) = 1 - side, bounds[1 - side]
        inside = np.linspace(low, high, LOOKS)
        kept = _kept(place, side, value, inside)
        for i in np.flatnonzero(kept[1:] != kept[:-1]):
            left, right = inside[i], inside[i + 1]
            for _ in range(HALVINGS):
                middle = (left + right) / 2
                if _kept(place, side, value, np.array([middle]))[0] == kept[i]:
                    left = middle
                else:
                    right = middle
            point = np.array([value, float(f"{right:.14g}")])[:: 1 if side == 0 else -1]
            if low < point[axis] < high:
                found[tuple(np.round(point, 12))] = (axis, point)
    return tuple(found.values())


def _kept(place: Place, side: int, value: float, along: np.ndarray) -> np.ndarray:
    points = np.empty((len(along), 2))
    points[:, side], points[:, 1 - side] = value, along
    assert place.keep is not None
    return np.asarray(place.keep(points, np.broadcast_to(place.normal, points.shape)), bool)


def cut_at_breaks(tree: Tree, breaks: Sequence[Break]) -> Tree:
    """The tree with a cut through every break, across the side on which it lies."""
    for axis, point in breaks:
        low, width = tree.lower, tree.widths
        close = 1e-9 * width
        within = np.all((point >= low - close) & (point <= tree.upper + close), axis=1)
        within &= (point[axis] > low[:, axis] + close[:, axis]) & (point[axis] < tree.upper[:, axis] - close[:, axis])
        cuts = {
            int(leaf): [Cut(axis, float((point[axis] - low[leaf, axis]) / width[leaf, axis]))]
            for leaf in np.flatnonzero(within)
        }
        tree = tree.split(cuts)[0] if cuts else tree
    return tree
