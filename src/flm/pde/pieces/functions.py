"""Functions of a piece: how many conditions each unknown takes along each axis, and what neighbors share.

All equations hold at the same q Gauss nodes along an axis, and unknown k has q + p_k Legendre functions there, so the sum of
the p_k must be the number of conditions at both ends together. That number is the degree of the system's determinant in the
derivative along the axis (4 for Stokes, where the highest derivatives sum to 5), found from the highest derivatives alone by
an assignment of unknowns to equations. An unknown whose p_k is below its highest derivative, such as a pressure, has no
trace of its own: it enters the flux of the equation in which it stands, nu u_x - p.

Columns of a piece are the unknowns' coefficients of products of these functions, one after the other, each in C order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from flm.pde.pieces.fields import AnyResidual, Parameters
from flm.pde.problem import PDE
from flm.series import legendre as line

NEVER = -1000  # in place of minus infinity: an equation in which an unknown does not stand
Orders = tuple[tuple[int, ...], ...]  # by unknown and axis
Alpha = tuple[int, ...]
Nodes = tuple[int | float, ...]  # along each axis so many Gauss nodes, or one coordinate of the reference piece


class Term(NamedTuple):
    """A factor times a derivative of an unknown across a face."""

    unknown: int
    order: int
    factor: float


@dataclass(frozen=True)
class Trace:
    """What neighbors share: D^order of an unknown across the face, plus factors times D^(order - 1) of other unknowns."""

    unknown: int
    order: int
    others: tuple[tuple[int, float], ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms of the trace."""
        return (Term(self.unknown, self.order, 1.0), *(Term(k, self.order - 1, factor) for k, factor in self.others))


@dataclass(frozen=True)
class Ties:
    """All traces on faces across one axis, values before fluxes.

    Where one side of a face is coarse and the other fine, some traces live on the whole side and the rest on each fine part:
    as many on the whole side as there are conditions at the end of the axis that lies behind the coarse leaf.
    """

    traces: tuple[Trace, ...]  # in the order in which they take the whole side
    whole: tuple[int, int]  # how many do so when the coarse leaf lies below the face, and above it


@dataclass(frozen=True)
class Functions:
    """The functions of every piece."""

    nodes: tuple[int, ...]  # Gauss nodes of the equations along each axis, (m,)
    orders: tuple[tuple[int, ...], ...]  # p, (K, m)
    ties: tuple[Ties, ...]  # what neighbors share across each axis
    extra: int = 0  # further functions along each axis that only pieces cut by a boundary use

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """n_kj: the number of functions of each unknown along each axis."""
        return tuple(
            tuple(q + p + self.extra for q, p in zip(self.nodes, orders, strict=True)) for orders in self.orders
        )

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """The slice of each unknown's coefficients."""
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in self.shapes)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @property
    def num_columns(self) -> int:
        """The number of coefficients of one piece."""
        return self.columns[-1].stop

    def table(self, unknown: int, alpha: Alpha, nodes: Nodes) -> np.ndarray:
        """D^alpha of an unknown's functions on a tensor grid of nodes, (P, N_k), on the reference piece."""
        return _tensor_table(self.shapes[unknown], alpha, nodes)

    def fitted(self, coefficients: np.ndarray, others: Functions) -> np.ndarray:
        """Coefficients (..., C) in `others` as coefficients in these functions: padded with zeros, or cut off."""
        lead = coefficients.shape[:-1]
        out = np.zeros((*lead, self.num_columns))
        for k, (mine, theirs) in enumerate(zip(self.shapes, others.shapes, strict=True)):
            common = (..., *(slice(0, min(n, o)) for n, o in zip(mine, theirs, strict=True)))
            block = np.zeros((*lead, *mine))
            block[common] = coefficients[..., others.columns[k]].reshape(*lead, *theirs)[common]
            out[..., self.columns[k]] = block.reshape(*lead, -1)
        return out


@lru_cache(maxsize=512)
def _tensor_table(shape: tuple[int, ...], alpha: Alpha, nodes: Nodes) -> np.ndarray:
    return reduce(np.kron, [line.node_table(z, n, a) for z, n, a in zip(nodes, shape, alpha, strict=True)])


@lru_cache(maxsize=256)
def grid(nodes: Nodes) -> np.ndarray:
    """The points of a tensor grid, (P, m), last axis fastest."""
    return np.stack([g.ravel() for g in np.meshgrid(*map(line.node_points, nodes), indexing="ij")], axis=1)


def highest_derivatives(problem: PDE, residuals: Sequence[AnyResidual]) -> Orders:
    """The highest derivative of each unknown along each axis, (K, m)."""
    highest = np.zeros((len(problem.unknowns), len(problem.axes)), int)
    for k, alpha in (jet for residual in residuals for jet in residual.jets):
        highest[k] = np.maximum(highest[k], alpha)
    return tuple(map(tuple, highest.tolist()))


def count(
    problem: PDE,
    residuals: Sequence[AnyResidual],
    known: Parameters,
    ends: Sequence[tuple[int, int]],
    named: Sequence[set[int]],
) -> tuple[Orders, tuple[Ties, ...]]:
    """p of each unknown along each axis and the ties across each axis, from the equations, the conditions at both ends of each
    axis, and the unknowns that these name."""
    highest = highest_derivatives(problem, residuals)
    orders = [list(row) for row in highest]
    for j, (below, above) in enumerate(ends):
        degree = _degree(residuals, len(highest), j)
        # Data at one end alone may have to satisfy a hidden equation, as both velocities of a flow at t = 0 do.
        target = degree if problem.periodic_axes[j] or (below and above) else max(degree, below + above)
        spare = sum(row[j] for row in highest) - max(target, 0)
        for k in sorted(range(len(orders)), key=lambda k: (k in named[j], highest[k][j])):
            less = max(min(spare, orders[k][j]), 0)
            orders[k][j] -= less
            spare -= less
    ties = []
    for j, pair in enumerate(ends):
        taken = sum(row[j] for row in orders)
        lowered = [k for k, row in enumerate(orders) if row[j] < highest[k][j]]
        fluxes = {k: _flux(problem, residuals, known, highest, k, j) for k in lowered}
        whole = pair if sum(pair) == taken and not problem.periodic_axes[j] else ((taken + 1) // 2, taken // 2)
        ties.append(Ties(_traces(highest, j, [row[j] for row in orders], fluxes), whole))
    return tuple(map(tuple, orders)), tuple(ties)


def _degree(residuals: Sequence[AnyResidual], num_unknowns: int, axis: int) -> int:
    """The degree of the determinant in the derivative along an axis: the best assignment of unknowns to equations."""
    table = np.full((len(residuals), num_unknowns), NEVER)
    for i, residual in enumerate(residuals):
        for k, alpha in residual.jets:
            table[i, k] = max(table[i, k], alpha[axis])
    if table.size == 1:
        return int(table[0, 0])
    from scipy.optimize import linear_sum_assignment  # imported here: only systems need it

    return int(table[linear_sum_assignment(table, maximize=True)].sum())


def plain_ties(highest: Orders, axis: int) -> Ties:
    """Every derivative across the faces of an axis below the highest: for regions, whose rows are least squares."""
    traces = _traces(highest, axis, [row[axis] for row in highest], {})
    return Ties(traces, ((len(traces) + 1) // 2, len(traces) // 2))


def _traces(
    highest: Orders, axis: int, orders: Sequence[int], fluxes: dict[int, tuple[int, float] | None]
) -> tuple[Trace, ...]:
    """The traces across an axis, values first; `fluxes` are those that hold lowered unknowns, if any."""
    traces = []
    for k, taken in enumerate(orders):
        for order in range(taken if fluxes.get(k) else highest[k][axis]):
            holds = [(m, flux[1]) for m, flux in fluxes.items() if flux and flux[0] == k and order == taken - 1]
            # The lower half of the derivatives are values. A lowered unknown without a flux is a further flux.
            place = np.inf if k in fluxes else order - highest[k][axis] / 2
            traces.append((place, Trace(k, order, tuple(holds))))
    return tuple(trace for _, trace in sorted(traces, key=lambda pair: pair[0]))


def _flux(
    problem: PDE, residuals: Sequence[AnyResidual], known: Parameters, highest: Orders, unknown: int, axis: int
) -> tuple[int, float] | None:
    """The unknown k whose flux D^(p-1) u_k + factor * u_m holds a lowered unknown m, if the factor is a number.

    Each highest derivative along the axis of an equation is lowered by one: nu u_xx - p_x belongs to nu u_x - p.
    """
    pure = lambda k, order: (k, tuple(order if j == axis else 0 for j in range(len(problem.axes))))
    own = pure(unknown, 1)
    if highest[unknown][axis] != 1:
        return None
    for residual in (residual for residual in residuals if own in residual.jets):
        for k, row in enumerate(highest):
            partner = pure(k, row[axis])
            if row[axis] >= 2 and partner in residual.jets:
                slopes, jets = sampled_slopes(residual, problem, known), residual.jets
                factors = np.concatenate([s[jets.index(own)] / s[jets.index(partner)] for s in slopes])
                if np.isfinite(factors).all() and np.ptp(factors) <= 1e-9 * np.abs(factors).max():
                    return k, float(factors[0])
    return None


def sampled_slopes(residual: AnyResidual, problem: PDE, known: Parameters) -> list[np.ndarray]:
    """A residual's derivatives in its jets at a few points, linearized at three random states, (A, P) each."""
    rng = np.random.default_rng(0)
    points = problem.domain.interior(16, seed=7, warp=False)
    normals = np.full_like(points, 1 / np.sqrt(points.shape[1]))
    draw = lambda: rng.normal(size=(len(residual.jets), len(points)))
    return [residual.linearize(points, draw(), known.elsewhere(), normals).by_jet for _ in range(3)]


def is_affine(residual: AnyResidual, problem: PDE, known: Parameters) -> bool:
    """Whether a residual's slopes are the same at all states."""
    slopes = sampled_slopes(residual, problem, known)
    return all(np.allclose(s, slopes[0], rtol=1e-9, atol=1e-12 * np.abs(slopes[0]).max(initial=0.0)) for s in slopes)
