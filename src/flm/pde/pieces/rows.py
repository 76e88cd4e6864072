"""What a problem asks of the pieces: rows for the equations, the conditions and the ties between neighbors.

Every row touches the coefficients of one piece and the traces on its sides, and is divided by the length of its own part. A
residual F(x, u, u_x, ...) at points of a piece is linearized there: sum over jets of F_jet D^alpha u = F_jet D^alpha u0 - F(u0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from flm.pde.pieces.count import Trace
from flm.pde.pieces.cut import LeafFunctions
from flm.pde.pieces.cut_rows import Along, Scattered, Spot, cut_ties, views_of
from flm.pde.pieces.elimination import PieceRows
from flm.pde.pieces.fields import AnyResidual
from flm.pde.pieces.functions import Alpha, Functions, Nodes, grid
from flm.pde.pieces.jumps import Fluxes, Jumps, Side
from flm.pde.pieces.places import Given, Place, Sample
from flm.pde.pieces.stages import InSpace
from flm.pde.pieces.ties import Tie, projection, share_of_mean
from flm.pde.pieces.tree import Face, Tree
from flm.series import legendre as line


@dataclass(eq=False)
class System:
    """The rows of a problem on a tree, but for the residuals' values."""

    functions: Functions  # of every piece
    tree: Tree  # the pieces
    equations: Sequence[AnyResidual | InSpace]  # residuals inside
    places: Sequence[Place]  # conditions
    parameters: np.ndarray  # the problem's numbers
    given: Sequence[Given] = ()  # values to begin with, at a pinned axis
    free: tuple[int, ...] = ()  # unknowns whose constant nothing fixes: it is zero on the first piece
    jumps: Jumps | None = None  # coefficients that jump
    along: Sequence[Along] = ()  # conditions of a region
    hull: Functions = field(init=False)  # what coefficients are written in: more functions where pieces are cut
    views: list[LeafFunctions] = field(init=False)  # the functions of each piece of a region
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
        self._fluxes = None if self.jumps is None else Fluxes(self.jumps, self.functions, self.tree)
        for face in self.tree.faces:
            self._tie(face)
        self._flux_samples = {} if self._fluxes is None else self._fluxes.samples()
        self.begin(self.given)

    def begin(self, given: Sequence[Given]) -> None:
        """Exchange the values to begin with."""
        self.given = given
        self._fixed = self._fixed_rows()

    # --- where residuals hold --------------------------------------------------------------------------------------

    def _inside(self, residual: AnyResidual | InSpace) -> Sample:
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
        ties = functions.ties[axis]
        if self.tree.is_cut[face.coarse]:
            for tie in cut_ties(self.tree, face, ties.traces, functions, self.views, self._name):
                self.ties[tie.leaf].append(tie)
            return
        for index, trace in enumerate(ties.traces):
            shape = [functions.shapes[trace.unknown][a] for a in others]
            size = int(np.prod(shape, dtype=int))
            k, order = trace.unknown, trace.order
            flux = self._fluxes if self._fluxes is not None and self._fluxes.is_flux(k, order, face) else None
            if face.fine == (face.coarse,):  # a piece that is its own neighbor around a periodic axis
                self._join(trace, axis, face.coarse)
            elif len(face.fine) == 1 or index < ties.whole[1 - face.side]:
                name = self._name((face.coarse, *face.fine), size)
                self._match(trace, axis, face.coarse, z, face.coarse, name, flux)
                for leaf in face.fine:
                    self._match(trace, axis, leaf, -z, face.coarse, name, flux)
            else:
                means = []
                for leaf in face.fine:
                    name = self._name((face.coarse, leaf), size)
                    self._match(trace, axis, leaf, -z, leaf, name, flux)
                    means.append((name, share_of_mean(self.tree, face, leaf, shape)))
                table = self._mean(trace, axis, face.coarse, z)
                side = flux.ask(k, axis, z, face.coarse) if flux else None
                self.ties[face.coarse].append(Tie(face.coarse, table, tuple(means), side, projection(tuple(shape))))

    def _name(self, leaves: tuple[int, ...], size: int) -> int:
        self.members.append(tuple(dict.fromkeys(leaves)))
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _match(self, trace: Trace, axis: int, leaf: int, z: float, owner: int, name: int, flux: Fluxes | None) -> None:
        """Rows at the Gauss nodes of a leaf's side, reference coordinate z; the trace lives on the side of `owner`."""
        tree, tables = self.tree, []
        for a, n in enumerate(self.functions.shapes[trace.unknown]):
            if a != axis:
                there = tree.low[leaf, a] + (line.gauss(n)[0] + 1) / 2 * (tree.high - tree.low)[leaf, a]
                tables.append(line.values(2 * (there - tree.low[owner, a]) / (tree.high - tree.low)[owner, a] - 1, n))
        table = reduce(np.kron, tables, np.ones((1, 1)))
        side = flux.ask(trace.unknown, axis, z, leaf) if flux else None
        self.ties[leaf].append(Tie(leaf, self._side(trace, axis, leaf, z), ((name, table),), side))

    def _join(self, trace: Trace, axis: int, leaf: int) -> None:
        """Rows that make the two sides of one leaf agree."""
        sides = zip(self._side(trace, axis, leaf, 1.0), self._side(trace, axis, leaf, -1.0), strict=True)
        self.ties[leaf].append(Tie(leaf, tuple((k, high - low) for (k, high), (_, low) in sides), ()))

    def _side(self, trace: Trace, axis: int, leaf: int, z: float) -> tuple[tuple[int, np.ndarray], ...]:
        """A trace at the Gauss nodes of a leaf's side, as rows on the unknowns' coefficients."""
        nodes = tuple(z if a == axis else n for a, n in enumerate(self.functions.shapes[trace.unknown]))
        normal = lambda order: tuple(order if a == axis else 0 for a in range(self.tree.num_axes))
        if self.tree.is_cut[leaf]:
            low, width = self.tree.low[leaf], (self.tree.high - self.tree.low)[leaf]
            points, view = low + (grid(nodes) + 1) / 2 * width, self.views[leaf]
            return tuple((k, factor * view.table(k, normal(order), points)) for k, order, factor in trace.terms)
        return tuple((k, factor * self._physical(k, normal(order), nodes, leaf)) for k, order, factor in trace.terms)

    def _mean(self, trace: Trace, axis: int, leaf: int, z: float) -> tuple[tuple[int, np.ndarray], ...]:
        """The coefficients of a trace on a leaf's side, as rows."""
        sizes, parts = self.functions.shapes[trace.unknown], []
        for k, order, factor in trace.terms:
            tables = [
                line.node_table(z, n, order) if a == axis else np.eye(sizes[a], n)
                for a, n in enumerate(self.functions.shapes[k])
            ]
            parts.append((k, factor * reduce(np.kron, tables) * (2 / self.tree.widths[leaf, axis]) ** order))
        return tuple(parts)

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

    def assemble(
        self, coefficients: np.ndarray, strength: float = 1.0, learned: Sequence[int] | None = None
    ) -> list[PieceRows]:
        """All rows, linearized at these coefficients (L, C), for the answer or for its derivatives by learned parameters."""
        blocks: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(self.tree.num_leaves)]
        linearized = lambda sample: self.linearized(sample, coefficients, strength, learned)
        for scattered in self.scattered:
            for leaf, rows, right in scattered.rows(coefficients, self.parameters, strength):
                blocks[leaf].append((rows, right))
        for sample in (sample for sample in self.samples if len(sample.leaves)):
            rows, right = linearized(sample)
            for i, leaf in enumerate(sample.leaves):
                keep = sample.keep[i]
                blocks[leaf].append((rows[i], right[i]) if keep.all() else (rows[i][keep], right[i][keep]))
        fluxes = {side: linearized(sample) for side, sample in self._flux_samples.items()}
        for leaf, fixed in enumerate(self._fixed):
            blocks[leaf] += fixed
        return [self._piece(leaf, blocks[leaf], fluxes) for leaf in range(self.tree.num_leaves)]

    def linearized(
        self, sample: Sample, coefficients: np.ndarray, strength: float = 1.0, learned: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a residual at all pieces of a sample, (B, P, C), and their right-hand sides, (B, P) or (B, P, Q)."""
        jets = self.jets(sample, coefficients)
        found = sample.linearize(jets, self.parameters, strength)
        slopes = found.by_jet.reshape(jets.shape)
        if learned is None:
            right = np.sum(slopes * jets, axis=0) - found.value.reshape(sample.points.shape[:2])
        else:  # F_u du/dp = -F_p
            right = -found.by_parameter[list(learned)].T.reshape(*sample.points.shape[:2], len(learned))
        rows = np.zeros((*sample.points.shape[:2], self.functions.num_columns))
        for (k, _), table, slope, scale in zip(
            sample.residual.jets, sample.tables, slopes, self.scales(sample), strict=True
        ):
            reference = table[sample.kinds] if len(table) > 1 else table
            rows[:, :, self.functions.columns[k]] += (slope * scale[:, None])[:, :, None] * reference
        return rows, right

    def _piece(
        self,
        leaf: int,
        blocks: list[tuple[np.ndarray, np.ndarray]],
        fluxes: dict[Side, tuple[np.ndarray, np.ndarray]],
    ) -> PieceRows:
        ties = self.ties[leaf]
        names = tuple(dict.fromkeys(name for tie in ties for name, _ in tie.traces))
        ends = np.cumsum([0, *(self.sizes[name] for name in names)])
        place = {name: slice(int(a), int(b)) for name, a, b in zip(names, ends, ends[1:], strict=False)}
        count = sum(len(right) for _, right in blocks)
        height = count + sum(tie.height for tie in ties)
        columns = self.own_columns(leaf)
        own, traces = np.zeros((height, columns[-1].stop)), np.zeros((height, ends[-1]))
        right = np.zeros((height, *(blocks[0][1].shape[1:] if blocks else ())))
        row = 0
        for rows, values in blocks:
            own[row : row + len(rows)], right[row : row + len(rows)] = rows, values
            row += len(rows)
        for tie in ties:
            part = slice(row, row + tie.height)
            if tie.side is None:
                for k, table in tie.parts:
                    own[part, columns[k]] = table
            else:
                rows, values = fluxes[replace(tie.side, index=0)]
                project = tie.mean if tie.mean is not None else np.eye(tie.height)
                own[part], right[part] = project @ rows[tie.side.index], project @ values[tie.side.index]
            for name, table in tie.traces:
                traces[part, place[name]] -= table
            row += tie.height
        length = np.sqrt(np.sum(own**2, axis=1))
        if self.tree.is_cut[leaf]:
            # Least squares: one scale for all rows of a kind, or what is steep near the boundary would count for nothing.
            ends = np.cumsum([0, *(len(values) for _, values in blocks), *(tie.height for tie in ties)])
            for part in (slice(int(a), int(b)) for a, b in pairwise(ends) if a < b):
                length[part] = np.sqrt(np.mean(length[part] ** 2))
        length = np.where(length > 0, length, 1.0)
        return PieceRows(own / length[:, None], traces / length[:, None], (right.T / length).T, names)
