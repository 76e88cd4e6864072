"""From a problem to what the pieces need: orders, places of conditions, and whether pieces can solve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flm.domains import Box, Piece, Product
from flm.domains.piece import Patch
from flm.pde.pieces.cut import EXTRA, Along
from flm.pde.pieces.fields import AnyResidual, Parameters
from flm.pde.pieces.functions import Functions, Orders, Ties, count, highest_derivatives, is_affine, plain_ties
from flm.pde.pieces.newton import Answer
from flm.pde.pieces.places import Break, Jumps, Place, breaks_of, steps_of
from flm.pde.pieces.rows import System
from flm.pde.pieces.shape import Shape
from flm.pde.pieces.tree import Tree
from flm.pde.problem import PDE, Block

MAX_AXES = 3
SMALLEST = 9  # functions along each axis of the smallest piece, about


@dataclass(frozen=True, eq=False)
class Setup:
    """A problem on a box or a region, ready for the pieces."""

    equations: tuple[AnyResidual, ...]
    free: tuple[int, ...]  # unknowns that enter by their derivatives alone, so that nothing fixes their constant
    surplus: int  # conditions beyond what the orders take
    bounds: np.ndarray
    periodic: tuple[bool, ...]
    known: Parameters  # the parameters: start, limits, and which are learned
    parameters: np.ndarray  # their values, (Q,)
    is_linear: bool  # whether all residuals are affine in the unknowns
    jumps: Jumps | None = None  # coefficients that jump
    places: tuple[Place, ...] = ()  # conditions of a box, and where time begins
    orders: Orders = ()  # p, (K, m): how many conditions each unknown takes along each axis
    ties: tuple[Ties, ...] = ()  # what neighbors share across each axis
    breaks: tuple[Break, ...] = ()  # where conditions on a side of a plane box end
    is_short: bool = False  # whether parts of a region's boundary lack a condition that the equation needs all around
    along: tuple[Along, ...] = ()  # conditions of a region
    shape: Shape | None = None  # the region, if it is not a box

    def start(self, bounds: np.ndarray) -> Tree:
        """The fewest pieces: one, cut where a coefficient or a formula jumps or one condition gives way to another."""
        ends = [[*values, *(p[j] for axis, p in self.breaks if axis == j)] for j, values in enumerate(self.steps)]
        tree = Tree.whole(bounds, self.periodic, self.shape).parted(ends)
        return tree if self.jumps is None else self.jumps.align(tree)

    @cached_property
    def steps(self) -> list[list[float]]:
        """Coordinates along each axis across which the formulas of equations and conditions jump, on boxes."""
        if self.jumps is not None or self.shape is not None:
            return [[] for _ in self.bounds]
        return [steps_of(self.everywhere, axis, self.bounds, self.parameters) for axis in range(len(self.bounds))]

    @cached_property
    def everywhere(self) -> tuple[Place, ...]:
        """The equations, which hold all over the domain, and the conditions on parts of it."""
        return (*(Place(residual, {}, np.zeros(len(self.bounds))) for residual in self.equations), *self.places)

    def suspects(self) -> list[np.ndarray]:
        """Points at which the answer may be singular: corners, and places where one condition gives way to another."""
        corners = [] if self.jumps is None else self.jumps.corners(self.bounds)
        region = [] if self.shape is None else self.shape.corners
        return [*corners, *region, *(point for _, point in self.breaks)]

    def singular_points(self) -> list[np.ndarray]:
        """Corners of boxes inside the domain: the answer is not smooth at any of them."""
        corners = [] if self.jumps is None or len(self.bounds) == 1 else self.jumps.corners(self.bounds)
        return [c for c in corners if ((c > self.bounds[:, 0]) & (c < self.bounds[:, 1])).all()]

    def next_jump(self, t: float) -> float:
        """The first time after t at which a coefficient or a formula jumps; the end of time if there is none."""
        low, high = self.bounds[-1]
        ends = self.steps[-1] if self.jumps is None else self.jumps.ends(len(self.bounds) - 1)
        return min([float(v) for v in ends if v > t + 1e-12 * (high - low)], default=float(high))

    def functions(self, tree: Tree, nodes: tuple[int, ...]) -> Functions:
        """The functions of a tree with `nodes` equation nodes along the axes."""
        return Functions(nodes, self.orders, self.ties, EXTRA if tree.is_cut.any() else 0)

    def system(self, tree: Tree, nodes: tuple[int, ...], before: Answer | None = None) -> System:
        """The rows on a tree with `nodes` equation nodes along the axes; the slab before replaces conditions at the start."""
        functions, last = self.functions(tree, nodes), len(self.bounds) - 1
        places = [place for place in self.places if before is None or last not in place.pinned]
        free = self.free if before is None else ()
        return System(functions, tree, self.equations, places, self.parameters, before, free, self.jumps, self.along)


def can_serve(problem: PDE, max_columns: int | None = None) -> bool:
    """Whether the pieces can solve this problem: few axes, no waves or readings on a region, and room for the smallest piece.

    Readings cannot replace missing conditions here: such problems are solved by one series by least squares.
    """
    if len(problem.axes) > MAX_AXES:
        return False
    if max_columns is not None and max_columns < SMALLEST ** len(problem.axes) * len(problem.unknowns):
        return False
    periodic = [block.piece for block in problem.conditions if block.kind == "periodic"]
    faces = [face for block in problem.conditions if block.kind != "periodic" for face in block.faces]
    if not isinstance(problem.domain, Box):
        kinds = {block.kind for block in problem.conditions}
        if problem.learned or problem.jumping or kinds & {"data", "periodic"}:
            return False
        if isinstance(problem.domain, Product):
            return _serves_in_time(problem, problem.domain, faces)
        return "initial" not in kinds
    joined = {axis for piece in periodic if piece is not None for axis in piece.fixed}
    if not all(face.fixed for face in faces) or not all(problem.periodic_axes[problem.axes.index(a)] for a in joined):
        return False
    return not has_readings(problem) or _has_its_conditions(problem)


def _serves_in_time(problem: PDE, domain: Product, faces: Sequence[Piece]) -> bool:
    """Whether a problem on a plane region times time has all its initial conditions and the rest around the region."""
    if len(domain.left.axes) != 2 or domain.right.axes != ("t",):
        return False
    first, starts = {"t": float(domain.bounds[-1, 0])}, [face for face in faces if "t" in face.fixed]
    if not all(face.fixed == first if "t" in face.fixed else face.dimension == 2 for face in faces):
        return False
    setup = set_up(problem)
    # Least squares on cut pieces is not a stable discretization of waves: undamped oscillations would grow.
    damped = all(row[-1] == 1 and row[0] == row[1] and row[0] % 2 == 0 for row in setup.orders)
    return damped and not setup.surplus and len(starts) == len(setup.orders)


def has_readings(problem: PDE) -> bool:
    """Whether the problem has readings."""
    return any(block.data is not None for block in problem.conditions)


def _has_its_conditions(problem: PDE) -> bool:
    """Whether there are conditions across every axis for every derivative along it, so that no reading need replace one."""
    setup = set_up(problem)
    across = [sum(j in place.pinned for place in setup.places) for j in range(len(problem.axes))]
    needed = np.sum(setup.orders, axis=0)
    enough = [joined or a >= n for joined, a, n in zip(problem.periodic_axes, across, needed, strict=True)]
    return all(enough) and not setup.free


def set_up(problem: PDE) -> Setup:
    """The setup of a problem, with its orders and conditions."""
    known, count_unknowns = Parameters.of(problem), len(problem.unknowns)
    conditions = [block for block in problem.conditions if block.kind not in ("periodic", "data")]
    residuals = tuple(known.bind(block.residual) for block in problem.equations)
    fluxes = {k: known.bind(flux) for k, flux in problem.fluxes.items()}
    everything = [*residuals, *(known.bind(block.residual) for block in conditions), *fluxes.values()]
    setup = Setup(
        equations=residuals,
        free=problem.free_constants,
        surplus=max(len(residuals) - count_unknowns, 0),
        bounds=np.asarray(problem.domain.bounds, float),
        periodic=problem.periodic_axes,
        known=known,
        parameters=known.start,
        is_linear=all(is_affine(residual, problem, known) for residual in everything),
        jumps=Jumps(tuple(problem.jumping.values()), fluxes, problem.axes) if problem.jumping else None,
    )
    return (_on_box if isinstance(problem.domain, Box) else _on_region)(problem, setup, conditions)


def _on_box(problem: PDE, setup: Setup, conditions: Sequence[Block]) -> Setup:
    """The setup with the conditions of a box, which are counted at both ends of each axis."""
    places = tuple(place for block in conditions for place in places_of(problem, block, setup.known))
    axes = range(len(problem.axes))
    within = lambda place: len(place.pinned) == 1 and all(v not in setup.bounds[j] for j, v in place.pinned.items())
    ends = [_ends(setup.bounds, places, j) for j in axes]
    named = [{k for p in places if set(p.pinned) == {j} for k, _ in p.residual.jets} for j in axes]
    orders, ties = count(problem, setup.equations, setup.known, ends, named)
    taken = sum(row[j] for row in orders for j in axes if not problem.periodic_axes[j])
    return replace(
        setup,
        places=places,
        orders=orders,
        ties=ties,
        surplus=setup.surplus + max(sum(map(sum, ends)) - taken, 0) + sum(map(within, places)),
        breaks=breaks_of(places, setup.bounds) if len(axes) == 2 and "t" not in problem.axes else (),
    )


def _on_region(problem: PDE, setup: Setup, conditions: Sequence[Block]) -> Setup:
    """The setup with the conditions of a region; a boundary with c conditions on average offers 2 c along each axis.

    A region times time becomes the region, with conditions around it and places where time begins.
    """
    domain = problem.domain
    in_time = isinstance(domain, Product) and "t" in domain.right.axes
    shape = Shape(domain.left if isinstance(domain, Product) and in_time else domain)
    starts = [block for block in conditions if in_time and block.kind == "initial"]
    along = tuple(
        Along(block.residual, tuple(map(_in_space, block.faces)) if in_time else block.faces)
        for block in conditions
        if block not in starts
    )
    highest, num_axes = highest_derivatives(problem, setup.equations), len(shape.bounds)
    held = [piece.measure for condition in along for piece in condition.pieces if _is_boundary(piece)]
    offered = 2 * sum(held) / shape.measure
    named = {k for condition in along for k, _ in condition.residual.jets}
    # An unknown that no condition names takes none along space, unless the boundary offers enough for all.
    enough = [j == num_axes or not named or total <= offered + 0.5 for j, total in enumerate(np.sum(highest, axis=0))]
    orders = tuple(
        tuple(p if fits or k in named else 0 for p, fits in zip(row, enough, strict=True))
        for k, row in enumerate(highest)
    )
    taken = max(sum(row[j] for row in orders) for j in range(num_axes))
    spare = int(np.ceil(max(offered - taken - 0.02, 0)))  # measures are estimated by sampling
    # An equation of one even order along every axis, as an elliptic one, needs half as many conditions on all of the boundary.
    elliptic = all(len(set(row[:num_axes])) == 1 and row[0] % 2 == 0 for row in orders)
    return replace(
        setup,
        places=tuple(place for block in starts for place in places_of(problem, block, setup.known)),
        orders=orders,
        ties=tuple(plain_ties(highest, j) for j in range(len(problem.axes))),
        surplus=setup.surplus + spare,
        is_short=elliptic and offered < taken - 0.02,
        along=along,
        shape=shape,
    )


def _in_space(face: Piece) -> Piece:
    """The part of a region's boundary on which a face of the region times time stands."""

    def lowered(patch: Patch) -> Patch:
        def chart(unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            points, normals = patch.chart(np.concatenate([unit, np.zeros((len(unit), 1))], axis=1))
            return points[:, :-1], normals[:, :-1]

        begin, end = (float(patch.chart(np.append(np.zeros(len(patch.ends) - 1), u)[None])[0][0, -1]) for u in (0, 1))
        add = lambda array, value: np.concatenate([array, np.full((len(array), 1), value)], axis=1)
        kept = patch.keep
        keep = None if kept is None else lambda points, normals: kept(add(points, begin), add(normals, 0.0))
        return Patch(chart, patch.ends[:-1], patch.measure / (end - begin), keep)

    return replace(face, axes=face.axes[:-1], dimension=1, patches=tuple(map(lowered, face.patches)))


def _is_boundary(piece: Piece) -> bool:
    """Whether a piece has normals, unlike planes and points inside."""
    return piece.dimension > 0 and bool(piece.patches[0].sample(1, seed=0)[1].any())


def places_of(problem: PDE, block: Block, known: Parameters) -> list[Place]:
    """The faces, edges and points on which a condition holds."""
    places, bounds = [], np.asarray(problem.domain.bounds, float)
    for face in block.faces:
        pinned = {problem.axes.index(axis): float(value) for axis, value in face.fixed.items()}
        normal = np.zeros(len(problem.axes))
        for axis, value in pinned.items():
            normal[axis] = float(value == bounds[axis, 1]) - float(value == bounds[axis, 0])
        normal /= np.linalg.norm(normal) or 1.0
        places.append(Place(known.bind(block.residual), pinned, normal, face.patches[0].keep))
    return places


def _ends(bounds: np.ndarray, places: Sequence[Place], axis: int) -> tuple[int, int]:
    """How many conditions hold at a point of the lower and of the upper face across an axis."""
    points = np.random.default_rng(3).uniform(bounds[:, 0], bounds[:, 1], (64, len(bounds)))
    found = [0.0, 0.0]
    for place in (place for place in places if set(place.pinned) == {axis}):
        points[:, axis] = value = place.pinned[axis]
        if value in bounds[axis]:
            normals = np.broadcast_to(place.normal, points.shape)
            share = 1.0 if place.keep is None else float(np.mean(place.keep(points, normals)))
            found[int(value == bounds[axis, 1])] += share
    return round(found[0]), round(found[1])
