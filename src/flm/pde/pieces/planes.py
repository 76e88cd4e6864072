"""Slabs in time over a tree in two space variables, their Radau nodes decoupled by diagonalization.

On [0, 1] the s Radau nodes c_i end at 1; a polynomial of degree s that vanishes at 0 has the slopes A⁻¹ Y at the nodes, Y its
values there. The unknowns are the functions Y_i(x) at the nodes t_i. A derivative in time there is A⁻¹ (Y - T) / dt + T', T the
Taylor polynomial of the start. With A⁻¹ = V diag(λ) V⁻¹ and a frozen Jacobian the corrections of each eigenvalue λ solve one
problem in space alone, in which every derivative in time is a factor λ / dt; of each conjugate pair one is enough. Ties and
conditions are corrected with the rest.

Steps are powers of two of the whole time, so that factors serve many slabs: they are kept while the tree, the step and a
Jacobian that still contracts stay the same. Space is coarsened when the start of a slab needs less than half of its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import factorial

import numpy as np

from flm.language.arguments import Jet, Linearized
from flm.pde.pieces.cut import Along
from flm.pde.pieces.elimination import KeptFactors, PieceRows
from flm.pde.pieces.fields import Relabeled
from flm.pde.pieces.functions import Functions
from flm.pde.pieces.newton import Answer, leaders, scale
from flm.pde.pieces.places import Keep, Place, Sample
from flm.pde.pieces.rows import Block, System
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.shape import Cell
from flm.pde.pieces.slabs import AbstractSpaceSlabs, Span, State, in_space, lasting
from flm.pde.pieces.tree import Tree
from flm.series import legendre as line

MAX_ROUNDS = 15  # corrections with one Jacobian
SLOW = 0.3  # a correction that shrinks by less asks for a new Jacobian
SHARED = 0.02  # of the local tolerance: corrections that both marches leave out
OFTEN = 8  # slabs after which a coarser space is looked for even if steps remain


@dataclass(frozen=True, eq=False)
class Radau:
    """The nodes of a slab of length one."""

    nodes: np.ndarray  # c, (s,)
    slopes: np.ndarray  # A⁻¹, (s, s)
    rates: np.ndarray  # λ, one of each conjugate pair, (M,)
    vectors: np.ndarray  # columns of V, twice for a pair, (s, M): Y is the real part of their sum
    dual: np.ndarray  # the rows of V⁻¹ that belong to them, (M, s)

    def to_legendre(self, order: int, dt: float) -> np.ndarray:
        """The matrix (n, n) from `order` derivatives at the start, and the last of them at the nodes, to Legendre coefficients.

        The highest derivative that the slab hands on is interpolated: a velocity, whose integral ends where the
        value does. If values were interpolated, they would end with another velocity, and the march would be unstable.
        """
        n, last = len(self.nodes) + order, max(order - 1, 0)
        starts = [line.table(np.array([-1.0]), n, r) * (2 / dt) ** r for r in range(order)]
        return np.linalg.inv(np.concatenate([*starts, line.table(2 * self.nodes - 1, n, last) * (2 / dt) ** last]))


@lru_cache(maxsize=16)
def radau(s: int) -> Radau:
    """The rule with s nodes."""
    z = line.radau(s)
    everywhere = np.linalg.inv(line.values(np.concatenate([[-1.0], z]), s + 1))
    slopes = 2 * (line.table(z, s + 1, 1) @ everywhere)[:, 1:]
    rates, vectors = np.linalg.eig(slopes)
    dual, kept = np.linalg.inv(vectors), np.flatnonzero(np.imag(rates) >= 0)
    weights = np.where(np.imag(rates) > 0, 2.0, 1.0)
    return Radau((z + 1) / 2, slopes, rates[kept], (vectors * weights)[:, kept], dual[kept])


class Plane:
    """A problem of space and time on one tree in space, with given numbers of equation nodes along its axes."""

    def __init__(self, setup: Setup, tree: Tree, nodes: tuple[int, ...], rule: Radau, dt: float):
        self.setup, self.tree, self.rule, self.dt = setup, tree, rule, dt
        self.functions = in_space(setup, tree, nodes)  # the products that coefficients are written in
        spatial = lambda residual: Relabeled(residual, ((k, alpha[:-1]) for k, alpha in residual.jets))
        places = [
            Place(spatial(place.residual), place.pinned, place.normal[:-1], _in_space(place, setup))
            for place in setup.places
            if tree.num_axes not in place.pinned
        ]
        along = [Along(spatial(condition.residual), condition.pieces) for condition in setup.along]
        equations = [spatial(residual) for residual in setup.equations]
        self.system = System(self.functions, tree, equations, places, setup.parameters, free=setup.free, along=along)
        self.most = max(row[-1] for row in setup.orders)
        # which derivatives at the start each coefficient has, (R, C)
        self.started = np.zeros((max(self.most, 1), self.functions.num_columns))
        for k, row in enumerate(setup.orders):
            self.started[: row[-1], self.functions.columns[k]] = 1.0
        self.factors: list[KeptFactors] = []  # of each eigenvalue
        self.lengths: list[list[np.ndarray]] = []  # what their rows were divided by, piece after piece
        self.pieces: list[PieceRows] = []  # the rows of the first one
        self.stale = True  # whether the Jacobian no longer serves

    # --- derivatives in time ---------------------------------------------------------------------------------------

    def _taylor(self, start: np.ndarray, order: int) -> np.ndarray:
        """A derivative of the start's Taylor polynomial at the nodes, (s, L, C)."""
        times = self.rule.nodes * self.dt
        total = np.zeros((len(times), *start.shape[1:]))
        for r in range(order, len(start)):
            total += np.multiply.outer(times ** (r - order) / factorial(r - order), start[r] * self.started[r])
        return total

    def derivatives(self, values: np.ndarray, start: np.ndarray) -> list[np.ndarray]:
        """Derivatives in time at the nodes, (s, L, C) each, as many as the equations need."""
        found, beyond = [values], values - self._taylor(start, 0)
        for order in range(1, self.most + 1):
            beyond = np.tensordot(self.rule.slopes, beyond, (1, 0)) / self.dt
            found.append(self._taylor(start, order) + beyond)
        return found

    # --- rows ------------------------------------------------------------------------------------------------------

    def _read(self, sample: Sample, coefficients: Sequence[np.ndarray], times: np.ndarray) -> Linearized:
        """A residual at times (S,), all points at the first one first; coefficients are (S, L, C) by derivative in time."""
        orders, jets = _orders(sample), []
        for i in range(len(times)):
            found = sample.jets(self.system.own(coefficients[0][i]))
            for order in set(orders.tolist()) - {0}:
                found[orders == order] = sample.jets(self.system.own(coefficients[order][i]))[orders == order]
            jets.append(found)
        at, every = np.repeat(times, len(sample.points)), (len(times), 1)
        points = np.column_stack([np.tile(sample.points, every), at])
        normals = np.column_stack([np.tile(sample.normals, every), np.zeros_like(at)])
        return sample.residual.linearize(points, np.concatenate(jets, axis=1), self.setup.parameters, normals)

    def factorize(self, start: np.ndarray, t: float) -> None:
        """Freeze the Jacobian at a state, half a slab after t, and keep the factors of every eigenvalue."""
        held = [start[r][None] if r < len(start) else np.zeros_like(start[:1]) for r in range(self.most + 1)]
        system, middle = self.system, np.array([t + self.dt / 2])
        slopes = [self._read(sample, held, middle).by_jet for sample in system.samples]
        self.factors, self.lengths, self.pieces = [], [], []
        for rate in self.rule.rates:
            blocks: list[list[Block]] = [[] for _ in range(self.tree.num_leaves)]
            for sample, slope in zip(system.samples, slopes, strict=True):
                shifted = slope * ((rate / self.dt) ** _orders(sample))[:, None]
                for spot, rows in zip(sample.spots, sample.matrices(shifted, system.own_columns), strict=True):
                    blocks[spot.leaf].append((rows, np.zeros(len(rows))))
            pieces = [system.piece(leaf, block) for leaf, block in enumerate(blocks)]
            self.factors.append(KeptFactors(pieces, system.sizes, system.order))
            self.lengths.append([piece.lengths for piece in pieces if piece.lengths is not None])
            self.pieces = self.pieces or pieces

    def _own(self, values: np.ndarray, leaf: int) -> np.ndarray:
        """Coefficients (S, C) of a piece in its own functions."""
        views = self.system.views
        return np.stack([np.concatenate(views[leaf].own(v)) for v in values]) if views else values

    def _misfits(self, values: np.ndarray, start: np.ndarray, t: float) -> list[np.ndarray]:
        """The residuals, then what fixed rows and ties leave, at every node: (s, rows) for each piece."""
        derivatives, times = self.derivatives(values, start), t + self.rule.nodes * self.dt
        found: list[list[np.ndarray]] = [[] for _ in range(self.tree.num_leaves)]
        for sample in self.system.samples:
            value = self._read(sample, derivatives, times).value.reshape(len(times), -1)
            for spot, where in zip(sample.spots, sample.where, strict=True):
                found[spot.leaf].append(value[:, where])
        for leaf, (parts, piece) in enumerate(zip(found, self.pieces, strict=True)):
            assert piece.lengths is not None
            rest = slice(sum(part.shape[1] for part in parts), None)  # rows that no eigenvalue changes
            parts.append(self._own(values[:, leaf], leaf) @ np.real(piece.own[rest]).T * piece.lengths[rest])
        return [np.concatenate(parts, axis=1) for parts in found]

    def solve(self, start: np.ndarray, t: float, local: float) -> tuple[np.ndarray, bool]:
        """The slab from t on, corrected until a correction is a hundredth of the local tolerance.

        Returns coefficients at the nodes, (s, L, C), and whether the corrections settled.
        """
        values = self._taylor(start, 0) + start[0] * (1 - self.started[0])
        last, contraction, self.stale = np.inf, 0.0, True
        norm = lambda coefficients: Answer(self.functions, self.tree, coefficients).sizes
        for step in range(MAX_ROUNDS):
            misfits = self._misfits(values, start, t)
            change = np.zeros_like(values)
            for i, (factors, lengths) in enumerate(zip(self.factors, self.lengths, strict=True)):
                right = [-(self.rule.dual[i] @ misfit) / by for misfit, by in zip(misfits, lengths, strict=True)]
                found = self.system.gathered(factors.solve(right))
                change += np.real(np.multiply.outer(self.rule.vectors[:, i], found))
            if not np.isfinite(change).all():
                self.stale = True
                break
            values = values + change
            gaps = [norm(c) / scale(norm(v)) for c, v in zip(change, values, strict=True)]
            size = float(np.max(np.array(gaps)[:, leaders(self.setup.orders)]))
            if step > 0:
                contraction = max(contraction, size / last) if size > 1e-12 else contraction
                self.stale = contraction > SLOW
                if size > max(last, 1e-9):
                    break
                if size * max(min(contraction, 0.9), 0.1) <= 0.01 * local:
                    return self._centered(values), True
            last = size
        return values, False

    def _centered(self, values: np.ndarray) -> np.ndarray:
        """The values with zero mean where nothing fixes the constant."""
        for k in self.setup.free:
            first = self.system.own_columns(0)[k].start
            means = np.stack([self._own(values[:, leaf], leaf)[:, first] for leaf in range(self.tree.num_leaves)])
            values[:, :, self.functions.columns[k].start] -= (self.tree.shares @ means)[:, None]
        return values


def _orders(sample: Sample) -> np.ndarray:
    """How often each jet of a residual is differentiated in time, (A,)."""
    assert isinstance(sample.residual, Relabeled)
    return np.array([alpha[-1] for _, alpha in sample.residual.inner.jets])


def _in_space(place: Place, setup: Setup) -> Keep | None:
    """Which points of space belong to a place: those that belong to it at the first time."""
    keep, begin = place.keep, float(setup.bounds[-1, 0])
    add = lambda array, value: np.insert(array, array.shape[1], value, axis=1)
    return None if keep is None else lambda points, normals: keep(add(points, begin), add(normals, 0.0))


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
        start = self.start(tree, plane.functions, before)
        values, settled = (start, False) if plane.stale else plane.solve(start, span[0], self.local)
        if not settled:
            plane.factorize(start, span[0])
            values, settled = plane.solve(start, span[0], self.local)
        # The nodes' functions as a polynomial in time; only space has further functions where pieces are cut.
        count, extra = tree.num_leaves, plane.functions.extra
        functions = Functions((*nodes, len(rule.nodes) - extra), self.setup.orders, self.setup.ties, extra)
        coefficients = np.zeros((count, functions.num_columns))
        derivatives = plane.derivatives(values, start)
        for k, row in enumerate(self.setup.orders):
            columns = plane.functions.columns[k]
            known = np.concatenate([start[: row[-1], :, columns], derivatives[max(row[-1] - 1, 0)][:, :, columns]])
            turned = np.tensordot(rule.to_legendre(row[-1], plane.dt), known, (1, 0))  # (n, L, N)
            coefficients[:, functions.columns[k]] = np.moveaxis(turned, 0, 2).reshape(count, -1)
        slab, pivot = lasting(tree, span, _cells(plane, functions, span)), min(f.pivot for f in plane.factors)
        return Answer(functions, slab, coefficients, pivot=pivot, settled=settled)


def _cells(plane: Plane, functions: Functions, span: Span) -> tuple[Cell, ...]:
    """The cells of a region times a slab's time, with their functions; none on a box."""
    cells = []
    for cell, view in zip(plane.tree.cells, plane.system.views, strict=False):
        low, high = np.append(cell.low, span[0]), np.append(cell.high, span[1])
        lower, upper = np.append(cell.lower, span[0]), np.append(cell.upper, span[1])
        made: dict[object, object] = {functions: view.in_time(plane.functions, functions)}
        cells.append(Cell(low, high, "cut", lower, upper, cell.volume, made=made))
    return tuple(cells)
