"""What commands print: plain text in pipes, a little color and a progress bar in a terminal, JSON for machines."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flm.results import Listener, Progress

from flm.wording import InputError

LATE = 2.0  # seconds before a bar appears

# Set by `run` for one command line.
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
COMMAND: ContextVar[str] = ContextVar("command", default="")


def say(text: str = "", *, style: str | None = None) -> None:
    """A line for people on stdout; nothing under `--quiet`."""
    if QUIET.get():
        return
    if style is None or not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console

    Console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def say_json(record: dict[str, Any]) -> None:
    """A JSON object on stdout, also under `--quiet`."""
    print(to_json(record))


def to_json(record: Any) -> str:
    """JSON with NumPy numbers as numbers, and what is not finite as null."""
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Columns of text; the first `left` align left, the others right."""
    cells = [list(map(str, headers)), *(list(map(str, row)) for row in rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(headers))]
    line = lambda row: "  ".join(
        c.ljust(w) if j < left else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))
    )
    rule = "  ".join("─" * w for w in widths)
    return "\n".join([line(cells[0]).rstrip(), rule, *(line(row).rstrip() for row in cells[1:])])


def number(value: float) -> str:
    """A measured number in three digits; a dash for what is not known."""
    return (
        "–"
        if value is None or not math.isfinite(value)
        else f"{value:.3g}"
        if 1e-3 <= abs(value) < 1e5 or value == 0
        else f"{value:.2e}"
    )


def folder(out: Any) -> Path:
    """The folder for files, made where it is missing."""
    path = Path(out)
    if path.exists() and not path.is_dir():
        raise InputError(f"`--out` must be a folder; got {str(path)!r}, which is a file.")
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def progress_through(total: int) -> Iterator[Callable[[str], None]]:
    """A bar of steps with the time left, on stderr in a terminal, lines on stdout otherwise; called before each step."""
    if QUIET.get() or not sys.stderr.isatty():
        yield say
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=600) as bar:
        task, begun = bar.add_task("", total=total), [0]

        def report(text: str) -> None:
            bar.update(task, completed=begun[0], description=text)
            begun[0] += 1

        yield report


@contextlib.contextmanager
def progress_of(what: str) -> Iterator[Callable[[float, str], None]]:
    """A bar of the share of the work done, with the time left, on stderr in a terminal; appears after two seconds."""
    if QUIET.get() or not sys.stderr.isatty():
        yield lambda share, text: None
        return
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

    def report(share: float, text: str) -> None:
        bar.update(task, completed=max(share, bar.tasks[0].completed), state=text)

    try:
        yield report
    finally:
        late.cancel()
        late.join()
        if bar.live.is_started:
            bar.stop()


@contextlib.contextmanager
def progress_to(tol: float, what: str) -> Iterator[Listener]:
    """A bar of the digits gained towards a tolerance, as `progress_of`."""
    first = math.nan

    def report(event: Progress) -> None:
        nonlocal first
        estimate = event.estimate if math.isnan(event.error_estimate) else event.error_estimate
        if not 0 < estimate < math.inf:
            return
        first = estimate if math.isnan(first) else first
        gained = math.log(first / estimate) / math.log(first / tol) if 0 < tol < first else 0.0
        told(min(max(gained, 0.0), 1.0), f"error about {estimate:.1e}")

    with progress_of(what) as told:
        yield report
