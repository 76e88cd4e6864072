"""What "boundary" stands for: the pieces that no other condition of the same kind names.

The kind of a condition on an unknown is the order of its normal derivative: 0 for a value, 1 for a slope. A piece has room for
half as many kinds as the equation has derivatives across it, so that a plate (u_xxxx) takes a value and a slope on each side,
while a slope on one side of a membrane (u_xx) replaces the value there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flm.domains import Piece
from flm.domains.piece import join
from flm.language.arguments import Residual
from flm.wording import InputError

if TYPE_CHECKING:
    from flm.pde.problem import Block


def unclaimed(block: Block, others: list[Block], equations: tuple[Block, ...]) -> Block:
    """The block of a condition on "boundary", with the pieces that are left to it; any other block is returned as it is.

    Where one axis is time, "boundary" means the spatial boundary.
    """
    if block.piece is None or block.piece.name != "boundary":
        return block
    pieces = block.domain.pieces
    if len(block.domain.axes) > 1:
        pieces = tuple(p for p in pieces if "t" not in p.fixed)
    left = tuple(p for p in pieces if not _is_taken(p, block, others, equations))
    if not left:
        names = ", ".join(p.name for p in pieces)
        raise InputError(
            f'{block.residual.label} on "boundary" must find a part where no other condition takes its place; got conditions '
            f"on all of it ({names}). Write this condition for each place where it holds, such as "
            f'flm.on("{pieces[0].name}", …), or remove it.'
        )
    return replace(block, piece=join("boundary", left), parts=left)


def _is_taken(piece: Piece, block: Block, others: list[Block], equations: tuple[Block, ...]) -> bool:
    """Whether other conditions on one of the block's unknowns leave no room on a piece for the block."""
    unknowns = range(len(block.residual.names.unknowns))
    for unknown in {k for k, _ in block.residual.jets if k in unknowns}:
        rivals = [b for b in others if b is not block and _order(b.residual, unknown, piece) >= 0 and _names(b, piece)]
        kinds = {_order(b.residual, unknown, piece) for b in rivals}
        room = max(1, max((_order(e.residual, unknown, piece) + 1) // 2 for e in equations))
        if any(b.partner is not None for b in rivals):  # joined to the opposite face
            return True
        if len(kinds) >= room or _order(block.residual, unknown, piece) in kinds:
            return True
    return False


def _names(block: Block, piece: Piece) -> bool:
    """Whether a condition was written for this piece, or for the shape that it came from."""
    written = [p for p in (block.piece, block.partner) if p is not None]
    return any(p.name in (piece.name, repr(piece.owner)) for p in written)


def _order(residual: Residual, unknown: int, piece: Piece) -> int:
    """The highest derivative of an unknown across a piece that a residual needs; -1 where it does not need the unknown."""
    axes = [residual.names.axes.index(axis) for axis in piece.fixed] or range(len(residual.names.axes))
    return max((sum(alpha[j] for j in axes) for k, alpha in residual.jets if k == unknown), default=-1)
