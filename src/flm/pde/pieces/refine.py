"""Cutting pieces, level after level, where the last coefficients are large, until the answer no longer changes.

The answer of each level is compared with the one before at fixed points. While cuts help, these changes fall; what is still
to come is their sum continued. A level without singular places stops when no piece asks for a cut, one with singular places
when what is to come is within the tolerance. Either way a second opinion with more functions on the same tree decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from flm.pde.pieces.adapt import ROUNDING, UNRESOLVED, Adaptation, tree_nodes
from flm.pde.pieces.corners import SHARE, Corners
from flm.pde.pieces.cut import num_columns
from flm.pde.pieces.newton import Answer, scale
from flm.pde.pieces.tree import Cut, Tree
from flm.results import Ending, Word

LEVELS = 48
HALVINGS = 3  # of all pieces, as long as Newton's method does not settle
PATIENCE = 10  # levels in which the changes from level to level must halve
PROBES = 3000
NEAR = 10.0  # the last coefficients over the tolerance: the next ones are likely to be within it
RESIDUAL = 300.0  # how much larger than the rows' residual of cut pieces the error at a singular point may be
STEADY = 0.9  # changes that fall more slowly promise nothing


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
        """The sum of all further changes; a level may cut nothing that matters, so the two before it count too."""
        if not self.fall:
            return np.inf
        return max([g * f for g, f in zip(self.left[::-1], (1.0, 0.3, 0.1), strict=False)], default=np.inf)

    @property
    def fall(self) -> bool:
        """Whether the latest change is smaller than the one before it, by more than a tenth."""
        return len(self.found) < 2 or self.found[-1] < STEADY * self.found[-2] or self.found[-1] < ROUNDING

    @property
    def ratio(self) -> float:
        """The latest change by the one before it."""
        if len(self.found) < 2 or not 0 < self.found[-1] < self.found[-2]:
            return 0.5
        return self.found[-1] / self.found[-2]

    @property
    def stalled(self) -> bool:
        """Whether many levels did not help."""
        return len(self.found) > PATIENCE and min(self.found[-PATIENCE:]) > 0.5 * min(self.found[:-PATIENCE])


class Refinement:
    """The search over trees, beginning with the best answer so far."""

    def __init__(self, search: Adaptation):
        self.search, self.tol, self.num_axes = search, search.tol, search.num_axes
        self.nodes = tree_nodes(search.tol, search.num_axes)
        self.corners = Corners(search.setup.suspects(), search.singular)
        self.changes = Changes()
        self.probes = probes(search.whole)

    def run(self) -> None:
        """Cut pieces until the tolerance is met or nothing helps."""
        search, tree = self.search, self.search.whole
        start: np.ndarray | None = None
        values: np.ndarray | None = None
        answer: Answer | None = None
        for level in range(LEVELS):
            previous, answer = answer, search.solve(tree, self.nodes, start)
            if not answer.finite or not answer.settled:
                if level >= HALVINGS:
                    search.found.ending = Ending(Word.STALLED, "stalled: Newton's method does not settle on any tree")
                    return
                tree, _ = tree.split({leaf: [Cut(j) for j in range(self.num_axes)] for leaf in range(tree.num_leaves)})
                start, answer, values = None, None, None
                continue
            tails = answer.tails()
            now = answer.evaluate(self.probes)
            if previous is not None and values is not None:
                self.changes.add(_distance(now, values))
                if tree.shape is None or tree.shape.corners:
                    worst = previous.tails().max(axis=1)
                    self.corners.watch(previous.tree, worst, cuts, tree, tails.max(axis=1), parents)
            values = now
            search.note("tree", answer, search.found.bar, float(tails.max()))
            if self.changes.stalled:
                break
            # What rows at singular places contradict each other by is the sign of such a place.
            # Rows of cut pieces are least squares: resolved answers leave about their error.
            is_cut = bool(tree.is_cut.any())
            resolved = answer.residual < (0.1 if is_cut else 1e-3) * self.tol and not self.corners.has_points
            near = is_cut and resolved and np.sqrt(tree.shares @ tails.max(axis=1) ** 2) <= NEAR * self.tol
            cuts = self._marked(answer, tails, resolved)
            least = 0.0 if resolved else max(self.changes.to_come, RESIDUAL * answer.residual if is_cut else 0.0)
            calm = not self._others(answer, cuts) or (is_cut and not resolved)
            settled = near or (least <= self.tol and calm)
            if settled and answer.tail < UNRESOLVED:
                if search.second_opinion(answer, self.nodes, least, self.changes.to_come):
                    return
                cuts = cuts or self._worst(answer)
            if not resolved:
                cuts |= self.corners.points(tree)
            cuts = self.corners.together(tree, cuts or self._worst(answer))
            tree, parents = tree.split(cuts)
            if num_columns(answer.functions, tree) > search.max_columns:
                search.found.ending = Ending(Word.SIZE, f"stopped at the size limit of {search.max_columns} columns")
                self._keep(answer, least)
                return
            start = answer.on(tree, parents)
        search.found.ending = Ending(Word.STALLED, "stalled: further cuts no longer improve the answer")
        if answer is not None:
            self._keep(answer, self.changes.to_come)

    def _weights(self, tree: Tree) -> np.ndarray:
        """How much the last coefficients of each leaf count, (L,).

        The square root of its share is its part of the L2 norm. Next to singular places errors spread: an error e in a piece
        of width h at a place where answers behave like r^g is felt everywhere as e h^g, and each layer of cuts gains
        0.15^(2g), which is what the changes tell g by.
        """
        if not self.corners.has_points:
            return np.sqrt(tree.shares)
        g = np.log(self.changes.ratio) / (2 * np.log(SHARE))
        return tree.shares ** (0.5 * min(g, 1.0))

    def _marked(self, answer: Answer, tails: np.ndarray, resolved: bool) -> dict[int, list[Cut]]:
        """Where the last coefficients ask for a cut, along which axes."""
        indicator = tails * self._weights(answer.tree)[:, None]
        limit = max(0.1 * indicator.max(), self.tol / np.sqrt(answer.tree.num_leaves))
        cuts = self._cuts(answer.tree, indicator > limit)
        if not resolved and not self.corners.has_points and answer.tree.num_leaves > 4:
            for leaf in np.flatnonzero(answer.by_piece > 0.3 * answer.by_piece.max()):
                cuts.setdefault(int(leaf), self.corners.toward(answer.tree, int(leaf), range(self.num_axes)))
        return {leaf: there for leaf, there in cuts.items() if there}

    def _others(self, answer: Answer, cuts: Mapping[int, list[Cut]]) -> bool:
        """Whether pieces away from singular points ask for cuts."""
        return bool(set(cuts) - set(self.corners.points(answer.tree)))

    def _worst(self, answer: Answer) -> dict[int, list[Cut]]:
        """The pieces with the largest tails, whatever the tolerance."""
        indicator = answer.tails() * np.sqrt(answer.tree.shares)[:, None]
        return self._cuts(answer.tree, indicator >= 0.3 * indicator.max())

    def _cuts(self, tree: Tree, marked: np.ndarray) -> dict[int, list[Cut]]:
        leaves = map(int, np.flatnonzero(marked.any(axis=1)))
        return {leaf: self.corners.toward(tree, leaf, map(int, np.flatnonzero(marked[leaf]))) for leaf in leaves}

    def _keep(self, answer: Answer, least: float) -> None:
        """The last tree's answer, with an estimate if it has one; where nothing has one the status says why."""
        search, why = self.search, ""
        if answer.tail >= UNRESOLVED:
            why = f"the last coefficients of a piece are still {answer.tail:.1%} of the answer"
        elif least == np.inf:
            why = "the changes from one level of cuts to the next do not fall"
        else:
            search.second_opinion(answer, self.nodes, least, self.changes.to_come)
        if search.found.bar == np.inf:
            ending = search.found.ending
            search.found.answer = answer
            search.found.ending = replace(ending, clause=f"{ending.clause}; not resolved: {why}") if why else ending


def probes(tree: Tree, count: int = PROBES) -> np.ndarray:
    """Fixed random points, evenly spread over the pieces, (P, m)."""
    rng, found = np.random.default_rng(5), np.zeros((0, tree.num_axes))
    while len(found) < count:
        leaf = rng.choice(tree.num_leaves, count, p=tree.shares / tree.shares.sum())
        points = tree.lower[leaf] + rng.uniform(size=(count, tree.num_axes)) * tree.widths[leaf]
        found = np.concatenate([found, points if tree.shape is None else points[tree.shape.inside(points)]])
    return found[:count]


def _distance(now: np.ndarray, before: np.ndarray) -> float:
    """The relative root mean square difference of two answers at the same points, worst unknown."""
    size = scale(np.sqrt(np.mean(now**2, axis=0)))
    return float(np.max(np.sqrt(np.mean((now - before) ** 2, axis=0)) / size))
