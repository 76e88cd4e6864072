"""More functions, then more pieces, until two answers agree.

A short ladder of sizes on one piece serves smooth problems. Where it ends without success the piece is cut where the last
coefficients are large, again and again; the error estimate is the difference to an answer with two more functions along
each axis on the same tree, or what the changes from level to level leave to come, whichever is larger.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from flm.pde.pieces.cut import num_columns
from flm.pde.pieces.newton import Answer, solve_system
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.tree import Cut, Tree
from flm.results import Ending, Record, Word

LADDER = {1: (7, 11, 15, 21, 29), 2: (7, 11, 15, 21), 3: (5, 7, 9, 11)}  # equation nodes along each axis of one piece
MORE = 2  # further nodes along each axis of a second opinion
UNRESOLVED = 0.03  # a tail above this share of the answer means that nothing has been resolved
PIVOT = 3e-14  # below this the rows do not determine the answer
ROUNDING = 1e-15
SHARED = 30.0  # how much larger than the rows' residual the error of a smooth answer may be
INCONSISTENT = 1e-2  # a share of the right-hand sides that more functions do not meet either
NEAR = 10.0  # the last coefficients over the tolerance: the next ones are likely to be within it
PATIENCE = 6  # levels in which the changes from level to level must halve
RESIDUAL = 300.0  # how much larger than the rows' residual the error at a singular point may be
LEVELS = 24


@dataclass
class Found:
    """The best answer so far and how sure it is."""

    answer: Answer | None = None
    bar: float = np.inf
    ending: Ending = field(default_factory=lambda: Ending(Word.INTERRUPTED))


def tree_nodes(tol: float, num_axes: int) -> int:
    """Equation nodes along each axis of a piece in a tree."""
    if num_axes == 3:
        return 7
    return 9 if tol >= 1e-5 else 11 if tol >= 1e-9 else 15


def memory_columns(setup: Setup) -> int:
    """How many coefficients all pieces may have, so that their rows fit in half of the free memory."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 30
    # A piece of C columns keeps about C (C + traces) numbers, traces being some 8 C^(1/2) in the plane.
    each = 250 * len(setup.orders) if len(setup.bounds) < 3 else 800 * len(setup.orders)
    return int(free / 2 / 8 / (2 * each))


class Adaptation:
    """The search for the answer on one box.

    Args:
        setup: the problem.
        tol: relative L2 error.
        max_columns: coefficients of all pieces.
        record: remembers and tells each step.
    """

    def __init__(self, setup: Setup, tol: float, max_columns: int, record: Record):
        self.setup, self.tol, self.max_columns, self.record = setup, tol, max_columns, record
        self.found = Found()
        self.num_axes = len(setup.bounds)
        self.pivot, self.contradiction = np.inf, False
        self.whole = setup.whole()

    def is_homogeneous(self) -> bool:
        """Whether zero satisfies everything."""
        system = self.setup.system(self.whole, (LADDER[self.num_axes][0],) * self.num_axes)
        zero = np.zeros((self.whole.num_leaves, system.hull.num_columns))
        return not any(piece.right.any() for piece in system.assemble(zero))

    def zero(self) -> Answer:
        """The function that vanishes."""
        functions = self.setup.functions(self.whole, (1,) * self.num_axes)
        nothing = np.zeros((self.whole.num_leaves, functions.num_columns))
        return Answer(functions, self.whole, nothing, 0.0, np.zeros(self.whole.num_leaves), 0.0, np.inf, True, 0)

    def solve(self, tree: Tree, nodes: int, start: np.ndarray | None = None) -> Answer:
        """The answer on a tree with so many equation nodes along each axis."""
        system = self.setup.system(tree, (nodes,) * self.num_axes)
        return solve_system(system, start, self.setup.is_linear)

    def ladder(self) -> bool:
        """One piece, growing; whether it met the tolerance."""
        tree, before, clash = self.whole, None, []
        tail = np.inf
        for nodes in LADDER[self.num_axes]:
            start = None
            if before is not None and before.settled and before.finite:
                functions = self.setup.functions(tree, (nodes,) * self.num_axes)
                start = functions.padded(before.coefficients, before.functions)
            if not self._fits(nodes):
                self.found.ending = Ending(Word.SIZE, f"stopped at the size limit of {self.max_columns} columns")
                return False
            answer = self.solve(tree, nodes, start)
            if not answer.finite or not answer.settled:
                before = None
                continue
            last, tail = tail, float(answer.tails().max())
            self.pivot = answer.pivot
            self._note("one piece", answer, np.nan, tail)
            if self.found.bar == np.inf:
                self.found.answer = answer
            clash.append(answer.misfit)
            if self.pivot <= PIVOT or self._contradicts(clash):
                return False
            if tail <= 10 * self.tol and self._second_opinion(answer, nodes):
                return True
            if nodes >= 15 and tail > self.tol and not self._hopeful(last, tail):
                break
            before = answer
        return False

    def _fits(self, nodes: int) -> bool:
        """Whether one piece of this size is within the size limit."""
        functions = self.setup.functions(self.whole, (nodes,) * self.num_axes)
        return num_columns(functions, self.whole) <= self.max_columns

    def _contradicts(self, misfits: list[float]) -> bool:
        """Whether more functions leave the residual as it is where there are conditions to spare."""
        spare = self.setup.surplus or self.setup.free
        self.contradiction = bool(spare and len(misfits) > 1 and misfits[-1] > max(INCONSISTENT, 0.5 * misfits[-2]))
        return self.contradiction

    def _hopeful(self, last: float, tail: float) -> bool:
        """Whether the next size of one piece is likely to meet the tolerance."""
        return tail < last < np.inf and tail * (tail / last) ** 1.5 <= self.tol

    def _second_opinion(self, answer: Answer, nodes: int, least: float = 0.0) -> bool:
        """Compare with more functions on the same tree; whether the difference is within the tolerance."""
        system = self.setup.system(answer.tree, (nodes + MORE,) * self.num_axes)
        start = system.hull.padded(answer.coefficients, answer.functions)
        other = solve_system(system, start, self.setup.is_linear)
        if not other.finite or not other.settled:
            return False
        # Rows that contradict each other leave a residual that two answers share.
        bar = max(answer.difference(other), least, SHARED * other.residual, ROUNDING)
        self._note("second opinion", other, bar, float(other.tails().max()))
        if bar < self.found.bar:
            self.found.answer, self.found.bar = other, bar
        return bar <= self.tol

    def _note(self, stage: str, answer: Answer, bar: float, tail: float) -> None:
        self.record.step(
            stage, columns=answer.num_columns, estimate=tail, error_estimate=bar, pieces=answer.tree.num_leaves
        )

    def refine(self) -> None:
        """Cut pieces until the tolerance is met or nothing helps."""
        nodes = tree_nodes(self.tol, self.num_axes)
        tree = self.whole
        probes = self.setup.probes()
        start: np.ndarray | None = None
        values, changes, left = None, [], []
        for level in range(LEVELS):
            answer = self.solve(tree, nodes, start)
            if not answer.finite or not answer.settled:
                if level > 5:
                    self.found.ending = Ending(Word.STALLED, "stalled: Newton's method does not settle on any tree")
                    return
                tree, _ = tree.split({leaf: [Cut(j) for j in range(self.num_axes)] for leaf in range(tree.num_leaves)})
                start = None
                continue
            tails = answer.tails()
            now = answer.evaluate(probes)
            if values is not None:
                size = np.sqrt(np.mean(now**2, axis=0))
                changes.append(
                    float(np.max(np.sqrt(np.mean((now - values) ** 2, axis=0)) / np.where(size > 0, size, 1.0)))
                )
                left.append(self._left(changes))
            values = now
            self._note("tree", answer, self.found.bar, float(tails.max()))
            if len(changes) > PATIENCE and min(changes[-PATIENCE:]) > 0.5 * min(changes[:-PATIENCE]):
                break
            # Rows of cut pieces are least squares: resolved answers leave about their error.
            is_cut = bool(tree.is_cut.any())
            resolved = answer.residual < (0.1 if is_cut else 1e-3) * self.tol
            near = is_cut and resolved and np.sqrt(tree.shares @ tails.max(axis=1) ** 2) <= NEAR * self.tol
            least = (
                0.0
                if resolved
                else max([g * f for g, f in zip(left[::-1], (1.0, 0.3, 0.1), strict=False)], default=np.inf)
            )
            least = least if resolved else max(least, RESIDUAL * answer.residual)
            cuts = self._marked(answer, tails, resolved)
            if (not cuts or near or (not resolved and least <= self.tol)) and tails.max() < UNRESOLVED:
                if self._second_opinion(answer, nodes, least):
                    return
                if not cuts:
                    cuts = self._worst(answer)
            tree, parents = tree.split(cuts)
            if num_columns(answer.functions, tree) > self.max_columns:
                self.found.ending = Ending(Word.SIZE, f"stopped at the size limit of {self.max_columns} columns")
                self._keep(answer, nodes)
                return
            start = answer.on(tree, parents)
        self.found.ending = Ending(Word.STALLED, "stalled: further cuts no longer improve the answer")

    def _left(self, changes: list[float]) -> float:
        """What is still to come after these changes from level to level, if they go on falling as they do."""
        if len(changes) < 2 or changes[-2] == 0:
            return changes[-1]
        ratio = min(changes[-1] / changes[-2], 0.9)
        return changes[-1] * max(ratio / (1 - ratio), 0.1)

    def _marked(self, answer: Answer, tails: np.ndarray, resolved: bool) -> dict[int, list[Cut]]:
        """Where the last coefficients ask for a cut, along which axes."""
        weight = np.sqrt(answer.tree.shares)[:, None]
        indicator = tails * weight
        limit = max(0.1 * indicator.max(), self.tol / np.sqrt(answer.tree.num_leaves))
        marked = indicator > limit
        cuts = {
            int(leaf): [Cut(int(j)) for j in np.flatnonzero(marked[leaf])]
            for leaf in np.flatnonzero(marked.any(axis=1))
        }
        if not resolved and answer.tree.num_leaves > 4:
            worst = answer.by_piece > 0.3 * answer.by_piece.max()
            for leaf in np.flatnonzero(worst):
                cuts.setdefault(int(leaf), [Cut(j) for j in range(self.num_axes)])
        return cuts

    def _worst(self, answer: Answer) -> dict[int, list[Cut]]:
        """The pieces with the largest tails, whatever the tolerance."""
        indicator = answer.tails() * np.sqrt(answer.tree.shares)[:, None]
        marked = indicator >= 0.3 * indicator.max()
        return {
            int(leaf): [Cut(int(j)) for j in np.flatnonzero(marked[leaf])]
            for leaf in np.flatnonzero(marked.any(axis=1))
        }

    def _keep(self, answer: Answer, nodes: int) -> None:
        if answer.tails().max() < UNRESOLVED:
            self._second_opinion(answer, nodes)
        if self.found.bar == np.inf:
            self.found.answer = answer
