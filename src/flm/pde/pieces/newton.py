"""Newton's method over all pieces, by full steps or by damped steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from flm.pde.pieces.cut import leaf_functions, num_columns
from flm.pde.pieces.elimination import Front, KeptFactors, PieceRows, eliminate
from flm.pde.pieces.functions import Alpha, Functions, Orders
from flm.pde.pieces.rows import System
from flm.pde.pieces.tree import Tree
from flm.series import legendre as line

MAX_STEPS = 20
PATIENCE = 9  # steps after which an iterate that still changes by half is lost
SETTLED = 1e-11  # of the answer's size: a step this small is rounding
DAMPED_STEPS = 40
UNEVEN = 1e-6  # the smallest unknown over the largest, below which the rounding of one counts in the other
AGREE = 0.1  # of its size: two answers that differ by less have found the same tiny unknown, and not rounding
SHORTEST = 1 / 256  # share of a damped step: where the residual does not fall even then, the iterate is lost


@dataclass(frozen=True, eq=False)
class Answer:
    """Coefficients of all pieces."""

    functions: Functions
    tree: Tree
    coefficients: np.ndarray  # (L, C)
    residual: float = 0.0  # the part that the rows could not meet, as a share of the answer's size
    by_piece: np.ndarray = field(default_factory=lambda: np.zeros(0))  # the same for each piece, (L,)
    misfit: float = 0.0  # the same as a share of the right-hand sides
    pivot: float = np.inf  # near zero where nothing determines the answer
    settled: bool = True  # whether Newton's steps became small
    rounding: float = 0.0  # what rounding of the rows changes in the answer, relative to its size, worst unknown

    @property
    def squares(self) -> np.ndarray:
        """The mean square of each unknown on each piece, (L, K): the functions are orthonormal."""
        found = np.stack([np.sum(self.coefficients[:, c] ** 2, axis=1) for c in self.functions.columns], axis=1)
        for leaf in map(int, np.flatnonzero(self.tree.is_cut)):
            own = leaf_functions(self.functions, self.tree, leaf).own(self.coefficients[leaf])
            found[leaf] = [np.sum(a**2) for a in own]
        return found

    @property
    def sizes(self) -> np.ndarray:
        """The root mean square of each unknown over the domain, (K,)."""
        return np.sqrt(self.tree.shares @ self.squares)

    @property
    def num_columns(self) -> int:
        """Coefficients of all pieces."""
        return num_columns(self.functions, self.tree)

    @property
    def finite(self) -> bool:
        """Whether all coefficients and their squares are finite."""
        return bool(np.isfinite(self.coefficients).all() and np.isfinite(self.sizes).all())

    def tails(self, orders: Orders | None = None) -> np.ndarray:
        """The norm of the last two coefficients along each axis over the unknown's size, worst unknown, (L, m).

        Unknowns that take no condition along any axis (of `orders`) are left out: the others determine them.
        """
        found, sizes = np.zeros((self.tree.num_leaves, self.tree.num_axes)), scale(self.sizes)
        extra, orders = self.functions.extra, orders or self.functions.orders
        for k in leaders(orders):
            shape = self.functions.shapes[k]
            block, now = self.coefficients[:, self.functions.columns[k]].reshape(-1, *shape), np.zeros_like(found)
            for j, n in enumerate(shape):
                last = np.take(block, range(max(n - extra - 2, 0), n), axis=j + 1)
                now[:, j] = np.sqrt(np.sum(last**2, axis=tuple(range(1, last.ndim))))
            for leaf in map(int, np.flatnonzero(self.tree.is_cut)):
                view = leaf_functions(self.functions, self.tree, leaf)
                now[leaf] = view.tail(k, view.own(self.coefficients[leaf])[k])
            found = np.maximum(found, now / sizes[k])
        return found

    @property
    def tail(self) -> float:
        """The largest share of the L2 norm that the last coefficients of a piece hold."""
        return float((self.tails().max(axis=1) * np.sqrt(self.tree.shares)).max())

    def evaluate(self, points: np.ndarray) -> np.ndarray:
        """Values at points (P, m), (P, K)."""
        zero, leaf = (0,) * self.tree.num_axes, self.tree.locate(points)
        return np.stack([self.derivative(k, zero, points, leaf) for k in range(len(self.functions.columns))], axis=1)

    def derivative(self, unknown: int, alpha: Alpha, points: np.ndarray, leaf: np.ndarray | None = None) -> np.ndarray:
        """D^alpha of an unknown at points (P, m), in these leaves if known, (P,); (P, Q) for coefficients (L, C, Q)."""
        leaf = self.tree.locate(points) if leaf is None else leaf
        table = table_at(self.functions, self.tree, unknown, alpha, points, leaf)
        return np.einsum("pn,pn...->p...", table, self.coefficients[leaf, self.functions.columns[unknown]])

    def at_end(self, unknown: int, order: int, points: np.ndarray) -> np.ndarray:
        """A derivative in time at the end of a slab, at points (P, m) whose time is ignored."""
        there = points.copy()
        there[:, -1] = self.tree.bounds[-1, 1]
        return self.derivative(unknown, (*(0,) * (self.tree.num_axes - 1), order), there)

    def on(self, tree: Tree, parents: np.ndarray) -> np.ndarray:
        """Coefficients of the same function on a finer tree, given the old leaf of each new one, (L', C)."""
        out = np.empty((tree.num_leaves, self.functions.num_columns))
        for leaf, parent in enumerate(parents):
            low, high = self.tree.within(tree, leaf, parent)
            for columns, shape in zip(self.functions.columns, self.functions.shapes, strict=True):
                block = self.coefficients[parent, columns].reshape(shape)
                for j, n in enumerate(shape):
                    if low[j] > -1 + 1e-12 or high[j] < 1 - 1e-12:
                        block = np.moveaxis(np.tensordot(line.restriction(n, low[j], high[j]), block, (1, j)), 0, j)
                out[leaf, columns] = block.ravel()
        return out

    def gap(self, other: Answer) -> Answer:
        """The difference of an answer with more functions on the same tree to this one."""
        own = other.functions.fitted(self.coefficients, self.functions)
        return replace(other, coefficients=other.coefficients - own)


def table_at(
    functions: Functions, tree: Tree, unknown: int, alpha: Alpha, points: np.ndarray, leaf: np.ndarray
) -> np.ndarray:
    """D^alpha of an unknown's functions at points (P, m) of these leaves (P,), (P, N_k)."""
    return line.box_table(points, tree.lower[leaf], tree.widths[leaf], functions.shapes[unknown], alpha)


def scale(sizes: np.ndarray) -> np.ndarray:
    """The unit of each unknown's errors: its own size, or the largest size where it vanishes."""
    largest = sizes.max(initial=0.0)
    return np.where(sizes > 1e-14 * largest, sizes, largest if largest > 0 else 1.0)


def relative(gaps: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Distances of two answers by unknown, (K,), in its unit: its own size, too, where it is tiny but the answers agree on it."""
    own = gaps / np.where(sizes > 0, sizes, np.inf)
    return np.where(own < AGREE, own, gaps / scale(sizes))


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """The relative root mean square difference of values (P, K) at the same points, worst unknown."""
    size = scale(np.sqrt(np.mean(expected**2, axis=0)))
    return float(np.max(np.sqrt(np.mean((found - expected) ** 2, axis=0)) / size))


def leaders(orders: Orders) -> list[int]:
    """Unknowns that take a condition along some axis; the others, such as a pressure, are determined by these."""
    return [k for k, row in enumerate(orders) if any(row) or len(orders) == 1]


def damp_system(system: System, here: np.ndarray) -> Answer:
    """The answer on one tree by damped steps: each is halved until the residual falls; full steps finish."""
    lengths = [
        np.concatenate([np.zeros(0), *(np.linalg.norm(part.rows, axis=1) for part in system.linear(sample, here))])
        for sample in system.samples
    ]
    left = _violation(system, here, lengths)
    for _ in range(DAMPED_STEPS):
        new = system.gathered(eliminate(system.assemble(here), system.sizes, system.order))
        share, trial = 1.0, np.inf
        while np.isfinite(new).all() and share >= SHORTEST:
            trial = _violation(system, here + share * (new - here), lengths)
            if trial <= (1 - share / 4) * left:
                break
            share /= 2
        # once a full step squares the residual, plain Newton steps do the rest
        if not trial <= left or (share == 1.0 and trial <= 1e-2 * left):
            break
        here, left = here + share * (new - here), trial
    return solve_system(system, here, False)


def _violation(system: System, coefficients: np.ndarray, lengths: Sequence[np.ndarray]) -> float:
    """The norm of all residuals, each divided by the length of its row."""
    total, own = 0.0, system.own(coefficients)
    for sample, length in zip(system.samples, lengths, strict=True):
        value = sample.residual.linearize(sample.points, sample.jets(own), system.parameters, sample.normals).value
        total += float(np.sum((value / np.where(length > 0, length, 1.0)) ** 2))
    return float(np.sqrt(total))


def solve_system(
    system: System,
    start: np.ndarray | None,
    is_linear: bool,
    known: dict[bytes, Front] | None = None,
) -> Answer:
    """The answer on one tree, from `start` or zero."""
    sizes_of = lambda coefficients: Answer(system.hull, system.tree, coefficients).sizes
    coefficients = system.zero if start is None else start
    settled, last = False, np.inf
    for step in range(1, MAX_STEPS + 1):
        rows = system.assemble(coefficients)
        kept = KeptFactors(rows, system.sizes, system.order, known)
        found = kept.solve([piece.right for piece in rows])
        new = system.gathered(found)
        if not np.isfinite(new).all():
            break
        change = np.max((sizes_of(new - coefficients) / scale(sizes_of(new)))[leaders(system.functions.orders)])
        coefficients = new
        if step > PATIENCE and change > 0.5:
            break
        # quadratic convergence: after a change of 1e-6 the next is rounding
        settled = bool(is_linear or change < SETTLED or (change < 1e-7 and change > 0.1 * last))
        if settled:
            break
        last = change
    coefficients = _centered(system, coefficients)
    right = float(np.sqrt(sum(np.sum(piece.right**2) for piece in rows)))
    answer = Answer(system.hull, system.tree, coefficients, pivot=kept.pivot, settled=settled)
    size = np.sqrt(np.sum(answer.squares)) or 1.0
    answer = replace(
        answer,
        residual=kept.residual / size,
        by_piece=kept.left(rows, found) / size,
        misfit=kept.residual / (right or 1.0),
    )
    if answer.finite and 0 < answer.sizes.min() < UNEVEN * answer.sizes.max():
        rows = _evened(system, rows, answer.sizes)
        kept = KeptFactors(rows, system.sizes, system.order)
        found = kept.solve([piece.right for piece in rows])
        answer = replace(answer, coefficients=_centered(system, system.gathered(found)))
    shaken = kept.solve(kept.roundings(rows, found))  # (C, DRAWS) for each piece
    draws = (system.gathered([own[:, d] for own in shaken]) for d in range(shaken[0].shape[1]))
    moved = np.max([sizes_of(_centered(system, draw)) for draw in draws], axis=0)
    return replace(answer, rounding=float(np.max((moved / scale(answer.sizes))[leaders(system.functions.orders)])))


def _evened(system: System, rows: Sequence[PieceRows], sizes: np.ndarray) -> list[PieceRows]:
    """Rows divided by what unknowns of these sizes add up to in them.

    Reflections mix rows of any size, and would carry the rounding of a large unknown into the equations of a tiny one.
    """
    found = []
    for leaf, piece in enumerate(rows):
        parts = zip(system.own_columns(leaf), sizes, strict=True)
        weight = np.sum([size * np.linalg.norm(piece.own[:, columns], axis=1) for columns, size in parts], axis=0)
        weight = np.where(weight > 0, weight, 1.0)[:, None]
        even = replace(
            piece, own=piece.own / weight, traces=piece.traces / weight, right=(piece.right.T / weight[:, 0]).T
        )
        found.append(even)
    return found


def _centered(system: System, coefficients: np.ndarray) -> np.ndarray:
    """Coefficients with the mean zero of unknowns whose constant nothing fixes."""
    for k in system.free:
        first, shape = system.hull.columns[k].start, system.tree.shape
        mean = system.tree.shares @ coefficients[:, first]
        if shape is not None:
            mean = Answer(system.hull, system.tree, coefficients).evaluate(shape.spread)[:, k].mean()
        coefficients[:, first] -= mean
    return coefficients
