"""A clock in several columns: a date beside its hour, or year, month, day, hour and minute."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from flm.cli.clocks import HOURS
from flm.cli.columns import Column

BESIDE = " + "  # in the format of a joint clock: "ISO8601 + hour"
_PARTS = {  # words with which names begin, smallest and largest number
    "year": (r"y+|y(ea)?rs?|jahr|jaar|ann[oé]e?|an|año|[åa]r", 1000, 2999),
    "month": (r"m+|mon?|mois|month|monat|mes|mese|m[aå]a?ned|maand", 1, 12),
    "day": (r"d+|dy|da[yg]|d[ií]a|tag|jour|giorno", 1, 31),
    "days": (r"doy|day.?of.?year|ydays?|j(?:ulian)?.?day|da[yg]", 1, 366),
    "hours": (r"h+|hhmm|hrmn|he|hrs?|hours?|heure|hora|ora|uur|std|stunde|time|zeit|tijd", 0, 2400),
    "minutes": (r"m+|mi?n|minut[eo]?s?|minuut", 0, 59),
}
_RARE = 0.01  # of the rows may repeat a time or step back, as clocks do where summer ends


def begins(name: str, asked: str) -> bool:
    """Whether these are the first words of a name: "date" of "Date (local)"."""
    return re.match(rf"{re.escape(asked)}(?!\w)", name, re.IGNORECASE) is not None


def joined(
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
    known = next((form for name, form in (formats or {}).items() if begins(head, name)), "")
    asked = None if formats is None else known.split(BESIDE)[1:]
    for part in ("hours", "minutes") if dates or "month" in numbers else ("days", "hours", "minutes"):
        name, values = numbers.get(part, ("", times))
        if name and (times.dropna().duplicated().any() if asked is None else any(begins(name, part) for part in asked)):
            times, names = times + pd.to_timedelta(values, unit=part), [*names, name]
    fits = columns[head].values.dropna().duplicated().any() and _pass(
        times.dropna(), columns[names[-1]].kind == "duration"
    )
    if asked is not None:
        fits = len(names) == len(asked) + 1 and all(map(begins, names[1:], asked))
    if len(names) == 1 or not fits:
        return dict(columns), ()
    clock = columns[head]._replace(kind="date", values=times, format=BESIDE.join([form, *names[1:]]))
    rows = {name: columns[name]._replace(kind="rows") for name in names[1:] if columns[name].kind != "text"}
    listed = ", ".join(map(repr, names[:-1]))
    return {**columns, head: clock, **rows}, (f"{listed} and {names[-1]!r} as one clock, {head!r}",)


def _numbers(columns: Mapping[str, Column], texts: Mapping[str, pd.Series]) -> dict[str, tuple[str, pd.Series]]:
    """By part of a clock: the first column of its name whose cells are such numbers, all there; or months and hours in letters."""
    found: dict[str, tuple[str, pd.Series]] = {}
    for part, (words, least, most) in _PARTS.items():
        for name, column in columns.items():
            values, text = column.values, texts.get(name, pd.Series(dtype=str)).dropna()
            if part == "hours" and column.kind == "duration" and text.str.fullmatch(HOURS).all():
                if (values.dropna() <= pd.Timedelta(1, "D")).all():
                    found.setdefault(part, (name, values))
                continue
            if part == "month" and column.kind == "text":
                values = pd.Series(pd.to_datetime(values.str.strip().str[:3], format="%b", errors="coerce")).dt.month
            named = re.match(rf"(?:{words})(?![^\W_])", name, re.IGNORECASE) and name not in dict(found.values())
            if not named or values.dtype.kind not in "if" or not values.between(least, most).all():
                continue
            if part == "hours" and text.str.fullmatch(r"[0-2]\d[0-5]\d").all() and len(text):  # 0000 to 2400
                values = values // 100 + values % 100 / 60
            if part != "hours" or values.max() <= 24:
                found.setdefault(part, (name, values - (part == "days")))
    return found


def _pass(times: pd.Series, may_turn: bool) -> bool:
    """Whether times differ and, unless they may turn, follow each other one way, as a clock's do."""
    steps = times.diff().dropna() / pd.Timedelta(1, "s")
    one_way = may_turn or max((steps > 0).mean(), (steps < 0).mean()) > 1 - _RARE
    return one_way and times.duplicated().mean() < _RARE
