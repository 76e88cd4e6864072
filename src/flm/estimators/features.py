"""Columns of a table as numbers: clocks count from their first row, categories become one column per level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from flm.estimators.table import is_frame, seconds
from flm.wording import InputError, short

SECONDS = {"years": 365.2425 * 86400, "days": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0}
_LEAST_SPAN = 20  # units of a clock that its record spans, where a smaller unit is to be had
_MOST_LEVELS = 50  # of a category: more are a name or a key


@dataclass(frozen=True)
class Feature:
    """How one column becomes numbers."""

    name: str
    kind: str = "number"  # or "date", "duration", "category"
    unit: str = ""  # of a clock
    origin: float = 0.0  # of dates: the first row, in seconds since 1970
    levels: tuple[str, ...] = ()  # of a category; the first is where all columns are zero

    @classmethod
    def of(cls, name: str, column: pd.Series) -> Feature:
        """What the column is, by its type."""
        kind = _kind(column)
        if kind == "number":
            return cls(name)
        if kind == "category":
            levels = tuple(sorted(map(str, column.dropna().unique())))
            if len(levels) > _MOST_LEVELS:
                raise InputError(
                    f"`X` must have numbers, dates or categories; got {len(levels)} different texts in {name!r}."
                )
            return cls(name, kind, levels=levels)
        since = seconds(pd.Index(column))
        span = np.nanmax(since) - np.nanmin(since)
        unit = next((unit for unit, size in SECONDS.items() if span >= _LEAST_SPAN * size), "s")
        return cls(name, kind, unit, float(since[0]) if kind == "date" else 0.0)

    @property
    def names(self) -> list[str]:
        """Of the columns of numbers that it becomes."""
        return [f"{self.name}={level}" for level in self.levels[1:]] if self.kind == "category" else [self.name]

    def numbers(self, column: pd.Series) -> np.ndarray:
        """(n, columns) of a column of this kind; NaN where it is empty."""
        kind = _kind(column)
        if self.kind == "number":
            return column.to_numpy(float, na_value=np.nan)[:, None]
        if self.kind == "category":
            text = column.astype(str).to_numpy()
            new = set(text[column.notna().to_numpy()]) - set(self.levels)
            if new:
                raise InputError(
                    f"`X` must have the categories of {self.name!r} that were fitted ({short(self.levels)}); got "
                    f"{min(new)!r}."
                )
            found = (text[:, None] == np.array(self.levels[1:], dtype=object)).astype(float)
            found[column.isna().to_numpy()] = np.nan
            return found
        if kind == "number":  # already in the unit of the clock
            return column.to_numpy(float)[:, None]
        return ((seconds(pd.Index(column)) - self.origin) / SECONDS[self.unit])[:, None]

    def back(self, values: np.ndarray) -> pd.Index:
        """Numbers of a clock as dates or durations, to the millisecond; others as they are."""
        if not self.unit:
            return pd.Index(values)
        since = np.round((np.asarray(values) * SECONDS[self.unit] + self.origin) * 1e3).astype("int64")
        return pd.to_datetime(since, unit="ms") if self.kind == "date" else pd.to_timedelta(since, unit="ms")


def _kind(column: pd.Series) -> str:
    if isinstance(column.dtype, pd.PeriodDtype | pd.DatetimeTZDtype) or column.dtype.kind == "M":
        return "date"
    if column.dtype.kind == "m":
        return "duration"
    numeric = pd.api.types.is_numeric_dtype(column.dtype)
    return "number" if numeric or (column.dtype.kind == "O" and not _has_text(column)) else "category"


def _has_text(column: pd.Series) -> bool:
    return any(isinstance(value, str) for value in column.iloc[:100])


def as_frame(X: object) -> object:
    """Tables of xarray, polars and clocks as data frames; everything else as it is."""
    if isinstance(X, pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex):
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
    """How the columns of a data frame become numbers; none where they are."""
    if not is_frame(X):
        return ()
    found = tuple(Feature.of(str(name), X.iloc[:, j]) for j, name in enumerate(X.columns))
    return found if any(feature.kind != "number" for feature in found) else ()


def encoded(X: object, features: tuple[Feature, ...]) -> object:
    """The table as a data frame of numbers; tables that need none of it as they are."""
    if not features or not is_frame(X):
        return X
    missing = [feature.name for feature in features if feature.name not in X.columns]
    if missing:
        raise InputError(f"`X` must have the columns that were fitted; got none named {missing[0]!r}.")
    parts = [feature.numbers(pd.Series(X[feature.name])) for feature in features]
    names = [name for feature in features for name in feature.names]
    return pd.DataFrame(np.concatenate(parts, axis=1), columns=names)


def time_text(value: float, unit: str) -> str:
    """So many units of a clock as people say it: "11.02 years", "12 h 25 min"."""
    total = abs(value) * SECONDS[unit]
    if not np.isfinite(total):
        return "∞"
    if total >= 2 * SECONDS["years"] or total >= 2 * SECONDS["days"]:
        large = "years" if total >= 2 * SECONDS["years"] else "days"
        return f"{total / SECONDS[large]:.4g} {large}"
    for large, small in (("h", "min"), ("min", "s")):
        if total >= SECONDS[large]:
            rest = round(total / SECONDS[small])
            whole, part = divmod(rest, 60)
            return f"{whole} {large} {part} {small}" if part else f"{whole} {large}"
    return f"{total:.3g} s"
