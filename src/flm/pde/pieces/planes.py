"""Slabs in time over a tree in two space variables, each solved by `plane_slab`.

Steps are powers of two of the whole time, so that factors serve many slabs: they are kept while the tree, the step and a
Jacobian that still contracts stay the same. Space is coarsened when the start of a slab needs less than half of its pieces.
"""

from __future__ import annotations

import numpy as np

from flm.language.arguments import Jet
from flm.pde.pieces.functions import Functions
from flm.pde.pieces.newton import Answer
from flm.pde.pieces.plane_slab import SLOW, Plane, radau
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.shape import Cell
from flm.pde.pieces.slabs import AbstractSpaceSlabs, Span, State, lasting
from flm.pde.pieces.tree import Tree

SHARED = 0.02  # of the local tolerance: corrections that both marches leave out
OFTEN = 8  # slabs after which a coarser space is looked for even if steps remain


class Initial:
    """The state at the beginning: the initial conditions solved point by point for values and velocities."""

    def __init__(self, setup: Setup):
        last = len(setup.bounds) - 1
        self.setup, self.begin = setup, float(setup.bounds[-1, 0])
        self.residuals = [place.residual for place in setup.places if last in place.pinned]
        jets: list[Jet] = [(k, (*(0,) * last, r)) for k, row in enumerate(setup.orders) for r in range(row[-1])]
        self.place = {jet: i for i, jet in enumerate(jets)}

    def serves(self) -> bool:
        """Whether the conditions are as many as these values and involve nothing else."""
        known = all(jet in self.place for residual in self.residuals for jet in residual.jets)
        return known and len(self.residuals) == len(self.place) > 0

    def __call__(self, points: np.ndarray) -> State:
        """Values (P,) of each unknown and derivative in time, at points (P, m - 1) of space."""
        there = np.insert(points, points.shape[1], self.begin, axis=1)
        found = np.zeros((len(self.place), len(points)))
        for _ in range(8):  # one round for conditions that are linear, as they are nearly always
            matrix, right = np.zeros((len(points), len(found), len(found))), np.zeros((len(points), len(found)))
            for i, residual in enumerate(self.residuals):
                which = [self.place[jet] for jet in residual.jets]
                at = residual.linearize(there, found[which], self.setup.parameters, np.zeros_like(there))
                matrix[:, i, which], right[:, i] = at.by_jet.T, at.value
            change = np.linalg.solve(matrix, right[..., None])[..., 0].T
            found -= change
            if np.abs(change).max() <= 1e-14 * np.abs(found).max():
                break
        return {(k, alpha[-1]): found[i] for (k, alpha), i in self.place.items()}


class PlaneSlabs(AbstractSpaceSlabs):
    """Slabs of a problem in two space variables; `max_columns` is for the coefficients of all nodes of one slab."""

    smallest = 2.0**-20
    aim, shrink = 1.0, 1.0
    share = 0.5  # the error is that of the coefficients after the last

    def __init__(self, setup: Setup, tol: float, max_columns: int):
        self.setup, self.shown, self.max_columns = setup, len(setup.orders), max_columns
        space, stages = (7, 6) if tol >= 1e-4 else (9, 6) if tol >= 1e-6 else (11, 8) if tol >= 1e-8 else (13, 10)
        self.nodes = (*(space,) * (len(setup.bounds) - 1), stages)
        self.initial = Initial(setup)
        self.tree: Tree | None = None  # the space of the last slab
        self._planes: dict[int, Plane] = {}  # by their nodes in time
        self._last, self._count, self.local = 0.0, 0, np.nan

    def step(self, dt: float, factor: float) -> float:
        """A power of two of the whole time, so that factors serve many slabs."""
        return dt * 2.0 ** np.floor(np.log2(factor))

    def whole(self, span: Span) -> Tree:
        """One piece, cut where a formula jumps."""
        tree = Tree.whole(self.setup.bounds[:-1], self.setup.periodic[:-1], self.setup.shape)
        return tree.parted(self.setup.steps[:-1])

    def state(self, points: np.ndarray, before: Answer | None) -> State:
        """The state that a slab begins with; see `AbstractSpaceSlabs`."""
        return self.initial(points) if before is None else super().state(points, before)

    def space(self, before: Answer | None, span: Span, local: float) -> Tree | None:
        """The last slab's tree, unless steps grow, or have not changed for long, and half of its pieces are enough."""
        self._count += 1
        if before is None and self.local != local:
            self.tree, self.local = self.cut_afresh(None, span, local), local
        longer = span[1] - span[0] > 1.5 * self._last
        if before is not None and self.tree is not None and (longer or self._count > OFTEN):
            fresh, self._count = self.cut_afresh(before, span, local), 0
            self.tree = fresh if fresh is not None and 2 * fresh.num_leaves <= self.tree.num_leaves else self.tree
        self._last = span[1] - span[0]
        return self.tree

    def rough(self, slab: Answer, local: float) -> float:
        """The corrections that both marches leave out."""
        return SHARED * local

    def solve(self, tree: Tree, more: int, span: Span, before: Answer | None, like: Answer | None = None) -> Answer:
        """A slab, solved with the factors at hand as long as they serve."""
        nodes, rule, dt = tuple(q + more for q in self.nodes[:-1]), radau(self.nodes[-1] + more), span[1] - span[0]
        plane = self._planes.get(more)
        if plane is None or plane.tree is not tree or abs(plane.dt - dt) > 1e-12 * dt:
            plane = self._planes[more] = Plane(self.setup, tree, nodes, rule, dt)
        start, fresh = self.start(tree, plane.functions, before), plane.stale
        if fresh:
            plane.factorize(start, span[0])
        stages = plane.solve(start, span[0], self.local)
        if not stages.settled and not fresh:
            plane.factorize(start, span[0])
            stages = plane.solve(start, span[0], self.local)
        plane.stale = stages.contraction > SLOW
        # The nodes' functions as a polynomial in time; only space has further functions where pieces are cut.
        count, extra = tree.num_leaves, plane.functions.extra
        functions = Functions((*nodes, len(rule.nodes) - extra), self.setup.orders, self.setup.ties, extra)
        coefficients = np.zeros((count, functions.num_columns))
        derivatives = plane.derivatives(stages.values, start)
        for k, row in enumerate(self.setup.orders):
            columns = plane.functions.columns[k]
            known = np.concatenate([start[: row[-1], :, columns], derivatives[max(row[-1] - 1, 0)][:, :, columns]])
            turned = np.tensordot(rule.to_legendre(row[-1], plane.dt), known, (1, 0))  # (n, L, N)
            coefficients[:, functions.columns[k]] = np.moveaxis(turned, 0, 2).reshape(count, -1)
        slab, pivot = lasting(tree, span, _cells(plane, functions, span)), min(f.pivot for f in plane.factors)
        return Answer(functions, slab, coefficients, pivot=pivot, settled=stages.settled)


def _cells(plane: Plane, functions: Functions, span: Span) -> tuple[Cell, ...]:
    """The cells of a region times a slab's time, with their functions; none on a box."""
    cells = []
    for cell, view in zip(plane.tree.cells, plane.system.views, strict=False):
        low, high = np.append(cell.low, span[0]), np.append(cell.high, span[1])
        lower, upper = np.append(cell.lower, span[0]), np.append(cell.upper, span[1])
        made: dict[object, object] = {functions: view.in_time(plane.functions, functions)}
        cells.append(Cell(low, high, "cut", lower, upper, cell.volume, np.zeros((0, 2)), made=made))
    return tuple(cells)
