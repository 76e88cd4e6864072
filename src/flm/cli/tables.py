"""Tables from files: pandas reads them; what a file does not say (delimiter, decimal sign, encoding, dates) is found and told."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from flm.files import write_atomic
from flm.wording import ExtraMissingError, FileMissingError, InputError, did_you_mean, short

EMPTY = {"", "nan", "na", "n/a", "#n/a", "null", "none", "?", "-", "--", "missing"}
MOSTLY = 0.5  # share of cells: a column with more numbers than this was meant to be numbers
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?")  # 1.234,5
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")  # 1,234.5
_LONGEST = 40  # letters of a date

_DAYS = ("%d.%m.%Y", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%d-%b-%Y", "%d %b %Y", "%b %d, %Y")
_DAYS += ("%d %B %Y", "%B %d, %Y", "%d.%m.%y", "%m/%Y")
_PARTS = {"%d": "day", "%m": "month", "%b": "month", "%B": "month", "%Y": "year", "%y": "year"}
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_FORMATS = ("ISO8601", "%Y%m%d", *map("".join, itertools.product(_DAYS, _TIMES)))
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas", r"\s+": "spaces"}
_LOOK = 200  # lines that are read to find the layout
_NUMBER = r"[+-]?[\d.,]*\d[\d.,]*([eE][+-]?\d+)?"
_NO_NUMBER = re.compile(r"\d+[-:/]")  # 2024-01-31, 1:30


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
        """The columns of these kinds, which `Column` lists."""
        return [str(name) for name, kind in self.values.attrs["kinds"].items() if kind in kinds]

    def match(self, chosen: str | Iterable[str], role: str) -> list[str]:
        """Columns by name or by the beginning of a name, "a,b,c" or one by one; errors list the columns and suggest the nearest."""
        known, found = [str(column) for column in self.cells], []
        asked = chosen.split(",") if isinstance(chosen, str) and chosen not in known else chosen
        for name in [asked] if isinstance(asked, str) else map(str.strip, asked):
            fitting = [name] if name in known else [c for c in known if name and c.lower().startswith(name.lower())]
            listed = f"{self.name} ({', '.join(known)})"
            if not fitting:
                raise InputError(f"`{role}` must be a column of {listed}; got {name!r}.{did_you_mean(name, known)}")
            if len(fitting) > 1:
                several = f"{name!r}, with which {len(fitting)} begin"
                raise InputError(f"`{role}` must name one column of {listed}; got {several}.")
            found += fitting
        return found

    def checked(self, names: Sequence[str], *, holes: bool = False, text: bool = False) -> pd.DataFrame:
        """These columns, refused where a cell is not a number, date or duration; empty cells pass with `holes`."""
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

    def number(self, value: float, digits: int = 10) -> str:
        """A number as this file writes numbers."""
        return f"{value:.{digits}g}".replace(".", self.decimal)

    def write(self, path: Path, cells: pd.DataFrame) -> None:
        """Write cells into a file of the same layout; a name that ends in .parquet makes a Parquet file."""
        if path.suffix == ".parquet":
            stream = io.BytesIO()
            _parquet(lambda: cells.to_parquet(stream, index=False))
            return write_atomic(path, stream.getvalue())
        separator = " " if self.delimiter == r"\s+" else self.delimiter
        text = cells.to_csv(index=False, lineterminator="\n", sep=separator)
        return write_atomic(path, text.encode(self.encoding, errors="xmlcharrefreplace"))


def read_file(path: str | Path) -> FileTable:
    """The table in a CSV file of any dialect, or in a Parquet file, with its columns as `read_column` reads them."""
    path = Path(path)
    if not path.is_file():
        raise FileMissingError(f"the file {str(path)!r} does not exist.")
    if path.suffix in (".xlsx", ".xls", ".ods"):
        raise InputError(f"{path.name} must be a CSV or Parquet file; got a spreadsheet. Save it as CSV first.")
    if path.suffix in (".parquet", ".pq"):
        frame = _parquet(lambda: pd.read_parquet(path)).rename(columns=str)
        frame.index = pd.RangeIndex(2, len(frame) + 2)
        found = FileTable(path.name, frame.astype(str).mask(frame.isna(), ""), frame)
    else:
        found = _layout(path)
    columns = {name: read_column(cells, found.delimiter) for name, cells in found.values.items()}
    values = pd.DataFrame({name: column.values for name, column in columns.items()}, index=found.cells.index)
    values.attrs["kinds"] = {name: column.kind for name, column in columns.items()}
    clocks = [f"{name!r} as {c.words}" for name, c in columns.items() if c.words and c.kind in ("date", "duration")]
    signs = dict.fromkeys(c.words for c in columns.values() if c.words and c.kind in ("number", "mixed"))
    decimal = "," if "decimal commas" in signs else "."
    return replace(found, values=values, assumed=(*found.assumed, *clocks, *signs), decimal=decimal)


def _parquet(work):  # pandas needs pyarrow (or fastparquet) for it
    try:
        return work()
    except ImportError:
        raise ExtraMissingError("Parquet files need pyarrow: pip install pyarrow, or give the table as CSV.") from None
    except (ValueError, OSError) as error:
        raise InputError(f"a Parquet file must be whole; got {short(str(error))}.") from None


def _layout(path: Path) -> FileTable:
    """Header and cells: the delimiter is the one under which most lines have equally many cells; lines above are skipped."""
    name, (text, encoding) = path.name, _decoded(path)
    lines = text.split("\n", _LOOK)[:_LOOK]
    cells = lambda line, sign: next(csv.reader([line], delimiter=sign, skipinitialspace=True))
    width = lambda line, sign: len(line.split() if sign == r"\s+" or not line.strip() else cells(line, sign))
    counts = {sign: [width(line, sign) for line in lines] for sign in _DELIMITERS}
    most = lambda widths: max(Counter(filter(None, widths)).items(), key=lambda c: c[::-1], default=(0, 0))
    usual = {sign: most(widths) for sign, widths in counts.items()}  # (cells, number of lines with so many)
    full = sum(bool(line.strip()) for line in lines)
    fitting = [sign for sign, (width, _) in usual.items() if width > 1]
    delimiter = max(fitting, key=lambda sign: (usual[sign][1], sign != r"\s+"), default=",")
    widths = counts[delimiter]
    # Where few lines look alike, the first one is the header; a line that is too long is then reported with its number.
    least = usual[delimiter][0] if full > 4 else 1
    header = next((i for i, width in enumerate(widths) if width >= least and width), None)
    if header is None:
        raise InputError(f"{name} must have a header and at least one row; got {full} lines.")
    plain = {"dtype": str, "keep_default_na": False, "skip_blank_lines": False, "skipinitialspace": True}
    columns = list(range(max(widths[header:])))
    try:
        found = pd.read_csv(io.StringIO(text), sep=delimiter, header=None, names=columns, skiprows=header, **plain)
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
    frame, has_units = _header(name, found)
    assumed = {
        _DELIMITERS[delimiter]: delimiter != ",",
        {"cp1252": "Latin-1"}.get(encoding, encoding): encoding != "utf-8-sig",
        f"{header} lines above the header skipped": header > 0,
        "units from a second header line": has_units,
    }
    told = tuple(words for words, holds in assumed.items() if holds)
    return FileTable(name, frame, frame, told, delimiter, encoding=encoding.removesuffix("-sig"))


def _decoded(path: Path) -> tuple[str, str]:
    content = path.read_bytes()
    is_utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\0" in content[:4096] and not is_utf16:
        raise InputError(f"{path.name} must be a text file with a table; got binary content.")
    for encoding in ("utf-16",) if is_utf16 else ("utf-8-sig", "cp1252", "latin-1"):
        with contextlib.suppress(UnicodeDecodeError):
            return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n"), encoding
    raise InputError(f"{path.name} must be text in UTF-8, UTF-16 or Latin-1; got neither. Save it as UTF-8.")


def _header(name: str, found: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    """The rows under the names of their columns; a second line with units, if there is one, joins the names: "wind [m/s]"."""
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
    units = body.iloc[0].str.strip()
    # Units stand above every column of numbers, and do not begin with a digit.
    below = body.iloc[1:21]
    numeric = pd.Series({j: below[j].str.strip().str.fullmatch(_NUMBER).mean() > MOSTLY for j in below})
    has_units = bool(numeric.any()) and not units.str.contains(r"^[+-]?\d", regex=True).any()
    has_units = has_units and not units[numeric].str.lower().isin(EMPTY).any()
    if has_units:
        body = body.iloc[1:]
        first = first.where(~numeric, first + " [" + units.str.strip("[]() ") + "]")
    if first.duplicated().any():
        again = first[first.duplicated()].iloc[0]
        raise InputError(f"{name} must have different names in its header; got {again!r} again. Rename one of them.")
    return body.set_axis(pd.Index(first.tolist()), axis=1), has_units


class Column(NamedTuple):
    """Cells with their kind: "number", "date", "duration", "mixed" where most are numbers, "text" or "empty"."""

    kind: str
    values: pd.Series
    words: str = ""  # how the cells were read


def read_column(cells: pd.Series, delimiter: str) -> Column:
    """The cells of a column as numbers, dates or durations where all cells are such."""
    if cells.dtype.kind in "iufb":  # from a Parquet file
        return Column("number", cells.astype(float))
    if cells.dtype.kind in "mM":
        return Column("date" if cells.dtype.kind == "M" else "duration", cells)
    text = cells.astype(str).str.strip().str.replace("\u2212", "-")
    text = text.mask(text.str.lower().isin(EMPTY))
    known = text.dropna()
    if not len(known):
        return Column("empty", pd.Series(np.nan, index=cells.index))
    wordy = known.iloc[0][-1:].isalpha() and known.str.len().max() > _LONGEST
    is_first = not wordy and bool(_NO_NUMBER.match(known.iloc[0]))  # then not all can be numbers
    if is_first and (clock := _clock(text, known)) is not None:
        return clock
    compact = len(known) > 2 and known.str.fullmatch(r"\d{8}").all() and _dates(known, "%Y%m%d") is not None
    numbers = Column("number", text) if compact else _numbers(text, delimiter)
    share = 0.0 if compact else numbers.values.notna().sum() / len(known)
    if share == 1.0:
        return numbers
    if not (wordy or is_first) and (clock := _clock(text, known)) is not None:
        return clock
    return numbers._replace(kind="mixed") if share > MOSTLY else Column("text", cells)


def _numbers(text: pd.Series, delimiter: str) -> Column:
    """Cells as numbers, NaN where a cell is none, and how commas were read: "decimal commas" or "commas of thousands".

    1,234 is more than a thousand in a file with commas between cells, or beside 1,234.5 or 1,234,567; else it is about 1.2.
    """
    floats = lambda text: pd.Series(pd.to_numeric(text, errors="coerce"), index=text.index, dtype=float)
    plain = floats(text)
    left = text.loc[plain.isna() & text.notna()]
    if not len(left):
        return Column("number", plain)
    # 1 234,5 and 1'234,5: groups of three apart
    tight = left.str.replace(r"(?<=\d)[\u00a0\u202f' ](?=\d{3}(?!\d))", "", regex=True)
    commas, grouped = tight.map(_COMMA.fullmatch).notna(), tight.map(_GROUPED.fullmatch).notna()
    beside = tight.str.contains(r",\d{3}[.,]", regex=True).any() or text.str.contains(".", regex=False).any()
    if (commas & ~grouped).any() or (grouped.any() and delimiter != "," and not beside):
        # 1.234 beside 5,6 is one thousand two hundred and thirty-four
        dotted = text.str.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+").fillna(False).astype(bool)
        whole = tight.where(commas).str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        plain = plain.mask(dotted, floats(text.where(dotted).str.replace(".", "", regex=False)))
        return Column("number", plain.fillna(floats(whole)), "decimal commas")
    whole = floats(tight.str.replace(",", "", regex=False).where(grouped | ~commas))
    return Column("number", plain.fillna(whole), "commas of thousands" if grouped.any() else "")


def _clock(text: pd.Series, known: pd.Series) -> Column | None:
    """Cells as dates or durations, or None."""
    few = known.iloc[:: max(len(known) // 100, 1)]
    read = {f: _dates(text, f) for f in _FORMATS if _dates(few, f) is not None}
    if steps := {f: dates.dropna().diff().dropna() for f, dates in read.items() if dates is not None}:
        # Where day and month could be either, the clock that runs most evenly is taken: few backward steps, few step lengths.
        chosen = min(steps, key=lambda f: ((steps[f] < pd.Timedelta(0)).sum(), steps[f].nunique()))
        day = next((day for day in _DAYS if chosen.startswith(day)), "%Y-%m-%d")
        told = re.sub("%.", lambda part: _PARTS[part[0]], day)
        return Column("date", pd.Series(read[chosen]), f"dates {told}")
    if known.str.contains(r"^[+-]?\d").all() and known.str.contains("[a-zA-Z:]").all():  # 1:30, 2 days 1:30:00, 5 h
        spans = pd.to_timedelta(text.where(text.str.count(":") != 1, text + ":00"), errors="coerce")
        if spans.notna().sum() == len(known):
            return Column("duration", pd.Series(spans, index=text.index), "durations")
    return None


def _dates(text: pd.Series, format: str) -> pd.Series | None:
    """Cells as dates of this format without a time zone, or None where a cell is not such a date."""
    found = pd.Series(pd.to_datetime(text, format=format, errors="coerce", utc=True))
    if (found.isna() & text.notna()).any() or not found.dt.year.between(1000, 2999).where(found.notna(), True).all():
        return None
    return found.dt.tz_localize(None)
