"""Cutting pieces, level after level, where the last coefficients are large, until the answer no longer changes.

The answer of each level is compared with the one before at fixed points. While cuts help, these changes fall; the changes still
to come are estimated by continuing their sum. Without singular places a level is the last when no piece needs a cut; with such
places, when the changes to come are within the tolerance. Either way a second opinion with more functions on the same tree decides.

Singular points and edges are found from what cuts leave behind. When a piece is cut at its middle and the answer is smooth, the
last coefficients of all its parts become small. Where a derivative is unbounded they stay the same in the one part that
touches the singular place, r^g being the same function at every scale, and vanish in its siblings. A place at which this
happened twice in a row is approached by cuts at 0.15 of the pieces' widths: pieces then shrink like 0.15^k and each
resolves r^g, whose singularity is as far away as they are wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from flm.pde.pieces.adapt import ROUNDING, UNRESOLVED, Adaptation, probes, tree_nodes
from flm.pde.pieces.cut import num_columns
from flm.pde.pieces.newton import Answer, distance
from flm.pde.pieces.tree import Cut, Tree
from flm.pde.pieces.unseen import cut_around
from flm.results import Ending, Word

LEVELS = 48
HALVINGS = 3  # of all pieces, as long as Newton's method does not settle
PATIENCE = 10  # levels in which the changes from level to level must halve
NEAR = 10.0  # the last coefficients over the tolerance: the next ones are likely to be within it
RESIDUAL = 300.0  # how much larger than the rows' residual of cut pieces the error at a singular point may be
STEADY = 0.9  # changes that fall more slowly promise no convergence
SHARE = 0.15  # of a piece's width, next to the singular place; 0.1 to 0.2 cost the same
INHERITED = 0.2  # of the last coefficients, in the part at the place: r^g keeps 2^-g of them
VANISHED = 0.3  # of that part's, in its siblings
RESOLVED = 0.03  # of the last coefficients after a cut at 0.15, which leaves 0.15^g of a singular function
TIMES = 2  # in a row
NARROW = 1e3  # spacings of floating-point numbers: the narrowest piece whose points can be told apart
SEEN = 1e-8  # of a region's size: the narrowest piece in which its boundary is followed

Spot = tuple[tuple[int, float], ...]  # coordinates by axis; a point has one for every axis


@dataclass
class Changes:
    """How much the answer changed from level to level, and what is still to come."""

    found: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)

    def add(self, change: float) -> None:
        """One more level."""
        self.found.append(change)
        ratio = min(change / self.found[-2], STEADY) if len(self.found) > 1 and self.found[-2] > 0 else 0.5
        self.left.append(change * max(ratio / (1 - ratio), 0.1))

    @property
    def to_come(self) -> float:
        """The estimated sum of all further changes; a level may cut nothing that matters, so the two before it count too.

        A single change has no rate: at a corner errors may rise before they fall.
        """
        if len(self.found) < 2 or not self.fall:
            return np.inf
        return max([g * f for g, f in zip(self.left[::-1], (1.0, 0.3, 0.1), strict=False)], default=np.inf)

    @property
    def fall(self) -> bool:
        """Whether the latest change is smaller than the one before it, by more than a tenth."""
        return len(self.found) < 2 or self.found[-1] < STEADY * self.found[-2] or self.found[-1] < ROUNDING

    @property
    def ratio(self) -> float:
        """The latest change over the one before it."""
        if len(self.found) < 2 or not 0 < self.found[-1] < self.found[-2]:
            return 0.5
        return self.found[-1] / self.found[-2]

    @property
    def stalled(self) -> bool:
        """Whether many levels brought no improvement."""
        return len(self.found) > PATIENCE and min(self.found[-PATIENCE:]) > 0.5 * min(self.found[:-PATIENCE])


class Corners:
    """The singular places of a tree.

    At `suspects`, points where coefficients, conditions or sides meet, one level that shows singularity is enough; `singular`
    points are known to be so. Both are points, (m,) each.
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
        """Learn from one level of cuts: the last coefficients of each leaf before, (L,), and now, (L',)."""
        seen: dict[Spot, bool] = {}
        for leaf, cuts in cut.items():
            children = np.flatnonzero(parents == leaf)
            best = children[np.argmax(now[children])]
            ends = _common(before, leaf, after, int(best), {c.axis for c in cuts})
            if ends is not None:
                spot, rest = self._spot(ends), now[children[children != best]].max(initial=0.0)
                stays = now[best] > INHERITED * tails[leaf] and rest <= VANISHED * now[best]
                remains = spot in self.active and now[best] > RESOLVED * tails[leaf]
                seen[spot] = seen.get(spot, False) or stays or remains
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
        """The cuts, extended to all leaves around a suspect if one of them is cut: errors do not cancel otherwise."""
        out = dict(cuts)
        for spot in (spot for spot in self._counts if len(spot) == tree.num_axes):
            around = self._touching(tree, spot)
            if len(around) > 1 and any(len(cuts.get(leaf, ())) == tree.num_axes for leaf in around):
                out |= {leaf: self.toward(tree, leaf, range(tree.num_axes)) for leaf in around}
        return out

    def points(self, tree: Tree) -> dict[int, list[Cut]]:
        """Cuts of all leaves at singular points, towards these."""
        leaves = [leaf for spot in self._points for leaf in self._touching(tree, spot)]
        cuts = {leaf: self.toward(tree, leaf, range(tree.num_axes)) for leaf in leaves}
        return {leaf: towards for leaf, towards in cuts.items() if towards}

    def toward(self, tree: Tree, leaf: int, axes: Iterable[int]) -> list[Cut]:
        """Cuts of a leaf along some axes: towards a singular place that it touches, in the middle otherwise."""
        share, low, high = dict.fromkeys(axes, 0.5), tree.low[leaf], tree.high[leaf]
        for spot in self.active:
            if leaf in self._touching(tree, spot):
                for axis, value in self._exact[spot].items():
                    share[axis] = SHARE if abs(low[axis] - value) < abs(high[axis] - value) else 1 - SHARE
        least = NARROW * np.spacing(np.maximum(abs(low), abs(high)))
        least = least if tree.shape is None else np.maximum(least, SEEN * tree.shape.size)
        return [Cut(axis, part) for axis, part in share.items() if SHARE * tree.spans[leaf, axis] > least[axis]]

    def _touching(self, tree: Tree, spot: Spot) -> list[int]:
        """The leaves with a corner or side at a place."""
        touch = np.ones(tree.num_leaves, bool)
        for axis, value in self._exact[spot].items():
            close = np.maximum(1e-9 * tree.spans[:, axis], 8 * np.spacing(abs(value)))
            touch &= (np.abs(tree.low[:, axis] - value) <= close) | (np.abs(tree.high[:, axis] - value) <= close)
        return np.flatnonzero(touch).tolist()


def _common(before: Tree, leaf: int, after: Tree, child: int, axes: set[int]) -> dict[int, float] | None:
    """The corner or side that a leaf and its part have in common; None where the part lies inside."""
    ends = {}
    for axis in axes:
        for old, new in ((before.low, after.low), (before.high, after.high)):
            if abs(new[child, axis] - old[leaf, axis]) <= 1e-9 * after.spans[child, axis]:
                ends[axis] = old[leaf, axis]
    return ends if len(ends) == len(axes) else None


class Refinement:
    """The search over trees, beginning with the best answer so far."""

    def __init__(self, search: Adaptation):
        self.search, self.tol, self.num_axes = search, search.tol, search.num_axes
        self.nodes = tree_nodes(search.tol, search.num_axes)
        self.corners = Corners(search.setup.suspects(), search.singular)
        self.changes = Changes()
        self.probes = probes(search.whole)

    def run(self) -> None:
        """Cut pieces until the tolerance is met or cuts no longer help."""
        search, tree = self.search, self.search.whole
        tree, _ = cut_around(tree, *search.holes)
        tree, _ = cut_around(tree, search.unseen)
        start, values, answer = None, None, None
        for level in range(LEVELS):
            previous, answer = answer, search.solve(tree, self.nodes, start)
            if not answer.finite or not answer.settled:
                if level >= HALVINGS:
                    search.ending = Ending(Word.STALLED, "stalled: Newton's method does not settle on any tree")
                    return
                tree, _ = tree.split({leaf: [Cut(j) for j in range(self.num_axes)] for leaf in range(tree.num_leaves)})
                start, answer, values = None, None, None
                continue
            tails, now = answer.tails(), answer.evaluate(self.probes)
            if previous is not None and values is not None:
                self.changes.add(distance(values, now))
                if tree.shape is None or tree.shape.corners:
                    worst = previous.tails().max(axis=1)
                    self.corners.watch(previous.tree, worst, cuts, tree, tails.max(axis=1), parents)
            values = now
            search.note("tree", answer, search.bar, float(tails.max()))
            if self.changes.stalled:
                break
            # Rows that contradict each other at a place are the sign that it is singular.
            # Rows of cut pieces are least squares: resolved answers leave about their error.
            is_cut = bool(tree.is_cut.any())
            resolved = answer.residual < (0.1 if is_cut else 1e-3) * self.tol and not self.corners.has_points
            near = is_cut and resolved and np.sqrt(tree.shares @ tails.max(axis=1) ** 2) <= NEAR * self.tol
            cuts = self._marked(answer, tails, resolved)
            least = 0.0 if resolved else max(self.changes.to_come, RESIDUAL * answer.residual if is_cut else 0.0)
            elsewhere = set(cuts) - set(self.corners.points(tree))  # pieces away from singular points that ask for cuts
            settled = near or (least <= self.tol and (not elsewhere or (is_cut and not resolved)))
            if settled and answer.tail < UNRESOLVED:
                if search.second_opinion(answer, self.nodes, least, self.changes.to_come):
                    return
                cuts = cuts or self._worst(answer)
            if not resolved:
                cuts |= self.corners.points(tree)
            cuts = self.corners.together(tree, cuts or self._worst(answer))
            if len(search.unseen):  # what changed before says nothing of what was not seen
                cuts, self.changes = {}, Changes()
                tree, parents = cut_around(tree, search.unseen)
                search.unseen = search.unseen[:0]
            else:
                tree, parents = tree.split(cuts)
            if num_columns(answer.functions, tree) > search.max_columns:
                search.stop_at_size()
                self._keep(answer, least)
                return
            start = answer.on(tree, parents)
        search.ending = Ending(Word.STALLED, "stalled: further cuts no longer improve the answer")
        if answer is not None:
            self._keep(answer, self.changes.to_come)

    def _weights(self, tree: Tree) -> np.ndarray:
        """How much the last coefficients of each leaf count, (L,).

        The square root of its share is its part of the L2 norm. Next to singular places errors spread: an error e in a piece
        of width h at a place where answers behave like r^g is felt everywhere as e h^g, and each layer of cuts gains
        0.15^(2g), so that g is found from the changes.
        """
        if not self.corners.has_points:
            return np.sqrt(tree.shares)
        g = np.log(self.changes.ratio) / (2 * np.log(SHARE))
        return tree.shares ** (0.5 * min(g, 1.0))

    def _marked(self, answer: Answer, tails: np.ndarray, resolved: bool) -> dict[int, list[Cut]]:
        """The cuts, with their axes, that the last coefficients call for."""
        indicator = tails * self._weights(answer.tree)[:, None]
        limit = max(0.1 * indicator.max(), self.tol / np.sqrt(answer.tree.num_leaves))
        cuts = self._cuts(answer.tree, indicator > limit)
        if not resolved and not self.corners.has_points and answer.tree.num_leaves > 4:
            for leaf in np.flatnonzero(answer.by_piece > 0.3 * answer.by_piece.max()):
                cuts.setdefault(int(leaf), self.corners.toward(answer.tree, int(leaf), range(self.num_axes)))
        return {leaf: there for leaf, there in cuts.items() if there}

    def _worst(self, answer: Answer) -> dict[int, list[Cut]]:
        """The pieces with the largest tails, whatever the tolerance."""
        indicator = answer.tails() * np.sqrt(answer.tree.shares)[:, None]
        return self._cuts(answer.tree, indicator >= 0.3 * indicator.max())

    def _cuts(self, tree: Tree, marked: np.ndarray) -> dict[int, list[Cut]]:
        leaves = map(int, np.flatnonzero(marked.any(axis=1)))
        return {leaf: self.corners.toward(tree, leaf, map(int, np.flatnonzero(marked[leaf]))) for leaf in leaves}

    def _keep(self, answer: Answer, least: float) -> None:
        """Keep the last tree's answer, with an estimate if it has one; if none has one the status says why."""
        search, why = self.search, ""
        if answer.tail >= UNRESOLVED:
            why = f"the last coefficients of a piece are still {answer.tail:.1%} of the answer"
        elif least == np.inf:
            why = "the changes from one level of cuts to the next do not fall"
        else:
            search.second_opinion(answer, self.nodes, least, self.changes.to_come)
        if search.bar == np.inf:
            ending = search.ending
            search.answer = answer
            search.ending = replace(ending, clause=f"{ending.clause}; not resolved: {why}") if why else ending
