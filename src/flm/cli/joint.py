"""A clock in several columns: a date beside its hour, or year, month, day, hour and minute."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from flm.cli.clocks import HOURS, day_comes_first, unevenness
from flm.cli.columns import Column, exchanged

BESIDE = " + "  # in the format of a joint clock: "ISO8601 + hour"
_HOURS = r"h+|hhmm|hrmn|he|hrs?|hours?|heure|hora|ora|uur|std|stunde|(?:uhr)?zeit|time|tijd"
_TIMES = f"{_HOURS}|tid|kl|clock|von|from|start|beginn"  # of times of a day, which are no numbers
_PARTS = {  # words that are names, smallest and largest number
    "year": (r"y+|y(ea)?rs?|jahr|jaar|ann[oé]e?|an|año|[åa]r", 1000, 2999),
    "month": (r"m+|mon?|mois|month|monat|mes|mese|m[aå]a?ned|maand", 1, 12),
    "day": (r"d+|dy|da[yg]|d[ií]a|tag|jour|giorno", 1, 31),
    "days": (r"doy|day.?of.?year|ydays?|j(?:ulian)?.?day|da[yg]", 1, 366),
    "hours": (_HOURS, 0, 2400),
    "minutes": (r"m+|mi?n|minut[eo]?s?|minuut", 0, 59),
}
_BEHIND = r"of|the|day|month|year|utc|gmt|local|time|ending|beginning|start|end|lokal|ortszeit|mez|number|name"
_REST = rf"(?:[\W_]+(?:{_BEHIND}))*\s*(?:[\[(][^°%/]*)?"  # behind a word: "hour of day", "time [UTC]"; no "min [°C]"
_AGAIN = 0.25  # of the rows, at least, have a day that comes again before hours are joined to days, and so for minutes
_RARE, _FEW = 0.01, 4  # share and number of rows that may repeat a time or step back, as clocks do where summer ends


def begins(name: str, asked: str) -> bool:
    """Whether these are the first words of a name: "date" of "Date (local)"."""
    return re.match(rf"{re.escape(asked)}(?!\w)", name, re.IGNORECASE) is not None


def format_of(name: str, formats: Mapping[str, str] | None) -> str | None:
    """What a model knows of a column, "number" where that is nothing; None without a model."""
    if formats is None:
        return None
    return next((formats[asked] for asked in sorted(formats, key=len, reverse=True) if begins(name, asked)), "number")


def joined(
    columns: Mapping[str, Column],
    texts: Mapping[str, pd.Series],
    formats: Mapping[str, str] | None,
    day_first: bool | None,
) -> tuple[dict[str, Column], tuple[str, ...]]:
    """The columns with the parts of a clock as one, and words that say so; times of a day that pass midnight run on.

    Where day and month could change places, the order under which the joint clock runs most evenly is taken.
    """
    found = _joined(columns, texts, formats)
    dates = [name for name, column in columns.items() if column.kind == "date"]
    if not dates and not found[1]:
        return _past_midnight(columns, texts), ()
    head = dates[0] if len(dates) == 1 else ""
    asked = day_comes_first(format_of(head, formats) or "") if day_first is None else day_first
    other = exchanged(columns[head], texts[head]) if asked is None and head in texts else None
    if other is None:
        return found
    readings = found, _joined({**columns, head: other}, texts, formats)
    joint = [reading for reading in readings if reading[1]] or [found]
    return min(joint, key=lambda reading: unevenness(reading[0][head].values))


def _past_midnight(columns: Mapping[str, Column], texts: Mapping[str, pd.Series]) -> dict[str, Column]:
    """The columns with a day more after each midnight, in times of a day that run one way and pass it."""
    found = dict(columns)
    for name in (name for name, column in columns.items() if column.kind == "duration"):
        hours = columns[name].values.dropna() / pd.Timedelta(1, "h")
        running = pd.Series(np.unwrap(hours, period=24), hours.index)
        steps, turns = np.diff(running), int((np.diff(running - hours).round() != 0).sum())
        one_way = (steps > 0).all() or (steps < 0).all()
        if one_way and 0 < turns < len(steps) / 2 and hours.max() <= 24 and _of_a_day(texts, name):
            days = ((running - hours) / 24).round()
            values = columns[name].values + pd.to_timedelta(days - days.min(), unit="D")
            words = ("times of a day, with a day more after each midnight",)
            found[name] = columns[name]._replace(values=values, words=words)
    return found


def _of_a_day(texts: Mapping[str, pd.Series], name: str) -> bool:
    return bool(texts.get(name, pd.Series(dtype=str)).dropna().str.fullmatch(HOURS).all())


def _joined(
    columns: Mapping[str, Column], texts: Mapping[str, pd.Series], formats: Mapping[str, str] | None
) -> tuple[dict[str, Column], tuple[str, ...]]:
    """The columns with the parts of a clock as one, and words that say so.

    Parts are joined where days (or years) come again and times do not; or as the `formats` of a model's clocks have them.
    """
    numbers = _numbers(columns, texts)
    dates = [name for name, c in columns.items() if c.kind == "date"]
    if len(dates) == 1 and not columns[dates[0]].values.dt.hour.any() and not columns[dates[0]].values.dt.tz:
        names, form, times = dates, columns[dates[0]].format, columns[dates[0]].values
    elif not dates and "year" in numbers and ("month" in numbers or "days" in numbers):
        dated = {part: numbers[part] for part in ("year", "month", "day") if part in numbers}
        whole = {"month": 1, "day": 1} | {part: values for part, (_, values) in dated.items()}
        names, form = [name for name, _ in dated.values()], "%Y"
        times = pd.Series(pd.to_datetime(pd.DataFrame(whole), errors="coerce"))
    else:
        return dict(columns), ()
    head = names[0]
    fitted = format_of(head, formats)
    asked = None if fitted is None else fitted.split(BESIDE)[1:]
    for part in ("hours", "minutes") if dates or "month" in numbers else ("days", "hours", "minutes"):
        name, values = numbers.get(part, ("", times))
        if not name:
            continue
        if _again(times, columns[name], name) if asked is None else any(begins(name, beside) for beside in asked):
            times, names = times + pd.to_timedelta(values, unit=part), [*names, name]
    is_hours, is_named = columns[names[-1]].kind == "duration", _is_named(names[-1], _TIMES)
    fits = _again(columns[head].values, columns[names[-1]], names[-1]) and _pass(
        times.dropna(), 0.0 if is_hours and not is_named else _RARE, is_hours and is_named
    )
    if asked is not None:
        fits = len(names) == len(asked) + 1 and all(map(begins, names[1:], asked))
    if len(names) == 1 or not fits:
        return dict(columns), ()
    clock = columns[head]._replace(kind="date", values=times, format=BESIDE.join([form, *names[1:]]))
    rows = {name: columns[name]._replace(kind="rows") for name in names[1:] if columns[name].kind != "text"}
    listed = ", ".join(map(repr, names[:-1]))
    return {**columns, head: clock, **rows}, (f"{listed} and {names[-1]!r} as one clock, {head!r}",)


def _is_named(name: str, words: str) -> bool:
    return re.fullmatch(rf"(?:{words}){_REST}", name, re.IGNORECASE) is not None


def _numbers(columns: Mapping[str, Column], texts: Mapping[str, pd.Series]) -> dict[str, tuple[str, pd.Series]]:
    """By part of a clock: the first column of its name whose cells are such numbers, all there; or months and hours in letters.

    Times of a day may have any name where no column has one of hours.
    """
    found: dict[str, tuple[str, pd.Series]] = {}
    for part, (words, least, most) in _PARTS.items():
        first = _TIMES if part == "hours" else words
        for name, column in sorted(columns.items(), key=lambda item: not _is_named(item[0], first)):
            values, text = column.values, texts.get(name, pd.Series(dtype=str)).dropna()
            if part == "hours" and column.kind == "duration" and _of_a_day(texts, name):
                if (values.dropna() <= pd.Timedelta(1, "D")).all():
                    found.setdefault(part, (name, values))
                continue
            if part == "month" and column.kind == "text":
                values = pd.Series(pd.to_datetime(values.str.strip().str[:3], format="%b", errors="coerce")).dt.month
            named = _is_named(name, words) and name not in dict(found.values())
            if (
                not named
                or values.dtype.kind not in "if"
                or not values.dropna().between(least, most).all()
                or (values.dropna() % 1).any()
            ):
                continue
            if part == "hours" and text.str.fullmatch(r"[0-2]\d[0-5]\d").all() and len(text):  # 0000 to 2400
                values = values // 100 + values % 100 / 60
            if part != "hours" or values.max() <= 24:
                found.setdefault(part, (name, values - (part == "days")))
    return found


def _again(times: pd.Series, part: Column, name: str) -> bool:
    """Whether days come again in enough rows, or at all beside times of a day (12:30) under a name of theirs."""
    share = times.dropna().duplicated(keep=False).mean()
    return bool(share >= _AGAIN or (share > 0 and part.kind == "duration" and _is_named(name, _TIMES)))


def _pass(times: pd.Series, rare: float, may_turn: bool) -> bool:
    """Whether times differ and, unless they may turn, follow each other one way, as a clock's do; `rare` rows may do neither."""
    steps, few = times.diff().dropna(), max(rare * len(times), min(_FEW, 0.1 * len(times)) if rare else 0.0)
    turns = len(steps) - max((steps > pd.Timedelta(0)).sum(), (steps < pd.Timedelta(0)).sum())
    return bool((may_turn or turns <= few) and times.duplicated().sum() <= few)
