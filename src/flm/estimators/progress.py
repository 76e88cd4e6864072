"""How far a fit has come, for whoever listens; estimators stay plain scikit-learn ones, without a parameter for it.

    with listening(lambda share, text: print(f"{share:.0%} {text}")):
        FLMImputer().fit(X)

The share is of the work expected: a guess, since searches stop by themselves. Within one fit it never falls.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

Report = Callable[[float, str], None]

_LISTENER: ContextVar[Report | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def listening(report: Report) -> Iterator[None]:
    """Have `report(share, text)` called by the fits inside."""
    token = _LISTENER.set(report)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextlib.contextmanager
def part(begin: float, end: float) -> Iterator[None]:
    """What is told inside is of the work from share `begin` to share `end`."""
    listener = _LISTENER.get()
    if listener is None:
        yield
        return
    with listening(lambda share, text: listener(begin + (end - begin) * share, text)):
        yield


def tell(share: float, text: str) -> None:
    """The share of the work that is done, and what is being done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(min(share, 1.0), text)
