"""Tables as input: columns as numbers (clocks count from their first row, categories become one column per level), and channels
on a clock for the imputer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import pandas as pd

from flm.wording import InputError, did_you_mean, short

TableLike: TypeAlias = npt.ArrayLike | pd.DataFrame | pd.Series
Container: TypeAlias = np.ndarray | pd.DataFrame | pd.Series  # what is returned
_CLOCKS = pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex

LARGEST = 1e150  # its square is still a number
SECONDS = {"years": 365.2425 * 86400, "days": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0}
_TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # a second
_LEAST_SPAN = 20  # a record spans at least this many units of its clock, if there is a unit small enough
MOST_LEVELS = 50  # of a category; a column with more is taken for a name or a key


def check_size(name: str, values: np.ndarray) -> None:
    """Refuse numbers whose squares overflow."""
    top = np.nanmax(np.abs(values), initial=0.0)
    if top > LARGEST:
        raise InputError(f"`{name}` must be at most {LARGEST:g} in size; got {top:g}. Give it in other units.")


def is_frame(X: object) -> TypeGuard[pd.DataFrame]:
    """Whether X is a data frame of pandas or of a library like it."""
    return hasattr(X, "columns")


def seconds(dates: pd.Index) -> np.ndarray:
    """Dates, periods (their starts) or durations as seconds, since 1970 (in UTC where dates have a zone) or zero; NaN for NaT."""
    if isinstance(dates, pd.PeriodIndex):
        dates = dates.to_timestamp()
    index = dates if isinstance(dates, pd.TimedeltaIndex) else pd.DatetimeIndex(dates)
    return np.where(index.isna(), np.nan, index.asi8 / _TICKS[index.unit])


@dataclass(frozen=True)
class Feature:
    """How one column becomes numbers."""

    name: str
    kind: str = "number"  # or "date", "duration", "category", "row"
    unit: str = ""  # of a clock
    origin: float = 0.0  # for dates: the first row, in seconds since 1970
    levels: tuple[str, ...] = ()  # of a category; in the first level all columns are zero
    zone: str = ""  # of dates that have one
    written: str = ""  # the format of dates that came from a file
    months: int = 0  # between dates that follow the calendar
    day: int = 0  # on which they then are, or on the last one of shorter months

    @classmethod
    def _unpack(cls, named: dict) -> Feature:  # files of earlier versions lack the last ones
        return cls(**named)

    @classmethod
    def of(cls, name: str, column: pd.Series, written: str = "") -> Feature:
        """The feature of a column, by the column's type."""
        kind = kind_of(column)
        if kind == "number":
            return cls(name)
        if kind == "category":
            levels = tuple(sorted(map(str, column.dropna().unique())))
            if len(levels) > MOST_LEVELS:
                got = f"{len(levels)} different texts in {name!r}"
                raise InputError(f"`X` must have numbers, dates or categories; got {got}.")
            return cls(name, kind, levels=levels)
        since = seconds(pd.Index(column))
        known = since[~np.isnan(since)]
        span = np.ptp(known) if len(known) else 0.0
        unit = next((unit for unit, size in SECONDS.items() if span >= _LEAST_SPAN * size), "s")
        origin = float(known[0]) if kind == "date" and len(known) else 0.0
        months, day = _calendar(pd.Index(column)) if kind == "date" else (0, 0)
        return cls(name, kind, unit, origin, zone=_zone(column), written=written, months=months, day=day)

    @property
    def counted(self) -> str:
        """The unit of a clock and, for dates, the date from which they count."""
        return f"{self.unit} from the first row" if self.kind == "date" else self.unit

    @property
    def names(self) -> list[str]:
        """The names of the columns of numbers that the feature becomes."""
        return [f"{self.name}={level}" for level in self.levels[1:]] if self.kind == "category" else [self.name]

    def numbers(self, column: pd.Series) -> np.ndarray:
        """The numbers (n, columns) of a column of this kind; NaN where it is empty."""
        if self.kind == "category":
            text = column.astype(str).to_numpy()
            new = set(text[column.notna().to_numpy()]) - set(self.levels)
            if new:
                known = f"the categories of {self.name!r} that were fitted ({short(self.levels)})"
                raise InputError(f"`X` must have {known}; got {min(new)!r}.")
            found = (text[:, None] == np.array(self.levels[1:], dtype=object)).astype(float)
            found[column.isna().to_numpy()] = np.nan
            return found
        given = kind_of(column)
        if given == "number" or (given, self.kind) == ("category", "number"):  # of a clock: already in its unit
            return column.to_numpy(float, na_value=np.nan)[:, None]
        if self.kind != given and not (given == "category" and self.kind in _READ):
            raise _other_kind(self.name, self.kind, given)
        is_plain = given == self.kind and column.dtype != object
        dates = pd.Index(column if is_plain else _READ[self.kind](column))
        zone = getattr(dates, "tz", None)
        if zone and not self.zone:
            rule = f"dates without a time zone in {self.name!r}, as were fitted"
            raise InputError(f"`X` must have {rule}; got {zone}. Fit dates with a zone, or take it off both.")
        if self.zone and not zone and not isinstance(dates, pd.PeriodIndex):
            dates = _localized(pd.DatetimeIndex(dates), self.zone, self.name)
        return ((seconds(dates) - self.origin) / SECONDS[self.unit])[:, None]

    def ahead(self, last: float, step: float, count: int) -> np.ndarray:
        """The numbers of the next steps of a clock, (count,); dates that follow the calendar go on so."""
        if not self.months:
            return last + step * np.arange(1, count + 1)
        end = self.back(np.array([last])).tz_localize(None)  # pyright: ignore[reportAttributeAccessIssue]
        months = end.to_numpy("datetime64[M]") + self.months * np.arange(1, count + 1)
        length = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(int)
        days = months.astype("datetime64[D]") + np.minimum(self.day, length) - 1
        dates = pd.DatetimeIndex(days) + (end - end.normalize())[0]
        if self.zone:
            dates = dates.tz_localize(self.zone, ambiguous=np.ones(count, bool), nonexistent="shift_forward")
        return self.numbers(pd.Series(dates))[:, 0]

    def back(self, values: np.ndarray) -> pd.Index:
        """Numbers of a clock as dates or durations, to the millisecond or, of a short record, finer; other numbers unchanged."""
        if not self.unit:
            return pd.Index(values)
        tick = "us" if self.unit == "s" else "ms"
        since = np.round((np.asarray(values) * SECONDS[self.unit] + self.origin) * _TICKS[tick]).astype("int64")
        if self.kind != "date":
            return pd.TimedeltaIndex(since.astype(f"timedelta64[{tick}]"))
        dates = pd.DatetimeIndex(since.astype(f"datetime64[{tick}]"))
        return dates.tz_localize("UTC").tz_convert(self.zone) if self.zone else dates


ROWS = Feature("row", "row")  # the clock of a table without one


_READ = {"date": pd.to_datetime, "duration": pd.to_timedelta}  # texts of a clock
_MEANT = {"number": "numbers", "date": "dates", "duration": "durations", "category": "texts"}


def kind_of(column: pd.Series) -> str:
    """What a column holds: "number", "date", "duration" or "category"."""
    if column.dtype.kind == "O" and pd.api.types.infer_dtype(column) in ("date", "datetime", "datetime64"):
        return "date"
    if isinstance(column.dtype, pd.PeriodDtype | pd.DatetimeTZDtype) or column.dtype.kind == "M":
        return "date"
    if column.dtype.kind == "m":
        return "duration"
    plain = column.dtype.kind == "O" and not any(isinstance(value, str) for value in column.iloc[:100])
    return "number" if plain or pd.api.types.is_numeric_dtype(column.dtype) else "category"


def _other_kind(name: str, fitted: str, given: str) -> InputError:
    rule = f"{_MEANT[fitted]} in {name!r}, as were fitted"
    return InputError(f"`X` must have {rule}; got {_MEANT[given]}. Give the column as it was fitted.")


def _calendar(dates: pd.Index) -> tuple[int, int]:
    """How many months are between dates, or a multiple of them, and the day of the month; zeros where it is not the same day."""
    known = dates.to_timestamp() if isinstance(dates, pd.PeriodIndex) else pd.DatetimeIndex(dates)
    known = known.dropna().unique().sort_values()
    months = np.diff(12 * known.year + known.month)
    if len(known) < 3 or not months.all() or (known - known.normalize()).nunique() > 1:
        return 0, 0
    days = known.day.to_numpy()
    day = 31 if known.is_month_end.all() else int(days.max())
    return (int(np.gcd.reduce(months)), day) if (days == np.minimum(day, known.days_in_month)).all() else (0, 0)


def _localized(dates: pd.DatetimeIndex, zone: str, name: str) -> pd.DatetimeIndex:
    """Dates without a zone in this one; an hour that comes twice is known where both stand in order."""
    try:
        return dates.tz_localize(zone, ambiguous="infer", nonexistent="shift_forward")
    except ValueError:
        twice = dates[dates.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna() & dates.notna()]
        rule = f"times in {name!r} that come once in {zone}, or with their zone"
        raise InputError(f"`X` must have {rule}; got {twice[0]}, which comes twice.") from None


def _zone(column: pd.Series) -> str:
    return str(column.dtype.tz) if isinstance(column.dtype, pd.DatetimeTZDtype) else ""


def as_frame(X: object) -> object:
    """Tables of xarray and polars, and clocks, as data frames; everything else unchanged."""
    if isinstance(X, _CLOCKS):
        return X.to_frame(index=False, name=str(X.name or "time"))
    kind = type(X).__module__.partition(".")[0]
    if kind == "polars":
        frame = X if hasattr(X, "columns") else X.to_frame()  # pyright: ignore[reportAttributeAccessIssue]
        columns = {name: frame[name].to_numpy() for name in frame.columns}  # pyright: ignore[reportAttributeAccessIssue, reportIndexIssue]
        return pd.DataFrame(columns)
    if kind == "xarray":
        found = X.to_pandas()  # pyright: ignore[reportAttributeAccessIssue]
        return found.to_frame() if isinstance(found, pd.Series) else found
    return X


def features_of(X: object) -> tuple[Feature, ...]:
    """How the columns of a data frame become numbers; empty where they all are numbers."""
    if not is_frame(X):
        return ()
    written = getattr(X, "attrs", {}).get("formats", {})
    found = tuple(Feature.of(str(name), X.iloc[:, j], written.get(name, "")) for j, name in enumerate(X.columns))
    if found and not any(feature.names for feature in found):
        got = f"the same text in every row of {found[0].name!r}"
        raise InputError(f"`X` must have a column whose values differ; got {got}. Add another column.")
    return found if any(feature.kind != "number" for feature in found) else ()


def encoded(X: object, features: tuple[Feature, ...]) -> object:
    """The table as a data frame of numbers; unchanged if it needs no conversion."""
    if not is_frame(X):
        return X
    if not features:
        for name, column in X.items():
            if (kind := kind_of(column)) in _READ:
                raise _other_kind(str(name), "number", kind)
        return X
    missing = [feature.name for feature in features if feature.name not in X.columns]
    if missing:
        raise InputError(f"`X` must have the columns that were fitted; got none named {missing[0]!r}.")
    parts = [feature.numbers(pd.Series(X[feature.name])) for feature in features]
    names = [name for feature in features for name in feature.names]
    return pd.DataFrame(np.concatenate(parts, axis=1), columns=names)


def time_text(value: float, unit: str) -> str:
    """A number of units of a clock as people say it: "11.02 years", "12 h 25 min"."""
    total = abs(value) * SECONDS[unit]
    if not np.isfinite(total):
        return "∞"
    for large in ("years", "days"):
        if total >= 2 * SECONDS[large]:
            return f"{total / SECONDS[large]:.4g} {large}"
    for large, small in (("h", "min"), ("min", "s")):
        if total >= SECONDS[large]:
            whole, part = divmod(round(total / SECONDS[small]), 60)
            return f"{whole} {large} {part} {small}" if part else f"{whole} {large}"
    return f"{total:.3g} s"


@dataclass(frozen=True, eq=False)
class Table:
    """Channels on a clock."""

    times: np.ndarray  # of the rows, in the clock's own unit (seconds for dates, rows without a clock), (n,)
    values: np.ndarray  # (n, C), NaN where missing
    everything: np.ndarray  # all columns of the input as numbers, including the clock's
    columns: np.ndarray  # positions of the channels among them
    clock: Feature = ROWS  # that of a column or an index is shared by other tables

    @cached_property
    def order(self) -> np.ndarray:
        """The rows in the order of time."""
        return np.argsort(self.times, kind="stable")

    def placed(self, by_time: np.ndarray) -> np.ndarray:
        """An array for every channel (n, C), rows by time, in the rows and columns of the input; zero in other columns."""
        out = np.zeros(self.everything.shape, by_time.dtype)
        out[np.ix_(self.order, self.columns)] = by_time
        return out


def numeric_copy(X: TableLike, time: str | int | None) -> TableLike:
    """X with a column of dates replaced by seconds, so that all of it is numbers; other inputs unchanged."""
    if time is None or not is_frame(X):
        return X
    if time not in X.columns:
        names = [str(name) for name in X.columns]
        hint = did_you_mean(str(time), names)
        raise InputError(f"`time` must be one of the columns {', '.join(names)}; got {time!r}.{hint}")
    if isinstance(column := _clock_column(pd.Index(X[time])), _CLOCKS):
        X = X.copy()
        X[time] = seconds(column)
    return X


def _clock_column(index: pd.Index) -> pd.Index:
    """A column of numbers, dates, periods or durations; texts are read as dates."""
    is_text = index.dtype.kind in "OSU" or str(index.dtype) in ("string", "str")
    try:
        return pd.to_datetime(index) if is_text and not isinstance(index, _CLOCKS) else index
    except (ValueError, TypeError) as error:
        raise InputError(f"`time` must be a column of numbers, dates or durations; got {short(str(error))}.") from None


def _clock_index(index: object) -> pd.Index | None:
    """An index of dates, periods or durations, also of dates as objects or as texts (2024-01-31); None for others."""
    if not isinstance(index, pd.Index):
        return None
    kind = pd.api.types.infer_dtype(index)
    written = kind == "string" and bool(index.str.match(r"\d{4}-\d\d-\d\d(?!\S)|\d{4}-\d\d-\d\dT").all())
    return _clock_column(index) if isinstance(index, _CLOCKS) or written or kind in ("date", "datetime") else None


def read_table(X: TableLike, values: np.ndarray, time: str | int | None) -> Table:
    """The channels and their clock: the column `time`, else an index of dates, periods or durations, else the row number.

    `X` is the input as it came, `values` are its numbers, all columns.
    """
    n, width = values.shape
    columns = np.arange(width)
    if time is None:
        index = _clock_index(getattr(X, "index", None))
        if index is None:
            return Table(np.arange(n, dtype=float), values, values, columns)
        _refuse_holes(times := seconds(index), "the index")
        return Table(times, values, values, columns, Feature.of(str(index.name or "time"), pd.Series(index)))
    place = list(X.columns).index(time) if is_frame(X) else time
    if not isinstance(place, int | np.integer) or not -width <= place < width:
        raise InputError(f"`time` must be a column's position below {width} when X is an array; got {time!r}.")
    _refuse_holes(times := values[:, place], f"column {time!r}")
    columns = np.delete(columns, place)
    if not len(columns):
        raise InputError("`X` must have a column besides `time`; got only that.")
    clock = Feature.of(str(time), pd.Series(_clock_column(pd.Index(X[time])))) if is_frame(X) else Feature("time")
    return Table(times, values[:, columns], values, columns, clock)


def _refuse_holes(times: np.ndarray, place: str) -> None:
    if np.isnan(times).any():
        raise InputError(f"`time` must have no missing values; got {int(np.isnan(times).sum())} in {place}.")
