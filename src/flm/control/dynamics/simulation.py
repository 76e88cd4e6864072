"""The dynamics of a control problem under given controls: Gauss collocation, batched over initial states.

Element e of [0, 1] with edges s_e, width H_e, and q Gauss nodes c_i (Butcher matrix A, weights b):

    V_i = v_e + H sum_j A_ij F(V_j),    v_{e+1} = v_e + H sum_j b_j F(V_j),    J = phi + sum_e H sum_j b_j l(V_j),

of order 2q at the edges. Its discrete adjoint is again a Gauss scheme (W. W. Hager, Numer. Math. 87 (2000) 247): with
the Hamiltonian h = l + p.F and stage costates P_i

    P_i = p_{e+1} + H sum_j (A_ji b_j / b_i) h_v(V_j, P_j),    p_e = p_{e+1} + H sum_j b_j h_v(V_j, P_j),
    dJ/dW_i = H b_i h_w(V_i, P_i),

so gradients are exact for the discrete problem and of high order for the continuous one.

Arrays are (E, P, q, ...): elements, starts, nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from flm.control.dynamics.kernels import First, Multipliers, finish, first_order

if TYPE_CHECKING:
    from flm.control.problem import OptimalControl

NODES = 8  # order 16 at the edges, 9 in between
_NEWTON_STEPS = 14
_SOLVED = 1e-9  # largest relative residual of the stage equations that counts as solved


class Scheme(NamedTuple):
    """Nodes (q,), Butcher matrix (q, q) and weights (q,) of a Gauss method on [0, 1]."""

    nodes: np.ndarray
    matrix: np.ndarray
    weights: np.ndarray


@lru_cache(maxsize=8)
def gauss(q: int = NODES) -> Scheme:
    """The Gauss–Legendre method with q stages."""
    x, weights = np.polynomial.legendre.leggauss(q)
    return Scheme((x + 1) / 2, integrals(q, (x + 1) / 2), weights / 2)


def integrals(q: int, ends: np.ndarray) -> np.ndarray:
    """∫₀^end of each Lagrange polynomial on the q Gauss nodes, (len(ends), q)."""
    legendre = np.polynomial.legendre
    x, weights = legendre.leggauss(q)
    degrees = np.arange(q)
    # l_j(y) = w_j sum_k (2k+1)/2 P_k(x_j) P_k(y): exact, since the rule integrates degree 2q - 1.
    lagrange = (legendre.legvander(x, q - 1) * weights[:, None] * (2 * degrees + 1) / 2).T  # (k, j)
    primitive = np.stack([legendre.legint(np.eye(q)[k], lbnd=-1) for k in degrees])  # (k, q + 1)
    return 0.5 * legendre.legvander(2 * np.asarray(ends) - 1, q) @ primitive.T @ lagrange


@dataclass(frozen=True, eq=False)
class Simulated:
    """Trajectories on a collocation grid.

    `s`, `width` are the nodes' normalized times (E, P, q) and the elements' widths (E, P); `stages` (E, P, q, d) and
    `edges` (E + 1, P, d) coordinates; `inputs` (E, P, q, k). The pointwise derivatives of rates and running
    Lagrangian with respect to (v, w) are `F_z` (E, P, q, d, d + k) and `l_z` (E, P, q, d + k).
    """

    s: np.ndarray
    width: np.ndarray
    stages: np.ndarray
    edges: np.ndarray
    inputs: np.ndarray
    rates: np.ndarray
    F_z: np.ndarray
    l_z: np.ndarray
    cost: np.ndarray
    lagrangian: np.ndarray
    phi_z: np.ndarray
    phi_zz: np.ndarray
    path: np.ndarray
    terminal: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Quadrature weights of the nodes, (E, P, q)."""
        return self.width[..., None] * gauss(self.s.shape[-1]).weights

    @property
    def violation(self) -> np.ndarray:
        """The largest path (positive part) or terminal (absolute) constraint value of each start, (P,)."""
        path = np.maximum(self.path, 0.0).max(axis=(0, 2, 3), initial=0.0)
        return np.maximum(path, np.abs(self.terminal).max(axis=1, initial=0.0))

    def mixed(self, other: Simulated, mask: np.ndarray) -> Simulated:
        """This run with the starts under `mask` (P,) taken from another one on the same grid."""
        by_start = ("cost", "lagrangian", "phi_z", "phi_zz", "terminal")

        def pick(name):
            mine, theirs, axis = getattr(self, name), getattr(other, name), int(name not in by_start)
            shape = (*(1,) * axis, -1, *(1,) * (mine.ndim - axis - 1))
            return np.where(mask.reshape(shape), theirs, mine)

        return Simulated(**{field.name: pick(field.name) for field in fields(self)})


def grid(edges: np.ndarray, num_starts: int, q: int = NODES) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (E, P, q) and widths (E, P) of elements with edges (E + 1,), (E + 1, 1) or (E + 1, P)."""
    edges = np.asarray(edges, float)
    edges = (edges[:, None] if edges.ndim == 1 else edges) * np.ones(num_starts)
    width = np.diff(edges, axis=0)
    return edges[:-1, :, None] + width[..., None] * gauss(q).nodes, width


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

    The elements have edges (E + 1,) or (E + 1, P). With a guess of the stages (E, P, q, d) all of them are solved for
    together, without one element after element.
    """
    num_starts, q = inputs.shape[1:3]
    scheme = gauss(q)
    s, width = grid(edges, num_starts, q)

    def rates_at(stages: np.ndarray, part: slice = slice(None)) -> First:
        kept = multipliers and replace(multipliers, path=multipliers.path[part])
        return first_order(problem, s[part], stages, inputs[part], kept)

    with np.errstate(invalid="ignore", over="ignore"):  # starts that run away become nan, and cost infinity
        if guess is None:
            stages, edge = np.empty((len(width), num_starts, q, v0.shape[1])), v0
            for e in range(len(width)):
                part = slice(e, e + 1)
                still = np.repeat(edge[None, :, None, :], q, axis=2)
                stages[part], edge = _stages(lambda v, part=part: rates_at(v, part), scheme, width[part], edge, still)
        else:
            stages, _ = _stages(rates_at, scheme, width, v0, guess)
        first = rates_at(stages)
    moved = np.cumsum(width[..., None] * np.einsum("q,epqd->epd", scheme.weights, first.rates), axis=0)
    ends = np.concatenate([v0[None], v0 + moved])
    last = finish(problem, ends[-1], inputs[-1, :, -1], multipliers)

    def total(density, final):
        value = np.einsum("epq,epq->p", width[..., None] * scheme.weights, density) + final
        return np.where(np.isfinite(value), value, np.inf)

    cost, lagrangian = total(first.running, last.cost), total(first.lagrangian, last.lagrangian)
    return Simulated(
        s, width, stages, ends, inputs, first.rates, first.F_z, first.l_z,
        cost, lagrangian, last.phi_z, last.phi_zz, first.path, last.terminal,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Adjoint:
    """Stage costates (E, P, q, d), initial costates (P, d) and the Hamiltonian's input gradient (E, P, q, k)."""

    stages: np.ndarray
    initial: np.ndarray
    h_w: np.ndarray


def adjoint(run: Simulated) -> Adjoint:
    """The costates of the Lagrangian along `run`."""
    num_elements, num_starts, q, d = run.stages.shape
    scheme = gauss(q)
    mixed = (scheme.matrix * scheme.weights[:, None] / scheme.weights).T  # (i, j): A_ji b_j / b_i
    transposed = np.swapaxes(run.F_z[..., :d], -1, -2)
    # P = base + response p_{e+1}: one solve for all elements, then a sweep from the end.
    base = run.width[..., None, None] * (mixed @ run.l_z[..., :d])
    response = np.broadcast_to(np.eye(d), (num_elements, num_starts, q, d, d))
    both = stage_solve(mixed, run.width, transposed, np.concatenate([base[..., None], response], axis=-1))
    costates, p = np.empty_like(run.stages), run.phi_z[:, :d]
    for e in reversed(range(num_elements)):
        costates[e] = both[e, ..., 0] + (both[e, ..., 1:] @ p[:, None, :, None])[..., 0]
        slope = run.l_z[e][..., :d] + (transposed[e] @ costates[e][..., None])[..., 0]
        p = p + run.width[e][:, None] * np.einsum("q,pqd->pd", scheme.weights, slope)
    h_w = run.l_z[..., d:] + (np.swapaxes(run.F_z[..., d:], -1, -2) @ costates[..., None])[..., 0]
    return Adjoint(costates, p, h_w)


def stage_solve(matrix: np.ndarray, width: np.ndarray, jacobian: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve X_i - width sum_j M_ij D_j X_j = R_i for the stages X of many elements at once.

    M is (q, q), the widths (...), D (..., q, d, d) and R (..., q, d, m).
    """
    *batch, q, d, m = right.shape
    system = (-width[..., None, None, None, None] * matrix[:, None, :, None]) * np.swapaxes(jacobian, -3, -2)[
        ..., None, :, :, :
    ]
    system = system.reshape(-1, q * d, q * d)
    system[:, np.arange(q * d), np.arange(q * d)] += 1.0
    good = np.isfinite(system).all(axis=(1, 2))
    if not good.all():
        system[~good] = np.eye(q * d)
    try:
        solved = np.linalg.solve(system, right.reshape(-1, q * d, m))
    except np.linalg.LinAlgError:
        solved = np.full((len(system), q * d, m), np.nan)
    solved[~good] = np.nan
    return solved.reshape(*batch, q, d, m)


def _stages(
    rates_at: Callable[[np.ndarray], First], scheme: Scheme, width: np.ndarray, v0: np.ndarray, stages: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Stages of some elements together, by Newton's method from a guess, and their last edge; nan for starts that fail."""
    num_elements, num_starts, q, d = stages.shape
    h = width[..., None, None]
    unit = np.broadcast_to(np.eye(d), (num_elements, num_starts, q, d, d))
    before = np.full(num_starts, np.inf)
    for _ in range(_NEWTON_STEPS):
        rates, F_z = rates_at(stages)[:2]
        ends = v0 + np.cumsum(h[..., 0] * np.einsum("q,epqd->epd", scheme.weights, rates), axis=0)
        defect = stages - h * (scheme.matrix @ rates)
        residual = defect - np.concatenate([v0[None], ends[:-1]])[:, :, None, :]
        size = np.abs(residual).max(axis=(0, 2, 3)) / (1.0 + np.abs(stages).max(axis=(0, 2, 3)))
        # Every start is solved to rounding, no longer improving at that level, or lost.
        if np.all((size < 1e-15) | ((size < 1e-12) & (size > 0.3 * before)) | ~np.isfinite(size)):
            break
        before = size
        # New stages are base + response (new edge), and so is the next edge.
        both = stage_solve(scheme.matrix, width, F_z[..., :d], np.concatenate([defect[..., None], unit], axis=-1))
        base, response = stages - both[..., 0], both[..., 1:]
        new, edge = np.empty_like(stages), v0
        for e in range(num_elements):
            new[e] = base[e] + (response[e] @ edge[:, None, :, None])[..., 0]
            slope = rates[e] + (F_z[e][..., :d] @ (new[e] - stages[e])[..., None])[..., 0]
            edge = edge + width[e][:, None] * np.einsum("q,pqd->pd", scheme.weights, slope)
        stages = new
    good = np.asarray(size < _SOLVED)
    return np.where(good[:, None, None], stages, np.nan), np.where(good[:, None], ends[-1], np.nan)
