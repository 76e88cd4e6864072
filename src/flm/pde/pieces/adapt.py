"""More functions, then more pieces, until two answers agree.

A short ladder of sizes on one piece serves smooth problems. Where it ends without success the piece is cut where the last
coefficients are large, again and again; the error estimate is the difference to an answer with two more functions along
each axis on the same tree, or the sum of the changes still expected from level to level, whichever is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from flm.numerics.least_squares import free_memory
from flm.pde.pieces.cut import num_columns
from flm.pde.pieces.elimination import Front, PieceRows, eliminate
from flm.pde.pieces.functions import Functions
from flm.pde.pieces.newton import Answer, damp_system, relative, scale, solve_system
from flm.pde.pieces.places import Sample
from flm.pde.pieces.rows import System
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.tree import Tree
from flm.pde.pieces.unseen import holes, overlooked
from flm.results import Ending, LearnedFunction, Parameter, Record, Word

LADDER = {1: (7, 11, 15, 21, 29), 2: (7, 11, 15, 21), 3: (5, 7, 9, 11)}  # equation nodes along each axis of one piece
MORE = 2  # further nodes along each axis of a second opinion
UNRESOLVED = 0.03  # a tail above this share of the answer means that nothing has been resolved
PIVOT = 3e-14  # below this the rows do not determine the answer
ROUNDING = 1e-15
SHAKEN = 2.0  # times what rounding of the rows changes in the answer: one draw of random signs
NOISE = 1e-10  # last coefficients below this may be rounding
SLOW = 0.3  # of the last coefficients after two more functions along each axis: r^g keeps more for all g < 2
SHARED = 30.0  # how much larger than the rows' residual the error of a smooth answer may be
RESOLVED = 100.0  # times the last coefficients: a misfit that they cannot explain
INCONSISTENT = 1e-2  # a share of the right-hand sides that even more functions do not meet
PROBES = 3000  # points at which answers are compared
# The search for other solutions:
SHARES = np.geomspace(0.05, 1000, 32)  # of the answer's size, along the line
LOOKS = 48  # points at which F is evaluated along the line, about
TRIES = 3  # starts along the line
APART = 1e-3  # relative distance from which two answers are two solutions
SAME = 0.1  # of that distance: how near the same solution is found again at the next size


@dataclass
class Pieces:
    """Answers on boxes that tile the domain, and their error estimate; parameters that were found from readings."""

    answers: list[Answer]
    bar: float
    ending: Ending
    until: float | None = None  # where a march stopped
    parameters: dict[str, Parameter | LearnedFunction] = field(default_factory=dict)


def tree_nodes(tol: float, num_axes: int) -> int:
    """Equation nodes along each axis of a piece in a tree."""
    if num_axes == 3:
        return 7
    return 9 if tol >= 1e-5 else 11 if tol >= 1e-9 else 15


def memory_columns(setup: Setup, tol: float) -> int:
    """How many coefficients all pieces may have, so that their rows, reflectors and fronts fit in half of the free memory.

    A piece of C columns and T traces keeps its rows and their reflectors, about (C + T)² numbers each. Merging L pieces keeps
    about log L triangles of T traces for each in the plane and L^(1/3) in space, some 16 of them where memory ends.
    """
    m = len(setup.bounds)
    functions = Functions((tree_nodes(tol, m),) * m, setup.orders, setup.ties)
    columns = functions.num_columns
    traces = sum(
        2 * int(np.prod([n for a, n in enumerate(functions.shapes[trace.unknown]) if a != j]))
        for j, ties in enumerate(functions.ties)
        for trace in ties.traces
    )
    return columns * max(1, int(free_memory() / 2 / (8 * (2 * (columns + traces) ** 2 + 16 * traces**2))))


class Adaptation:
    """The search on one box for an answer with relative L2 error `tol` and at most `max_columns` coefficients in all pieces."""

    def __init__(self, setup: Setup, tol: float, max_columns: int, record: Record):
        self.setup, self.tol, self.max_columns, self.record = setup, tol, max_columns, record
        self.answer: Answer | None = None  # the best so far, its error estimate, and how the search ended
        self.bar, self.ending = np.inf, Ending(Word.STALLED)
        self.num_axes = len(setup.bounds)
        self.pivot, self.contradiction = np.inf, False
        self.unseen = np.zeros((0, self.num_axes))  # points at which the last answer missed a narrow source or data
        self.known: dict[bytes, Front] = {}  # fronts of pieces that the next tree may have too
        self.whole = setup.start(setup.bounds)
        self.singular, self.holes = setup.singular_points(), holes(self.whole)
        self.rough = bool(self.singular or len(self.holes[0]))  # one piece will not do

    def system(self, tree: Tree, nodes: int) -> System:
        """The rows on a tree with `nodes` equation nodes along each axis."""
        return self.setup.system(tree, (nodes,) * self.num_axes)

    def is_homogeneous(self) -> bool:
        """Whether zero satisfies all equations and conditions."""
        system = self.system(self.whole, LADDER[self.num_axes][0])
        seen = any(piece.right.any() for piece in system.assemble(system.zero))
        return not seen and not len(overlooked(self.setup, self.zero(), 0.0))

    def zero(self) -> Answer:
        """The answer that is zero."""
        whole = Tree.whole(self.setup.bounds, self.setup.periodic, self.setup.shape)
        functions = self.setup.functions(whole, (1,) * self.num_axes)
        return Answer(functions, whole, np.zeros((whole.num_leaves, functions.num_columns)))

    def solve(self, tree: Tree, nodes: int, start: np.ndarray | None = None, helped: bool = True) -> Answer:
        """The answer on a tree with `nodes` equation nodes along each axis; with damped steps from zero if others do not settle."""
        system = self.system(tree, nodes)
        answer = solve_system(system, start, self.setup.is_linear, known=self.known)
        return answer if answer.settled or not helped else damp_system(system, system.zero)

    def ladder(self, marches: bool = False) -> bool:
        """Solve on one piece with more and more functions, less far if slabs can follow; return whether the tolerance was met."""
        enough = 7 if marches and self.num_axes == 3 else 15  # nodes from which on the tail must promise success
        before, misfits, unmet = None, [], []
        tail, lowest, lost = np.inf, np.inf, 0
        for nodes in LADDER[self.num_axes]:
            functions = self.setup.functions(self.whole, (nodes,) * self.num_axes)
            if num_columns(functions, self.whole) > self.max_columns:
                self.stop_at_size()
                return False
            start = None if before is None else functions.fitted(before.coefficients, before.functions)
            answer = self.solve(self.whole, nodes, start, helped=not marches)
            if not answer.finite or not answer.settled:
                before, lost = None, lost + 1
                if lost == 2:  # more functions do not help, but smaller pieces or slabs do
                    break
                continue
            last, tail = tail, float(answer.tails().max())
            lowest = min(lowest, tail)
            before, self.pivot = answer, answer.pivot
            self.note("one piece", answer, np.nan, tail)
            if self.bar == np.inf:
                self.answer = answer
            misfits.append(answer.misfit)
            if self.setup.surplus and tail < INCONSISTENT:
                unmet.append(self.system(self.whole, nodes).unmet(answer.coefficients))
            self.contradiction = self._contradicts(misfits, unmet, tail)
            if self.pivot <= PIVOT or self.contradiction:
                return False
            if tail <= 10 * self.tol and not self.rough and self.second_opinion(answer, nodes, lowest=lowest):
                return True
            if self.contradiction or len(self.unseen):
                return False
            promising = tail < last < np.inf and tail * (tail / last) ** 1.5 <= self.tol
            if (tail > self.tol and nodes >= enough and not promising) or (nodes >= 11 and self.rough):
                break
        return False

    def stop_at_size(self) -> None:
        """Record that there is no room for more."""
        self.ending = Ending(Word.SIZE, f"stopped at the size limit of {self.max_columns} columns")

    def _contradicts(self, misfits: list[float], unmet: list[float], tail: float) -> bool:
        """Whether more functions do not lower the residual, where there are more conditions than the equations take.

        A small contradiction shows once the answer is resolved far beyond it, or when what equations and conditions leave, in
        their own scale, rises twice from size to size.
        """
        spare = self.setup.surplus or self.setup.free
        stays = len(misfits) > 1 and misfits[-1] > 0.5 * misfits[-2]
        large = misfits[-1] > INCONSISTENT or misfits[-1] > max(RESOLVED * tail, NOISE)
        rises = len(unmet) > 2 and unmet[-1] > unmet[-2] > unmet[-3] > NOISE
        return bool((spare and stays and large) or rises)

    def second_opinion(
        self, answer: Answer, nodes: int, least: float = 0.0, doubt: float = np.inf, lowest: float = np.inf
    ) -> bool:
        """Compare with more functions on the same tree; return whether the difference is within the tolerance.

        `least` is the sum of changes still expected at singular places, zero for resolved answers; `doubt` is
        the same for answers that seem resolved but whose coefficients fall slowly, compared with the `lowest` of fewer functions:
        at a corner they may rise.
        """
        system = self.system(answer.tree, nodes + MORE)
        start = system.hull.fitted(answer.coefficients, answer.functions)
        other = solve_system(system, start, self.setup.is_linear)
        if not other.finite or not other.settled or other.tail >= UNRESOLVED:
            return False
        if self.setup.surplus:  # a contradiction stays, however many functions there are
            before = self.system(answer.tree, nodes).unmet(answer.coefficients)
            unmet = system.unmet(other.coefficients)
            self.contradiction = unmet > max(before, NOISE)
            if unmet > max(0.5 * before, NOISE):
                return False
        difference = float(np.max(relative(answer.gap(other).sizes, other.sizes)))
        bar = max(difference, least, ROUNDING, SHAKEN * other.rounding)
        last, now = answer.tails().max(), other.tails().max()
        if least == 0:
            # Rows that contradict each other leave a residual that two answers share; and coefficients that fall more
            # slowly than those of smooth functions leave more to come than the next two of them.
            slow = now > SLOW * min(last, lowest) and now > NOISE
            bar = max(bar, SHARED * other.residual, doubt if slow else 0.0)
        self.unseen = overlooked(self.setup, other, self.tol) if bar <= self.tol else self.unseen[:0]
        bar = np.inf if len(self.unseen) or bar > max(UNRESOLVED, self.tol) else bar
        self.note("second opinion", other, bar, float(now))
        if bar < self.bar:
            self.answer, self.bar = other, bar
        return bar <= self.tol

    def note(self, stage: str, answer: Answer, bar: float, tail: float) -> None:
        """Record a step."""
        self.record.step(
            stage, columns=answer.num_columns, estimate=tail, error_estimate=bar, pieces=answer.tree.num_leaves
        )


def probes(tree: Tree, count: int = PROBES) -> np.ndarray:
    """Fixed random points, evenly spread over the pieces, (P, m)."""
    rng, found = np.random.default_rng(5), np.zeros((0, tree.num_axes))
    while len(found) < count:
        leaf = rng.choice(tree.num_leaves, count, p=tree.shares / tree.shares.sum())
        points = tree.lower[leaf] + rng.uniform(size=(count, tree.num_axes)) * tree.widths[leaf]
        found = np.concatenate([found, points if tree.shape is None else points[tree.shape.inside(points)]])
    return found[:count]


def distance_to_another(search: Adaptation) -> float | None:
    """How far another solution is from the answer, relative to the answer's size, worst unknown; None where none is found.

    Let u be the answer, J the slopes of the residual F there, and w the response to a constant load, J w = 1. On the line
    u + s w the mean of F has the sign of s near s = 0, and wherever it changes sign another solution may be near: Newton's
    method starts there, and at zero where it needed help before. A function found at two sizes, away from the answer, is
    another solution; solutions that a single piece does not resolve are not seen.
    """
    answer, (first, *finer) = search.answer, LADDER[search.num_axes][-3:]
    assert answer is not None
    points = probes(search.whole, 400)
    here = answer.evaluate(points)
    sizes = scale(np.sqrt(np.mean(here**2, axis=0)))
    apart = lambda a, b: float(np.max(np.sqrt(np.mean((a - b) ** 2, axis=0)) / sizes))
    system = search.system(search.whole, first)
    for start in _starts(system, answer):
        twin = damp_system(system, start)
        for nodes in finer:
            values = twin.evaluate(points)
            away = apart(values, here)
            if not (twin.settled and twin.finite) or away < max(APART, 10 * search.bar):
                break
            next_system = search.system(search.whole, nodes)
            twin = solve_system(next_system, next_system.hull.fitted(twin.coefficients, twin.functions), False)
            if twin.settled and twin.finite and apart(twin.evaluate(points), values) < SAME * away:
                return away
    return None


def _starts(system: System, answer: Answer) -> Iterator[np.ndarray]:
    """Starts from which Newton's method may find another solution, (L, C) each."""
    if answer.tree is system.tree:
        here = system.hull.fitted(answer.coefficients, answer.functions)
    else:
        yield system.zero
        plain = solve_system(system, None, False)
        here = plain.coefficients if plain.settled else system.zero
    rows, size = system.assemble(here), float(np.sum(Answer(system.hull, system.tree, here).sizes)) or 1.0
    for sample in system.samples[: len(system.equations)]:
        along = system.gathered(eliminate(_loaded(system, rows, sample), system.sizes, system.order))
        length = float(np.sum(Answer(system.hull, system.tree, along).sizes))
        if not 0 < length < np.inf:
            continue
        steps = SHARES * size / length
        for way in (steps, -steps):
            rises = _means(system, sample, here, along, way) * np.sign(way)
            turns = np.flatnonzero((rises[1:] < 0) != (rises[:-1] < 0))
            yield from (here + (way[i] + way[i + 1]) / 2 * along for i in turns[:TRIES])


def _loaded(system: System, rows: Sequence[PieceRows], sample: Sample) -> list[PieceRows]:
    """The rows with right-hand side one for one equation, and zero for all others."""
    index, loads = system.samples.index(sample), [np.zeros(len(piece.right)) for piece in rows]
    for spot in sample.spots:  # a piece begins with its equations, all at the same points
        count = len(spot.points)
        loads[spot.leaf][index * count : (index + 1) * count] = 1.0
    return [replace(piece, right=load) for piece, load in zip(rows, loads, strict=True)]


def _means(system: System, sample: Sample, here: np.ndarray, along: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The mean of an equation's residual, weighted by |w|, at steps along a line, (S,); the last finite value replaces others."""
    thin = max(1, len(sample.points) // LOOKS)
    base, slope = (sample.jets(system.own(values))[:, ::thin] for values in (here, along))
    points = sample.points[::thin]
    weights = np.abs(Answer(system.hull, system.tree, along).evaluate(points)).sum(axis=1)
    jets = (base[:, None] + steps[:, None] * slope[:, None]).reshape(len(base), -1)
    where = np.tile(points, (len(steps), 1))
    line = sample.residual.linearize(where, jets, system.parameters, np.zeros_like(where))
    found = line.value.reshape(len(steps), -1) @ weights
    finite = np.isfinite(found)
    return np.where(finite, found, found[finite][-1] if finite.any() else 1.0)
