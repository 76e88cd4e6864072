"""Where pieces must end: at the faces of coefficients that jump, where one condition gives way to another, and at planes
across which a formula jumps, such as `jnp.where(t > 1, 1.0, 0.0)`.

On a face where a coefficient jumps the trace of order one is the flux F(a, u_n), continuous across it, instead of the normal
derivative; for equations of first order along an axis it is the flux instead of the value, where one is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import numpy as np

from flm.language.arguments import Residual
from flm.language.piecewise import Piecewise
from flm.pde.pieces.fields import AnyResidual, FieldResidual, InSpace
from flm.pde.pieces.functions import Functions, grid
from flm.pde.pieces.places import Place, Sample, Spot
from flm.pde.pieces.tree import Cut, Face, Side, Tree

LOOKS = 1025  # points along a side that are asked first: shorter stretches are not seen
HALVINGS = 50
LINES = 3  # along which a formula is looked at: what jumps across a plane does so on all of them
STEPS = 64  # planes across one axis at which pieces end
OUTLIER = 4.0  # how much larger than its neighbors' a change between two points must be for a closer look

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
            residual = self.jumps.fluxes[side.unknown]
            tables = [self.functions.table(k, alpha, nodes) for k, alpha in residual.jets]
            spots, scales = [], []
            for leaf in leaves:
                points = tree.physical(leaf, grid(nodes))
                width, at = tree.widths[leaf, axis], np.abs(points[0, axis])
                points[:, axis] -= side.z * max(INSIDE * width, 4 * np.spacing(at))
                spots.append(Spot(leaf, points, np.eye(tree.num_axes)[[axis] * len(points)]))
                scales.append(tree.scales(leaf, residual.jets))
            found[side] = Sample(residual, spots, [tables] * len(leaves), scales)
        return found


def steps_of(places: Sequence[Place], axis: int, bounds: np.ndarray, parameters: np.ndarray) -> list[float]:
    """Coordinates along an axis across which a residual jumps while the unknowns and their derivatives stay as they are."""
    found: set[float] = set()
    for place in places:
        if axis not in place.pinned and _reads(place.residual, axis):
            found |= set(_steps(place, axis, bounds, parameters))
    return sorted(found) if len(found) <= STEPS else []


def _reads(residual: AnyResidual | InSpace, axis: int) -> bool:
    """Whether a residual is a function of a coordinate, not of the unknowns alone."""
    while not isinstance(residual, Residual):
        residual = residual.inner if isinstance(residual, FieldResidual) else residual.residual
    return any(reference.kind == "axis" and reference.index == axis for reference in residual.references)


def _steps(place: Place, axis: int, bounds: np.ndarray, parameters: np.ndarray) -> list[float]:
    """The steps of one residual that are the same on several random lines."""
    rng, common = np.random.default_rng(11), None
    jets = rng.uniform(0.5, 1.5, (len(place.residual.jets), 1))
    for _ in range(LINES if len(bounds) > 1 else 1):
        point = rng.uniform(bounds[:, 0], bounds[:, 1])
        point[list(place.pinned)] = list(place.pinned.values())

        def values(along: np.ndarray, point: np.ndarray = point) -> np.ndarray:
            points = np.tile(point, (len(along), 1))
            points[:, axis] = along
            states, normals = np.repeat(jets, len(along), axis=1), np.tile(place.normal, (len(along), 1))
            return np.asarray(place.residual.linearize(points, states, parameters, normals).value)

        here, close = _switches(values, *bounds[axis])[0], 1e-9 * np.ptp(bounds[axis])
        common = here if common is None else np.array([v for v in common if np.any(np.abs(here - v) <= close)])
    return [] if common is None else common.tolist()


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
    """The ends of all conditions that hold on a part of a side only."""
    found: dict[tuple[float, ...], Break] = {}
    for place in places:
        if place.keep is None or len(place.pinned) != 1:
            continue
        ((side, value),) = place.pinned.items()
        for end in _switches(partial(_kept, place, side, value), *bounds[1 - side])[1]:
            point = np.array([value, float(f"{end:.14g}")])[:: 1 if side == 0 else -1]
            found[tuple(np.round(point, 12))] = (1 - side, point)
    return tuple(found.values())


def _kept(place: Place, side: int, value: float, along: np.ndarray) -> np.ndarray:
    points = np.empty((len(along), 2))
    points[:, side], points[:, 1 - side] = value, along
    assert place.keep is not None
    return np.asarray(place.keep(points, np.broadcast_to(place.normal, points.shape)), float)
