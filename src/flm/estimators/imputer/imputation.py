"""What an imputer returns: values, calibrated standard deviations, and which of them are extrapolated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from flm.estimators.imputer.holes import Calibration
from flm.estimators.imputer.units import Units
from flm.estimators.table import SECONDS, Container, Feature, TableLike, is_frame, kind_of
from flm.wording import check_count


class ExtrapolationWarning(UserWarning):
    """Values were filled outside the time span of the observed ones."""


@dataclass(frozen=True, eq=False)
class Standardized:
    """What was filled, in the units of the models."""

    units: Units
    columns: np.ndarray  # positions of the channels in the table, (C,)
    mean: np.ndarray  # (n, columns)
    std: np.ndarray

    @property
    def logarithmic(self) -> set[int]:
        """The columns that were filled on the scale of their logarithms."""
        return {int(j) for j, warp in zip(self.columns, self.units.warps, strict=False) if warp.kind == "log"}


@dataclass(frozen=True, eq=False)
class Imputation:
    """A filled table with error bars; unpacks as (values, std).

    A channel may have been filled on a scale of its own, such as that of its logarithms. Then values are medians, intervals reach
    farther up than down, and standard deviations are the mean of both sides.

    Attributes:
        values: the table, numpy or pandas as it came, holes filled.
        std: standard deviations of the filled values (noise included), zero where observed; same kind.
        filled: which values were missing, (n, columns).
        extrapolated: which of those lie outside the time span of the observed ones, (n, columns).
        times: the clock, (n,): seconds of dates and durations, row numbers without one.
        kinds: of the holes, by their depth and whether all channels have them, as `imputer.holes` numbers them.
        calibrations: the factors and tails that turn standard deviations into intervals, by kind.
        persistence: correlation of the errors of neighboring rows.
        together: correlations of the errors of the columns at one time.
        clock: the clock's name, kind and unit; "row" where rows are counted.
        standardized: values and deviations on the scales on which they were found.

    Three-dimensional tables have three-dimensional attributes, except the clock.
    """

    values: Container
    std: Container
    filled: np.ndarray
    extrapolated: np.ndarray
    times: np.ndarray
    kinds: np.ndarray
    calibrations: tuple[Calibration, ...]
    persistence: float
    together: np.ndarray
    clock: Feature
    standardized: Standardized

    def __iter__(self) -> Iterator[Container]:
        return iter((self.values, self.std))

    def __repr__(self) -> str:
        n, C = len(self.times), self.filled.shape[-1]
        labels = getattr(self.values, "columns", [getattr(self.values, "name", None)] if C == 1 else range(C))
        rows = [f"Imputation of {n:,} rows: {int(self.filled.sum()):,} values filled"]
        if self.extrapolated.any():
            rows[0] += f", {int(self.extrapolated.sum()):,} of them extrapolated"
        holes = self.filled.reshape(n, C)
        for j in np.flatnonzero(holes.any(axis=0))[:8]:
            std = self.std.iloc[:, j] if is_frame(self.std) else np.asarray(self.std).reshape(n, C)[:, j]
            median = float(np.median(np.asarray(std)[holes[:, j]]))
            rows.append(f"  {labels[j]}: {int(holes[:, j].sum()):,} filled, standard deviation about {median:.4g}")
        return "\n".join(rows + (["  …"] if holes.any(axis=0).sum() > 8 else []))

    @property
    def axis(self) -> np.ndarray:
        """The clock in its unit, (n,), as figures show it: dates count from the first row."""
        return (self.times - self.clock.origin) / SECONDS.get(self.clock.unit, 1.0)

    def interval(self, level: float = 0.95) -> tuple[Container, Container]:
        """Lower and upper ends of the intervals of this level; the values themselves where observed."""
        half = np.array([found.half_width(level) for found in self.calibrations])[self._rows_of(self.kinds)]
        columns, shape = np.flatnonzero(self._rows_of(self.filled).any(axis=0)), self.filled.shape
        lower, upper = (dressed(self.values, self._moved(sign * half).reshape(shape), columns) for sign in (-1, 1))
        return lower, upper

    def _rows_of(self, part: np.ndarray) -> np.ndarray:
        return part.reshape(len(self.times), -1)

    def _moved(self, by: np.ndarray) -> np.ndarray:
        """The table with its filled values moved by so many standard deviations, (n, columns)."""
        found, table, holes = self.standardized, self._rows_of(_numbers(self.values)), self._rows_of(self.filled)
        moved = found.units.back((found.mean + by * found.std)[:, found.columns])
        table[:, found.columns] = np.where(holes[:, found.columns], moved, table[:, found.columns])
        return table

    def sample(self, n: int = 1, *, seed: int = 0) -> np.ndarray:
        """Whole fillings drawn at random, (n, rows, columns), from which to read what holds for a filled gap as a whole.

        Errors are correlated as those of hidden gaps were, from row to row and between columns, and each has
        the deviation and the tails of its kind of hole. Columns that are not numbers are NaN.

        Example:
            >>> import numpy as np, flm
            >>> X = np.sin(0.3 * np.arange(300.0))[:, None]
            >>> X[50:62] = np.nan
            >>> drawn = flm.FLMImputer().fit(X).impute(X).sample(100)
            >>> drawn.shape, bool(drawn[:, 50:62].mean(axis=(1, 2)).std() > 0)
            ((100, 300, 1), True)
        """
        n = check_count("n", n, 1)
        holes, kinds = self._rows_of(self.filled), self._rows_of(self.kinds)
        rng, a = np.random.default_rng(seed), self.persistence
        b, root = np.sqrt(1 - a * a), np.linalg.cholesky(self.together)
        drawn = np.empty((n, *holes.shape))
        for k in range(n):
            fresh = rng.normal(size=holes.shape) @ root.T
            # z_t = a z_(t-1) + b e_t, b^2 = 1 - a^2, of unit variance from the first on
            z = np.empty(holes.shape)
            z[np.argsort(self.times, kind="stable")] = lfilter([b], [1.0, -a], fresh, axis=0, zi=(1 - b) * fresh[:1])[0]
            for kind, found in enumerate(self.calibrations):
                here = holes & (kinds == kind)
                z[here] = found.spread(z[here])
            drawn[k] = self._moved(z)
        return drawn.reshape(n, *self.filled.shape)

    def plot(self, *, columns: Sequence[int | str] | None = None, rows: slice | None = None, level: float = 0.95):
        """A figure of observed values as a line with gaps, filled ones as dots with intervals, extrapolated ones marked.

        Args:
            columns: which columns, positions or names; the first four with holes by default.
            rows: which rows; all by default.
            level: the level of the intervals.
        """
        from flm.report.figures.data import plot_imputation

        return plot_imputation(self, columns=columns, rows=rows, level=level)


def dressed(X: TableLike, array: np.ndarray, columns: Iterable[int]) -> Container:
    """The array in the container of X: index and columns kept; columns other than `columns` stay as they were."""
    if is_frame(X):
        frame = X.copy()
        for j in columns:
            frame.isetitem(int(j), array[:, j])
        return frame
    if isinstance(X, pd.Series):
        series = X.astype(float)
        series[:] = array[:, 0]
        return series
    return array


def _numbers(table: Container) -> np.ndarray:
    """The columns of numbers, NaN for dates."""
    if not is_frame(table):
        return np.array(table, float)
    unknown = np.full(len(table), np.nan)
    is_clock = lambda column: kind_of(column) in ("date", "duration")
    parts = [unknown if is_clock(c) else c.to_numpy(float, na_value=np.nan) for _, c in table.items()]
    return np.stack(parts, axis=1)
