"""Following the dynamics of a control problem, forward for the states and backward for the costates: Gauss collocation.

Element e of [0, 1] with edges s_e, width H_e, and q Gauss nodes c_i (Butcher matrix A, weights b):

    V_i = v_e + H sum_j A_ij F(V_j),    v_{e+1} = v_e + H sum_j b_j F(V_j),    J = phi + sum_e H sum_j b_j l(V_j),

of order 2q at the edges. Its discrete adjoint is again a Gauss scheme (W. W. Hager, Numer. Math. 87 (2000) 247): with
the Hamiltonian h = l + p.F and stage costates P_i

    P_i = p_{e+1} + H sum_j (A_ji b_j / b_i) h_v(V_j, P_j),    p_e = p_{e+1} + H sum_j b_j h_v(V_j, P_j),
    dJ/dW_i = H b_i h_w(V_i, P_i),

so gradients are exact for the discrete problem and of high order for the continuous one. Arrays are (E, P, q, ...): elements,
starts, nodes. `simulate` takes inputs on a given grid; `follow` refines the grid until the cost, which users see, is accurate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.polynomial.legendre import legint, legvander

from flm.control.equations import First, Last, Multipliers, finish, first_order
from flm.series import legendre

if TYPE_CHECKING:
    from flm.control.problem import OptimalControl

NODES = 8  # order 16 at the edges, 9 in between
_NEWTON_STEPS = 14
_SOLVED = 1e-9  # largest relative residual of the stage equations that counts as solved
_ELEMENTS = (6, 12, 24, 48, 96, 192, 384)
_TOL = 1e-12  # relative change of cost and final state, on halving the elements, at which refinement ends


class Scheme(NamedTuple):
    """Nodes (q,), Butcher matrix (q, q) and weights (q,) of a Gauss method on [0, 1]."""

    nodes: np.ndarray
    matrix: np.ndarray
    weights: np.ndarray


@lru_cache(maxsize=8)
def gauss(q: int = NODES) -> Scheme:
    """The Gauss–Legendre method with q stages."""
    x, weights = legendre.gauss(q)
    return Scheme((x + 1) / 2, _integrals(q, (x + 1) / 2), weights)


def _integrals(q: int, ends: np.ndarray) -> np.ndarray:
    """∫₀^end of each Lagrange polynomial on the q Gauss nodes, (len(ends), q)."""
    x, weights = legendre.gauss(q)
    # l_j(y) = w_j sum_k (2k+1) P_k(x_j) P_k(y), weights of sum 1: exact, since the rule integrates degree 2q - 1.
    lagrange = (legvander(x, q - 1) * weights[:, None] * (2 * np.arange(q) + 1)).T  # (k, j)
    primitive = legint(np.eye(q), lbnd=-1)  # (q + 1, k)
    return 0.5 * legvander(2 * np.asarray(ends) - 1, q) @ primitive @ lagrange


def grid(edges: np.ndarray, num_starts: int, q: int = NODES) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (E, P, q) and widths (E, P) of elements with edges (E + 1,), (E + 1, 1) or (E + 1, P)."""
    edges = np.asarray(edges, float)
    edges = (edges[:, None] if edges.ndim == 1 else edges) * np.ones(num_starts)
    width = np.diff(edges, axis=0)
    return edges[:-1, :, None] + width[..., None] * gauss(q).nodes, width


def edges_with(num_elements: int, num_starts: int, breaks: np.ndarray | None) -> np.ndarray:
    """Even edges and each start's own breaks (P, B), sorted, (E + 1, P); a break that is nan becomes one more edge at the end."""
    edges = np.linspace(0.0, 1.0, num_elements + 1)[:, None] * np.ones(num_starts)
    if breaks is None:
        return edges
    return np.sort(np.concatenate([edges, np.where(np.isnan(breaks), 1.0, breaks).T]), axis=0)


@dataclass(frozen=True, eq=False)
class Simulated:
    """Trajectories on a collocation grid, with values and derivatives at its nodes and at the end.

    `cost` and `lagrangian` (P,) are infinite where the dynamics could not be solved; `violation` (P,) is the largest value of
    a path constraint, or absolute value of a terminal one.
    """

    problem: OptimalControl
    s: np.ndarray  # the nodes' normalized times, (E, P, q)
    width: np.ndarray  # of the elements, (E, P)
    stages: np.ndarray  # coordinates at the nodes, (E, P, q, d)
    edges: np.ndarray  # coordinates between elements, (E + 1, P, d)
    inputs: np.ndarray  # (E, P, q, k)
    first: First
    last: Last
    cost: np.ndarray
    lagrangian: np.ndarray
    violation: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Quadrature weights of the nodes, (E, P, q)."""
        return self.width[..., None] * gauss(self.s.shape[-1]).weights

    @property
    def duration(self) -> np.ndarray:
        """The final times, (P,)."""
        fixed = np.full_like(self.cost, self.problem.numbers[-1])
        return np.exp(self.inputs[-1, :, -1, -1]) if self.problem.free else fixed

    def coordinates(self, s: np.ndarray) -> np.ndarray:
        """Coordinates (P, R, d) at normalized times s (P, R), by the collocation polynomials."""
        num_elements, _, q, d = self.stages.shape
        left = self.s[:, :, 0] - self.width * gauss(q).nodes[0]  # (E, P)
        v = np.empty((*s.shape, d))
        for p, times in enumerate(s):
            e = np.clip(np.searchsorted(left[:, p], times, side="right") - 1, 0, num_elements - 1)
            width = self.width[e, p]
            inside = np.clip((times - left[e, p]) / np.where(width > 0, width, 1.0), 0.0, 1.0)
            moved = np.einsum("rj,rjd->rd", _integrals(q, inside), self.first.rates[e, p])
            v[p] = self.edges[e, p] + width[:, None] * moved
        return v

    def at_nodes(self, s: np.ndarray) -> np.ndarray | None:
        """Coordinates (E, P, q, d) at the nodes s (E, P, q) of another grid; none if a start has failed."""
        if not np.isfinite(self.cost).all():
            return None
        elements, starts, q = s.shape
        found = self.coordinates(np.swapaxes(s, 0, 1).reshape(starts, -1))
        return np.swapaxes(found.reshape(starts, elements, q, -1), 0, 1)

    def states(self, s: np.ndarray) -> np.ndarray:
        """All states (P, R, n) at normalized times s (P, R); on the simplex nonnegative."""
        x = self.problem.starts.lift(self.coordinates(s))
        if not self.problem.on_simplex:
            return x
        x = np.maximum(x, 0.0)
        return x / x.sum(axis=-1, keepdims=True)

    def mixed(self, other: Simulated, mask: np.ndarray) -> Simulated:
        """This run with the starts under `mask` (P,) taken from another one on the same grid."""

        def pick(mine: np.ndarray, theirs: np.ndarray, axis: int = 0) -> np.ndarray:
            return np.where(np.expand_dims(mask, [i for i in range(mine.ndim) if i != axis]), theirs, mine)

        at_nodes = partial(pick, axis=1)
        by_start = ("cost", "lagrangian", "violation")
        return replace(
            self,
            **{name: at_nodes(getattr(self, name), getattr(other, name)) for name in ("stages", "edges", "inputs")},
            **{name: pick(getattr(self, name), getattr(other, name)) for name in by_start},
            first=First(*map(at_nodes, self.first, other.first)),
            last=Last(*map(pick, self.last, other.last)),
        )


def simulate(
    problem: OptimalControl,
    v0: np.ndarray,
    inputs: np.ndarray,
    edges: np.ndarray,
    *,
    guess: np.ndarray | None = None,
    multipliers: Multipliers | None = None,
) -> Simulated:
    """Solve the dynamics from v0 (P, d) under inputs (E, P, q, k); a start that fails has infinite cost.

    The elements have edges (E + 1,) or (E + 1, P). With a guess of the stages (E, P, q, d) all stages are solved for
    together; without one, element after element.
    """
    num_starts, q = inputs.shape[1:3]
    scheme = gauss(q)
    s, width = grid(edges, num_starts, q)

    def rates_at(stages: np.ndarray, part: slice = slice(None)) -> First:
        return first_order(problem, s[part], stages, inputs[part])

    with np.errstate(invalid="ignore", over="ignore"):  # starts that diverge become nan, and their cost infinite
        if guess is None:
            stages, edge = np.empty((len(width), num_starts, q, v0.shape[1])), v0
            for e in range(len(width)):
                part = slice(e, e + 1)
                still = np.repeat(edge[None, :, None, :], q, axis=2)
                stages[part], edge = _stages(lambda v, part=part: rates_at(v, part), scheme, width[part], edge, still)
        else:
            stages, _ = _stages(rates_at, scheme, width, v0, guess)
        first = first_order(problem, s, stages, inputs, multipliers)
    ends = _edges(scheme, width, first.rates, v0)
    last = finish(problem, ends[-1], inputs[-1, :, -1], multipliers)

    def total(density, final):
        value = np.einsum("epq,epq->p", width[..., None] * scheme.weights, density) + final
        return np.where(np.isfinite(value), value, np.inf)

    cost, lagrangian = total(first.running, last.cost), total(first.lagrangian, last.lagrangian)
    violation = np.maximum(first.path.max(axis=(0, 2, 3), initial=0.0), np.abs(last.terminal).max(axis=1, initial=0.0))
    return Simulated(problem, s, width, stages, ends, inputs, first, last, cost, lagrangian, violation)


def follow(
    problem: OptimalControl,
    v0: np.ndarray,
    inputs: Callable[[np.ndarray], np.ndarray],
    breaks: np.ndarray | None = None,
) -> Simulated:
    """The dynamics from v0 (P, d), refined until halving the elements changes nothing or no longer helps.

    Each run is the guess of the next. The inputs (E, P, q, k) are a function of the nodes' times. Elements end at the
    `breaks` (P, B), nan for none: normalized times at which the inputs are not smooth.
    """
    run, change = None, np.inf
    for num_elements in _ELEMENTS:
        edges, previous = edges_with(num_elements, len(v0), breaks), run
        s = grid(edges, len(v0))[0]
        run = simulate(problem, v0, inputs(s), edges, guess=None if previous is None else previous.at_nodes(s))
        if previous is not None:
            last, change = change, _change(run, previous)
            if change < _TOL or (change < 1e-9 and change > 0.3 * last) or (num_elements >= 48 and change == np.inf):
                break
    assert run is not None
    if not problem.equations.path:
        return run
    s = edges[:, :, None]  # nodes are inside elements: the beginning, where no control helps, is looked at too
    at_edges = first_order(problem, s, run.edges[:, :, None], inputs(s)).path
    return replace(run, violation=np.maximum(run.violation, at_edges.max(axis=(0, 2, 3))))


def _change(run: Simulated, previous: Simulated) -> float:
    """The largest relative change of cost and final state; infinite when a start fails."""
    if not (np.isfinite(run.cost) & np.isfinite(previous.cost)).all():
        return np.inf
    cost = np.abs(run.cost - previous.cost) / (np.abs(run.cost) + 1e-3 * np.abs(run.cost).mean() + 1e-300)
    end = np.abs(run.edges[-1] - previous.edges[-1]).max(axis=1) / (1.0 + np.abs(run.edges[-1]).max(axis=1))
    return float(max(cost.max(), end.max()))


@dataclass(frozen=True, eq=False)
class Adjoint:
    """Stage costates (E, P, q, d), initial costates (P, d) and the Hamiltonian's input gradient (E, P, q, k)."""

    stages: np.ndarray
    initial: np.ndarray
    h_w: np.ndarray


def adjoint(run: Simulated) -> Adjoint:
    """The costates of the Lagrangian along `run`: the linear equations of the transposed scheme, solved from the end."""
    scheme, d = gauss(run.stages.shape[2]), run.stages.shape[3]
    mixed = (scheme.matrix * scheme.weights[:, None] / scheme.weights).T  # (i, j): A_ji b_j / b_i
    transposed, slope = np.swapaxes(run.first.F_z, -1, -2)[::-1], run.first.l_z[::-1, ..., None]
    end = run.last.phi_z[:, :d, None]
    costates, first = sweep(mixed, run.width[::-1], transposed[..., :d, :], slope[..., :d, :], end)
    h_w = slope[..., d:, :] + transposed[..., d:, :] @ costates
    return Adjoint(costates[::-1, ..., 0], first[..., 0], h_w[::-1, ..., 0])


def sweep(
    matrix: np.ndarray, width: np.ndarray, jacobian: np.ndarray, forcing: np.ndarray, edge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Stages X (E, P, q, d, m) of linear equations X' = D X + f from an edge x (P, d, m), and the last edge.

        X_i = x_e + H sum_j M_ij (D_j X_j + f_j),    x_{e+1} = x_e + H sum_j b_j (D_j X_j + f_j)

    The stages are base + response x_e: one solve gives both for all elements, then x_e follows element after element.
    """
    *batch, q, d, m = forcing.shape
    turned = np.swapaxes(jacobian, -3, -2)[..., None, :, :, :]
    system = (-width[..., None, None, None, None] * matrix[:, None, :, None] * turned).reshape(-1, q * d, q * d)
    system[:, np.arange(q * d), np.arange(q * d)] += 1.0
    good = np.isfinite(system).all(axis=(1, 2))
    system[~good] = np.eye(q * d)
    driven = width[..., None, None, None] * (matrix @ forcing.reshape(*batch, q, d * m)).reshape(forcing.shape)
    right = np.concatenate([driven, np.broadcast_to(np.eye(d), (*batch, q, d, d))], axis=-1)
    right = right.reshape(-1, q * d, m + d)
    try:
        solved = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:  # a start with a singular matrix fails, the others go on
        good = good & (np.linalg.det(system) != 0)
        system[~good] = np.eye(q * d)
        solved = np.linalg.solve(system, right)
    solved[~good] = np.nan
    base, response = np.split(solved.reshape(*batch, q, d, m + d), [m], axis=-1)
    # x_{e+1} = x_e + turn x_e + shift: all of them for all elements together, so that only x_e is left to the loop.
    weights = width[..., None] * gauss(q).weights
    slopes = jacobian @ base + forcing, jacobian @ response
    shift, turn = ((weights[..., None, :] @ a.reshape(*batch, q, -1)).reshape(*batch, d, -1) for a in slopes)
    edges = np.empty((*batch, d, m))
    for e in range(len(width)):
        edges[e] = edge
        edge = edge + turn[e] @ edge + shift[e]
    stages = base + response @ edges[:, :, None]
    return stages, edge


def _stages(
    rates_at: Callable[[np.ndarray], First], scheme: Scheme, width: np.ndarray, v0: np.ndarray, stages: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Stages of some elements together, by Newton's method from a guess, and the last edge; nan for starts that fail."""
    before = np.full(len(v0), np.inf)
    for _ in range(_NEWTON_STEPS):
        rates, F_z = rates_at(stages)[:2]
        edges = _edges(scheme, width, rates, v0)
        residual = stages - width[..., None, None] * (scheme.matrix @ rates) - edges[:-1, :, None]
        size = np.abs(residual).max(axis=(0, 2, 3)) / (1.0 + np.abs(stages).max(axis=(0, 2, 3)))
        # Stop when every start is solved to rounding, no longer improves at that level, or has failed.
        if np.all((size < 1e-15) | ((size < 1e-12) & (size > 0.3 * before)) | ~np.isfinite(size)):
            break
        before, F_v = size, F_z[..., : v0.shape[1]]
        forcing = rates[..., None] - F_v @ stages[..., None]
        stages = sweep(scheme.matrix, width, F_v, forcing, v0[..., None])[0][..., 0]
    good = np.asarray(size < _SOLVED)
    return np.where(good[:, None, None], stages, np.nan), np.where(good[:, None], edges[-1], np.nan)


def _edges(scheme: Scheme, width: np.ndarray, rates: np.ndarray, v0: np.ndarray) -> np.ndarray:
    """The edges (E + 1, P, d) that rates (E, P, q, d) at the nodes lead to."""
    moved = np.cumsum(width[..., None] * np.einsum("q,epqd->epd", scheme.weights, rates), axis=0)
    return np.concatenate([v0[None], v0 + moved])
