"""From a problem to what the pieces need: orders, places of conditions, and whether the pieces can serve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flm.domains import Box, Piece, Product
from flm.language.arguments import Residual
from flm.pde.pieces.cut import EXTRA
from flm.pde.pieces.cut_rows import Along
from flm.pde.pieces.functions import Functions
from flm.pde.pieces.places import Place
from flm.pde.pieces.rows import System
from flm.pde.pieces.shape import Shape
from flm.pde.pieces.tree import Tree
from flm.pde.problem import PDE, Block

MAX_AXES = 3
SMALLEST = 9  # functions along each axis of the smallest piece, about


@dataclass(frozen=True, eq=False)
class Setup:
    """A problem on a box or a region, ready for the pieces.

    Attributes:
        orders: p, (K, m): how many conditions each unknown takes along each axis.
        ties: (K, m): how many normal derivatives neighbors share; more than p for an unknown without conditions.
        free: unknowns that enter by their derivatives alone, so that nothing fixes their constant.
        surplus: conditions beyond what the orders take.
        is_short: whether parts of a region's boundary lack a condition that the equation needs all around.
        is_linear: whether all residuals are affine in the unknowns.
        along: conditions of a region.
        shape: the region, where it is no box.
    """

    equations: tuple[Residual, ...]
    places: tuple[Place, ...]
    orders: tuple[tuple[int, ...], ...]
    ties: tuple[tuple[int, ...], ...]
    free: tuple[int, ...]
    surplus: int
    bounds: np.ndarray
    periodic: tuple[bool, ...]
    parameters: np.ndarray
    is_linear: bool
    is_short: bool = False
    along: tuple[Along, ...] = ()
    shape: Shape | None = None

    def whole(self) -> Tree:
        """The first tree."""
        return Tree.whole(self.bounds, self.periodic, self.shape)

    def functions(self, tree: Tree, nodes: tuple[int, ...]) -> Functions:
        """The functions of a tree with so many equation nodes along each axis."""
        return Functions(nodes, self.orders, self.ties, EXTRA if tree.is_cut.any() else 0)

    def system(self, tree: Tree, nodes: tuple[int, ...]) -> System:
        """The rows on a tree with so many equation nodes along each axis."""
        functions = self.functions(tree, nodes)
        return System(functions, tree, self.equations, self.places, self.parameters, free=self.free, along=self.along)

    def probes(self) -> np.ndarray:
        """Points spread over the domain, at which answers on different trees are compared."""
        low, high = self.bounds.T
        rng, found = np.random.default_rng(5), np.zeros((0, len(low)))
        while len(found) < 3000:
            points = rng.uniform(low, high, (3000, len(low)))
            found = np.concatenate([found, points if self.shape is None else points[self.shape.inside(points)]])
        return found[:3000]


def can_serve(problem: PDE, max_columns: int | None = None) -> bool:
    """Whether the pieces can solve this problem: few axes, no data, no region in time, and room for the smallest piece."""
    if max_columns is not None and max_columns < SMALLEST ** len(problem.axes) * len(problem.unknowns):
        return False
    kinds = {block.kind for block in problem.conditions}
    if not isinstance(problem.domain, Box):
        plane = 2 <= len(problem.axes) <= MAX_AXES and not isinstance(problem.domain, Product)
        return plane and not problem.learned and not kinds & {"data", "initial", "periodic"}
    pinned = all(face.fixed for b in problem.conditions if b.kind != "periodic" for face in b.faces)
    whole = all(
        problem.periodic_axes[problem.axes.index(axis)]
        for b in problem.conditions
        if b.kind == "periodic" and b.piece is not None
        for axis in b.piece.fixed
    )
    return len(problem.axes) <= MAX_AXES and not problem.learned and "data" not in kinds and pinned and whole


def set_up(problem: PDE) -> Setup:
    """Read the orders and conditions of a problem."""
    if not isinstance(problem.domain, Box):
        return _set_up_region(problem)
    places = [place for block in problem.conditions if block.kind != "periodic" for place in places_of(problem, block)]
    residuals = [block.residual for block in problem.equations]
    highest = _highest(problem)
    orders = _orders(problem, places, highest)
    everything = [*residuals, *(place.residual for place in places)]
    zero = (0,) * len(problem.axes)
    valued = {k for residual in everything for k, alpha in residual.jets if alpha == zero}
    faces = sum(len(_at_ends(problem, places, j)) for j in range(len(problem.axes)))
    taken = sum(row[j] for row in orders for j in range(len(problem.axes)) if not problem.periodic_axes[j])
    return Setup(
        equations=tuple(residuals),
        places=tuple(places),
        orders=orders,
        ties=highest,
        free=tuple(k for k in range(len(problem.unknowns)) if k not in valued),
        surplus=max(faces - taken, 0) + max(len(residuals) - len(problem.unknowns), 0),
        bounds=np.asarray(problem.domain.bounds, float),
        periodic=problem.periodic_axes,
        parameters=problem.parameter_start,
        is_linear=all(is_affine(residual, problem) for residual in everything),
    )


def _set_up_region(problem: PDE) -> Setup:
    """A boundary with c conditions on average offers 2 c along each axis, one at each end."""
    along = tuple(Along(block.residual, block.faces) for block in problem.conditions)
    residuals = tuple(block.residual for block in problem.equations)
    everything = [*residuals, *(condition.residual for condition in along)]
    shape, highest = Shape(problem.domain), _highest(problem)
    held = [piece.measure for condition in along for piece in condition.pieces if _is_boundary(piece)]
    offered = 2 * sum(held) / shape.measure
    named = {k for condition in along for k, _ in condition.residual.jets}
    orders = tuple(
        tuple(
            row[j] if k in named or not named or sum(r[j] for r in highest) <= offered + 0.5 else 0
            for j in range(len(row))
        )
        for k, row in enumerate(highest)
    )
    taken = max(sum(row[j] for row in orders) for j in range(len(problem.axes)))
    valued = {k for residual in everything for k, alpha in residual.jets if not any(alpha)}
    spare = int(np.ceil(max(offered - taken - 0.02, 0)))  # measures are estimated by sampling
    # An equation of one even order along every axis, as an elliptic one is, needs half of it on all of the boundary.
    elliptic = all(len(set(row)) == 1 and row[0] % 2 == 0 for row in orders)
    return Setup(
        equations=residuals,
        places=(),
        orders=orders,
        ties=highest,
        free=tuple(k for k in range(len(problem.unknowns)) if k not in valued),
        surplus=spare + max(len(residuals) - len(problem.unknowns), 0),
        bounds=shape.bounds,
        periodic=(False,) * len(problem.axes),
        parameters=problem.parameter_start,
        is_linear=all(is_affine(residual, problem) for residual in everything),
        is_short=elliptic and offered < taken - 0.02,
        along=along,
        shape=shape,
    )


def _is_boundary(piece: Piece) -> bool:
    """Whether a piece has normals, unlike planes and points inside."""
    return piece.dimension > 0 and bool(piece.patches[0].sample(1, seed=0)[1].any())


def places_of(problem: PDE, block: Block) -> list[Place]:
    """The faces, edges and points on which a condition holds."""
    places, bounds = [], np.asarray(problem.domain.bounds, float)
    for face in block.faces:
        pinned = {problem.axes.index(axis): float(value) for axis, value in face.fixed.items()}
        normal = np.zeros(len(problem.axes))
        for axis, value in pinned.items():
            normal[axis] = 1.0 if value == bounds[axis, 1] else -1.0 if value == bounds[axis, 0] else 0.0
        length = np.linalg.norm(normal)
        keep = face.patches[0].keep
        places.append(Place(block.residual, pinned, normal / length if length else normal, keep))
    return places


def _highest(problem: PDE) -> tuple[tuple[int, ...], ...]:
    """The highest derivative of each unknown along each axis, (K, m)."""
    jets = [jet for block in problem.equations for jet in block.residual.jets]
    return tuple(
        tuple(max([alpha[j] for k, alpha in jets if k == unknown], default=0) for j in range(len(problem.axes)))
        for unknown in range(len(problem.unknowns))
    )


def _at_ends(problem: PDE, places: list[Place], axis: int) -> list[Place]:
    """The conditions on the two whole faces across an axis."""
    ends = np.asarray(problem.domain.bounds, float)[axis]
    return [place for place in places if set(place.pinned) == {axis} and place.pinned[axis] in ends]


def _orders(problem: PDE, places: list[Place], highest: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The conditions that each unknown takes: none where there are too few and no condition names it, as for a pressure."""
    orders = [list(row) for row in highest]
    named = {k for place in places for k, _ in place.residual.jets}
    for j in range(len(problem.axes)):
        at_ends = _at_ends(problem, places, j)
        if not problem.periodic_axes[j] and sum(row[j] for row in orders) > len(at_ends):
            for k, row in enumerate(orders):
                row[j] = row[j] if k in named else 0
    return tuple(map(tuple, orders))


def is_affine(residual: Residual, problem: PDE) -> bool:
    """Whether a residual's slopes are the same wherever it is linearized."""
    rng = np.random.default_rng(0)
    points = problem.domain.interior(16, seed=7, warp=False)
    normals = np.full_like(points, 1 / np.sqrt(points.shape[1]))
    slopes = [
        residual.linearize(points, rng.normal(size=(len(residual.jets), len(points))), problem.parameter_start, normals)
        for _ in range(3)
    ]
    first = slopes[0].by_jet
    return all(
        np.allclose(other.by_jet, first, rtol=1e-9, atol=1e-12 * np.abs(first).max(initial=1.0)) for other in slopes
    )
