"""A column of text as numbers, dates or durations, in the ways in which people write them."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import numpy as np
import pandas as pd

EMPTY = {"", "nan", "na", "n/a", "#n/a", "null", "none", "?", "-", "--", "missing"}
MOSTLY = 0.5  # of the cells: a column with so many numbers was meant to be numbers
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?")  # 1.234,5
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")  # 1,234.5
_LONGEST = 40  # letters of a date

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
_FORMATS = ("ISO8601", "%Y%m%d", *map("".join, itertools.product(_DAYS, _TIMES)))


class Column(NamedTuple):
    """Cells as what they are: a "number", "date" or "duration"; "mixed" where most are numbers, "text" or "empty"."""

    kind: str
    values: pd.Series
    words: str = ""  # how they were read


def read_column(cells: pd.Series, delimiter: str) -> Column:
    """The cells of a file as numbers, dates or durations where all of them are."""
    if cells.dtype.kind in "iufb":  # of a Parquet file
        return Column("number", cells.astype(float))
    if cells.dtype.kind in "mM":
        return Column("date" if cells.dtype.kind == "M" else "duration", cells)
    text = cells.astype(str).str.strip().str.replace("\u2212", "-")
    text = text.mask(text.str.lower().isin(EMPTY))
    known = text.dropna()
    if not len(known):
        return Column("empty", pd.Series(np.nan, index=cells.index))
    compact = len(known) > 2 and known.str.fullmatch(r"\d{8}").all() and _dates(known, "%Y%m%d") is not None
    numbers = Column("number", text) if compact else _numbers(text, delimiter)
    share = 0.0 if compact else numbers.values.notna().sum() / len(known)
    if share == 1.0:
        return numbers
    clock = None if known.iloc[0][-1:].isalpha() and known.str.len().max() > _LONGEST else _clock(text, known)
    if clock is not None:
        return clock
    return numbers._replace(kind="mixed") if share > MOSTLY else Column("text", cells)


def _numbers(text: pd.Series, delimiter: str) -> Column:
    """Cells as numbers, NaN where they are none, and what a comma in them was: "decimal commas" or "commas of thousands".

    1,234 is a thousand in a file that has commas between cells, or beside 1,234.5 or 1,234,567; else a little more than one.
    """
    plain = _floats(text)
    left = text.loc[plain.isna() & text.notna()]
    if not len(left):
        return Column("number", plain)
    # 1 234,5 and 1'234,5: groups of three apart
    tight = left.str.replace(r"(?<=\d)[\u00a0\u202f' ](?=\d{3}(?!\d))", "", regex=True)
    commas, grouped = tight.map(_COMMA.fullmatch).notna(), tight.map(_GROUPED.fullmatch).notna()
    beside = tight.str.contains(r",\d{3}[.,]", regex=True).any() or text.str.contains(".", regex=False).any()
    if (commas & ~grouped).any() or (grouped.any() and delimiter != "," and not beside):
        # 1.234 beside 5,6 is one thousand two hundred and thirty-four
        dotted = text.str.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+").fillna(False).astype(bool)
        whole = tight.where(commas).str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        plain = plain.mask(dotted, _floats(text.where(dotted).str.replace(".", "", regex=False)))
        return Column("number", plain.fillna(_floats(whole)), "decimal commas")
    whole = _floats(tight.str.replace(",", "", regex=False).where(grouped | ~commas))
    return Column("number", plain.fillna(whole), "commas of thousands" if grouped.any() else "")


def _floats(text: pd.Series) -> pd.Series:
    return pd.Series(pd.to_numeric(text, errors="coerce"), index=text.index, dtype=float)


def _clock(text: pd.Series, known: pd.Series) -> Column | None:
    """Cells as dates or durations, or None."""
    few = known.iloc[:: max(len(known) // 100, 1)]
    fitting = [f for f in _FORMATS if _dates(few, f) is not None]
    if fitting := [f for f in fitting if _dates(known, f) is not None]:
        # Where day and month could be either, the clock that runs most evenly is right: few steps backwards, few lengths.
        steps = {f: np.diff(_dates(known, f)) for f in fitting}
        chosen = min(fitting, key=lambda f: (int((steps[f] < np.timedelta64(0)).sum()), len(np.unique(steps[f]))))
        told = next((words for day, words in _DAYS.items() if chosen.startswith(day)), "year-month-day")
        return Column("date", pd.Series(_dates(text, chosen), index=text.index), f"dates {told}")
    if known.str.contains(r"^[+-]?\d").all() and known.str.contains("[a-zA-Z:]").all():  # 1:30, 2 days 1:30:00, 5 h
        spans = pd.to_timedelta(text.where(text.str.count(":") != 1, text + ":00"), errors="coerce")
        if spans.notna().sum() == len(known):
            return Column("duration", pd.Series(spans, index=text.index), "durations")
    return None


def _dates(text: pd.Series, format: str) -> np.ndarray | None:
    """Cells as dates of this format without a time zone, or None where a cell is not one."""
    found = pd.Series(pd.to_datetime(text, format=format, errors="coerce", utc=True))
    if (found.isna() & text.notna()).any() or not found.dt.year.between(1000, 2999).where(found.notna(), True).all():
        return None
    return found.dt.tz_localize(None).to_numpy()
