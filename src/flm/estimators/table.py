"""Reading a table with a clock: numpy or pandas in, times and channels out, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from flm.estimators.periodogram import Clock
from flm.wording import InputError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

TableLike: TypeAlias = "npt.ArrayLike | pd.DataFrame | pd.Series"
Container: TypeAlias = "np.ndarray | pd.DataFrame | pd.Series"  # what comes back

LARGEST = 1e150  # its square is still a number


def check_size(name: str, values: np.ndarray) -> None:
    """Refuse numbers whose squares overflow."""
    top = np.nanmax(np.abs(values), initial=0.0)
    if top > LARGEST:
        raise InputError(f"`{name}` must be at most {LARGEST:g} in size; got {top:g}. Give it in other units.")


@dataclass(frozen=True, eq=False)
class Table:
    """Channels on a clock."""

    times: np.ndarray  # of the rows, in the clock's own unit (seconds for dates, rows without a clock), (n,)
    values: np.ndarray  # (n, C), NaN where missing
    everything: np.ndarray  # all columns of the input as numbers, the clock's too
    columns: np.ndarray  # positions of the channels among them
    is_absolute: bool  # whether times of different tables are on one clock (dates or a time column)

    @cached_property
    def order(self) -> np.ndarray:
        """Rows by time."""
        return np.argsort(self.times, kind="stable")

    def placed(self, by_time: np.ndarray) -> np.ndarray:
        """Something of every channel (n, C), rows by time, in the rows and columns of the input; zero in other columns."""
        out = np.zeros(self.everything.shape, by_time.dtype)
        out[np.ix_(self.order, self.columns)] = by_time
        return out


@dataclass(frozen=True, eq=False)
class Units:
    """The units in which a table is standardized."""

    step: float  # of the clock
    origin: float  # the first time where clocks are absolute, else zero
    center: np.ndarray  # of the channels, (C,)
    spread: np.ndarray  # (C,)

    @classmethod
    def of(cls, table: Table) -> Units:
        """Means and deviations of the observed values; a constant channel, up to rounding, keeps its unit.

        The step of an irregular clock is its median gap.
        """
        center, spread = np.nanmean(table.values, axis=0), np.nanstd(table.values, axis=0)
        spread = np.where(spread > 1e-12 * np.abs(center), spread, 1.0)
        gaps = np.diff(np.unique(table.times))
        step = Clock.of(table.times).step or (float(np.median(gaps)) if len(gaps) else 1.0)
        return cls(step, float(table.times.min()) if table.is_absolute else 0.0, center, spread)

    def standardized(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Times in steps from the origin, increasing, and the channels at these."""
        origin = self.origin if table.is_absolute else 0.0
        return (table.times[table.order] - origin) / self.step, (table.values[table.order] - self.center) / self.spread


def is_frame(X: object) -> TypeGuard[pd.DataFrame]:
    """Whether X is a data frame; pandas need not be there."""
    return hasattr(X, "columns")


def is_series(X: object) -> TypeGuard[pd.Series]:
    """Whether X is a series of pandas."""
    return hasattr(X, "to_frame") and not hasattr(X, "columns") and hasattr(X, "index")


def numeric_copy(X: TableLike, time: str | int | None) -> TableLike:
    """X with a column of dates replaced by seconds, so that all of it is numbers; other inputs as they are."""
    if time is None or not is_frame(X):
        return X
    if time not in X.columns:
        names = [str(name) for name in X.columns]
        hint = did_you_mean(str(time), names)
        raise InputError(f"`time` must be one of the columns {', '.join(names)}; got {time!r}.{hint}")
    import pandas as pd

    column = pd.Index(X[time])
    if column.dtype.kind in "OSU" or str(column.dtype) in ("string", "str"):
        column = pd.to_datetime(column)
    if column.dtype.kind in "mM" or hasattr(column.dtype, "tz"):
        X = X.copy()
        X[time] = seconds(column)
    return X


def seconds(dates: pd.Index) -> np.ndarray:
    """Dates, periods (their starts) or durations as seconds, since 1970 or zero."""
    import pandas as pd

    if isinstance(dates, pd.TimedeltaIndex):
        return dates.to_numpy("timedelta64[ns]").astype("int64") / 1e9
    index = dates.to_timestamp() if isinstance(dates, pd.PeriodIndex) else pd.DatetimeIndex(dates)
    return index.tz_localize(None).to_numpy("datetime64[ns]").astype("int64") / 1e9


def read_table(X: TableLike, values: np.ndarray, time: str | int | None) -> Table:
    """The channels and their clock: the column `time`, else an index of dates, periods or durations, else the row number.

    `X` is the input as it came, `values` are its numbers, all columns.
    """
    columns = np.arange(values.shape[1])
    if time is not None:
        place = list(X.columns).index(time) if is_frame(X) else time
        if not isinstance(place, int | np.integer) or not -values.shape[1] <= place < values.shape[1]:
            raise InputError(
                f"`time` must be a column's position below {values.shape[1]} when X is an array; got {time!r}."
            )
        place = int(place) % values.shape[1]
        times = values[:, place]
        if np.isnan(times).any():
            raise InputError(
                f"`time` must have no missing values; got {int(np.isnan(times).sum())} in column {time!r}."
            )
        columns = np.delete(columns, place)
        if not len(columns):
            raise InputError("`X` must have a column besides `time`; got only that.")
        return Table(times, values[:, columns], values, columns, True)
    index = getattr(X, "index", None)
    if index is not None and type(index).__name__ in ("DatetimeIndex", "PeriodIndex", "TimedeltaIndex"):
        return Table(seconds(index), values, values, columns, True)
    return Table(np.arange(len(values), dtype=float), values, values, columns, False)
