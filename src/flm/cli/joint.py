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
    "month": (r"m+|mon|mois|month|monat|mes|mese|m[aå]a?ned|maand", 1, 12),
    "day": (r"d+|dy|da[yg]|d[ií]a|tag|jour|giorno", 1, 31),
    "hour": (r"h+|he|hrs?|hours?|heure|hora|ora|uur|std|stunde|time|zeit|tijd", 0, 24),
    "minute": (r"m+|mi?n|minut[eo]?s?|minuut", 0, 59),
}
_RARE = 0.01  # of the rows may repeat a time or step back, as clocks do where summer ends


def joined(
    columns: Mapping[str, Column], texts: Mapping[str, pd.Series], formats: Mapping[str, str] | None
) -> tuple[dict[str, Column], tuple[str, ...]]:
    """The columns with the parts of a clock as one, and words that say so.

    Parts are joined where days (or years) come again and times do not; or as the `formats` of a model's clocks have them.
    """
    numbers = _numbers(columns)
    dates = [name for name, c in columns.items() if c.kind == "date"]
    spans = [name for name, c in columns.items() if c.kind == "duration" and name in texts]
    hours = [name for name in spans if texts[name].dropna().str.fullmatch(HOURS).all()]
    if len(hours) == 1 and columns[hours[0]].values.max() <= pd.Timedelta(1, "D"):
        numbers["hour"] = (hours[0], columns[hours[0]].values)
    if len(dates) == 1 and not columns[dates[0]].values.dt.hour.any() and not columns[dates[0]].values.dt.tz:
        names, form, times = dates, columns[dates[0]].format, columns[dates[0]].values
    elif not dates and {"year", "month"} <= set(numbers):
        dated = {part: numbers[part] for part in ("year", "month", "day") if part in numbers}
        whole = {"day": 1} | {part: values for part, (_, values) in dated.items()}
        names, form = [name for name, _ in dated.values()], "%Y"
        times = pd.Series(pd.to_datetime(pd.DataFrame(whole), errors="coerce"))
    else:
        return dict(columns), ()
    head = names[0]
    asked = None if formats is None else formats.get(head, "").split(BESIDE)[1:]
    for part in ("hour", "minute"):
        name, values = numbers.get(part, ("", times))
        if name and (times.dropna().duplicated().any() if asked is None else name in asked):
            times, names = times + pd.to_timedelta(values, unit=part), [*names, name]
    fits = columns[head].values.dropna().duplicated().any() and _pass(times.dropna())
    if len(names) == 1 or not (fits if asked is None else names[1:] == asked):
        return dict(columns), ()
    clock = columns[head]._replace(kind="date", values=times, format=BESIDE.join([form, *names[1:]]))
    rows = {name: columns[name]._replace(kind="rows") for name in names[1:] if columns[name].kind != "text"}
    listed = ", ".join(map(repr, names[:-1]))
    return {**columns, head: clock, **rows}, (f"{listed} and {names[-1]!r} as one clock, {head!r}",)


def _numbers(columns: Mapping[str, Column]) -> dict[str, tuple[str, pd.Series]]:
    """By part of a clock: the first column of its name whose cells are such numbers, all there; or names of months."""
    found: dict[str, tuple[str, pd.Series]] = {}
    for part, (words, least, most) in _PARTS.items():
        for name, column in columns.items():
            values = column.values
            if part == "month" and column.kind == "text":
                values = pd.Series(pd.to_datetime(values.str.strip().str[:3], format="%b", errors="coerce")).dt.month
            named = re.match(rf"(?:{words})(?![^\W_])", name, re.IGNORECASE) and name not in dict(found.values())
            if named and values.dtype.kind in "if" and values.between(least, most).all():
                found.setdefault(part, (name, values))
    return found


def _pass(times: pd.Series) -> bool:
    """Whether times follow each other one way, as a clock's do."""
    steps = times.diff().dropna() / pd.Timedelta(1, "s")
    return times.duplicated().mean() < _RARE and max((steps > 0).mean(), (steps < 0).mean()) > 1 - _RARE
