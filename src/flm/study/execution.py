"""Running a study: chunks of runs through any `concurrent.futures.Executor`, results into the store as they come.

The driver alone writes. A worker that dies takes its chunk with it, and a pool of processes takes all that is in
flight: those runs are sent again one by one, after a second time with nothing else in flight, and a run that ends its
worker then too is recorded as failed.
"""

from __future__ import annotations

import concurrent.futures as futures
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flm.results import Listener, Progress, listener
from flm.study.runs import Definition, Outcome, run_chunk
from flm.study.store import DONE, FAILED, Row, Store, run_key
from flm.study.workers import Workers

CHUNK_SECONDS = 5.0  # what a kill may cost per worker, and how often the store is written
MAX_CHUNK = 200
MAX_DEATHS = 3  # the first two may be another run's fault


@dataclass(frozen=True)
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
    done: int
    failed: int
    running: int
    seconds: float
    fresh: int
    best: Mapping[tuple[str, str], tuple[float, str]] = field(default_factory=dict)

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
    keys = {run_key(d): d for d in definitions}
    stored = {row.key: row for row in store.rows() if row.key in keys}
    skip = {k for k, row in stored.items() if not (retry_failed and row.status == FAILED)}
    pending = deque([definition] for key, definition in keys.items() if key not in skip)
    state = Tally(len(keys), [stored[k] for k in skip], workers.count, chunk_seconds)
    tell = listener(progress)
    while pending:
        with workers.open() as executor:
            broken = _drain(executor, pending, store, state, tell)
        pending.extend([d] for d in broken)
    counts = state.counts(0)
    tell(counts.event)
    return counts


def _drain(
    executor: futures.Executor, pending: deque[list[Definition]], store: Store, state: Tally, tell: Listener
) -> list[Definition]:
    """Run until nothing is pending or the executor broke; returns the runs to be sent again."""
    flying: dict[futures.Future[list[Outcome]], list[Definition]] = {}
    again: list[Definition] = []
    shown = 0.0
    while (pending and not again) or flying:
        while pending and not again:
            alone = any(map(state.suspect, [pending[0], *flying.values()]))
            if len(flying) >= (1 if alone else 2 * state.workers):
                break
            chunk = state.next_chunk(pending)
            try:
                flying[executor.submit(run_chunk, chunk)] = chunk
            except futures.BrokenExecutor:
                again += chunk
        finished, _ = futures.wait(flying, timeout=1.0, return_when=futures.FIRST_COMPLETED)
        results: list[tuple[Definition, Outcome]] = []
        for future in finished:
            chunk = flying.pop(future)
            try:
                results += list(zip(chunk, future.result(), strict=True))
            except (Exception, futures.CancelledError) as error:  # the worker's end: a run's own errors are results
                retry, dead = state.died(chunk, error)
                again += retry
                results += dead
        if results:
            store.add([(definition, status, outcome) for definition, (status, outcome) in results])
            state.note(results)
        if results or time.monotonic() - shown > 1:
            shown = time.monotonic()
            tell(state.counts(sum(map(len, flying.values()))).event)
    return again


class Tally:
    """Counts, times and the best so far."""

    def __init__(self, total: int, stored: Sequence[Row], workers: int, chunk_seconds: float):
        self.total, self.workers, self.chunk_seconds = total, workers, chunk_seconds
        self.began, self.fresh, self.spent = time.monotonic(), 0, 0.0
        self.done = self.failed = 0
        self.best: dict[tuple[str, str], tuple[float, str]] = {}
        self.deaths: dict[str, int] = {}
        for row in stored:
            self._count(row.definition, row.status, row.outcome)

    def next_chunk(self, pending: deque[list[Definition]]) -> list[Definition]:
        """As many runs as fill `chunk_seconds`, at most an even share of what is left; one until the first is back."""
        chunk = list(pending.popleft())
        if self.fresh == 0 or any(self.deaths.get(run_key(d)) for d in chunk):
            return chunk
        share = math.ceil(len(pending) / (2 * self.workers))
        size = min(MAX_CHUNK, share, int(self.chunk_seconds / max(self.spent / self.fresh, 1e-6)))
        while len(chunk) < size and pending and not any(self.deaths.get(run_key(d)) for d in pending[0]):
            chunk += pending.popleft()
        return chunk

    def suspect(self, chunk: Sequence[Definition]) -> bool:
        """Whether these must be alone in flight, so that they alone are to blame for their worker's end."""
        return any(self.deaths.get(run_key(d), 0) >= 2 for d in chunk)

    def died(
        self, chunk: list[Definition], error: BaseException
    ) -> tuple[list[Definition], list[tuple[Definition, Outcome]]]:
        """(runs to send again, runs given up with their outcomes)."""
        retry: list[Definition] = []
        dead: list[tuple[Definition, Outcome]] = []
        for definition in chunk:
            key = run_key(definition)
            self.deaths[key] = self.deaths.get(key, 0) + 1
            if self.deaths[key] > MAX_DEATHS:
                reason = f"its worker ended {self.deaths[key]} times: {type(error).__name__}: {error}"
                dead.append((definition, (FAILED, {"reason": reason[:2000]})))
            else:
                retry.append(definition)
        return retry, dead

    def note(self, results: Sequence[tuple[Definition, Outcome]]) -> None:
        """Count runs that came back."""
        for definition, (status, outcome) in results:
            self.fresh += 1
            self.spent += float(outcome.get("seconds", 0.0))
            self._count(definition, status, outcome)

    def _count(self, definition: Definition, status: str, outcome: Mapping[str, Any]) -> None:
        self.failed += status == FAILED
        self.done += status != FAILED
        score = outcome.get("mse")
        if status == DONE and isinstance(score, float):
            group = (str(definition.get("problem")), str(definition.get("model")))
            label = f"{definition.get('size')}, seed {definition.get('seed')}"
            if score < self.best.get(group, (math.inf, ""))[0]:
                self.best[group] = (score, label)

    def counts(self, running: int) -> Counts:
        """Where the execution is."""
        seconds = time.monotonic() - self.began
        return Counts(self.total, self.done, self.failed, running, seconds, self.fresh, dict(self.best))
