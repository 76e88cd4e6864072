"""What commands print: plain text in pipes, a little color and a progress bar in a terminal, JSON for machines."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flm.wording import InputError

if TYPE_CHECKING:
    from flm.results import Listener, Progress

LATE = 2.0  # seconds before a bar appears
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Set by `run` for one command line.
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
COMMAND: ContextVar[str] = ContextVar("command", default="")
OPEN: ContextVar[bool] = ContextVar("open", default=False)
LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)  # hears events instead of a terminal
WRITTEN: ContextVar[Path | None] = ContextVar("written", default=None)  # the folder that the command wrote to


def say(text: str = "", *, style: str | None = None) -> None:
    """A line for people on stdout; nothing under `--quiet`."""
    if QUIET.get():
        return
    if style is None or not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console

    Console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def remark(text: str) -> None:
    """A line for people on stderr, so that tables on stdout stay tables; nothing under `--quiet`."""
    if not QUIET.get():
        print(f"flm: {text}", file=sys.stderr)


def say_json(record: Mapping[str, object]) -> None:
    """A JSON object on stdout, also under `--quiet`."""
    from flm.files import to_json

    print(to_json(record))


def conclude(record: Mapping[str, object], text: str, json: bool, *, good: bool = True) -> None:
    """What a command found, as JSON or as text for people; the exit code is 1 where it is not what was asked."""
    if json:
        say_json(record)
    else:
        say(text)
    if not good:
        raise typer.Exit(1)


def say_written(out: Path | None) -> None:
    """Which folder or file was written, where one was."""
    if out is not None:
        say(f"\nWritten to {out}")


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Columns of text; the first `left` align left, the others right."""
    cells = [list(map(str, headers)), *(list(map(str, row)) for row in rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(headers))]
    line = lambda row: "  ".join(
        c.ljust(w) if j < left else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))
    )
    rule = "  ".join("─" * w for w in widths)
    return "\n".join([line(cells[0]).rstrip(), rule, *(line(row).rstrip() for row in cells[1:])])


def folder(out: Path) -> Path:
    """The folder for files, made where it is missing."""
    if out.exists() and not out.is_dir():
        raise InputError(f"`--out` must be a folder; got {str(out)!r}, which is a file.")
    out.mkdir(parents=True, exist_ok=True)
    WRITTEN.set(out)
    return out


def page_folder(out: Path | None, name: str) -> Path | None:
    """The folder for files; with `--open` there is one, of the problem's name."""
    return Path(f"flm-{name}") if out is None and OPEN.get() else out


def open_page() -> None:
    """Show the page that the command wrote in a browser."""
    import webbrowser

    out = WRITTEN.get()
    pages = sorted(out.glob("*.html"), key=lambda p: p.stat().st_mtime) if out is not None else []
    if not pages:
        raise InputError("`--open` must come with a page; got none. Add --out DIR.")
    webbrowser.open(pages[-1].resolve().as_uri())


@contextlib.contextmanager
def watching(what: str, *, tol: float = math.nan, every: float = math.inf) -> Iterator[Listener]:
    """Show the events of a piece of work on stderr.

    In a terminal this is a bar with the time left, which appears after two seconds: of the share of the work or, where that
    is not known, of the digits gained towards a tolerance. Elsewhere it is a line every so many seconds.
    """
    from flm.results import silent

    if QUIET.get():
        yield silent
    elif (heard := LISTENER.get()) is not None:
        yield heard
    elif sys.stderr.isatty():
        with _bar(what, tol) as report:
            yield report
    else:
        last = time.monotonic() if every else -math.inf

        def tell(event: Progress) -> None:
            nonlocal last
            if time.monotonic() - last >= every:
                last = time.monotonic()
                print(f"{what}: {event.words}", file=sys.stderr, flush=True)

        yield tell


@contextlib.contextmanager
def _bar(what: str, tol: float) -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    words = lambda text: TextColumn(text, markup=False)
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    columns = (words("{task.description}"), BarColumn(), *times, words("{task.fields[state]}"))
    # The time left by the speed of the last ten minutes: steps may be minutes apart.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=600)
    task = bar.add_task(what, total=1.0, state="")
    late = threading.Timer(LATE, bar.start)
    late.daemon = True
    late.start()
    first = math.nan

    def report(event: Progress) -> None:
        nonlocal first
        error = _error(event)
        first = error if math.isnan(first) else first
        share = event.share
        if math.isnan(share) and not math.isnan(error):
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


def _error(event: Progress) -> float:
    """The error estimate of the best answer so far, else what the work lowers; NaN where that is not a positive number."""
    found = event.estimate if math.isnan(event.error_estimate) else event.error_estimate
    return found if 0 < found < math.inf else math.nan
