"""Whole frequencies and their signs: the first points of the nonnegative integer lattice, and the m-Lexi sign matrix."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from flm.wording import InputError, check_count

Point = tuple[int, ...]
_KEYS: dict[str, Callable[[tuple[int, ...]], int]] = {
    "euclid": lambda k: sum(i * i for i in k),
    "box": max,
    "total": sum,
    "hyperbolic": lambda k: math.prod(1 + i for i in k),
}

MAX_ENTRIES = 10_000_000  # of n points times m axes: seconds, and about a gigabyte on the way
MAX_SIGNS = 20  # inputs: a matrix of 2^19 rows, 84 MB


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
    points = itertools.islice(by_size(_KEYS[order], [((0,) * m, tuple(range(m)))]), n)
    return np.array(list(points), dtype=float).reshape(n, m)


def by_size(size: Callable[[Point], float], roots: Iterable[tuple[Point, tuple[int, ...]]]) -> Iterator[Point]:
    """The points that can be reached from the roots by steps along each root's own axes, by size, then lexicographically.

    The size must not fall along a step. Best-first search: the parent of a point is one step back along the last axis on
    which the point differs from its root, so each point enters the heap once.
    """
    heap = [(size(root), root, axes, 0) for root, axes in roots]
    heapq.heapify(heap)
    while heap:
        _, k, axes, last = heapq.heappop(heap)
        yield k
        for i in range(last, len(axes)):
            child = (*k[: axes[i]], k[axes[i]] + 1, *k[axes[i] + 1 :])
            heapq.heappush(heap, (size(child), child, axes, i))


def sign_matrix(m: int) -> np.ndarray:
    """The m-Lexi sign matrix S(m), shape (2^(m-1), m) (paper, Definition 1).

    The first column is 1; the others run through {1, -1}^(m-1) in lexicographic order, 1 before -1. For m = 1: [[1]].

    Example:
        >>> sign_matrix(2)
        array([[ 1.,  1.],
               [ 1., -1.]])
    """
    check_count("m", m, 1)
    if m > MAX_SIGNS:
        raise InputError(f"`m` must be at most {MAX_SIGNS}; got {m}: the matrix would have 2^{m - 1} rows.")
    rows = np.arange(2 ** (m - 1))
    bits = (rows[:, None] >> np.arange(m - 1)[::-1]) & 1  # (l, m - 1), leftmost bit = input 2
    return np.concatenate([np.ones((len(rows), 1)), 1.0 - 2.0 * bits], axis=1)
