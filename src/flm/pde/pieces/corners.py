"""Points and edges at which the answer is singular: found by what cuts leave behind, and approached geometrically.

When a piece is cut at its middle and the answer is smooth, the last coefficients of all its parts become small. Where a
derivative is not bounded they stay as they are in the one part that touches the singular place, r^g being the same function
at every scale, and vanish in its siblings. A place at which this happened twice in a row is approached by cuts at 0.15 of
the pieces' widths: pieces then shrink like 0.15^k and each resolves r^g, whose singularity is as far away as they are wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from flm.pde.pieces.tree import Cut, Tree

SHARE = 0.15  # of a piece's width, next to the singular place; 0.1 to 0.2 cost the same
INHERITED = 0.2  # of the last coefficients, in the part at the place: r^g keeps 2^-g of them
VANISHED = 0.3  # of that part's, in its siblings
RESOLVED = 0.03  # of the last coefficients after a cut at 0.15, which leaves 0.15^g of a singular function
TIMES = 2  # in a row
NARROW = 1e3  # spacings of floating-point numbers: the narrowest piece whose points can be told apart

Spot = tuple[tuple[int, float], ...]  # coordinates by axis; a point has one for every axis


class Corners:
    """The singular places of a tree.

    Args:
        suspects: points where coefficients, conditions or sides meet, (S, m): one level that shows it is enough there.
        singular: points that are known to be singular.
    """

    def __init__(self, suspects: Iterable[np.ndarray] = (), singular: Iterable[np.ndarray] = ()):
        self._exact: dict[Spot, dict[int, float]] = {}
        self._counts: dict[Spot, int] = {self._spot(dict(enumerate(point))): TIMES - 1 for point in suspects}
        self.active: set[Spot] = {self._spot(dict(enumerate(point))) for point in singular}
        self._counts |= dict.fromkeys(self.active, TIMES)

    def _spot(self, ends: dict[int, float]) -> Spot:
        """The name of a place: its coordinates rounded, so that the ends of all pieces there are one place."""
        spot = tuple(sorted((int(axis), float(f"{value:.12g}")) for axis, value in ends.items()))
        self._exact.setdefault(spot, {int(axis): float(value) for axis, value in ends.items()})
        return spot

    def watch(
        self,
        before: Tree,
        tails: np.ndarray,
        cut: Mapping[int, list[Cut]],
        after: Tree,
        now: np.ndarray,
        parents: np.ndarray,
    ) -> None:
        """Learn from one level of cuts.

        Args:
            before: the tree that was cut.
            tails: its leaves' last coefficients, worst axis, (L,).
            cut: which leaves were, and how.
            after: the new tree.
            now: its leaves' last coefficients, (L',).
            parents: the old leaf of each new one, (L',).
        """
        seen: dict[Spot, bool] = {}
        for leaf, cuts in cut.items():
            children = np.flatnonzero(parents == leaf)
            best = children[np.argmax(now[children])]
            ends = _shared(before, leaf, after, int(best), {c.axis for c in cuts})
            if ends is not None:
                spot = self._spot(ends)
                rest = now[children[children != best]].max(initial=0.0)
                stays = now[best] > INHERITED * tails[leaf] and rest <= VANISHED * now[best]
                seen[spot] = seen.get(spot, False) or stays
                if spot in self.active and now[children].max() > RESOLVED * tails[leaf]:
                    seen[spot] = True
        for spot, stays in seen.items():
            self._counts[spot] = self._counts.get(spot, 0) + 1 if stays else 0
            (self.active.add if self._counts[spot] >= TIMES else self.active.discard)(spot)

    @property
    def has_points(self) -> bool:
        """Whether the answer is singular at a point."""
        return bool(self._points)

    @property
    def _points(self) -> list[Spot]:
        most = max(map(len, self._counts), default=0)
        return [spot for spot in self.active if len(spot) == most]

    def together(self, tree: Tree, cuts: dict[int, list[Cut]]) -> dict[int, list[Cut]]:
        """The same cuts, and all leaves around a suspect if one of them is cut: errors do not cancel otherwise."""
        out = dict(cuts)
        for spot in self._counts:
            if len(spot) == tree.num_axes:
                around = [int(leaf) for leaf in self._touching(tree, spot)]
                if len(around) > 1 and any(len(cuts.get(leaf, ())) == tree.num_axes for leaf in around):
                    out |= {leaf: self.toward(tree, leaf, range(tree.num_axes)) for leaf in around}
        return out

    def points(self, tree: Tree) -> dict[int, list[Cut]]:
        """Cuts of all leaves at singular points, towards these."""
        cuts = {}
        for spot in self._points:
            for leaf in self._touching(tree, spot):
                cuts[int(leaf)] = self.toward(tree, int(leaf), range(tree.num_axes))
        return {leaf: towards for leaf, towards in cuts.items() if towards}

    def toward(self, tree: Tree, leaf: int, axes: Iterable[int]) -> list[Cut]:
        """Cuts of a leaf along some axes: towards a singular place that it touches, in the middle otherwise."""
        share = dict.fromkeys(axes, 0.5)
        for spot in self.active:
            if leaf in self._touching(tree, spot):
                for axis, value in self._exact[spot].items():
                    low = abs(tree.low[leaf, axis] - value) < abs(tree.high[leaf, axis] - value)
                    share[axis] = SHARE if low else 1 - SHARE
        return [
            Cut(axis, part) for axis, part in share.items() if SHARE * tree.spans[leaf, axis] > narrow(tree, leaf, axis)
        ]

    def _touching(self, tree: Tree, spot: Spot) -> np.ndarray:
        """The leaves with a corner or side at a place."""
        touch = np.ones(tree.num_leaves, bool)
        for axis, value in self._exact[spot].items():
            close = np.maximum(1e-9 * tree.spans[:, axis], 8 * np.spacing(abs(value)))
            touch &= (np.abs(tree.low[:, axis] - value) <= close) | (np.abs(tree.high[:, axis] - value) <= close)
        return np.flatnonzero(touch)


def _shared(before: Tree, leaf: int, after: Tree, child: int, axes: set[int]) -> dict[int, float] | None:
    """The corner or side that a leaf and its part have in common; None where the part lies inside."""
    ends = {}
    for axis in axes:
        close = 1e-9 * after.spans[child, axis]
        for old, new in ((before.low, after.low), (before.high, after.high)):
            if abs(new[child, axis] - old[leaf, axis]) <= close:
                ends[axis] = old[leaf, axis]
    return ends if len(ends) == len(axes) else None


def narrow(tree: Tree, leaf: int, axis: int) -> float:
    """The least width of a piece along an axis."""
    return NARROW * float(np.spacing(np.maximum(abs(tree.low[leaf, axis]), abs(tree.high[leaf, axis]))))
