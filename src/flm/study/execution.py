"""Running a study: chunks of runs through any `concurrent.futures.Executor`, results into the store as they come.

Local executors start their processes by spawn (JAX does not survive a fork) with one thread each for BLAS and XLA.
The driver alone writes. A worker that dies takes its chunk with it, and a pool of processes takes all that is in
flight: those runs are sent again one by one, after a second time with nothing else in flight, and a run that ends its
worker then too is recorded as failed. A worker whose driver dies ends itself.
"""

from __future__ import annotations

import concurrent.futures as futures
import contextlib
import importlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flm.study.runs import run_one
from flm.study.store import DONE, FAILED, Store, run_key
from flm.wording import ExtraMissingError

CHUNK_SECONDS = 5.0  # what a kill may cost per worker, and how often the store is written
MAX_CHUNK = 200
MAX_DEATHS = 3  # the first two may be another run's fault
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


@dataclass(frozen=True)
class Live:
    """Where an execution is: what a live view shows."""

    total: int
    done: int
    failed: int
    running: int
    seconds: float
    fresh: int
    best: Mapping[tuple[str, str], tuple[float, str]] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Runs per second of this session."""
        return self.fresh / self.seconds if self.seconds > 0 else math.nan

    @property
    def seconds_left(self) -> float:
        """Time to the end at this rate; NaN before the first run is back."""
        return (self.total - self.done - self.failed) / self.rate if self.fresh else math.nan


Report = Callable[[Live], None]
MakeExecutor = Callable[[], contextlib.AbstractContextManager[futures.Executor]]


def execute(
    definitions: Sequence[Mapping[str, Any]],
    store: Store,
    *,
    make_executor: MakeExecutor,
    workers: int,
    retry_failed: bool = False,
    chunk_seconds: float = CHUNK_SECONDS,
    progress: Report | None = None,
) -> Live:
    """Do every run that the store does not have, and store it.

    Args:
        definitions: the runs (`Spec.definitions`).
        store: open for writing.
        make_executor: called for an executor at the start, and for another one when it broke (`local`, `dask`).
        workers: how many runs at a time are worthwhile; twice as many chunks are kept in flight.
        retry_failed: do again what is stored as failed.
        chunk_seconds: about how long a chunk of runs takes.
        progress: called with a `Live` after every chunk, and about once per second.
    """
    keys = {run_key(d): d for d in definitions}
    stored = {row.key: row for row in store.rows() if row.key in keys}
    skip = {k for k, row in stored.items() if not (retry_failed and row.status == FAILED)}
    pending = deque([definition] for key, definition in keys.items() if key not in skip)
    state = Tally(len(keys), [stored[k] for k in skip], workers, chunk_seconds)
    while pending:
        with make_executor() as executor:
            broken = _drain(executor, pending, store, state, progress)
        pending.extend([d] for d in broken)
    if progress is not None:
        progress(state.live(0))
    return state.live(0)


def _drain(
    executor: futures.Executor, pending: deque, store: Store, state: Tally, progress: Report | None
) -> list[Any]:
    """Run until nothing is pending or the executor broke; returns the runs to be sent again."""
    flying: dict[futures.Future, list[Any]] = {}
    again: list[Any] = []
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
        results = []
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
        if progress is not None and (results or time.monotonic() - shown > 1):
            shown = time.monotonic()
            progress(state.live(sum(map(len, flying.values()))))
    return again


def run_chunk(definitions: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """What a worker is sent: several runs, one after another."""
    return [run_one(definition) for definition in definitions]


class Tally:
    """Counts, times and the best so far."""

    def __init__(self, total: int, stored: Sequence[Any], workers: int, chunk_seconds: float):
        self.total, self.workers, self.chunk_seconds = total, workers, chunk_seconds
        self.began, self.fresh, self.spent = time.monotonic(), 0, 0.0
        self.done = self.failed = 0
        self.best: dict[tuple[str, str], tuple[float, str]] = {}
        self.deaths: dict[str, int] = {}
        for row in stored:
            self._count(row.definition, row.status, row.outcome)

    def next_chunk(self, pending: deque) -> list[Any]:
        """As many runs as fill `chunk_seconds`, at most an even share of what is left; one until the first is back."""
        chunk = list(pending.popleft())
        if self.fresh == 0 or any(self.deaths.get(run_key(d)) for d in chunk):
            return chunk
        share = math.ceil(len(pending) / (2 * self.workers))
        size = min(MAX_CHUNK, share, int(self.chunk_seconds / max(self.spent / self.fresh, 1e-6)))
        while len(chunk) < size and pending and not any(self.deaths.get(run_key(d)) for d in pending[0]):
            chunk += pending.popleft()
        return chunk

    def suspect(self, chunk: Sequence[Any]) -> bool:
        """Whether these must be alone in flight, so that they alone are to blame for their worker's end."""
        return any(self.deaths.get(run_key(d), 0) >= 2 for d in chunk)

    def died(self, chunk: list[Any], error: BaseException) -> tuple[list[Any], list[Any]]:
        """(runs to send again, runs given up)."""
        retry, dead = [], []
        for definition in chunk:
            key = run_key(definition)
            self.deaths[key] = self.deaths.get(key, 0) + 1
            if self.deaths[key] > MAX_DEATHS:
                reason = f"its worker ended {self.deaths[key]} times: {type(error).__name__}: {error}"
                dead.append((definition, (FAILED, {"reason": reason[:2000]})))
            else:
                retry.append(definition)
        return retry, dead

    def note(self, results: Sequence[Any]) -> None:
        """Count runs that came back."""
        for definition, (status, outcome) in results:
            self.fresh += 1
            self.spent += float(outcome.get("seconds", 0.0))
            self._count(definition, status, outcome)

    def _count(self, definition: Mapping[str, Any], status: str, outcome: Mapping[str, Any]) -> None:
        self.failed += status == FAILED
        self.done += status != FAILED
        score = outcome.get("mse")
        if status == DONE and isinstance(score, float):
            group = (str(definition.get("problem")), str(definition.get("model")))
            label = f"{definition.get('size')}, seed {definition.get('seed')}"
            if score < self.best.get(group, (math.inf, ""))[0]:
                self.best[group] = (score, label)

    def live(self, running: int) -> Live:
        """What there is to show."""
        seconds = time.monotonic() - self.began
        return Live(self.total, self.done, self.failed, running, seconds, self.fresh, dict(self.best))


# --- executors -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def local(workers: int) -> Iterator[futures.Executor]:
    """One spawned process per worker, one BLAS and XLA thread each."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    flags = " ".join(filter(None, [before["XLA_FLAGS"], _ONE_THREAD["XLA_FLAGS"]]))
    os.environ.update(_ONE_THREAD | {"XLA_FLAGS": flags})
    context = multiprocessing.get_context("spawn")
    executor = futures.ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_the_driver)
    try:
        yield executor
    except BaseException:
        for process in list((getattr(executor, "_processes", None) or {}).values()):
            process.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _end_with_the_driver() -> None:
    """Leave when the driver is gone, however it went: the queue of a pool does not tell its processes so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def dask(address: str) -> Iterator[futures.Executor]:
    """A Dask cluster as an executor, by the address of its scheduler."""
    with _client(address) as client, DaskExecutor(client) as executor:
        yield executor


class DaskExecutor(futures.Executor):
    """The tasks of a Dask client as `concurrent.futures`.

    distributed's own (`Client.get_executor`) leaves a future pending for ever when the worker that holds a finished result
    dies before the result is fetched and the task is then given up: the error is raised in a coroutine that nobody awaits.
    Here the error is the future's.
    """

    def __init__(self, client: Any):
        self._client = client
        self._tasks: dict[futures.Future, Any] = {}  # Dask forgets a task that nobody holds

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> futures.Future:
        """Send one call."""
        future: futures.Future = futures.Future()
        task = self._client.submit(fn, *args, pure=False, **kwargs)
        self._tasks[future] = task
        task.add_done_callback(lambda task: self._pass_on(task, future))
        return future

    def _pass_on(self, task: Any, future: futures.Future) -> None:
        try:
            result = task.result()
        except BaseException as error:  # asyncio's CancelledError is no Exception
            wrapped = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
            future.set_exception(wrapped)
        else:
            future.set_result(result)
        self._tasks.pop(future, None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Give up what is not done."""
        if left := list(self._tasks.values()):
            self._client.cancel(left)


def dask_workers(address: str) -> int:
    """How many tasks the cluster runs at a time."""
    with _client(address) as client:
        return max(1, sum(client.nthreads().values()))


def _client(address: str) -> Any:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise ExtraMissingError('Dask is not installed. Run: pip install "fourier-learning-machines[scale]"') from None
    return distributed.Client(address, set_as_default=False)
