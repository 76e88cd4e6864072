"""Where a piece of work is: one event for solves, training runs, distillations, studies and fits of estimators.

flm.solve(problem, progress=lambda event: print(event.stage, event.error_estimate))
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Listener = Callable[["Progress"], object]


@dataclass(frozen=True)
class Progress:
    """One step of a piece of work.

    Attributes:
        stage: what is being done, such as "lattice", "adam" or "reading".
        columns: linear unknowns, or trained parameters, of this step.
        estimate: what the work lowers: a held-out residual, a training loss. NaN where there is none.
        error_estimate: the error estimate of the best answer so far. NaN where there is none yet.
        seconds: time spent since the work began.
        share: the share of the expected work that is done, from 0 to 1: a guess where a search stops by itself. NaN if not
            known.
        seconds_left: the time left at the present speed. NaN if not known.
        extras: what this kind of work adds, by name.

    Example:
        >>> event = Progress("lattice", columns=25, estimate=1.5e-3, seconds=0.2)
        >>> print(event)
        lattice, 25 columns, estimate 1.50e-03, 0.2 s
    """

    stage: str
    columns: int = 0
    estimate: float = math.nan
    error_estimate: float = math.nan
    seconds: float = 0.0
    share: float = math.nan
    seconds_left: float = math.nan
    extras: Mapping[str, object] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """What is being done and what has been reached."""
        parts = [self.stage]
        parts += [f"{self.columns} columns"] if self.columns else []
        parts += [] if math.isnan(self.estimate) else [f"estimate {self.estimate:.2e}"]
        parts += [] if math.isnan(self.error_estimate) else [f"error estimate {self.error_estimate:.1e}"]
        parts += [f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in self.extras.items()]
        return ", ".join(parts)

    def __str__(self) -> str:
        share = "" if math.isnan(self.share) else f"{self.share:4.0%} "
        return f"{share}{self.words}, {self.seconds:.1f} s"


def silent(event: Progress) -> None:
    """Ignore the event."""


def listener(progress: bool | Listener) -> Listener:
    """The function to call with events: one that ignores them (False), the user's own, or one that prints lines (True)."""
    if callable(progress):
        return progress
    last = -math.inf

    def show(event: Progress) -> None:
        nonlocal last
        # Events that know their share come often: of these one a second is printed, and the last one.
        if math.isnan(event.share) or event.share >= 1.0 or time.monotonic() - last >= 1.0:
            last = time.monotonic()
            print(event, flush=True)

    return show if progress else silent


def within(listen: Listener, begin: float, end: float) -> Listener:
    """A listener for a part of the work: its shares run from `begin` to `end` of the whole."""
    return lambda event: listen(replace(event, share=begin + (end - begin) * event.share))


class Record:
    """The history of a run's steps, each of which is also passed to the run's listener.

    The history has one row for each step: columns, estimate, error_estimate, seconds, stage and the extras;
    None where a step has no such extra.
    """

    def __init__(self, listen: Listener = silent):
        self.listen = listen
        self.history: dict[str, list[Any]] = {}
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time since the run began."""
        return time.perf_counter() - self._began

    def step(
        self, stage: str, *, columns: int, estimate: float, error_estimate: float = math.nan, **extras: object
    ) -> None:
        """Add a step to the history and pass it to the listener."""
        event = Progress(stage, int(columns), float(estimate), float(error_estimate), self.seconds, extras=extras)
        row = {"columns": event.columns, "estimate": event.estimate, "error_estimate": event.error_estimate}
        row |= {"seconds": event.seconds, "stage": stage, **extras}
        before = len(self.history.get("columns", ()))
        for name in dict.fromkeys((*self.history, *row)):  # None where a step lacks an extra
            self.history.setdefault(name, [None] * before).append(row.get(name))
        self.listen(event)

    def tell(self, stage: str, **fields: Any) -> None:
        """Pass the state of the run to the listener without adding it to the history."""
        self.listen(Progress(stage, seconds=self.seconds, **fields))
