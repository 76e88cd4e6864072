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

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from flm.problems.control_equations import Equations

NODES = 8  # order 16 at the edges, 9 in between
_NEWTON_STEPS = 14
_CHUNK = 256  # starts simulated together


@dataclass(frozen=True, eq=False)
class Scheme:
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
class Multipliers:
    """Augmented-Lagrangian multipliers: path (E, P, q, G), terminal (P, H), and the penalty weight."""

    path: np.ndarray
    terminal: np.ndarray
    weight: float


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


def grid(edges: np.ndarray, num_starts: int, q: int = NODES) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (E, P, q) and widths (E, P) of elements with edges (E + 1,) or (E + 1, P)."""
    edges = np.asarray(edges, float)
    edges = edges[:, None] * np.ones(num_starts) if edges.ndim == 1 else edges
    width = np.diff(edges, axis=0)
    return edges[:-1, :, None] + width[..., None] * gauss(q).nodes, width


def simulate(
    equations: Equations,
    numbers: np.ndarray,
    v0: np.ndarray,
    inputs: np.ndarray,
    edges: np.ndarray,
    *,
    guess: np.ndarray | None = None,
    multipliers: Multipliers | None = None,
) -> Simulated:
    """Solve the dynamics from v0 (P, d) under inputs (E, P, q, k); a start that fails has infinite cost.

    Args:
        equations: The problem's functions.
        numbers: Its parameters and horizon.
        v0: Initial coordinates.
        inputs: Controls (and log T) at the nodes.
        edges: Of the elements, (E + 1,) or (E + 1, P).
        guess: Stages (E, P, q, d) to start Newton's iteration from.
        multipliers: For the constraints' augmented Lagrangian.
    """
    num_elements, num_starts, q, k = inputs.shape
    d = v0.shape[1]
    scheme = gauss(q)
    s, width = grid(edges, num_starts, q)
    shape = (num_elements, num_starts, q)
    stages, rates = np.empty((*shape, d)), np.empty((*shape, d))
    F_z, l_z = np.empty((*shape, d, d + k)), np.empty((*shape, d + k))
    running, lagrangian = np.empty(shape), np.empty(shape)
    path = np.empty((*shape, 0)) if multipliers is None else np.empty_like(multipliers.path)
    ends = np.empty((num_elements + 1, num_starts, d))
    ends[0] = v0
    for e in range(num_elements):
        h = width[e][:, None, None]  # (P, 1, 1)
        lam = None if multipliers is None else multipliers.path[e]
        rho = 1.0 if multipliers is None else multipliers.weight
        V = np.repeat(ends[e][:, None, :], q, axis=1) if guess is None else guess[e]
        before = np.inf
        for _ in range(_NEWTON_STEPS):
            first = _evaluate(equations, s[e], V, inputs[e], numbers, lam, rho)
            residual = V - ends[e][:, None, :] - h * (scheme.matrix @ first[0])
            size = np.abs(residual).reshape(num_starts, -1).max(axis=1) / (1.0 + np.abs(V).reshape(num_starts, -1).max(axis=1))
            worst = np.nanmax(size) if np.isfinite(size).any() else 0.0
            if worst < 1e-15 or (worst < 1e-13 and worst > 0.3 * before):
                break
            before = worst
            V = V - stage_solve(scheme.matrix, h, first[1][..., :d], residual)
        good = size < 1e-9
        V = np.where(good[:, None, None], V, np.nan)
        stages[e], rates[e], F_z[e], running[e], lagrangian[e], l_z[e] = V, *first[:5]
        path[e] = first[5]
        ends[e + 1] = ends[e] + h[..., 0] * np.einsum("j,pjd->pd", scheme.weights, rates[e])
    phi, phi_al, phi_z, phi_zz, terminal = _finish(equations, ends[-1], inputs[-1, :, -1], numbers, multipliers)
    weights = width[..., None] * scheme.weights

    def total(density, final):
        value = np.einsum("epq,epq->p", weights, density) + final
        return np.where(np.isfinite(value), value, np.inf)

    return Simulated(
        s, width, stages, ends, inputs, rates, F_z, l_z,
        total(running, phi), total(lagrangian, phi_al), phi_z, phi_zz, path, terminal,
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
    costates = np.empty_like(run.stages)
    p = run.phi_z[:, :d]
    for e in reversed(range(num_elements)):
        h = run.width[e][:, None, None]
        transposed = np.swapaxes(run.F_z[e][..., :d], -1, -2)
        right = p[:, None, :] + h * (mixed @ run.l_z[e][..., :d])
        costates[e] = stage_solve(mixed, h, transposed, right)
        slope = run.l_z[e][..., :d] + np.einsum("pqij,pqj->pqi", transposed, costates[e])
        p = p + h[..., 0] * np.einsum("q,pqd->pd", scheme.weights, slope)
    h_w = run.l_z[..., d:] + np.einsum("epqij,epqi->epqj", run.F_z[..., d:], costates)
    return Adjoint(costates, p, h_w)


def hamiltonian_hessian(
    equations: Equations, numbers: np.ndarray, run: Simulated, costates: np.ndarray, multipliers: Multipliers | None = None
) -> np.ndarray:
    """Second derivatives of l + p.F with respect to (v, w), (E, P, q, d + k, d + k)."""
    num_elements = len(run.stages)
    hessians = []
    for e in range(num_elements):
        lam = None if multipliers is None else multipliers.path[e]
        rho = 1.0 if multipliers is None else multipliers.weight
        rows = _rows(equations, run.s[e], run.stages[e], run.inputs[e], lam)
        p = _padded(costates[e].reshape(-1, costates.shape[-1]), len(rows[0]))
        values = np.asarray(_second(equations, *rows[:3], p, numbers, rows[3], rho))
        hessians.append(values[: run.s[e].size].reshape(*run.s[e].shape, *values.shape[1:]))
    return np.stack(hessians)


def interpolate(run: Simulated, s: np.ndarray) -> np.ndarray:
    """Coordinates (P, R, d) at normalized times s (R,) or (P, R), by the collocation polynomials."""
    num_elements, num_starts, q, d = run.stages.shape
    s = np.broadcast_to(np.asarray(s, float), (num_starts, np.shape(s)[-1]))
    left = run.s[:, :, 0] - run.width * gauss(q).nodes[0]  # (E, P)
    result = np.empty((*s.shape, d))
    for p in range(num_starts):
        e = np.clip(np.searchsorted(left[:, p], s[p], side="right") - 1, 0, num_elements - 1)
        width = run.width[e, p]
        inside = np.clip((s[p] - left[e, p]) / np.where(width > 0, width, 1.0), 0.0, 1.0)
        result[p] = run.edges[e, p] + width[:, None] * np.einsum("rj,rjd->rd", integrals(q, inside), run.rates[e, p])
    return result


def simulate_tightly(
    equations: Equations,
    numbers: np.ndarray,
    v0: np.ndarray,
    inputs: Callable[[np.ndarray, slice], np.ndarray],
    *,
    breaks: np.ndarray | None = None,
    tol: float = 1e-12,
    multipliers: bool = False,
) -> list[Simulated]:
    """The dynamics from v0 (P, d), refined until halving the elements changes cost and final state by less than `tol`.

    Args:
        equations: The problem's functions.
        numbers: Its parameters and horizon.
        v0: Initial coordinates.
        inputs: Controls (and log T), (E, P, q, k), at times s (E, P, q) for a slice of the starts.
        breaks: Times (P, B) at which the inputs are not smooth, elements' edges there; nan for none.
        tol: Relative change to stop at. Refinement ends too when it no longer helps.
        multipliers: Whether to record the constraints' values.

    Returns:
        One result for each chunk of starts.
    """
    results = []
    for start in range(0, len(v0), _CHUNK):
        part = slice(start, min(start + _CHUNK, len(v0)))
        size = part.stop - part.start
        previous, change = None, np.inf
        for num_elements in (6, 12, 24, 48, 96, 192):
            edges = np.linspace(0.0, 1.0, num_elements + 1)[:, None] * np.ones(size)
            if breaks is not None and breaks.shape[1]:
                own = np.where(np.isnan(breaks[part]), 1.0, breaks[part]).T
                edges = np.sort(np.concatenate([edges, own]), axis=0)
            s, _ = grid(edges, size)
            marks = _no_multipliers(equations, s) if multipliers else None
            run = simulate(equations, numbers, v0[part], inputs(s, part), edges, multipliers=marks)
            if previous is not None:
                finite = np.isfinite(run.cost) & np.isfinite(previous.cost)
                last, change = change, _change(run, previous, finite)
                if finite.all() and (change < tol or (change < 1e-9 and change > 0.3 * last)):
                    break
            previous = run
        results.append(run)
    return results


def _change(run: Simulated, previous: Simulated, finite: np.ndarray) -> float:
    if not finite.any():
        return np.inf
    cost = np.abs(run.cost - previous.cost)[finite] / (np.abs(run.cost[finite]) + 1e-300)
    state = np.abs(run.edges[-1] - previous.edges[-1])[finite].max(axis=1) / (1.0 + np.abs(run.edges[-1])[finite].max(axis=1))
    return float(max(np.minimum(cost, np.abs(run.cost - previous.cost)[finite] * 1e3).max(), state.max()))


def _no_multipliers(equations: Equations, s: np.ndarray) -> Multipliers:
    num_path, num_terminal = constraint_counts(equations)
    return Multipliers(np.zeros((*s.shape, num_path)), np.zeros((s.shape[1], num_terminal)), 1e-12)


@lru_cache(maxsize=64)
def constraint_counts(equations: Equations) -> tuple[int, int]:
    """The numbers of path and terminal constraints."""
    v, w = jnp.zeros(equations.num_coordinates), jnp.zeros(equations.num_inputs)
    numbers = jnp.ones(len(equations.parameters) + 1)
    path = jax.eval_shape(equations.path_values, 0.5, v, w, numbers)
    terminal = jax.eval_shape(equations.terminal_values, v, w, numbers)
    return path.shape[0], terminal.shape[0]


def stage_solve(matrix: np.ndarray, h: np.ndarray, jacobian: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve X_i - h sum_j M_ij D_j X_j = R_i for stages X; D (P, q, d, d), R (P, q, d) or (P, q, d, m)."""
    num_starts, q, d = right.shape[:3]
    system = -h[..., None, None] * matrix[:, None, :, None] * np.swapaxes(jacobian, 1, 2)[:, None]  # (P, i, a, j, b)
    system = system.reshape(num_starts, q * d, q * d)
    system[:, np.arange(q * d), np.arange(q * d)] += 1.0
    good = np.isfinite(system).all(axis=(1, 2))
    system[~good] = np.eye(q * d)
    solved = np.linalg.solve(system, right.reshape(num_starts, q * d, -1))
    solved[~good] = np.nan
    return solved.reshape(right.shape)


def _rows(equations: Equations, s, v, w, lam) -> tuple[np.ndarray, ...]:
    """Points as padded rows: the number of rows is a power of two, so that few shapes are compiled."""
    count = s.size
    padded = max(8, 1 << (count - 1).bit_length())
    num_path = constraint_counts(equations)[0]
    lam = np.zeros((*s.shape, num_path)) if lam is None else lam
    flat = (s.reshape(-1), v.reshape(count, -1), w.reshape(count, -1), lam.reshape(count, num_path))
    return tuple(_padded(array, padded) for array in flat)


def _padded(array: np.ndarray, size: int) -> np.ndarray:
    if len(array) == size:
        return array
    return np.concatenate([array, np.repeat(array[:1], size - len(array), axis=0)])


def _evaluate(equations: Equations, s, v, w, numbers, lam, rho) -> list[np.ndarray]:
    """(F, F_z, running, Lagrangian, l_z, g) at points of shape (P, q)."""
    values = _first(equations, *(rows := _rows(equations, s, v, w, lam))[:3], numbers, rows[3], rho)
    return [np.asarray(value)[: s.size].reshape(*s.shape, *value.shape[1:]) for value in values]


def _finish(equations: Equations, v, w, numbers, multipliers) -> tuple[np.ndarray, ...]:
    """(phi, Lagrangian, phi_z, phi_zz, h) at the final states v (P, d)."""
    count, d = v.shape
    size = d + w.shape[1]
    num_terminal = constraint_counts(equations)[1]
    if equations.terminal_cost is None and not num_terminal:
        zero = np.where(np.isfinite(v).all(axis=1), 0.0, np.nan)
        return zero, zero, np.zeros((count, size)), np.zeros((count, size, size)), np.zeros((count, 0))
    nu = np.zeros((count, num_terminal)) if multipliers is None else multipliers.terminal
    rho = 1e-12 if multipliers is None else multipliers.weight
    padded = max(1, 1 << (count - 1).bit_length())
    values = _last(equations, *(_padded(a, padded) for a in (v, w)), numbers, _padded(nu, padded), rho)
    return tuple(np.asarray(value)[:count] for value in values)


@partial(jax.jit, static_argnums=0)
def _first(equations: Equations, s, v, w, numbers, lam, rho):
    d = equations.num_coordinates

    def both(z, s, lam):
        v, w = z[:d], z[d:]
        value = equations.running_lagrangian(s, v, w, numbers, lam, rho)
        return jnp.concatenate([equations.rates(s, v, w, numbers), value[None]])

    def at(s, v, w, lam):
        z = jnp.concatenate([v, w])
        slopes = jax.jacfwd(both)(z, s, lam)
        values = both(z, s, lam)
        running = equations.running(s, v, w, numbers)
        g = equations.path_values(s, v, w, numbers)
        return values[:d], slopes[:d], running, values[d], slopes[d], g

    return jax.vmap(at)(s, v, w, lam)


@partial(jax.jit, static_argnums=0)
def _second(equations: Equations, s, v, w, p, numbers, lam, rho):
    d = equations.num_coordinates

    def hamiltonian(z, s, p, lam):
        v, w = z[:d], z[d:]
        return equations.running_lagrangian(s, v, w, numbers, lam, rho) + p @ equations.rates(s, v, w, numbers)

    return jax.vmap(lambda s, v, w, p, lam: jax.hessian(hamiltonian)(jnp.concatenate([v, w]), s, p, lam))(s, v, w, p, lam)


@partial(jax.jit, static_argnums=0)
def _last(equations: Equations, v, w, numbers, nu, rho):
    d = equations.num_coordinates

    def value(z, nu):
        return equations.final_lagrangian(z[:d], z[d:], numbers, nu, rho)

    def at(v, w, nu):
        z = jnp.concatenate([v, w])
        h = equations.terminal_values(v, w, numbers)
        return equations.final_cost(v, w, numbers), value(z, nu), jax.grad(value)(z, nu), jax.hessian(value)(z, nu), h

    return jax.vmap(at)(v, w, nu)
