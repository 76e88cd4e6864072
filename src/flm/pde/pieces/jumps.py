"""Where pieces must end: at the faces of coefficients that jump, where one condition gives way to another, and at planes
across which a formula jumps, such as `jnp.where(t > 1, 1.0, 0.0)`.

On a face where a coefficient jumps the trace of order one is the flux F(a, u_n), continuous across it, instead of the normal
derivative; for equations of first order along an axis it is the flux instead of the value, where one is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from flm.language.arguments import Residual
from flm.language.parameters import Piecewise
from flm.pde.pieces.fields import AnyResidual, FieldResidual, InSpace
from flm.pde.pieces.functions import Functions, grid
from flm.pde.pieces.places import Place, Sample, Spot
from flm.pde.pieces.tree import Cut, Tree

LOOKS = 1025  # points along a side that are tried first: shorter stretches are missed
HALVINGS = 50
LINES = 3  # along which a formula is sampled: a jump across a plane shows on all of them
STEPS = 64  # planes across one axis at which pieces end
OUTLIER = 4.0  # how much larger than its neighbors' a change between two points must be for a closer look

Break = tuple[int, np.ndarray]  # the axis along which a condition ends, and the point, (2,)
INSIDE = 1e-13  # of a piece's width: how far inside its own side a flux looks its coefficient up


@dataclass(frozen=True, eq=False)
class Jumps:
    """The parameters that jump, and the fluxes across their faces."""

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
        while cuts := self._straddling(tree):
            tree, _ = tree.split(cuts)
        return tree

    def _straddling(self, tree: Tree) -> dict[int, list[Cut]]:
        """For each leaf that a box covers in part, a cut along one of the box's faces."""
        cuts: dict[int, list[Cut]] = {}
        for ends in self.boxes:
            close = 1e-9 * tree.widths
            touches = np.all((tree.upper > ends[:, 0] + close) & (tree.lower < ends[:, 1] - close), axis=1)
            for leaf in map(int, np.flatnonzero(touches)):
                shares = (ends - tree.lower[leaf][:, None]) / tree.widths[leaf][:, None]
                inside = [
                    Cut(int(j), float(shares[j, e])) for j, e in np.argwhere((shares > 1e-9) & (shares < 1 - 1e-9))
                ]
                if inside:
                    cuts.setdefault(leaf, inside[:1])
        return cuts

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

    def flux(self, functions: Functions, tree: Tree, k: int, axis: int, z: float, leaf: int) -> Sample:
        """The flux of an unknown at the Gauss nodes of a leaf's side, reference coordinate z, a little inside."""
        nodes = tuple(z if a == axis else n for a, n in enumerate(functions.shapes[k]))
        residual, points = self.fluxes[k], tree.physical(leaf, grid(nodes))
        points[:, axis] -= z * max(INSIDE * tree.widths[leaf, axis], 4 * np.spacing(abs(points[0, axis])))
        tables = [functions.table(unknown, alpha, nodes) for unknown, alpha in residual.jets]
        spot = Spot(leaf, points, np.eye(tree.num_axes)[[axis] * len(points)])
        return Sample(residual, [spot], [tables], [tree.scales(leaf, residual.jets)])


def steps_of(places: Sequence[Place], axis: int, bounds: np.ndarray, parameters: np.ndarray) -> list[float]:
    """Coordinates along an axis at which a residual jumps although the unknowns and their derivatives do not."""
    found: set[float] = set()
    for place in places:
        if axis not in place.pinned and _reads(place.residual, axis):
            found |= set(_steps(place, axis, bounds, parameters))
    return sorted(found) if len(found) <= STEPS else []


def _reads(residual: AnyResidual | InSpace, axis: int) -> bool:
    """Whether a residual depends on a coordinate, and not only on the unknowns."""
    while not isinstance(residual, Residual):
        residual = residual.inner if isinstance(residual, FieldResidual) else residual.residual
    return any(reference.kind == "axis" and reference.index == axis for reference in residual.references)


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
