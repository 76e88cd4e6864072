"""Coefficients that jump: the pieces follow their faces, and what flows across these is continuous.

On a face where a coefficient jumps the trace of order one is the flux F(a, u_n) on either side instead of the normal
derivative; for equations of first order along an axis it is the flux instead of the value, where one is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from flm.language.piecewise import Piecewise
from flm.pde.pieces.fields import AnyResidual
from flm.pde.pieces.functions import Functions, grid
from flm.pde.pieces.places import Sample
from flm.pde.pieces.tree import Cut, Face, Tree

INSIDE = 1e-13  # of a piece's width: how far inside its own side a flux looks its coefficient up


@dataclass(frozen=True, eq=False)
class Jumps:
    """Parameters that jump and what flows.

    Args:
        parameters: those that jump.
        fluxes: of unknowns by number; the normal derivative of others.
        axes: names of the axes.
    """

    parameters: tuple[Piecewise, ...]
    fluxes: dict[int, AnyResidual]
    axes: tuple[str, ...]

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
