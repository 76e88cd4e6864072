"""Orthogonal elimination, piece by piece: every piece keeps a triangle, its neighbors see only rows on the shared traces.

1. A piece's rows [its columns | its traces | right-hand side] are reduced by Householder reflections; only R is kept. The
   first rows give the piece's coefficients from its traces, the rest are rows on the traces alone.
2. Two neighboring groups are stacked, the traces that are now inside come first, and the rest is again rows on the outside.
3. When one group is left everything is substituted back. What is left of the right-hand side is the residual.

Neighbors with the fewest traces around them are merged first; the order is found once for a tree.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular

from flm.pde.pieces.factors import Factors

BLOCK = 64  # columns that LAPACK reduces together when it is given room; without room three times slower
TINY = 1e-13  # a pivot this much smaller than the largest entry of its column: nothing determines that unknown


@dataclass(frozen=True, eq=False)
class PieceRows:
    """Rows of one piece: A a + T s = b, with its traces' names in the order of T's columns; b may be many columns."""

    own: np.ndarray  # (R, C)
    traces: np.ndarray  # (R, sum of the sizes)
    right: np.ndarray  # (R,) or (R, Q)
    names: tuple[int, ...]


@dataclass(frozen=True)
class Merge:
    """One step of the order: two groups become one, and these traces are inside it."""

    first: int
    second: int
    inside: tuple[int, ...]
    outside: tuple[int, ...]


@dataclass(frozen=True)
class Order:
    """In which order groups are merged; groups are numbered as the pieces, then as they arise."""

    merges: tuple[Merge, ...]
    largest: int  # columns of the largest front


@dataclass(frozen=True, eq=False)
class Eliminated:
    """The solution: coefficients of each piece, values of each trace, and what was left over.

    Attributes:
        residual: the norm of what the rows, each scaled to length one, could not meet.
        by_piece: the same for the rows of each piece, (L,).
        pivot: the smallest reciprocal condition number of a triangle: near zero where nothing determines the answer.
    """

    coefficients: list[np.ndarray]  # (C,) or (C, Q) of each piece
    residual: float
    by_piece: np.ndarray
    pivot: float


def plan(members: Sequence[tuple[int, ...]], sizes: Sequence[int], count: int = 1) -> Order:
    """The order of merging, the smallest front first.

    Args:
        members: for each trace, the pieces that it touches.
        sizes: for each trace, its number of columns.
        count: of pieces, at least: those that touch nothing are among them.
    """
    count = max(count, 1 + max((piece for pieces in members for piece in pieces), default=0))
    touching: dict[int, set[int]] = {piece: set() for piece in range(count)}
    for name, pieces in enumerate(members):
        for piece in pieces:
            touching[piece].add(name)
    group_of = {piece: {piece} for piece in range(count)}
    owner = {piece: piece for piece in range(count)}
    heap: list[tuple[int, int, int]] = []

    def consider(a: int, b: int) -> None:
        front = sum(sizes[name] for name in touching[a] | touching[b])
        heapq.heappush(heap, (front, min(a, b), max(a, b)))

    def neighbors(group: int) -> set[int]:
        found = {owner[piece] for name in touching[group] for piece in members[name]}
        return found - {group}

    for group in range(count):
        for other in neighbors(group):
            if other > group:
                consider(group, other)
    merges, largest, new = [], max((sum(sizes[n] for n in t) for t in touching.values()), default=0), count
    while heap:
        front, a, b = heapq.heappop(heap)
        if a not in group_of or b not in group_of:
            continue
        pieces = group_of.pop(a) | group_of.pop(b)
        both = touching.pop(a) | touching.pop(b)
        inside = tuple(sorted(name for name in both if set(members[name]) <= pieces))
        outside = tuple(sorted(both - set(inside)))
        merges.append(Merge(a, b, inside, outside))
        largest = max(largest, front)
        group_of[new], touching[new] = pieces, set(outside)
        for piece in pieces:
            owner[piece] = new
        for other in neighbors(new):
            consider(new, other)
        new += 1
    return Order(tuple(merges), largest)


def eliminate(
    pieces: Sequence[PieceRows], sizes: Sequence[int], order: Order, factors: Factors | None = None
) -> Eliminated:
    """Solve the least-squares problem of all pieces' rows; factors of equal pieces are used again where they are kept."""
    factors = factors or Factors()
    factors.turn()
    kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # triangle, coupling, right-hand side
    rows: dict[int, tuple[tuple[int, ...], np.ndarray]] = {}
    pivot = np.inf
    several = pieces[0].right.shape[1:]  # of right-hand sides, or () for one
    sides = int(np.prod(several, dtype=int))
    for index, piece in enumerate(pieces):
        count = piece.own.shape[1]
        left = np.concatenate([piece.own, piece.traces], axis=1)
        R = triangle(np.concatenate([left, piece.right], axis=1)) if several else factors.triangle(left, piece.right)
        pivot = min(pivot, smallest_pivot(R, count))
        kept.append((R[:count, :count], R[:count, count:-sides], R[:count, -sides:].reshape(-1, *several)))
        rows[index] = (piece.names, R[count:, count:])
    new = len(pieces)
    for merge in order.merges:
        names = (*merge.inside, *merge.outside)
        stacked = stack([rows.pop(merge.first), rows.pop(merge.second)], names, sizes, sides)
        count = sum(sizes[name] for name in merge.inside)
        R = triangle(stacked)
        pivot = min(pivot, smallest_pivot(R, count))
        kept.append((R[:count, :count], R[:count, count:-sides], R[:count, -sides:].reshape(-1, *several)))
        rows[new] = (merge.outside, R[count:, count:])
        new += 1
    residual = float(np.sqrt(sum(np.sum(left[:, -sides:] ** 2) for _, left in rows.values())))
    values: dict[int, np.ndarray] = {}
    for merge, (R, coupling, right) in zip(reversed(order.merges), reversed(kept[len(pieces) :]), strict=True):
        known = np.concatenate([values[name] for name in merge.outside]) if merge.outside else np.zeros((0, *several))
        found = back_substitute(R, right - coupling @ known)
        for name in merge.inside:
            values[name], found = found[: sizes[name]], found[sizes[name] :]
    coefficients, by_piece = [], []
    for piece, (R, coupling, right) in zip(pieces, kept, strict=False):
        known = np.concatenate([values[name] for name in piece.names]) if piece.names else np.zeros((0, *several))
        coefficients.append(back_substitute(R, right - coupling @ known))
        by_piece.append(np.linalg.norm(piece.own @ coefficients[-1] + piece.traces @ known - piece.right))
    return Eliminated(coefficients, residual, np.array(by_piece), pivot)


def stack(
    groups: Sequence[tuple[tuple[int, ...], np.ndarray]], names: tuple[int, ...], sizes: Sequence[int], sides: int = 1
) -> np.ndarray:
    """Rows of several groups over one set of traces; the last columns are the right-hand sides."""
    ends = np.cumsum([0, *(sizes[name] for name in names)])
    place = {name: slice(int(a), int(b)) for name, a, b in zip(names, ends, ends[1:], strict=False)}
    kind = groups[0][1].dtype
    out = np.zeros((sum(len(block) for _, block in groups), int(ends[-1]) + sides), kind, order="F")
    row = 0
    for own, block in groups:
        column = 0
        for name in own:
            out[row : row + len(block), place[name]] = block[:, column : column + sizes[name]]
            column += sizes[name]
        out[row : row + len(block), -sides:] = block[:, -sides:]
        row += len(block)
    return out


def triangle(rows: np.ndarray) -> np.ndarray:
    """R of the QR factorization; rows beyond the last column vanish. The argument is overwritten."""
    height, width = rows.shape
    if height == 0:
        return np.zeros((0, width))
    (geqrf,) = get_lapack_funcs(("geqrf",), (rows,))
    reduced = geqrf(np.asfortranarray(rows), lwork=BLOCK * width, overwrite_a=True)[0]
    return np.triu(reduced[: min(height, width)])


def smallest_pivot(R: np.ndarray, count: int) -> float:
    """How close the first columns are to being dependent: the reciprocal of their triangle's condition number."""
    if count == 0:
        return np.inf
    if len(R) < count or not np.abs(np.diagonal(R)[:count]).all():
        return 0.0
    (trcon,) = get_lapack_funcs(("trcon",), (R,))
    return float(trcon(np.asfortranarray(R[:count, :count]))[0])


def back_substitute(R: np.ndarray, right: np.ndarray) -> np.ndarray:
    """R⁻¹ right; unknowns that nothing determines are zero."""
    if len(R) == R.shape[1] and np.abs(np.diagonal(R)).min(initial=1.0) > 0:
        return solve_triangular(R, right, check_finite=False)
    return np.linalg.lstsq(R, right[: len(R)], rcond=TINY)[0]
