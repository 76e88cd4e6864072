"""One BLAS thread for the many small factorizations of an estimator: more threads cost more than they bring."""

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> Any:
    """A context in which linear algebra keeps to one thread."""
    return _controller().limit(limits=1, user_api="blas")
