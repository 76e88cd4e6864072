"""What an imputer returns: values, calibrated standard deviations, and which of them are extrapolated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from flm.estimators.table import Container, TableLike, is_frame, is_series
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


class ExtrapolationWarning(UserWarning):
    """Values were filled outside the time span of the observed ones."""


@dataclass(frozen=True, eq=False)
class Imputation:
    """A filled table with error bars; unpacks as (values, std).

    Attributes:
        values: the table, numpy or pandas as it came, holes filled.
        std: standard deviations of the filled values (noise included), zero where observed; same kind.
        filled: which values were missing, (n, columns).
        extrapolated: which of those lie outside the time span of the observed ones, (n, columns).
        times: the clock, (n,).
        calibration: what turns standard deviations into intervals.
    """

    values: Container
    std: Container
    filled: np.ndarray
    extrapolated: np.ndarray
    times: np.ndarray
    calibration: Calibration

    def __iter__(self) -> Iterator[Container]:
        return iter((self.values, self.std))

    def __repr__(self) -> str:
        n, C = self.filled.shape
        labels = getattr(self.values, "columns", [getattr(self.values, "name", None)] if C == 1 else range(C))
        rows = [f"Imputation of {n:,} rows: {int(self.filled.sum()):,} values filled"]
        if self.extrapolated.any():
            rows[0] += f", {int(self.extrapolated.sum()):,} of them extrapolated"
        for j in np.flatnonzero(self.filled.any(axis=0))[:8]:
            std = self.std.iloc[:, j] if is_frame(self.std) else np.asarray(self.std).reshape(n, C)[:, j]
            median = float(np.median(np.asarray(std)[self.filled[:, j]]))
            rows.append(
                f"  {labels[j]}: {int(self.filled[:, j].sum()):,} filled, standard deviation about {median:.4g}"
            )
        return "\n".join(rows + (["  …"] if self.filled.any(axis=0).sum() > 8 else []))

    def interval(self, level: float = 0.95) -> tuple[Container, Container]:
        """Lower and upper ends of the intervals of this level; the values themselves where observed."""
        half = self.calibration.half_width(level)
        if is_frame(self.values) and is_frame(self.std):
            numeric = self.std.select_dtypes("number").columns
            lower, upper = self.values.copy(), self.values.copy()
            lower[numeric] = self.values[numeric] - half * self.std[numeric]
            upper[numeric] = self.values[numeric] + half * self.std[numeric]
            return lower, upper
        width = half * np.asarray(self.std)
        return self.values - width, self.values + width

    def plot(self, *, columns: Sequence[int | str] | None = None, rows: slice | None = None, level: float = 0.95):
        """Observed values as a line with its gaps, filled ones as dots with intervals, extrapolated ones marked.

        Args:
            columns: which columns, positions or names; the first four with holes by default.
            rows: which rows; all by default.
            level: the level of the intervals.
        """
        from flm.report.figures.data import plot_imputation

        return plot_imputation(self, columns=columns, rows=rows, level=level)


def dressed(X: TableLike, array: np.ndarray, columns: Iterable[int]) -> Container:
    """The array in the container of X: index and columns kept, columns that are not named as they were."""
    if is_frame(X):
        frame = X.copy()
        for j in columns:
            frame.isetitem(int(j), array[:, j])
        return frame
    if is_series(X):
        series = X.astype(float)
        series[:] = array[:, 0]
        return series
    return array
