"""Slabs in time over a tree in two space variables, each solved by `plane_slab`.

Steps are powers of two of the whole time, so that factors serve many slabs: they are kept while the tree, the step and a
Jacobian that still contracts remain. Space is cut where the last coefficients ask for it and coarsened when the start of a
slab needs less than half of its pieces.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flm.language.arguments import Jet
from flm.pde.pieces.cut import SlabFunctions, leaf_functions
from flm.pde.pieces.functions import Functions, grid
from flm.pde.pieces.marching import MORE, AbstractSlabs, Trial
from flm.pde.pieces.newton import Answer
from flm.pde.pieces.plane_slab import SLOW, Plane, Stages, space_functions
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.shape import Cell
from flm.pde.pieces.slabs import ROUNDS, Front, importance
from flm.pde.pieces.stages import radau
from flm.pde.pieces.tree import Cut, Tree
from flm.series import legendre as line

SHARED = 0.02  # of the local tolerance: corrections that both marches leave out
OFTEN = 8  # slabs after which a coarser space is looked for even if steps remain

Span = tuple[float, float]  # from when to when a slab lasts


def plane_nodes(tol: float) -> tuple[int, int]:
    """Equation nodes along each axis of space, and nodes in time."""
    return (7, 6) if tol >= 1e-4 else (9, 6) if tol >= 1e-6 else (11, 8) if tol >= 1e-8 else (13, 10)


class Initial:
    """The state at the beginning: the initial conditions solved point by point for values and velocities."""

    def __init__(self, setup: Setup):
        last = len(setup.bounds) - 1
        self.setup, self.begin = setup, float(setup.bounds[-1, 0])
        self.residuals = [place.residual for place in setup.places if last in place.pinned]
        jets: list[Jet] = [(k, (*(0,) * last, r)) for k, row in enumerate(setup.orders) for r in range(row[-1])]
        self.place = {jet: i for i, jet in enumerate(jets)}

    def serves(self) -> bool:
        """Whether the conditions are about these values alone, as many as there are."""
        known = all(jet in self.place for residual in self.residuals for jet in residual.jets)
        return known and len(self.residuals) == len(self.place) > 0

    def __call__(self, points: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
        """Values (P,) of each unknown and derivative in time, at points (P, m) of space and time."""
        there = points.copy()
        there[:, -1] = self.begin
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


class PlaneSlabs(AbstractSlabs):
    """Slabs of a problem in two space variables.

    Args:
        setup: the problem, time last.
        tol: relative L2 error over space and time.
        max_columns: coefficients of all nodes of one slab.
    """

    longest = 1 / 8
    smallest = 2.0**-20
    aim, shrink = 1.0, 1.0
    share = 0.5  # the error is what comes after the last coefficients

    def __init__(self, setup: Setup, tol: float, max_columns: int):
        self.setup, self.shown, self.max_columns = setup, len(setup.orders), max_columns
        self.num_axes = len(setup.bounds) - 1
        space, stages = plane_nodes(tol)
        self.nodes = (*(space,) * self.num_axes, stages)
        self.initial = Initial(setup)
        self._tree: Tree | None = None  # the space of the last slab
        self._planes: dict[int, Plane] = {}  # by their nodes in time
        self._last, self._count, self.local = 0.0, 0, np.nan

    def step(self, dt: float, factor: float) -> float:
        """Powers of two, so that factors serve many slabs."""
        return dt * 2.0 ** np.floor(np.log2(factor))

    # --- the start of a slab ---------------------------------------------------------------------------------------

    def _whole(self) -> Tree:
        whole = Tree.whole(self.setup.bounds[:-1], self.setup.periodic[:-1], self.setup.shape)
        return whole.parted(self.setup.steps[:-1])

    def _values(self, points: np.ndarray, before: Answer | None) -> dict[tuple[int, int], np.ndarray]:
        """Values of each unknown and derivative in time at points of space (P, m - 1)."""
        there = np.concatenate([points, np.zeros((len(points), 1))], axis=1)
        if before is None:
            return self.initial(there)
        return {
            (k, r): Front(before, k, r)(there)
            for k, row in enumerate(self.setup.orders)
            for r in range(max(row[-1], 1))
        }

    def start(self, tree: Tree, functions: Functions, before: Answer | None) -> np.ndarray:
        """The end of the slab before, or the beginning, as coefficients on a tree, (R, L, C)."""
        most = max(max(row[-1] for row in self.setup.orders), 1)
        out = np.zeros((most, tree.num_leaves, functions.num_columns))
        if before is not None and before.functions.nodes[:-1] == functions.nodes and _same(before.tree, tree):
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
            for (k, r), values in self._values(points, before).items():
                if plain.shapes[k] == shape:
                    block = values.reshape(len(whole), *shape)
                    for j, n in enumerate(shape):
                        z, weights = line.gauss(n)
                        project = (line.values(z, n) * weights[:, None]).T
                        block = np.moveaxis(np.tensordot(project, block, (1, j + 1)), 0, j + 1)
                    part[r][:, plain.columns[k]] = block.reshape(len(whole), -1)
            out[:, whole] += functions.fitted(part, plain)
        return out

    def _project_cut(self, out: np.ndarray, tree: Tree, functions: Functions, before: Answer | None) -> None:
        """Coefficients on cut pieces by least squares at their nodes, which lie inside, and along the boundary."""
        leaves = list(map(int, np.flatnonzero(tree.is_cut)))
        if not leaves:
            return
        views = [leaf_functions(functions, tree, leaf) for leaf in leaves]
        every = [
            np.concatenate([view.nodes, _edge(tree, leaf, max(self.nodes))])
            for leaf, view in zip(leaves, views, strict=True)
        ]
        found = self._values(np.concatenate(every), before)
        ends = np.cumsum([0, *map(len, every)])
        for leaf, view, points, first in zip(leaves, views, every, ends, strict=False):
            own = np.zeros((len(out), view.num_columns))
            for (k, r), values in found.items():
                table = view.table(k, (0,) * tree.num_axes, points)
                own[r, view.columns[k]] = np.linalg.lstsq(table, values[first : first + len(points)])[0]
            out[:, leaf] = [view.spread(o, functions.num_columns) for o in own]

    def _tails(self, tree: Tree, functions: Functions, start: np.ndarray) -> np.ndarray:
        """The last two coefficients of the start along each axis, worst unknown, (L, m - 1)."""
        return Answer(functions, tree, start[0]).tails(self.setup.orders)

    def _cuts(self, tree: Tree, tails: np.ndarray, local: float) -> dict[int, list[Cut]]:
        weighted = tails * importance(tree.shares)[:, None]
        marked = weighted > max(local, 0.1 * weighted.max())
        leaves = np.flatnonzero(marked.any(axis=1))
        return {int(leaf): [Cut(int(j)) for j in np.flatnonzero(marked[leaf])] for leaf in leaves}

    def _space(self, before: Answer | None, local: float) -> Tree | None:
        """Space cut afresh where the start of a slab asks for it."""
        tree = self._whole()
        for _ in range(ROUNDS):
            functions = space_functions(self.setup, tree, self.nodes[:-1])
            cuts = self._cuts(tree, self._tails(tree, functions, self.start(tree, functions, before)), local)
            if not cuts:
                return tree
            tree, _ = tree.split(cuts)
            if tree.num_leaves * functions.num_columns * self.nodes[-1] > self.max_columns:
                return None
        return None

    # --- one slab --------------------------------------------------------------------------------------------------

    def solve(self, tree: Tree, more: int, span: Span, before: Answer | None) -> Answer:
        """A slab, with the factors at hand while they serve."""
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
        return self._answer(plane, start, stages, span)

    def _answer(self, plane: Plane, start: np.ndarray, stages: Stages, span: Span) -> Answer:
        """The nodes' functions as a polynomial in time, on boxes of space and time."""
        count, extra = plane.tree.num_leaves, plane.functions.extra
        column = lambda value: np.full((count, 1), value)
        # Only space has further functions where pieces are cut.
        nodes = (*plane.nodes, len(plane.rule.nodes) - extra)
        functions = Functions(nodes, self.setup.orders, self.setup.ties, extra)
        tree = Tree(
            np.concatenate([plane.tree.lower, column(span[0])], axis=1),
            np.concatenate([plane.tree.upper, column(span[1])], axis=1),
            np.concatenate([plane.tree.bounds, [span]]),
            (*plane.tree.periodic, False),
            cells=_slab_cells(plane, functions, span),
        )
        coefficients = np.zeros((count, functions.num_columns))
        derivatives = plane.derivatives(stages.values, start)
        for k, row in enumerate(self.setup.orders):
            columns = plane.functions.columns[k]
            known = np.concatenate([start[: row[-1], :, columns], derivatives[max(row[-1] - 1, 0)][:, :, columns]])
            turned = np.tensordot(plane.rule.to_legendre(row[-1], plane.dt), known, (1, 0))  # (n, L, N)
            coefficients[:, functions.columns[k]] = np.moveaxis(turned, 0, 2).reshape(count, -1)
        pivot = min(factors.pivot for factors in plane.factors)
        return Answer(functions, tree, coefficients, pivot=pivot, settled=stages.settled)

    def first(self, begin: float, end: float, before: Answer | None, local: float) -> Trial:
        """One slab with its space cut as needed; see `AbstractSlabs`."""
        if before is None and self.local != local:
            self._tree, self.local = self._space(None, local), local
        if self._tree is None:
            return Trial(None, reason="the start needs more pieces than there is room for")
        if before is not None and (end - begin > 1.5 * self._last or self._count >= OFTEN):
            fresh, self._count = self._space(before, local), 0
            self._tree = fresh if fresh is not None and 2 * fresh.num_leaves <= self._tree.num_leaves else self._tree
        self._last = end - begin
        for _ in range(ROUNDS):
            answer = self.solve(self._tree, 0, (begin, end), before)
            if not answer.finite or not answer.settled:
                break
            tails = answer.tails()
            weighted = tails * importance(answer.tree.shares)[:, None]
            cuts, late = self._cuts(self._tree, tails[:, :-1], local), float(np.linalg.norm(weighted[:, -1]))
            if not cuts or (late > local and late > weighted[:, :-1].max()):
                return Trial(answer, late)
            self._tree, _ = self._tree.split(cuts)
            if self._tree.num_leaves * answer.functions.num_columns > self.max_columns:
                break
        return Trial(None)

    def second(self, slab: Answer, before: Answer | None) -> Answer | None:
        """The same slab and tree with more functions and nodes; see `AbstractSlabs`."""
        self._count += 1
        assert self._tree is not None
        low, high = map(float, slab.tree.bounds[-1])
        answer = self.solve(self._tree, MORE, (low, high), before)
        return answer if answer.finite and answer.settled else None

    def rough(self, slab: Answer, local: float) -> float:
        """Corrections that both marches leave out."""
        return SHARED * local


def _edge(tree: Tree, leaf: int, count: int) -> np.ndarray:
    """Points on the boundary of the region in a cut piece and its guests, (P, 2): nodes alone leave what lies beyond them."""
    assert tree.shape is not None
    cell, shares = tree.cells[leaf], (line.gauss(count)[0] + 1) / 2
    points = [np.zeros((0, tree.num_axes))]
    for patch in tree.shape.patches:
        points += [stretch.at(shares)[0] for stretch in tree.shape.stretches(cell, patch)]
        for guest in cell.guests:
            there = [stretch.at(shares)[0] for stretch in tree.shape.stretches(guest, patch)]
            points += [beyond[cell.reaches(beyond)] for beyond in there]
    return np.concatenate(points)


def _slab_cells(plane: Plane, functions: Functions, span: Span) -> tuple[Cell, ...]:
    """The cells of a region times a slab's time, with their functions; none on a box."""
    cells = []
    for cell, view in zip(plane.tree.cells, plane.system.views, strict=False):
        low, high = np.append(cell.low, span[0]), np.append(cell.high, span[1])
        lower, upper = np.append(cell.lower, span[0]), np.append(cell.upper, span[1])
        made: dict[object, object] = {functions: SlabFunctions(view, plane.functions, functions)}
        cells.append(Cell(low, high, "cut", lower, upper, cell.volume, np.zeros((0, 2)), made=made))
    return tuple(cells)


def _same(slab: Tree, tree: Tree) -> bool:
    """Whether a slab stands on a tree."""
    return slab.num_leaves == tree.num_leaves and np.array_equal(slab.lower[:, :-1], tree.lower)
