"""The rows that a problem puts on the pieces: for the equations, the conditions and the ties between neighbors.

Every row touches the coefficients of one piece and the traces on its sides, and is divided by the length of its own part. A
residual F(x, u, u_x, ...) at points of a piece is linearized there: sum over jets of F_jet D^alpha u = F_jet D^alpha u0 - F(u0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from flm.pde.pieces.cut import Along, LeafFunctions, cut_ties, leaf_functions
from flm.pde.pieces.elimination import PieceRows, columns_of
from flm.pde.pieces.fields import AnyResidual, InSpace
from flm.pde.pieces.functions import Alpha, Functions, Nodes, Trace, grid
from flm.pde.pieces.jumps import Jumps
from flm.pde.pieces.places import Given, Linear, Own, Place, Sample, Spot, Tie
from flm.pde.pieces.tree import Face, Tree, projection, share_of_mean
from flm.series import legendre as line


@dataclass(eq=False)
class System:
    """The rows of a problem on a tree, except for the residuals' values."""

    functions: Functions  # of every piece
    tree: Tree  # the pieces
    equations: Sequence[AnyResidual | InSpace]  # residuals inside
    places: Sequence[Place]  # conditions
    parameters: np.ndarray  # the problem's numbers
    given: Sequence[Given] = ()  # values to begin with, at a pinned axis
    free: tuple[int, ...] = ()  # unknowns whose constant nothing fixes; it is set to zero on the first piece
    jumps: Jumps | None = None  # coefficients that jump
    along: Sequence[Along] = ()  # conditions of a region
    hull: Functions = field(init=False)  # the functions for coefficients: more of them where pieces are cut
    views: list[LeafFunctions] = field(init=False)  # the functions of each piece of a region
    samples: list[Sample] = field(init=False)  # equations first
    ties: list[list[Tie]] = field(init=False)
    members: list[tuple[int, ...]] = field(init=False)
    sizes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.hull, self.functions = self.functions, replace(self.functions, extra=0)
        self.views = [leaf_functions(self.hull, self.tree, leaf) for leaf in range(len(self.tree.cells))]
        conditions = [*map(self._on, self.places), *map(self._around, self.along)]
        self.samples = [*map(self._inside, self.equations), *(sample for sample in conditions if sample.parts)]
        self.members, self.sizes = [], []
        self.ties = [[] for _ in range(self.tree.num_leaves)]
        self._jumping = np.zeros((0, self.tree.num_leaves)) if self.jumps is None else self.jumps.values(self.tree)
        for face in self.tree.faces:
            self._tie(face)
        self.begin(self.given)

    def begin(self, given: Sequence[Given]) -> None:
        """Replace the values to begin with."""
        self.given = given
        self._fixed = self._fixed_rows()

    # --- where residuals hold --------------------------------------------------------------------------------------

    def _inside(self, residual: AnyResidual | InSpace) -> Sample:
        """An equation in all pieces: at Gauss nodes of whole ones, at the nodes of cut ones."""
        tree, nodes, spots, tables, scales = self.tree, self.functions.nodes, [], [], []
        shared = [self.functions.table(k, alpha, nodes) for k, alpha in residual.jets]
        for leaf in range(tree.num_leaves):
            is_cut = tree.is_cut[leaf]
            points = self.views[leaf].nodes if is_cut else tree.physical(leaf, grid(nodes))
            spots.append(Spot(leaf, points, np.zeros_like(points)))
            tables.append(self._tables(residual, spots[-1]) if is_cut else shared)
            scales.append(np.ones(len(shared)) if is_cut else tree.scales(leaf, residual.jets))
        return Sample(residual, spots, tables, scales)

    def _around(self, along: Along) -> Sample:
        """A condition of a region."""
        spots = [spot for spot in along.spots(self.tree, self.hull) if len(spot.points)]
        return Sample(along.residual, spots, [self._tables(along.residual, spot) for spot in spots])

    def _tables(self, residual: AnyResidual | InSpace, spot: Spot) -> list[np.ndarray]:
        return [self.views[spot.leaf].table(k, alpha, spot.points) for k, alpha in residual.jets]

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
        count = [max(functions.shapes[k][a] for k in involved) for a in range(tree.num_axes)]
        spots, tables, scales = [], [], []
        for leaf in map(int, np.flatnonzero(owns)):
            pins = self._pins(place.pinned, leaf)
            nodes = tuple(pins.get(a, count[a]) for a in range(tree.num_axes))
            points = tree.physical(leaf, grid(nodes))
            for axis, value in place.pinned.items():
                points[:, axis] = value
            normals = np.broadcast_to(place.normal, points.shape)
            own = [functions.table(k, alpha, nodes) for k, alpha in residual.jets]
            if place.keep is not None:
                keep = place.keep(points, normals)
                points, normals, own = points[keep], normals[keep], [table[keep] for table in own]
            if len(points):
                spots.append(Spot(leaf, points, normals))
                tables.append(own)
                scales.append(tree.scales(leaf, residual.jets))
        return Sample(residual, spots, tables, scales)

    def _pins(self, pinned: dict[int, float], leaf: int) -> dict[int, float]:
        """Pinned values in the coordinates of a leaf."""
        low, width = self.tree.lower[leaf], self.tree.widths[leaf]
        place = {axis: 2 * (v - low[axis]) / width[axis] - 1 for axis, v in pinned.items()}
        return {axis: round(float(np.clip(z, -1, 1)), 12) for axis, z in place.items()}

    # --- ties ------------------------------------------------------------------------------------------------------

    def _tie(self, face: Face) -> None:
        functions, axis = self.functions, face.axis
        z = 1.0 if face.side == 1 else -1.0
        ties = functions.ties[axis]
        if self.tree.is_cut[face.coarse]:
            for tie in cut_ties(self.tree, face, ties.traces, functions, self.views, self._name):
                self.ties[tie.leaf].append(tie)
            return
        for index, trace in enumerate(ties.traces):
            shape = [n for a, n in enumerate(functions.shapes[trace.unknown]) if a != axis]
            size, flows = int(np.prod(shape, dtype=int)), self._is_flux(trace, face)
            if face.fine == (face.coarse,):  # a piece that is its own neighbor around a periodic axis
                sides = zip(*(self._side(trace, axis, face.coarse, end) for end in (1.0, -1.0)), strict=True)
                parts = tuple((k, high - low) for (k, high), (_, low) in sides)
                self.ties[face.coarse].append(Tie(face.coarse, parts, ()))
            elif len(face.fine) == 1 or index < ties.whole[1 - face.side]:
                name = self._name((face.coarse, *face.fine), size)
                for leaf, end in ((face.coarse, z), *((leaf, -z) for leaf in face.fine)):
                    self._match(trace, axis, leaf, end, ((name, self._trace(trace, axis, leaf, face.coarse)),), flows)
            else:
                means = []
                for leaf in face.fine:
                    name = self._name((face.coarse, leaf), size)
                    self._match(trace, axis, leaf, -z, ((name, self._trace(trace, axis, leaf, leaf)),), flows)
                    means.append((name, share_of_mean(self.tree, face, leaf, shape)))
                self._match(trace, axis, face.coarse, z, tuple(means), flows, projection(tuple(shape)))

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
        self,
        trace: Trace,
        axis: int,
        leaf: int,
        z: float,
        traces: tuple[tuple[int, np.ndarray], ...],
        flows: bool,
        mean: np.ndarray | None = None,
    ) -> None:
        """Rows at the Gauss nodes of a leaf's side, reference coordinate z, or for the coefficients of their interpolant."""
        parts, flux = self._side(trace, axis, leaf, z), None
        if mean is not None:
            parts = tuple((k, mean @ table) for k, table in parts)
        if self.jumps is not None and flows:
            flux = self.jumps.flux(self.functions, self.tree, trace.unknown, axis, z, leaf)
        self.ties[leaf].append(Tie(leaf, parts, traces, flux, mean))

    def _trace(self, trace: Trace, axis: int, leaf: int, owner: int) -> np.ndarray:
        """A trace that lives on the side of `owner` at the Gauss nodes of a leaf's side."""
        tree, tables = self.tree, []
        for a, n in enumerate(self.functions.shapes[trace.unknown]):
            if a != axis:
                there = tree.low[leaf, a] + (line.gauss(n)[0] + 1) / 2 * tree.spans[leaf, a]
                tables.append(line.values(2 * (there - tree.low[owner, a]) / tree.spans[owner, a] - 1, n))
        return reduce(np.kron, tables, np.ones((1, 1)))

    def _side(self, trace: Trace, axis: int, leaf: int, z: float) -> tuple[tuple[int, np.ndarray], ...]:
        """A trace at the Gauss nodes of a leaf's side, as rows on the unknowns' coefficients."""
        nodes = tuple(z if a == axis else n for a, n in enumerate(self.functions.shapes[trace.unknown]))
        points = self.tree.low[leaf] + (grid(nodes) + 1) / 2 * self.tree.spans[leaf]
        table = lambda k, alpha: (
            self.views[leaf].table(k, alpha, points)
            if self.tree.is_cut[leaf]
            else self._physical(k, alpha, nodes, leaf)
        )
        normal = lambda order: tuple(order if a == axis else 0 for a in range(self.tree.num_axes))
        return tuple((k, factor * table(k, normal(order))) for k, order, factor in trace.terms)

    def _physical(self, k: int, alpha: Alpha, nodes: Nodes, leaf: int) -> np.ndarray:
        return self.functions.table(k, alpha, nodes) * self.tree.scales(leaf, [(k, alpha)])

    # --- values ----------------------------------------------------------------------------------------------------

    def _fixed_rows(self) -> list[list[tuple[np.ndarray, np.ndarray]]]:
        """Rows that are the same for all iterates: values to begin with, and constants that nothing else fixes."""
        blocks: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(self.tree.num_leaves)]
        for given in self.given:
            for leaf in range(self.tree.num_leaves):
                pins, shape = self._pins(given.pinned, leaf), self.functions.shapes[given.unknown]
                nodes = tuple(pins.get(a, n) for a, n in enumerate(shape))
                table = self._physical(given.unknown, given.alpha, nodes, leaf)
                rows = np.zeros((len(table), self.functions.num_columns))
                rows[:, self.functions.columns[given.unknown]] = table
                blocks[leaf].append((rows, given.values(self.tree.physical(leaf, grid(nodes)))))
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

    def assemble(
        self, coefficients: np.ndarray, strength: float = 1.0, learned: Sequence[int] | None = None
    ) -> list[PieceRows]:
        """All rows, linearized at these coefficients (L, C), for the answer or for its derivatives in learned parameters."""
        linear = lambda sample: self.linear(sample, coefficients, strength, learned)
        blocks: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(self.tree.num_leaves)]
        for sample in self.samples:
            for leaf, rows, right in linear(sample):
                blocks[leaf].append((rows, right))
        return [self._piece(leaf, [*blocks[leaf], *fixed], linear) for leaf, fixed in enumerate(self._fixed)]

    def linear(
        self, sample: Sample, coefficients: np.ndarray, strength: float = 1.0, learned: Sequence[int] | None = None
    ) -> Iterator[Linear]:
        """The rows of a residual at these coefficients."""
        return sample.rows(self.own(coefficients), self.own_columns, self.parameters, strength, learned)

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

    def _piece(
        self,
        leaf: int,
        blocks: list[tuple[np.ndarray, np.ndarray]],
        linear: Callable[[Sample], Iterable[Linear]],
    ) -> PieceRows:
        ties = self.ties[leaf]
        names = tuple(dict.fromkeys(name for tie in ties for name, _ in tie.traces))
        place = columns_of(names, self.sizes)
        ends = np.cumsum([0, *(len(values) for _, values in blocks), *(tie.height for tie in ties)])
        parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        columns = self.own_columns(leaf)
        own = np.zeros((ends[-1], columns[-1].stop))
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
                project = tie.mean if tie.mean is not None else np.eye(tie.height)
                own[part], right[part] = project @ rows, project @ values
            for name, table in tie.traces:
                traces[part, place[name]] -= table
        length = np.sqrt(np.sum(own**2, axis=1))
        if self.tree.is_cut[leaf]:
            # Least squares: one scale for all rows of a kind; otherwise steep parts near the boundary would count for nothing.
            for part in (part for part in parts if part.start < part.stop):
                length[part] = np.sqrt(np.mean(length[part] ** 2))
        length = np.where(length > 0, length, 1.0)
        return PieceRows(own / length[:, None], traces / length[:, None], (right.T / length).T, names)
