"""The rows that a problem puts on the pieces: for the equations, the conditions and the ties between neighbors.

Every row touches the coefficients of one piece and the traces on its sides, and is divided by the length of its own part. A
residual F(x, u, u_x, ...) at points of a piece is linearized there: sum over jets of F_jet D^alpha u = F_jet D^alpha u0 - F(u0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from flm.pde.pieces.cut import Along, LeafFunctions, cut_ties, leaf_functions
from flm.pde.pieces.elimination import Order, PieceRows, columns_of, plan
from flm.pde.pieces.fields import AnyResidual
from flm.pde.pieces.functions import Alpha, Functions, Nodes, Trace, grid
from flm.pde.pieces.places import Jumps, Linear, NamedTable, Own, Place, Sample, Spot, Tie
from flm.pde.pieces.tree import Face, Tree, projection, share_of_mean
from flm.series import legendre as line

if TYPE_CHECKING:
    from flm.pde.pieces.newton import Answer

INSIDE = 1e-13  # of a piece's width: how far inside its own side a flux looks its coefficient up

Block = tuple[np.ndarray, np.ndarray]  # rows on a piece's own columns, (P, C), and right-hand sides, (P,) or (P, Q)


@dataclass(eq=False)
class System:
    """The rows of a problem on a tree, except for the residuals' values."""

    functions: Functions  # of every piece
    tree: Tree  # the pieces
    equations: Sequence[AnyResidual]  # residuals inside
    places: Sequence[Place]  # conditions
    parameters: np.ndarray  # the problem's numbers
    before: Answer | None = None  # the slab before, whose end is the beginning
    free: tuple[int, ...] = ()  # unknowns whose constant nothing fixes; it is set to zero on the first piece
    jumps: Jumps | None = None  # coefficients that jump
    along: Sequence[Along] = ()  # conditions of a region
    hull: Functions = field(init=False)  # the functions for coefficients: more of them where pieces are cut
    views: list[LeafFunctions] = field(init=False)  # the functions of each piece of a region
    samples: list[Sample] = field(init=False)  # equations first
    ties: list[list[Tie]] = field(init=False)
    members: list[tuple[int, ...]] = field(init=False)  # the pieces that each trace touches
    sizes: list[int] = field(init=False)  # the number of its columns

    def __post_init__(self) -> None:
        self.hull, self.functions = self.functions, replace(self.functions, extra=0)
        self.views = [leaf_functions(self.hull, self.tree, leaf) for leaf in range(len(self.tree.cells))]
        conditions = [*map(self._on, self.places), *map(self._around, self.along)]
        self.samples = [*map(self._inside, self.equations), *(sample for sample in conditions if sample.spots)]
        self.members, self.sizes = [], []
        self.ties = [[] for _ in range(self.tree.num_leaves)]
        self._jumping = np.zeros((0, self.tree.num_leaves)) if self.jumps is None else self.jumps.values(self.tree)
        for face in self.tree.faces:
            self._tie(face)
        self.begin(self.before)

    def begin(self, before: Answer | None) -> None:
        """Replace the slab before."""
        self.before = before
        self._fixed = self._fixed_rows()

    @cached_property
    def order(self) -> Order:
        """The order in which pieces are merged."""
        return plan(self.members, self.sizes, self.tree.num_leaves)

    @property
    def zero(self) -> np.ndarray:
        """Coefficients that are zero, (L, C)."""
        return np.zeros((self.tree.num_leaves, self.hull.num_columns))

    # --- where residuals hold --------------------------------------------------------------------------------------

    def _inside(self, residual: AnyResidual) -> Sample:
        """An equation in all pieces: at Gauss nodes of whole ones, at the nodes of cut ones."""
        spots, still = [], np.zeros(self.tree.num_axes)
        for leaf, is_cut in enumerate(self.tree.is_cut):
            if is_cut:
                nodes = self.views[leaf].nodes
                spots.append(self._anywhere(residual, Spot(leaf, nodes, np.zeros_like(nodes))))
            else:
                spots.append(self._on_grid(residual, leaf, self.functions.nodes, still))
        return Sample(residual, spots)

    def _around(self, along: Along) -> Sample:
        """A condition of a region."""
        spots = [spot for spot in along.spots(self.tree, self.hull) if len(spot.points)]
        return Sample(along.residual, [self._anywhere(along.residual, spot) for spot in spots])

    def _anywhere(self, residual: AnyResidual, spot: Spot) -> Spot:
        """A spot in a piece of a region with its tables."""
        tables = [self.views[spot.leaf].table(k, alpha, spot.points) for k, alpha in residual.jets]
        return spot._replace(tables=tables, scales=np.ones(len(tables)))

    def _on_grid(self, residual: AnyResidual, leaf: int, nodes: Nodes, normal: np.ndarray) -> Spot:
        """A grid of nodes in a whole piece with its tables."""
        points = self.tree.physical(leaf, grid(nodes))
        tables = [self.functions.table(k, alpha, nodes) for k, alpha in residual.jets]
        return Spot(leaf, points, np.broadcast_to(normal, points.shape), tables, self.tree.scales(leaf, residual.jets))

    def _on(self, place: Place) -> Sample:
        """A condition on the pieces that it touches; a coordinate between two pieces belongs to the upper one."""
        tree, functions, residual = self.tree, self.functions, place.residual
        owns = np.ones(tree.num_leaves, bool)
        for axis, value in place.pinned.items():
            close = 1e-10 * tree.widths[:, axis]
            last = tree.upper[:, axis] >= tree.bounds[axis, 1] - close
            low, high = tree.lower[:, axis] - close, tree.upper[:, axis] - close
            owns &= (value >= low) & ((value < high) | (last & (value <= tree.upper[:, axis] + close)))
        involved = sorted({k for k, _ in residual.jets}) or [0]
        spots = []
        for leaf in map(int, np.flatnonzero(owns)):
            z = {a: 2 * (v - tree.lower[leaf, a]) / tree.widths[leaf, a] - 1 for a, v in place.pinned.items()}
            pins = {axis: round(float(np.clip(at, -1, 1)), 12) for axis, at in z.items()}
            counts = (max(functions.shapes[k][a] for k in involved) for a in range(tree.num_axes))
            spot = self._on_grid(residual, leaf, tuple(pins.get(a, n) for a, n in enumerate(counts)), place.normal)
            for axis, value in place.pinned.items():
                spot.points[:, axis] = value
            if place.keep is not None:
                keep = place.keep(spot.points, spot.normals)
                kept = [table[keep] for table in spot.tables]
                spot = spot._replace(points=spot.points[keep], normals=spot.normals[keep], tables=kept)
            if len(spot.points):
                spots.append(spot)
        return Sample(residual, spots)

    # --- ties ------------------------------------------------------------------------------------------------------

    def _tie(self, face: Face) -> None:
        functions, axis = self.functions, face.axis
        ties = functions.ties[axis]
        if self.tree.is_cut[face.coarse]:
            for tie in cut_ties(self.tree, face, ties.traces, functions, self.views, self._name):
                self.ties[tie.leaf].append(tie)
            return
        for index, trace in enumerate(ties.traces):
            shape = [n for a, n in enumerate(functions.shapes[trace.unknown]) if a != axis]
            size = int(np.prod(shape, dtype=int))
            if face.fine == (face.coarse,):  # a piece that is its own neighbor around a periodic axis
                sides = zip(*(self._side(trace, axis, face.coarse, end) for end in (1.0, -1.0)), strict=True)
                parts = [(k, high - low) for (k, high), (_, low) in sides]
                self.ties[face.coarse].append(Tie(face.coarse, parts, ()))
            elif len(face.fine) == 1 or index < ties.whole[1 - face.side]:
                name = self._name((face.coarse, *face.fine), size)
                for leaf in (face.coarse, *face.fine):
                    self._match(trace, face, leaf, ((name, self._trace(trace, axis, leaf, face.coarse)),))
            else:
                means = []
                for leaf in face.fine:
                    name = self._name((face.coarse, leaf), size)
                    self._match(trace, face, leaf, ((name, self._trace(trace, axis, leaf, leaf)),))
                    means.append((name, share_of_mean(self.tree, face, leaf, shape)))
                self._match(trace, face, face.coarse, tuple(means), projection(tuple(shape)))

    def _name(self, leaves: tuple[int, ...], size: int) -> int:
        """The number of a new trace that some pieces share."""
        self.members.append(tuple(dict.fromkeys(leaves)))
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _is_flux(self, trace: Trace, face: Face) -> bool:
        """Whether a trace on a face is the flux of its unknown: where a coefficient jumps there, but not in time."""
        k, last = trace.unknown, self.functions.orders[trace.unknown][face.axis] - 1
        if self.jumps is None or k not in self.jumps.fluxes or self.jumps.axes[face.axis] == "t" or trace.order != last:
            return False
        return bool(np.any(self._jumping[:, face.fine] != self._jumping[:, [face.coarse]]))

    def _match(
        self, trace: Trace, face: Face, leaf: int, traces: Sequence[NamedTable], mean: np.ndarray | None = None
    ) -> None:
        """Rows at the Gauss nodes of a leaf's side of a face, or for the coefficients of their interpolant."""
        axis, z = face.axis, 1.0 if (face.side == 1) == (leaf == face.coarse) else -1.0
        parts, flux = self._side(trace, axis, leaf, z), None
        if mean is not None:
            parts = [(k, mean @ table) for k, table in parts]
        if self.jumps is not None and self._is_flux(trace, face):
            residual = self.jumps.fluxes[trace.unknown]
            spot = self._on_grid(residual, leaf, self._side_nodes(trace, axis, z), np.eye(self.tree.num_axes)[axis])
            at = spot.points[:, axis]
            at -= z * max(INSIDE * self.tree.widths[leaf, axis], 4 * np.spacing(abs(at[0])))
            flux = Sample(residual, [spot])
        self.ties[leaf].append(Tie(leaf, parts, traces, flux, mean))

    def _trace(self, trace: Trace, axis: int, leaf: int, owner: int) -> np.ndarray:
        """A trace that lives on the side of `owner` at the Gauss nodes of a leaf's side."""
        tree, tables = self.tree, []
        for a, n in enumerate(self.functions.shapes[trace.unknown]):
            if a != axis:
                there = tree.low[leaf, a] + (line.gauss(n)[0] + 1) / 2 * tree.spans[leaf, a]
                tables.append(line.values(2 * (there - tree.low[owner, a]) / tree.spans[owner, a] - 1, n))
        return reduce(np.kron, tables, np.ones((1, 1)))

    def _side_nodes(self, trace: Trace, axis: int, z: float) -> Nodes:
        """The Gauss nodes of a side with reference coordinate z."""
        return tuple(z if a == axis else n for a, n in enumerate(self.functions.shapes[trace.unknown]))

    def _side(self, trace: Trace, axis: int, leaf: int, z: float) -> Sequence[NamedTable]:
        """A trace at the Gauss nodes of a leaf's side, as rows on the unknowns' coefficients."""
        nodes, across = self._side_nodes(trace, axis, z), np.eye(self.tree.num_axes, dtype=int)[axis]
        alpha = lambda order: tuple((order * across).tolist())
        return [(k, factor * self._physical(k, alpha(order), nodes, leaf)) for k, order, factor in trace.terms]

    def _physical(self, k: int, alpha: Alpha, nodes: Nodes, leaf: int) -> np.ndarray:
        """D^alpha of an unknown's functions on a grid of nodes in a piece's cell, (P, N_k)."""
        if self.tree.is_cut[leaf]:
            points = self.tree.low[leaf] + (grid(nodes) + 1) / 2 * self.tree.spans[leaf]
            return self.views[leaf].table(k, alpha, points)
        return self.functions.table(k, alpha, nodes) * self.tree.scales(leaf, [(k, alpha)])

    # --- values ----------------------------------------------------------------------------------------------------

    def _fixed_rows(self) -> list[list[Block]]:
        """Rows that are the same for all iterates: the end of the slab before, and constants that nothing else fixes."""
        blocks: list[list[Block]] = [[] for _ in range(self.tree.num_leaves)]
        slab, last = self.before, self.tree.num_axes - 1
        orders = enumerate(row[last] if slab else 0 for row in self.functions.orders)
        for k, order in ((k, order) for k, count in orders for order in range(count)):
            assert slab is not None
            nodes, alpha = (*self.functions.shapes[k][:last], -1.0), (*(0,) * last, order)
            for leaf, block in enumerate(blocks):
                points = self.tree.physical(leaf, grid(nodes))
                rows = np.zeros((len(points), self.functions.num_columns))
                rows[:, self.functions.columns[k]] = self._physical(k, alpha, nodes, leaf)
                block.append((rows, slab.at_end(k, order, points)))
        for k in self.free:
            row = np.zeros((1, self.own_columns(0)[-1].stop))
            row[0, self.own_columns(0)[k].start] = 1.0
            blocks[0].append((row, np.zeros(1)))
        return blocks

    def own_columns(self, leaf: int) -> tuple[slice, ...]:
        """The slice of each unknown's coefficients among those of a piece."""
        return self.views[leaf].columns if self.views else self.functions.columns

    def gathered(self, found: Sequence[np.ndarray]) -> np.ndarray:
        """Coefficients of all pieces in the functions of the hull, (L, C), from those of each in its own."""
        if not self.views:
            return np.stack(found)
        return np.stack([v.spread(c, self.hull.num_columns) for v, c in zip(self.views, found, strict=True)])

    def own(self, coefficients: np.ndarray) -> Own:
        """Coefficients (L, C) as those of each piece in its own functions, for each unknown."""
        if self.views:
            return lambda leaf: self.views[leaf].own(coefficients[leaf])
        return lambda leaf: [coefficients[leaf, columns] for columns in self.functions.columns]

    def assemble(self, coefficients: np.ndarray, learned: Sequence[int] | None = None) -> list[PieceRows]:
        """All rows, linearized at these coefficients (L, C), for the answer or for its derivatives in learned parameters."""
        linear = lambda sample: self.linear(sample, coefficients, learned)
        blocks: list[list[Block]] = [[] for _ in range(self.tree.num_leaves)]
        for sample in self.samples:
            for leaf, rows, right in linear(sample):
                blocks[leaf].append((rows, right))
        return [self.piece(leaf, block, linear) for leaf, block in enumerate(blocks)]

    def linear(
        self, sample: Sample, coefficients: np.ndarray, learned: Sequence[int] | None = None
    ) -> Iterator[Linear]:
        """The rows of a residual at these coefficients."""
        return sample.rows(self.own(coefficients), self.own_columns, self.parameters, learned)

    def unmet(self, coefficients: np.ndarray) -> float:
        """The share of their terms that equations and conditions leave, root mean square over all points.

        Rows are scaled to unit length, so that a thin layer, with its large second derivatives, hides a contradiction.
        """
        left, size = 0.0, 0.0
        for sample in self.samples:
            jets = sample.jets(self.own(coefficients))
            found = sample.residual.linearize(sample.points, jets, self.parameters, sample.normals)
            terms = found.by_jet * jets
            whole = np.abs(terms).sum(axis=0) + np.abs(found.value - terms.sum(axis=0))
            left, size = left + float(np.sum(found.value**2)), size + float(np.sum(whole**2))
        return float(np.sqrt(left / (size or 1.0)))

    def piece(
        self, leaf: int, blocks: Sequence[Block], linear: Callable[[Sample], Iterable[Linear]] = lambda sample: ()
    ) -> PieceRows:
        """The rows of a piece: those of the residuals, then fixed ones and ties; `linear` gives those of fluxes."""
        blocks, ties, columns = [*blocks, *self._fixed[leaf]], self.ties[leaf], self.own_columns(leaf)
        names = tuple(dict.fromkeys(name for tie in ties for name, _ in tie.traces))
        place = columns_of(names, self.sizes)
        ends = np.cumsum([0, *(len(rows) for rows, _ in blocks), *(len(tie.parts[0][1]) for tie in ties)]).tolist()
        parts = [slice(a, b) for a, b in pairwise(ends)]
        own = np.zeros((ends[-1], columns[-1].stop), np.result_type(float, *(rows.dtype for rows, _ in blocks)))
        traces = np.zeros((ends[-1], sum(self.sizes[name] for name in names)))
        right = np.zeros((ends[-1], *(blocks[0][1].shape[1:] if blocks else ())))
        for part, (rows, values) in zip(parts, blocks, strict=False):
            own[part], right[part] = rows, values
        for part, tie in zip(parts[len(blocks) :], ties, strict=True):
            if tie.flux is None:
                for k, table in tie.parts:
                    own[part, columns[k]] = table
            else:
                ((_, rows, values),) = linear(tie.flux)
                project = tie.mean if tie.mean is not None else np.eye(len(rows))
                own[part], right[part] = project @ rows, project @ values
            for name, table in tie.traces:
                traces[part, place[name]] -= table
        lengths = np.linalg.norm(own, axis=1)
        if self.tree.is_cut[leaf]:
            # Least squares: one scale for all rows of a kind; otherwise steep parts near the boundary would count for nothing.
            for part in (part for part in parts if part.start < part.stop):
                lengths[part] = np.sqrt(np.mean(lengths[part] ** 2))
        lengths = np.where(lengths > 0, lengths, 1.0)
        return PieceRows(own / lengths[:, None], traces / lengths[:, None], (right.T / lengths).T, names, lengths)
