"""Pieces of a region: functions on the part of a piece inside it, and rows along the boundary and between cut neighbors.

A whole piece has all products of functions, a cut one polynomials of bounded total degree. Rows of a cut piece are a
least-squares problem over the part inside, and its functions are made orthonormal there, lowest degrees first: coefficients
then mean the same as in a whole piece. Their squares add up to the mean square, and what the highest degrees hold is what
a fit without them would lose. Conditions hold along the boundary, ties on those parts of faces that lie inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
from scipy.linalg import solve_triangular

from flm.domains import Piece
from flm.domains.piece import Patch
from flm.numerics.least_squares import triangular_factor
from flm.pde.pieces.fields import AnyResidual
from flm.pde.pieces.functions import Alpha, Functions, Trace, grid
from flm.pde.pieces.places import Spot, Tie
from flm.pde.pieces.shape import FLAT, Cell, Shape, Stretch
from flm.pde.pieces.tree import Face, Tree
from flm.series import legendre as line

EXTRA = 4  # total degree < n + 4 has about as many functions as products of n along each axis
OVERSAMPLED = 2.0  # equation nodes in a cut piece for each of its functions
DEPENDENT = 1e-6  # of a function's length: with less than this left by lower degrees, a function only adds rounding
EASED = 4.0  # degrees for each further digit: two sizes then drop different functions, and their difference shows it
SHORTEST = 0.3  # of a piece's width: shorter stretches of its boundary get as many points as one of this length
ACROSS = 1.4  # nodes along each axis of a curved face's box, for each trace function along it
LOOKS = {2: 144, 3: 12}  # points along each axis of a face, by the number of axes
DENSITY = 2.0  # points on a surface for each polynomial on it


@dataclass(frozen=True, eq=False)
class LeafFunctions:
    """The functions of one piece."""

    low: np.ndarray  # lower corner of their box, (m,)
    width: np.ndarray  # of the box, (m,)
    index: tuple[np.ndarray, ...]  # for each unknown the degrees of each function along each axis, (N_k, m)
    places: tuple[np.ndarray, ...]  # where its coefficients lie among those of Legendre products, (N_k,) or (N_k, n)
    # R: coefficients are R times those of Legendre products; None where they are the same
    factors: tuple[np.ndarray | None, ...]
    nodes: np.ndarray  # where equations hold in a cut piece, (P, m)

    @property
    def columns(self) -> tuple[slice, ...]:
        """The slice of each unknown's coefficients among those of this piece."""
        ends = np.cumsum([0, *(len(index) for index in self.index)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @property
    def num_columns(self) -> int:
        """The number of coefficients of this piece."""
        return sum(places.size for places in self.places)

    def in_time(self, hull: Functions, functions: Functions) -> LeafFunctions:
        """These functions of space times polynomials in time; the products are those of `functions` instead of `hull`."""
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
        """The norm of the coefficients of the two highest degrees along each axis of a whole piece, time last, (m,)."""
        index = self.index[unknown]
        degrees = index if self.factors[unknown] is None else np.broadcast_to(index.sum(axis=1)[:, None], index.shape)
        late = [own[:, -2:]] if own.ndim == 2 else []
        return np.array([np.linalg.norm(own[d >= d.max() - 1]) for d in degrees.T] + [*map(np.linalg.norm, late)])


def leaf_functions(functions: Functions, tree: Tree, leaf: int) -> LeafFunctions:
    """The functions of a piece of a region, computed once and kept with its cell."""
    made = tree.cells[leaf].made
    if functions not in made:
        made[functions] = _cut(functions, tree, leaf) if tree.is_cut[leaf] else _whole(functions, tree, leaf)
    return cast(LeafFunctions, made[functions])


def num_columns(functions: Functions, tree: Tree) -> int:
    """The number of coefficients of all pieces; an upper bound where their functions have not been made."""
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
    """The functions that are independent on the points, and the triangle that makes them orthonormal there."""
    values = products(index, (0,) * z.shape[1], z) / np.sqrt(len(z))
    R = triangular_factor(values)
    least = max(10.0 ** (-(index.max() + 1) / EASED), DEPENDENT)
    sound = np.abs(np.diagonal(R)) > least * np.linalg.norm(R, axis=0)[: len(R)]
    if len(R) < len(index) or not sound.all():
        keep = np.flatnonzero(sound)
        index, R = index[keep], triangular_factor(values[:, keep])
    return index, R * np.sign(np.diagonal(R))[:, None]


def _nodes(tree: Tree, leaf: int, shape: tuple[int, ...]) -> np.ndarray:
    """Enough Gauss nodes of the box around a cut piece that lie inside it."""
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


@dataclass(frozen=True, eq=False)
class Along:
    """A condition on a region: a residual on parts of its boundary, on planes or at points inside."""

    residual: AnyResidual
    pieces: tuple[Piece, ...]

    def spots(self, tree: Tree, functions: Functions) -> Iterator[Spot]:
        """The points in each piece where the condition holds."""
        involved = sorted({k for k, _ in self.residual.jets}) or [0]
        count = max(max(functions.shapes[k]) for k in involved)
        for piece in self.pieces:
            for patch in piece.patches:
                if piece.dimension == 0:
                    points, normals = patch.chart(np.zeros((1, 0)))
                    yield Spot(int(tree.locate(points)[0]), points, normals)
                elif tree.num_axes == 2:
                    yield from _along_arc(tree, patch, count, functions.extra)
                elif len(piece.fixed) == 1:
                    (axis,) = (piece.axes.index(name) for name in piece.fixed)
                    yield from _on_plane(tree, patch, axis, next(iter(piece.fixed.values())), count, functions.extra)
                else:
                    yield from _on_surface(tree, patch, count)


def _along_arc(tree: Tree, patch: Patch, count: int, extra: int) -> Iterator[Spot]:
    assert tree.shape is not None
    for leaf, cell in enumerate(tree.cells):
        for stretch in tree.shape.stretches(cell, patch):
            yield Spot(leaf, *stretch.at(_shares(cell, stretch, count, extra)))


def _shares(cell: Cell, stretch: Stretch, count: int, extra: int) -> np.ndarray:
    """Where rows hold along a stretch: at the Gauss nodes of a whole cell's side, or at as many points as its length needs."""
    if cell.is_cut:
        widths = stretch.length / np.max(cell.upper - cell.lower)
        return (line.gauss(int(np.ceil((count + 2) * max(widths, SHORTEST))) + 1)[0] + 1) / 2
    nodes, width = (line.gauss(count - extra)[0] + 1) / 2, cell.high - cell.low
    (start, end), _ = stretch.at(np.array([0.0, 1.0]))
    for axis in (0, 1):
        on_side = min(abs(start[axis] - cell.low[axis]), abs(start[axis] - cell.high[axis])) <= FLAT * width[axis]
        if on_side and abs(end[axis] - start[axis]) <= FLAT * width[axis]:
            other = 1 - axis
            share = (cell.low[other] + width[other] * nodes - start[other]) / (end[other] - start[other])
            return share[(share > -1e-9) & (share < 1 + 1e-9)]
    return nodes


def _on_plane(tree: Tree, patch: Patch, axis: int, value: float, count: int, extra: int) -> Iterator[Spot]:
    """Nodes of a plane face in space; a coordinate between two pieces belongs to the one that lies inward."""
    assert tree.shape is not None
    normal = patch.chart(np.full((1, len(patch.ends)), 0.5))[1]
    inward = tree.shape.aside * (normal if normal.any() else -np.ones((1, 3)))
    for leaf, cell in enumerate(tree.cells):
        along = int(np.ceil(ACROSS * count)) if cell.is_cut else count - extra
        z = 2 * (value - cell.lower[axis]) / (cell.upper - cell.lower)[axis] - 1
        if abs(z) > 1 + 1e-6:
            continue
        points = tree.physical(leaf, grid(tuple(float(z) if a == axis else along for a in range(3))))
        points[:, axis] = value
        normals = np.broadcast_to(normal, points.shape)
        mine = np.all((points - inward >= cell.low) & (points - inward <= cell.high), axis=1)
        if patch.keep is not None:
            mine &= patch.keep(points, normals)
        if mine.any():
            yield Spot(leaf, points[mine], normals[mine])


def _on_surface(tree: Tree, patch: Patch, count: int) -> Iterator[Spot]:
    """Points of a surface, spread by area, as densely as each piece's functions require."""
    assert tree.shape is not None
    drawn: dict[int, tuple[Spot, np.ndarray]] = {}
    for leaf, cell in enumerate(tree.cells):
        if cell.is_cut:
            # count² polynomials live on a sphere that fills the box, whose area is π widths².
            density = DENSITY * count**2 / (np.pi * np.max(cell.upper - cell.lower) ** 2)
            total = int(np.ceil(density * patch.measure))
            total = 1 << (total - 1).bit_length() if tree.num_leaves > 1 else total  # few sizes, drawn once each
            if total not in drawn:
                points, normals = patch.sample(total, seed=0, warp=False)
                inner = points - tree.shape.aside * normals
                drawn[total] = (Spot(leaf, points, normals), tree.locate(inner))
            everywhere, leaves = drawn[total]
            if (mine := leaves == leaf).any():
                yield Spot(leaf, everywhere.points[mine], everywhere.normals[mine])


class _Shared(NamedTuple):
    """Where two pieces touch inside the region: points of the face (P, m), and trace functions there (P, size)."""

    points: np.ndarray
    trace: np.ndarray


def _shared(tree: Tree, face: Face, fine: int, shape: tuple[int, ...]) -> Iterator[_Shared]:
    """The parts of a face that lie inside the region, for an unknown with `shape` functions along the axes."""
    assert tree.shape is not None
    cell, axis = tree.cells[fine], face.axis
    others = [a for a in range(tree.num_axes) if a != axis]
    low, high = cell.low.copy(), cell.high.copy()
    low[axis] = high[axis] = (tree.low, tree.high)[face.side][face.coarse, axis]
    n = tuple(shape[a] for a in others)
    looks = LOOKS[tree.num_axes]
    even = _between(tree.shape, low, high, axis, [(2 * np.arange(looks) + 1) / looks - 1] * len(n))
    if len(even) == looks ** len(n):
        points, index = _between(tree.shape, low, high, axis, [line.gauss(k)[0] for k in n]), _tensor(n)
    elif len(even):
        margin = (high - low) / (2 * looks)
        low, high = np.maximum(low, even.min(axis=0) - margin), np.minimum(high, even.max(axis=0) + margin)
        points = _between(tree.shape, low, high, axis, [line.gauss(int(np.ceil(ACROSS * k)))[0] for k in n])
        index = degrees(n)[: max(1, int(len(points) / 1.2))]
    if len(even) and len(points):
        z = 2 * (points[:, others] - low[others]) / (high - low)[others] - 1
        yield _Shared(points, products(index, (0,) * len(n), z))


def cut_ties(
    tree: Tree,
    face: Face,
    traces: Sequence[Trace],
    functions: Functions,
    views: Sequence[LeafFunctions],
    named: Callable[[tuple[int, ...], int], int],
) -> Iterator[Tie]:
    """Rows by which a cut piece and those behind its side agree on the parts of the face inside the region."""
    normal = lambda order: tuple(order if a == face.axis else 0 for a in range(tree.num_axes))
    for leaf in face.fine:
        found = {shape: list(_shared(tree, face, leaf, shape)) for shape in set(functions.shapes)}
        for trace in traces:
            for part in found[functions.shapes[trace.unknown]]:
                name = named((face.coarse, leaf), part.trace.shape[1])
                for own in (face.coarse, leaf):
                    parts = [(k, f * views[own].table(k, normal(order), part.points)) for k, order, f in trace.terms]
                    yield Tie(own, parts, ((name, part.trace),))


def _between(shape: Shape, low: np.ndarray, high: np.ndarray, axis: int, lines: list[np.ndarray]) -> np.ndarray:
    """Points of a grid on a plane rectangle with the region on both sides; the grid in coordinates from -1 to 1."""
    others = [a for a in range(len(low)) if a != axis]
    reference = np.stack([g.ravel() for g in np.meshgrid(*lines, indexing="ij")], axis=1)
    points = np.full((len(reference), len(low)), low[axis])
    points[:, others] = low[others] + (high - low)[others] * (reference + 1) / 2
    return points[shape.is_between(points, axis, float((high - low)[others].min()))]
