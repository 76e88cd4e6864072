"""From a problem to what the pieces need: orders, places of conditions, and whether the pieces can serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flm.domains import Box
from flm.pde.pieces.fields import AnyResidual, Parameters
from flm.pde.pieces.functions import Functions
from flm.pde.pieces.rows import Given, Place, System
from flm.pde.pieces.tree import Tree
from flm.pde.problem import PDE, Block

MAX_AXES = 3
SMALLEST = 9  # functions along each axis of the smallest piece, about


@dataclass(frozen=True, eq=False)
class Setup:
    """A problem on a box, ready for the pieces.

    Attributes:
        orders: p, (K, m): how many conditions each unknown takes along each axis.
        ties: (K, m): how many normal derivatives neighbors share; more than p for an unknown without conditions.
        free: unknowns that enter by their derivatives alone, so that nothing fixes their constant.
        surplus: conditions beyond what the orders take.
        known: what is known of the parameters.
        parameters: their values, (Q,).
        is_linear: whether all residuals are affine in the unknowns.
    """

    equations: tuple[AnyResidual, ...]
    places: tuple[Place, ...]
    orders: tuple[tuple[int, ...], ...]
    ties: tuple[tuple[int, ...], ...]
    free: tuple[int, ...]
    surplus: int
    bounds: np.ndarray
    periodic: tuple[bool, ...]
    known: Parameters
    parameters: np.ndarray
    is_linear: bool

    def system(self, tree: Tree, nodes: tuple[int, ...], given: Sequence[Given] = ()) -> System:
        """The rows on a tree with so many equation nodes along each axis.

        Args:
            tree: the pieces.
            nodes: of the equations.
            given: values that a slab begins with, in place of the conditions there.
        """
        functions = Functions(nodes, self.orders, self.ties)
        begins = {axis for values in given for axis in values.pinned}
        places = [place for place in self.places if not begins & set(place.pinned)]
        return System(functions, tree, self.equations, places, self.parameters, given, free=self.free)


def can_serve(problem: PDE, max_columns: int | None = None) -> bool:
    """Whether the pieces can solve this problem: a box of few axes, and room for the smallest piece.

    Readings do not stand for conditions that are missing: such problems are for one series by least squares.
    """
    if max_columns is not None and max_columns < SMALLEST ** len(problem.axes) * len(problem.unknowns):
        return False
    pinned = all(face.fixed for b in problem.conditions if b.kind != "periodic" for face in b.faces)
    whole = all(
        problem.periodic_axes[problem.axes.index(axis)]
        for b in problem.conditions
        if b.kind == "periodic" and b.piece is not None
        for axis in b.piece.fixed
    )
    if not (isinstance(problem.domain, Box) and len(problem.axes) <= MAX_AXES and pinned and whole):
        return False
    return not has_readings(problem) or _has_its_conditions(problem)


def has_readings(problem: PDE) -> bool:
    """Whether anything was measured."""
    return any(block.data is not None for block in problem.conditions)


def _has_its_conditions(problem: PDE) -> bool:
    """Whether there are conditions across every axis for every derivative along it, so that no reading need replace one."""
    setup = set_up(problem)
    across = [sum(j in place.pinned for place in setup.places) for j in range(len(problem.axes))]
    needed = [sum(row[j] for row in setup.ties) for j in range(len(problem.axes))]
    enough = [joined or a >= n for joined, a, n in zip(problem.periodic_axes, across, needed, strict=True)]
    return all(enough) and not setup.free


def set_up(problem: PDE) -> Setup:
    """Read the orders and conditions of a problem."""
    known = Parameters.of(problem)
    conditions = [block for block in problem.conditions if block.kind not in ("periodic", "data")]
    places = [place for block in conditions for place in places_of(problem, block, known)]
    residuals = [known.bind(block.residual) for block in problem.equations]
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
        known=known,
        parameters=known.start,
        is_linear=all(is_affine(residual, problem, known) for residual in everything),
    )


def places_of(problem: PDE, block: Block, known: Parameters) -> list[Place]:
    """The faces, edges and points on which a condition holds."""
    places, bounds = [], np.asarray(problem.domain.bounds, float)
    for face in block.faces:
        pinned = {problem.axes.index(axis): float(value) for axis, value in face.fixed.items()}
        normal = np.zeros(len(problem.axes))
        for axis, value in pinned.items():
            normal[axis] = 1.0 if value == bounds[axis, 1] else -1.0 if value == bounds[axis, 0] else 0.0
        length = np.linalg.norm(normal)
        keep = face.patches[0].keep
        places.append(Place(known.bind(block.residual), pinned, normal / length if length else normal, keep))
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


def is_affine(residual: AnyResidual, problem: PDE, known: Parameters) -> bool:
    """Whether a residual's slopes are the same wherever it is linearized."""
    rng = np.random.default_rng(0)
    points = problem.domain.interior(16, seed=7, warp=False)
    normals = np.full_like(points, 1 / np.sqrt(points.shape[1]))
    slopes = [
        residual.linearize(points, rng.normal(size=(len(residual.jets), len(points))), known.elsewhere(), normals)
        for _ in range(3)
    ]
    first = slopes[0].by_jet
    return all(
        np.allclose(other.by_jet, first, rtol=1e-9, atol=1e-12 * np.abs(first).max(initial=1.0)) for other in slopes
    )
