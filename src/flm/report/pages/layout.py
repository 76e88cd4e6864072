"""Pages: self-contained HTML with figures, tables and commands. No network, readable without scripts, light and dark.

The same page can be written for other tools: Markdown, one CSV for each table, one PNG for each picture.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from flm._version import __version__
from flm.files import write_atomic, write_csv
from flm.report.live import Live, template

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        from flm.report.figures.style import to_png  # imported here: a page may have no picture

        return to_png(self.figure)

    @property
    def address(self) -> str:
        """The picture as a `data:` address, for an `<img>` that needs no second file."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


Item = str | Code | Table | Picture | Live  # a text is a paragraph
Sections = dict[str, list[Item]]  # what is under each heading


@dataclass(frozen=True)
class Page:
    """A report: a title, a sentence, key figures by name and sections, in the tone of a success or of a failure."""

    title: str
    summary: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    sections: Sections = field(default_factory=dict)
    tone: str = ""  # "good", "doubtful" or "failed"

    @property
    def files(self) -> dict[str, Table | Picture]:
        """Tables and pictures by the names of their files: the section's title, numbered where several of a kind share it."""
        alike: dict[tuple[str, str], list[Table | Picture]] = {}
        for title, items in self.sections.items():
            stem = "_".join("".join(c if c.isalnum() else " " for c in title.lower()).split())
            for item in items:
                if isinstance(item, Table | Picture):
                    alike.setdefault((stem, ".csv" if isinstance(item, Table) else ".png"), []).append(item)
        return {
            stem + f"_{number}" * (len(several) > 1) + ending: item
            for (stem, ending), several in alike.items()
            for number, item in enumerate(several, 1)
        }

    @property
    def tables(self) -> dict[str, Table]:
        """The tables by the names of their files without the ending."""
        return {file.removesuffix(".csv"): item for file, item in self.files.items() if isinstance(item, Table)}

    def html(self) -> str:
        """The whole page."""
        is_live = any(isinstance(item, Live) for items in self.sections.values() for item in items)
        script = template("page.js") + (template("live.js") if is_live else "")
        return _rendered("page.html", page=self, version=__version__, style=template("page.css"), script=script)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file."""
        write_atomic(path, self.html().encode())
        return Path(path)


@dataclass(frozen=True)
class Request:
    """What was asked: its name, its text, the command that repeats it, a title of its own, units of its axes, and
    the problem, whose readings are shown.
    """

    name: str
    text: str = ""
    command: str = ""
    title: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    problem: Any = None  # of any kind: what a command does not take is refused by what it calls

    def page(self, summary: str, facts: Mapping[str, str], sections: Sections, tone: str = "") -> Page:
        """The page of the answer."""
        first: Sections = {"What was asked": [Code(self.text)]} if self.text else {}
        last: Sections = {"How to reproduce it": [Code(self.command)]} if self.command else {}
        title = self.title or self.name.replace("_", " ")
        return Page(title, summary[:1].upper() + summary[1:], facts, first | sections | last, tone)


def write_page(page: Page, folder: Path, name: str) -> list[Path]:
    """Write NAME.html, NAME.md, a CSV per table and a PNG per picture into `folder`; returns their paths.

    Markdown has the page's words and tables, and links to the pictures.
    """
    files = page.files
    names = {id(item): file for file, item in files.items()}
    paths = [folder / file for file in (f"{name}.html", f"{name}.md", *files)]
    page.write(paths[0])
    write_atomic(paths[1], _rendered("page.md", page=page, file=lambda item: names[id(item)]).encode())
    for path, item in zip(paths[2:], files.values(), strict=True):
        if isinstance(item, Table):
            write_csv(path, [item.headers, *item.rows])
        else:
            write_atomic(path, item.png)
    return paths


def _rendered(name: str, **values: object) -> str:
    from jinja2 import Environment, StrictUndefined  # imported here: most commands write no page

    escaped = name.endswith(".html")
    environment = Environment(autoescape=escaped, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template(name)).render(values)
