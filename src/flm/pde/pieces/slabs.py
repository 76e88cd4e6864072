"""Slabs over space: a tree in space that is cut where the start of a slab and its answer need it, one piece in time.

The start of a slab is the end of the slab before, projected on the tree. Over a line (`LineSlabs`) a slab is solved like any
other problem of space and time, and space is cut afresh for each; over a plane see `planes`.

Over a line polynomials that satisfy u_tt = f at the nodes of each slab amplify short waves from slab to slab (a wave equation
loses a digit and a half in each). With the velocity as a separate unknown, u_t = v and v_t = f, nothing grows.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import lru_cache

import numpy as np

from flm.language.arguments import Named, Names, Residual
from flm.pde.pieces.cut import EXTRA, leaf_functions
from flm.pde.pieces.fields import AnyResidual, Relabeled, plain
from flm.pde.pieces.functions import Functions, Trace, grid
from flm.pde.pieces.marching import MORE, AbstractSlabs, Trial
from flm.pde.pieces.newton import Answer, solve_system
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.shape import Cell
from flm.pde.pieces.tree import Cut, Tree, projection
from flm.pde.pieces.unseen import DENSE, cut_around, missed_sources, spots
from flm.series import legendre as line

ROUNDS = 40  # of cutting space within one slab
SMALL = 1 / 64  # of space: smaller pieces were cut more often than smooth functions need

Span = tuple[float, float]  # the first and the last time of a slab
State = dict[tuple[int, int], np.ndarray]  # values at points (P,), by unknown and derivative in time


def importance(shares: np.ndarray, duration: float = 1.0) -> np.ndarray:
    """The weight of a piece's tail, from its share of space and the slab's share of time.

    The square root is its share of the L2 norm. Pieces that were cut more than six times see a kink or a jump of the start,
    whose tail stays the same however small they are; their error is an integral that spreads, so they count by
    their share of space, and no longer than their slab lasts. The second march shows whether that was too little.
    """
    return np.where(shares < SMALL, shares * np.sqrt(duration / SMALL), np.sqrt(shares))


def in_space(setup: Setup, tree: Tree, nodes: tuple[int, ...]) -> Functions:
    """The functions of a tree in space for a problem of space and time."""
    orders = tuple(row[:-1] for row in setup.orders)
    return Functions(nodes, orders, setup.ties[:-1], EXTRA if tree.is_cut.any() else 0)


def lasting(tree: Tree, span: Span, cells: tuple[Cell, ...] = ()) -> Tree:
    """A tree in space times a slab's time."""
    lower, upper = (
        np.insert(side, tree.num_axes, t, axis=1) for side, t in ((tree.lower, span[0]), (tree.upper, span[1]))
    )
    return Tree(lower, upper, np.concatenate([tree.bounds, [span]]), (*tree.periodic, False), cells=cells)


class AbstractSpaceSlabs(AbstractSlabs):
    """Slabs of a problem in one or more space variables; time is the last axis."""

    longest = 1 / 8
    max_columns: int  # coefficients of one slab

    @abstractmethod
    def solve(self, tree: Tree, more: int, span: Span, before: Answer | None, like: Answer | None = None) -> Answer:
        """A slab on a tree in space with `more` further nodes, after slab `before`; `like` is a coarser answer of this slab."""

    @abstractmethod
    def space(self, before: Answer | None, span: Span, local: float) -> Tree | None:
        """The tree to begin a slab with; None where there is no room for it."""

    @abstractmethod
    def whole(self, span: Span) -> Tree:
        """The fewest pieces of space."""

    def weights(self, tree: Tree, span: Span) -> np.ndarray:
        """The weights of the tails of each piece, (L, 1): see `importance`; a source's spark is no kink of a start."""
        weights = importance(tree.shares, self.duration(span))
        for place in self.setup.everywhere[: len(self.setup.equations)]:
            points, shares = spots(self.setup, place)
            sparks = points[shares <= 1 / DENSE]
            here = tree.locate(sparks[(sparks[:, -1] >= span[0]) & (sparks[:, -1] <= span[1]), :-1])
            weights[here] = np.sqrt(tree.shares[here])
        return weights[:, None]

    def duration(self, span: Span) -> float:
        """The share of time of a slab that counts in the weights of small pieces."""
        return 1.0

    # --- the start of a slab ---------------------------------------------------------------------------------------

    def state(self, points: np.ndarray, before: Answer | None) -> State:
        """The state that a slab begins with, at points of space (P, m - 1)."""
        assert before is not None
        there = np.insert(points, points.shape[1], 0.0, axis=1)
        every = [(k, r) for k, row in enumerate(self.setup.orders) for r in range(max(row[-1], 1))]
        return {(k, r): before.at_end(k, r, there) for k, r in every}

    def start(self, tree: Tree, functions: Functions, before: Answer | None) -> np.ndarray:
        """The end of the slab before, or the initial state, as coefficients on a tree, (R, L, C)."""
        most = max(max(row[-1] for row in self.setup.orders), 1)
        out = np.zeros((most, tree.num_leaves, functions.num_columns))
        if before is not None and before.functions.nodes[:-1] == functions.nodes and _stands_on(before.tree, tree):
            dt = float(before.tree.widths[0, -1])
            for k, (row, shape) in enumerate(zip(self.setup.orders, before.functions.shapes, strict=True)):
                own = before.coefficients[:, before.functions.columns[k]].reshape(tree.num_leaves, -1, shape[-1])
                for r in range(max(row[-1], 1)):
                    out[r][:, functions.columns[k]] = own @ line.node_table(1.0, shape[-1], r)[0] * (2 / dt) ** r
            return out
        self._project_cut(out, tree, functions, before)
        whole, plain = np.flatnonzero(~tree.is_cut), replace(functions, extra=0)
        for shape in set(plain.shapes) if len(whole) else ():
            points = np.concatenate([tree.physical(int(leaf), grid(shape)) for leaf in whole])
            part = np.zeros((most, len(whole), plain.num_columns))
            for (k, r), values in self.state(points, before).items():
                if plain.shapes[k] == shape:
                    part[r][:, plain.columns[k]] = values.reshape(len(whole), -1) @ projection(shape).T
            out[:, whole] += functions.fitted(part, plain)
        return out

    def _project_cut(self, out: np.ndarray, tree: Tree, functions: Functions, before: Answer | None) -> None:
        """Coefficients on cut pieces by least squares at their nodes, which lie inside, and along the boundary."""
        for leaf in map(int, np.flatnonzero(tree.is_cut)):
            view = leaf_functions(functions, tree, leaf)
            points = np.concatenate([view.nodes, _edge(tree, leaf, max(self.nodes))])
            own = np.zeros((len(out), view.num_columns))
            for (k, r), values in self.state(points, before).items():
                table = view.table(k, (0,) * tree.num_axes, points)
                own[r, view.columns[k]] = np.linalg.lstsq(table, values)[0]
            out[:, leaf] = [view.spread(o, functions.num_columns) for o in own]

    # --- cutting space ---------------------------------------------------------------------------------------------

    def _fits(self, tree: Tree) -> bool:
        columns = in_space(self.setup, tree, self.nodes[:-1]).num_columns
        return tree.num_leaves * columns * self.nodes[-1] <= self.max_columns

    def cut_afresh(self, before: Answer | None, span: Span, local: float) -> Tree | None:
        """Space cut where the start of a slab needs it."""
        tree = self.whole(span)
        for _ in range(ROUNDS):
            functions = in_space(self.setup, tree, self.nodes[:-1])
            start = Answer(functions, tree, self.start(tree, functions, before)[0])
            cuts = _cuts(start.tails(self.setup.orders) * self.weights(tree, span), local)
            if not cuts:
                break
            tree, _ = tree.split(cuts)
            if not self._fits(tree):
                return None
        return tree

    def first(self, begin: float, end: float, before: Answer | None, local: float) -> Trial:
        """One slab with its space cut as needed; see `AbstractSlabs`."""
        span, like = (begin, end), None
        self.tree = self.space(before, span, local)
        if self.tree is None:
            return Trial(None, reason="" if before else "the start needs more pieces than there is room for")
        for _ in range(ROUNDS):
            answer = self.solve(self.tree, 0, span, before, like)
            if not answer.finite or not answer.settled:
                break
            tails = answer.tails() * self.weights(self.tree, span)
            cuts, late = _cuts(tails[:, :-1], local), float(np.linalg.norm(tails[:, -1]))
            # Unresolved space shows in time too: space is cut first, unless time alone is worse.
            if not cuts or (late > local and late > tails[:, :-1].max()):
                if late > local:
                    return Trial(answer, late)
                m = len(self.setup.bounds)
                beside = [p for p in self.setup.places if p.pinned and m - 1 not in p.pinned]
                if len(missed_sources(self.setup, answer, local, beside)):
                    break  # a pulse on a side: a shorter slab sees it
                within = (p for p in self.setup.everywhere if p not in beside)
                unseen = missed_sources(self.setup, answer, local, within)[:, :-1]
                if not len(unseen):
                    return Trial(answer, late)
                self.tree, _ = cut_around(self.tree, unseen)
                if self.tree.num_leaves == answer.tree.num_leaves:
                    break  # no node sees this source at any time: a shorter slab does
                continue
            self.tree, like = self.tree.split(cuts)[0], answer
            if not self._fits(self.tree):
                break
        return Trial(None)

    def second(self, slab: Answer, before: Answer | None) -> Answer | None:
        """The same cuts with more functions; see `AbstractSlabs`."""
        assert self.tree is not None
        low, high = map(float, slab.tree.bounds[-1])
        answer = self.solve(self.tree, MORE, (low, high), before, slab)
        return answer if answer.finite and answer.settled else None


def _cuts(tails: np.ndarray, local: float) -> dict[int, list[Cut]]:
    """Cuts of pieces whose tails (L, m - 1) are too large and not small beside the largest."""
    marked = tails > max(local, 0.1 * tails.max())
    leaves = np.flatnonzero(marked.any(axis=1))
    return {int(leaf): [Cut(int(j)) for j in np.flatnonzero(marked[leaf])] for leaf in leaves}


def _stands_on(slab: Tree, tree: Tree) -> bool:
    """Whether a slab has this tree in space."""
    return slab.num_leaves == tree.num_leaves and np.array_equal(slab.lower[:, :-1], tree.lower)


def _edge(tree: Tree, leaf: int, count: int) -> np.ndarray:
    """Points on the boundary of the region in a cut piece, (P, 2): nodes alone do not fix what lies beyond them."""
    assert tree.shape is not None
    cell, shares = tree.cells[leaf], (line.gauss(count)[0] + 1) / 2
    points = [np.zeros((0, tree.num_axes))]
    for patch in tree.shape.patches:
        points += [stretch.at(shares)[0] for stretch in tree.shape.stretches(cell, patch)]
    return np.concatenate(points)


class LineSlabs(AbstractSpaceSlabs):
    """Slabs of a problem in one space variable, of first order in time."""

    smallest = 1e-9

    def __init__(self, setup: Setup, shown: int, tol: float, max_columns: int):
        self.setup, self.shown, self.max_columns = setup, shown, max_columns
        self.nodes = (9, 7) if tol >= 1e-5 else (11, 8) if tol >= 1e-7 else (15, 12)

    def whole(self, span: Span) -> Tree:
        """One piece, cut where a coefficient or a formula jumps in this slab."""
        slab = self.setup.start(np.array([self.setup.bounds[0], span]))
        return Tree(slab.lower[:, :1], slab.upper[:, :1], self.setup.bounds[:1], self.setup.periodic[:1])

    def space(self, before: Answer | None, span: Span, local: float) -> Tree | None:
        """Space cut anew, so that it coarsens by itself; the first slab's answer shows what the beginning needs."""
        return self.whole(span) if before is None else self.cut_afresh(before, span, local)

    def duration(self, span: Span) -> float:
        """See `importance`."""
        return float(np.ptp(span) / np.ptp(self.setup.bounds[1]))

    def solve(self, tree: Tree, more: int, span: Span, before: Answer | None, like: Answer | None = None) -> Answer:
        """All pieces of space and time at once, from `like`, or from the end of the slab before, held constant."""
        slab, guess = lasting(tree, span), None
        system = self.setup.system(slab, tuple(q + more for q in self.nodes), before)
        if like is not None:
            parents = like.tree.locate((slab.lower + slab.upper) / 2)
            guess = system.functions.fitted(like.on(slab, parents), like.functions)
        elif before is not None:
            functions = in_space(self.setup, tree, self.nodes[:-1])
            held, guess = self.start(tree, functions, before)[0], system.zero
            for k, shape in enumerate(system.functions.shapes):
                guess[:, system.functions.columns[k]][:, :: shape[-1]] = held[:, functions.columns[k]]
        return solve_system(system, guess, self.setup.is_linear)

    def rough(self, slab: Answer, local: float) -> float:
        """The error of pieces that do not resolve their start, a kink or a jump, which the second march shares."""
        tails, (low, high) = slab.tails()[:, 0], slab.tree.bounds[-1]
        unresolved = (tails > 10 * local) & (slab.tree.shares < SMALL)
        return float(np.linalg.norm((tails * self.weights(slab.tree, (low, high))[:, 0])[unresolved]))


# --- velocities as unknowns of their own ---------------------------------------------------------------------------------


def with_velocities(setup: Setup) -> Setup:
    """The setup with an unknown for the velocity of each unknown that has second derivatives in time, the last axis."""
    second = tuple(k for k, orders in enumerate(setup.orders) if orders[-1] > 1)
    if not second:
        return setup
    residuals = (*setup.equations, *(place.residual for place in setup.places))
    speeds = {k: len(setup.orders) + i for i, k in enumerate(second)}
    orders = [(*row[:-1], min(row[-1], 1)) for row in setup.orders]
    for k in second:  # across space a velocity has the derivatives that the problem asks of it
        asked = [a[:-1] for r in residuals for u, a in r.jets if u == k and a[-1]]
        orders.append((*(max(row[j] for row in asked) for j in range(len(setup.bounds) - 1)), 1))
    label = lambda k, a: (speeds[k], (*a[:-1], a[-1] - 1)) if k in speeds and a[-1] else (k, a)
    moved = lambda residual: Relabeled(residual, (label(*jet) for jet in residual.jets))
    names = plain(setup.equations[0]).names

    def velocity(k: int, v: int) -> AnyResidual:
        rate = setup.known.bind(_rate(names, k))
        return Relabeled(rate, ((k if a[-1] else v, a) for _, a in rate.jets))

    more = lambda axis: (Trace(v, order) for v in speeds.values() for order in range(orders[v][axis]))
    return replace(
        setup,
        equations=(*map(moved, setup.equations), *(velocity(k, v) for k, v in speeds.items())),
        places=tuple(replace(place, residual=moved(place.residual)) for place in setup.places),
        orders=tuple(orders),
        ties=tuple(replace(ties, traces=(*ties.traces, *more(j))) for j, ties in enumerate(setup.ties)),
    )


@lru_cache(maxsize=64)
def _rate(names: Names, unknown: int) -> Residual:
    """The residual u_t - u; made once, because it is compiled."""
    name = names.unknowns[unknown]
    return Residual.bind(Named(lambda slope, value: slope - value, (f"{name}_t", name)), names, "velocity")
