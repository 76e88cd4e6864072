"""Pages: self-contained HTML with figures, tables and commands. No network, readable without scripts, light and dark.

The same page can be written for other tools: Markdown, one CSV for each table, one PNG for each picture.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure

from flm._version import __version__
from flm.files import write_atomic, write_csv
from flm.report.figures.style import to_png
from flm.report.live import Live, template
from flm.wording import measured

if TYPE_CHECKING:
    from flm.report.pages.readings import Readings

MOST_STEPS = 60  # rows of a table of the steps of a search


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Code:
    """Commands or a listing, as written."""

    text: str
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Table:
    """Rows of text under headers; a click on a header sorts. The first `left` columns align left."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    note: str = ""
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure, embedded."""

    figure: Figure
    caption: str = ""
    kind: ClassVar[str] = "picture"

    @cached_property
    def png(self) -> bytes:
        """The picture as a PNG file, drawn once."""
        return to_png(self.figure)

    @property
    def address(self) -> str:
        """The picture as a `data:` address, for an `<img>` that needs no second file."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


Item = Text | Code | Table | Picture | Live


@dataclass(frozen=True)
class Section:
    """A heading and what is under it."""

    title: str
    items: Sequence[Item]


@dataclass(frozen=True)
class Page:
    """A report: a title, a sentence, key figures as (name, value) and sections, in the tone of a success or of a failure."""

    title: str
    summary: str = ""
    facts: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = ()
    tone: str = ""  # "good", "doubtful" or "failed"

    def html(self) -> str:
        """The whole page."""
        script = template("page.js") + (template("live.js") if self._is_live else "")
        return _rendered("page.html", page=self, version=__version__, style=template("page.css"), script=script)

    @property
    def _is_live(self) -> bool:
        return any(isinstance(item, Live) for section in self.sections for item in section.items)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file."""
        write_atomic(path, self.html().encode())
        return Path(path)


def write_page(page: Page, folder: Path, name: str, *, pictures: bool = False) -> list[Path]:
    """Write NAME.html, NAME.md, a CSV per table and, where asked, a PNG per picture into `folder`; returns their paths."""
    written = [page.write(folder / f"{name}.html"), folder / f"{name}.md"]
    write_atomic(written[1], to_markdown(page, pictures=pictures).encode())
    for stem, item in named_items(page):
        if isinstance(item, Table):
            written.append(folder / f"{stem}.csv")
            write_csv(written[-1], [item.headers, *item.rows])
        elif pictures:
            written.append(folder / f"{stem}.png")
            write_atomic(written[-1], item.png)
    return written


def to_markdown(page: Page, *, pictures: bool = False) -> str:
    """The page's words and tables as Markdown; pictures as links to the files beside it, or left to the HTML."""
    stems = {id(item): stem for stem, item in named_items(page)}
    return _rendered("page.md", page=page, pictures=pictures, stem=lambda item: stems[id(item)])


def _rendered(name: str, **values: object) -> str:
    escaped = name.endswith(".html")
    environment = Environment(autoescape=escaped, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template(name)).render(values)


def named_items(page: Page) -> Iterator[tuple[str, Table | Picture]]:
    """(file name without its ending, table or picture): the section's title, numbered where it has several of a kind."""
    for section in page.sections:
        stem = "_".join("".join(c if c.isalnum() else " " for c in section.title.lower()).split())
        for kind in (Table, Picture):
            items = [item for item in section.items if isinstance(item, kind)]
            for number, item in enumerate(items, 1):
                yield (f"{stem}_{number}" if len(items) > 1 else stem), item


def tables_of(page: Page) -> dict[str, Table]:
    """The tables of a page by the names of their files."""
    return {stem: item for stem, item in named_items(page) if isinstance(item, Table)}


@dataclass(frozen=True)
class Request:
    """What was asked: its name, its text, the command that gives the same again, a title of its own, its readings, and units
    of its axes.
    """

    name: str
    text: str = ""
    command: str = ""
    title: str = ""
    readings: Readings | None = None
    units: Mapping[str, str] = field(default_factory=dict)

    def page(self, summary: str, facts: Sequence[tuple[str, str]], sections: Sequence[Section], tone: str = "") -> Page:
        """The page of the answer."""
        first = [Section("What was asked", [Code(self.text)])] if self.text else []
        last = [Section("How to reproduce it", [Code(self.command)])] if self.command else []
        title = self.title or self.name.replace("_", " ")
        return Page(title, summary[:1].upper() + summary[1:], facts, [*first, *sections, *last], tone)


def steps_table(history: Mapping[str, Any]) -> list[Table]:
    """A history of a search as a table, unless it is empty or too long to read."""
    columns = {name: values for name, values in history.items() if all(np.ndim(v) == 0 for v in values)}
    if not columns or not 0 < len(next(iter(columns.values()))) <= MOST_STEPS:
        return []
    cell = lambda value: measured(value) if isinstance(value, float) else "–" if value is None else str(value)
    rows = [[cell(value) for value in row] for row in zip(*columns.values(), strict=True)]
    return [Table([name.replace("_", " ") for name in columns], rows, left=0, note="The steps of the search.")]
