"""Orthogonal elimination, piece by piece: every piece keeps a triangle; its neighbors see only rows on the shared traces.

1. A piece's rows [its columns | its traces] are reduced by Householder reflections. The first rows give the piece's
   coefficients from its traces, the rest are rows on the traces alone. Pieces with the same rows share reflections: pieces
   that a level of cuts did not touch, and pieces of the same shape where coefficients are constant.
2. Two neighboring groups are stacked, the traces that are now inside come first, and the rest is again rows on the outside.
3. A right-hand side is reflected along, and when one group is left everything is substituted back. The part that is left is the
   residual. The reflections are kept, so that a further right-hand side costs a small share of the factors.

Neighbors with the fewest traces around them are merged first; the order is found once for a tree.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular

BLOCK = 64  # columns that LAPACK reduces together when it is given room; without room three times slower
DRAWS = 5  # of random signs
TINY = 1e-13  # a pivot this much smaller than the largest entry of its column: nothing determines that unknown


@dataclass(frozen=True, eq=False)
class PieceRows:
    """Rows of one piece, A a + T s = b."""

    own: np.ndarray  # (R, C)
    traces: np.ndarray  # (R, sum of the sizes)
    right: np.ndarray  # (R,) or (R, Q)
    names: tuple[int, ...]  # of its traces, in the order of T's columns
    lengths: np.ndarray | None = None  # what the rows were divided by, (R,)


class Merge(NamedTuple):
    """One step of the order: two groups become one, and these traces are inside it."""

    first: int
    second: int
    inside: tuple[int, ...]
    outside: tuple[int, ...]


Order = tuple[Merge, ...]  # groups are numbered as the pieces, then as they arise


def plan(members: Sequence[tuple[int, ...]], sizes: Sequence[int], count: int = 1) -> Order:
    """The order of merging, the smallest front first, from the pieces that each trace touches and its number of columns.

    There are at least `count` pieces: those that touch nothing are among them.
    """
    count = max(count, 1 + max((piece for pieces in members for piece in pieces), default=0))
    touching: dict[int, set[int]] = {piece: set() for piece in range(count)}  # the traces around each group
    for name, pieces in enumerate(members):
        for piece in pieces:
            touching[piece].add(name)
    owner = {piece: piece for piece in range(count)}  # the group of each piece
    heap: list[tuple[int, int, int]] = []

    def consider(group: int) -> None:
        for other in {owner[piece] for name in touching[group] for piece in members[name]} - {group}:
            front = sum(sizes[name] for name in touching[group] | touching[other])
            heapq.heappush(heap, (front, min(group, other), max(group, other)))

    for group in range(count):
        consider(group)
    merges: list[Merge] = []
    while heap:
        _, a, b = heapq.heappop(heap)
        if a not in touching or b not in touching:
            continue
        new, both = count + len(merges), touching.pop(a) | touching.pop(b)
        owner |= {piece: new for piece, group in owner.items() if group in (a, b)}
        inside = tuple(sorted(name for name in both if all(owner[piece] == new for piece in members[name])))
        outside = tuple(sorted(both - set(inside)))
        merges.append(Merge(a, b, inside, outside))
        touching[new] = set(outside)
        consider(new)
    return tuple(merges)


class Front(NamedTuple):
    """Rows reduced by Householder reflections, as LAPACK leaves them; the first columns belong to this front."""

    reflections: np.ndarray
    tau: np.ndarray
    count: int

    @property
    def height(self) -> int:
        """The number of rows that are not zero."""
        return min(self.reflections.shape)

    def passed(self) -> np.ndarray:
        """The rows that are left for the next front."""
        return np.triu(self.reflections[self.count : self.height, self.count :])

    def rotate(self, right: np.ndarray) -> np.ndarray:
        """Q* right, (H,) or (H, Q)."""
        if not len(self.tau):
            return right
        kind, letter = ("unmqr", "C") if np.iscomplexobj(self.reflections) else ("ormqr", "T")
        (multiply,) = get_lapack_funcs((kind,), (self.reflections,))
        columns = np.asfortranarray(right.reshape(len(right), -1))
        turned = multiply(
            "L", letter, self.reflections[:, : len(self.tau)], self.tau, columns, BLOCK * columns.shape[1]
        )
        return turned[0].reshape(right.shape)

    def substitute(self, rotated: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The front's own unknowns, given those outside it; zero where nothing determines them."""
        count = min(self.count, self.height)
        R = self.reflections[:count, : self.count]  # and reflections below the diagonal
        right = rotated[:count] - self.reflections[:count, self.count :] @ known
        if count == self.count and np.abs(np.diagonal(R)).min(initial=1.0) > 0:
            return solve_triangular(R, right, check_finite=False)
        R = np.triu(R)
        if not (np.isfinite(R).all() and np.isfinite(right).all()):  # an iterate that ran away
            return np.full((self.count, *right.shape[1:]), np.nan)
        return np.linalg.lstsq(R, right, rcond=TINY)[0]

    def pivot(self) -> float:
        """How close the front's columns are to being dependent: the reciprocal of their triangle's condition number."""
        if self.count == 0:
            return np.inf
        if self.height < self.count or not np.abs(np.diagonal(self.reflections)[: self.count]).all():
            return 0.0
        (trcon,) = get_lapack_funcs(("trcon",), (self.reflections,))
        return float(trcon(np.asfortranarray(self.reflections[: self.count, : self.count]))[0])


def reduced(rows: np.ndarray, count: int) -> Front:
    """Rows as a front; the argument may be overwritten."""
    if 0 in rows.shape:
        return Front(rows, np.zeros(0), count)
    (geqrf,) = get_lapack_funcs(("geqrf",), (rows,))
    found = geqrf(np.asfortranarray(rows), lwork=BLOCK * rows.shape[1], overwrite_a=True)
    return Front(found[0], found[1], count)


class KeptFactors:
    """All fronts of a tree, from rows whose right-hand sides are not read.

    `known` holds the fronts of pieces by their rows and is updated: those of the last solve serve equal pieces.
    """

    def __init__(
        self, pieces: Sequence[PieceRows], sizes: Sequence[int], order: Order, known: dict[bytes, Front] | None = None
    ):
        self.names, self.sizes, self.order = [piece.names for piece in pieces], sizes, order
        before, known = dict(known or {}), {} if known is None else known
        known.clear()
        self.fronts: list[Front] = []
        for piece in pieces:
            rows, count = np.concatenate([piece.own, piece.traces], axis=1), piece.own.shape[1]
            key = (
                hashlib.sha1(np.ascontiguousarray(rows).data, usedforsecurity=False).digest()
                + repr((count, rows.shape)).encode()
            )
            if key not in known:
                known[key] = before.get(key) or reduced(rows, count)
            self.fronts.append(known[key])
        rows = {index: (piece.names, self.fronts[index].passed()) for index, piece in enumerate(pieces)}
        for new, merge in enumerate(order, start=len(pieces)):
            stacked = _stack([rows.pop(merge.first), rows.pop(merge.second)], (*merge.inside, *merge.outside), sizes)
            self.fronts.append(reduced(stacked, sum(sizes[name] for name in merge.inside)))
            rows[new] = (merge.outside, self.fronts[-1].passed())
        # The smallest reciprocal condition number of a triangle: near zero where nothing determines the answer.
        self.pivot = min(front.pivot() for front in self.fronts)
        self.residual = 0.0  # the norm of what the rows could not meet of the last right-hand side
        self.values: dict[int, np.ndarray] = {}  # of the traces, likewise

    def solve(self, rights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The coefficients of each piece for one right-hand side of each, (R,), or for many, (R, Q)."""
        rotated: list[np.ndarray] = []
        passed: dict[int, np.ndarray] = {}
        lost, count, values = 0.0, len(rights), self.values
        for index, front in enumerate(self.fronts):
            if index < count:
                right = rights[index]
            else:
                merge = self.order[index - count]
                right = np.concatenate([passed.pop(merge.first), passed.pop(merge.second)])
            rotated.append(front.rotate(right))
            passed[index] = rotated[-1][front.count : front.height]
            lost += float(np.sum(np.abs(rotated[-1][front.height :]) ** 2))
        self.residual = float(np.sqrt(lost + sum(np.sum(np.abs(rest) ** 2) for rest in passed.values())))
        for index in range(len(self.fronts) - 1, count - 1, -1):
            merge = self.order[index - count]
            found = self.fronts[index].substitute(rotated[index], self.known(merge.outside, rights[0]))
            for name in merge.inside:
                values[name], found = found[: self.sizes[name]], found[self.sizes[name] :]
        leaves = zip(self.fronts, rotated, self.names, strict=False)
        return [front.substitute(right, self.known(names, rights[0])) for front, right, names in leaves]

    def left(self, pieces: Sequence[PieceRows], coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """The part of the last right-hand side that the rows of each piece could not meet, (L,)."""
        known = lambda piece: piece.traces @ self.known(piece.names, piece.right)
        pairs = zip(pieces, coefficients, strict=True)
        return np.array([np.linalg.norm(piece.own @ own + known(piece) - piece.right) for piece, own in pairs])

    def roundings(self, pieces: Sequence[PieceRows], coefficients: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Right-hand sides as large as the rounding of the rows at an answer, with random signs, (R, DRAWS) for each piece."""
        rng, found = np.random.default_rng(0), []
        for piece, own in zip(pieces, coefficients, strict=True):
            known = np.abs(piece.traces) @ np.abs(self.known(piece.names, piece.right))
            terms = np.abs(piece.own) @ np.abs(own) + known + np.abs(piece.right)
            found.append(np.finfo(float).eps * terms[:, None] * rng.choice([-1.0, 1.0], (len(terms), DRAWS)))
        return found

    def known(self, names: tuple[int, ...], like: np.ndarray) -> np.ndarray:
        """Values of traces, one after the other."""
        return np.concatenate([self.values[name] for name in names]) if names else np.zeros((0, *like.shape[1:]))


def eliminate(pieces: Sequence[PieceRows], sizes: Sequence[int], order: Order) -> list[np.ndarray]:
    """The coefficients of each piece, (C,) or (C, Q), that solve the least-squares problem of all pieces' rows."""
    return KeptFactors(pieces, sizes, order).solve([piece.right for piece in pieces])


def columns_of(names: Sequence[int], sizes: Sequence[int]) -> dict[int, slice]:
    """Where the columns of each trace lie, one after the other."""
    ends = np.cumsum([0, *(sizes[name] for name in names)]).tolist()
    return {name: slice(a, b) for name, a, b in zip(names, ends, ends[1:], strict=False)}


def _stack(
    groups: Sequence[tuple[tuple[int, ...], np.ndarray]], names: tuple[int, ...], sizes: Sequence[int]
) -> np.ndarray:
    """Rows of several groups over one set of traces."""
    place = columns_of(names, sizes)
    height, width = sum(len(block) for _, block in groups), sum(sizes[name] for name in names)
    out, row = np.zeros((height, width), groups[0][1].dtype, order="F"), 0
    for own, block in groups:
        for name, columns in columns_of(own, sizes).items():
            out[row : row + len(block), place[name]] = block[:, columns]
        row += len(block)
    return out
