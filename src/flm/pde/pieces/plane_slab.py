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
from flm.pde.pieces.elimination import KeptFactors, PieceRows, plan
from flm.pde.pieces.functions import Functions
from flm.pde.pieces.newton import followers, norms, scale
from flm.pde.pieces.places import Keep, Place
from flm.pde.pieces.rows import Sample, System
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

    def __post_init__(self) -> None:
        setup, last = self.setup, self.tree.num_axes
        functions = Functions(self.nodes, tuple(row[:-1] for row in setup.orders), setup.ties[:-1])
        self.residuals = [InSpace(residual) for residual in setup.equations]
        places = []
        for place in setup.places:
            if last not in place.pinned and not isinstance(place.residual, InSpace):
                self.residuals.append(InSpace(place.residual))
                places.append(Place(self.residuals[-1], place.pinned, place.normal[:-1], _in_space(place, setup)))
        equations = self.residuals[: len(setup.equations)]
        self.system = System(functions, self.tree, equations, places, setup.parameters, free=setup.free)
        self.order = plan(self.system.members, self.system.sizes)
        self.most = max(row[-1] for row in setup.orders)
        # which derivatives at the start each coefficient has, (R, C)
        self.started = np.zeros((max(self.most, 1), functions.num_columns))
        for k, row in enumerate(setup.orders):
            self.started[: row[-1], functions.columns[k]] = 1.0

    @property
    def functions(self) -> Functions:
        """Of every piece of space."""
        return self.system.functions

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

    def _read(
        self, sample: Sample, coefficients: Sequence[np.ndarray], times: np.ndarray
    ) -> tuple[Linearized, np.ndarray]:
        """A sample's residual at several times, and its shape (S, B, P).

        Args:
            sample: where.
            coefficients: for each derivative in time, at each of the times, (S, L, C).
            times: (S,).
        """
        assert isinstance(sample.residual, InSpace)
        orders, jets = sample.residual.orders, []
        for i in range(len(times)):
            found = self.system.jets(sample, coefficients[0][i])
            for order in set(orders.tolist()) - {0}:
                found[orders == order] = self.system.jets(sample, coefficients[order][i])[orders == order]
            jets.append(found)
        shape = (len(times), *sample.points.shape[:2])
        at = np.broadcast_to(times[:, None, None, None], (*shape, 1))
        spread = lambda array, last: np.concatenate(
            [np.broadcast_to(array, (*shape, array.shape[-1])), last], axis=-1
        ).reshape(-1, array.shape[-1] + 1)
        flat = np.stack(jets, axis=1).reshape(len(orders), -1)
        points, normals = spread(sample.points, at), spread(sample.normals, np.zeros_like(at))
        return sample.residual.linearize(points, flat, self.setup.parameters, normals), np.array(shape)

    def _linear_rows(self, coefficients: np.ndarray) -> list[PieceRows]:
        """Ties and fixed rows alone."""
        keep, self.system.samples = self.system.samples, []
        rows = self.system.assemble(coefficients)
        self.system.samples = keep
        return rows

    def factorize(self, start: np.ndarray, t: float) -> None:
        """Freeze the Jacobian at a state, half a slab after t, and keep the factors of every eigenvalue."""
        held = [start[r][None] if r < len(start) else np.zeros_like(start[:1]) for r in range(self.most + 1)]
        leaves, width = self.tree.num_leaves, self.functions.num_columns
        blocks: list[list[np.ndarray]] = [[] for _ in range(leaves)]
        for sample in self.system.samples:
            assert isinstance(sample.residual, InSpace)
            found, shape = self._read(sample, held, np.array([t + self.dt / 2]))
            slopes = found.by_jet.reshape(-1, *shape[1:])
            scales, orders = self.system.scales(sample), sample.residual.orders
            for i, leaf in enumerate(sample.leaves):
                rows = np.zeros((self.most + 1, sample.points.shape[1], width))
                for a, (k, _) in enumerate(sample.residual.jets):
                    table = sample.tables[a][sample.kinds[i]]
                    rows[orders[a], :, self.functions.columns[k]] += (slopes[a, i] * scales[a, i])[:, None] * table
                blocks[leaf].append(rows[:, sample.keep[i]])
        linear = self._linear_rows(np.zeros((leaves, width)))
        self.linear = [piece.own for piece in linear]
        self.factors, self.lengths = [], []
        powers = np.arange(self.most + 1)
        for rate in self.rule.rates:
            pieces, lengths = [], []
            shift = (rate / self.dt) ** powers
            for block, piece in zip(blocks, linear, strict=True):
                own = np.tensordot(shift, np.concatenate(block, axis=1), (0, 0))
                length = np.linalg.norm(own, axis=1)
                lengths.append(np.where(length > 0, length, 1.0))
                own = np.concatenate([own / lengths[-1][:, None], piece.own])
                traces = np.concatenate([np.zeros((len(length), piece.traces.shape[1])), piece.traces])
                pieces.append(PieceRows(own, traces.astype(complex), np.zeros(0), piece.names))
            self.factors.append(KeptFactors(pieces, self.system.sizes, self.order))
            self.lengths.append(lengths)

    def _misfits(self, values: np.ndarray, start: np.ndarray, t: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What residuals, and ties and fixed rows, leave at every node: (s, rows) for each piece."""
        derivatives, times = self.derivatives(values, start), t + self.rule.nodes * self.dt
        found: list[list[np.ndarray]] = [[] for _ in range(self.tree.num_leaves)]
        for sample in self.system.samples:
            linear, shape = self._read(sample, derivatives, times)
            value = linear.value.reshape(shape)
            for j, leaf in enumerate(sample.leaves):
                found[leaf].append(value[:, j, sample.keep[j]])
        residuals = [np.concatenate(parts, axis=1) for parts in found]
        ties = [values[:, leaf] @ own.T for leaf, own in enumerate(self.linear)]
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
                found = np.stack(factors.solve(right))
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
            first = self.functions.columns[k].start
            values[:, :, first] -= (values[:, :, first] @ self.tree.shares)[:, None]
        return Stages(values, True, contraction)


def _in_space(place: Place, setup: Setup) -> Keep | None:
    """Which points of space belong to a place: those that do at the beginning."""
    keep = place.keep
    if keep is None:
        return None
    begin = float(setup.bounds[-1, 0])
    add = lambda array, value: np.concatenate([array, np.full((len(array), 1), value)], axis=1)
    return lambda points, normals: keep(add(points, begin), add(normals, 0.0))
