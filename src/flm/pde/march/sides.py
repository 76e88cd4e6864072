"""The sides of space: which series fits the conditions along each axis, and the polynomial that makes them homogeneous."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from flm.language.arguments import Residual
from flm.models.march import lift_jet
from flm.pde.march.space import COSINE, FOURIER, SINE
from flm.pde.problem import PDE, Block

PROBES = 10_000  # points at which slopes and values are compared: a coefficient may vary in a small place only
SAME = 1e-9  # slopes that differ by less than this share are equal


class Unfit(Exception):
    """A problem that the march cannot solve; the message says why in a sentence."""


class Side(NamedTuple):
    """One condition: the derivative of the given order along an axis of an unknown has a value at an end."""

    unknown: int
    axis: int
    end: int
    order: int
    points: np.ndarray
    values: np.ndarray


def read_sides(problem: PDE, space: tuple[int, ...], highest: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """The kind of series along each space axis, and the lift: polynomials that take up the values, (unknowns, d, 3).

    `highest` is the order of each unknown along each space axis, (unknowns, d).
    """
    blocks = [block for block in problem.conditions if block.kind == "boundary"]
    sides = [side for block in blocks for side in _sides_of(problem, block, space)]
    kinds = []
    for j, axis in enumerate(space):
        name, own = problem.axes[axis], [side for side in sides if side.axis == j]
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
                if sorted(side.order for side in own if (side.unknown, side.end) == (k, end)) != wanted:
                    raise Unfit(f"{unknown} must have {len(wanted)} condition(s) of one kind at each end of {name}")
        kinds.append(COSINE if parity else SINE)
    return tuple(kinds), _lift(sides, np.asarray(problem.domain.bounds, float)[list(space)], problem)


def whole_faces(problem: PDE, block: Block, space: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The faces of space, each by its axis and its end (0 or 1), that a condition covers."""
    bounds = np.asarray(problem.domain.bounds, float)
    for face in block.faces:
        axis, at = next(((problem.axes.index(name), at) for name, at in face.fixed.items()), (-1, 0.0))
        if len(face.fixed) != 1 or axis not in space or face.patches[0].keep is not None or at not in bounds[axis]:
            raise Unfit(
                f"the condition on {block.name} must hold on a whole face of space, neither inside nor at a time "
                "other than the start"
            )
        yield axis, int(at == bounds[axis, 1])


def _sides_of(problem: PDE, block: Block, space: tuple[int, ...]) -> list[Side]:
    bounds, out = np.asarray(problem.domain.bounds, float), []
    for axis, end in whole_faces(problem, block, space):
        points, normals = problem.domain.interior(PROBES, seed=3, warp=False), np.zeros((PROBES, len(bounds)))
        points[:, axis], normals[:, axis] = bounds[axis, end], 2.0 * end - 1
        given = affine_in_one(block.residual, points, problem, normals)
        if given is None or not given.even or sum(given.alpha) != given.alpha[axis]:
            raise Unfit(f"the condition on {block.name} must fix one unknown or one normal derivative")
        out.append(Side(given.unknown, space.index(axis), end, given.alpha[axis], points[:, list(space)], given.values))
    return out


class Given(NamedTuple):
    """A condition's content: a derivative of an unknown, its values, and whether its factor is the same everywhere."""

    unknown: int
    alpha: tuple[int, ...]
    place: int  # among the condition's jets
    values: np.ndarray
    even: bool


def affine_in_one(
    residual: Residual, points: np.ndarray, problem: PDE, normals: np.ndarray | None = None
) -> Given | None:
    """What a condition prescribes at points, if it is affine in one of its jets and depends on no other."""
    states = np.random.default_rng(1).uniform(0.5, 1.5, (2, len(residual.jets), len(points)))
    first, second = (residual.linearize(points, s, problem.parameter_start, normals) for s in states)
    slopes, size = first.by_jet, np.abs(first.by_jet).max()
    own = np.flatnonzero(np.abs(slopes).max(axis=1) > SAME * size)
    if len(own) != 1 or np.abs(second.by_jet - slopes).max() > SAME * size:
        return None
    place = int(own[0])
    values = states[0, place] - first.value / slopes[place]
    return Given(*residual.jets[place], place, values, bool(np.ptp(slopes[place]) <= SAME * size))


def _lift(sides: list[Side], bounds: np.ndarray, problem: PDE) -> np.ndarray:
    """The polynomials with the values of the sides, which must be constants."""
    lift = np.zeros((len(problem.unknowns), len(bounds), 3))
    alpha = lambda side: tuple(side.order * (i == side.axis) for i in range(len(bounds)))
    left = lambda side: side.values - lift_jet(lift[side.unknown], bounds, alpha(side), list(side.points.T))
    for j, (low, high) in enumerate(bounds):
        for k, name in enumerate(problem.unknowns):
            own, ends = [s for s in sides if (s.axis, s.unknown) == (j, k) and s.order < 2], np.zeros(2)
            for side in own:
                if np.ptp(left(side)) > SAME * max(1.0, np.abs(left(side)).max()):
                    raise Unfit(f"the values of {name} on the faces must not change along them or in time")
                ends[side.end] = left(side).mean()
            if own and own[0].order == 0:
                lift[k, j, :2] = ends[0], ends[1] - ends[0]
            elif own:
                lift[k, j, 1:] = (high - low) * np.array([ends[0], (ends[1] - ends[0]) / 2])
    if any(np.abs(left(side)).max() > SAME * max(1.0, np.abs(side.values).max()) for side in sides):
        raise Unfit("the values on the faces must fit together at the corners of space")
    return lift
