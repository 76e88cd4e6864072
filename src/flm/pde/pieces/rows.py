"""What a problem asks of the pieces: rows for the equations, the conditions and the ties between neighbors.

Every row touches the coefficients of one piece and the traces on its sides, and is divided by the length of its own part. A
residual F(x, u, u_x, ...) at points of a piece is linearized there: sum over jets of F_jet D^alpha u = F_jet D^alpha u0 - F(u0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from flm.language.arguments import Residual
from flm.pde.pieces.cut import LeafFunctions
from flm.pde.pieces.cut_rows import Along, Scattered, Spot, shared, views_of
from flm.pde.pieces.elimination import PieceRows
from flm.pde.pieces.functions import Alpha, Functions, Nodes, grid
from flm.pde.pieces.places import Given, Place, Sample, Tie
from flm.pde.pieces.tree import Face, Tree
from flm.series import legendre as line


@dataclass(eq=False)
class System:
    """The rows of a problem on a tree, but for the residuals' values.

    Args:
        functions: of every piece.
        tree: the pieces.
        equations: residuals inside.
        places: conditions.
        parameters: the problem's numbers.
        given: values to begin with, at a pinned axis.
        free: unknowns whose constant nothing fixes: it is zero on the first piece.
        along: conditions of a region.
        hull: the functions that coefficients are written in, more than `functions` where pieces are cut.
        views: the functions of each piece of a region.
    """

    functions: Functions
    tree: Tree
    equations: Sequence[Residual]
    places: Sequence[Place]
    parameters: np.ndarray
    given: Sequence[Given] = ()
    free: tuple[int, ...] = ()
    along: Sequence[Along] = ()
    hull: Functions = field(init=False)
    views: list[LeafFunctions] = field(init=False)
    scattered: list[Scattered] = field(init=False)
    samples: list[Sample] = field(init=False)
    ties: list[list[Tie]] = field(init=False)
    members: list[tuple[int, ...]] = field(init=False)
    sizes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.hull, self.functions = self.functions, replace(self.functions, extra=0)
        self.views = views_of(self.hull, self.tree) if self.tree.cells else []
        self.scattered = [Scattered(a.residual, list(a.spots(self.tree, self.hull)), self.views) for a in self.along]
        cut = [Spot(int(i), p := self.views[i].nodes, np.zeros_like(p)) for i in np.flatnonzero(self.tree.is_cut)]
        self.scattered += [Scattered(residual, cut, self.views) for residual in self.equations if cut]
        self.samples = [self._inside(residual) for residual in self.equations]
        self.samples += [sample for place in self.places if (sample := self._on(place)) is not None]
        self.members, self.sizes = [], []
        self.ties = [[] for _ in range(self.tree.num_leaves)]
        for face in self.tree.faces:
            self._tie(face)
        self._fixed = self._fixed_rows()

    # --- where residuals hold --------------------------------------------------------------------------------------

    def _inside(self, residual: Residual) -> Sample:
        leaves = np.flatnonzero(~self.tree.is_cut)
        nodes = self.functions.nodes
        reference = grid(nodes)
        shape = (len(leaves), *reference.shape)
        points = np.array([self.tree.physical(int(leaf), reference) for leaf in leaves]).reshape(shape)
        tables = [self.functions.table(k, alpha, nodes)[None] for k, alpha in residual.jets]
        kinds = np.zeros(len(leaves), int)
        return Sample(residual, leaves, points, np.zeros_like(points), tables, kinds, np.ones(points.shape[:2], bool))

    def _on(self, place: Place) -> Sample | None:
        """The pieces that a condition touches; a coordinate between two pieces belongs to the upper one."""
        tree, functions = self.tree, self.functions
        owns = np.ones(tree.num_leaves, bool)
        for axis, value in place.pinned.items():
            close = 1e-10 * tree.widths[:, axis]
            last = tree.upper[:, axis] >= tree.bounds[axis, 1] - close
            low, high = tree.lower[:, axis] - close, tree.upper[:, axis] - close
            owns &= (value >= low) & ((value < high) | (last & (value <= tree.upper[:, axis] + close)))
        leaves = np.flatnonzero(owns)
        if not len(leaves):
            return None
        involved = sorted({k for k, _ in place.residual.jets}) or [0]
        count = [max(functions.shapes[k][a] for k in involved) for a in range(tree.num_axes)]
        points, kinds, keys = [], [], {}
        for leaf in leaves:
            pins = self._pins(place.pinned, int(leaf))
            key = tuple(sorted(pins.items()))
            nodes = tuple(pins.get(a, count[a]) for a in range(tree.num_axes))
            kinds.append(keys.setdefault(key, (len(keys), nodes))[0])
            there = tree.physical(int(leaf), grid(nodes))
            for axis, value in place.pinned.items():
                there[:, axis] = value
            points.append(there)
        tables = [
            np.stack([functions.table(k, alpha, nodes) for _, nodes in keys.values()])
            for k, alpha in place.residual.jets
        ]
        points = np.stack(points)
        normals = np.broadcast_to(place.normal, points.shape)
        flat = points.reshape(-1, tree.num_axes)
        keep = np.ones(points.shape[:2], bool)
        if place.keep is not None:
            keep = place.keep(flat, normals.reshape(flat.shape)).reshape(points.shape[:2])
        return Sample(place.residual, leaves, points, normals, tables, np.array(kinds), keep)

    def _pins(self, pinned: dict[int, float], leaf: int) -> dict[int, float]:
        """Pinned values in the coordinates of a leaf."""
        low, width = self.tree.lower[leaf], self.tree.widths[leaf]
        place = {axis: 2 * (v - low[axis]) / width[axis] - 1 for axis, v in pinned.items()}
        return {axis: round(float(np.clip(z, -1, 1)), 12) for axis, z in place.items()}

    # --- ties ------------------------------------------------------------------------------------------------------

    def _tie(self, face: Face) -> None:
        functions, axis = self.functions, face.axis
        others = [a for a in range(self.tree.num_axes) if a != axis]
        z = 1.0 if face.side == 1 else -1.0
        if self.tree.is_cut[face.coarse]:
            self._tie_cut(face)
            return
        for k, orders in enumerate(functions.ties):
            shape = [functions.shapes[k][a] for a in others]
            size = int(np.prod(shape, dtype=int))
            for order in range(orders[axis]):
                if face.fine == (face.coarse,):  # a piece that is its own neighbor around a periodic axis
                    self._join(k, order, axis, face.coarse)
                    continue
                is_value = order < (orders[axis] + 1) // 2
                if len(face.fine) == 1 or is_value:
                    name = self._name((face.coarse, *face.fine), size)
                    self._match(k, order, axis, face.coarse, z, face.coarse, name)
                    for leaf in face.fine:
                        self._match(k, order, axis, leaf, -z, face.coarse, name)
                    continue
                means = []
                for leaf in face.fine:
                    name = self._name((face.coarse, leaf), size)
                    self._match(k, order, axis, leaf, -z, leaf, name)
                    means.append((name, self._share_of_mean(face, leaf, others, shape)))
                self.ties[face.coarse].append(
                    Tie(face.coarse, k, self._mean(k, order, axis, face.coarse, z), tuple(means))
                )

    def _tie_cut(self, face: Face) -> None:
        """A cut piece and those behind its side agree on the parts of the face that lie inside the region."""
        for k, orders in enumerate(self.functions.ties):
            for leaf in face.fine:
                for part in shared(self.tree, face, leaf, self.functions.shapes[k]):
                    for order in range(orders[face.axis]):
                        alpha = tuple(order if a == face.axis else 0 for a in range(self.tree.num_axes))
                        name = self._name((face.coarse, leaf), part.trace.shape[1])
                        for own in (face.coarse, leaf):
                            table = self.views[own].table(k, alpha, part.points)
                            self.ties[own].append(Tie(own, k, table, ((name, part.trace),)))

    def _name(self, leaves: tuple[int, ...], size: int) -> int:
        self.members.append(tuple(dict.fromkeys(leaves)))
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _match(self, k: int, order: int, axis: int, leaf: int, z: float, owner: int, name: int) -> None:
        """Rows at the Gauss nodes of a leaf's side, reference coordinate z; the trace lives on the side of `owner`."""
        tree, shape = self.tree, self.functions.shapes[k]
        nodes = tuple(z if a == axis else n for a, n in enumerate(shape))
        alpha = tuple(order if a == axis else 0 for a in range(tree.num_axes))
        tables = []
        for a, n in enumerate(shape):
            if a != axis:
                there = tree.low[leaf, a] + (line.gauss(n)[0] + 1) / 2 * (tree.high - tree.low)[leaf, a]
                tables.append(line.values(2 * (there - tree.low[owner, a]) / (tree.high - tree.low)[owner, a] - 1, n))
        trace = reduce(np.kron, tables, np.ones((1, 1)))
        if tree.is_cut[leaf]:
            points = tree.low[leaf] + (grid(nodes) + 1) / 2 * (tree.high - tree.low)[leaf]
            table = self.views[leaf].table(k, alpha, points)
        else:
            table = self._physical(k, alpha, nodes, leaf)
        self.ties[leaf].append(Tie(leaf, k, table, ((name, trace),)))

    def _join(self, k: int, order: int, axis: int, leaf: int) -> None:
        """Rows that make the two sides of one leaf agree."""
        shape = self.functions.shapes[k]
        alpha = tuple(order if a == axis else 0 for a in range(self.tree.num_axes))
        high, low = (
            self._physical(k, alpha, tuple(z if a == axis else n for a, n in enumerate(shape)), leaf)
            for z in (1.0, -1.0)
        )
        self.ties[leaf].append(Tie(leaf, k, high - low, ()))

    def _mean(self, k: int, order: int, axis: int, leaf: int, z: float) -> np.ndarray:
        """The coefficients of a normal derivative on a leaf's side, as rows."""
        shape = self.functions.shapes[k]
        tables = [line.node_table(z, n, order) if a == axis else np.eye(n) for a, n in enumerate(shape)]
        return reduce(np.kron, tables) * (2 / self.tree.widths[leaf, axis]) ** order

    def _share_of_mean(self, face: Face, leaf: int, others: list[int], shape: list[int]) -> np.ndarray:
        """What a trace on a fine side adds to the coefficients on the coarse one, (size, size)."""
        tree, parts = self.tree, []
        for a, n in zip(others, shape, strict=True):
            low, high = (
                float(2 * (end[leaf, a] - tree.lower[face.coarse, a]) / tree.widths[face.coarse, a] - 1)
                for end in (tree.lower, tree.upper)
            )
            parts.append((high - low) / 2 * line.restriction(n, low, high).T)
        return reduce(np.kron, parts, np.ones((1, 1)))

    def _physical(self, k: int, alpha: Alpha, nodes: Nodes, leaf: int) -> np.ndarray:
        return self.functions.table(k, alpha, nodes) * float(np.prod((2 / self.tree.widths[leaf]) ** np.array(alpha)))

    # --- values ----------------------------------------------------------------------------------------------------

    def _fixed_rows(self) -> list[list[tuple[np.ndarray, np.ndarray]]]:
        """Rows that no iterate changes: values to begin with, and constants that nothing else fixes."""
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
        """Where each unknown's coefficients lie among those of a piece."""
        return self.views[leaf].columns if self.views else self.functions.columns

    def gathered(self, found: Sequence[np.ndarray]) -> np.ndarray:
        """Coefficients of all pieces in the functions of the hull, (L, C), from those of each in its own."""
        if not self.views:
            return np.stack(found)
        return np.stack([v.spread(c, self.hull.num_columns) for v, c in zip(self.views, found, strict=True)])

    def scales(self, sample: Sample) -> np.ndarray:
        """What turns reference derivatives into physical ones, (A, B)."""
        inverse = 2 / self.tree.widths[sample.leaves]
        return np.stack([np.prod(inverse ** np.array(alpha), axis=1) for _, alpha in sample.residual.jets])

    def jets(self, sample: Sample, coefficients: np.ndarray) -> np.ndarray:
        """Derivatives at a sample's points, (A, B, P)."""
        scales, out = self.scales(sample), []
        for (k, _), table, scale in zip(sample.residual.jets, sample.tables, scales, strict=True):
            places = self.views[sample.leaves[0]].places[k] if self.views else self.functions.columns[k]
            own = coefficients[sample.leaves][:, places]
            shared = len(table) == 1
            values = own @ table[0].T if shared else np.einsum("bpn,bn->bp", table[sample.kinds], own)
            out.append(values * scale[:, None])
        return np.stack(out) if out else np.zeros((0, *sample.points.shape[:2]))

    def assemble(self, coefficients: np.ndarray) -> list[PieceRows]:
        """All rows, linearized at these coefficients."""
        blocks: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(self.tree.num_leaves)]
        for scattered in self.scattered:
            for leaf, rows, right in scattered.rows(coefficients, self.parameters):
                blocks[leaf].append((rows, right))
        for sample in self.samples:
            if not len(sample.leaves):
                continue
            m = self.tree.num_axes
            jets = self.jets(sample, coefficients)
            found = sample.residual.linearize(
                sample.points.reshape(-1, m),
                jets.reshape(len(jets), -1),
                self.parameters,
                sample.normals.reshape(-1, m),
            )
            value = found.value.reshape(sample.points.shape[:2])
            slopes = found.by_jet.reshape(jets.shape)
            right = np.sum(slopes * jets, axis=0) - value
            scales = self.scales(sample)
            for i, leaf in enumerate(sample.leaves):
                rows = np.zeros((sample.points.shape[1], self.functions.num_columns))
                for (k, _), table, slope, scale in zip(
                    sample.residual.jets, sample.tables, slopes, scales, strict=True
                ):
                    rows[:, self.functions.columns[k]] += (slope[i] * scale[i])[:, None] * table[sample.kinds[i]]
                keep = sample.keep[i]
                blocks[leaf].append((rows[keep], right[i][keep]))
        for leaf, fixed in enumerate(self._fixed):
            blocks[leaf] += fixed
        return [self._piece(leaf, blocks[leaf]) for leaf in range(self.tree.num_leaves)]

    def _piece(self, leaf: int, blocks: list[tuple[np.ndarray, np.ndarray]]) -> PieceRows:
        ties = self.ties[leaf]
        names = tuple(dict.fromkeys(name for tie in ties for name, _ in tie.traces))
        ends = np.cumsum([0, *(self.sizes[name] for name in names)])
        place = {name: slice(int(a), int(b)) for name, a, b in zip(names, ends, ends[1:], strict=False)}
        count = sum(len(right) for _, right in blocks)
        height = count + sum(len(tie.table) for tie in ties)
        own, traces, right = (
            np.zeros((height, self.own_columns(leaf)[-1].stop)),
            np.zeros((height, ends[-1])),
            np.zeros(height),
        )
        row = 0
        for rows, values in blocks:
            own[row : row + len(rows)], right[row : row + len(rows)] = rows, values
            row += len(rows)
        for tie in ties:
            part = slice(row, row + len(tie.table))
            own[part, self.own_columns(leaf)[tie.unknown]] = tie.table
            for name, table in tie.traces:
                traces[part, place[name]] -= table
            row += len(tie.table)
        length = np.sqrt(np.sum(own**2, axis=1))
        if self.tree.is_cut[leaf]:
            # Least squares: one scale for all rows of a kind, or what is steep near the boundary would count for nothing.
            first = 0
            for height in [*(len(values) for _, values in blocks), *(len(tie.table) for tie in ties)]:
                part = slice(first, first + height)
                length[part] = np.sqrt(np.mean(length[part] ** 2)) if height else 1.0
                first += height
        length = np.where(length > 0, length, 1.0)
        return PieceRows(own / length[:, None], traces / length[:, None], right / length, names)
