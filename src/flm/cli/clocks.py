"""Cells as dates or durations: the formats that people write, the order of day and month, time zones."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from flm.wording import InputError

QUARTERS = "%YQ%q"  # as pandas names them
SEASONS = "%Y/%y"  # 2001/02, 2001-2002
_DAYS = ("%d.%m.%Y", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d-%b-%Y", "%d %b %Y", "%b %d, %Y")
_DAYS += ("%d %B %Y", "%B %d, %Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%m/%Y")
_DAYS += ("%d-%b-%y", "%d%b%Y", "%b %d %Y", "%Y-%b-%d")
_MONTHS = ("%b %Y", "%B %Y", "%b-%y", "%b-%Y", "%Y %b", "%Y-%b", "%G-W%V-%u")  # of a week, its Monday
_DIGITS = ("%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S")
_PARTS = {"%d": "day", "%m": "month", "%b": "month", "%B": "month", "%Y": "year", "%y": "year"}
_KNOWN = {"%Y%m": "dates yearmonth", "%G-W%V-%u": "weeks, by their Mondays", QUARTERS: "quarters, by their first days"}
_KNOWN |= {SEASONS: "seasons, by their first years"}
_SEASON = r"([12]\d{3}) ?[-/–] ?(\d{4}|\d\d)"
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_FORMATS = ("ISO8601", *_DIGITS, *map("".join, itertools.product(_DAYS, _TIMES)), *_MONTHS)
_AHEAD = 20  # years
RANGES = " - "  # behind the format of dates that were ranges
_MIDNIGHT = r"^([^:]*\d[ T])24:00(?=:00|$|\D)"  # the end of a day
_TIME = r"\d?\d:\d\d(?::\d\d)?"
_RANGE = rf"^(.* {_TIME}) ?[-–] ?\S+ {_TIME}$"  # 01.01.2024 07:00 - 01.01.2024 08:00
_HOUR = r"\d?\d(?::\d\d)?(?::\d\d)?"
_HOURS = rf"^(?P<day>.*\d[T ])(?P<start>{_HOUR})(?P<between> ?[-–] ?)(?P<end>{_HOUR})$"  # 01.01.2024 07:00-08:00
_REWRITTEN = {  # how some write dates, and how these are read
    r"(:\d\d),(\d+)$": r"\1.\2",
    _MIDNIGHT: r"\g<1>00:00",
    r"(?<=\d)\s?(?:UTC|GMT)$": "+00:00",
    r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+": "",
    r"(?<=\d)(?:st|nd|rd|th)\b": "",
    r"^(\d{4})-?W(\d\d?)$": r"\1-W\2-1",
    r"^K?W ?(\d\d?)[ /-](\d{4})$": r"\2-W\1-1",
    r"^(\d{4})[ -]?M(\d\d?)$": r"\1-\2-01",
    r"^Q([1-4])[ /-](\d{4})$": r"\2Q\1",
    r"^(\d{4})[ -]?Q([1-4])$": lambda found: f"{found[1]}-{3 * int(found[2]) - 2:02d}-01",
}
COUNTS = {  # names, smallest and largest number, beginning, unit; the days of astronomers (MJD) are more than Excel's until 2036
    "days as Excel counts": ("date|datum|timestamp", 30_000, 50_000, "1899-12-30", "D"),
    "seconds since 1970": ("date|time|unix|epoch|ts", 8e8, 3e9, "1970-01-01", "s"),
    "milliseconds since 1970": ("date|time|unix|epoch|ts", 8e11, 3e12, "1970-01-01", "ms"),
}
_ALSO = r"(?:[ _]?(?:time|stamp|utc|gmt|local|s|sec|seconds|ms|since|1970|excel|unix|epoch))*\s*(?:[\[(].*)?"  # behind a name
_ROUNDED = 1e-6  # of a day: 45019.0416667 is one o'clock; digits of 1e-5 show no fractions of a second
_ZONE = r":\d\d(?:\.\d+)?\s?(Z|[+-]\d\d(?::?\d\d)?)$"
_SPAN = r"\d+(?:\.\d+)? ?(?:d|days?|h|hr|hours?|min|minutes?|s|sec|seconds?|ms)"
_DURATION = re.compile(rf"[+-]?(?:(?:\d+ days? [+-]?)?\d+:\d\d(?::\d\d(?:\.\d+)?)?|{_SPAN}(?: {_SPAN})*)")
_HALVES = r"(\d{1,2})(?::(\d\d))?(?::(\d\d))? ?([AaPp])[Mm]"  # 7 AM, 07:00 pm
HOURS = rf"\d{{1,2}}(?:[:.h]\d\d([:.]\d\d(\.\d+)?)?| ?h)|{_HALVES}"  # of a day, where the date is in another column

DATE = r"\d{1,4}[-./]\d{1,2}([-./]\d{1,4}([T ]\d.*)?)?|\d{1,2}:\d\d(:\d\d)?"  # 2024-01-31, 31.1.24 12:00, 1:30
MOSTLY = 0.5  # share of cells: a column with more numbers or dates than this was meant to be such


def day_comes_first(form: str) -> bool | None:
    """Whether a format has the day before the month; None where these cannot be mistaken for each other."""
    if not re.match(r"%[dm][-/]%[dm]", form):
        return None
    return form.startswith("%d")


def read_dates(text: pd.Series, place: Callable[[int], str], day_first: bool | None) -> tuple[pd.Series, str] | None:
    """Cells as dates and their format; NaT in a few cells that are no dates; None where most are none.

    Where day and month could be either, the clock that runs most evenly is taken: the fewest turns, then the steps that differ
    least from each other (months of 28 to 31 days differ less than days of January in several years).
    """
    quarterly = text.str.fullmatch(r"\d{4}[ -]?Q[1-4]|Q[1-4][ /-]\d{4}", na=False).any()
    known = text.dropna()
    few = _usual(known.iloc[:: max(len(known) // 100, 1)])
    shares = {form: _dates(few, form).notna().mean() for form in _FORMATS}
    best = max(shares.values())
    if best <= MOSTLY:
        return None
    midnight = text.str.match(_MIDNIGHT, na=False).astype(int) * pd.Timedelta(1, "D")
    text = _usual(text)
    known = text.dropna()
    read = {form: _dates(text, form) + midnight for form, share in shares.items() if share == best}
    most = max(dates.notna().sum() for dates in read.values())
    if most <= MOSTLY * len(known):
        return None
    read = {form: dates for form, dates in read.items() if dates.notna().sum() == most}
    asked = [form for form in read if day_first is not None and day_comes_first(form) in (day_first, None)]
    chosen = min(asked or read, key=lambda form: unevenness(read[form]))
    zones = known.str.extract(_ZONE, expand=False)
    if most < len(known) or zones.isna().all():
        return read[chosen].dt.tz_localize(None), QUARTERS if quarterly else chosen
    if zones.isna().any():
        one, other = known.loc[zones.isna()], known.loc[zones.notna()]
        told = f"got {one.iloc[0]!r} and, in line {other.index[0]}, {other.iloc[0]!r}"
        raise InputError(
            f"{place(one.index[0])} must have a time zone in every cell or in none; {told}. Mend the cells."
        )
    same = zones.nunique() == 1 and zones.iloc[0] not in ("Z", "+00:00", "+0000", "+00")
    offset = re.sub(r"([+-]\d\d):?(\d\d)?", lambda m: f"UTC{m[1]}:{m[2] or '00'}", zones.iloc[0]) if same else "UTC"
    return read[chosen].dt.tz_convert(offset), chosen


def unevenness(dates: pd.Series) -> tuple[int, float]:
    """How often a clock turns, and by how much its steps differ."""
    steps = np.diff(dates.dropna().to_numpy("datetime64[s]").astype("int64"))
    steps = steps[steps != 0]
    turns = min(int((steps < 0).sum()), int((steps > 0).sum()))  # a table may run backward
    return turns, float(np.abs(steps).max() / np.abs(steps).min()) if len(steps) else 1.0


def other_order(text: pd.Series, form: str) -> bool | None:
    """Whether cells of this format are other dates with day and month exchanged; None where they are the same dates."""
    swapped = form.translate(str.maketrans("dm", "md"))
    if day_comes_first(form) is None:
        return False
    text = _usual(text.dropna())
    other = _dates(text, swapped)
    return None if other.equals(_dates(text, form)) else bool(other.notna().all())


def beginnings(text: pd.Series, sure: bool) -> pd.Series:
    """Ranges of hours by their beginnings, other cells as they are; `sure` where a model was fitted to ranges.

    Where 00:00-01:00 could have an offset to UTC, ends are those that change in a quarter of rows, most one step behind the start.
    """
    first = text.dropna().iloc[:1]
    if first.str.match(_RANGE).any():
        return text.str.replace(_RANGE, r"\1", regex=True)
    if not first.str.match(_HOURS).any():
        return text
    parts = text.dropna().str.extract(_HOURS)
    whole = lambda part: parts[part].str.split(":", expand=True).reindex(columns=[0, 1]).astype(float).fillna(0)
    start, end = (whole(part) @ [60, 1] for part in ("start", "end"))  # minutes
    is_step = ((end - start) % 1440).value_counts(normalize=True).iloc[0] > 0.9
    is_step = sure or (is_step and end.diff().iloc[1:].ne(0).mean() > 0.25)
    if parts["between"].iloc[0] not in (" - ", "–", " – ") and not is_step:
        return text
    minutes = lambda found: found["day"] + found["start"] + ":00" * (":" not in found["start"])
    return text.str.replace(_HOURS, minutes, regex=True)


def words(form: str, zone: str, several: bool) -> str:
    """ "dates day/month/year in UTC"."""
    if form in _KNOWN:
        return _KNOWN[form]
    day = next((day for day in (*_DAYS[::-1], *_MONTHS[::-1]) if form.startswith(day)), "%Y-%m-%d")
    told = re.sub("%.", lambda part: _PARTS[part[0]], day)
    if not zone:
        return f"dates {told}"
    return f"dates {told} with several offsets, counted in UTC" if several else f"dates {told} in {zone}"


def offsets(cells: pd.Series) -> int:
    """How many different time zones the cells name."""
    return int(_usual(cells.astype(str).str.strip()).str.extract(_ZONE, expand=False).nunique())


def read_months(text: pd.Series, *, sure: bool = False) -> pd.Series | None:
    """Cells such as 201901 or 01.2019 as months, or None: all have a month and, unless `sure`, are several that run one way, most
    by the same step."""
    if not text.dropna().iloc[:1].str.fullmatch(r"\d{6}|\d\d\.\d{4}").all():
        return None
    text = text.str.replace(r"^(\d\d)\.(\d{4})$", r"\2\1", regex=True)
    known = text.dropna()
    if (len(known) < 3 and not sure) or not known.str.fullmatch(r"(1[89]|2[01])\d\d(0[1-9]|1[0-2])").all():
        return None
    found = _dates(text, "%Y%m").dt.tz_localize(None)
    steps = np.diff(found.dropna().to_numpy("datetime64[M]").astype(int))
    even = len(steps) > 0 and pd.Series(steps).value_counts(normalize=True).iloc[0] > MOSTLY
    return found if sure or (even and ((steps > 0).all() or (steps < 0).all())) else None


def read_seasons(text: pd.Series, known: str | None) -> pd.Series | None:
    """Cells such as 2001/02 as the years in which they begin, or None: all end a year later, and three or more differ.

    Where a format is `known`, as a model keeps it, it decides.
    """
    cells = text.dropna()
    if known not in (None, "", SEASONS) or not cells.iloc[:1].str.fullmatch(_SEASON).all():
        return None
    begin, end = cells.str.extract(f"^{_SEASON}$").astype(float).to_numpy().T
    if ((end - begin) % 100 != 1).any() or (cells.nunique() < 3 and known != SEASONS):
        return None
    return _dates(text.str[:4], "%Y").dt.tz_localize(None)


def read_durations(text: pd.Series) -> pd.Series | None:
    """Cells as durations, or None: 1:30 (of hours), 1:30:00, 2 days 1:30:00, 12 h, 90 min, 1 d 2 h, 7 AM; not "5 m" or 2:4."""
    known = text.dropna()
    points = known.str.fullmatch(r"\d\d?\.[0-5]\d\.[0-5]\d").all() and known.str.contains(".00.", regex=False).any()
    if points or known.str.fullmatch(r"\d\d?h[0-5]\d").all():  # 18.00.00, and no date; 18h00
        text, known = (cells.str.replace("[.h]", ":", regex=True) for cells in (text, known))
    if known.str.fullmatch(_HALVES).all():
        hour = lambda found: f"{int(found[1]) % 12 + 12 * (found[4] in 'Pp')}:{found[2] or '00'}:{found[3] or '00'}"
        text, known = (cells.str.replace(_HALVES, hour, regex=True) for cells in (text, known))
    if known.map(_DURATION.fullmatch).isna().any():
        return None
    whole = text.where(text.str.count(":") != 1, text + ":00").str.replace(r"(?<=\d) ?d\b", " days", regex=True)
    spans = pd.Series(pd.to_timedelta(whole, errors="coerce"), index=text.index)
    return spans if spans.notna().sum() == len(known) else None


def read_counts(name: str, values: pd.Series, known: str | None) -> tuple[pd.Series, str] | None:
    """Numbers as dates, with words for what they count, or None: those that run one way in a column of such a name.

    Where the words are `known`, as a model keeps them, they decide, unless the numbers are far from such counts. Days are whole
    seconds where their digits allow for it.
    """
    one_way = values.is_monotonic_increasing or values.is_monotonic_decreasing
    for words, (names, least, most, origin, unit) in COUNTS.items():
        named = (
            one_way and re.fullmatch(f"(?:{names}){_ALSO}", name, re.IGNORECASE) and values.between(least, most).all()
        )
        near = values.dropna().between(least / 2, 2 * most).all()
        if named if known is None else words == known and near:
            spans = pd.Series(pd.to_timedelta(values, unit=unit), index=values.index)
            off = (spans - spans.dt.round("s")).abs().max()
            even = off <= pd.Timedelta(_ROUNDED, "D") or np.abs(values - values.round(5)).max() < _ROUNDED / 1000
            return pd.Timestamp(origin) + spans.dt.round("us" if unit != "D" else "s" if even else "ms"), words
    return None


def _usual(text: pd.Series) -> pd.Series:
    """Cells with zones as offsets, 24:00 as 00:00, quarters as their first months, weeks as Mondays."""
    if text.str.contains(r"[A-SU-Ya-z–]|24:00|\d - ?\d|:\d\d,\d", na=False).any():
        for written, usual in _REWRITTEN.items():
            text = text.str.replace(written, usual, regex=True)
    return text


def _dates(text: pd.Series, form: str) -> pd.Series:
    """Cells as dates of this format in UTC, NaT where a cell is not such a date."""
    found = pd.Series(pd.to_datetime(text, format=form, errors="coerce", utc=True))
    if "%y" in form and found.notna().any():
        found = _in_century(found)
    return found.where(found.dt.year.between(1000, 2999))


def _in_century(dates: pd.Series) -> pd.Series:
    """Dates of years of two digits, made to run on from one century to the next where that makes a clock of them.

    A clock that would begin more than 20 years ahead, and other dates that far ahead, are of the century before.
    """
    known = dates.dropna()
    times, years = known.dt.tz_localize(None).to_numpy(), known.dt.year.to_numpy()
    months = times.astype("datetime64[M]")
    moved = lambda whole: months + 12 * (whole - years).astype("timedelta64[M]") + (times - months)
    whole = np.unwrap(years, period=100)
    whole = whole + (years - whole)[whole.argmax()]
    steps, latest = np.diff(moved(whole)), pd.Timestamp.now().year + _AHEAD
    if (steps >= np.timedelta64(0)).all() or (steps <= np.timedelta64(0)).all():
        whole = whole - 100 * (whole.min() > latest)
    else:
        whole = years - 100 * (years > latest)
    return pd.Series(moved(whole), known.index).dt.tz_localize("UTC").reindex(dates.index)


def near(dates: pd.Series, middle: pd.Timestamp) -> pd.Series:
    """Dates of years of two digits in the centuries that bring them nearest to this one."""
    centuries = ((dates.dt.year - middle.year) / 100).round()
    for century in centuries.dropna().unique():
        dates = dates.where(centuries != century, dates - pd.DateOffset(years=100 * int(century)))
    return dates
