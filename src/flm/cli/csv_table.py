"""Tables of numbers from CSV files, without pandas: a header, numbers, empty cells, one column of dates."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flm.wording import FileMissingError, InputError, did_you_mean

EMPTY = {"", "nan", "na", "null", "none", "?"}


@dataclass(frozen=True, eq=False)
class CsvTable:
    """A header and its cells, (rows, columns), as text."""

    path: Path
    names: tuple[str, ...]
    cells: list[list[str]]

    def columns(self, chosen: str | Iterable[str] | None, role: str, *, but: str | None = None) -> list[str]:
        """These names, "a,b,c" or one by one, or all but one; an error with the nearest name where one is no column."""
        if chosen is None:
            return [name for name in self.names if name != but]
        names = [name.strip() for name in chosen.split(",")] if isinstance(chosen, str) else list(chosen)
        for name in names:
            if name not in self.names:
                raise InputError(
                    f"`{role}` must be a column of {self.path.name} ({', '.join(self.names)}); got {name!r}."
                    + did_you_mean(name, self.names)
                )
        return names

    def numbers(self, names: list[str], *, missing: bool = False, dates: str | None = None) -> np.ndarray:
        """Columns as numbers (rows, len(names)); empty cells are NaN where `missing`; the column `dates` in seconds."""
        places = [(name, self.names.index(name)) for name in names]
        rows = [
            [self._number(row[place], name, i, missing, name == dates) for name, place in places]
            for i, row in enumerate(self.cells)
        ]
        return np.array(rows, float).reshape(len(rows), len(names))

    def _number(self, text: str, name: str, row: int, missing: bool, date: bool) -> float:
        text = text.strip()
        if text.lower() in EMPTY:
            if missing and not date:
                return np.nan
            raise InputError(
                f"{self.path.name}, line {row + 2}: column {name!r} is empty; remove the row or use flm impute."
            )
        try:
            return float(text)
        except ValueError:
            pass
        if date:
            try:
                return float(np.datetime64(text.replace("/", "-").rstrip("Z"), "ns").astype("int64")) / 1e9
            except ValueError:
                pass
        raise InputError(
            f"{self.path.name}, line {row + 2}: column {name!r} must be a number; got {text!r}. "
            "Name the columns of numbers with --features or --columns."
        )


def read_csv(path: str | Path) -> CsvTable:
    """Read a CSV file whose first line is a header."""
    path = Path(path)
    if not path.is_file():
        raise FileMissingError(f"the file {str(path)!r} does not exist.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path.name} must be a CSV file in UTF-8; got {error}.") from None
    if len(rows) < 2:
        raise InputError(f"{path.name} must have a header and at least one row; got {len(rows)} lines.")
    names = tuple(name.strip() for name in rows[0])
    for i, row in enumerate(rows[1:]):
        if len(row) != len(names):
            raise InputError(f"{path.name}, line {i + 2}: {len(names)} cells are wanted; got {len(row)}.")
    return CsvTable(path, names, rows[1:])
