"""Running a study: any `concurrent.futures.Executor` does the runs, and only the driver writes results to the store.

When a worker dies its run is lost and sent again; with a pool of processes, so are all runs in flight. A run that was lost twice
is sent alone, so that no other run can be to blame; if it ends its worker again, it is recorded as failed.
"""

from __future__ import annotations

import concurrent.futures as futures
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flm.results import Listener, Progress, listener
from flm.study.runs import run_one
from flm.study.store import DONE, FAILED, Definition, Record, Store, run_key
from flm.study.workers import Workers

MAX_DEATHS = 3  # the first two may be the fault of another run
Result = tuple[Definition, str, Record]  # a run, its status, and what it measured


@dataclass
class Counts:
    """How many runs there are, and in which state."""

    total: int
    done: int = 0  # stored, now or earlier
    failed: int = 0  # stored, now or earlier
    running: int = 0  # sent to workers
    fresh: int = 0  # ended within the last `seconds`
    seconds: float = 0.0
    # The lowest MSE, and the size and seed that gave it, by problem and model.
    best: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float:
        """Seconds to the end at the rate of the new runs; NaN before the first of them has ended."""
        return (self.total - self.done - self.failed) * self.seconds / self.fresh if self.fresh else math.nan

    @property
    def event(self) -> Progress:
        """The counts as an event for a listener."""
        share = (self.done + self.failed) / self.total if self.total else 1.0
        extras = {"done": self.done, "failed": self.failed, "running": self.running, "of": self.total}
        return Progress("runs", seconds=self.seconds, share=share, seconds_left=self.seconds_left, extras=extras)

    def add(self, definition: Definition, status: str, outcome: Record) -> None:
        """Count a run that has ended."""
        self.failed += status == FAILED
        self.done += status != FAILED
        score, group = outcome.get("mse"), (str(definition.get("problem")), str(definition.get("model")))
        if status == DONE and isinstance(score, float) and score < self.best.get(group, (math.inf, ""))[0]:
            self.best[group] = (score, f"{definition.get('size')}, seed {definition.get('seed')}")


def execute(
    definitions: Iterable[Definition],
    store: Store,
    *,
    workers: Workers,
    retry_failed: bool = False,
    progress: bool | Listener = False,
) -> Counts:
    """Do every run that the store does not have, and store it.

    Args:
        definitions: the runs (`Spec.definitions`).
        store: a store that is open for writing.
        workers: who does the runs (`local`, `dask`); twice as many runs as workers are kept in flight.
        retry_failed: whether to repeat runs that are stored as failed.
        progress: called with a `flm.Progress` when runs end, and about once per second; True prints it.
    """
    tell, began = listener(progress), time.monotonic()
    runs = {run_key(d): d for d in definitions}
    counts, deaths = Counts(len(runs)), Counter[str]()
    for row in store.rows():
        if row.key in runs and not (retry_failed and row.status == FAILED):
            counts.add(runs.pop(row.key), row.status, row.outcome)

    def keep(results: list[Result], running: int) -> None:
        if results:
            store.add(results)
        for result in results:
            counts.add(*result)
        counts.fresh += len(results)
        counts.running, counts.seconds = running, time.monotonic() - began
        tell(counts.event)

    pending = deque(runs.items())
    while pending:
        with workers.open() as executor:
            _drain(executor, 2 * workers.count, pending, deaths, keep)
    keep([], 0)
    return counts


def _drain(
    executor: futures.Executor,
    most: int,
    pending: deque[tuple[str, Definition]],
    deaths: Counter[str],
    keep: Callable[[list[Result], int], None],
) -> None:
    """Run until nothing is pending or the executor breaks, which makes runs in flight pending again; `deaths` counts by key."""
    flying: dict[futures.Future[tuple[str, Record]], tuple[str, Definition]] = {}
    again: list[tuple[str, Definition]] = []
    while (pending and not again) or flying:
        while pending and not again:
            # After two deaths a run is sent alone, so that only it can be to blame when its worker ends.
            alone = any(deaths[key] >= 2 for key, _ in (pending[0], *flying.values()))
            if len(flying) >= (1 if alone else most):
                break
            run = pending.popleft()
            try:
                flying[executor.submit(run_one, run[1])] = run
            except futures.BrokenExecutor:
                again.append(run)
        results: list[Result] = []
        for future in futures.wait(flying, timeout=1.0, return_when=futures.FIRST_COMPLETED).done:
            key, definition = flying.pop(future)
            try:
                results.append((definition, *future.result()))
            except (Exception, futures.CancelledError) as error:  # the worker's end: a run's own errors are results
                deaths[key] += 1
                if deaths[key] <= MAX_DEATHS:
                    again.append((key, definition))
                else:
                    reason = f"its worker ended {deaths[key]} times: {type(error).__name__}: {error}"
                    results.append((definition, FAILED, {"reason": reason[:2000]}))
        keep(results, len(flying))
    pending.extend(again)
