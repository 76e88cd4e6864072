"""Lines whose frequencies move: a fit with its amplitudes eliminated, refined by variable projection.

Amplitudes are linear least squares at given frequencies; the frequencies move with Kaufman's Jacobian
(I - Q Q^T) (dPhi/dn) c. One R-only QR of [Phi, D_1 ... D_K, y_1 ... y_K] in row blocks holds everything that a step
needs: below the first p rows stand the projected Jacobians and residuals, so Q is never formed and memory stays bounded.
What falls is F = sum_k (|r_k|^2 + n floor) / sigma_k^2 with the noise variances sigma_k^2 = |r_k|^2 / n + floor of the fit
before, so that one unit of F is a move by one standard error; the floor is that of `evidence`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from flm.estimators.evidence import NOISE_FLOOR, Sample
from flm.estimators.waves import Waves
from flm.numerics.least_squares import triangular_factor
from flm.numerics.newton import Nielsen
from flm.numerics.variable_projection import Projected, project, trailing_block

# Least ridge on unit-norm columns, for data without noise. Otherwise it is that of amplitudes of the size of the outputs
# (unit variance) in the noise at hand, sigma sqrt(2 / n): coalescing lines cannot grow huge opposite amplitudes.
_LEAST_RIDGE = 1e-9
_START = 1e-6  # damping, relative to the largest squared slope


@dataclass(frozen=True, eq=False)
class Lines:
    """The least-squares fit of a sample at given frequencies.

    Args:
        sample: the rows.
        waves: the lines and the constant; frequency components that are zero stay zero, where F is even in them.
        highest: bound on the size of a frequency component.
        ridge: on columns of unit norm.
        variance: of the noise, (K,): the units in which residuals count.
        coefficients: (p, K).
        energy: weighted residual sums of squares with the penalty, (K,).
    """

    sample: Sample
    waves: Waves
    highest: float
    ridge: float
    variance: np.ndarray
    coefficients: np.ndarray
    energy: np.ndarray

    @classmethod
    def at(cls, sample: Sample, waves: Waves, highest: float = np.inf) -> Self:
        """The fit at these frequencies, with the ridge and the noise that it has itself."""
        nothing = np.zeros(0)
        blank = cls(sample, waves, highest, _LEAST_RIDGE, nothing, nothing, nothing)
        return blank._solved().refreshed()

    def _stacked(self, factor: np.ndarray) -> np.ndarray:
        """The triangular factor with the ridge below it."""
        p = self.waves.num_columns
        penalty = np.zeros((p, factor.shape[1]))
        penalty[:, :p] = np.diag(self.ridge * np.maximum(np.linalg.norm(factor[:, :p], axis=0), 1e-300))
        return triangular_factor(np.concatenate([factor, penalty]))

    def _solved(self) -> Self:
        """The same with the coefficients that fit best."""
        p = self.waves.num_columns
        R = self._stacked(self.sample.factor(self.waves.columns, p))
        coefficients = solve_triangular(R[:p, :p], R[:p, p:], check_finite=False)
        return replace(self, coefficients=coefficients, energy=(R[p:, p:] ** 2).sum(axis=0))

    def refreshed(self) -> Self:
        """The same with the noise of this fit, and with its ridge where it has become much better."""
        count = self.sample.count
        smaller = max(float(np.sqrt(2 * self.energy.max(initial=0.0)) / count), _LEAST_RIDGE)
        fit = self
        if not len(self.variance) or smaller < 0.5 * self.ridge:
            fit = replace(self, ridge=smaller)._solved()
        return replace(fit, variance=fit.energy / count + NOISE_FLOOR)

    @property
    def value(self) -> float:
        """F."""
        return float(((self.energy + self.sample.count * NOISE_FLOOR) / self.variance).sum())

    @property
    def movable(self) -> np.ndarray:
        """Which frequency components may move, (N m,)."""
        return (self.waves.subnets != 0).ravel()

    def projected(self) -> Projected:
        """Kaufman's Jacobian by the movable components, and the residual, in units of the noise."""
        p, K = self.coefficients.shape
        free = self.waves.subnets.size

        def columns(z: np.ndarray) -> np.ndarray:
            columns, slopes = self.waves.columns_and_slopes(z, self.coefficients)
            return np.concatenate([columns, slopes.reshape(len(z), K * free)], axis=1)

        factor = self._stacked(self.sample.factor(columns, p + K * free))
        root = np.sqrt(self.variance)
        factor[:, p:] /= np.concatenate([np.repeat(root, free), root])
        jacobian, residual = trailing_block(factor, p, K)
        return Projected(jacobian[:, self.movable], residual)

    def moved(self, step: np.ndarray) -> Self:
        """The fit at other frequencies, its ridge and its units kept."""
        subnets = self.waves.subnets.copy()
        subnets.ravel()[self.movable] += step
        subnets = np.clip(subnets, -self.highest, self.highest)
        return replace(self, waves=self.waves.moved(subnets))._solved()

    def refined(self, steps: int, tolerance: float = 1e-8) -> Self:
        """The fit after at most so many steps of the frequencies.

        Args:
            steps: most steps.
            tolerance: stop when F is expected to fall by less. One unit is a move by one standard error, and 1e-8 is
                1e-4 of it.
        """
        if not self.movable.any():
            return self
        least = tolerance / (self.sample.count * len(self.energy))  # F is n K
        return project(
            self, Nielsen(_START), max_steps=steps, step_tol=least, refreshed=lambda fit: fit.refreshed()
        ).point

    def covariance(self, variance: np.ndarray) -> np.ndarray:
        """Inverse Fisher information of all coefficients (of unit prior variance) and frequencies.

        Coefficients of output 0, 1, ..., then frequencies: (K p + N m, K p + N m). Frequency components that cannot move
        get variance zero.
        """
        p, K = self.coefficients.shape
        size = K * p + self.waves.subnets.size
        H = np.zeros((size, size))
        step = max(256, (1 << 22) // size)
        for start in range(0, len(self.sample.z), step):
            z, w = self.sample.z[start : start + step], self.sample.weights[start : start + step, None]
            columns, slopes = self.waves.columns_and_slopes(z, self.coefficients)
            gram = columns.T @ (w * columns)
            for k in range(K):
                mine = slice(k * p, (k + 1) * p)
                H[mine, mine] += gram / variance[k]
                H[mine, K * p :] += columns.T @ (w * slopes[:, k]) / variance[k]
                H[K * p :, K * p :] += slopes[:, k].T @ (w * slopes[:, k]) / variance[k]
        H[K * p :, : K * p] = H[: K * p, K * p :].T
        H[np.arange(K * p), np.arange(K * p)] += 1.0
        free = np.concatenate([np.ones(K * p, bool), self.movable])
        live = np.flatnonzero(free & (H.diagonal() > 0))
        covariance = np.zeros((size, size))
        scale = 1 / np.sqrt(H.diagonal()[live])
        correlation = H[np.ix_(live, live)] * scale[:, None] * scale
        correlation[np.diag_indices(len(live))] += 1e-12
        inverse = cho_solve(cho_factor(correlation), np.eye(len(live)))
        covariance[np.ix_(live, live)] = inverse * scale[:, None] * scale
        return covariance
