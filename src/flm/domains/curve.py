"""Shapes with smooth boundaries that a formula follows: balls, disks, ellipses and the insides of closed curves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import gamma, ndtri

from flm.domains.base import AbstractDomain, check_axes
from flm.domains.box import Box
from flm.domains.piece import Patch, Piece
from flm.domains.polygon import Outline, crosses_itself, outline, signed_area, winds_around
from flm.numerics.elementwise import at_rows
from flm.wording import InputError, InputTypeError, check_positive, number_text

_NODES = 4096  # nodes of the arc length table
_OUTLINE = 1024  # vertices of the polygon that tells inside from outside away from the curve
_SLIDES = 9  # steps along the curve towards the nearest point

Path = Callable[[np.ndarray], Sequence[np.ndarray]]  # s (P,) → position (P, 2), velocity (P, 2)


class AbstractEllipsoid(AbstractDomain):
    """{x: |(x − origin) / radii| < 1}, with half-axes along the coordinates."""

    origin: tuple[float, ...]
    radii: tuple[float, ...]

    def _place(self, coordinates: dict[str, float], dimension: int | None, radii: Sequence[float]) -> None:
        """Store axes, center and bounds; refused unless the center is numbers, and as many as the shape has dimensions."""
        center = tuple(coordinates.values())
        try:
            origin = tuple(float(value) for value in center)
        except (TypeError, ValueError):
            raise InputError(f"`center` must be numbers, one for each axis; got {center!r}.") from None
        if not np.all(np.isfinite(origin)) or not origin:
            raise InputError(f"`center` must be finite numbers, one for each axis; got {center!r}.")
        if dimension is not None and len(origin) != dimension:
            got = f"{len(origin)} ({', '.join(coordinates)})"
            raise InputError(f"`{type(self).__name__}` must have {dimension} axes; got {got}.")
        bounds = np.array(origin)[:, None] + np.multiply.outer(np.array(radii), [-1.0, 1.0])
        self._set(axes=check_axes(list(coordinates)), origin=origin, bounds=bounds)

    def level(self, points: np.ndarray) -> np.ndarray:
        """(|(x − origin) / radii| − 1) min(radii): negative inside, about as large as the distance."""
        scaled = (points - np.array(self.origin)) / np.array(self.radii)
        return (np.linalg.norm(scaled, axis=1) - 1.0) * min(self.radii)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The whole boundary as one piece; on a line, its two end points."""
        if len(self.axes) == 1:
            return Box(**{self.axes[0]: tuple(self.bounds[0])}).pieces
        origin, radii = np.array(self.origin), np.array(self.radii)

        def ellipse(s):
            radial = np.stack([np.cos(s), np.sin(s)], axis=1)
            return origin + radii * radial, radii * -_right(radial)

        patch = _arc_length_patch(ellipse) if len(self.axes) == 2 else self._sphere()
        return (Piece(repr(self), self.axes, len(self.axes) - 1, (patch,), owner=self),)

    def _sphere(self) -> Patch:
        """The sphere as a patch, uniform by area: height and angle in space (Archimedes), normalized Gaussians beyond."""
        m, radius = len(self.axes), self.radii[0]

        def chart(unit):
            if m == 3:
                height, angle = 1.0 - 2.0 * unit[:, 0], 2.0 * np.pi * unit[:, 1]
                ring = np.sqrt((1.0 - height) * (1.0 + height))
                normals = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=1)
            else:
                normals = ndtri(unit)
            normals /= np.linalg.norm(normals, axis=1, keepdims=True)
            return np.array(self.origin) + radius * normals, normals

        # |S^(m−1)| = 2 π^(m/2) / Γ(m/2)
        measure = 2.0 * np.pi ** (m / 2) / gamma(m / 2) * radius ** (m - 1)
        return Patch(chart, (False,) * (2 if m == 3 else m), float(measure))

    def _text(self, **sizes: float) -> str:
        named = dict(zip(self.axes, self.origin, strict=True)) | sizes
        return f"{type(self).__name__}({', '.join(f'{name}={number_text(v)}' for name, v in named.items())})"


@dataclass(frozen=True, init=False, repr=False)
class Ball(AbstractEllipsoid):
    """A ball, |x − c| < radius, in any dimension: a region, or a set of initial states.

    Args:
        center: The center, when it is not given by keywords: `Ball((0.2, 0.2, 0.6), 0.15)`. The axes are then x, y, z, or
            x1, x2, … where there are more than three.
        radius: The radius.
        coordinates: The center by axis name: `Ball(x=0, y=0, z=0, radius=1)`.

    Example:
        >>> ball = Ball((0.2, 0.2, 0.6), 0.15)
        >>> ball.axes, bool(ball.contains([[0.2, 0.2, 0.7]])[0])
        (('x', 'y', 'z'), True)
    """

    axes: tuple[str, ...]
    origin: tuple[float, ...]
    radius: float
    _dimension: ClassVar[int | None] = None  # any

    def __init__(self, center: Sequence[float] | None = None, radius: float = 1.0, **coordinates: float):
        if center is not None and coordinates:
            raise InputError(f"`center` must be given once; got a sequence, and also {', '.join(coordinates)} by name.")
        if not coordinates:
            values = np.zeros(self._dimension or 3) if center is None else np.atleast_1d(np.asarray(center, object))
            names = ("x", "y", "z") if len(values) <= 3 else [f"x{j + 1}" for j in range(len(values))]
            coordinates = dict(zip(names, values, strict=False))
        self._set(radius=check_positive("radius", radius))
        self._place(coordinates, self._dimension, [self.radius] * len(coordinates))

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Ball":
        return cls(radius=named["radius"], **dict(zip(named["axes"], named["origin"], strict=True)))

    @property
    def radii(self) -> tuple[float, ...]:
        """The radius along each axis."""
        return (self.radius,) * len(self.axes)

    def __repr__(self) -> str:
        return self._text(radius=self.radius)


@dataclass(frozen=True, init=False, repr=False)
class Disk(Ball):
    """A disk, |x − c| < radius, in the plane; its arguments are those of `Ball`.

    Example:
        >>> disk = Disk(x=0, y=0, radius=2)
        >>> disk.bounds
        array([[-2.,  2.],
               [-2.,  2.]])
    """

    _dimension: ClassVar[int | None] = 2


@dataclass(frozen=True, init=False, repr=False)
class Ellipse(AbstractEllipsoid):
    """An ellipse with axes along the coordinates, ((x − x0)/a)² + ((y − y0)/b)² < 1.

    Args:
        a: Half-axis along the first coordinate.
        b: Half-axis along the second coordinate.
        coordinates: The center by axis name: `Ellipse(x=0, y=0, a=1.5, b=1)`.

    Example:
        >>> ellipse = Ellipse(x=0, y=0, a=1.5, b=1)
        >>> ellipse.contains([[1.4, 0.0], [0.0, 1.4]])
        array([ True, False])
    """

    axes: tuple[str, ...]
    origin: tuple[float, ...]
    radii: tuple[float, float]

    def __init__(self, *, a: float, b: float, **coordinates: float):
        self._set(radii=(check_positive("a", a), check_positive("b", b)))
        self._place(coordinates, 2, self.radii)

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Ellipse":
        a, b = named["radii"]
        return cls(a=a, b=b, **dict(zip(named["axes"], named["origin"], strict=True)))

    def __repr__(self) -> str:
        return self._text(a=self.radii[0], b=self.radii[1])


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

    path: Callable[[Array], Sequence[Array | float]]
    axes: tuple[str, ...]
    _outline: ClassVar[tuple[np.ndarray, np.ndarray]]  # vertices, and s there
    _orientation: ClassVar[float]

    def __init__(self, path: Callable[[Array], Sequence[Array | float]], *, axes: Sequence[str] = ("x", "y")):
        if not callable(path):
            raise InputTypeError(f"`path` must be a function s -> (x, y); got {path!r}.")
        self._set(path=path, axes=check_axes(axes))
        if len(self.axes) != 2:
            raise InputError(f"`axes` must be two names; got {', '.join(axes)}.")
        (start, end), _ = self._follow(np.array([0.0, 2.0 * np.pi]))
        s = 2.0 * np.pi * np.arange(_OUTLINE) / _OUTLINE
        line, _ = self._follow(s)
        if not np.all(np.isfinite(line)):
            raise InputError("`path` must be finite for all s in [0, 2π); got values that are not.")
        if np.linalg.norm(end - start) > 1e-9 * np.ptp(line, axis=0).max():
            ends = " and ".join(str(tuple(point.tolist())) for point in (start, end))
            raise InputError(f"`path` must close, path(0) = path(2π); got {ends}.")
        if crosses_itself(line[::2]):
            raise InputError("`path` must not cross itself; got a curve that does.")
        room = 1e-3 * np.ptp(line, axis=0)  # the curve passes outside of its vertices
        bounds = np.stack([line.min(axis=0) - room, line.max(axis=0) + room], axis=1)
        # The orientation is +1 for a counterclockwise curve, −1 for a clockwise one.
        self._set(bounds=bounds, _outline=(line, s), _orientation=float(np.sign(signed_area(line))))

    def level(self, points: np.ndarray) -> np.ndarray:
        """The signed distance to the curve; far from it, to the nearest vertex of its outline."""
        from scipy.spatial import KDTree  # imported here: only regions need it

        line, s = self._outline
        distance, nearest = (np.asarray(value) for value in KDTree(line).query(points))
        near = distance < 4.0 * np.linalg.norm(np.diff(line, axis=0), axis=1).max()
        inside = np.zeros(len(points), bool)
        inside[~near] = winds_around(line, points[~near])
        if near.any():
            # Within a few chords the polygon is not the curve: slide to the foot point, s ← s + (p − γ)·γ′/|γ′|².
            foot, limit = s[nearest[near]], 4.0 * np.pi / len(line)
            for _ in range(_SLIDES):
                position, velocity = self._follow(foot)
                offset = points[near] - position
                foot = foot + np.clip((offset * velocity).sum(1) / (velocity**2).sum(1), -limit, limit)
            distance[near] = np.linalg.norm(offset, axis=1)
            inside[near] = (offset * _right(velocity)).sum(1) * self._orientation <= 0.0
        return np.where(inside, -distance, distance)

    def stored(self, *, outward: bool = True) -> Outline:
        """The curve as a polygon."""
        line, s = self._outline
        middle, _ = self._follow(s + np.pi / _OUTLINE)
        return outline(self.axes, [line], [middle], repr(self), outward)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The curve as one piece."""
        patch = _arc_length_patch(self._follow, self._orientation)
        return (Piece(repr(self), self.axes, 1, (patch,), owner=self),)

    @cached_property
    def _follow(self) -> Path:
        def point(s):
            coordinates = self.path(s)
            if len(coordinates) != 2:
                raise InputError(f"`path` must return two coordinates; got {len(coordinates)}.")
            return jnp.stack([jnp.broadcast_to(value, s.shape) for value in coordinates])

        rows = on_rows(lambda columns: jax.jvp(point, (columns[0],), (jnp.ones_like(columns[0]),)), 1, "path")
        return lambda s: rows(s[:, None])

    def __repr__(self) -> str:
        name = getattr(self.path, "__name__", "path")
        return f"Curve({'s -> ' if name == '<lambda>' else name + ', '}({', '.join(self.axes)}))"


def _arc_length_patch(path: Path, orientation: float = 1.0) -> Patch:
    """A closed curve as a patch whose coordinate is proportional to arc length."""
    s = 2.0 * np.pi * np.arange(_NODES + 1) / _NODES
    speed = np.linalg.norm(path(s)[1], axis=1)
    length = np.concatenate([[0.0], np.cumsum(0.5 * (speed[1:] + speed[:-1]))]) * (2.0 * np.pi / _NODES)

    def chart(unit):
        position, velocity = path(np.interp(unit[:, 0] * length[-1], length, s))
        return position, orientation * _right(velocity) / np.linalg.norm(velocity, axis=1, keepdims=True)

    return Patch(chart, ends=(False,), measure=float(length[-1]))


def _right(vectors: np.ndarray) -> np.ndarray:
    """Plane vectors (P, 2) turned right by a quarter: tangents of a counterclockwise curve become outward normals."""
    return np.stack([vectors[:, 1], -vectors[:, 0]], axis=1)


def on_rows(function: Callable[..., object], width: int, what: str) -> Callable[[np.ndarray], list[np.ndarray]]:
    """An elementwise function of coordinates as one of points (P, width) that returns arrays (P, ...)."""
    try:
        jax.eval_shape(function, jnp.zeros((width, 2)))
    except jax.errors.JAXTypeError as error:
        raise InputError(
            f"`{what}` must be elementwise and written with jax.numpy, so that it can be differentiated; "
            f"got {type(error).__name__} on tracing it. Use jnp.sin, jnp.where, … instead of np.sin or if."
        ) from None
    except (TypeError, ArithmeticError) as error:
        raise InputError(f"`{what}` must return numbers, elementwise; it failed with: {error}") from None
    return at_rows(function, (width,))
