"""Units inside of cells: "12.5 %", "€ 1.200,50", "$3.40", "1 200 kr" and "5 m" are numbers where the cells of a column agree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from flm.cli import clocks

_LONGEST = 40  # letters of a number with its unit
_CODES = "CHF|EUR|USD|GBP|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|CAD|AUD"
_BEFORE = rf"(?:{_CODES}|[A-Z]{{0,2}}[$€£¥₹]|kr\.?|Rs\.?)\s?"
_AFTER = r"\s?(?:[^\W\d_]|[%‰°$€£¥₹])[^\s\d,;]{0,9}[23]?"
_NUMBER = r"[+-]?(?:\d[\d.,'’\s]*)?\d[.,]?(?:[eE][+-]?\d+)?|[.,]\d+"
_CELL = rf"^([+-]?)({_BEFORE})?({_NUMBER})({_AFTER})?$"
_NEARLY = 0.9  # share of cells: others may be mistakes, which are named
_LEAST = 3  # cells with a unit of letters: one of "2A" may be a name


class Unit(NamedTuple):
    """What stands before and behind the numbers of a column, and the name of the column in the file."""

    before: str
    after: str
    header: str

    @property
    def name(self) -> str:
        """The unit alone."""
        return (self.before + self.after).strip()

    @property
    def label(self) -> str:
        """The name of the column with its unit, as units in a header are written."""
        there = re.search(rf"(?<!\w){re.escape(self.name)}(?!\w)", self.header)
        return self.header if there else f"{self.header} [{self.name}]"

    def write(self, number: str) -> str:
        """A number as the column has it."""
        return f"{'-' * number.startswith('-')}{self.before}{number.removeprefix('-')}{self.after}"


def read_unit(name: str, text: pd.Series, fitted: Iterable[str] = ()) -> Unit | None:
    """The unit in most cells of a column, or None; of dates and durations there is none.

    One that stands in the names of `fitted` columns needs no further cell.
    """
    known = text.dropna()
    few = known.iloc[:: max(len(known) // 100, 1)]
    if few.str.len().max() > _LONGEST:
        return None
    parts = few.str.extract(_CELL)[[1, 3]].fillna("").apply("\n".join, axis=1)
    most = parts[parts != "\n"].value_counts()
    if most.empty:
        return None
    before, after = str(most.index[0]).split("\n")
    found = Unit(before, after, name)
    sure = found.label.lower() in map(str.lower, fitted) or not any(map(str.isalpha, found.name))
    alike = bare(few, found).dropna()
    clock = clocks.read_durations(few.loc[alike.index]) is not None or clocks.read_dates(few, str, None) is not None
    return found if len(alike) >= _NEARLY * len(few) and (sure or len(known) >= _LEAST) and not clock else None


def bare(text: pd.Series, unit: Unit) -> pd.Series:
    """The numbers of cells with this unit, missing in other cells."""
    parts = text.str.extract(_CELL).fillna("")
    same = (parts[1].str.strip() == unit.before.strip()) & (parts[3].str.strip() == unit.after.strip())
    return (parts[0] + parts[2]).where(same & (parts[2] != ""))
