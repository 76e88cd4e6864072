"""One slab of time over a tree in space, its Radau nodes decoupled by diagonalization.

The unknowns are the functions Y_i(x) at the nodes t_i. A derivative in time at the nodes is A⁻¹ (Y - T) / dt + T', T the Taylor
polynomial of the start, so that with a frozen Jacobian the corrections of each eigenvalue λ of A⁻¹ solve one problem in
space alone, in which every derivative in time is a factor λ / dt. Ties and conditions are corrected with the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import factorial

import numpy as np

from flm.language.arguments import Linearized
from flm.pde.pieces.cut import EXTRA
from flm.pde.pieces.cut_rows import Along
from flm.pde.pieces.elimination import KeptFactors, PieceRows, plan
from flm.pde.pieces.functions import Functions
from flm.pde.pieces.newton import followers, norms, scale
from flm.pde.pieces.places import Keep, Place, Sample
from flm.pde.pieces.rows import System
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.stages import InSpace, Radau
from flm.pde.pieces.tree import Tree

MAX_ROUNDS = 15  # corrections with one Jacobian
SLOW = 0.3  # a correction that shrinks less asks for a new Jacobian


@dataclass
class Stages:
    """What a slab found: coefficients at the nodes (s, L, C), or that the corrections did not settle."""

    values: np.ndarray
    settled: bool
    contraction: float


@dataclass
class Plane:
    """A problem of space and time on one tree in space.

    Args:
        setup: the problem, time last.
        tree: the pieces in space.
        nodes: equation nodes along each axis of space.
        rule: the nodes in time.
        dt: the length of a slab.
    """

    setup: Setup
    tree: Tree
    nodes: tuple[int, ...]
    rule: Radau
    dt: float
    system: System = field(init=False)
    factors: list[KeptFactors] = field(init=False, default_factory=list)
    lengths: list[list[np.ndarray]] = field(init=False, default_factory=list)
    stale: bool = True  # whether the Jacobian no longer serves

    def __post_init__(self) -> None:
        setup, last = self.setup, self.tree.num_axes
        functions = space_functions(setup, self.tree, self.nodes)
        places = [
            Place(InSpace(place.residual), place.pinned, place.normal[:-1], _in_space(place, setup))
            for place in setup.places
            if last not in place.pinned and not isinstance(place.residual, InSpace)
        ]
        along = [Along(InSpace(a.residual), a.pieces) for a in setup.along if not isinstance(a.residual, InSpace)]
        equations = [InSpace(residual) for residual in setup.equations]
        self.system = System(functions, self.tree, equations, places, setup.parameters, free=setup.free, along=along)
        self.order = plan(self.system.members, self.system.sizes)
        self.most = max(row[-1] for row in setup.orders)
        # which derivatives at the start each coefficient has, (R, C)
        self.started = np.zeros((max(self.most, 1), functions.num_columns))
        for k, row in enumerate(setup.orders):
            self.started[: row[-1], functions.columns[k]] = 1.0

    @property
    def functions(self) -> Functions:
        """Of every piece of space, the products that coefficients are written in."""
        return self.system.hull

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
        """A residual at several times, all points at the first one first.

        Args:
            sample: which, and where.
            coefficients: for each derivative in time, at each of the times, (S, L, C).
            times: (S,).
        """
        orders, jets = _orders(sample), []
        for i in range(len(times)):
            found = sample.jets(self.system.own(coefficients[0][i]))
            for order in set(orders.tolist()) - {0}:
                found[orders == order] = sample.jets(self.system.own(coefficients[order][i]))[orders == order]
            jets.append(found)
        spread = lambda array, last: np.concatenate([np.tile(array, (len(times), 1)), last[:, None]], axis=1)
        at = np.repeat(times, len(sample.points))
        points, normals = spread(sample.points, at), spread(sample.normals, np.zeros_like(at))
        return sample.residual.linearize(points, np.concatenate(jets, axis=1), self.setup.parameters, normals)

    def _linear_rows(self, coefficients: np.ndarray) -> list[PieceRows]:
        """Ties and fixed rows alone."""
        system = self.system
        keep, system.samples = system.samples, []
        rows = system.assemble(coefficients)
        system.samples = keep
        return rows

    def factorize(self, start: np.ndarray, t: float) -> None:
        """Freeze the Jacobian at a state, half a slab after t, and keep the factors of every eigenvalue."""
        held = [start[r][None] if r < len(start) else np.zeros_like(start[:1]) for r in range(self.most + 1)]
        blocks: list[list[np.ndarray]] = [[] for _ in range(self.tree.num_leaves)]
        for sample in self.system.samples:
            slopes, orders = self._read(sample, held, np.array([t + self.dt / 2])).by_jet, _orders(sample)
            for leaf, where, tables, scales in sample.parts:
                columns = self.system.own_columns(leaf)
                rows = np.zeros((self.most + 1, where.stop - where.start, columns[-1].stop))
                for a, (k, _) in enumerate(sample.residual.jets):
                    rows[orders[a], :, columns[k]] += (slopes[a, where] * scales[a])[:, None] * tables[a]
                blocks[leaf].append(rows)
        linear = self._linear_rows(np.zeros((self.tree.num_leaves, self.functions.num_columns)))
        self.linear = [piece.own for piece in linear]
        self.factors, self.lengths = [], []
        powers = np.arange(self.most + 1)
        for rate in self.rule.rates:
            pieces, lengths = [], []
            shift = (rate / self.dt) ** powers
            for block, piece, is_cut in zip(blocks, linear, self.tree.is_cut, strict=True):
                kinds = [np.tensordot(shift, rows, (0, 0)) for rows in block]
                # Least squares in a cut piece: one scale for all rows of a kind.
                norm = lambda own, is_cut=is_cut: (
                    np.full(len(own), np.linalg.norm(own) / np.sqrt(max(len(own), 1)))
                    if is_cut
                    else np.linalg.norm(own, axis=1)
                )
                length = np.concatenate([norm(own) for own in kinds])
                lengths.append(np.where(length > 0, length, 1.0))
                own = np.concatenate([np.concatenate(kinds) / lengths[-1][:, None], piece.own])
                traces = np.concatenate([np.zeros((len(length), piece.traces.shape[1])), piece.traces])
                pieces.append(PieceRows(own, traces.astype(complex), np.zeros(0), piece.names))
            self.factors.append(KeptFactors(pieces, self.system.sizes, self.order))
            self.lengths.append(lengths)

    def _own(self, values: np.ndarray, leaf: int) -> np.ndarray:
        """Coefficients (S, C) of a piece in its own functions."""
        views = self.system.views
        return np.stack([np.concatenate(views[leaf].own(v)) for v in values]) if views else values

    def _misfits(self, values: np.ndarray, start: np.ndarray, t: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What residuals, and ties and fixed rows, leave at every node: (s, rows) for each piece."""
        derivatives, times = self.derivatives(values, start), t + self.rule.nodes * self.dt
        found: list[list[np.ndarray]] = [[] for _ in range(self.tree.num_leaves)]
        for sample in self.system.samples:
            value = self._read(sample, derivatives, times).value.reshape(len(times), -1)
            for part in sample.parts:
                found[part.leaf].append(value[:, part.where])
        residuals = [np.concatenate(parts, axis=1) for parts in found]
        ties = [self._own(values[:, leaf], leaf) @ own.T for leaf, own in enumerate(self.linear)]
        return residuals, ties

    def solve(self, start: np.ndarray, t: float, local: float, guess: np.ndarray | None = None) -> Stages:
        """The slab from t on, corrected until a correction is a hundredth of the local tolerance."""
        values = self._taylor(start, 0) + start[0] * (1 - self.started[0]) if guess is None else guess
        last, contraction = np.inf, 0.0
        lag = followers(self.setup.orders)
        led = [k for k in range(len(self.setup.orders)) if k not in lag]
        for step in range(MAX_ROUNDS):
            residuals, ties = self._misfits(values, start, t)
            change = np.zeros_like(values)
            for vector, dual, factors, lengths in zip(
                self.rule.vectors.T, self.rule.dual, self.factors, self.lengths, strict=True
            ):
                parts = zip(residuals, ties, lengths, strict=True)
                right = [-np.concatenate([dual @ value / length, dual @ tie]) for value, tie, length in parts]
                found = self.system.gathered(factors.solve(right))
                change += np.real(np.multiply.outer(vector, found))
            if not np.isfinite(change).all():
                return Stages(values, False, np.inf)
            values = values + change
            sizes = [scale(norms(self.functions, self.tree, v)) for v in values]
            size = float(
                max(np.max((norms(self.functions, self.tree, c) / s)[led]) for c, s in zip(change, sizes, strict=True))
            )
            if step > 0:
                contraction = max(contraction, size / last) if size > 1e-12 else contraction
                if size / last > 1 and size > 1e-9:
                    return Stages(values, False, contraction)
            if step > 0 and size * max(min(contraction, 0.9), 0.1) <= 0.01 * local:
                break
            last = size
        else:
            return Stages(values, False, contraction)
        for k in self.setup.free:  # nothing fixes the constant: the mean is zero
            first = self.system.own_columns(0)[k].start
            means = np.stack([self._own(values[:, leaf], leaf)[:, first] for leaf in range(self.tree.num_leaves)])
            values[:, :, self.functions.columns[k].start] -= (self.tree.shares @ means)[:, None]
        return Stages(values, True, contraction)


def space_functions(setup: Setup, tree: Tree, nodes: tuple[int, ...]) -> Functions:
    """The functions of a tree in space for a problem of space and time."""
    orders = tuple(row[:-1] for row in setup.orders)
    return Functions(nodes, orders, setup.ties[:-1], EXTRA if tree.is_cut.any() else 0)


def _orders(sample: Sample) -> np.ndarray:
    """How often each jet of a residual is differentiated in time, (A,)."""
    assert isinstance(sample.residual, InSpace)
    return sample.residual.orders


def _in_space(place: Place, setup: Setup) -> Keep | None:
    """Which points of space belong to a place: those that do at the beginning."""
    keep = place.keep
    if keep is None:
        return None
    begin = float(setup.bounds[-1, 0])
    add = lambda array, value: np.concatenate([array, np.full((len(array), 1), value)], axis=1)
    return lambda points, normals: keep(add(points, begin), add(normals, 0.0))
