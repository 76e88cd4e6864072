"""What commands print: plain text in pipes, a little color and a progress bar in a terminal, JSON for machines."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flm.wording import InputError

if TYPE_CHECKING:
    from flm.results import Listener, Progress

LATE = 2.0  # seconds before a bar appears
WIDEST = 30  # letters; behind longer names, the text is not aligned
EVENTS = "FLM_EVENTS"  # in the environment: events are lines of JSON on stdout, for the studio

# Set by `run` for one command line.
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
JSON: ContextVar[bool] = ContextVar("json", default=False)
OPEN: ContextVar[bool] = ContextVar("open", default=False)
COMMAND: ContextVar[str] = ContextVar("command", default="")
WRITTEN: ContextVar[Path | None] = ContextVar("written", default=None)  # the folder that the command wrote to


def say(text: str) -> None:
    """Print text for people on stdout, in a terminal with a bold first line; nothing under `--quiet` and `--json`."""
    if QUIET.get() or JSON.get():
        return
    head, newline, rest = text.partition("\n")
    typer.echo(typer.style(head, bold=True) + newline + rest)  # plain outside of a terminal


def remark(text: str) -> None:
    """Print a line for people on stderr, so that tables on stdout stay tables; nothing under `--quiet`."""
    if not QUIET.get():
        print(f"flm: {text}", file=sys.stderr)


def conclude(record: Mapping[str, object], text: str, *, good: bool = True) -> None:
    """Print what a command found, as JSON or as text; the exit code is 1 where it is not what was asked for."""
    from flm.files import to_json

    if JSON.get():  # also under `--quiet`
        print(to_json(record))
    say(text)
    if not good:
        raise typer.Exit(1)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Columns of text; the first `left` align left, the others right."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    cells = [headers, ["─" * width for width in widths], *rows]
    sides = [str.ljust if j < left else str.rjust for j in range(len(widths))]
    line = lambda row: "  ".join(put(c, w) for put, c, w in zip(sides, row, widths, strict=True))
    return "\n".join(line(row).rstrip() for row in cells)


def listing(facts: Mapping[str, str]) -> list[str]:
    """Lines of names, each with its fact."""
    wide = min(max(map(len, facts)), WIDEST)
    return [f"  {name:<{wide}}  {text}" for name, text in facts.items()]


def folder(out: Path) -> Path:
    """The folder for files, which is created if it does not exist."""
    if out.exists() and not out.is_dir():
        raise InputError(f"`--out` must be a folder; got {str(out)!r}, which is a file.")
    out.mkdir(parents=True, exist_ok=True)
    WRITTEN.set(out)
    return out


def open_page() -> None:
    """Show in a browser the page that the command wrote."""
    out = WRITTEN.get()
    pages = sorted(out.glob("*.html"), key=lambda p: p.stat().st_mtime) if out is not None else []
    if not pages:
        raise InputError("`--open` must come with a page; got none. Add --out DIR.")
    webbrowser.open(pages[-1].resolve().as_uri())


@contextlib.contextmanager
def watching(what: str, *, tol: float = math.nan, every: float = math.inf) -> Iterator[Listener]:
    """Show the events of a piece of work on stderr.

    In a terminal this is a bar with the time left, which appears after two seconds. It shows the share of the work or, where that
    is not known, the digits gained towards a tolerance. Elsewhere a line is printed every `every` seconds.
    """
    last = time.monotonic() if every else -math.inf

    def tell(event: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= every:
            last = time.monotonic()
            print(f"{what}: {event.words}", file=sys.stderr, flush=True)

    if QUIET.get():
        yield lambda event: None
    elif EVENTS in os.environ:
        yield _to_json
    elif sys.stderr.isatty():
        with _bar(what, tol) as report:
            yield report
    else:
        yield tell


def _to_json(event: Progress) -> None:
    numbers = {"estimate": event.error_estimate, "residual": event.estimate, "share": event.share}
    known = {name: float(value) for name, value in numbers.items() if math.isfinite(value)}
    print(json.dumps({"words": event.words, "columns": event.columns, "seconds": event.seconds} | known), flush=True)


@contextlib.contextmanager
def _bar(what: str, tol: float) -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    words, state = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[state]}"))
    columns = (words, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), state)
    # The time left follows from the speed of the last ten minutes: steps may be minutes apart.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=600)
    task = bar.add_task(what, total=1.0, state="")
    late = threading.Timer(LATE, bar.start)
    late.daemon = True
    late.start()
    first = math.nan

    def report(event: Progress) -> None:
        nonlocal first
        error, share = event.estimate if math.isnan(event.error_estimate) else event.error_estimate, event.share
        if math.isnan(share) and 0 < error < math.inf:
            first = error if math.isnan(first) else first
            share = math.log(first / error) / math.log(first / tol) if 0 < tol < first else 0.0
        if not math.isnan(share):
            bar.update(task, completed=min(max(share, bar.tasks[0].completed), 1.0), state=event.words)

    try:
        yield report
    finally:
        late.cancel()
        late.join()
        if bar.live.is_started:
            bar.stop()
