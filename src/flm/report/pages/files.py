"""A page as files for other tools: HTML, Markdown, one CSV for each table, one PNG for each picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from flm.files import write_atomic
from flm.report.pages.layout import Code, Page, Picture, Table, Text


def write_page(page: Page, folder: Path, name: str, *, pictures: bool = False) -> list[Path]:
    """Write NAME.html, NAME.md, a CSV per table and, where asked, a PNG per picture into `folder`; returns their paths."""
    written = [page.write(folder / f"{name}.html"), folder / f"{name}.md"]
    write_atomic(written[1], to_markdown(page, pictures=pictures).encode())
    for stem, item in named_items(page):
        if isinstance(item, Table):
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([item.headers, *item.rows])
            written.append(folder / f"{stem}.csv")
            write_atomic(written[-1], text.getvalue().encode())
        elif pictures:
            written.append(folder / f"{stem}.png")
            write_atomic(written[-1], item.png)
    return written


def to_markdown(page: Page, *, pictures: bool = False) -> str:
    """The page's words and tables as Markdown; pictures as links to the files beside it, or left to the HTML."""
    stems = {id(item): stem for stem, item in named_items(page)}
    lines = [f"# {page.title}", "", page.summary, ""]
    lines += [f"- {name}: {value}" for name, value in page.facts]
    for section in page.sections:
        lines += ["", f"## {section.title}"]
        for item in section.items:
            if isinstance(item, Table):
                lines += ["", "| " + " | ".join(item.headers) + " |", "|" + "---|" * len(item.headers)]
                lines += ["| " + " | ".join(row) + " |" for row in item.rows]
                lines += ["", item.note] if item.note else []
            elif isinstance(item, Text):
                lines += ["", item.text]
            elif isinstance(item, Code):
                lines += ["", "```", item.text, "```"]
            elif isinstance(item, Picture) and pictures:
                lines += ["", f"![{item.caption}]({stems[id(item)]}.png)"]
    return "\n".join(lines) + "\n"


def named_items(page: Page) -> Iterator[tuple[str, Table | Picture]]:
    """(file name without its ending, table or picture): the section's title, numbered where it has several of a kind."""
    for section in page.sections:
        stem = "_".join("".join(c if c.isalnum() else " " for c in section.title.lower()).split())
        for kind in (Table, Picture):
            items = [item for item in section.items if isinstance(item, kind)]
            for number, item in enumerate(items, 1):
                yield (f"{stem}_{number}" if len(items) > 1 else stem), item
