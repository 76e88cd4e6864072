"""Running a study: chunks of runs through any `concurrent.futures.Executor`, results into the store as they come.

The driver alone writes. A worker that dies takes its chunk with it, and a pool of processes takes all that is in
flight: those runs are sent again one by one, after a second time with nothing else in flight, and a run that ends its
worker then too is recorded as failed.
"""

from __future__ import annotations

import concurrent.futures as futures
import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from flm.results import Listener, Progress, listener
from flm.study.runs import Outcome, run_chunk
from flm.study.store import DONE, FAILED, Definition, Record, Store, run_key
from flm.study.workers import Workers

CHUNK_SECONDS = 5.0  # what a kill may cost per worker, and how often the store is written
MAX_CHUNK = 200
MAX_DEATHS = 3  # the first two may be another run's fault


@dataclass
class Counts:
    """How many runs there are, and how they are.

    Attributes:
        total: all of them.
        done, failed: those that are stored, earlier ones too.
        running: those that were sent.
        fresh: those that are new, within `seconds`.
        best: (lowest MSE, size and seed) by problem and model.
    """

    total: int
    done: int = 0
    failed: int = 0
    running: int = 0
    fresh: int = 0
    seconds: float = 0.0
    best: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """New runs per second."""
        return self.fresh / self.seconds if self.seconds > 0 else math.nan

    @property
    def seconds_left(self) -> float:
        """Time to the end at this rate; NaN before the first run is back."""
        return (self.total - self.done - self.failed) / self.rate if self.fresh else math.nan

    @property
    def event(self) -> Progress:
        """The same for a listener."""
        share = (self.done + self.failed) / self.total if self.total else 1.0
        extras = {"done": self.done, "failed": self.failed, "running": self.running, "of": self.total}
        return Progress("runs", seconds=self.seconds, share=share, seconds_left=self.seconds_left, extras=extras)

    def add(self, definition: Definition, status: str, outcome: Record) -> None:
        """Count a run that ended."""
        self.failed += status == FAILED
        self.done += status != FAILED
        score = outcome.get("mse")
        if status == DONE and isinstance(score, float):
            group = (str(definition.get("problem")), str(definition.get("model")))
            label = f"{definition.get('size')}, seed {definition.get('seed')}"
            if score < self.best.get(group, (math.inf, ""))[0]:
                self.best[group] = (score, label)


def execute(
    definitions: Sequence[Definition],
    store: Store,
    *,
    workers: Workers,
    retry_failed: bool = False,
    chunk_seconds: float = CHUNK_SECONDS,
    progress: bool | Listener = False,
) -> Counts:
    """Do every run that the store does not have, and store it.

    Args:
        definitions: the runs (`Spec.definitions`).
        store: open for writing.
        workers: who does the runs (`local`, `dask`); twice as many chunks as workers are kept in flight.
        retry_failed: do again what is stored as failed.
        chunk_seconds: about how long a chunk of runs takes.
        progress: called with a `flm.Progress` after every chunk, and about once per second; True prints it.
    """
    runs = {run_key(d): d for d in definitions}
    driver = _Driver(store, Counts(len(runs)), workers.count, chunk_seconds, listener(progress))
    for row in store.rows():
        if row.key in runs and not (retry_failed and row.status == FAILED):
            driver.counts.add(runs.pop(row.key), row.status, row.outcome)
    driver.pending.extend(runs.values())
    while driver.pending:
        with workers.open() as executor:
            driver.drain(executor)
    driver.say()
    return driver.counts


@dataclass
class _Driver:
    """Sends the runs that are pending, and stores what comes back."""

    store: Store
    counts: Counts
    workers: int
    chunk_seconds: float
    tell: Listener
    pending: deque[Definition] = field(default_factory=deque)
    deaths: Counter[str] = field(default_factory=Counter)  # how often a run's worker ended, by its key
    spent: float = 0.0  # seconds in runs that came back
    began: float = field(default_factory=time.monotonic)

    def say(self) -> None:
        self.counts.seconds = time.monotonic() - self.began
        self.tell(self.counts.event)

    def drain(self, executor: futures.Executor) -> None:
        """Run until nothing is pending or the executor broke: what was in flight is then pending again."""
        flying: dict[futures.Future[list[Outcome]], list[Definition]] = {}
        again: list[Definition] = []
        shown = 0.0
        while (self.pending and not again) or flying:
            while self.pending and not again:
                # After two deaths a run flies alone, so that it alone is to blame for its worker's end.
                suspects = (self.pending[0], *(d for chunk in flying.values() for d in chunk))
                alone = bool(self.deaths) and any(self.deaths[run_key(d)] >= 2 for d in suspects)
                if len(flying) >= (1 if alone else 2 * self.workers):
                    break
                chunk = self.next_chunk()
                try:
                    flying[executor.submit(run_chunk, chunk)] = chunk
                except futures.BrokenExecutor:
                    again += chunk
            finished, _ = futures.wait(flying, timeout=1.0, return_when=futures.FIRST_COMPLETED)
            results: list[tuple[Definition, str, Record]] = []
            for future in finished:
                chunk = flying.pop(future)
                try:
                    results += [(d, *outcome) for d, outcome in zip(chunk, future.result(), strict=True)]
                except (Exception, futures.CancelledError) as error:  # the worker's end: a run's own errors are results
                    for definition in chunk:
                        self.deaths[run_key(definition)] += 1
                        if (times := self.deaths[run_key(definition)]) <= MAX_DEATHS:
                            again.append(definition)
                        else:
                            reason = f"its worker ended {times} times: {type(error).__name__}: {error}"
                            results.append((definition, FAILED, {"reason": reason[:2000]}))
            if results:
                self.store.add(results)
            for result in results:
                self.counts.add(*result)
                self.counts.fresh += 1
                self.spent += float(result[2].get("seconds", 0.0))
            self.counts.running = sum(map(len, flying.values()))
            if results or time.monotonic() - shown > 1:
                shown = time.monotonic()
                self.say()
        self.pending.extend(again)

    def next_chunk(self) -> list[Definition]:
        """As many runs as fill `chunk_seconds`, at most an even share of what is left; one until the first is back."""
        chunk, fresh = [self.pending.popleft()], self.counts.fresh
        if fresh == 0 or run_key(chunk[0]) in self.deaths:
            return chunk
        share = math.ceil(len(self.pending) / (2 * self.workers))
        size = min(MAX_CHUNK, share, int(self.chunk_seconds / max(self.spent / fresh, 1e-6)))
        while len(chunk) < size and self.pending and run_key(self.pending[0]) not in self.deaths:
            chunk.append(self.pending.popleft())
        return chunk
