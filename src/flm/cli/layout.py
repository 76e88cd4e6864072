"""The layout of a CSV file: encoding, delimiter, lines above the header, names, units; what the file does not say is found."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from flm.cli.clocks import DATE, MOSTLY
from flm.cli.columns import EMPTY
from flm.wording import InputError, counted, short

_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas", r"\s+": "spaces"}
_LOOK = 200  # lines that are read to find the layout
_NUMBER = r"[+-]?[\d.,]*\d[\d.,]*([eE][+-]?\d+)?"
_VALUE = r"[^A-Za-z°%µΩ\[(/]*\d"  # how a value begins, and no unit: a digit before any letter
_UNIT = r"\W*|[\[(].*[\])]|\S{0,3}[°%/µΩ²³]\S{0,4}|utc"  # and no name
_NO_UNIT = r"unit\w*|einheit\w*|te?xt|str(ing)?|chars?|categor\w*|name|code|label|id"
_NO_UNIT += "|date|time|ts|utc|local|year|month|day"
_KINDS = {"", "avg", "smp", "min", "max", "tot", "std", "med", "cov", "wvc", "tmn", "tmx"}  # as loggers write
UNNAMED = "unnamed"  # a first column without a name, as pandas writes an index


class Layout(NamedTuple):
    """The cells of a file as text, by line and name."""

    cells: pd.DataFrame
    delimiter: str
    encoding: str
    assumed: tuple[str, ...]


def read_layout(path: Path) -> Layout:
    """Header and cells: the delimiter is the one under which most lines have equally many cells; lines above are skipped."""
    name, (text, encoding) = path.name, _decoded(path)
    if other := re.match(r"\s*(?:<[!?a-zA-Z]|[\[{]\s*[\[{\"])", text):
        kind = "HTML or XML" if "<" in other[0] else "JSON"
        raise InputError(f"{name} must be a CSV file; got {kind}, {short(text[:60])}. Save the table as CSV.")
    first = re.match(r"sep=([;,|\t])[;,]*\n", text)  # Excel's way to name the delimiter
    text = "\n" * bool(first) + text[first.end() if first else 0 :]
    lines = text.split("\n", _LOOK)[:_LOOK]
    words = [re.sub("^# +", "#", line) for line in lines]  # "# x y" has two names
    splits = {sign: _split(words if sign == r"\s+" else lines, sign) for sign in _DELIMITERS}
    full = sum(bool(line.strip()) for line in lines)
    fitting = [sign for sign, s in splits.items() if s.width > 1 and not (sign == r"\s+" and _is_one(words, s.width))]
    signs = [sign for sign in fitting if sign != r"\s+"]  # these are preferred to spaces, which titles have too
    signs = signs if any(splits[sign].names is not None for sign in signs) else fitting
    delimiter = max(signs, key=lambda sign: (splits[sign].count, sign != r"\s+"), default=",")
    delimiter = first[1] if first else delimiter
    rows, usual, _, names = splits[delimiter]
    widths = list(map(len, rows))
    # Where few lines look alike, the first one is the header; a line that is too long is then reported with its number.
    least = usual if full > 4 else 1
    begin = _first(lines, rows)
    most = least if delimiter == r"\s+" and full > 4 else max(widths)  # a sentence above a table has many words
    header = next((i for i, width in enumerate(widths) if i >= begin and least <= width <= most and width), None)
    if header is not None and names is not None:
        data = next(row for row in reversed(rows) if len(row) == usual)
        header = max(header, names) if _is_above(rows[header], data) else header
    if header is None:
        raise InputError(f"{name} must have a header and at least one row; got {full} lines.")
    if delimiter == r"\s+":
        text = re.sub("(?m)^# +", "#", text)
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
    if '"' in text:  # cells with line breaks move the lines below them
        breaks = sum(found[j].str.count("\n") for j in found)
        found.index += pd.Series(breaks).cumsum().shift(fill_value=0).astype(int).to_numpy()
    written = (found != "").any(axis=1)
    if found.shape[1] == 1:  # an empty line is an empty cell, but at the end
        written = written[::-1].cummax()[::-1]
    found = found.loc[written]
    if len(found) < 2:
        raise InputError(f"{name} must have a header and at least one row; got {len(found)} lines.")
    for line in found.index[(found == "").any(axis=1)][: delimiter == r"\s+"]:
        had = int((found.loc[line] != "").sum())
        told = f"{name}, line {line} must have {found.shape[1]} cells, as other lines; got {had}."
        raise InputError(f"{told} An empty cell cannot be seen between spaces: write NA in it.")
    frame, second = _header(name, found)
    assumed = {
        _DELIMITERS[delimiter]: delimiter != ",",
        {"cp1252": "Latin-1"}.get(encoding, encoding): encoding != "utf-8-sig",
        f"{counted(header - bool(first), 'line')} above the header skipped": header > bool(first),
        f"{second} from a second header line": second != "",
        f"the first column, which has no name, as {UNNAMED!r}": UNNAMED in frame and found.iloc[0, 0] == "",
    }
    told = tuple(words for words, holds in assumed.items() if holds)
    return Layout(frame, delimiter, encoding.removesuffix("-sig"), told)


class _Split(NamedTuple):
    """The cells of lines under one delimiter."""

    rows: list[list[str]]
    width: int  # the number of cells that most lines have
    count: int  # of these lines
    names: int | None  # the line of names right above data with numbers


def _split(lines: list[str], sign: str) -> _Split:
    cells = lambda line: next(csv.reader([line], delimiter=sign, skipinitialspace=True))
    rows = [line.split() if sign == r"\s+" or not line.strip() else cells(line) for line in lines]
    count, width = max(((n, width) for width, n in Counter(map(len, filter(None, rows))).items()), default=(0, 0))
    return _Split(rows, width, count, _names(rows, width))


def _names(rows: list[list[str]], width: int) -> int | None:
    """The first of the lines of so many cells, none a value, that stand right above the data; None where there is none."""
    is_value = lambda cell: re.match(_VALUE, cell) is not None
    full = [i for i, row in enumerate(rows) if row]
    alike = [i for i in full if len(rows[i]) == width]
    lower = [rows[i] for i in alike[2 * len(alike) // 3 :]]
    columns = [j for j in range(width) if sum(is_value(row[j]) for row in lower) >= MOSTLY * len(lower)]
    is_data = lambda row: all(is_value(row[j]) or row[j].strip().lower() in EMPTY for j in columns)
    begin = next((i for i in alike if columns and is_data(rows[i])), 0)
    is_name = lambda row: len(row) == width and not any(map(is_value, row))
    block = list(itertools.takewhile(lambda i: is_name(rows[i]), reversed(full[: full.index(begin)] if begin else [])))
    block = [i for i in block if not rows[i][0].startswith("#")] or block
    found = rows[block[-1]] if block else []
    units = any(re.fullmatch(_UNIT, cell.strip(), re.IGNORECASE) for cell in found)
    return block[-1] if found and len({*found}) == width and not units else None


def _is_above(row: list[str], data: list[str]) -> bool:
    """Whether a line is no header: of another width than data, a comment as wide as they are, or with numbers above a clock.

    Where data begin with text, lines without numbers below it may be data.
    """
    filled = max((place for place, cell in enumerate(row, 1) if cell), default=0)
    if filled != len(data) or row[0].startswith("#"):
        return True
    return bool(re.match(_VALUE, data[0])) and any(re.fullmatch(_NUMBER, cell.strip()) for cell in row)


def _first(lines: list[str], rows: list[list[str]]) -> int:
    """The line at which a header may begin: below titles ("Report;;;"), and below a short table that an empty line sets off."""
    empty = [i for i, line in enumerate(lines) if not line.strip()]
    for above, end in itertools.pairwise([*empty, len(lines)]):
        is_large = end - above - 1 > len(lines) / 2 and not any(re.match(_VALUE, cell) for cell in rows[above + 1])
        before = [len(row) for row in rows[:above] if row]
        if is_large and (before == [1] or before != [len(rows[above + 1])]):  # one line of as many cells is the header
            return above + 1
    filled = [sum(map(bool, row)) for row in rows]
    usual = Counter(filled).most_common(1)[0][0]
    is_title = [n < min(3, usual, len(row)) and not any(row[n:]) for n, row in zip(filled, rows, strict=True)]
    return next((i for i, row in enumerate(rows) if row and not is_title[i]), 0)


def _is_one(lines: list[str], width: int) -> bool:
    """Whether spaces are inside of the cells of one column (2024-03-30 04:00, 5 h) or of its name, not between columns."""
    name, *rows = [line.split() for line in lines if line.strip()]
    if not rows or all(len(cells) == 1 for cells in rows):
        return bool(rows)
    digits = [cell[0].isdigit() for cell in rows[0]]
    return len(name) != width == len(rows[0]) and (all(digits) or (len(name) == 1 and any(digits)))


def _decoded(path: Path) -> tuple[str, str]:
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise InputError(f"{path.name} must be a whole gzip file; got {short(str(error))}.") from None
    encodings = ("utf-16",) if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252", "latin-1")
    start = content[:4096]
    if b"\0" in start and encodings[0] != "utf-16":
        high = [start[side::2].count(0) > 0.4 * len(start) for side in (0, 1)]  # bytes of letters that are not needed
        if not any(high):
            raise InputError(f"{path.name} must be a text file with a table; got binary content.")
        encodings = ("utf-16-be" if high[0] else "utf-16-le",)
    for encoding in encodings:
        with contextlib.suppress(UnicodeDecodeError):
            return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n"), encoding
    raise InputError(f"{path.name} must be text in UTF-8, UTF-16 or Latin-1; got neither. Save it as UTF-8.")


def _header(name: str, found: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows under the names of their columns, and what a second line has, if there is one: names below those of groups, or
    units, which join the names: "wind [m/s]"."""
    first, body = found.iloc[0].str.strip().str.lstrip("#").str.strip(), found.iloc[1:]
    line = found.index[0]
    named = first[first != ""] if first.iloc[0] else first  # an index of pandas has no name
    numbers = named.str.fullmatch(_NUMBER)
    if (numbers | named.str.fullmatch(DATE)).all():
        got = "numbers" if numbers.all() else f"dates or numbers ({short(first.iloc[0])})"
        raise InputError(f"{name} must have the names of its columns in line {line}; got {got}. Write a header.")
    second = body.iloc[0].str.strip()
    grouped = (first.iloc[1:] == "").any() and (second != "").all() and not second.str.match(_VALUE).any()
    if grouped := bool(grouped and len(body) > 1):
        groups = first.mask(first == "").ffill().fillna("")  # ",Station A,,Station B," above "date,temp,rain,temp,rain"
        first, body = (groups + " " + second).str.strip(), body.iloc[1:]
    unnamed = (first == "") & (body == "").all()
    first, body = first[~unnamed], body.loc[:, ~unnamed]
    if first.iloc[0] == "" and (body[first.index[0]] != "").all() and UNNAMED not in set(first):
        first.iloc[0] = UNNAMED
    for j in first.index[first == ""][:1]:
        filled = body.index[body[j] != ""][0]
        told = f"{name}, line {filled} must have {int((first != '').sum())} cells, as the header has; got {j + 1}."
        raise InputError(f"{told} Mend it, or name every column in line {line}.")
    units = body.iloc[0].str.strip()
    # Units stand above every column of numbers, and are no values.
    loggers = len(body) > 2 and {""} < set(body.iloc[1].str.strip().str.lower()) | {""} <= _KINDS
    below = body.iloc[1 + loggers : 21]
    numeric = pd.Series({j: below[j].str.strip().str.fullmatch(_NUMBER).mean() > MOSTLY for j in below})
    has_units = bool(numeric.any()) and not units.str.match(_VALUE).any()
    has_units = has_units and not units[numeric].str.lower().isin(EMPTY).any()
    marks = (_is_mark(units[j], body[j].iloc[1:], j == units.index[0]) for j in units.index[~numeric])
    has_units = has_units and not any(marks)
    if has_units:
        body = body.iloc[1 + loggers :]
        first = first.where(~numeric, first + " [" + units.str.strip("[]()# ") + "]")
    if first.duplicated().any():
        again = first[first.duplicated()].iloc[0]
        raise InputError(f"{name} must have different names in its header; got {again!r} again. Rename one of them.")
    return body.set_axis(pd.Index(first.tolist()), axis=1), "units" if has_units else "names" * grouped


def _is_mark(cell: str, below: pd.Series, is_first: bool) -> bool:
    """Whether a cell above texts or dates is one of them and no unit: it comes again or, in the first column, is no such word."""
    if re.fullmatch(f"{_UNIT}|{_NO_UNIT}", cell, re.IGNORECASE):
        return False
    below = below.str.strip()
    known = below.loc[~below.str.lower().isin(EMPTY)]
    return bool((known == cell).any() or (is_first and known.str.match(_VALUE).mean() <= MOSTLY))
