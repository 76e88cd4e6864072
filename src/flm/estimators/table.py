"""Reading a table with a clock: numpy or pandas in, times and channels out, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flm.estimators.periodogram import Clock
from flm.wording import InputError

LARGEST = 1e150  # its square is still a number


def check_size(name: str, values: np.ndarray) -> None:
    """Refuse numbers whose squares overflow."""
    top = np.nanmax(np.abs(values), initial=0.0)
    if top > LARGEST:
        raise InputError(f"`{name}` must be at most {LARGEST:g} in size; got {top:g}. Give it in other units.")


@dataclass(frozen=True, eq=False)
class Table:
    """Channels on a clock.

    Args:
        times: of the rows, in the clock's own unit (seconds for dates, rows without a clock), (n,).
        values: (n, C), NaN where missing.
        everything: all columns of the input as numbers, the clock's too.
        columns: positions of the channels among them.
        is_absolute: whether times of different tables are on one clock (dates or a time column).
    """

    times: np.ndarray
    values: np.ndarray
    everything: np.ndarray
    columns: np.ndarray
    is_absolute: bool

    @property
    def order(self) -> np.ndarray:
        """Rows by time."""
        return np.argsort(self.times, kind="stable")


def numeric_copy(X: Any, time: Any) -> Any:
    """X with a column of dates replaced by seconds, so that all of it is numbers; other inputs as they are."""
    if time is None or not hasattr(X, "columns"):
        return X
    if time not in X.columns:
        import difflib

        names = [str(name) for name in X.columns]
        close = difflib.get_close_matches(str(time), names, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"`time` must be one of the columns {', '.join(names)}; got {time!r}.{hint}")
    column = X[time]
    if column.dtype.kind in "OSU" or str(column.dtype) in ("string", "str"):
        import pandas as pd

        column = pd.to_datetime(column)
    if column.dtype.kind == "M" or hasattr(column.dtype, "tz"):
        X = X.copy()
        X[time] = seconds(column)
    return X


def seconds(dates: Any) -> np.ndarray:
    """Dates, periods (their starts) or durations as seconds, since 1970 or zero."""
    import pandas as pd

    if type(dates).__name__ == "TimedeltaIndex":
        return dates.to_numpy("timedelta64[ns]").astype("int64") / 1e9
    index = dates.to_timestamp() if type(dates).__name__ == "PeriodIndex" else pd.DatetimeIndex(dates)
    return index.tz_localize(None).to_numpy("datetime64[ns]").astype("int64") / 1e9


def read_table(X: Any, values: np.ndarray, time: Any) -> Table:
    """The channels and their clock: the column `time`, else an index of dates, periods or durations, else the row number.

    Args:
        X: the input as it came.
        values: its numbers, validated, all columns.
        time: name or position of the clock's column.
    """
    columns = np.arange(values.shape[1])
    if time is not None:
        place = list(X.columns).index(time) if hasattr(X, "columns") else time
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


def clock_step(times: np.ndarray) -> float:
    """The step of a regular clock, the median gap of an irregular one."""
    clock = Clock.of(times)
    if clock.step:
        return clock.step
    gaps = np.diff(np.unique(times))
    return float(np.median(gaps)) if len(gaps) else 1.0
