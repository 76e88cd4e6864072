"""Kinds of noise: white, correlated from tick to tick, heavy-tailed, or growing; found from the residuals of a fit.

Heavy tails are Student's t with nu degrees of freedom: a normal whose variance is drawn anew for every row. By expectation
maximization a row counts with the weight (nu + K) / (nu + |r|^2), r its residual in units of the deviation. Growing noise
has the deviation exp(a + b.z + c f), with z the scaled inputs and f the fitted value (one output): the maximum of the
Gaussian likelihood, by scoring. The gain in log likelihood over white noise must exceed (log n) / 2 per number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from flm.estimators.evidence import Sample

KINDS = ("white", "ar1", "student", "growing")
_TAILS = np.array([2.2, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0])
_ROUNDS = 40
_CLEAR = 3.0  # nats beyond its cost that a kind of noise must gain
_STEEPEST = 4.0  # of the logarithm of the deviation, over half the extent of a feature


@dataclass(frozen=True, eq=False)
class Noise:
    """The kind of noise and its shape."""

    kind: str = "white"
    rho: float = 0.0  # correlation from tick to tick
    tail: float = np.inf  # degrees of freedom
    slopes: np.ndarray | None = None  # of the logarithm of the deviation by z, (m,), or by z and f, (m + 1,)

    @property
    def spread(self) -> float:
        """Deviation of one observation in units of that of an ordinary row, larger through tails and correlation."""
        heavy = 1.0 if np.isinf(self.tail) else np.sqrt(self.tail / (self.tail - 2))
        return float(heavy / np.sqrt(1 - self.rho**2))

    def growth(self, z: np.ndarray, fitted: np.ndarray) -> np.ndarray:
        """Relative deviations at inputs (n, m) with fitted values (n, K), (n,)."""
        if self.slopes is None:
            return np.ones(len(z))
        # Beyond the data the noise stays as it is at their edge.
        regressors = _regressors(np.clip(z, -1, 1), np.clip(fitted, -5, 5))
        return np.exp(regressors[:, : len(self.slopes)] @ self.slopes)

    def weighed(self, sample: Sample, fitted: np.ndarray, variance: np.ndarray) -> Sample:
        """The sample with relative deviations of the noise of each row, given the residuals of a fit."""
        if np.isinf(self.tail):
            return replace(sample, deviations=self.growth(sample.z, fitted))
        surprise = ((sample.y - fitted) ** 2 / variance).sum(axis=1)
        return replace(sample, deviations=np.sqrt((self.tail + surprise) / (self.tail + fitted.shape[1])))


def _regressors(z: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    return np.concatenate([z, fitted], axis=1) if fitted.shape[1] == 1 else z


def likely_noise(sample: Sample, fitted: np.ndarray, asked: str | None) -> Noise:
    """The kind of noise that the residuals of a fit suggest, or noise of the kind asked for."""
    residual, weights, count = sample.y - fitted, sample.weights, sample.count
    r = residual / np.sqrt(np.maximum(weights @ residual**2 / count, 1e-300))
    white = -0.5 * count * r.shape[1] * (np.log(2 * np.pi) + 1)
    found = [(0.0 if asked is None else -np.inf, Noise())]
    if asked in (None, "student"):
        gains = [_student(r, weights, tail) for tail in _TAILS]
        gain = max(gains) - white - 0.5 * np.log(count) - _CLEAR
        found.append((gain, Noise("student", tail=float(_TAILS[int(np.argmax(gains))]))))
    if asked in (None, "growing"):
        slopes, likelihood = _growing(_regressors(sample.z, fitted), r, weights)
        gain = likelihood - white - 0.5 * len(slopes) * np.log(count) - _CLEAR
        found.append((gain, Noise("growing", slopes=slopes)))
    return max(found, key=lambda item: item[0])[1]


def _student(r: np.ndarray, weights: np.ndarray, tail: float) -> float:
    """Largest log likelihood of residuals of unit variance under Student's t with these degrees of freedom."""
    K, count = r.shape[1], weights.sum()
    scale = np.full(K, 0.5)
    for _ in range(_ROUNDS):
        row = weights * (tail + K) / (tail + (r**2 / scale).sum(axis=1))
        scale = np.maximum(row @ r**2 / count, 1e-12)
    surprise = (r**2 / scale).sum(axis=1)
    constant = gammaln((tail + K) / 2) - gammaln(tail / 2) - 0.5 * K * np.log(np.pi * tail) - 0.5 * np.log(scale).sum()
    return float(count * constant - 0.5 * (tail + K) * (weights @ np.log1p(surprise / tail)))


def _growing(regressors: np.ndarray, r: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Slopes of the log deviation, and the log likelihood, by scoring steps with information 2 K sum w x x^T."""
    K = r.shape[1]
    design = np.column_stack([np.ones(len(r)), regressors])
    square = (r**2).mean(axis=1)
    slopes = np.zeros(design.shape[1])
    information = 2 * (design.T * weights) @ design + 1e-6 * weights.sum() * np.eye(len(slopes))
    for _ in range(_ROUNDS):
        excess = square * np.exp(-2 * design @ slopes) - 1
        step = np.linalg.solve(information, design.T @ (weights * np.clip(excess, -1, 20)))
        slopes = slopes + np.clip(step, -0.5, 0.5)
        slopes[1:] = np.clip(slopes[1:], -_STEEPEST, _STEEPEST)
    log = design @ slopes
    value = -0.5 * K * (weights @ (np.log(2 * np.pi) + 2 * log + square * np.exp(-2 * log)))
    return slopes[1:], float(value)
