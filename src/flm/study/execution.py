"""Running a study: any `concurrent.futures.Executor` does the runs, and only the driver writes results to the store.

Workers are spawned processes of one thread each (JAX does not survive a fork), or a Dask cluster. When a worker dies its run
is lost and sent again; with a pool of processes, so are all runs in flight. A run that was lost twice is sent alone, so that
no other run can be to blame; if it ends its worker again, it is recorded as failed.
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
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flm.results import Listener, Progress, listener
from flm.study.runs import run_one
from flm.study.store import DONE, FAILED, Definition, Record, Store, run_key
from flm.wording import ExtraMissingError, check_count

MAX_DEATHS = 3  # the first two may be the fault of another run
Result = tuple[Definition, str, Record]  # a run, its status, and what it measured
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_ONE_XLA_THREAD = "--xla_cpu_multi_thread_eigen=false"


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


@dataclass(frozen=True)
class Workers:
    """The workers: `count` runs at a time, by executors from `open`, which is called again when one breaks."""

    count: int
    open: Callable[[], contextlib.AbstractContextManager[futures.Executor]]


def local(count: int | None = None) -> Workers:
    """One spawned process per worker; by default as many as there are cores."""
    found = os.cpu_count() or 1 if count is None else check_count("count", count, 1)
    return Workers(found, partial(_processes, found))


def dask(address: str) -> Workers:
    """The workers of a Dask cluster, by the address of its scheduler."""
    with _client(address) as client:
        found = max(1, sum(client.nthreads().values()))

    @contextlib.contextmanager
    def cluster() -> Iterator[futures.Executor]:
        with _client(address) as client, DaskExecutor(client) as executor:
            yield executor

    return Workers(found, cluster)


@contextlib.contextmanager
def _processes(count: int) -> Iterator[futures.Executor]:
    before = {name: os.environ.get(name) for name in (*_THREADS, "XLA_FLAGS")}
    flags = f"{before['XLA_FLAGS'] or ''} {_ONE_XLA_THREAD}".strip()
    os.environ.update(dict.fromkeys(_THREADS, "1") | {"XLA_FLAGS": flags})
    context = multiprocessing.get_context("spawn")
    executor = futures.ProcessPoolExecutor(count, mp_context=context, initializer=_end_with_the_driver)
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
    """End this process when the driver is gone, however it ended: a pool's queue does not tell its processes of that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class DaskExecutor(futures.Executor):
    """The tasks of a Dask client as `concurrent.futures`.

    With distributed's own executor (`Client.get_executor`) a future stays pending forever when a worker dies with a result that was
    not fetched, since the error is raised in a coroutine that nobody awaits. Here the future gets the error.
    """

    def __init__(self, client: Any):
        self._client = client
        self._tasks: dict[futures.Future, Any] = {}  # Dask forgets a task that nobody holds

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future:
        """Send one call and return its future."""
        future: futures.Future = futures.Future()
        task = self._client.submit(fn, *args, pure=False, **kwargs)
        self._tasks[future] = task

        def pass_on(task: Any) -> None:
            try:
                future.set_result(task.result())
            except BaseException as error:  # asyncio's CancelledError is not an Exception
                wrapped = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
                future.set_exception(wrapped)
            self._tasks.pop(future, None)

        task.add_done_callback(pass_on)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the tasks that are not done."""
        if left := list(self._tasks.values()):
            self._client.cancel(left)


def _client(address: str) -> Any:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise ExtraMissingError('Dask is not installed. Run: pip install "fourier-learning-machines[scale]"') from None
    return distributed.Client(address, set_as_default=False)


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
    pending = deque(runs.items())
    while pending:
        with workers.open() as executor:
            for results, counts.running in _drain(executor, 2 * workers.count, pending, deaths):
                if results:
                    store.add(results)
                for result in results:
                    counts.add(*result)
                counts.fresh, counts.seconds = counts.fresh + len(results), time.monotonic() - began
                tell(counts.event)
    counts.seconds = time.monotonic() - began
    tell(counts.event)
    return counts


def _drain(
    executor: futures.Executor, most: int, pending: deque[tuple[str, Definition]], deaths: Counter[str]
) -> Iterator[tuple[list[Result], int]]:
    """Results as they come, with the number of runs in flight, until nothing is pending or the executor breaks.

    A broken executor makes runs in flight pending again; `deaths` counts by key.
    """
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
        yield results, len(flying)
    pending.extend(again)
