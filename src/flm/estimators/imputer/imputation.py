"""What an imputer returns: values, standard deviations, and which of them are extrapolated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from flm.estimators.imputer.calibration import Calibration
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
            _dressed(X, values, [j for j in table.columns if filled[:, j].any()]),
            _dressed(X, std, table.columns),
            filled,
            extrapolated,
            table.times,
            calibration,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter((self.values, self.std))

    def __repr__(self) -> str:
        n, C = self.filled.shape
        labels = getattr(self.values, "columns", [getattr(self.values, "name", None)] if C == 1 else range(C))
        numbers = np.stack([np.asarray(v, float) for v in _columns(self.std)], axis=1)
        rows = [f"Imputation of {n:,} rows: {int(self.filled.sum()):,} values filled"]
        if self.extrapolated.any():
            rows[0] += f", {int(self.extrapolated.sum()):,} of them extrapolated"
        for j in np.flatnonzero(self.filled.any(axis=0))[:8]:
            median = float(np.median(numbers[self.filled[:, j], j]))
            rows.append(
                f"  {labels[j]}: {int(self.filled[:, j].sum()):,} filled, standard deviation about {median:.4g}"
            )
        return "\n".join(rows + (["  …"] if self.filled.any(axis=0).sum() > 8 else []))

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
        """The series with its gaps filled and their bands; see `flm.report.figures.data.plot_imputation`."""
        from flm.report.figures.data import plot_imputation

        return plot_imputation(self, **options)


def _columns(table: Any) -> list[Any]:
    if hasattr(table, "columns"):
        return [table.iloc[:, j] for j in range(table.shape[1])]
    return list(np.asarray(table).reshape(len(table), -1).T)


def _dressed(X: Any, array: np.ndarray, columns: Iterable[int]) -> Any:
    """The array in the container of X, which keeps its other columns as they are."""
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
