"""The columns of a file as numbers, dates or durations; decimal and thousands signs are found for the file as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from flm.cli import clocks
from flm.cli.clocks import MOSTLY
from flm.wording import InputError

EMPTY = {"", "nan", "na", "n/a", "n.a.", "#n/a", "<na>", "nat", "null", "none", "?", ".", "-", "--", "---", "missing"}
EMPTY |= {"..", ":"}  # of the World Bank and of Eurostat
_SENTINEL = re.compile(r"-9{2,}(\.9+)?|9{3,}(\.9+)?|-?9{3,}0|-[1-9]00+|-32768")  # as loggers write what is missing
_LONGEST = 40  # letters of a date
_NO_NUMBER = re.compile(r"\d+[-:/]")  # 2024-01-31, 1:30
_GROUPS = {" ": "spaces", "\u00a0": "spaces", "\u202f": "spaces", "'": "apostrophes", "’": "apostrophes"}
_APART = r"(?<=\d)[\u00a0\u202f'’ ](?=\d{3}(?!\d))"  # 1 234,5 and 1'234,5: groups of three


def _pattern(decimal: str, group: str) -> re.Pattern[str]:
    grouped = rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+(?:{decimal}\d+)?"
    return re.compile(rf"[+-]?(?:{grouped}|(?:\d+{decimal}?\d*|{decimal}\d+)(?:[eE][+-]?\d+)?)")


POINTS = "points as decimals"  # 999, 1.234, 980: or as signs of thousands
_NUMBERS = {",": _pattern(",", r"\."), ".": _pattern(r"\.", ",")}  # by decimal sign


class Column(NamedTuple):
    """Cells with their kind: "number", "date", "duration", "mixed" where most are such, "text", "empty" or "rows"."""

    kind: str
    values: pd.Series
    words: tuple[str, ...] = ()  # how the cells were read
    format: str = ""  # of dates


def as_text(cells: pd.Series) -> pd.Series:
    """Cells without spaces around them, with one minus sign, and missing where they are empty."""
    text = cells.astype(str).str.strip().str.replace("\u2212", "-")
    return text.mask(text.str.lower().isin(EMPTY))


def decimal_sign(columns: Mapping[str, pd.Series], name: str, delimiter: str) -> str:
    """The decimal sign of a file, by the cells that have only one reading (10,5 or 1,234,567 or 0.125).

    Where there are none, 1,234 is about 1.2 unless commas separate the cells; 1.234 always is, except beside such commas.
    """
    signed = {column: text.loc[text.str.contains("[.,]", regex=True, na=False)] for column, text in columns.items()}
    if not any(text.str.contains(r",|\..*\.", regex=True).any() for text in signed.values()):
        return "."
    only: dict[str, tuple[str, str, int]] = {}
    doubtful = {}
    for column, text in signed.items():
        tight = text.str.replace(_APART, "", regex=True)
        fits = {sign: tight.map(pattern.fullmatch).notna() for sign, pattern in _NUMBERS.items()}
        if (fits[","] | fits["."]).sum() <= MOSTLY * len(text):
            continue
        for sign, other in ((",", "."), (".", ",")):
            for line in text.index[fits[sign] & ~fits[other]][:1]:
                only.setdefault(sign, (column, str(text.loc[line]), int(line)))
        doubtful[column] = text.loc[fits[","] & fits["."]]
    if len(only) == 2:
        told = " and ".join(f"{cell!r} in line {line}, column {column!r}" for column, cell, line in only.values())
        raise InputError(f"{name} must have one decimal sign; got {told}. Write all numbers with the same sign.")
    if only or delimiter == ",":
        return next(iter(only), ".")
    for column, text in doubtful.items():
        comma = text.str.contains(",", regex=False)
        if comma.any() and not comma.all():
            told = f"{text[comma].iloc[0]!r} and {text[~comma].iloc[0]!r} in column {column!r}"
            raise InputError(f"{name} must have one decimal sign; got {told}. Write all numbers with the same sign.")
    return "," if any(text.str.contains(",", regex=False).any() for text in doubtful.values()) else "."


def read_column(
    cells: pd.Series,
    decimal: str,
    place: Callable[[int], str],
    day_first: bool | None = None,
    fitted: str | None = None,
) -> Column:
    """The cells of a column as numbers, dates or durations where all cells are such; `place` names a line of it.

    Where a model was fitted to it, `fitted` is its format of dates or its kind: digits are dates only where dates were fitted.
    """
    if cells.dtype.kind in "iufb":  # from a Parquet file
        return Column("number", cells.astype(float))
    if cells.dtype.kind in "mM":
        return Column("date" if cells.dtype.kind == "M" else "duration", cells)
    text = as_text(cells)
    filled = text.dropna()
    if not len(filled):
        return Column("empty", pd.Series(np.nan, index=cells.index))
    if fitted == "category":
        return Column("text", cells.astype(str).str.strip())
    if (seasons := clocks.read_seasons(text, fitted)) is not None:
        return Column("date", seasons, (clocks.words(clocks.SEASONS, "", False),), clocks.SEASONS)
    dated = fitted not in {None, "number", "duration", *clocks.COUNTS}
    wordy = filled.iloc[0][-1:].isalpha() and filled.str.len().max() > _LONGEST
    is_first = not wordy and bool(_NO_NUMBER.match(filled.iloc[0]))  # then not all can be numbers
    read = lambda: _clock(text, place, day_first, clocks.RANGES in (fitted or ""))
    clock = read() if is_first else None
    if clock is not None and clock.kind != "mixed":
        return clock
    compact = (dated or (fitted is None and len(filled) > 2)) and filled.str.fullmatch(
        r"(1\d|2[0-2])\d\d[01]\d[0-3]\d([0-2]\d([0-5]\d){0,2})?"
    ).all()
    if compact and (clock := read()) is not None and clock.kind == "date":
        return clock
    digits = dated or fitted is None
    if digits and (months := clocks.read_months(text, sure=dated)) is not None:
        return Column("date", months, (clocks.words("%Y%m", "", False),), "%Y%m")
    numbers = _numbers(text, decimal)
    share = numbers.values.notna().sum() / len(filled)
    if share == 1.0:
        return numbers
    if not (wordy or is_first or compact):
        clock = read()
    if clock is not None and (clock.kind != "mixed" or share <= MOSTLY):
        return clock
    return numbers._replace(kind="mixed") if share > MOSTLY else Column("text", cells.astype(str).str.strip())


def _numbers(text: pd.Series, decimal: str) -> Column:
    """Cells as numbers, NaN where a cell is none, and which signs were taken for decimal and for thousands."""
    floats = lambda text: pd.Series(pd.to_numeric(text, errors="coerce"), index=text.index, dtype=float)
    plain = floats(text)
    if decimal == ",":
        plain = plain.mask(text.str.contains(".", regex=False, na=False))
    left = text.loc[plain.isna() & text.notna()]
    if not len(left):
        return Column("number", plain, (POINTS,) if _seem_grouped(text.dropna()) else ())
    group = "," if decimal == "." else "."
    tight = left.str.replace(_APART, "", regex=True)
    fits = tight.map(_NUMBERS[decimal].fullmatch).notna()
    whole = tight.where(fits).str.replace(group, "", regex=False).str.replace(decimal, ".", regex=False)
    names = dict.fromkeys(_GROUPS[sign] for sign in _GROUPS if left[fits].str.contains(sign, regex=False).any())
    said = [f"{name} of thousands" for name in names]
    if tight[fits].str.contains(group, regex=False).any():
        said.append("commas of thousands" if group == "," else "points of thousands")
    if decimal == "," and tight[fits].str.contains(",", regex=False).any():
        said.insert(0, "decimal commas")
    return Column("number", plain.fillna(floats(whole)), tuple(said))


def _seem_grouped(text: pd.Series) -> bool:
    """Whether points stand as signs of thousands would, beside whole numbers of three digits."""
    dotted = text.str.contains(".", regex=False)
    if not dotted.any() or dotted.all() or not text.loc[~dotted].str.fullmatch(r"[+-]?\d{3,}").all():
        return False
    return bool(text.loc[dotted].str.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}").all())


def _clock(text: pd.Series, place: Callable[[int], str], day_first: bool | None, ranges: bool) -> Column | None:
    """Cells as dates or durations, or None; `ranges` where a model was fitted to such."""
    if (spans := clocks.read_durations(text)) is not None:
        return Column("duration", spans, ("durations",))
    begun = clocks.beginnings(text, ranges)
    if (found := clocks.read_dates(begun, place, day_first)) is None:
        return None
    dates, form = found
    kind = "date" if dates.notna().sum() == text.notna().sum() else "mixed"
    told = clocks.words(form, str(dates.dt.tz or ""), clocks.offsets(begun.dropna()) > 1)
    told += ", by their beginnings" * (begun is not text)
    other = clocks.other_order(begun, form) if kind == "date" else False
    if other and day_first is None:
        told += _ask(form)
    form = "ISO8601" + " %y" * ("%y" in form) if other is None else form  # 01/01/24 shows no order
    return Column(kind, dates, (told,), form + clocks.RANGES * (begun is not text))


def _ask(form: str) -> str:
    return f" (days and months could change places: --{'month' if clocks.day_comes_first(form) else 'day'}-first)"


def exchanged(column: Column, text: pd.Series) -> Column | None:
    """A column of dates with day and month exchanged; None where it has no such other reading."""
    if column.kind != "date" or not clocks.other_order(text, column.format):
        return None
    other = read_column(text, ".", str, not clocks.day_comes_first(column.format))
    return other._replace(words=(other.words[0] + _ask(other.format),))


def sentinel(values: pd.Series) -> tuple[float, int] | None:
    """A number that comes again and again, outside of all others, such as -999, and how often."""
    known = values.to_numpy(float)
    known = known[np.isfinite(known)]
    for far in (known.min(initial=np.inf), known.max(initial=-np.inf)):
        rest = known[known != far]
        count, usual = len(known) - len(rest), bool(_SENTINEL.fullmatch(f"{far:.10g}"))
        apart = (0.1 if usual else 5) * np.ptp(rest) if len(rest) > 7 else np.inf
        if count > 1 and (usual or count < len(rest)) and 0 < apart < np.abs(rest - far).min():
            return float(far), count
    return None
