"""Where one condition gives way to another along a side of a plane box: `where=` of a condition, found by bisection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flm.pde.pieces.places import Place
from flm.pde.pieces.tree import Cut, Tree

LOOKS = 1025  # points along a side that are asked first: shorter stretches are not seen
HALVINGS = 50

Break = tuple[int, np.ndarray]  # the axis along which a condition ends, and the point, (2,)


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
