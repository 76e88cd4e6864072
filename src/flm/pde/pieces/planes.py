"""Marches over two space variables: slabs in time over a tree in space, each solved by `plane_slab`.

Steps are powers of two of the whole time, so that factors serve many slabs: they are kept while the tree, the step and a
Jacobian that still contracts remain. Space is cut where the last coefficients ask for it and coarsened when the start of a
slab needs less than half of its pieces. The estimate is the whole march again with more functions and more nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from flm.language.arguments import Jet
from flm.pde.pieces.adapt import Pieces
from flm.pde.pieces.cut import SlabFunctions, leaf_functions
from flm.pde.pieces.functions import Functions, grid
from flm.pde.pieces.marching import MORE, March, judged
from flm.pde.pieces.newton import Answer
from flm.pde.pieces.plane_slab import SLOW, Plane, Stages, space_functions
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.shape import Cell
from flm.pde.pieces.slabs import ROUNDS, Front, importance
from flm.pde.pieces.stages import radau
from flm.pde.pieces.tree import Cut, Tree
from flm.results import Record
from flm.series import legendre as line

SMALLEST = 2.0**-20  # of the whole time: a slab this short means that the march cannot go on
FIRST = 1 / 8  # of the whole time: the first slab that is tried
LOCAL = 0.5  # of the tolerance: what last coefficients may be, while the error is what comes after them
SHARED = 0.02  # of the local tolerance: corrections that both marches leave out
OFTEN = 8  # slabs after which a coarser space is looked for even if steps remain
REPEATS = 3  # marches with a smaller local tolerance


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


@dataclass
class Slabs:
    """The slabs of a first march, and why it ended before the end of time."""

    few: list[Answer] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)  # the space of each
    reason: str = ""


class Planes:
    """The search for slabs over a plane.

    Args:
        setup: the problem, time last.
        tol: relative L2 error over space and time.
        max_columns: coefficients of all nodes of one slab.
        record: remembers and tells each slab.
    """

    def __init__(self, setup: Setup, tol: float, max_columns: int, record: Record):
        self.setup, self.tol, self.max_columns, self.record = setup, tol, max_columns, record
        self.begin, self.end = map(float, setup.bounds[-1])
        self.space, self.stages = plane_nodes(tol)
        self.num_axes = len(setup.bounds) - 1
        self.initial = Initial(setup)
        self.plane: Plane | None = None
        self.stale = False

    # --- the start of a slab ---------------------------------------------------------------------------------------

    def _whole(self) -> Tree:
        return Tree.whole(self.setup.bounds[:-1], self.setup.periodic[:-1], self.setup.shape)

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
        """Coefficients on cut pieces, whose functions are orthonormal over their nodes, which lie inside."""
        leaves = list(map(int, np.flatnonzero(tree.is_cut)))
        if not leaves:
            return
        views = [leaf_functions(functions, tree, leaf) for leaf in leaves]
        found = self._values(np.concatenate([view.nodes for view in views]), before)
        ends = np.cumsum([0, *(len(view.nodes) for view in views)])
        for leaf, view, first, last in zip(leaves, views, ends, ends[1:], strict=False):
            own = np.zeros((len(out), view.num_columns))
            for (k, r), values in found.items():
                table = view.table(k, (0,) * tree.num_axes, view.nodes)
                own[r, view.columns[k]] = table.T @ values[first:last] / len(table)
            out[:, leaf] = [view.spread(o, functions.num_columns) for o in own]

    def _tails(self, tree: Tree, functions: Functions, start: np.ndarray) -> np.ndarray:
        """The last two coefficients of the start along each axis, worst unknown, (L, m - 1)."""
        answer = Answer(functions, tree, start[0], 0.0, np.zeros(1), 0.0, np.inf, True, 0)
        return answer.tails(self.setup.orders)

    def _cuts(self, tree: Tree, tails: np.ndarray, local: float) -> dict[int, list[Cut]]:
        weighted = tails * importance(tree.shares)[:, None]
        marked = weighted > max(local, 0.1 * weighted.max())
        leaves = np.flatnonzero(marked.any(axis=1))
        return {int(leaf): [Cut(int(j)) for j in np.flatnonzero(marked[leaf])] for leaf in leaves}

    def _space(self, before: Answer | None, local: float) -> Tree | None:
        """Space cut afresh where the start of a slab asks for it."""
        tree = self._whole()
        for _ in range(ROUNDS):
            functions = space_functions(self.setup, tree, (self.space,) * self.num_axes)
            cuts = self._cuts(tree, self._tails(tree, functions, self.start(tree, functions, before)), local)
            if not cuts:
                return tree
            tree, _ = tree.split(cuts)
            if tree.num_leaves * functions.num_columns * self.stages > self.max_columns:
                return None
        return None

    # --- one slab --------------------------------------------------------------------------------------------------

    def _solve(
        self, tree: Tree, sizes: tuple[int, int], t: float, dt: float, before: Answer | None, local: float
    ) -> Answer:
        """The slab from t to t + dt, with the factors at hand while they serve."""
        nodes, rule = (sizes[0],) * self.num_axes, radau(sizes[1])
        plane = self.plane
        if plane is None or plane.tree is not tree or plane.dt != dt or plane.nodes != nodes or plane.rule is not rule:
            plane = self.plane = Plane(self.setup, tree, nodes, rule, dt)
            self.stale = True
        start = self.start(tree, plane.functions, before)
        fresh = self.stale
        if self.stale:
            plane.factorize(start, t)
        stages = plane.solve(start, t, local)
        if not stages.settled and not fresh:
            plane.factorize(start, t)
            stages = plane.solve(start, t, local)
        self.stale = stages.contraction > SLOW
        return self._answer(plane, start, stages, t)

    def _answer(self, plane: Plane, start: np.ndarray, stages: Stages, t: float) -> Answer:
        """The nodes' functions as a polynomial in time, on boxes of space and time."""
        count, extra = plane.tree.num_leaves, plane.functions.extra
        column = lambda value: np.full((count, 1), value)
        # Only space has further functions where pieces are cut.
        nodes = (*plane.nodes, len(plane.rule.nodes) - extra)
        functions = Functions(nodes, self.setup.orders, self.setup.ties, extra)
        tree = Tree(
            np.concatenate([plane.tree.lower, column(t)], axis=1),
            np.concatenate([plane.tree.upper, column(t + plane.dt)], axis=1),
            np.concatenate([plane.tree.bounds, [[t, t + plane.dt]]]),
            (*plane.tree.periodic, False),
            cells=_slab_cells(plane, functions, t),
        )
        coefficients = np.zeros((count, functions.num_columns))
        derivatives = plane.derivatives(stages.values, start)
        for k, row in enumerate(self.setup.orders):
            columns = plane.functions.columns[k]
            known = np.concatenate([start[: row[-1], :, columns], derivatives[max(row[-1] - 1, 0)][:, :, columns]])
            turned = np.tensordot(plane.rule.to_legendre(row[-1], plane.dt), known, (1, 0))  # (n, L, N)
            coefficients[:, functions.columns[k]] = np.moveaxis(turned, 0, 2).reshape(count, -1)
        pivot = min(factors.pivot for factors in plane.factors)
        return Answer(functions, tree, coefficients, 0.0, np.zeros(count), 0.0, pivot, stages.settled, 1)

    def _try(self, tree: Tree, t: float, dt: float, before: Answer | None, local: float) -> tuple[Tree, Answer | None]:
        """A slab with its space cut as needed; None where the corrections or the cuts do not settle."""
        for _ in range(ROUNDS):
            answer = self._solve(tree, (self.space, self.stages), t, dt, before, local)
            if not answer.finite or not answer.settled:
                return tree, None
            tails = answer.tails()
            cuts = self._cuts(tree, tails[:, :-1], local)
            late = self._late(answer)
            early = float(np.max(tails[:, :-1] * importance(tree.shares)[:, None]))
            if not cuts or (late > local and late > early):
                return tree, answer
            tree, _ = tree.split(cuts)
            if tree.num_leaves * answer.functions.num_columns > self.max_columns:
                return tree, None
        return tree, None

    def _late(self, answer: Answer) -> float:
        """The tail in time."""
        return float(np.linalg.norm(answer.tails()[:, -1] * importance(answer.tree.shares)))

    # --- the march -------------------------------------------------------------------------------------------------

    def _march(self, local: float) -> Slabs:
        """From the start to the end, or to where it could not go on."""
        march, before, whole = Slabs(), None, self.end - self.begin
        tree = self._space(None, local)
        if tree is None:
            march.reason = "the start needs more pieces than there is room for"
            return march
        done, step = 0, round(FIRST / SMALLEST)  # in units of the smallest step: halves and doubles are exact
        total = round(1 / SMALLEST)
        try:
            while done < total:
                t, dt = self.begin + done * SMALLEST * whole, step * SMALLEST * whole
                tree, answer = self._try(tree, t, dt, before, local)
                late = np.inf if answer is None else self._late(answer)
                if answer is None or late > local:
                    if step == 1:
                        march.reason = f"slabs of {dt:.1e} are still too long there"
                        return march
                    step //= 2
                    continue
                march.few.append(answer)
                march.trees.append(tree)
                done, before = done + step, answer
                self._note("slab", [answer], late, np.inf)
                # The last two coefficients of a slab of twice the length are about 2^(s - 3/2) times as large.
                grow, old = 2.0 ** (self.stages - 1.5), step
                while late * grow < local and done % (2 * step) == 0 and done + 2 * step <= total:
                    step, late = 2 * step, late * grow
                if step > old or len(march.few) % OFTEN == 0:
                    fresh = self._space(before, local)
                    tree = fresh if fresh is not None and 2 * fresh.num_leaves <= tree.num_leaves else tree
        except KeyboardInterrupt:
            if not march.few:
                raise
            march.reason = "it was interrupted there"
        return march

    def _again(self, slabs: Slabs, local: float) -> March:
        """The same slabs and trees with more functions and nodes, as far as they settle."""
        march, before = March(len(self.setup.orders)), None
        for slab, tree in zip(slabs.few, slabs.trees, strict=True):
            t, dt = float(slab.tree.bounds[-1, 0]), float(slab.tree.widths[0, -1])
            answer = self._solve(tree, (self.space + MORE, self.stages + MORE), t, dt, before, local)
            if not answer.finite or not answer.settled:
                march.reason = "a second march with more functions does not settle there"
                break
            march.append(slab, answer, SHARED * local)
            before = answer
        return march

    def _note(self, stage: str, slabs: list[Answer], estimate: float, bar: float) -> None:
        self.record.step(
            stage, columns=sum(s.num_columns for s in slabs), estimate=estimate, error_estimate=bar,
            pieces=sum(s.tree.num_leaves for s in slabs), until=float(slabs[-1].tree.bounds[-1, 1]),
        )  # fmt: skip

    def run(self) -> Pieces | None:
        """March, compare with a second march, and repeat with a smaller local tolerance while that is needed."""
        local, best = LOCAL * self.tol, None
        for _ in range(REPEATS):
            first = self._march(local)
            march = self._again(first, local)
            if not march.many:
                return best
            march.reason = march.reason or first.reason
            marched, bar = judged(march, self.tol, self.end), float(march.bars()[-1])
            if best is None or marched.bar < best.bar:
                best = marched
            self._note("second march", march.many, bar, best.bar)
            if march.reason or bar <= self.tol:
                break
            local *= min(0.3, 0.3 * self.tol / bar)
        return best


def _slab_cells(plane: Plane, functions: Functions, t: float) -> tuple[Cell, ...]:
    """The cells of a region times a slab's time, with their functions; none on a box."""
    cells = []
    for cell, view in zip(plane.tree.cells, plane.system.views, strict=False):
        low, high = np.append(cell.low, t), np.append(cell.high, t + plane.dt)
        lower, upper = np.append(cell.lower, t), np.append(cell.upper, t + plane.dt)
        made: dict[object, object] = {functions: SlabFunctions(view, plane.functions, functions)}
        cells.append(Cell(low, high, "cut", lower, upper, cell.volume, np.zeros((0, 2)), made=made))
    return tuple(cells)


def _same(slab: Tree, tree: Tree) -> bool:
    """Whether a slab stands on a tree."""
    return slab.num_leaves == tree.num_leaves and np.array_equal(slab.lower[:, :-1], tree.lower)
