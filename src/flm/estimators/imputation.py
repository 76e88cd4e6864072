"""What an imputer returns: values, standard deviations, and which of them are extrapolated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from flm.estimators.calibration import Calibration
from flm.estimators.table import Table


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

    values: Any
    std: Any
    filled: np.ndarray
    extrapolated: np.ndarray
    times: np.ndarray
    calibration: Calibration

    @classmethod
    def like(cls, X: Any, values, std, filled, extrapolated, table: Table, calibration: Calibration) -> Imputation:
        """Arrays back in the container of X: index, columns and a date column kept."""
        return cls(
            _dressed(X, values, table.columns),
            _dressed(X, std, table.columns),
            filled,
            extrapolated,
            table.times,
            calibration,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter((self.values, self.std))

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends of the intervals of this level; the values themselves where observed."""
        half = self.calibration.half_width(level)
        if hasattr(self.values, "columns"):
            numeric = self.std.select_dtypes("number").columns
            lower, upper = self.values.copy(), self.values.copy()
            lower[numeric] = self.values[numeric] - half * self.std[numeric]
            upper[numeric] = self.values[numeric] + half * self.std[numeric]
            return lower, upper
        return self.values - half * self.std, self.values + half * self.std

    def plot(self, **options: Any) -> Any:
        """The series with its gaps filled and their bands; see `flm.report.data.plot_imputation`."""
        from flm.report.data import plot_imputation

        return plot_imputation(self, **options)


def _dressed(X: Any, array: np.ndarray, columns: np.ndarray) -> Any:
    if hasattr(X, "columns"):
        frame = X.copy()
        for j in columns:
            frame.isetitem(int(j), array[:, j])
        return frame
    if hasattr(X, "to_frame") and hasattr(X, "index"):
        series = X.astype(float)
        series[:] = array[:, 0]
        return series
    return array
