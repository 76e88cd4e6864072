"""Products of domains with different axes, such as a region times an interval of time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from flm.domains.base import EDGE, AbstractDomain
from flm.domains.box import Box
from flm.domains.piece import Patch, Piece, join
from flm.wording import InputError


@dataclass(frozen=True, repr=False)
class Product(AbstractDomain):
    """{(x, t): x in left, t in right}, axes of `left` first.

    Pieces: the boundary of `left` times `right` (lateral), then `left` times the boundary of `right` (time faces).
    "boundary" is the boundary of the curved factor alone: conditions in time are written on "t=0".
    """

    left: AbstractDomain
    right: AbstractDomain

    def __post_init__(self):
        if shared := sorted(set(self.left.axes) & set(self.right.axes)):
            raise InputError(f"`*` must join domains without common axes; got {', '.join(shared)} in both.")

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of `left`, then those of `right`."""
        return self.left.axes + self.right.axes

    @cached_property
    def bounds(self) -> np.ndarray:
        """The product of the bounds, (m, 2)."""
        return np.concatenate([self.left.bounds, self.right.bounds])

    def level(self, points: np.ndarray) -> np.ndarray:
        """The larger of the factors' levels."""
        cut = len(self.left.axes)
        return np.maximum(self.left.level(points[:, :cut]), self.right.level(points[:, cut:]))

    def contains(self, points: npt.ArrayLike, *, tolerance: float = EDGE) -> np.ndarray:
        """Whether each point (P, m) is in both factors, each with its own tolerance."""
        points, cut = self.as_points(points), len(self.left.axes)
        left = self.left.contains(points[:, :cut], tolerance=tolerance)
        return left & self.right.contains(points[:, cut:], tolerance=tolerance)

    def stored(self, *, outward: bool = True) -> AbstractDomain:
        """The product of the factors as a file holds them."""
        return Product(self.left.stored(outward=outward), self.right.stored(outward=outward))

    @property
    def leaves(self) -> tuple[AbstractDomain, ...]:
        """The factors' shapes."""
        return self.left.leaves + self.right.leaves

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Lateral pieces, then time faces; each keeps its name and owner."""
        return self._lateral + self._ends

    @cached_property
    def _lateral(self) -> tuple[Piece, ...]:
        return tuple(self._times(piece, lambda patch: (patch, self.right.solid)) for piece in self.left.pieces)

    @cached_property
    def _ends(self) -> tuple[Piece, ...]:
        return tuple(self._times(piece, lambda patch: (self.left.solid, patch)) for piece in self.right.pieces)

    def _times(self, piece: Piece, factors: Callable[[Patch], tuple[Patch, Patch]]) -> Piece:
        patches = tuple(_pair(*factors(patch), len(self.left.axes)) for patch in piece.patches)
        dimension = piece.dimension + len(self.axes) - len(piece.axes)
        return replace(piece, axes=self.axes, dimension=dimension, patches=patches)

    def _boundary(self) -> Piece:
        if isinstance(self.right, Box):
            return join("boundary", self._lateral)
        return join("boundary", self._ends if isinstance(self.left, Box) else self.pieces)

    def __repr__(self) -> str:
        return f"{self.left.in_text} * {self.right.in_text}"


def multiply(left: AbstractDomain, right: AbstractDomain) -> AbstractDomain:
    """left × right: a Box when both are, else a Product."""
    product = Product(left, right)
    return Box(**dict(left), **dict(right)) if isinstance(left, Box) and isinstance(right, Box) else product


def _pair(first: Patch, second: Patch, width: int) -> Patch:
    """The product of two patches: coordinates, points and normals side by side, `width` columns of the first."""
    split = len(first.ends)

    def chart(unit):
        (p, u), (q, v) = first.chart(unit[:, :split]), second.chart(unit[:, split:])
        return np.concatenate([p, q], axis=1), np.concatenate([u, v], axis=1)

    def keep(points, normals):
        kept = np.ones(len(points), bool)
        for patch, part in ((first, slice(None, width)), (second, slice(width, None))):
            if patch.keep is not None:
                kept &= patch.keep(points[:, part], normals[:, part])
        return kept

    whole = first.keep is None and second.keep is None
    return Patch(chart, first.ends + second.ends, first.measure * second.measure, None if whole else keep)
