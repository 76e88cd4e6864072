"""The blocks of a problem, what "boundary" stands for, and what flows where a parameter jumps.

"boundary" is the pieces that no other condition of the same kind names. The kind of a condition on an unknown is the order of
its normal derivative: 0 for a value, 1 for a slope. A piece has room for half as many kinds as the equation has derivatives
across it, so that a plate (u_xxxx) takes a value and a slope on each side, while a slope on one side of a membrane (u_xx)
replaces the value there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flm.domains import AbstractDomain, Piece
from flm.domains.piece import join
from flm.language.arguments import Residual, unique_jets
from flm.language.parameters import names_of
from flm.pde.conditions import Data
from flm.wording import InputError, InputTypeError

if TYPE_CHECKING:
    from flm.pde.problem import PDE


@dataclass(frozen=True, eq=False)
class Block:
    """One set of equations: a residual and where it holds."""

    name: str
    kind: str  # "equation", "initial", "boundary", "periodic" or "data"
    residual: Residual
    domain: AbstractDomain
    piece: Piece | None = None  # where it holds; None is the inside of the domain
    partner: Piece | None = (
        None  # the opposite face of a periodic pair: the residual is the jet here less the jet there
    )
    data: Data | None = None
    parts: tuple[Piece, ...] = ()  # the faces that "boundary" stands for

    @property
    def faces(self) -> tuple[Piece, ...]:
        """The natural pieces that `piece` is made of."""
        return self.parts or ((self.piece,) if self.piece is not None else ())

    def sample(self, n: int, *, seed: int, warp: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Points and outward normals, both (P, m); normals are zero inside. Data blocks give their own points."""
        if self.data is not None:
            return self.data.points, np.zeros_like(self.data.points)
        if self.piece is None:
            points = self.domain.interior(n, seed=seed, warp=warp)
            return points, np.zeros_like(points)
        return self.piece.sample(n, seed=seed, warp=warp)


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


def bind_fluxes(flux: Any, problem: PDE) -> dict[int, Residual]:
    """The flux of each unknown by its number; an unknown is left out where its flux is the normal derivative."""
    _check_orders(problem)
    if flux is None:
        return {}
    unknowns = problem.unknowns
    if not isinstance(flux, Mapping):
        if len(unknowns) > 1:
            known = ", ".join(f"{u!r}: lambda a, {u}_n: ..." for u in unknowns)
            raise InputTypeError(f"`flux` must be a dict by unknown for a system, {{{known}}}; got {flux!r}.")
        flux = dict.fromkeys(unknowns, flux)
    names = names_of(problem.axes, unknowns, problem.parameters, normals=True)
    fluxes = {}
    for unknown, function in flux.items():
        if unknown not in unknowns:
            raise InputError(f"`flux` must be given by unknown ({', '.join(unknowns)}); got {unknown!r}.")
        k = unknowns.index(unknown)
        fluxes[k] = problem.bind(function, names, f"`flux` of {unknown}")
        if not any(index == k for index, _ in fluxes[k].jets):
            raise InputError(f"`flux` of {unknown} must ask for {unknown} or {unknown}_n; got a function of neither.")
    if not problem.jumping:
        raise InputError("`flux` must come with a parameter that jumps, flm.Piecewise; got numbers only. Leave it out.")
    return fluxes


def _check_orders(problem: PDE) -> None:
    """Refuse jumps in equations of higher order, where more than a value and a flux is continuous."""
    across = {axis for jump in problem.jumping.values() for axis in jump.axes}
    for k, alpha in unique_jets(block.residual for block in problem.equations):
        for axis, order in zip(problem.axes, alpha, strict=True):
            if order > 2 and axis in across:
                raise InputError(
                    f"`equation` must have at most second derivatives along {axis}, across which a parameter jumps; got "
                    f"{problem.unknowns[k]} differentiated {order} times."
                )
