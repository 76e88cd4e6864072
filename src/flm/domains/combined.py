"""Domains made of domains: difference, intersection and union of shapes, with the boundary kept by owner, and products of
domains with different axes, such as a region times an interval of time."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from flm.domains.base import EDGE, AbstractDomain
from flm.domains.box import Box, NotHeld
from flm.domains.piece import Patch, Piece, join
from flm.wording import InputError, InputTypeError

_PROBE = 1e-7  # how far to look on both sides of a boundary point, relative to the size
_TOUCH = 1e-10  # boundaries closer than this, relative to the size, coincide
_DIRECTIONS, _ROUNDS = 64, 6  # of the search for an inner point nearby: wedges down to a tenth of a degree are found


@dataclass(frozen=True, repr=False)
class Combination(AbstractDomain):
    """left − right, left & right or left | right, each the closure of its interior, so that no face is without an inside.

    The level is a maximum or minimum of levels. The boundary needs no tracing: a boundary point p of one of the shapes,
    with unit normal ν, is a boundary point of the combination when exactly one of p ± εν is inside it; the normal that
    points outside is the outward one, so it turns around on a subtracted shape.
    """

    operation: str  # "-", "&" or "|"
    left: AbstractDomain
    right: AbstractDomain

    def __post_init__(self):
        if self.operation not in ("-", "&", "|"):
            raise InputError(f"`operation` must be '-', '&' or '|'; got {self.operation!r}.")
        if not (isinstance(self.left, AbstractDomain) and isinstance(self.right, AbstractDomain)):
            raise InputTypeError(f"`{self.operation}` must join two domains; got {self.left!r} and {self.right!r}.")
        if self.left.axes != self.right.axes:
            got = f"{', '.join(self.left.axes)} and {', '.join(self.right.axes)}"
            raise InputError(f"`{self.operation}` must join domains with the same axes in the same order; got {got}.")
        a, b = self.left.bounds, self.right.bounds
        lower, upper = (np.maximum, np.minimum) if self.operation == "&" else (np.minimum, np.maximum)
        joined = np.stack([lower(a[:, 0], b[:, 0]), upper(a[:, 1], b[:, 1])], axis=1)
        self._set(axes=self.left.axes, bounds=a if self.operation == "-" else joined)
        if np.any(self.width <= 0.0) or self.solid.measure == 0.0:
            raise InputError(f"`{self.operation}` must leave a region; got an empty one: {self!r}.")

    def level(self, points: np.ndarray) -> np.ndarray:
        """max(left, −right), max(left, right) or min(left, right)."""
        a, b = self.left.level(points), self.right.level(points)
        if self.operation == "-":
            return np.maximum(a, -b)
        return np.maximum(a, b) if self.operation == "&" else np.minimum(a, b)

    def contains(self, points: npt.ArrayLike, *, tolerance: float = EDGE) -> np.ndarray:
        """Whether each point (P, m) is in the combination or within a tolerance, relative to its size, of its interior."""
        points, size = self.as_points(points), float(self.width.max())
        level = self.level(points)
        inside = level <= tolerance * size
        # Near the boundary of one shape the level decides; where several boundaries meet, look around.
        near = np.flatnonzero(inside & (level > -_TOUCH * size))
        met = sum((np.abs(shape.level(points[near])) <= _TOUCH * size).astype(int) for shape in self._shapes)
        doubtful = near[met > 1]
        inside[doubtful] = self._has_inside_around(points[doubtful])
        return inside

    def _has_inside_around(self, points: np.ndarray) -> np.ndarray:
        """Whether the level is negative somewhere on a small sphere around each point: descent over directions."""
        size, rng = float(self.width.max()), np.random.default_rng(0)
        (count, m), rows = points.shape, np.arange(len(points))
        best, lowest = np.zeros((count, 1, m)), np.full(count, np.inf)
        for spread in 3.0 ** -np.arange(_ROUNDS):
            ways = best + spread * rng.normal(size=(1, _DIRECTIONS, m))
            ways = np.concatenate([best, ways / np.linalg.norm(ways, axis=2, keepdims=True)], axis=1)
            level = self.level((points[:, None] + _PROBE * size * ways).reshape(-1, m)).reshape(ways.shape[:2])
            choice = level.argmin(axis=1)
            best, lowest = ways[rows, choice][:, None], level[rows, choice]
        return lowest < -EDGE * size

    def stored(self, *, outward: bool = True) -> AbstractDomain:
        """The combination of both sides as a file holds them; its bounds alone where a side cannot be held."""
        left = self.left.stored(outward=outward)
        right = self.right.stored(outward=outward != (self.operation == "-"))
        if left.note or right.note:
            return NotHeld(dict(zip(self.axes, self.bounds, strict=True)), repr(self))
        return Combination(self.operation, left, right)

    @property
    def leaves(self) -> tuple[AbstractDomain, ...]:
        """The shapes, from left to right."""
        return tuple(dict.fromkeys(self.left.leaves + self.right.leaves))

    @cached_property
    def _shapes(self) -> tuple[AbstractDomain, ...]:
        """The shapes that are combined, from left to right; unlike a leaf, each has all of the axes."""
        sides = (side._shapes if isinstance(side, Combination) else (side,) for side in (self.left, self.right))
        return tuple(dict.fromkeys(shape for side in sides for shape in side))

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """What remains of each shape's pieces, in the order of the shapes."""
        found = []
        for index, shape in enumerate(self._shapes):
            outward = self._outward(self._shapes[:index])
            both = (replace(p, patches=p.patches + tuple(map(_flip, p.patches))) for p in shape.pieces)
            found += [cut for piece in both if (cut := piece.cut(outward)) is not None]
        return tuple(found)

    def _outward(self, earlier: tuple[AbstractDomain, ...]):
        """The rule that keeps boundary points of a shape that bound the combination, with this normal, and no earlier shape."""
        size = float(self.width.max())

        def keep(points, normals):
            step = _PROBE * size * normals
            kept = (self.level(points - step) < 0.0) & (self.level(points + step) > 0.0)
            for other in earlier:
                kept &= np.abs(other.level(points)) > _TOUCH * size
            return kept

        return keep

    def __repr__(self) -> str:
        return f"{_in_text(self.left)} {self.operation} {_in_text(self.right)}"


def _in_text(part: AbstractDomain) -> str:
    return f"({part!r})" if isinstance(part, Combination) else repr(part)


def _flip(patch: Patch) -> Patch:
    """The patch with its normals turned around."""

    def chart(unit):
        points, normals = patch.chart(unit)
        return points, -normals

    return replace(patch, chart=chart)


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
        bounds = np.concatenate([self.left.bounds, self.right.bounds])
        self._set(axes=self.left.axes + self.right.axes, bounds=bounds)

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
        width, m = len(self.left.axes), len(self.axes)
        lateral = [(piece, [_pair(p, self.right.solid, width) for p in piece.patches]) for piece in self.left.pieces]
        faces = [(piece, [_pair(self.left.solid, p, width) for p in piece.patches]) for piece in self.right.pieces]
        return tuple(
            replace(piece, axes=self.axes, dimension=piece.dimension + m - len(piece.axes), patches=tuple(patches))
            for piece, patches in lateral + faces
        )

    def _boundary(self) -> Piece:
        cut = len(self.left.pieces)
        if isinstance(self.right, Box):
            return join("boundary", self.pieces[:cut])
        return join("boundary", self.pieces[cut:] if isinstance(self.left, Box) else self.pieces)

    def __repr__(self) -> str:
        return f"{_in_text(self.left)} * {_in_text(self.right)}"


def multiply(left: AbstractDomain, right: AbstractDomain) -> AbstractDomain:
    """left × right: a Box when both are boxes, else a Product."""
    product = Product(left, right)
    return Box(**dict(left), **dict(right)) if isinstance(left, Box) and isinstance(right, Box) else product


def _pair(first: Patch, second: Patch, width: int) -> Patch:
    """The product of two patches: coordinates, points and normals side by side, the first `width` columns from the first."""
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
