"""Ellipses and closed parametric curves, sampled evenly by arc length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from flm.domains.ball import center_text, read_center
from flm.domains.base import AbstractDomain, check_axes
from flm.domains.evaluate import compile_rows
from flm.domains.outline import Outline, outline
from flm.domains.piece import Patch, Piece
from flm.domains.polygon import crosses_itself, winds_around
from flm.wording import InputError, InputTypeError, check_positive, number_text

if TYPE_CHECKING:
    from jax import Array

_NODES = 4096  # nodes of the arc length table
_OUTLINE = 1024  # vertices of the polygon that tells inside from outside away from the curve

Path = Callable[[np.ndarray], Sequence[np.ndarray]]  # s (P,) → position (2, P), velocity (2, P)


@dataclass(frozen=True, init=False, repr=False)
class Ellipse(AbstractDomain):
    """An ellipse with axes along the coordinates, ((x − x0)/a)² + ((y − y0)/b)² < 1.

    Args:
        center: The center, when it is not given by keywords.
        a: Half-axis along the first coordinate.
        b: Half-axis along the second coordinate.
        axes: Names of the axes, when they are not given by keywords; x and y by default.
        coordinates: The center by axis name: `Ellipse(x=0, y=0, a=1.5, b=1)`.

    Example:
        >>> ellipse = Ellipse(x=0, y=0, a=1.5, b=1)
        >>> ellipse.contains([[1.4, 0.0], [0.0, 1.4]])
        array([ True, False])
    """

    axes: tuple[str, ...]
    origin: tuple[float, ...]
    radii: tuple[float, float]

    def __init__(
        self,
        center: Sequence[float] | None = None,
        *,
        a: float,
        b: float,
        axes: Sequence[str] | None = None,
        **coordinates: float,
    ):
        axes, origin = read_center("Ellipse", center, axes, coordinates, dimension=2)
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "origin", origin)
        object.__setattr__(self, "radii", (check_positive("a", a), check_positive("b", b)))

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Ellipse":
        a, b = named["radii"]
        return cls(named["origin"], a=a, b=b, axes=named["axes"])

    @cached_property
    def bounds(self) -> np.ndarray:
        """The rectangle around the ellipse, (2, 2)."""
        bounds = np.array(self.origin)[:, None] + np.array(self.radii)[:, None] * np.array([-1.0, 1.0])
        bounds.setflags(write=False)
        return bounds

    def level(self, points: np.ndarray) -> np.ndarray:
        """(|((x − x0)/a, (y − y0)/b)| − 1) min(a, b): negative inside, of the size of the distance."""
        scaled = (points - np.array(self.origin)) / np.array(self.radii)
        return (np.linalg.norm(scaled, axis=1) - 1.0) * min(self.radii)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The ellipse."""
        (x, y), (a, b) = self.origin, self.radii

        def path(s):
            cos, sin = np.cos(s), np.sin(s)
            return np.stack([x + a * cos, y + b * sin]), np.stack([-a * sin, b * cos])

        return (Piece(repr(self), self.axes, 1, (arc_length_patch(path),), owner=self),)

    def __repr__(self) -> str:
        a, b = (number_text(radius) for radius in self.radii)
        return f"Ellipse({center_text(self.axes, self.origin)}, a={a}, b={b})"


@dataclass(frozen=True, init=False, repr=False)
class Curve(AbstractDomain):
    """The inside of a closed curve, s in [0, 2π) → (x, y).

    Args:
        path: The curve, elementwise in s and written with jax.numpy: `lambda s: (2 * jnp.cos(s), jnp.sin(s))`.
            Either direction; it must close and must not cross itself.
        axes: Names of the two axes.

    Raises:
        ValueError: The curve is open, crosses itself, or cannot be differentiated.

    Example:
        >>> import jax.numpy as jnp
        >>> egg = Curve(lambda s: (2 * jnp.cos(s), jnp.sin(s) + 0.2 * jnp.cos(s)))
        >>> egg.contains([[1.5, 0.0], [0.0, 1.5]])
        array([ True, False])
    """

    path: "Callable[[Array], Sequence[Array | float]]"
    axes: tuple[str, ...]

    def __init__(self, path: "Callable[[Array], Sequence[Array | float]]", *, axes: Sequence[str] = ("x", "y")):
        if not callable(path):
            raise InputTypeError(f"`path` must be a function s -> (x, y); got {path!r}.")
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "axes", check_axes(axes))
        if len(self.axes) != 2:
            raise InputError(f"`axes` must be two names; got {', '.join(axes)}.")
        (start, end), _ = (value.T for value in self._follow(np.array([0.0, 2.0 * np.pi])))
        outline = self._outline[0]
        if not np.all(np.isfinite(outline)):
            raise InputError("`path` must be finite for all s in [0, 2π); got values that are not.")
        if np.linalg.norm(end - start) > 1e-9 * np.ptp(outline, axis=0).max():
            raise InputError(
                f"`path` must close, path(0) = path(2π); got {tuple(start.tolist())} and {tuple(end.tolist())}."
            )
        if crosses_itself(outline[::2]):
            raise InputError("`path` must not cross itself; got a curve that does.")

    @cached_property
    def bounds(self) -> np.ndarray:
        """The rectangle around the curve, widened by one part in a thousand of its size, (2, 2)."""
        outline = self._outline[0]
        low, high = outline.min(axis=0), outline.max(axis=0)
        return np.stack([low - 1e-3 * (high - low), high + 1e-3 * (high - low)], axis=1)

    def level(self, points: np.ndarray) -> np.ndarray:
        """The signed distance to the curve; far from it, to the nearest of its outline's vertices."""
        from scipy.spatial import KDTree  # imported here: only regions need it

        outline, s = self._outline
        distance, nearest = (np.asarray(value) for value in KDTree(outline).query(points))
        sign = np.ones(len(points))
        # Within a few chords the polygon is not the curve: slide to the foot point, s ← s + (p − γ)·γ′/|γ′|².
        spacing = np.linalg.norm(np.diff(outline, axis=0), axis=1).max()
        near = distance < 4.0 * spacing
        sign[~near] = np.where(winds_around(outline, points[~near]), -1.0, 1.0)
        (close,) = np.nonzero(near)
        if len(close):
            foot, limit = s[nearest[close]], 4.0 * np.pi / len(outline)
            for _ in range(8):
                position, velocity = self._follow(foot)
                offset = points[close].T - position
                foot = foot + np.clip((offset * velocity).sum(0) / (velocity**2).sum(0), -limit, limit)
            position, velocity = self._follow(foot)
            offset = points[close].T - position
            normal = _right(velocity) * self._orientation
            distance[close] = np.linalg.norm(offset, axis=0)
            sign[close] = np.where((offset * normal).sum(0) > 0.0, 1.0, -1.0)
        return sign * distance

    def stored(self, *, outward: bool = True) -> Outline:
        """The curve as a polygon."""
        line, s = self._outline
        middle = self._follow(s + np.pi / _OUTLINE)[0].T
        return outline(self.axes, [line], [middle], repr(self), outward)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The curve."""
        patch = arc_length_patch(self._follow, self._orientation)
        return (Piece(repr(self), self.axes, 1, (patch,), owner=self),)

    @cached_property
    def _follow(self) -> Path:
        return _differentiate(self.path)

    @cached_property
    def _outline(self) -> tuple[np.ndarray, np.ndarray]:
        s = 2.0 * np.pi * np.arange(_OUTLINE) / _OUTLINE
        return self._follow(s)[0].T, s

    @cached_property
    def _orientation(self) -> float:
        """+1 for a counterclockwise curve."""
        x, y = self._outline[0].T
        return float(np.sign(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))))

    def __repr__(self) -> str:
        name = getattr(self.path, "__name__", "path")
        return f"Curve({'s -> ' if name == '<lambda>' else name + ', '}({', '.join(self.axes)}))"


def arc_length_patch(path: Path, orientation: float = 1.0) -> Patch:
    """A closed curve as a patch whose coordinate is proportional to arc length."""
    s = 2.0 * np.pi * np.arange(_NODES + 1) / _NODES
    speed = np.linalg.norm(path(s)[1], axis=0)
    length = np.concatenate([[0.0], np.cumsum(0.5 * (speed[1:] + speed[:-1]))]) * (2.0 * np.pi / _NODES)

    def chart(unit):
        position, velocity = path(np.interp(unit[:, 0] * length[-1], length, s))
        return position.T, (orientation * _right(velocity) / np.linalg.norm(velocity, axis=0)).T

    return Patch(chart, ends=(False,), measure=float(length[-1]))


def _right(vectors: np.ndarray) -> np.ndarray:
    """Plane vectors (2, P) turned right by a quarter: outward of a counterclockwise curve."""
    return np.stack([vectors[1], -vectors[0]])


def _differentiate(path: "Callable[[Array], Sequence[Array | float]]") -> Path:
    import jax
    import jax.numpy as jnp

    def function(columns):
        s = columns[0]

        def point(s):
            coordinates = path(s)
            if len(coordinates) != 2:
                raise InputError(f"`path` must return two coordinates; got {len(coordinates)}.")
            return jnp.stack([jnp.broadcast_to(value, s.shape) for value in coordinates])

        return jax.jvp(point, (s,), (jnp.ones_like(s),))

    rows = compile_rows(function, 1, "path")
    return lambda s: tuple(rows(s[:, None]))
