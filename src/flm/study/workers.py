"""Where runs are done: spawned processes of one thread each (JAX does not survive a fork), or a Dask cluster."""

from __future__ import annotations

import concurrent.futures as futures
import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from flm.wording import ExtraMissingError, check_count

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_ONE_XLA_THREAD = "--xla_cpu_multi_thread_eigen=false"


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
        task.add_done_callback(lambda task: self._pass_on(task, future))
        return future

    def _pass_on(self, task: Any, future: futures.Future) -> None:
        try:
            result = task.result()
        except BaseException as error:  # asyncio's CancelledError is not an Exception
            wrapped = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
            future.set_exception(wrapped)
        else:
            future.set_result(result)
        self._tasks.pop(future, None)

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
