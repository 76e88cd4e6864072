"""Variable projection: frequencies by Levenberg-Marquardt with the amplitudes eliminated.

Amplitudes are linear least squares at given frequencies; the frequencies move with Kaufman's Jacobian
(I - Q Q^T) (dPhi/dn) c. One R-only QR of [Phi, D_1 ... D_K, y_1 ... y_K] in row blocks holds everything that a step
needs: below the first p rows stand the projected Jacobians and residuals, so Q is never formed and memory stays bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from flm.estimators.evidence import NOISE_FLOOR, compress
from flm.estimators.waves import Waves
from flm.numerics.least_squares import triangular_factor

# Least ridge on unit-norm columns, for data without noise. Otherwise it is that of amplitudes of the size of the outputs
# (unit variance) in the noise at hand, sigma sqrt(2 / n): coalescing lines cannot grow huge opposite amplitudes.
_LEAST_RIDGE = 1e-9


def noise_ridge(energy: np.ndarray, count: float) -> float:
    """sigma sqrt(2 / n) of the noisiest output, given residual sums of squares."""
    return max(float(np.sqrt(2 * energy.max(initial=0.0)) / count), _LEAST_RIDGE)


@dataclass(frozen=True, eq=False)
class System:
    """One linearization: the fit at given frequencies and what a step from there needs."""

    waves: Waves
    coefficients: np.ndarray  # (p, K)
    energy: np.ndarray  # (K,) weighted residual sums of squares
    jacobian: np.ndarray  # (rows, K, N m), projected
    residual: np.ndarray  # (rows, K), projected

    def misfit(self, variance: np.ndarray) -> float:
        """sum_k |r_k|^2 / sigma_k^2."""
        return float((self.energy / variance).sum())


def solve_amplitudes(
    waves: Waves, z: np.ndarray, y: np.ndarray, weights: np.ndarray, ridge: float = _LEAST_RIDGE
) -> tuple[np.ndarray, np.ndarray]:
    """Least-squares coefficients (p, K) at fixed frequencies, and the residual sums of squares (K,) with the penalty."""
    p, K = waves.num_columns, y.shape[1]
    factor = compress(waves.columns, z, y, weights, p)
    norm = np.maximum(np.linalg.norm(factor[:, :p], axis=0), 1e-300)
    penalty = np.concatenate([np.diag(ridge * norm), np.zeros((p, K))], axis=1)
    R = triangular_factor(np.concatenate([factor, penalty]))
    return solve_triangular(R[:p, :p], R[:p, p:], check_finite=False), (R[p:, p:] ** 2).sum(axis=0)


def linearize(waves: Waves, z: np.ndarray, y: np.ndarray, weights: np.ndarray, ridge: float = _LEAST_RIDGE) -> System:
    """Fit the amplitudes and build the projected Jacobian, in two passes over the rows."""
    p, K = waves.num_columns, y.shape[1]
    coefficients, energy = solve_amplitudes(waves, z, y, weights, ridge)
    free = waves.subnets.size

    def columns(block: np.ndarray) -> np.ndarray:
        slopes = waves.slopes(block, coefficients).reshape(len(block), K * free)
        return np.concatenate([waves.columns(block), slopes], axis=1)

    factor = compress(columns, z, y, weights, p + K * free)
    norm = np.maximum(np.linalg.norm(factor[:, :p], axis=0), 1e-300)
    penalty = np.zeros((p, factor.shape[1]))
    penalty[:, :p] = np.diag(ridge * norm)
    below = triangular_factor(np.concatenate([factor, penalty]))[p:]
    return System(
        waves, coefficients, energy, below[:, p : p + K * free].reshape(len(below), K, free), below[:, p + K * free :]
    )


def refine(
    waves: Waves,
    z: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    *,
    steps: int = 30,
    tolerance: float = 1e-8,
    highest: np.ndarray | float = np.inf,
    movable: np.ndarray | None = None,
) -> System:
    """Levenberg-Marquardt on the frequencies, isotropic damping with Nielsen's update.

    Args:
        waves: the start; components that are zero stay zero (the objective is even in them).
        z: scaled inputs, (n, m).
        y: outputs, (n, K).
        weights: of the rows.
        steps: most steps.
        tolerance: stop when the misfit is expected to fall by less. One unit is a move by one standard error, and 1e-8
            is 1e-4 of it.
        highest: bound on |frequency| per component.
        movable: which components may move, (N, m); default all nonzero ones.
    """
    count = float(weights.sum())
    ridge = noise_ridge(solve_amplitudes(waves, z, y, weights)[1], count)
    system = linearize(waves, z, y, weights, ridge)
    free = (waves.subnets != 0) if movable is None else movable & (waves.subnets != 0)
    free = free.ravel()
    if not free.any():
        return system
    variance = np.maximum(system.energy / count, NOISE_FLOOR)
    damping, growth = None, 2.0
    for _ in range(steps):
        J = (system.jacobian / np.sqrt(variance)[:, None]).reshape(-1, waves.subnets.size)[:, free]
        r = (system.residual / np.sqrt(variance)).ravel()
        H, g = J.T @ J, J.T @ r
        if damping is None:
            damping = 1e-6 * max(float(H.diagonal().max(initial=0.0)), 1e-300)
        accepted = False
        for _ in range(8):
            step = np.linalg.solve(H + damping * np.eye(len(g)), g)
            predicted = float(step @ (damping * step + g))
            if predicted < tolerance:
                return system
            moved = system.waves.subnets.copy()
            moved.ravel()[free] += step
            moved = np.clip(moved, -highest, highest)
            trial = linearize(system.waves.moved(moved), z, y, weights, ridge)
            gain = (system.misfit(variance) - trial.misfit(variance)) / predicted
            if gain > 0:
                damping *= max(1 / 3, 1 - (2 * gain - 1) ** 3)
                growth, accepted, system = 2.0, True, trial
                variance = np.maximum(system.energy / count, NOISE_FLOOR)
                smaller = noise_ridge(system.energy, count)
                if smaller < 0.5 * ridge:  # the fit has become much better: so must the ridge
                    ridge = smaller
                    system = linearize(system.waves, z, y, weights, ridge)
                break
            damping *= growth
            growth *= 2
        if not accepted:
            return system
    return system


def joint_covariance(
    waves: Waves, coefficients: np.ndarray, variance: np.ndarray, z: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Inverse Fisher information of all coefficients (of unit prior variance) and frequencies.

    Frequency components that cannot move get variance zero.
    """
    p, K = coefficients.shape
    free = waves.subnets.size
    size = K * p + free
    H = np.zeros((size, size))
    step = max(256, (1 << 22) // size)
    for start in range(0, len(z), step):
        rows = slice(start, start + step)
        w = weights[rows, None]
        columns = waves.columns(z[rows])
        slopes = waves.slopes(z[rows], coefficients)
        gram = columns.T @ (w * columns)
        for k in range(K):
            mine = slice(k * p, (k + 1) * p)
            H[mine, mine] += gram / variance[k]
            H[mine, K * p :] += columns.T @ (w * slopes[:, k]) / variance[k]
            H[K * p :, K * p :] += slopes[:, k].T @ (w * slopes[:, k]) / variance[k]
    H[K * p :, : K * p] = H[: K * p, K * p :].T
    H[np.arange(K * p), np.arange(K * p)] += 1.0
    fixed = np.concatenate([np.zeros(K * p, bool), (waves.subnets == 0).ravel()])
    live = np.flatnonzero(~fixed & (H.diagonal() > 0))
    covariance = np.zeros((size, size))
    scale = 1 / np.sqrt(H.diagonal()[live])
    correlation = H[np.ix_(live, live)] * scale[:, None] * scale
    correlation[np.diag_indices(len(live))] += 1e-12
    inverse = cho_solve(cho_factor(correlation), np.eye(len(live)))
    covariance[np.ix_(live, live)] = inverse * scale[:, None] * scale
    return covariance
