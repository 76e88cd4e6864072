"""Making error bars cover: one factor on the standard deviations, and the weight of the tails, from hidden values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from flm.wording import InputError

_LEVELS = np.array([0.68, 0.95])
_TAILS = np.array([2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, np.inf])  # degrees of freedom that are tried
_ENOUGH = 100  # hidden values without which nothing is calibrated


@dataclass(frozen=True)
class Calibration:
    """A factor on standard deviations, and a Student distribution for intervals of any level.

    The factor is chosen so that +-1 and +-1.96 standard deviations cover hidden values as nearly 68 % and 95 % as one
    factor can. The distribution has the hidden values' ratio of those two quantiles.
    """

    factor: float = 1.0  # on the model's standard deviations
    tail: float = np.inf  # degrees of freedom
    unit: float = 1.0  # scale of the distribution in units of the model's standard deviations

    @classmethod
    def of(cls, scores: np.ndarray) -> Calibration:
        """From hidden values, their errors in units of the model's standard deviations."""
        size = np.abs(scores[np.isfinite(scores)])
        if len(size) < _ENOUGH:
            return cls()
        sorted_ = np.sort(size)
        candidates = np.quantile(sorted_, np.linspace(0.5, 0.9, 401))
        covered = np.searchsorted(sorted_, np.outer(ndtri((1 + _LEVELS) / 2), candidates)) / len(sorted_)
        factor = float(candidates[np.argmin(np.abs(covered - _LEVELS[:, None]).max(axis=0))])
        quantiles = np.quantile(sorted_, _LEVELS)
        shapes = _student_quantile(_LEVELS[:, None], _TAILS)
        best = int(np.argmin(np.abs(np.log(shapes[1] / shapes[0]) - np.log(quantiles[1] / quantiles[0]))))
        return cls(factor, float(_TAILS[best]), float((quantiles / shapes[:, best]).mean()))

    def half_width(self, level: float) -> float:
        """Half-width of the interval of this level, in units of the calibrated standard deviation."""
        if not 0 < level < 1:
            raise InputError(f"`level` must be between 0 and 1; got {level!r}.")
        return float(_student_quantile(level, self.tail)) * self.unit / self.factor


UNCALIBRATED = Calibration()


def _student_quantile(level: float | np.ndarray, degrees: float | np.ndarray) -> np.ndarray:
    """Quantile of the absolute value; infinite degrees: Gaussian."""
    finite = np.where(np.isinf(degrees), 1.0, degrees)
    return np.where(np.isinf(degrees), ndtri((1 + level) / 2), stdtrit(finite, (1 + level) / 2))
