"""One slab of time over a tree in space, its Radau nodes decoupled by diagonalization.

On [0, 1] the s Radau nodes c_i end at 1; a polynomial of degree s that vanishes at 0 has the slopes A⁻¹ Y at the nodes, Y its
values there. The unknowns are the functions Y_i(x) at the nodes t_i. A derivative in time there is A⁻¹ (Y - T) / dt + T', T the
Taylor polynomial of the start. With A⁻¹ = V diag(λ) V⁻¹ and a frozen Jacobian the corrections of each eigenvalue λ solve one
problem in space alone, in which every derivative in time is a factor λ / dt; of each conjugate pair one is enough. Ties and
conditions are corrected with the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import factorial
from typing import NamedTuple

import numpy as np

from flm.language.arguments import Linearized
from flm.pde.pieces.cut import Along
from flm.pde.pieces.elimination import KeptFactors, PieceRows, plan
from flm.pde.pieces.fields import InSpace
from flm.pde.pieces.newton import followers, norms, scale
from flm.pde.pieces.places import Keep, Place, Sample
from flm.pde.pieces.rows import System
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.slabs import in_space
from flm.pde.pieces.tree import Tree
from flm.series import legendre as line

MAX_ROUNDS = 15  # corrections with one Jacobian
SLOW = 0.3  # a correction that shrinks by less asks for a new Jacobian


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


class Stages(NamedTuple):
    """The result of a slab: coefficients at the nodes (s, L, C), whether the corrections settled, and how slowly."""

    values: np.ndarray
    settled: bool
    contraction: float


class Plane:
    """A problem of space and time on one tree in space, with given numbers of equation nodes along its axes."""

    def __init__(self, setup: Setup, tree: Tree, nodes: tuple[int, ...], rule: Radau, dt: float):
        self.setup, self.tree, self.rule, self.dt = setup, tree, rule, dt
        self.functions = in_space(setup, tree, nodes)  # the products that coefficients are written in
        places = [
            Place(InSpace(place.residual), place.pinned, place.normal[:-1], _in_space(place, setup))
            for place in setup.places
            if tree.num_axes not in place.pinned and not isinstance(place.residual, InSpace)
        ]
        along = [Along(InSpace(a.residual), a.pieces) for a in setup.along if not isinstance(a.residual, InSpace)]
        equations = [InSpace(residual) for residual in setup.equations]
        self.system = System(self.functions, tree, equations, places, setup.parameters, free=setup.free, along=along)
        self.order = plan(self.system.members, self.system.sizes)
        self.most = max(row[-1] for row in setup.orders)
        # which derivatives at the start each coefficient has, (R, C)
        self.started = np.zeros((max(self.most, 1), self.functions.num_columns))
        for k, row in enumerate(setup.orders):
            self.started[: row[-1], self.functions.columns[k]] = 1.0
        self.factors: list[KeptFactors] = []  # of each eigenvalue
        self.lengths: list[list[np.ndarray]] = []  # of its rows, for each piece
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
        blocks: list[list[np.ndarray]] = [[] for _ in range(self.tree.num_leaves)]
        for sample in self.system.samples:
            slopes, orders = self._read(sample, held, np.array([t + self.dt / 2])).by_jet, _orders(sample)
            for leaf, where, tables, scales in sample.parts:
                columns = self.system.own_columns(leaf)
                rows = np.zeros((self.most + 1, where.stop - where.start, columns[-1].stop))
                for a, (k, _) in enumerate(sample.residual.jets):
                    rows[orders[a], :, columns[k]] += (slopes[a, where] * scales[a])[:, None] * tables[a]
                blocks[leaf].append(rows)
        samples, self.system.samples = self.system.samples, []
        linear = self.system.assemble(np.zeros(start.shape[1:]))  # ties and fixed rows alone
        self.system.samples = samples
        self.linear = [piece.own for piece in linear]
        self.factors, self.lengths = [], []
        powers = np.arange(self.most + 1)
        for rate in self.rule.rates:
            pieces, lengths = [], []
            shift = (rate / self.dt) ** powers
            for block, piece, is_cut in zip(blocks, linear, self.tree.is_cut, strict=True):
                kinds = [np.tensordot(shift, rows, (0, 0)) for rows in block]
                norm = [np.linalg.norm(own, axis=1) for own in kinds]
                if is_cut:  # least squares: one scale for all rows of a kind
                    norm = [np.full(len(n), np.linalg.norm(n) / np.sqrt(max(len(n), 1))) for n in norm]
                length = np.concatenate(norm)
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
        """The residuals, and those of ties and fixed rows, at every node: (s, rows) for each piece."""
        derivatives, times = self.derivatives(values, start), t + self.rule.nodes * self.dt
        found: list[list[np.ndarray]] = [[] for _ in range(self.tree.num_leaves)]
        for sample in self.system.samples:
            value = self._read(sample, derivatives, times).value.reshape(len(times), -1)
            for part in sample.parts:
                found[part.leaf].append(value[:, part.where])
        residuals = [np.concatenate(parts, axis=1) for parts in found]
        ties = [self._own(values[:, leaf], leaf) @ own.T for leaf, own in enumerate(self.linear)]
        return residuals, ties

    def solve(self, start: np.ndarray, t: float, local: float) -> Stages:
        """The slab from t on, corrected until a correction is a hundredth of the local tolerance."""
        values = self._taylor(start, 0) + start[0] * (1 - self.started[0])
        last, contraction = np.inf, 0.0
        led = [k for k in range(len(self.setup.orders)) if k not in followers(self.setup.orders)]
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
            norm = lambda coefficients: norms(self.functions, self.tree, coefficients)
            size = max(float(np.max((norm(c) / scale(norm(v)))[led])) for c, v in zip(change, values, strict=True))
            if step > 0:
                contraction = max(contraction, size / last) if size > 1e-12 else contraction
                if size > max(last, 1e-9):
                    return Stages(values, False, contraction)
                if size * max(min(contraction, 0.9), 0.1) <= 0.01 * local:
                    return Stages(self._centered(values), True, contraction)
            last = size
        return Stages(values, False, contraction)

    def _centered(self, values: np.ndarray) -> np.ndarray:
        """The values with zero mean where nothing fixes the constant."""
        for k in self.setup.free:
            first = self.system.own_columns(0)[k].start
            means = np.stack([self._own(values[:, leaf], leaf)[:, first] for leaf in range(self.tree.num_leaves)])
            values[:, :, self.functions.columns[k].start] -= (self.tree.shares @ means)[:, None]
        return values


def _orders(sample: Sample) -> np.ndarray:
    """How often each jet of a residual is differentiated in time, (A,)."""
    assert isinstance(sample.residual, InSpace)
    return sample.residual.orders


def _in_space(place: Place, setup: Setup) -> Keep | None:
    """Which points of space belong to a place: those that belong to it at the first time."""
    keep, begin = place.keep, float(setup.bounds[-1, 0])
    add = lambda array, value: np.insert(array, array.shape[1], value, axis=1)
    return None if keep is None else lambda points, normals: keep(add(points, begin), add(normals, 0.0))
