"""Where a problem's equations are enforced and where they are checked.

Training points are well-spread points, denser towards the ends of each axis (`domains/sequences`): three rows per column, four
times as many inside as on a face. Held-out points are not denser anywhere and have another seed; nothing is fitted to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flm.domains import Box
from flm.pde.problem import PDE, Block

ROWS_PER_COLUMN = 3  # below 2, solutions of oscillatory problems are wrong without a sign of it
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


def _faces(block: Block) -> int:
    """How many faces of a box a condition covers; a curved boundary counts as one."""
    if block.piece is None or not isinstance(block.domain, Box):
        return 1
    return len(block.piece.patches)


class Sampler:
    """Training and held-out batches of a problem, cached by size.

    Args:
        problem: whose blocks are sampled.
        seed: fixes all points.
        periodic_basis: whether the basis repeats along periodic axes by itself, so that those pairs need no rows.
    """

    def __init__(self, problem: PDE, *, seed: int, periodic_basis: bool = True):
        self.problem, self.seed = problem, seed
        joined = problem.periodic_axes if periodic_basis else ()
        built_in = {axis for axis, periodic in zip(problem.axes, joined, strict=False) if periodic}
        self.blocks = tuple(
            b for b in problem.blocks if not (b.kind == "periodic" and b.piece and set(b.piece.fixed) <= built_in)
        )
        self.is_box = isinstance(problem.domain, Box)
        self._training: dict[int, tuple[Batch, ...]] = {}
        self._held: tuple[Batch, ...] = ()

    def training(self, num_columns: int) -> tuple[Batch, ...]:
        """Batches with at least three rows per linear unknown."""
        if num_columns not in self._training:
            wanted = ROWS_PER_COLUMN * num_columns
            equations = [b for b in self.blocks if b.kind == "equation"]
            extended = [b for b in self.blocks if b.piece is not None and b.piece.dimension > 0]
            faces = [_faces(b) for b in extended]
            # Of polynomials in many variables a large share satisfies the equation: only conditions tell those apart.
            many = not self.is_box and len(self.problem.axes) > 3
            around = INSIDE_SHARE if many else 1
            share = wanted / (INSIDE_SHARE * len(equations) + (sum(faces) if self.is_box else around * len(equations)))
            if not extended:
                share = wanted / (INSIDE_SHARE * len(equations))
            region = max(sum(b.piece.measure for b in extended if b.piece), 1e-300)
            out = []
            for block in self.blocks:
                if block.piece is None:
                    count = int(np.ceil(INSIDE_SHARE * share))
                elif self.is_box:
                    count = int(np.ceil(share * _faces(block)))
                else:
                    part = 1 / len(extended) if many else block.piece.measure / region
                    count = max(8, int(np.ceil(around * share * part * len(equations))))
                # a single point stands for a whole face
                lone = np.sqrt(share) if block.piece is not None and block.piece.dimension == 0 else 1.0
                curved = 1.0 if self.is_box or block.piece is None else CURVED_WEIGHT
                out.append(self._batch(block, count, self.seed, True, lone * curved))
            self._training = {num_columns: tuple(out)} | dict(list(self._training.items())[:3])
        return self._training[num_columns]

    def held(self) -> tuple[Batch, ...]:
        """Batches that no solver is fitted to."""
        if not self._held:
            self._held = tuple(
                self._batch(b, HELD_INSIDE if b.piece is None else HELD_FACE * _faces(b), self.seed + 7919, False, 1.0)
                for b in self.blocks
                if b.kind != "data"
            )
        return self._held

    def _batch(self, block: Block, count: int, seed: int, warp: bool, weight: float) -> Batch:
        points, normals = block.sample(count, seed=seed, warp=warp)
        partner = None
        if block.partner is not None:
            partner, _ = block.partner.sample(count, seed=seed, warp=warp)
        return Batch(block, points, normals, partner, weight)
