"""Tables from files: pandas reads them; what a file does not say (delimiter, decimal sign, encoding, dates) is found and told."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from flm.cli import clocks
from flm.cli.columns import POINTS, Column, as_text, decimal_sign, read_column, sentinel
from flm.cli.joint import begins, format_of, joined
from flm.cli.layout import UNNAMED, Layout, read_layout
from flm.cli.units import Unit, bare, read_unit
from flm.estimators.table import MOST_LEVELS, kind_of
from flm.files import write_atomic
from flm.wording import ExtraMissingError, FileMissingError, InputError, did_you_mean, short

_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class FileTable:
    """The columns of a file, as written and as read."""

    name: str  # of the file
    cells: pd.DataFrame  # text as it was written; the index is the line of the file
    values: pd.DataFrame  # numbers, dates, durations; text where a column is none of these
    empty: Mapping[str, pd.Series]  # by column and line, whether nothing is there
    assumed: tuple[str, ...] = ()  # what the file did not say
    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    units: Mapping[str, Unit] = field(default_factory=dict)  # of columns whose cells have them
    remarks: tuple[str, ...] = ()  # sentences about values that may not be what they seem

    def of_kind(self, *kinds: str) -> list[str]:
        """The columns of these kinds, which `Column` lists."""
        return [str(name) for name, kind in self.values.attrs["kinds"].items() if kind in kinds]

    def match(self, chosen: str | Iterable[str], role: str, *, whole: bool = False) -> list[str]:
        """Columns by name, by the first words of a name or, unless `whole`, by its beginning, "a,b,c" or one by one.

        With `whole` a unit behind the name may be missing. Errors list the columns and suggest the nearest.
        """
        known, found = [str(column) for column in self.cells], []
        asked = chosen.split(",") if isinstance(chosen, str) and chosen not in known else chosen
        for name in [asked] if isinstance(asked, str) else map(str.strip, asked):
            begin = [c for c in known if name and c.lower().startswith(name.lower())]
            words = [c for c in begin if begins(c, name)]
            if whole and not words:  # "price [€]" may be "price"
                words = [c for c in known if c.lower() == re.sub(r" \[[^]]*\]$", "", name).lower()]
            fitting = [name] if name in known else words if words or whole else begin
            listed = f"{self.name} ({', '.join(known)})"
            if not fitting:
                raise InputError(f"`{role}` must be a column of {listed}; got {name!r}.{did_you_mean(name, known)}")
            if len(fitting) > 1:
                several = f"{name!r}, with which {len(fitting)} begin"
                raise InputError(f"`{role}` must name one column of {listed}; got {several}.")
            found += fitting
        return found

    def checked(self, names: Sequence[str], *, holes: bool = False, text: bool = False) -> pd.DataFrame:
        """These columns, refused where a cell is not a number, date or duration; empty cells pass with `holes`, and categories
        with `text`."""
        kinds = self.values.attrs["kinds"]
        for name in names:
            column, cells = self.values[name], self.cells[name].str.strip()
            empty = self.empty[name].loc[cells.index]
            if text and kinds[name] == "text" and len(set(cells)) <= MOST_LEVELS:
                wrong = empty & (column.str.lower() != "none")  # a word for a category, too
            else:
                wrong = ~empty if kinds[name] == "text" else column.isna() & (~empty | (not holes))
            if column.dtype.kind == "f":
                wrong |= np.isinf(column.astype(float))
            for line in cells.index[wrong.to_numpy(bool)][:1]:
                place = f"{self.name}, line {line}: column {name!r}"
                if empty.at[line]:
                    raise InputError(
                        f"{place} is empty; remove the row{' or use flm impute' * (text and kinds[name] != 'text')}."
                    )
                shape = cells.str.replace(r"\d+", "9", regex=True)
                other = cells[wrong & (shape != shape[line])]
                if kinds[name] == "text" and cells[line][0].isdigit() and len(other):
                    got = f"{short(cells[line])} and, in line {other.index[0]}, {short(other.iloc[0])}"
                    raise InputError(f"{place} must have numbers, dates or durations of one form; got {got}.")
                got = short(cells[line])
                if name in self.units:
                    rule = f"a number with {self.units[name].name!r}, as most cells"
                    raise InputError(f"{place} must be {rule}; got {got}. Write the same unit in every cell.")
                remedy = (
                    f"name the columns to use with --features or --columns, or write --missing {got} if it is no value."
                )
                raise InputError(
                    f"{place} must be a number, a date or a duration; got {got}. Mend the cell, remove the row, {remedy}"
                )
        return self.values.loc[:, list(names)]

    def refuse_other(self, kind: str, name: str) -> None:
        """Refuse a column that is of another kind than the one that was fitted: "number", "date", "duration" or "category"."""
        given = kind_of(pd.Series(self.values[name]))
        known = self.cells[name].loc[self.values[name].notna() & ~self.empty[name]]
        for line in known.index[: given != kind]:
            place = f"{self.name}, line {line}: column {name!r} must be a {kind}, as was fitted"
            got = f"the {given.replace('category', 'text')} {short(known[line].strip())}"
            raise InputError(f"{place}; got {got}. Write it as in the fitted table.")

    def number(self, value: float, digits: int = 10, column: str = "") -> str:
        """A number as this file, or a column of it, writes numbers."""
        text = f"{value:.{digits}g}".replace(".", self.decimal)
        return self.units[column].write(text) if column in self.units else text

    def write(self, path: Path, cells: pd.DataFrame) -> None:
        """Write cells into a file of the same layout; a name that ends in .parquet makes a Parquet file."""
        cells = cells.rename(columns={UNNAMED: ""} | {name: unit.header for name, unit in self.units.items()})
        if path.suffix in _PARQUET:
            stream = io.BytesIO()
            _parquet(lambda: cells.to_parquet(stream, index=False))
            return write_atomic(path, stream.getvalue())
        separator = " " if self.delimiter == r"\s+" else self.delimiter
        cells = cells.replace("", "NA") if separator == " " else cells  # an empty cell cannot be seen between spaces
        text = cells.to_csv(index=False, lineterminator="\n", sep=separator)
        content = text.encode(self.encoding, errors="xmlcharrefreplace")
        return write_atomic(path, gzip.compress(content) if path.suffix == ".gz" else content)


def refuse_spreadsheet(path: Path | None, remedy: str) -> None:
    """Refuse a file of Excel or LibreOffice by its name."""
    if path is not None and path.suffix in (".xlsx", ".xls", ".ods"):
        raise InputError(f"{path.name} must be a CSV or Parquet file; got a spreadsheet. {remedy}")


def read_file(
    path: str | Path,
    *,
    day_first: bool | None = None,
    formats: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
) -> FileTable:
    """The table in a CSV file of any dialect, or in a Parquet file, with its columns as `read_column` reads them.

    Where day and month could be either, `day_first` says which, else the `formats` of a model: by the name of
    each input, the format of its dates, or else its kind, which decides how few cells are read.
    Cells in `missing` ("a", or "a,b" where no cell is that), and numbers equal to one of them, are taken as empty.
    """
    path = Path(path)
    if not path.is_file():
        raise FileMissingError(f"the file {str(path)!r} does not exist.")
    refuse_spreadsheet(path, "Save it as CSV first.")
    if path.suffix in _PARQUET:
        frame = _parquet(lambda: pd.read_parquet(path)).rename(columns=lambda name: str(name) or UNNAMED)
        frame.index = pd.RangeIndex(2, len(frame) + 2)
        found, raw = Layout(frame.astype(str).mask(frame.isna(), ""), ",", "utf-8", ()), frame
    else:
        found = read_layout(path)
        raw = found.cells
    there = {text for text in missing if (found.cells == text).to_numpy().any()}  # -99,9 may be one number
    missing = [word.strip() for text in missing for word in ([text] if text in there else text.split(","))]
    nothing = found.cells.apply(lambda cells: cells.str.strip().isin(missing))
    raw = raw.mask(nothing) if missing else raw
    named = [(str(name), cells) for name, cells in raw.items()]
    texts = {name: as_text(cells) for name, cells in named if cells.dtype.kind not in "iufbmM"}
    known = {name: format_of(name, formats) for name, _ in named}
    worded = {name: text for name, text in texts.items() if known[name] != "category"}
    found_units = {name: read_unit(name, text, formats or ()) for name, text in worded.items()}
    in_cells = {name: u for name, u in found_units.items() if u is not None and u.label not in {*raw} - {name}}
    plain = {name: bare(text, in_cells[name]) if name in in_cells else text for name, text in texts.items()}
    months = {name for name, text in plain.items() if clocks.read_months(text, sure=known[name] == "%Y%m") is not None}
    signed = {name: text for name, text in plain.items() if name not in months}  # 01.1965 has no decimal sign
    decimal = decimal_sign(signed, path.name, found.delimiter)
    columns, empty = {}, {}
    numbers = pd.Series(pd.to_numeric(pd.Series(missing, dtype=str), errors="coerce")).dropna()
    for name, cells in named:
        fitted = known[name]
        order = clocks.day_comes_first(fitted or "") if day_first is None else day_first
        place = lambda line, name=name: f"{path.name}, line {line}: column {name!r}"
        label = in_cells[name].label if name in in_cells else name
        column = read_column(plain[name] if name in in_cells else cells, decimal, place, order, fitted)
        equal = column.values.isin(numbers)  # -200.0 is -200
        nothing[name] |= equal
        column = column._replace(values=column.values.mask(equal))
        if column.kind == "number" and (counted := clocks.read_counts(label, column.values, fitted)):
            column = Column("date", counted[0], (counted[1],), counted[1])
        columns[label] = column
        empty[label] = texts.get(name, cells).isna() | equal
    columns, together = joined(columns, texts, formats, day_first)
    told = [
        f"{name!r} as {c.words[0]}" for name, c in columns.items() if c.words and (c.format or c.kind == "duration")
    ]
    if UNNAMED in columns and _counts(columns[UNNAMED]):
        columns[UNNAMED] = columns[UNNAMED]._replace(kind="rows")
    values = pd.DataFrame({name: column.values for name, column in columns.items()}, index=found.cells.index)
    values.attrs["kinds"] = {name: column.kind for name, column in columns.items()}
    values.attrs["formats"] = {name: column.format for name, column in columns.items() if column.format}
    signs = dict.fromkeys(
        f"{name!r} with {w}" if w == POINTS else w
        for name, c in columns.items()
        if not c.format and c.kind in ("number", "mixed")
        for w in c.words
    )
    gone = (f"{int(nothing.to_numpy().sum()):,} cells of {', '.join(missing)} as missing",) if missing else ()
    units = {unit.label: unit for unit in in_cells.values()}
    told += [f"{unit.header!r} in {unit.name}" for unit in units.values()]
    assumed, odd = (*found.assumed, *told, *together, *signs, *gone), _odd(columns)
    cells = found.cells.set_axis(list(columns), axis=1)
    return FileTable(path.name, cells, values, empty, assumed, found.delimiter, decimal, found.encoding, units, odd)


def _counts(column: Column) -> bool:  # 0, 1, 2, ..., as pandas numbers its rows
    return column.kind == "number" and bool((np.diff(column.values) == 1).all()) and column.values.iloc[0] in (0, 1)


def _odd(columns: Mapping[str, Column]) -> tuple[str, ...]:
    """A remark for every number that may stand for a missing value, with the columns that have it."""
    found: dict[str, dict[str, int]] = {}
    for name, column in columns.items():
        if column.kind == "number" and (odd := sentinel(column.values)):
            found.setdefault(f"{odd[0]:.10g}", {})[name] = odd[1]
    rule = "outside of all other values; they were taken as numbers. If they stand for missing values, write --missing"
    where = {one: f"{'columns' if len(n) > 1 else 'column'} {', '.join(map(repr, n))}" for one, n in found.items()}
    return tuple(f"{sum(n.values()):,} cells of {one} in {where[one]} are {rule} {one}." for one, n in found.items())


def _parquet(work):  # pandas needs pyarrow (or fastparquet) for it
    try:
        return work()
    except ImportError:
        raise ExtraMissingError("Parquet files need pyarrow: pip install pyarrow, or give the table as CSV.") from None
    except (ValueError, OSError) as error:
        raise InputError(f"a Parquet file must be whole; got {short(str(error))}.") from None
