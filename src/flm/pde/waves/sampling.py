"""Where a problem's equations are enforced and where they are checked.

Training points are well-spread points, denser towards the ends of each axis (`domains/sequences`): three rows per column, four
times as many inside as on a face. Held-out points are evenly dense and have another seed; nothing is fitted to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flm.domains import Box
from flm.language.arguments import Linearized
from flm.numerics.least_squares import free_memory
from flm.pde.problem import PDE, Block

ROWS_PER_COLUMN = 3  # with fewer than 2, solutions of oscillatory problems are wrong without any sign of it
INSIDE_SHARE = 4  # rows inside per row on one face
CURVED_WEIGHT = 0.1  # boundary rows on regions: at full weight more columns make a corner worse
HELD_INSIDE, HELD_FACE = 600, 150


@dataclass(frozen=True, eq=False)
class Batch:
    """A block of the problem at points: `partner` points are the opposite face of a periodic pair."""

    block: Block
    points: np.ndarray
    normals: np.ndarray
    partner: np.ndarray | None
    weight: float

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.points)

    def linearize(self, jets: np.ndarray, parameters: np.ndarray) -> Linearized:
        """The residual F and its derivatives at jets (A, P)."""
        return self.block.residual.linearize(self.points, jets, parameters, self.normals)

    def misfit(self, jets: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """F at these jets, less the readings."""
        value, data = self.linearize(jets, parameters).value, self.block.data
        return value if data is None else value - data.values

    @property
    def sides(self) -> list[tuple[np.ndarray, float]]:
        """The points at which the unknown is evaluated, and the sign with which each set counts."""
        return [(self.points, 1.0)] + ([] if self.partner is None else [(self.partner, -1.0)])

    @property
    def sigma(self) -> np.ndarray:
        """The standard deviation of each reading, 1 where it is not known."""
        data = self.block.data
        return np.broadcast_to(1.0 if data is None or data.sigma is None else data.sigma, self.size)


def training_batches(problem: PDE, num_columns: int, seed: int) -> tuple[Batch, ...]:
    """Batches with at least three rows per linear unknown."""
    is_box, equations = isinstance(problem.domain, Box), len(problem.equations)
    extended = [b for b in problem.conditions if b.piece is not None and b.piece.dimension > 0]
    # Many polynomials in many variables satisfy the equation: only conditions tell them apart.
    many = not is_box and len(problem.axes) > 3
    around = equations * (INSIDE_SHARE if many else 1)  # of a region
    faces = sum(map(_faces, extended)) if is_box or not extended else around
    share = ROWS_PER_COLUMN * num_columns / (INSIDE_SHARE * equations + faces)
    measure = max(sum(b.piece.measure for b in extended if b.piece), 1e-300)
    out = []
    for block in problem.blocks:
        weight = 1.0
        if block.piece is None:
            count = INSIDE_SHARE * share
        elif is_box:
            count = share * _faces(block)
        else:
            count = max(8, around * share * (1 / len(extended) if many else block.piece.measure / measure))
            weight = CURVED_WEIGHT
        if block.piece is not None and block.piece.dimension == 0:  # a single point stands for a whole face
            weight *= np.sqrt(share)
        out.append(_batch(block, int(np.ceil(count)), seed, True, weight))
    return tuple(out)


def held_out_batches(problem: PDE, seed: int) -> tuple[Batch, ...]:
    """Batches that no solver is fitted to."""
    count = lambda block: HELD_INSIDE if block.piece is None else HELD_FACE * _faces(block)
    blocks = [block for block in problem.blocks if block.kind != "data"]
    return tuple(_batch(block, count(block), seed + 7919, False, 1.0) for block in blocks)


def columns_in_memory() -> int:
    """The number of columns of a least-squares problem that fits in half of the free memory."""
    # the buffer holds (rows + columns) x columns doubles; one more copy is made on the way
    return int(np.sqrt(free_memory() / 2 / (2 * 8 * (ROWS_PER_COLUMN + 1))))


def _faces(block: Block) -> int:
    """How many faces of a box a condition covers; a curved boundary counts as one."""
    return len(block.piece.patches) if block.piece is not None and isinstance(block.domain, Box) else 1


def _batch(block: Block, count: int, seed: int, warp: bool, weight: float) -> Batch:
    points, normals = block.sample(count, seed=seed, warp=warp)
    partner = None if block.partner is None else block.partner.sample(count, seed=seed, warp=warp)[0]
    return Batch(block, points, normals, partner, weight)
