"""Cells of a column of text as numbers, dates or durations, in the ways in which people write them."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import numpy as np
import pandas as pd

_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?")  # 1.234,5
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")  # 1,234.5

_DAYS = {
    "%d.%m.%Y": "day.month.year",
    "%Y/%m/%d": "year/month/day",
    "%m/%d/%Y": "month/day/year",
    "%d/%m/%Y": "day/month/year",
    "%d-%m-%Y": "day-month-year",
    "%d-%b-%Y": "day-month-year",
    "%d %b %Y": "day month year",
    "%b %d, %Y": "month day, year",
    "%d %B %Y": "day month year",
    "%B %d, %Y": "month day, year",
    "%d.%m.%y": "day.month.year",
    "%m/%Y": "month/year",
}
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")


def as_numbers(text: pd.Series, delimiter: str) -> tuple[pd.Series, str | None]:
    """Cells as numbers, NaN where they are none, and what a comma in them was: "decimal commas" or "commas of thousands".

    1,234 is a thousand in a file that has commas between cells, or beside 1,234.5 or 1,234,567; else a little more than one.
    """
    plain = _floats(text)
    left = text.loc[plain.isna() & text.notna()]
    if not len(left):
        return plain, None
    # 1 234,5 and 1'234,5: groups of three apart
    tight = left.str.replace(r"(?<=\d)[\u00a0\u202f' ](?=\d{3}(?!\d))", "", regex=True)
    commas, grouped = tight.map(_COMMA.fullmatch).notna(), tight.map(_GROUPED.fullmatch).notna()
    beside = tight.str.contains(r",\d{3}[.,]", regex=True).any() or text.str.contains(".", regex=False).any()
    if (commas & ~grouped).any() or (grouped.any() and delimiter != "," and not beside):
        # 1.234 beside 5,6 is one thousand two hundred and thirty-four
        dotted = text.str.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+").fillna(False).astype(bool)
        whole = tight.where(commas).str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        plain = plain.mask(dotted, _floats(text.where(dotted).str.replace(".", "", regex=False)))
        return plain.fillna(_floats(whole)), "decimal commas"
    whole = _floats(tight.str.replace(",", "", regex=False).where(grouped | ~commas))
    return plain.fillna(whole), "commas of thousands" if grouped.any() else None


def _floats(text: pd.Series) -> pd.Series:
    return pd.Series(pd.to_numeric(text, errors="coerce"), index=text.index, dtype=float)


class Clock(NamedTuple):
    """Cells as dates or durations."""

    kind: str
    values: pd.Series
    words: str  # how they were read


def as_clock(text: pd.Series, known: pd.Series) -> Clock | None:
    """Cells as dates or durations, or None."""
    if known.str.fullmatch(r"[+-]?(\d+ days? )?\d{1,3}:\d{2}(:\d{2}(\.\d+)?)?").all():
        full = text.where(text.str.count(":") != 1, text + ":00")
        return Clock("duration", pd.Series(pd.to_timedelta(full), index=text.index), "durations")
    formats = ("ISO8601", "%Y%m%d", *(d + t for d, t in itertools.product(_DAYS, _TIMES)))
    few = known.iloc[:: max(len(known) // 100, 1)]
    fitting = [f for f in formats if as_dates(few, f) is not None]
    fitting = [f for f in fitting if as_dates(known, f) is not None]
    if fitting:
        # Where day and month could be either, the clock that runs most evenly is right.
        chosen = min(fitting, key=lambda f: _unevenness(as_dates(known, f)))
        told = next((words for day, words in _DAYS.items() if chosen.startswith(day)), "year-month-day")
        dates = as_dates(text, chosen)
        return None if dates is None else Clock("date", dates, f"dates {told}")
    if known.str.contains(r"^[+-]?\d").all() and known.str.contains("[a-zA-Z]").all() and len(few) == few.notna().sum():
        spans = pd.to_timedelta(text, errors="coerce")
        if spans.notna().sum() == len(known):
            return Clock("duration", pd.Series(spans, index=text.index), "durations")
    return None


def as_dates(text: pd.Series, format: str) -> pd.Series | None:
    """Cells as dates of this format without a time zone, or None where a cell is not one."""
    found = pd.Series(pd.to_datetime(text, format=format, errors="coerce", utc=True))
    if (found.isna() & text.notna()).any() or not found.dt.year.between(1000, 2999).where(found.notna(), True).all():
        return None
    return pd.Series(found.dt.tz_localize(None), index=text.index)


def _unevenness(dates: pd.Series | None) -> tuple[int, int]:
    """Steps backwards, and different steps."""
    steps = np.diff(dates.to_numpy()) if dates is not None else np.zeros(0, "m8[s]")
    return int((steps < np.timedelta64(0)).sum()), len(np.unique(steps))
