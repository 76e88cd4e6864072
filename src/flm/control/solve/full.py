"""States and controls both as series: the dynamics are constraints, kept by a penalty or by multipliers.

Per start and with time functions θ(s), coordinates y = Σ c θ stand for the state (v = y, or v = softmax(y, 0) on the
simplex) and w for the controls. With the dynamics' residual r = dv/ds - F and e = v(0) - v0,

    L = phi + ∫ l + π.r + μ₁|r|²/(2T) ds + π₀.e + μ₂|e|²/2,

π being the multipliers (zero for the pure penalty of the paper, Eq. penalty_loss, where |r|²/T ds is |dx/dt - f|² dt).
The Hessian in c is exact. `newton` and `fit_family` minimize it as they do the reduced cost.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from flm.control.dynamics.kernels import constraint_counts, in_chunks
from flm.control.dynamics.simulation import gauss, grid
from flm.control.equations import Equations
from flm.control.problem import OptimalControl
from flm.control.solve.variation import TimeBasis, control_offset, waves


@dataclass(frozen=True, eq=False)
class DynamicsMultipliers:
    """Multipliers of the dynamics (P, Q, d), the start (P, d), path (P, Q, G) and end (P, H); weights μ₁ and μ₂."""

    dynamics: np.ndarray
    start: np.ndarray
    path: np.ndarray
    terminal: np.ndarray
    weights: tuple[float, float]


@dataclass(frozen=True, eq=False)
class FullRun:
    """Values along the networks: costs, Lagrangians and the residuals of all constraints; `stages` is not used."""

    cost: np.ndarray
    lagrangian: np.ndarray
    dynamics: np.ndarray
    start: np.ndarray
    path: np.ndarray
    terminal: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    stages: np.ndarray

    def mixed(self, other: "FullRun", mask: np.ndarray) -> "FullRun":
        """This run with the starts under `mask` (P,) taken from another one."""
        pick = lambda a, b: np.where(mask.reshape(-1, *(1,) * (a.ndim - 1)), b, a)
        return FullRun(*(pick(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class FullTranscription:
    """A control problem on time functions for states and controls: c (P, M), M = (d + k) m."""

    problem: OptimalControl
    basis: TimeBasis
    v0: np.ndarray
    form: str

    @property
    def size(self) -> int:
        """M."""
        return self.basis.size * (self.problem.equations.num_coordinates + len(self.problem.controls))

    @property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Normalized times and weights of the nodes, (Q,) each."""
        s, width = grid(self.basis.edges, 1)
        return s.reshape(-1), (width[..., None] * gauss().weights).reshape(-1)

    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values and slopes of the time functions at the nodes (Q, m), and values at s = 0 and 1, (2, m)."""
        s, _ = self.nodes
        values = waves(s, self.basis.frequencies)
        # (cos, sin)' = omega (-sin, cos)
        pairs = values.reshape(len(s), -1, 2)
        slopes = np.stack([-pairs[..., 1], pairs[..., 0]], axis=-1) * self.basis.frequencies[:, None]
        ends = waves(np.array([0.0, 1.0]), self.basis.frequencies)
        transform = self.basis.transform
        return values @ transform, slopes.reshape(values.shape) @ transform, ends @ transform

    def no_multipliers(self, weights: tuple[float, float]) -> DynamicsMultipliers:
        """Zero multipliers."""
        count, size, d = len(self.nodes[0]), len(self.v0), self.problem.equations.num_coordinates
        num_path, num_terminal = constraint_counts(self.problem.equations)
        return DynamicsMultipliers(
            dynamics=np.zeros((size, count, d)),
            start=np.zeros((size, d)),
            path=np.zeros((size, count, num_path)),
            terminal=np.zeros((size, num_terminal)),
            weights=weights,
        )

    def first_guess(self, states: np.ndarray, controls: np.ndarray) -> np.ndarray:
        """c (P, M) of states (P, Q, d) (before softmax, their logits) and controls (P, Q, k) at the nodes."""
        _, weights = self.nodes
        values = np.concatenate([states, controls - control_offset(self.problem)], axis=-1)
        table = self.basis.nodes.reshape(len(weights), -1)
        return np.einsum("q,qm,pqi->pim", weights, table, values).reshape(len(values), -1)

    def logits(self, v: np.ndarray) -> np.ndarray:
        """y of coordinates v (..., d)."""
        if self.form == "plain":
            return v
        return np.log(np.maximum(v, 1e-6)) - np.log(np.maximum(1.0 - v.sum(axis=-1, keepdims=True), 1e-6))

    def run(self, c: np.ndarray, multipliers: DynamicsMultipliers, guess: np.ndarray | None = None) -> FullRun:
        """Lagrangians and their derivatives at c."""
        problem, equations = self.problem, self.problem.equations
        d, k, m = equations.num_coordinates, len(problem.controls), self.basis.size
        values, slopes, ends = self.tables()
        s, weights = self.nodes
        coefficients = c.reshape(-1, d + k, m)
        y, slope = (np.einsum("qm,pim->pqi", table, coefficients[:, :d]) for table in (values, slopes))
        raw = np.einsum("qm,pim->pqi", values, coefficients[:, d:]) + control_offset(problem)
        u = np.clip(raw, problem.lower, problem.upper)
        inside = ((raw > problem.lower) & (raw < problem.upper)).astype(float)
        local = np.concatenate([y, slope, u], axis=-1)  # (P, Q, 2d + k)
        every = np.broadcast_to(s, y.shape[:2])
        kernel = lambda s, x, pi, lam: _along(
            equations, self.form, s, x, problem.numbers, pi, lam, multipliers.weights[0]
        )
        found = in_chunks(kernel, every.shape, every, local, multipliers.dynamics, multipliers.path)
        running, lagrangian, residual, path, gradient, hessian = found
        scale = np.concatenate([np.ones((*inside.shape[:2], 2 * d)), inside], axis=-1)
        gradient = weights[:, None] * gradient * scale
        hessian = weights[:, None, None] * hessian * scale[..., None] * scale[..., None, :]
        tables = [values] * d + [slopes] * d + [values] * k
        owner = [*range(d), *range(d), *range(d, d + k)]
        total, curvature = np.zeros((len(c), d + k, m)), np.zeros((len(c), d + k, m, d + k, m))
        for i in range(2 * d + k):
            total[:, owner[i]] += gradient[..., i] @ tables[i]
            for j in range(2 * d + k):
                weighted = hessian[..., i, j, None] * tables[j]  # (P, Q, m)
                curvature[:, owner[i], :, owner[j]] += np.einsum("qa,pqb->pab", tables[i], weighted, optimize=True)
        y_ends = np.einsum("tm,pim->pti", ends, coefficients[:, :d])
        kernel = lambda y, v0, pi, nu: _ends(equations, self.form, y, v0, problem.numbers, pi, nu, multipliers.weights)
        extra = in_chunks(kernel, (len(c),), y_ends, self.v0, multipliers.start, multipliers.terminal)
        final, more, error, terminal, slope_ends, curved_ends = extra  # (P, 2, d), (P, 2, d, 2, d)
        total[:, :d] += np.einsum("pti,tm->pim", slope_ends, ends)
        curvature[:, :d, :, :d] += np.einsum("ptiuj,tm,un->pimjn", curved_ends, ends, ends, optimize=True)
        size = (d + k) * m
        cost, value = running @ weights + final, lagrangian @ weights + more
        value = np.where(np.isfinite(value), value, np.inf)
        return FullRun(
            cost, value, residual, error, path, terminal,
            total.reshape(-1, size), curvature.reshape(-1, size, size), np.zeros((len(c), 0)),
        )  # fmt: skip

    def merit(self, run: FullRun, c: np.ndarray, derivatives: FullRun | None) -> np.ndarray:
        """What a step must decrease, (P,)."""
        return run.lagrangian

    def derivatives(self, run: FullRun, c: np.ndarray, multipliers: DynamicsMultipliers) -> "FullDerivatives":
        """Gradient and Hessian, computed with the run."""
        return FullDerivatives(run.gradient, run.hessian, run)


@dataclass(frozen=True, eq=False)
class FullDerivatives:
    """Gradient (P, M) and Hessian (P, M, M) of the Lagrangian."""

    gradient: np.ndarray
    hessian: np.ndarray
    run: FullRun


def _state(form: str, y):
    """Coordinates v of y."""
    return jax.nn.softmax(jnp.concatenate([y, jnp.zeros(1)]))[:-1] if form == "softmax" else y


@partial(jax.jit, static_argnums=(0, 1))
def _along(equations: Equations, form: str, s, x, numbers, pi, lam, mu):
    d = equations.num_coordinates

    def residual(x, s):
        v, slope = jax.jvp(lambda y: _state(form, y), (x[:d],), (x[d : 2 * d],))
        return slope - equations.rates(s, v, x[2 * d :], numbers)

    def lagrangian(x, s, pi, lam):
        v, w = _state(form, x[:d]), x[2 * d :]
        r = residual(x, s)
        value = equations.running_lagrangian(s, v, w, numbers, lam, mu)
        return value + pi @ r + 0.5 * mu * r @ r / equations.duration(w, numbers)

    def at(s, x, pi, lam):
        v, w = _state(form, x[:d]), x[2 * d :]
        return (
            equations.running(s, v, w, numbers), lagrangian(x, s, pi, lam), residual(x, s),
            equations.path_values(s, v, w, numbers), jax.grad(lagrangian)(x, s, pi, lam), jax.hessian(lagrangian)(x, s, pi, lam),
        )  # fmt: skip

    return jax.vmap(at)(s, x, pi, lam)


@partial(jax.jit, static_argnums=(0, 1))
def _ends(equations: Equations, form: str, y, v0, numbers, pi, nu, weights):
    w = jnp.zeros(len(equations.controls))

    def value(y, v0, pi, nu):
        error = _state(form, y[0]) - v0
        final = equations.final_lagrangian(_state(form, y[1]), w, numbers, nu, weights[0])
        return final + pi @ error + 0.5 * weights[1] * error @ error

    def at(y, v0, pi, nu):
        v = _state(form, y[1])
        return (
            equations.final_cost(v, w, numbers), value(y, v0, pi, nu), _state(form, y[0]) - v0,
            equations.terminal_values(v, w, numbers), jax.grad(value)(y, v0, pi, nu), jax.hessian(value)(y, v0, pi, nu),
        )  # fmt: skip

    return jax.vmap(at)(y, v0, pi, nu)
