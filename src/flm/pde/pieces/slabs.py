"""Slabs over one space variable: the space of each is cut afresh where its start and its answer ask for it.

A slab has one piece in time. Its start is the end of the slab before, at the Gauss points of every piece; space is cut by
projecting the start, so that it coarsens by itself.

Polynomials that satisfy u_tt = f at the nodes of each slab amplify short waves from slab to slab (a wave equation loses a
digit and a half in each). With the velocity as an unknown of its own, u_t = v and v_t = f, nothing grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from flm.language.arguments import Named, Names, Reference, Residual
from flm.pde.pieces.count import Ties, Trace
from flm.pde.pieces.fields import AnyResidual, FieldResidual
from flm.pde.pieces.functions import Functions
from flm.pde.pieces.marching import MORE, AbstractSlabs, Trial
from flm.pde.pieces.newton import Answer, solve_system, table_at
from flm.pde.pieces.places import Given
from flm.pde.pieces.rows import System
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.stages import InSpace
from flm.pde.pieces.tree import Cut, Tree
from flm.series import legendre as line

ROUNDS = 40  # of cutting space within one slab
SMALL = 1 / 64  # of space: pieces that were cut more often than smooth functions ask for


def importance(shares: np.ndarray, duration: float = 1.0) -> np.ndarray:
    """How much the tail of a piece counts, by its share of space and the slab's share of time.

    The square root is its share of the L2 norm. Pieces that were cut more than six times see a kink or a jump of the start,
    whose tail stays as it is however small they are; what they get wrong is an integral that spreads, so they count by
    their share of space, and no longer than their slab lasts. The second march tells whether that was too little.
    """
    return np.where(shares < SMALL, shares * np.sqrt(duration / SMALL), np.sqrt(shares))


@dataclass(frozen=True, eq=False)
class Front:
    """The end of a slab: an unknown's derivative in time as a function of space."""

    slab: Answer
    unknown: int
    order: int

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values at points (P, m), whose time is ignored."""
        tree, functions = self.slab.tree, self.slab.functions
        there = points.copy()
        there[:, -1] = tree.bounds[-1, 1]
        leaf, alpha = tree.locate(there), (*(0,) * (tree.num_axes - 1), self.order)
        table = table_at(functions, tree, self.unknown, alpha, there, leaf)
        return np.einsum("pn,pn...->p...", table, self.slab.coefficients[leaf, functions.columns[self.unknown]])


def handed_on(setup: Setup, before: Answer) -> list[Given]:
    """What a slab hands on to the next: every unknown and its derivatives in time below its order."""
    last, t = before.tree.num_axes - 1, float(before.tree.bounds[-1, 1])
    return [
        Given(k, (*(0,) * last, order), {last: t}, Front(before, k, order))
        for k, orders in enumerate(setup.orders)
        for order in range(orders[last])
    ]


def slab_nodes(tol: float) -> tuple[int, int]:
    """Equation nodes along space and time."""
    return (9, 7) if tol >= 1e-5 else (11, 8) if tol >= 1e-7 else (15, 12)


class SpaceSlabs(AbstractSlabs):
    """Slabs of a problem in one space variable, of first order in time, which is the last axis."""

    longest = 1 / 8
    smallest = 1e-9

    def __init__(self, setup: Setup, shown: int, tol: float, max_columns: int):
        self.setup, self.shown, self.max_columns, self.nodes = setup, shown, max_columns, slab_nodes(tol)

    def first(self, begin: float, end: float, before: Answer | None, local: float) -> Trial:
        """One slab with its space cut as needed; see `AbstractSlabs`."""
        tree = self._space(begin, end, before, local)
        duration = self._duration(tree)
        start: np.ndarray | None = None
        for _ in range(ROUNDS):
            system = self._system(tree, 0, before)
            if start is None and before is not None:
                start = self._held(system.functions, tree, before)
            answer = solve_system(system, start, self.setup.is_linear)
            if not answer.finite or not answer.settled:
                break
            tails = answer.tails()
            late = float(np.linalg.norm(tails[:, 1] * importance(tree.shares, duration)))
            early = tails[:, 0] * importance(tree.shares, duration)
            marked = early > max(local, 0.1 * early.max())
            # A space that is not resolved shows in time too: space first, unless time alone is worse.
            if not marked.any() or (late > local and late > early.max()):
                return Trial(answer, late)
            tree, parents = tree.split({int(leaf): [Cut(0)] for leaf in np.flatnonzero(marked)})
            if tree.num_leaves * answer.functions.num_columns > self.max_columns:
                break
            start = answer.on(tree, parents)
        return Trial(None)

    def second(self, slab: Answer, before: Answer | None) -> Answer | None:
        """The same cuts with more functions; see `AbstractSlabs`."""
        system = self._system(slab.tree, MORE, before)
        start = system.functions.fitted(slab.coefficients, slab.functions)
        answer = solve_system(system, start, self.setup.is_linear)
        return answer if answer.finite and answer.settled else None

    def rough(self, slab: Answer, local: float) -> float:
        """What pieces leave that do not resolve their start, a kink or a jump: the second march leaves it too."""
        tails = slab.tails()[:, 0]
        unresolved = (tails > 10 * local) & (slab.tree.shares < SMALL)
        return float(np.linalg.norm((tails * importance(slab.tree.shares, self._duration(slab.tree)))[unresolved]))

    def _duration(self, tree: Tree) -> float:
        """A slab's share of the whole time."""
        return float(np.ptp(tree.bounds[1]) / np.ptp(self.setup.bounds[1]))

    def _system(self, tree: Tree, more: int, before: Answer | None) -> System:
        nodes = tuple(q + more for q in self.nodes)
        return self.setup.system(tree, nodes, () if before is None else handed_on(self.setup, before))

    def _space(self, begin: float, end: float, before: Answer | None, local: float) -> Tree:
        """Space cut where the start of a slab asks for it."""
        bounds = self.setup.bounds.copy()
        bounds[1] = begin, end
        tree = self.setup.start(bounds)
        if before is None:
            return tree
        fronts = [Front(before, k, 0) for k, orders in enumerate(self.setup.orders) if orders[1]]
        for _ in range(ROUNDS):
            marked = self._front_tails(tree, fronts) * importance(tree.shares, self._duration(tree)) > local
            if not marked.any():
                break
            tree, _ = tree.split({int(leaf): [Cut(0)] for leaf in np.flatnonzero(marked)})
        return tree

    def _front_tails(self, tree: Tree, fronts: list[Front]) -> np.ndarray:
        """The last two coefficients of a start on each piece, relative to its size, (L,)."""
        n, tails = self.nodes[0] + max(orders[0] for orders in self.setup.orders), np.zeros(tree.num_leaves)
        for front in fronts:
            found = _projected(tree, front, n, n + 2)
            size = np.sqrt(tree.shares @ np.sum(found**2, axis=1)) or 1.0
            tails = np.maximum(tails, np.sqrt(np.sum(found[:, -2:] ** 2, axis=1)) / size)
        return tails

    def _held(self, functions: Functions, tree: Tree, before: Answer) -> np.ndarray:
        """The end of the slab before, held constant in time."""
        out = np.zeros((tree.num_leaves, functions.num_columns))
        for k, shape in enumerate(functions.shapes):
            block = np.zeros((tree.num_leaves, *shape))
            block[:, :, 0] = _projected(tree, Front(before, k, 0), shape[0], shape[0])
            out[:, functions.columns[k]] = block.reshape(tree.num_leaves, -1)
        return out


def _projected(tree: Tree, front: Front, n: int, count: int) -> np.ndarray:
    """The n coefficients of a start on each piece, from so many Gauss nodes, (L, n)."""
    nodes, weights = line.gauss(count)
    points = np.zeros((tree.num_leaves, count, 2))
    points[..., 0] = tree.lower[:, :1] + (nodes + 1) / 2 * tree.widths[:, :1]
    return front(points.reshape(-1, 2)).reshape(-1, count) @ (line.values(nodes, n) * weights[:, None])


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
    moved = lambda residual: _wrapped(residual, lambda inner: _moved(inner, tuple(speeds.items())))
    velocity = lambda k, v: _wrapped(setup.equations[0], lambda inner: _velocity(inner, k, v))
    return replace(
        setup,
        equations=(*map(moved, setup.equations), *(velocity(k, v) for k, v in speeds.items())),
        places=tuple(replace(place, residual=moved(place.residual)) for place in setup.places),
        orders=tuple(orders),
        ties=tuple(_more_ties(ties, orders, speeds.values(), j) for j, ties in enumerate(setup.ties)),
    )


def _more_ties(ties: Ties, orders: list[tuple[int, ...]], speeds: Iterable[int], axis: int) -> Ties:
    """What neighbors share across an axis, with the velocities."""
    return replace(ties, traces=(*ties.traces, *(Trace(v, order) for v in speeds for order in range(orders[v][axis]))))


def _wrapped(residual: AnyResidual | InSpace, change: Callable[[Residual], Residual]) -> AnyResidual:
    """A residual made from another, with the same unknown functions among the parameters."""
    assert not isinstance(residual, InSpace)
    return replace(residual, inner=change(residual.inner)) if isinstance(residual, FieldResidual) else change(residual)


@lru_cache(maxsize=64)
def _moved(residual: Residual, speeds: tuple[tuple[int, int], ...]) -> Residual:
    """A residual that asks for velocities instead of derivatives in time; made once, because it is compiled."""
    by_unknown = dict(speeds)

    def reference(old: Reference) -> Reference:
        if old.kind == "jet" and old.index >= len(residual.names.unknowns):  # a function among the parameters
            return old._replace(index=old.index + len(speeds))
        if old.kind != "jet" or old.index not in by_unknown or old.alpha[-1] == 0:
            return old
        return Reference("jet", by_unknown[old.index], (*old.alpha[:-1], old.alpha[-1] - 1))

    return replace(
        residual, references=tuple(map(reference, residual.references)), names=_extended(residual.names, len(speeds))
    )


@lru_cache(maxsize=64)
def _velocity(like: Residual, unknown: int, speed: int) -> Residual:
    """u_t - v."""
    names = _extended(like.names, speed + 1 - len(like.names.unknowns))
    return Residual.bind(
        Named(lambda slope, velocity: slope - velocity, (f"{names.unknowns[unknown]}_t", names.unknowns[speed])),
        names,
        "velocity",
    )


def _extended(names: Names, count: int) -> Names:
    return replace(names, unknowns=(*names.unknowns, *(f"velocity{i}" for i in range(count))))
