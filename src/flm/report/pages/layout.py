"""Pages: self-contained HTML with figures, tables and commands. No network, readable without scripts, light and dark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from flm._version import __version__
from flm.files import write_atomic
from flm.report.figures.style import to_data_url


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: str = field(default="text", init=False)


@dataclass(frozen=True)
class Code:
    """Commands or a listing, as written."""

    text: str
    kind: str = field(default="code", init=False)


@dataclass(frozen=True)
class Table:
    """Rows of text under headers; a click on a header sorts. The first `left` columns align left."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    note: str = ""
    kind: str = field(default="table", init=False)


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure, embedded."""

    figure: Any
    caption: str = ""
    kind: str = field(default="picture", init=False)

    @property
    def address(self) -> str:
        """The picture as a `data:` address."""
        return to_data_url(self.figure)


@dataclass(frozen=True)
class Curves:
    """Curves over one variable that show their values under the pointer."""

    x: Sequence[float]
    curves: dict[str, Sequence[float]]
    label: str = "x"
    caption: str = ""
    kind: str = field(default="curves", init=False)

    @property
    def data(self) -> str:
        """What the script draws, as JSON."""
        curves = {name: _digits(values) for name, values in self.curves.items()}
        return json.dumps({"x": _digits(self.x), "curves": curves, "label": self.label})


@dataclass(frozen=True)
class HeatMap:
    """A field over two variables that shows its value under the pointer; values (len(across), len(up)).

    With `to_scale` both axes have one unit, so that a disk is round, unless one is more than three times as long.
    """

    across: Sequence[float]
    up: Sequence[float]
    values: Any
    labels: tuple[str, str, str]
    caption: str = ""
    to_scale: bool = False
    kind: str = field(default="heatmap", init=False)

    @property
    def data(self) -> str:
        """What the script draws, as JSON."""
        values = [_digits(row) for row in self.values]
        named = {"across": _digits(self.across), "up": _digits(self.up), "values": values, "labels": self.labels}
        if self.to_scale:
            height = (self.up[-1] - self.up[0]) / (self.across[-1] - self.across[0])
            named["shape"] = min(max(height, 1 / 3), 3.0)
        return json.dumps(named)


@dataclass(frozen=True)
class Section:
    """A heading and what is under it."""

    title: str
    items: Sequence[Any]


@dataclass(frozen=True)
class Page:
    """A report: a title, a sentence, key figures as (name, value) and sections."""

    title: str
    summary: str = ""
    facts: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = ()

    def html(self) -> str:
        """The whole page."""
        from jinja2 import Environment, StrictUndefined

        folder = resources.files("flm.report.pages") / "templates"
        read = lambda name: (folder / name).read_text(encoding="utf-8")
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        template = environment.from_string(read("page.html"))
        return template.render(page=self, version=__version__, style=read("page.css"), script=read("page.js"))

    def write(self, path: Any) -> Path:
        """Write the page to a file."""
        write_atomic(path, self.html().encode())
        return Path(path)


def _digits(values: Any) -> list[float | None]:
    """Five digits, enough for a screen; None where there is no number."""
    return [float(f"{v:.5g}") if v == v and abs(v) < float("inf") else None for v in map(float, values)]
