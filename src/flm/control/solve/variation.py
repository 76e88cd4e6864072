"""Cost, gradient and exact Hessian of a discretized control problem, for many starts at once.

The controls of each start are sum_a c_a theta_a(s), in an orthonormal basis of time functions. With the linearized
dynamics dV' = F_v dV + F_w dW and the Hamiltonian h = l + p.F, the second variation of the cost is

    d2J = integral of (dV, dW)' h_zz (dV, dW) ds + dV(1)' phi_vv dV(1),

here with the discrete costates, so that it is the exact Hessian of the discrete cost.

Bounds are kept exactly by squashing, u = clip(w, lower, upper): w stays smooth where u has a corner. Where w is beyond a
bound the cost does not see it; there w is drawn, with a small weight, to the unconstrained minimizer of the Hamiltonian,
u - h_u / h_uu, which is beyond the bound exactly when the bound should stay active.
"""

from dataclasses import dataclass, replace

import numpy as np

from flm.control.dynamics.following import Followed, follow
from flm.control.dynamics.kernels import Multipliers
from flm.control.dynamics.simulation import (
    NODES,
    Adjoint,
    Simulated,
    adjoint,
    gauss,
    grid,
    hamiltonian_hessian,
    simulate,
    stage_solve,
)
from flm.control.law import crossings, time_waves
from flm.control.problem import OptimalControl

_EVEN = 8  # elements at least, besides those that end at a bound
PULL = 1e-3  # weight of the pull on squashed controls, relative to the Hamiltonian's own curvature


@dataclass(frozen=True, eq=False)
class TimeBasis:
    """Combinations of cos(omega s), sin(omega s), orthonormal over [0, 1], on a collocation grid.

    `edges` (E + 1, 1) or (E + 1, P) when each start has elements of its own; `nodes` (E, 1 or P, q, m) are the values,
    `transform` (2A, m) the coefficients in (cos, sin) pairs, frequency by frequency.
    """

    frequencies: np.ndarray
    edges: np.ndarray
    nodes: np.ndarray
    transform: np.ndarray

    @classmethod
    def make(cls, frequencies: np.ndarray, num_elements: int, *, rcond: float = 1e-11) -> "TimeBasis":
        """The basis spanned by the given frequencies, directions below `rcond` dropped."""
        edges = np.linspace(0.0, 1.0, num_elements + 1)[:, None]
        s, width = grid(edges, 1)
        root = np.sqrt(width[..., None] * gauss().weights).reshape(-1)
        left, size, right = np.linalg.svd(root[:, None] * time_waves(s.reshape(-1), frequencies), full_matrices=False)
        keep = size > rcond * size[0]
        transform = right[keep].T / size[keep]
        return cls(frequencies, edges, (left[:, keep] / root[:, None]).reshape(num_elements, 1, NODES, -1), transform)

    def on(self, edges: np.ndarray) -> "TimeBasis":
        """The same functions on other elements, edges (E + 1, P)."""
        s = grid(edges, edges.shape[1])[0]
        return TimeBasis(self.frequencies, edges, time_waves(s, self.frequencies) @ self.transform, self.transform)

    @property
    def size(self) -> int:
        """The number of basis functions."""
        return self.nodes.shape[-1]

    @property
    def weights(self) -> np.ndarray:
        """Quadrature weights of the nodes, (E, 1 or P, q)."""
        return np.diff(self.edges, axis=0)[..., None] * gauss().weights


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Gradient (P, M) and Hessian (P, M, M) of the Lagrangian, and the estimated excess cost (P,) of each start."""

    gradient: np.ndarray
    hessian: np.ndarray
    excess: np.ndarray
    run: Simulated
    costates: Adjoint
    pull: np.ndarray
    target: np.ndarray


@dataclass(frozen=True, eq=False)
class Transcription:
    """A control problem on a time basis: c (P, M) -> costs and derivatives.

    The M coordinates of a start are those of each control in turn, followed by log(T / guess) for a free horizon.
    """

    problem: OptimalControl
    basis: TimeBasis
    v0: np.ndarray

    @property
    def num_controls(self) -> int:
        """The number of controls."""
        return len(self.problem.controls)

    @property
    def size(self) -> int:
        """M."""
        return self.basis.size * self.num_controls + self.problem.free

    def raw(self, c: np.ndarray) -> np.ndarray:
        """Controls before squashing, (E, P, q, k)."""
        k, m = self.num_controls, self.basis.size
        return self.basis.nodes @ np.swapaxes(c[:, : k * m].reshape(-1, k, m), 1, 2) + self.problem.rest

    def inputs(self, c: np.ndarray) -> np.ndarray:
        """Controls after squashing and log T, (E, P, q, k)."""
        return self._complete(self.raw(c), c)

    def _complete(self, raw: np.ndarray, c: np.ndarray) -> np.ndarray:
        u = np.clip(raw, self.problem.lower, self.problem.upper)
        if not self.problem.free:
            return u
        log_duration = np.log(self.problem.numbers[-1]) + c[:, -1]
        return np.concatenate([u, np.broadcast_to(log_duration[:, None, None], (*u.shape[:3], 1))], axis=-1)

    def raw_at(self, c: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Controls before squashing, (P, R, k), at any times s (R,) or (P, R)."""
        k, m = self.num_controls, self.basis.size
        series = np.einsum("am,pkm->pak", self.basis.transform, c[:, : k * m].reshape(-1, k, m))
        return time_waves(np.asarray(s, float), self.basis.frequencies) @ series + self.problem.rest

    def aligned(self, c: np.ndarray) -> "Transcription":
        """The same problem with elements' edges where the controls c meet their bounds."""
        problem = self.problem
        breaks = crossings(lambda s: self.raw_at(c, s), problem.lower, problem.upper, len(c))
        num_elements = max(_EVEN, len(self.basis.frequencies) // 2 + 2)
        even = np.linspace(0.0, 1.0, num_elements + 1)[:, None] * np.ones(len(c))
        edges = np.sort(np.concatenate([even, np.where(np.isnan(breaks), 1.0, breaks).T]), axis=0)
        return replace(self, basis=self.basis.on(edges))

    def followed(self, c: np.ndarray) -> Followed:
        """The trajectories under c, tightly integrated."""
        problem = self.problem
        breaks = (
            crossings(lambda s: self.raw_at(c, s), problem.lower, problem.upper, len(c)) if problem.bounded else None
        )

        def inputs(s, part):
            flat = s.transpose(1, 0, 2).reshape(s.shape[1], -1)  # (P, E q)
            raw = self.raw_at(c[part], flat).reshape(s.shape[1], s.shape[0], s.shape[2], -1).transpose(1, 0, 2, 3)
            return self._complete(raw, c[part])

        return follow(problem.equations, problem.numbers, self.v0, inputs, breaks)

    def coordinates(self, raw: np.ndarray, log_ratio: np.ndarray | None = None) -> np.ndarray:
        """c (P, M) of the controls (E, P, q, k) nearest to the given ones."""
        weighted = np.swapaxes(self.basis.weights[..., None] * self.basis.nodes, -1, -2)  # (E, P, m, q)
        c = np.swapaxes((weighted @ (raw - self.problem.rest)).sum(axis=0), 1, 2)
        c = c.reshape(len(self.v0), -1)
        return np.hstack([c, log_ratio[:, None]]) if log_ratio is not None else c

    def run(self, c: np.ndarray, multipliers: Multipliers | None = None, guess: np.ndarray | None = None) -> Simulated:
        """The trajectories under c."""
        problem = self.problem
        return simulate(
            problem.equations,
            problem.numbers,
            self.v0,
            self.inputs(c),
            self.basis.edges,
            guess=guess,
            multipliers=multipliers,
        )

    def merit(self, run: Simulated, c: np.ndarray, derivatives: Derivatives | None) -> np.ndarray:
        """What a step must decrease, (P,): the Lagrangian plus the pull, frozen where `derivatives` were taken."""
        if derivatives is None or not self.problem.bounded:
            return run.lagrangian
        gap = self.raw(c) - derivatives.target
        return run.lagrangian + 0.5 * (self.basis.weights[..., None] * derivatives.pull * gap**2).sum(axis=(0, 2, 3))

    def derivatives(self, run: Simulated, c: np.ndarray, multipliers: Multipliers | None = None) -> Derivatives:
        """Gradient and Hessian at c."""
        problem, k, m = self.problem, self.num_controls, self.basis.size
        num_elements, num_starts, q, d = run.stages.shape
        costates = adjoint(run)
        h_zz = hamiltonian_hessian(problem.equations, problem.numbers, run, costates.stages, multipliers)
        h_ww = h_zz[..., d:, d:]
        excess = pointwise_excess(run, costates.h_w, h_ww, problem)
        inside, pull, target = self._squashing(run, c, costates, h_ww)

        tangent = np.zeros((num_elements, num_starts, q, k + problem.free, self.size))
        for i in range(k):
            tangent[..., i, i * m : (i + 1) * m] = self.basis.nodes * inside[..., i, None]
        if problem.free:
            tangent[..., k, -1] = 1.0
        weights = run.width[..., None] * gauss(q).weights
        gradient = np.einsum("epqk,epqkm->pm", weights[..., None] * costates.h_w, tangent, optimize=True)
        gradient += np.einsum("pk,pkm->pm", run.phi_z[:, d:], tangent[-1, :, -1])
        hessian = self._second_variation(run, weights[..., None, None] * h_zz, tangent)
        if problem.free:
            excess = excess + 0.5 * gradient[:, -1] ** 2 / np.maximum(hessian[:, -1, -1], 1e-300)
        if problem.bounded:
            weighted = (self.basis.weights[..., None] * pull)[..., None]  # (E, P, q, k, 1)
            gap = self.raw(c) - target
            for i in range(k):
                part = slice(i * m, (i + 1) * m)
                scaled = np.swapaxes(weighted[..., i, :] * self.basis.nodes, -1, -2)  # (E, P, m, q)
                gradient[:, part] += (scaled @ gap[..., i, None]).sum(axis=0)[..., 0]
                hessian[:, part, part] += (scaled @ self.basis.nodes).sum(axis=0)
        return Derivatives(gradient, hessian, excess, run, costates, pull, target)

    def _second_variation(self, run: Simulated, curvature: np.ndarray, tangent: np.ndarray) -> np.ndarray:
        """Hessians (P, M, M) from weighted h_zz (E, P, q, d + k, d + k) and the inputs' tangents (E, P, q, k, M)."""
        num_elements, num_starts, q, d = run.stages.shape
        scheme = gauss(q)
        F_v, forced = run.F_z[..., :d], run.F_z[..., d:] @ tangent  # (E, P, q, d, M)
        driven = run.width[..., None, None, None] * np.einsum("ij,epjdm->epidm", scheme.matrix, forced, optimize=True)
        unit = np.broadcast_to(np.eye(d), (num_elements, num_starts, q, d, d))
        both = stage_solve(scheme.matrix, run.width, F_v, np.concatenate([driven, unit], axis=-1))
        own, response = both[..., :-d], both[..., -d:]
        hessian = np.zeros((num_starts, self.size, self.size))
        edge = np.zeros((num_starts, d, self.size))
        flat = (num_starts, -1, self.size)
        for e in range(num_elements):
            stage = own[e] + response[e] @ edge[:, None]
            moved = np.concatenate([stage, tangent[e]], axis=2)  # (P, q, d + k, M)
            hessian += np.swapaxes(moved.reshape(flat), 1, 2) @ (curvature[e] @ moved).reshape(flat)
            slope = F_v[e] @ stage + forced[e]
            edge = edge + run.width[e][:, None, None] * np.einsum("q,pqdm->pdm", scheme.weights, slope, optimize=True)
        last = np.concatenate([edge, tangent[-1, :, -1]], axis=1)
        return hessian + np.swapaxes(last, 1, 2) @ run.phi_zz @ last

    def _squashing(self, run: Simulated, c: np.ndarray, costates: Adjoint, h_ww: np.ndarray) -> tuple[np.ndarray, ...]:
        """Where controls are inside their bounds, and elsewhere the pull's weight and target, (E, P, q, k)."""
        problem, k = self.problem, self.num_controls
        if not problem.bounded:
            return np.ones_like(run.inputs[..., :k]), np.zeros(()), np.zeros(())
        raw, lower, upper = self.raw(c), problem.lower, problem.upper
        inside = (raw > lower) & (raw < upper)
        curvature = np.maximum(np.einsum("epqkk->epqk", h_ww[..., :k, :k]), 1e-8)
        target = run.inputs[..., :k] - costates.h_w[..., :k] / curvature
        # Far beyond a bound asinh keeps the target, and so the series, moderate.
        size = np.where(np.isfinite(upper - lower), 0.5 * (upper - lower), 1.0)
        near = np.clip(target, lower, upper)
        target = near + size * np.arcsinh((target - near) / size)
        return inside.astype(float), np.where(inside, 0.0, PULL * curvature), target


def pointwise_excess(run: Simulated, h_w: np.ndarray, h_ww: np.ndarray, problem: OptimalControl) -> np.ndarray:
    """The largest decrease of the Hamiltonian's quadratic model by a change of each control alone, integrated, (P,).

    Without bounds this is ½ ∫ h_u² / h_uu ds. Coupling between controls is taken into account by solving with the full
    h_uu where no bound is active.
    """
    k = len(problem.controls)
    slope, curvature, u = h_w[..., :k], h_ww[..., :k, :k], run.inputs[..., :k]
    diagonal = np.einsum("epqkk->epqk", curvature)
    if k > 1 and not problem.bounded:
        safe = curvature + 1e-300 * np.eye(k)
        with np.errstate(all="ignore"):
            decrease = 0.5 * np.einsum("epqk,epqk->epq", slope, np.linalg.solve(safe, slope[..., None])[..., 0])
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = np.where(diagonal > 0, -slope / diagonal, -np.sign(slope) * np.inf)
        newton = np.where(slope == 0, 0.0, newton)
        step = np.clip(u + newton, problem.lower, problem.upper) - u
        with np.errstate(invalid="ignore"):
            decrease = -(slope * step + 0.5 * diagonal * step**2).sum(axis=-1)
    weights = run.width[..., None] * gauss(run.s.shape[-1]).weights
    total = np.einsum("epq,epq->p", weights, np.maximum(decrease, 0.0))
    return np.where(np.isfinite(total), total, np.inf)
