"""Tables of numbers from CSV files, without pandas: a header, numbers, empty cells, one column of dates."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flm.wording import FileMissingError, InputError, did_you_mean

EMPTY = {"", "nan", "na", "null", "none", "?"}


@dataclass(frozen=True, eq=False)
class CsvTable:
    """A header and its cells, (rows, columns), as text."""

    path: Path
    names: tuple[str, ...]
    cells: list[list[str]]

    def column(self, name: str, *, role: str) -> int:
        """The place of a column, or an error with the nearest name."""
        if name in self.names:
            return self.names.index(name)
        near = did_you_mean(name, self.names)
        raise InputError(
            f"`{role}` must be a column of {self.path.name} ({', '.join(self.names)}); got {name!r}.{near}"
        )

    def numbers(self, names: list[str], *, missing: bool = False, dates: str | None = None) -> np.ndarray:
        """Columns as numbers (rows, len(names)); empty cells are NaN where `missing`; the column `dates` in seconds."""
        found = np.empty((len(self.cells), len(names)))
        for j, name in enumerate(names):
            place = self.column(name, role="columns")
            for i, row in enumerate(self.cells):
                found[i, j] = self._number(row[place], name, i, missing, name == dates)
        return found

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


def read_csv(path: Any) -> CsvTable:
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
