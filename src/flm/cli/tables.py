"""Tables from files: pandas reads, and what a file does not say (delimiter, decimal sign, encoding, dates) is found and told."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from flm.cli.cells import as_clock, as_dates, as_numbers
from flm.files import write_atomic
from flm.wording import ExtraMissingError, FileMissingError, InputError, did_you_mean, short

EMPTY = {"", "nan", "na", "n/a", "#n/a", "null", "none", "?", "-", "--", "missing"}
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas", r"\s+": "spaces"}
_LOOK = 200  # lines that are looked at to find the layout
_MOSTLY = 0.5  # of the cells: a column with so many numbers was meant to be numbers

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"


@dataclass(frozen=True, eq=False)
class FileTable:
    """The columns of a file, as written and as read."""

    name: str  # of the file
    cells: pd.DataFrame  # text as it was written; the index is the line of the file
    values: pd.DataFrame  # numbers, dates, durations; text where a column is none of these
    assumed: tuple[str, ...] = ()  # what the file did not say
    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def of_kind(self, *kinds: str) -> list[str]:
        """The columns of these kinds: "number", "date", "duration", "mixed", "text" or "empty"."""
        return [str(name) for name, kind in self.values.attrs["kinds"].items() if kind in kinds]

    def match(self, chosen: str | Iterable[str], role: str) -> list[str]:
        """Columns by name or by its beginning, "a,b,c" or one by one; an error lists them and suggests the nearest."""
        asked = [chosen] if isinstance(chosen, str) and chosen in self.cells else chosen
        asked = [name.strip() for name in asked.split(",")] if isinstance(asked, str) else list(asked)
        return [self._one(name, role) for name in asked]

    def _one(self, name: str, role: str) -> str:
        known = [str(column) for column in self.cells]
        if name in known:
            return name
        begin = [column for column in known if column.lower().startswith(name.lower())]
        if len(begin) == 1 and name:
            return begin[0]
        listed = f"{self.name} ({', '.join(known)})"
        if len(begin) > 1 and name:
            raise InputError(f"`{role}` must name one column of {listed}; got {name!r}, with which {len(begin)} begin.")
        raise InputError(f"`{role}` must be a column of {listed}; got {name!r}.{did_you_mean(name, known)}")

    def checked(self, names: Sequence[str], *, holes: bool = False, text: bool = False) -> pd.DataFrame:
        """These columns, refused where a cell is not a number, date or duration; empty ones pass with `holes`."""
        kinds = self.values.attrs["kinds"]
        for name in names:
            if text and kinds[name] == "text":
                continue
            column, cells = self.values[name], self.cells[name].str.strip()
            empty = cells.str.lower().isin(EMPTY)
            wrong = ~empty if kinds[name] == "text" else column.isna() & (~empty | (not holes))
            if kinds[name] == "number":
                wrong |= np.isinf(column.astype(float))
            for line in wrong.index[wrong][:1]:
                place = f"{self.name}, line {line}: column {name!r}"
                if empty[line]:
                    raise InputError(f"{place} is empty; remove the row or use flm impute.")
                remedy = "Mend the cell, or name the columns to use with --features or --columns."
                raise InputError(f"{place} must be a number, a date or a duration; got {short(cells[line])}. {remedy}")
        return self.values.loc[:, list(names)]

    def rows(self, kept: np.ndarray) -> FileTable:
        """Some of the rows."""
        return replace(self, cells=self.cells[kept], values=self.values[kept])

    def number(self, value: float, digits: int = 10) -> str:
        """A number as this file writes them."""
        return f"{value:.{digits}g}".replace(".", self.decimal)

    def write(self, path: Path, cells: pd.DataFrame) -> None:
        """Cells into a file of the same layout; a name that ends in .parquet makes a Parquet file."""
        if path.suffix == ".parquet":
            stream = io.BytesIO()
            _parquet(lambda: cells.to_parquet(stream, index=False))
            write_atomic(path, stream.getvalue())
            return
        separator = " " if self.delimiter == r"\s+" else self.delimiter
        text = cells.to_csv(index=False, lineterminator="\n", sep=separator)
        write_atomic(path, text.encode(self.encoding, errors="xmlcharrefreplace"))


def read_file(path: str | Path) -> FileTable:
    """The table in a CSV file of any dialect, or in a Parquet file."""
    path = Path(path)
    if not path.is_file():
        raise FileMissingError(f"the file {str(path)!r} does not exist.")
    if path.suffix in (".parquet", ".pq"):
        frame = _parquet(lambda: pd.read_parquet(path)).rename(columns=str)
        frame.index = pd.RangeIndex(2, len(frame) + 2)
        return _understood(FileTable(path.name, frame.astype(str).mask(frame.isna(), ""), frame))
    if path.suffix in (".xlsx", ".xls", ".ods"):
        raise InputError(f"{path.name} must be a CSV or Parquet file; got a spreadsheet. Save it as CSV first.")
    text, encoding = _decoded(path)
    return _understood(_cells(path.name, text, encoding))


def _parquet(work):  # pandas needs pyarrow (or fastparquet) for it
    try:
        return work()
    except ImportError:
        raise ExtraMissingError("Parquet files need pyarrow: pip install pyarrow, or give the table as CSV.") from None
    except (ValueError, OSError) as error:
        raise InputError(f"a Parquet file must be whole; got {short(str(error))}.") from None


def _decoded(path: Path) -> tuple[str, str]:
    content = path.read_bytes()
    if b"\0" in content[:4096] and content[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path.name} must be a text file with a table; got binary content.")
    encodings = ("utf-16",) if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252", "latin-1")
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return text.replace("\r\n", "\n").replace("\r", "\n"), encoding.removesuffix("-sig")
    raise InputError(f"{path.name} must be text in UTF-8, UTF-16 or Latin-1; got neither. Save it as UTF-8.")


def _cells(name: str, text: str, encoding: str) -> FileTable:
    """Header and cells: the delimiter under which most lines have the same number of cells; lines above them are skipped."""
    lines = text.split("\n", _LOOK)[:_LOOK]
    counts = {sign: [_width(line, sign) for line in lines] for sign in _DELIMITERS}

    def agreement(sign: str) -> tuple[float, bool]:
        found = Counter(width for width in counts[sign] if width)
        width, often = max(found.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        return (often / max(sum(found.values()), 1) if width > 1 else 0.0, sign != r"\s+")

    delimiter = max(_DELIMITERS, key=agreement)
    if agreement(delimiter)[0] == 0.0:
        delimiter = ","
    widths = counts[delimiter]
    usual = Counter(width for width in widths if width).most_common(1)
    header = next((i for i, width in enumerate(widths) if usual and width >= usual[0][0]), None)
    if header is None or header > 40:
        raise InputError(f"{name} must have a header and at least one row; got {sum(map(bool, widths))} lines.")
    # Where few lines look alike, the first one is the header; a long line is then told with its number.
    header = header if sum(map(bool, widths)) > 4 else next(i for i, width in enumerate(widths) if width)
    try:
        found = pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            header=None,
            names=list(range(max(widths[header:]))),
            skiprows=header,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
            skipinitialspace=True,
        )
    except ValueError as error:
        place = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if place:
            told = f"{name}, line {place[2]} must have {place[1]} cells, as the lines before; got {place[3]}."
            raise InputError(f"{told} Put text with delimiters in quotes.") from None
        raise InputError(f"{name} must be a CSV file; got {error}.") from None
    found = found.fillna("").set_axis(pd.RangeIndex(header + 1, header + 1 + len(found)), axis=0)
    found = found.loc[(found != "").any(axis=1)]
    if len(found) < 2:
        raise InputError(f"{name} must have a header and at least one row; got {len(found)} lines.")
    assumed = [] if delimiter == "," else [_DELIMITERS[delimiter]]
    assumed += [] if encoding == "utf-8" else [{"cp1252": "Latin-1"}.get(encoding, encoding)]
    assumed += [f"{header} lines above the header skipped"] if header else []
    frame, units = _header(name, found)
    assumed += ["units from a second header line"] if units else []
    return FileTable(name, frame, frame, tuple(assumed), delimiter, encoding=encoding)


def _width(line: str, sign: str) -> int:
    """The number of cells of a line; zero for an empty one."""
    if not line.strip():
        return 0
    return len(line.split()) if sign == r"\s+" else len(next(csv.reader([line], delimiter=sign, skipinitialspace=True)))


def _header(name: str, found: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    """The rows under the names of their columns; a second line of units, if there is one, is in these: "wind [m/s]"."""
    first, body = found.iloc[0].str.strip().str.lstrip("#").str.strip(), found.iloc[1:]
    line = found.index[0]
    if first.str.fullmatch(_NUMBER).all():
        raise InputError(f"{name} must have the names of its columns in line {line}; got numbers. Write a header.")
    unnamed = (first == "") & (body == "").all()
    first, body = first[~unnamed], body.loc[:, ~unnamed]
    for j in first.index[first == ""][:1]:
        filled = body.index[body[j] != ""][0]
        told = f"{name}, line {filled} must have {int((first != '').sum())} cells, as the header has; got {j + 1}."
        raise InputError(f"{told} Name every column in line {line}.")
    second = body.iloc[0].str.strip() if len(body) > 1 else first[:0]
    below = body.iloc[1:21]
    numeric = below.apply(
        lambda column: column.str.strip().str.fullmatch(r"[+-]?[\d.,]*\d[\d.,]*([eE][+-]?\d+)?").mean()
    )
    is_units = len(second) > 0 and not second.str.contains(r"^[+-]?\d", regex=True).any()
    is_units = is_units and (numeric[second != ""] > _MOSTLY).any() and (second[numeric > _MOSTLY] != "").all()
    is_units = is_units and not second[numeric > _MOSTLY].str.lower().isin(EMPTY).any()
    if is_units:
        units, body = second.str.strip("[]() "), body.iloc[1:]
        first = first.where((units == "") | (numeric <= _MOSTLY), first + " [" + units + "]")
    if first.duplicated().any():
        again = first[first.duplicated()].iloc[0]
        raise InputError(f"{name} must have different names in its header; got {again!r} again. Rename one of them.")
    return body.set_axis(pd.Index(first.tolist()), axis=1), is_units


def _understood(table: FileTable) -> FileTable:
    """The table with its columns as numbers, dates or durations where all cells of a column are."""
    kinds, columns, assumed = {}, {}, list(table.assumed)
    told: list[str] = []
    for name, cells in table.values.items():
        if cells.dtype.kind in "iufb":
            kinds[name], columns[name] = "number", cells.astype(float)
            continue
        if cells.dtype.kind in "mM":
            kinds[name], columns[name] = "date" if cells.dtype.kind == "M" else "duration", cells
            continue
        text = cells.astype(str).str.strip().str.replace("\u2212", "-")
        text = text.mask(text.str.lower().isin(EMPTY))
        known = text.dropna()
        if not len(known):
            kinds[name], columns[name] = "empty", pd.Series(np.nan, index=cells.index)
            continue
        if known.str.fullmatch(r"\d{8}").all() and len(known) > 2 and as_dates(known, "%Y%m%d") is not None:
            numbers = None
        else:
            numbers, commas = as_numbers(text, table.delimiter)
            told += [commas] if commas and commas not in told else []
        if numbers is not None and numbers.notna().sum() == len(known):
            kinds[name], columns[name] = "number", numbers
            continue
        clock = None if known.iloc[0][-1:].isalpha() and known.str.len().max() > 40 else as_clock(text, known)
        if clock is not None:
            kinds[name], columns[name] = clock.kind, clock.values
            assumed.append(f"{name!r} as {clock.words}")
        elif numbers is not None and numbers.notna().sum() > _MOSTLY * len(known):
            kinds[name], columns[name] = "mixed", numbers
        else:
            kinds[name], columns[name] = "text", cells
    assumed += told
    decimal = "," if "decimal commas" in told else "."
    values = pd.DataFrame(columns, index=table.cells.index)
    values.attrs["kinds"] = kinds
    return replace(table, values=values, assumed=tuple(assumed), decimal=decimal)
