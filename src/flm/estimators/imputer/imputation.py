"""What an imputer returns: values, standard deviations, and which of them are extrapolated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from flm.estimators.imputer.calibration import Calibration
from flm.estimators.table import Container, TableLike, is_frame, is_series


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
            level: of the intervals.
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
