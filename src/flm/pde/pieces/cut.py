"""Functions of one piece of a region: all products on a whole cell, polynomials of bounded total degree on a cut one.

Rows of a cut piece are a least-squares problem over the part inside, and its functions are made orthonormal there, lowest
degrees first: coefficients then mean what they mean in a whole piece. Their squares add up to the mean square, and what the
highest degrees hold is what a fit without them would lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import cast

import numpy as np
from scipy.linalg import solve_triangular

from flm.pde.pieces.elimination import triangle
from flm.pde.pieces.functions import Alpha, Functions, grid
from flm.pde.pieces.tree import Tree
from flm.series import legendre as line

EXTRA = 4  # total degree < n + 4 has about as many functions as products of n along each axis
OVERSAMPLED = 2.0  # equation nodes in a cut piece for each of its functions
DEPENDENT = 1e-6  # of a function's length: with less than this left by those of lower degree it only adds rounding
EASED = 4.0  # degrees for each further digit: two sizes then drop different functions, and their difference shows it


@dataclass(frozen=True, eq=False)
class LeafFunctions:
    """The functions of one piece."""

    low: np.ndarray  # lower corner of their box, (m,)
    width: np.ndarray  # of the box, (m,)
    index: tuple[np.ndarray, ...]  # for each unknown the degrees of each function along each axis, (N_k, m)
    places: tuple[np.ndarray, ...]  # where its coefficients lie among those of Legendre products, (N_k,) or (N_k, n)
    factors: tuple[
        np.ndarray | None, ...
    ]  # R: coefficients are R times those of Legendre products; None where the same
    nodes: np.ndarray  # where equations hold in a cut piece, (P, m)

    @property
    def columns(self) -> tuple[slice, ...]:
        """Where each unknown's coefficients lie among those of this piece."""
        ends = np.cumsum([0, *(len(index) for index in self.index)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @property
    def num_columns(self) -> int:
        """Coefficients of this piece."""
        return sum(places.size for places in self.places)

    def in_time(self, hull: Functions, functions: Functions) -> LeafFunctions:
        """The same functions of space times polynomials in time, whose products are `functions` instead of `hull`."""
        places = tuple(
            whole.start + (own - space.start)[:, None] * shape[-1] + np.arange(shape[-1])
            for own, space, whole, shape in zip(
                self.places, hull.columns, functions.columns, functions.shapes, strict=True
            )
        )
        return replace(self, places=places)

    def table(self, unknown: int, alpha: Alpha, points: np.ndarray) -> np.ndarray:
        """D^alpha of an unknown's functions at physical points, (P, N_k)."""
        raw = products(self.index[unknown], alpha, 2 * (points - self.low) / self.width - 1)
        raw *= float(np.prod((2 / self.width) ** np.array(alpha)))
        factor = self.factors[unknown]
        return raw if factor is None else solve_triangular(factor, raw.T, trans=1, check_finite=False).T

    def own(self, coefficients: np.ndarray) -> list[np.ndarray]:
        """Coefficients on this piece's functions, for each unknown, from those on Legendre products (C,)."""
        picked = [coefficients[places] for places in self.places]
        return [c if R is None else R @ c for c, R in zip(picked, self.factors, strict=True)]

    def spread(self, own: np.ndarray, count: int) -> np.ndarray:
        """Coefficients on Legendre products, (C,), from this piece's."""
        out = np.zeros(count, own.dtype)
        for columns, places, factor in zip(self.columns, self.places, self.factors, strict=True):
            out[places] = own[columns] if factor is None else solve_triangular(factor, own[columns], check_finite=False)
        return out

    def tail(self, unknown: int, own: np.ndarray) -> np.ndarray:
        """The length of the coefficients of the two highest degrees, along each axis of a whole piece, time last, (m,)."""
        index = self.index[unknown]
        degrees = index if self.factors[unknown] is None else np.broadcast_to(index.sum(axis=1)[:, None], index.shape)
        late = [own[:, -2:]] if own.ndim == 2 else []
        return np.array([np.linalg.norm(own[d >= d.max() - 1]) for d in degrees.T] + [*map(np.linalg.norm, late)])


def leaf_functions(functions: Functions, tree: Tree, leaf: int) -> LeafFunctions:
    """The functions of a piece of a region; kept with its cell."""
    made = tree.cells[leaf].made
    if functions not in made:
        made[functions] = _cut(functions, tree, leaf) if tree.is_cut[leaf] else _whole(functions, tree, leaf)
    return cast(LeafFunctions, made[functions])


def num_columns(functions: Functions, tree: Tree) -> int:
    """Coefficients of all pieces; at most so many, where their functions have not been made."""
    made = [cell.made.get(functions) for cell in tree.cells]
    if made and all(made):
        return sum(cast(LeafFunctions, view).num_columns for view in made)
    whole, cut = replace(functions, extra=0).num_columns, sum(len(degrees(shape)) for shape in functions.shapes)
    return int(np.where(tree.is_cut, cut, whole).sum())


def _whole(functions: Functions, tree: Tree, leaf: int) -> LeafFunctions:
    index = tuple(_tensor(tuple(n - functions.extra for n in shape)) for shape in functions.shapes)
    none = np.zeros((0, tree.num_axes))
    return LeafFunctions(
        tree.lower[leaf], tree.widths[leaf], index, _places(functions, index), (None,) * len(index), none
    )


def _cut(functions: Functions, tree: Tree, leaf: int) -> LeafFunctions:
    low, width = tree.lower[leaf], tree.widths[leaf]
    nodes = _nodes(tree, leaf, max(functions.shapes, key=lambda shape: len(degrees(shape))))
    z = 2 * (nodes - low) / width - 1
    made = {shape: _orthonormal(degrees(shape), z) for shape in set(functions.shapes)}
    index, factors = zip(*(made[shape] for shape in functions.shapes), strict=True)
    return LeafFunctions(low, width, index, _places(functions, index), factors, nodes)


def _orthonormal(index: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Functions that are independent on the points, and the triangle that makes them orthonormal there."""
    values = products(index, (0,) * z.shape[1], z) / np.sqrt(len(z))
    R = triangle(values.copy())
    least = max(10.0 ** (-(index.max() + 1) / EASED), DEPENDENT)
    sound = np.abs(np.diagonal(R)) > least * np.linalg.norm(R, axis=0)[: len(R)]
    if len(R) < len(index) or not sound.all():
        keep = np.flatnonzero(sound)
        index, R = index[keep], triangle(values[:, keep])
    return index, R * np.sign(np.diagonal(R))[:, None]


def _nodes(tree: Tree, leaf: int, shape: tuple[int, ...]) -> np.ndarray:
    """Gauss nodes of the box around a cut piece that lie inside, enough of them."""
    assert tree.shape is not None
    cell = tree.cells[leaf]
    wanted, share = OVERSAMPLED * len(degrees(shape)), max(cell.volume / float(np.prod(tree.widths[leaf])), 1e-2)
    factor = max(1.0, (wanted / share / float(np.prod(shape))) ** (1 / len(shape)))
    points = np.zeros((0, tree.num_axes))
    while len(points) < wanted and factor < 12:
        points = tree.physical(leaf, grid(tuple(int(np.ceil(factor * n)) for n in shape)))
        points = points[tree.shape.inside(points)]
        factor *= 1.2
    return points


def _places(functions: Functions, index: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    return tuple(
        columns.start + np.ravel_multi_index(tuple(rows.T), shape)
        for columns, rows, shape in zip(functions.columns, index, functions.shapes, strict=True)
    )


@lru_cache(maxsize=64)
def degrees(shape: tuple[int, ...]) -> np.ndarray:
    """Degrees (N, m) with sum of i_j / n_j below 1, lowest total degree first."""
    every = _tensor(shape)
    kept = every[(every / np.array(shape)).sum(axis=1) < 1 - 1e-12]
    return kept[np.argsort(kept.sum(axis=1), kind="stable")]


@lru_cache(maxsize=64)
def _tensor(shape: tuple[int, ...]) -> np.ndarray:
    return np.stack([g.ravel() for g in np.meshgrid(*map(np.arange, shape), indexing="ij")], axis=1)


def products(index: np.ndarray, alpha: Alpha, z: np.ndarray) -> np.ndarray:
    """Products of derivatives of Legendre functions at reference points, (P, N)."""
    out = np.ones((len(z), len(index)))
    for j, order in enumerate(alpha):
        out *= line.table(z[:, j], int(index[:, j].max()) + 1, order)[:, index[:, j]]
    return out
