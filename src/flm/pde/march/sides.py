"""The sides of space: which series fits the conditions along each axis, and the polynomial that makes them homogeneous."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flm.pde.march.space import COSINE, FOURIER, SINE
from flm.pde.pieces.fields import Parameters
from flm.pde.pieces.setup import places_of
from flm.pde.problem import PDE

SAME = 1e-9  # slopes that differ by less than this share are equal


class Unfit(Exception):
    """What of a problem the march cannot serve, as a sentence."""


@dataclass(frozen=True)
class Lift:
    """For each unknown and space axis a polynomial c_0 + c_1 ξ + c_2 ξ² of ξ = (x − low) / width; the lift is their sum."""

    coefficients: np.ndarray  # (K, d, 3)
    bounds: np.ndarray  # (d, 2)

    def __bool__(self) -> bool:
        return bool(self.coefficients.any())

    def jet(self, unknown: int, alpha: Sequence[int], coordinates: Sequence[np.ndarray]) -> np.ndarray:
        """A space derivative of the lift at points, given as one array per axis."""
        total = np.zeros(np.broadcast_shapes(*(np.shape(x) for x in coordinates)))
        along = [j for j, order in enumerate(alpha) if order]
        if len(along) > 1:
            return total
        for j, (low, high) in enumerate(self.bounds):
            if along in ([], [j]):
                order = alpha[j]
                own = np.polynomial.Polynomial(self.coefficients[unknown, j]).deriv(order) if order else None
                own = np.polynomial.Polynomial(self.coefficients[unknown, j]) if own is None else own
                total = total + own((coordinates[j] - low) / (high - low)) / (high - low) ** order
        return total


@dataclass(frozen=True)
class Side:
    """One condition: the derivative of the given order along an axis of an unknown has a value at an end."""

    unknown: int
    axis: int
    end: int
    order: int
    points: np.ndarray
    values: np.ndarray


def read_sides(problem: PDE, space: tuple[int, ...], highest: np.ndarray) -> tuple[tuple[str, ...], Lift]:
    """The kind of series along each space axis, and the lift.

    Args:
        problem: with conditions on whole faces.
        space: which axes of the problem are space.
        highest: the order of each unknown along each space axis, (K, d).
    """
    sides = [
        side for block in problem.conditions if block.kind == "boundary" for side in _sides_of(problem, block, space)
    ]
    kinds = []
    for j, axis in enumerate(space):
        name = problem.axes[axis]
        own = [side for side in sides if side.axis == j]
        if problem.periodic_axes[axis]:
            if own:
                raise Unfit(f"the axis {name} is periodic and has conditions on its faces")
            kinds.append(FOURIER)
            continue
        parities = {side.order % 2 for side in own}
        if len(parities) != 1:
            raise Unfit(f"the axis {name} must be periodic, or have values alone or slopes alone on both of its faces")
        parity = parities.pop()
        for k, unknown in enumerate(problem.unknowns):
            wanted = list(range(parity, max(int(highest[k, j]), 2), 2)) if highest[k, j] else []
            for end in (0, 1):
                found = sorted(side.order for side in own if (side.unknown, side.end) == (k, end))
                if found != wanted:
                    raise Unfit(f"{unknown} must have {len(wanted)} condition(s) of one kind at each end of {name}")
        kinds.append(COSINE if parity else SINE)
    bounds = np.asarray(problem.domain.bounds, float)[list(space)]
    return tuple(kinds), _lift(sides, bounds, problem)


def _sides_of(problem: PDE, block, space: tuple[int, ...]) -> list[Side]:
    bounds, out = np.asarray(problem.domain.bounds, float), []
    for place in places_of(problem, block, Parameters.of(problem)):
        axes = [a for a in place.pinned if a in space]
        if len(place.pinned) != 1 or not axes or place.keep is not None:
            raise Unfit(
                f"the condition on {block.name} must hold on a whole face of space: at other times than the start nothing is asked"
            )
        axis = axes[0]
        ends = np.flatnonzero(bounds[axis] == place.pinned[axis])
        if not len(ends):
            raise Unfit(f"the condition on {block.name} must hold on a face of space, not inside")
        points = problem.domain.interior(12, seed=3, warp=False)
        points[:, axis] = place.pinned[axis]
        normals = np.broadcast_to(place.normal, points.shape)
        jets = place.residual.jets
        states = 1 + 0.5 * np.random.default_rng(1).uniform(-1, 1, (2, len(jets), len(points)))
        first, second = (place.residual.linearize(points, s, problem.parameter_start, normals) for s in states)
        size = np.abs(first.by_jet).max()
        even = np.ptp(np.concatenate([first.by_jet, second.by_jet], axis=1), axis=1).max() <= SAME * size
        along = [i for i, row in enumerate(first.by_jet) if np.abs(row).max() > SAME * size]
        alpha = jets[along[0]][1] if along else (0,) * len(bounds)
        if not even or len(along) != 1 or sum(alpha) != alpha[axis]:
            raise Unfit(f"the condition on {block.name} must fix one unknown or one normal derivative")
        slope = float(first.by_jet[along[0], 0])
        value = states[0][along[0]] - first.value / slope
        out.append(Side(jets[along[0]][0], space.index(axis), int(ends[0]), alpha[axis], points[:, list(space)], value))
    return out


def _lift(sides: list[Side], bounds: np.ndarray, problem: PDE) -> Lift:
    """The polynomial with the values of the sides, which must be constants."""
    lift = Lift(np.zeros((len(problem.unknowns), len(bounds), 3)), bounds)
    for j, (low, high) in enumerate(bounds):
        for k, name in enumerate(problem.unknowns):
            ends = np.zeros(2)
            own = [s for s in sides if (s.axis, s.unknown) == (j, k) and s.order < 2]
            for side in own:
                alpha = tuple(side.order * (i == j) for i in range(len(bounds)))
                left = side.values - lift.jet(k, alpha, list(side.points.T))
                if np.ptp(left) > SAME * max(1.0, np.abs(left).max()):
                    raise Unfit(f"the values of {name} on the faces must not change along them or in time")
                ends[side.end] = left.mean()
            if own and own[0].order == 0:
                lift.coefficients[k, j, :2] = ends[0], ends[1] - ends[0]
            elif own:
                lift.coefficients[k, j, 1:] = (high - low) * np.array([ends[0], (ends[1] - ends[0]) / 2])
    for side in sides:
        alpha = tuple(side.order * (i == side.axis) for i in range(len(bounds)))
        left = side.values - lift.jet(side.unknown, alpha, list(side.points.T))
        if np.abs(left).max() > SAME * max(1.0, np.abs(side.values).max()):
            raise Unfit("the values on the faces must fit together at the corners of space")
    return lift
