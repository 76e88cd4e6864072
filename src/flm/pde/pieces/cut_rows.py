"""Rows on a region: equations at the nodes of cut pieces, conditions along the boundary, ties where faces lie inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flm.domains import Piece
from flm.domains.piece import Patch
from flm.pde.pieces.count import Trace
from flm.pde.pieces.cut import LeafFunctions, degrees, products
from flm.pde.pieces.fields import AnyResidual, InSpace
from flm.pde.pieces.functions import Functions, grid
from flm.pde.pieces.places import Spot, Tie
from flm.pde.pieces.shape import FLAT, Cell, Shape, Stretch
from flm.pde.pieces.tree import Face, Tree
from flm.series import legendre as line

SHORTEST = 0.3  # of a piece's width: shorter stretches of its boundary get as many points as one of this length
ACROSS = 1.4  # nodes along each axis of a curved face's box, for each trace function along it
DENSITY = 2.0  # points on a surface for each polynomial on it


@dataclass(frozen=True, eq=False)
class Along:
    """A condition on a region: a residual on parts of its boundary, on planes or at points inside."""

    residual: AnyResidual | InSpace
    pieces: tuple[Piece, ...]

    def spots(self, tree: Tree, functions: Functions) -> Iterator[Spot]:
        """Where it holds in each piece."""
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
    """Where rows hold along a stretch: at the Gauss nodes of a whole cell's side, or as many as its length asks for."""
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
    """Points of a surface, spread by area, as densely as each piece's functions ask for."""
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


class Shared(NamedTuple):
    """Where two pieces touch inside the region: points of the face (P, m), and trace functions there (P, size)."""

    points: np.ndarray
    trace: np.ndarray


def _shared(tree: Tree, face: Face, fine: int, shape: tuple[int, ...]) -> Iterator[Shared]:
    """The parts of a face that lie inside the region, for an unknown with so many functions along each axis."""
    assert tree.shape is not None
    cell, axis = tree.cells[fine], face.axis
    others = [a for a in range(tree.num_axes) if a != axis]
    low, high = cell.low.copy(), cell.high.copy()
    low[axis] = high[axis] = (tree.low, tree.high)[face.side][face.coarse, axis]
    n = tuple(shape[a] for a in others)
    if tree.num_axes == 2:
        marks = np.concatenate([tree.cells[leaf].marks for leaf in (fine, face.coarse)])
        near = np.abs(marks[:, axis] - low[axis]) <= 1e-4 * (cell.high - cell.low)[axis]
        for a, b in _inside(tree.shape, low, high, axis, marks[near, others[0]]):
            points = np.full((n[0], 2), low[axis])
            points[:, others[0]] = a + (b - a) * (line.gauss(n[0])[0] + 1) / 2
            yield Shared(points, line.values(line.gauss(n[0])[0], n[0]))
        return
    even = _between(tree.shape, low, high, axis, [(np.arange(12) + 0.5) / 6 - 1] * 2)
    if len(even) == 144:
        points, index = _between(tree.shape, low, high, axis, [line.gauss(k)[0] for k in n]), np.array([*np.ndindex(n)])
    elif len(even):
        margin = (high - low) / 24
        low, high = np.maximum(low, even.min(axis=0) - margin), np.minimum(high, even.max(axis=0) + margin)
        points = _between(tree.shape, low, high, axis, [line.gauss(int(np.ceil(ACROSS * k)))[0] for k in n])
        index = degrees(n)[: max(1, int(len(points) / 1.2))]
    if len(even) and len(points):
        z = 2 * (points[:, others] - low[others]) / (high - low)[others] - 1
        yield Shared(points, products(index, (0, 0), z))


def cut_ties(
    tree: Tree,
    face: Face,
    traces: Sequence[Trace],
    functions: Functions,
    views: Sequence[LeafFunctions],
    named: Callable[[tuple[int, ...], int], int],
) -> Iterator[Tie]:
    """A cut piece and those behind its side agree on the parts of the face that lie inside the region."""
    normal = lambda order: tuple(order if a == face.axis else 0 for a in range(tree.num_axes))
    for leaf in face.fine:
        found = {shape: list(_shared(tree, face, leaf, shape)) for shape in set(functions.shapes)}
        for trace in traces:
            for part in found[functions.shapes[trace.unknown]]:
                name = named((face.coarse, leaf), part.trace.shape[1])
                for own in (face.coarse, leaf):
                    parts = [(k, f * views[own].table(k, normal(order), part.points)) for k, order, f in trace.terms]
                    yield Tie(own, tuple(parts), ((name, part.trace),))


def _inside(shape: Shape, low: np.ndarray, high: np.ndarray, axis: int, marks: np.ndarray) -> list[tuple[float, float]]:
    """The parts of a straight face, which the boundary crosses at some marks, that have the region on both sides."""
    first, last = low[1 - axis], high[1 - axis]
    ends = np.array([first, *sorted(mark for mark in marks if first < mark < last), last])
    middle = np.full((len(ends) - 1, 2), low[axis])
    middle[:, 1 - axis] = (ends[1:] + ends[:-1]) / 2
    change = np.diff(np.concatenate([[0], shape.is_between(middle, axis), [0]]).astype(int))
    parts = zip(ends[change == 1], ends[change == -1], strict=True)
    return [(float(a), float(b)) for a, b in parts if b - a > 1e-6 * (last - first)]


def _between(shape: Shape, low: np.ndarray, high: np.ndarray, axis: int, lines: list[np.ndarray]) -> np.ndarray:
    """Points of a grid on a plane rectangle with the region on both sides; the grid in coordinates from -1 to 1."""
    others = [a for a in range(len(low)) if a != axis]
    reference = np.stack([g.ravel() for g in np.meshgrid(*lines, indexing="ij")], axis=1)
    points = np.full((len(reference), len(low)), low[axis])
    points[:, others] = low[others] + (high - low)[others] * (reference + 1) / 2
    return points[shape.is_between(points, axis)]
