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
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("epoch {task.completed:,.0f} of {task.total:,.0f}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.2e}, lowest {task.fields[best]:.2e}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns) as bar:
        task = bar.add_task("", total=None, loss=float("nan"), best=float("nan"))

        def report(p: Progress) -> None:
            bar.update(task, total=p.epochs, completed=p.epoch, loss=p.loss, best=p.best_loss)

        yield report
