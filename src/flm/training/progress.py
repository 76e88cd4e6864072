"""How a training run tells where it is: a bar, or a call of the user's own function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Progress(NamedTuple):
    """Where a training run is.

    Attributes:
        epoch: epochs done.
        epochs: epochs asked for.
        loss: the latest training loss.
        best_loss: the lowest so far.
        seconds: time spent.
        seconds_left: at the present speed, if the tolerance is not reached before.
    """

    epoch: int
    epochs: int
    loss: float
    best_loss: float
    seconds: float
    seconds_left: float


Report = Callable[[Progress], Any]


def _silent(progress: Progress) -> None:
    return None


@contextlib.contextmanager
def reporter(progress: bool | Report) -> Iterator[Report]:
    """The function to call with the state of the run: nothing, a bar, or the user's."""
    if callable(progress):
        yield progress
    elif progress:
        with _bar() as report:
            yield report
    else:
        yield _silent


@contextlib.contextmanager
def _bar() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[losses]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("compiling", total=None, losses="")

        def report(p: Progress) -> None:
            bar.update(
                task,
                description=f"epoch {p.epoch:,} of {p.epochs:,}",
                total=p.epochs,
                completed=p.epoch,
                losses=f"loss {p.loss:.2e}, lowest {p.best_loss:.2e}",
            )

        yield report
