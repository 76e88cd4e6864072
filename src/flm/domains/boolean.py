"""Booleans of shapes: difference, intersection and union, with the boundary kept by owner."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flm.domains.base import AbstractDomain
from flm.domains.piece import Patch, Piece
from flm.domains.polygon import Corner
from flm.wording import InputError

_PROBE = 1e-7  # how far to look on both sides of a boundary point, relative to the size
_TOUCH = 1e-10  # boundaries closer than this, relative to the size, coincide


@dataclass(frozen=True, repr=False)
class Combination(AbstractDomain):
    """left − right, left & right or left | right.

    The level is a maximum or minimum of levels. The boundary needs no tracing: a boundary point p of one of the shapes,
    with unit normal ν, is a boundary point of the combination when exactly one of p ± εν is inside it; the normal that
    points outside is outward, so it turns around on a subtracted shape.

    Args:
        operation: "-", "&" or "|".
        left: A domain.
        right: A domain with the same axes.

    Raises:
        ValueError: The axes differ, or nothing is left.
    """

    operation: str
    left: AbstractDomain
    right: AbstractDomain

    def __post_init__(self):
        if self.left.axes != self.right.axes:
            raise InputError(
                f"`{self.operation}` must join domains with the same axes in the same order; "
                f"got {', '.join(self.left.axes)} and {', '.join(self.right.axes)}."
            )
        low, high = self.bounds.T
        if np.any(low >= high) or self._filling == 0.0:
            raise InputError(f"`{self.operation}` must leave a region; got an empty one: {self!r}.")

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of both domains."""
        return self.left.axes

    @cached_property
    def bounds(self) -> np.ndarray:
        """A box that contains the combination, (m, 2)."""
        a, b = self.left.bounds, self.right.bounds
        if self.operation == "-":
            return a
        if self.operation == "&":
            return np.stack([np.maximum(a[:, 0], b[:, 0]), np.minimum(a[:, 1], b[:, 1])], axis=1)
        return np.stack([np.minimum(a[:, 0], b[:, 0]), np.maximum(a[:, 1], b[:, 1])], axis=1)

    def level(self, points: np.ndarray) -> np.ndarray:
        """max(left, −right), max(left, right) or min(left, right)."""
        a, b = self.left.level(points), self.right.level(points)
        if self.operation == "-":
            return np.maximum(a, -b)
        return np.maximum(a, b) if self.operation == "&" else np.minimum(a, b)

    @property
    def leaves(self) -> tuple[AbstractDomain, ...]:
        """The shapes, from left to right."""
        return tuple(dict.fromkeys(self.left.leaves + self.right.leaves))

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """What remains of each shape's pieces, in the order of the shapes."""
        pieces = []
        for index, leaf in enumerate(self.leaves):
            outward = self._outward(self.leaves[:index])
            for piece in leaf.pieces:
                both = [patch.cut(outward) for patch in piece.patches + tuple(map(_flip, piece.patches))]
                if patches := tuple(patch for patch in both if patch is not None):
                    pieces.append(replace(piece, patches=patches, shares=None))
        return tuple(pieces)

    @cached_property
    def corners(self) -> tuple[Corner, ...]:
        """The shapes' own corners that are corners of the combination; where two boundaries cross is not included."""
        size = float(self.width.max())
        corners = []
        for leaf in self.leaves:
            for corner in leaf.corners:
                vertex, bisector = np.array(corner.vertex), np.array(corner.bisector)
                others = [other for other in self.leaves if other != leaf]
                if any(abs(other.level(vertex[None])[0]) <= _TOUCH * size for other in others):
                    continue
                inside, outside = self.level(vertex + _PROBE * size * np.array([bisector, -bisector])) < 0.0
                if inside != outside:
                    corners.append(corner if inside else corner.complement())
        return tuple(corners)

    @cached_property
    def holes(self) -> np.ndarray:
        """A point in each hole, (H, m): the centroids of shapes whose whole boundary is kept, turned around."""
        holes = [leaf.holes[self.level(leaf.holes) > 0.0] for leaf in self.leaves if len(leaf.holes)]
        for piece in self.pieces:
            whole = sum(patch.measure for own in piece.owner.pieces for patch in own.patches)
            kept = sum(p.measure for p in self.pieces if p.owner == piece.owner)
            if piece.owner.pieces[0].name != piece.name or kept < (1.0 - 1e-9) * whole:
                continue
            if np.all(self.level(piece.owner.interior(256, seed=0, warp=False)) > 0.0):
                holes.append(piece.owner.centroid[None])
        return np.concatenate(holes) if holes else np.zeros((0, len(self.axes)))

    def _outward(self, earlier: tuple[AbstractDomain, ...]):
        """Which points of a shape's boundary are the combination's, with this normal, and not already another's."""
        size = float(self.width.max())

        def keep(points, normals):
            step = _PROBE * size * normals
            kept = (self.level(points - step) < 0.0) & (self.level(points + step) > 0.0)
            for other in earlier:
                kept &= np.abs(other.level(points)) > _TOUCH * size
            return kept

        return keep

    def __repr__(self) -> str:
        def text(part):
            return f"({part!r})" if isinstance(part, Combination) else repr(part)

        return f"{text(self.left)} {self.operation} {text(self.right)}"


def _flip(patch: Patch) -> Patch:
    """The patch with its normals turned around."""

    def chart(unit):
        points, normals = patch.chart(unit)
        return points, -normals

    return replace(patch, chart=chart)
