"""What every domain is: named axes, a bounding box, a sampler of its inside, and named pieces of its boundary."""

import keyword
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import jax
import numpy as np
import numpy.typing as npt

from flm.domains.piece import Patch, Piece, join
from flm.language.expressions import ExpressionError, compile_expression
from flm.wording import InputError, check_count, did_you_mean, number_text, short

if TYPE_CHECKING:
    from flm.domains.combined import Combination

_SNAP = 1e-9  # a pinned value this close to a bound, relative to the width, is that bound
EDGE = 1e-12  # how far outside, relative to the size, a point still counts as on the boundary


class AbstractDomain(ABC):
    """A bounded open set of points with named axes; all sampling follows from its `bounds`, `level` and `pieces`."""

    axes: tuple[str, ...]
    bounds: np.ndarray  # of the bounding box, (m, 2); not a field of a shape, but made from its fields

    def _set(self, **attributes: object) -> None:
        """Set attributes of a shape, which is frozen, while it is made; arrays become read-only."""
        for name, value in attributes.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, object]:
        """Everything but what is made on first use, which may be code that no pickle holds."""
        made = {name for kind in type(self).__mro__ for name, v in vars(kind).items() if isinstance(v, cached_property)}
        return {name: value for name, value in vars(self).items() if name not in made}

    @abstractmethod
    def level(self, points: np.ndarray) -> np.ndarray:
        """A function that is negative inside, zero on the boundary and positive outside, (P,)."""

    @property
    @abstractmethod
    def pieces(self) -> tuple[Piece, ...]:
        """The natural pieces of the boundary."""

    @property
    def width(self) -> np.ndarray:
        """Widths of the bounding box, (m,)."""
        return self.bounds[:, 1] - self.bounds[:, 0]

    @property
    def center(self) -> np.ndarray:
        """Center of the bounding box, (m,)."""
        return self.bounds.mean(axis=1)

    @property
    def leaves(self) -> tuple["AbstractDomain", ...]:
        """The shapes that this domain is made of; itself unless it is a combination."""
        return (self,)

    @property
    def note(self) -> str:
        """A clause that a reader of the domain should know; "" where there is nothing to say."""
        return "; ".join(leaf.note for leaf in self.leaves if leaf is not self and leaf.note)

    def stored(self, *, outward: bool = True) -> "AbstractDomain":
        """The domain as a file holds it, without code: itself, or an outline enlarged (a hole: reduced) by the tracing error."""
        return self

    def contains(self, points: npt.ArrayLike, *, tolerance: float = EDGE) -> np.ndarray:
        """Whether each point (P, m) is in the closed domain, up to a tolerance relative to the domain's size."""
        return self.level(self.as_points(points)) <= tolerance * self.width.max()

    def contains_traced(self, points: jax.Array, *, tolerance: float = EDGE) -> jax.Array:
        """`contains` within a program that JAX traces; derivatives see it as a constant."""

        def inside(here: np.ndarray) -> np.ndarray:
            here = np.asarray(here)  # (..., P, m): vmap adds axes in front
            return self.contains(here.reshape(-1, here.shape[-1]), tolerance=tolerance).reshape(here.shape[:-1])

        shape = jax.ShapeDtypeStruct(points.shape[:-1], bool)
        return jax.pure_callback(inside, shape, jax.lax.stop_gradient(points), vmap_method="expand_dims")

    def interior(self, n: int, *, seed: int, warp: bool = True) -> np.ndarray:
        """`n` points strictly inside, (n, m): scrambled Sobol points over the bounds, those outside rejected.

        With `warp` they are denser towards the faces of the bounding box (arcsine density), as least squares wants it.
        """
        check_count("n", n, 1)
        if not isinstance(seed, int | np.integer):
            raise InputError(f"`seed` must be an integer; got {seed!r}.")
        return self.solid.sample(n, seed=seed, warp=warp)[0]

    @cached_property
    def solid(self) -> Patch:
        """The inside as a patch over the bounds, without normals; its measure is 0 where no inner point is found."""
        low, high = self.bounds.T
        margin = np.maximum(1e-13 * (high - low), np.spacing(np.maximum(abs(low), abs(high))))

        def chart(unit):
            points = np.clip(low + (high - low) * unit, low + margin, high - margin)  # strictly inside after rounding
            return points, np.zeros_like(points)

        box = Patch(chart, (True,) * len(low), float(np.prod(high - low)))
        inside = lambda points, normals: self.level(points) < 0.0
        return box if self._fills_bounds else box.cut(inside) or replace(box, measure=0.0, keep=inside)

    def grid(self, shape: int | Sequence[int]) -> np.ndarray:
        """The points of an even grid over the bounds, ends included, that are inside, (P, m), last axis fastest.

        `shape` is the number of points along each axis: one number for all axes, or one each.
        """
        sizes = (shape,) * len(self.axes) if isinstance(shape, int | np.integer) else tuple(shape)
        if len(sizes) != len(self.axes) or not all(isinstance(k, int | np.integer) and k >= 2 for k in sizes):
            raise InputError(
                f"`shape` must be one number, or one for each of the axes {', '.join(self.axes)}, of at least 2; "
                f"got {sizes}."
            )
        lines = [np.linspace(lo, hi, k) for (lo, hi), k in zip(self.bounds, sizes, strict=True)]
        points = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(lines))
        return points if self._fills_bounds else points[self.contains(points)]

    def piece(self, where: "str | Piece | AbstractDomain") -> Piece:
        """The part of the domain that `where` names.

        `where` is "x=0", "x=min", "x=0, y=1" (faces, edges, points and interior planes), "boundary", or a shape, which names the
        part of the boundary that came from it.
        """
        if isinstance(where, Piece):
            return where
        if isinstance(where, str):
            return self._boundary() if where.strip() == "boundary" else self._pinned(where)
        if not isinstance(where, AbstractDomain):
            raise InputError(f'`where` must be a string like "{self.axes[0]}=0", or a shape; got {where!r}.')
        mine = [piece for piece in self.pieces if piece.owner in where.leaves]
        if not mine:
            raise InputError(
                f"`where` must be a shape that part of the boundary came from; got {where!r}. "
                f"The boundary came from: {', '.join(repr(leaf) for leaf in self.leaves)}."
            )
        return join(mine[0].name if len(mine) == 1 else repr(where), mine)

    def __sub__(self, other: "AbstractDomain") -> "Combination":
        return self._combined("-", other)

    def __and__(self, other: "AbstractDomain") -> "Combination":
        return self._combined("&", other)

    def __or__(self, other: "AbstractDomain") -> "Combination":
        return self._combined("|", other)

    def _combined(self, operation: str, other: "AbstractDomain") -> "Combination":
        from flm.domains.combined import Combination  # a combination knows its parts, not the other way round

        return Combination(operation, self, other)

    def __mul__(self, other: "AbstractDomain") -> "AbstractDomain":
        from flm.domains.combined import multiply  # a product knows its factors, not the other way round

        return multiply(self, other) if isinstance(other, AbstractDomain) else NotImplemented

    def as_points(self, points: npt.ArrayLike) -> np.ndarray:
        """`points` as a float64 array (P, m), refused when the number of columns is not the number of axes."""
        shape = f"shape (P, {len(self.axes)})"
        try:
            array = np.asarray(points, float)
        except (TypeError, ValueError):
            raise InputError(f"`points` must be numbers of {shape}; got {short(points)}.") from None
        if array.ndim != 2 or array.shape[1] != len(self.axes):
            axes = ", ".join(self.axes)
            raise InputError(f"`points` must have {shape}, one column for each of {axes}; got {array.shape}.")
        return array

    _fills_bounds = False

    def _boundary(self) -> Piece:
        return join("boundary", self.pieces)

    def _pinned(self, where: str) -> Piece:
        """The plane, edge or point that `where` pins, cut down to the domain."""
        fixed, normal = {}, np.zeros(len(self.axes))
        for axis, value in parse_where(where, self.axes).items():
            index = self.axes.index(axis)
            low, high = self.bounds[index]
            value = {"min": low, "max": high}.get(value, value) if isinstance(value, str) else value
            tolerance = _SNAP * (high - low)
            if not low - tolerance <= value <= high + tolerance:
                inside = f"{number_text(low)} <= {axis} <= {number_text(high)}"
                raise self._not_here(f"in the domain, {inside}", where)
            at_low, at_high = abs(value - low) <= tolerance, abs(value - high) <= tolerance
            if (at_low or at_high) and not normal.any():
                normal[index] = -1.0 if at_low else 1.0
            fixed[axis] = float(low if at_low else high if at_high else value)
        if self._fills_bounds:
            return self._plane(fixed, normal)
        if mine := [piece for piece in self.pieces if piece.fixed == fixed]:
            return mine[0] if len(mine) == 1 else replace(join(place_text(fixed), mine), fixed=fixed)
        plane = self._plane(fixed, np.zeros(len(self.axes))).cut(lambda points, normals: self.contains(points))
        if plane is None:
            raise self._not_here("that meets the domain", where)
        return plane

    def _not_here(self, rule: str, where: str) -> InputError:
        pieces = ", ".join(piece.name for piece in self.pieces)
        return InputError(f"`where` must be a place {rule}; got {where!r}. The boundary pieces are: {pieces}.")

    def _plane(self, fixed: dict[str, float], normal: np.ndarray) -> Piece:
        """The points of the bounds with some axes fixed."""
        free = [index for index, axis in enumerate(self.axes) if axis not in fixed]
        base = np.array([fixed.get(axis, 0.0) for axis in self.axes])
        width = self.width

        def chart(unit):
            points = np.tile(base, (len(unit), 1))
            points[:, free] = self.bounds[free, 0] + width[free] * unit
            return points, np.tile(normal, (len(unit), 1))

        patch = Patch(chart, ends=(True,) * len(free), measure=float(np.prod(width[free])))
        return Piece(place_text(fixed), self.axes, len(free), (patch,), fixed=fixed, owner=self)


def check_axes(names: Sequence[str]) -> tuple[str, ...]:
    """`names` as a tuple, refused unless they are distinct identifiers other than "n" (the normal's letter)."""
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise InputError(f"`axes` must be valid Python names; got {name!r}.")
        if name == "n":
            raise InputError("`axes` must not contain 'n': u_n is the normal derivative. Rename the axis.")
    if len(set(names)) != len(names):
        raise InputError(f"`axes` must be distinct; got {', '.join(names)}.")
    return tuple(names)


def parse_where(where: str, axes: Sequence[str]) -> dict[str, float | str]:
    """The pinned axes of a place such as "x=0, t=min" or "t=2*pi", in the order of `axes`: {"x": 0.0, "t": "min"}."""
    pinned: dict[str, float | str] = {}
    for part in where.split(","):
        name, equals, text = (piece.strip() for piece in part.partition("="))
        try:
            value = text if text in ("min", "max") else compile_expression(text if equals else "").constant()
        except ExpressionError:
            raise InputError(
                f'`where` must be a place like "{axes[0]}=0", "{axes[0]}=min" or "boundary"; got {where!r}. '
                "Values are min, max and numbers such as 2*pi."
            ) from None
        if name not in axes:
            raise InputError(
                f"`where` must name an axis of the domain ({', '.join(axes)}); got {name!r} in {where!r}."
                + did_you_mean(name, axes)
            )
        if name in pinned:
            raise InputError(f"`where` must pin each axis once; got {name!r} twice in {where!r}.")
        pinned[name] = value
    return {axis: pinned[axis] for axis in axes if axis in pinned}


def place_text(fixed: dict[str, float]) -> str:
    """The canonical name of a place: "x=0, t=1"."""
    return ", ".join(f"{axis}={number_text(value)}" for axis, value in fixed.items())
