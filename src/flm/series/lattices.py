"""The first points of the nonnegative integer lattice, in four orders."""

import heapq
import math
from collections.abc import Callable

import numpy as np

from flm.wording import InputError, check_count

_KEYS: dict[str, Callable[[tuple[int, ...]], int]] = {
    "euclid": lambda k: sum(i * i for i in k),
    "box": max,
    "total": sum,
    "hyperbolic": lambda k: math.prod(1 + i for i in k),
}

MAX_ENTRIES = 10_000_000  # of n points times m axes: seconds, and about a gigabyte on the way


def lattice(m: int, n: int, order: str = "euclid") -> np.ndarray:
    """The first n points of N_0^m, shape (n, m), by size and then lexicographically.

    Sizes: `euclid` sum k_j^2 (the paper's), `box` max k_j, `total` sum k_j, `hyperbolic` prod (1 + k_j).

    Example:
        >>> lattice(2, 4)
        array([[0., 0.],
               [0., 1.],
               [1., 0.],
               [1., 1.]])
    """
    if order not in _KEYS:
        raise InputError(f"`order` must be one of {', '.join(map(repr, _KEYS))}; got {order!r}.")
    check_count("m", m, 1)
    check_count("n", n)
    if n * m > MAX_ENTRIES:
        raise InputError(f"`n` must be at most {MAX_ENTRIES // m} points of {m} axes; got {n}.")
    key = _KEYS[order]
    # Best-first search. The parent of a point is the point less one in its last nonzero component: it is never larger
    # and is lexicographically smaller, so points leave the heap in the wanted order and each enters it once.
    origin = (0,) * m
    heap: list[tuple[int, tuple[int, ...]]] = [(key(origin), origin)]
    points: list[tuple[int, ...]] = []
    while len(points) < n:
        _, k = heapq.heappop(heap)
        points.append(k)
        last = max((j for j in range(m) if k[j]), default=0)
        for j in range(last, m):
            child = (*k[:j], k[j] + 1, *k[j + 1 :])
            heapq.heappush(heap, (key(child), child))
    return np.array(points, dtype=float).reshape(n, m)
