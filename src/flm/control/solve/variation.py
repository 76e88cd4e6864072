"""Cost, gradient and exact Hessian of a discretized control problem, for many starts at once.

The controls of each start are sum_a c_a theta_a(s), in an orthonormal basis of time functions. With the linearized
dynamics dV' = F_v dV + F_w dW and the Hamiltonian h = l + p.F, the second variation of the cost is

    d2J = integral of (dV, dW)' h_zz (dV, dW) ds + dV(1)' phi_vv dV(1),

here with the discrete costates, so that it is the exact Hessian of the discrete cost.

Bounds are kept exactly by squashing, u = clip(w, lower, upper): w stays smooth where u has a corner. Where w is beyond a
bound the cost does not depend on it; there w is drawn, with a small weight, to the unconstrained minimizer of the Hamiltonian,
u - h_u / h_uu, which is beyond the bound exactly when the bound should stay active.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flm.control.dynamics import Simulated, adjoint, edges_with, gauss, grid, simulate, sweep
from flm.control.equations import Multipliers, second_order
from flm.control.law import Controls, time_waves, with_duration
from flm.control.problem import OptimalControl

_EVEN = 8  # elements at least, besides those that end at a bound
_PULL = 1e-3  # weight of the pull on squashed controls, relative to the Hamiltonian's own curvature


@dataclass(frozen=True, eq=False)
class TimeBasis:
    """Combinations of cos(omega s), sin(omega s), orthonormal over [0, 1], on a collocation grid.

    `edges` are (E + 1, 1), or (E + 1, P) when each start has its own elements; `nodes` (E, 1 or P, q, m) are the values,
    `transform` (2A, m) the coefficients in (cos, sin) pairs, frequency by frequency.
    """

    frequencies: np.ndarray
    edges: np.ndarray
    nodes: np.ndarray
    transform: np.ndarray

    @classmethod
    def make(cls, frequencies: np.ndarray, num_elements: int) -> TimeBasis:
        """The basis spanned by the given frequencies; directions below 1e-11 are dropped."""
        edges = np.linspace(0.0, 1.0, num_elements + 1)[:, None]
        s, width = grid(edges, 1)
        root = np.sqrt(width[..., None] * gauss().weights).reshape(-1)
        left, size, right = np.linalg.svd(root[:, None] * time_waves(s.reshape(-1), frequencies), full_matrices=False)
        keep = size > 1e-11 * size[0]
        transform = right[keep].T / size[keep]
        return cls(frequencies, edges, (left[:, keep] / root[:, None]).reshape(*s.shape, -1), transform)

    def on(self, edges: np.ndarray) -> TimeBasis:
        """The same functions on other elements, edges (E + 1, P)."""
        s = grid(edges, edges.shape[1])[0]
        return TimeBasis(self.frequencies, edges, time_waves(s, self.frequencies) @ self.transform, self.transform)

    def nodal(self) -> TimeBasis:
        """The functions that are one at a node and zero at the others, on the same elements."""
        num_elements, _, q, _ = self.nodes.shape
        nodes = np.eye(num_elements * q).reshape(num_elements, 1, q, -1)
        return replace(self, nodes=nodes, transform=np.zeros((0, 0)))

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
    """Gradient (P, M) and Hessian (P, M, M) of the Lagrangian, and the estimated excess cost (P,) of each start.

    `pull` and `target` (E, P, q, k) are the weight and the aim for controls beyond their bounds; the weight is zero elsewhere.
    """

    gradient: np.ndarray
    hessian: np.ndarray
    excess: np.ndarray
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
    def size(self) -> int:
        """M, the number of coordinates of a start."""
        return self.basis.size * len(self.problem.controls) + self.problem.free

    def raw(self, c: np.ndarray) -> np.ndarray:
        """Controls before squashing, (E, P, q, k)."""
        return self.basis.nodes @ np.swapaxes(self._by_control(c), 1, 2) + self.problem.rest

    def at(self, c: np.ndarray) -> Controls:
        """The controls as functions of any time."""
        problem, series = self.problem, np.einsum("am,pkm->pak", self.basis.transform, self._by_control(c))
        log_duration = self._log_duration(c)
        return Controls(self.basis.frequencies, series, problem.rest, problem.lower, problem.upper, log_duration)

    def _by_control(self, c: np.ndarray) -> np.ndarray:
        """The coordinates of each control, (P, k, m)."""
        return c[:, : self.size - self.problem.free].reshape(len(c), len(self.problem.controls), self.basis.size)

    def _log_duration(self, c: np.ndarray) -> np.ndarray | None:
        return np.log(self.problem.numbers[-1]) + c[:, -1] if self.problem.free else None

    def aligned(self, c: np.ndarray) -> Transcription:
        """The same problem with elements' edges where the controls c meet their bounds."""
        num_elements = max(_EVEN, len(self.basis.frequencies) // 2 + 2)
        return replace(self, basis=self.basis.on(edges_with(num_elements, len(c), self.at(c).breaks())))

    def coordinates(self, controls: Controls) -> np.ndarray:
        """c (P, M) of the controls nearest to given ones; the first serves all if those are for another number of starts."""
        num_starts, (s, _) = len(self.v0), grid(self.basis.edges[:, 0], 1)
        kept = controls if len(controls.amplitudes) == num_starts else controls[:1]
        raw = kept.raw(s.ravel()).reshape(-1, *s[:, 0].shape, len(self.problem.controls)).transpose(1, 0, 2, 3)
        weighted = np.swapaxes(self.basis.weights[..., None] * self.basis.nodes, -1, -2)  # (E, P, m, q)
        c = np.swapaxes((weighted @ (raw - self.problem.rest)).sum(axis=0), 1, 2).reshape(raw.shape[1], -1)
        if kept.log_duration is not None:
            c = np.hstack([c, kept.log_duration[:, None] - np.log(self.problem.numbers[-1])])
        return np.broadcast_to(c, (num_starts, self.size))

    def run(self, c: np.ndarray, multipliers: Multipliers | None = None, guess: np.ndarray | None = None) -> Simulated:
        """The trajectories under c."""
        u = np.clip(self.raw(c), self.problem.lower, self.problem.upper)
        inputs = with_duration(u, self._log_duration(c))
        return simulate(self.problem, self.v0, inputs, self.basis.edges, guess=guess, multipliers=multipliers)

    def merit(self, run: Simulated, c: np.ndarray, derivatives: Derivatives) -> np.ndarray:
        """The merit that a step must decrease, (P,): the Lagrangian plus the pull, frozen where `derivatives` were taken."""
        pulled = derivatives.pull * (self.raw(c) - derivatives.target) ** 2
        return run.lagrangian + 0.5 * (self.basis.weights[..., None] * pulled).sum(axis=(0, 2, 3))

    def derivatives(self, run: Simulated, c: np.ndarray, multipliers: Multipliers | None = None) -> Derivatives:
        """Gradient and Hessian at c."""
        problem, k, m, d = self.problem, len(self.problem.controls), self.basis.size, run.stages.shape[-1]
        costates = adjoint(run)
        h_zz = second_order(problem, run.s, run.stages, run.inputs, costates.stages, multipliers)
        excess = _excess(run, costates.h_w, h_zz)
        raw = self.raw(c)
        inside = (raw > problem.lower) & (raw < problem.upper)
        curvature = np.maximum(np.einsum("epqkk->epqk", h_zz[..., d:, d:])[..., :k], 1e-8)
        target = run.inputs[..., :k] - costates.h_w[..., :k] / curvature
        # Far beyond a bound asinh keeps the target, and so the series, moderate.
        size = np.where(np.isfinite(problem.upper - problem.lower), 0.5 * (problem.upper - problem.lower), 1.0)
        near = np.clip(target, problem.lower, problem.upper)
        target = near + size * np.arcsinh((target - near) / size)
        pull = np.where(inside, 0.0, _PULL * curvature)

        tangent = np.zeros((*run.s.shape, k + problem.free, self.size))
        for i in range(k):
            tangent[..., i, i * m : (i + 1) * m] = self.basis.nodes * inside[..., i, None]
        if problem.free:
            tangent[..., k, -1] = 1.0
        gradient = np.einsum("epqk,epqkm->pm", run.weights[..., None] * costates.h_w, tangent, optimize=True)
        gradient += np.einsum("pk,pkm->pm", run.last.phi_z[:, d:], tangent[-1, :, -1])
        hessian = _second_variation(run, run.weights[..., None, None] * h_zz, tangent)
        if problem.free:
            excess = excess + 0.5 * gradient[:, -1] ** 2 / np.maximum(hessian[:, -1, -1], 1e-300)
        for i in range(k if pull.any() else 0):
            part, weighted = slice(i * m, (i + 1) * m), (self.basis.weights * pull[..., i])[..., None]
            scaled = np.swapaxes(weighted * self.basis.nodes, -1, -2)  # (E, P, m, q)
            gradient[:, part] += (scaled @ (raw - target)[..., i, None]).sum(axis=0)[..., 0]
            hessian[:, part, part] += (scaled @ self.basis.nodes).sum(axis=0)
        return Derivatives(gradient, hessian, excess, pull, target)


def _second_variation(run: Simulated, curvature: np.ndarray, tangent: np.ndarray) -> np.ndarray:
    """Hessians (P, M, M) from weighted h_zz (E, P, q, d + k, d + k) and the inputs' tangents (E, P, q, k, M)."""
    (_, num_starts, q, d), size = run.stages.shape, tangent.shape[-1]
    forced, still = run.first.F_z[..., d:] @ tangent, np.zeros((num_starts, d, size))
    stages, edge = sweep(gauss(q).matrix, run.width, run.first.F_z[..., :d], forced, still)
    last = np.concatenate([edge, tangent[-1, :, -1]], axis=1)
    hessian, flat = np.swapaxes(last, 1, 2) @ run.last.phi_zz @ last, (num_starts, -1, size)
    for stage, input_tangent, curved in zip(stages, tangent, curvature, strict=True):
        moved = np.concatenate([stage, input_tangent], axis=2)  # (P, q, d + k, M)
        hessian += np.swapaxes(moved.reshape(flat), 1, 2) @ (curved @ moved).reshape(flat)
    return hessian


def excess_along(run: Simulated) -> np.ndarray:
    """The estimated excess cost of trajectories, (P,)."""
    costates = adjoint(run)
    return _excess(run, costates.h_w, second_order(run.problem, run.s, run.stages, run.inputs, costates.stages))


def _excess(run: Simulated, h_w: np.ndarray, h_zz: np.ndarray) -> np.ndarray:
    """The largest decrease of the Hamiltonian's quadratic model by a change of each control alone, integrated, (P,).

    Without bounds this is ½ ∫ h_u² / h_uu ds. Coupling between controls is taken into account by solving with the full
    h_uu where no bound is active.
    """
    problem, k, d = run.problem, len(run.problem.controls), run.stages.shape[-1]
    slope, curvature, u = h_w[..., :k], h_zz[..., d : d + k, d : d + k], run.inputs[..., :k]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if k > 1 and not problem.bounded:
            step = np.linalg.solve(curvature + 1e-300 * np.eye(k), slope[..., None])[..., 0]
            decrease = 0.5 * np.einsum("epqk,epqk->epq", slope, step)
        else:
            diagonal = np.einsum("epqkk->epqk", curvature)
            newton = np.where(diagonal > 0, -slope / diagonal, -np.sign(slope) * np.inf)
            newton = np.where(slope == 0, 0.0, newton)
            step = np.clip(u + newton, problem.lower, problem.upper) - u
            decrease = -(slope * step + 0.5 * diagonal * step**2).sum(axis=-1)
    total = np.einsum("epq,epq->p", run.weights, np.maximum(decrease, 0.0))
    return np.where(np.isfinite(total), total, np.inf)
