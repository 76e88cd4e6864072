"""The sum of squares that parameters are to make least, near one choice of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flm.numerics.newton import Step, Trial
from flm.pde.pieces.readings import Chain, Point


@dataclass(frozen=True, eq=False)
class Weights:
    """How readings and priors count.

    Args:
        sigma: standard deviation of each reading, (P,).
        whitening: W: the learned parameters are their start plus W z, with z of prior variance 1 where there is a prior.
        prior: 1 for the z that have a prior, 0 for numbers, (Q,).
        strengths: length and strength of the prior of each unknown function.
    """

    sigma: np.ndarray
    whitening: np.ndarray
    prior: np.ndarray
    strengths: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Misfit:
    """The sum of squares near a point: see `flm.numerics.newton.Model`."""

    chain: Chain
    weights: Weights
    point: Point

    @cached_property
    def z(self) -> np.ndarray:
        """The learned parameters in units of their prior, (Q,)."""
        known = self.chain.setup.known
        learned = list(known.learned)
        return np.linalg.solve(self.weights.whitening, self.point.parameters[learned] - known.start[learned])

    @cached_property
    def residuals(self) -> np.ndarray:
        """Of readings, in standard deviations, then of the priors."""
        return np.concatenate([self.point.misfit / self.weights.sigma, self.weights.prior * self.z])

    @property
    def value(self) -> float:
        """The sum of squares."""
        return float(self.residuals @ self.residuals)

    @cached_property
    def derivatives(self) -> list[np.ndarray]:
        """Of the answer by the learned parameters."""
        return self.chain.derivatives(self.point)

    @cached_property
    def plain(self) -> np.ndarray:
        """Slopes of the readings by the learned parameters, in standard deviations, (P, Q)."""
        return self.chain.slopes(self.point, self.derivatives) / self.weights.sigma[:, None]

    @cached_property
    def slopes(self) -> np.ndarray:
        """Slopes of `residuals` by z."""
        return np.concatenate([self.plain @ self.weights.whitening, np.diag(self.weights.prior)])

    def step(self, damping: np.ndarray) -> Step:
        """Levenberg and Marquardt's step, in z."""
        J, r = self.slopes, self.residuals
        size = np.sqrt(np.sum(J**2, axis=0))
        size = np.where(size > 0, size, 1.0)
        rows = np.concatenate([J / size, np.sqrt(float(damping)) * np.eye(len(size))])
        move = np.linalg.lstsq(rows, np.concatenate([-r, np.zeros(len(size))]), rcond=1e-12)[0] / size
        return Step(move, float(-2 * (J.T @ r) @ move - np.sum((J @ move) ** 2)))

    def take(self, move: np.ndarray) -> Trial[Point]:
        """The answer after a step, within the limits; Newton starts where the derivatives point to."""
        known, parameters = self.chain.setup.known, self.point.parameters
        learned = list(known.learned)
        change = np.zeros_like(parameters)
        change[learned] = self.weights.whitening @ move
        change = known.limited(parameters, change)
        along = change[learned]
        starts = [a.coefficients + d @ along for a, d in zip(self.point.answers, self.derivatives, strict=True)]
        point = self.chain.at(parameters + change, starts)
        return Trial(point, replace(self, point=point).value)

    def covariance(self) -> np.ndarray:
        """Of the learned parameters, (Q, Q): the inverse of JᵀJ, infinite where that has none."""
        try:
            inverse = np.linalg.pinv(self.slopes, rcond=1e-14)
        except np.linalg.LinAlgError:
            return np.full((len(self.z),) * 2, np.inf)
        half = self.weights.whitening @ inverse
        return half @ half.T
