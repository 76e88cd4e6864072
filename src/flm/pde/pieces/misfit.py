"""The sum of squares that parameters are to make least, near one choice of them, and how strong priors are.

Near the parameters found the readings are linear in them, b = J x + e, with x the deviation from the start, e of unit variance
and J = Q R. Numbers come first and have no prior; then

    2 log p(b) = -zᵀ (I + R C Rᵀ)⁻¹ z - log det(I + R C Rᵀ)

with the rows of R and z = Qᵀ b below the numbers, and C the prior covariance of the functions' coefficients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve

from flm.numerics.newton import Step, Trial
from flm.pde.pieces.elimination import triangle
from flm.pde.pieces.fields import LENGTHS, STRENGTHS, FieldFunctions
from flm.pde.pieces.readings import Chain, Point

Prior = tuple[float, float]  # length and strength of one function
LEAST = 1e-3  # of the largest weight: priors that are less probable do not count


@dataclass(frozen=True, eq=False)
class Weights:
    """How readings and priors count."""

    sigma: np.ndarray  # standard deviation of each reading, (P,)
    whitening: (
        np.ndarray
    )  # W: the learned parameters are their start plus W z, with z of prior variance 1 where there is a prior
    prior: np.ndarray  # 1 for the z that have a prior, 0 for numbers, (Q,)
    strengths: tuple[Prior, ...] = ()  # length and strength of the prior of each unknown function


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


@dataclass(frozen=True, eq=False)
class Linear:
    """The problem linearized at a point."""

    slopes: np.ndarray  # J, numbers first, (P, Q)
    target: np.ndarray  # b, (P,)
    fields: tuple[FieldFunctions, ...]  # the functions, in the order of their columns

    @classmethod
    def of(cls, misfit: Misfit, sigma: np.ndarray) -> Linear:
        """The problem of a misfit, with standard deviations of its own."""
        known, point = misfit.chain.setup.known, misfit.point
        learned = list(known.learned)
        J = misfit.plain * (misfit.weights.sigma / sigma)[:, None]
        away = point.parameters[learned] - known.start[learned]
        return cls(J, J @ away - point.misfit / sigma, known.fields)

    @cached_property
    def reduced(self) -> np.ndarray:
        """R and z side by side."""
        return triangle(np.column_stack([self.slopes, self.target]))

    @property
    def numbers(self) -> int:
        """How many columns have no prior."""
        return self.slopes.shape[1] - sum(f.columns.stop - f.columns.start for f in self.fields)

    def evidence(self, priors: tuple[Prior, ...]) -> float:
        """2 log p(b), up to a constant."""
        rows = self.reduced[self.numbers :, self.numbers :]
        R, z = rows[:, :-1], rows[:, -1]
        C = block_diag(*[f.covariance(*prior) for f, prior in zip(self.fields, priors, strict=True)])
        factor = cho_factor(np.eye(len(R)) + R @ C @ R.T)
        return float(-z @ cho_solve(factor, z) - 2 * np.sum(np.log(np.diagonal(factor[0]))))

    def trials(self, priors: tuple[Prior, ...], index: int) -> Iterator[tuple[Prior, ...]]:
        """The priors with that of one function exchanged."""
        for prior in product(LENGTHS, STRENGTHS):
            yield (*priors[:index], prior, *priors[index + 1 :])

    def strongest(self, priors: tuple[Prior, ...]) -> tuple[Prior, ...]:
        """The priors under which the readings are most probable, function by function."""
        for index in range(len(self.fields)):
            priors = max(self.trials(priors, index), key=self.evidence)
        return priors

    def spread(self, priors: tuple[Prior, ...], here: np.ndarray) -> np.ndarray:
        """The covariance about x = `here`, averaged over the priors of each function in turn, as probable as they are, (Q, Q)."""
        total = np.zeros((len(here),) * 2)
        for index in range(len(self.fields)):
            trials = list(self.trials(priors, index))
            found = np.array([self.evidence(trial) for trial in trials])
            weights = np.exp((found - found.max()) / 2)
            for trial, weight in zip(trials, weights / weights.sum(), strict=True):
                if weight > LEAST * weights.max() / weights.sum():
                    total += weight * self._second_moment(trial, here) / len(self.fields)
        return total

    def _second_moment(self, priors: tuple[Prior, ...], here: np.ndarray) -> np.ndarray:
        """Covariance under some priors, and the square of the distance of their mean from `here`."""
        R, z = self.reduced[:, :-1], self.reduced[:, -1]
        blocks = [f.whitening(*prior) for f, prior in zip(self.fields, priors, strict=True)]
        W = np.asarray(block_diag(np.eye(self.numbers), *blocks))
        has_prior = np.diag(np.arange(len(W)) >= self.numbers).astype(float)
        inverse = np.linalg.pinv(np.concatenate([R @ W, has_prior]), rcond=1e-14)
        away = W @ (inverse[:, : len(R)] @ z) - here
        half = W @ inverse
        return half @ half.T + np.outer(away, away)
