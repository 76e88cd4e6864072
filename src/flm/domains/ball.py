"""Balls, disks and ellipses."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from flm.domains.base import AbstractDomain, check_axes
from flm.domains.box import Box
from flm.domains.curve import arc_length_patch
from flm.domains.piece import Patch, Piece
from flm.wording import InputError, check_positive, number_text


class AbstractEllipsoid(AbstractDomain):
    """{x: |(x − origin) / radii| < 1}, with half-axes along the coordinates."""

    origin: tuple[float, ...]
    radii: tuple[float, ...]

    @cached_property
    def bounds(self) -> np.ndarray:
        """The box around it, (m, 2)."""
        bounds = np.array(self.origin)[:, None] + np.array(self.radii)[:, None] * np.array([-1.0, 1.0])
        bounds.setflags(write=False)
        return bounds

    def level(self, points: np.ndarray) -> np.ndarray:
        """(|(x − origin) / radii| − 1) min(radii): negative inside, of the size of the distance."""
        scaled = (points - np.array(self.origin)) / np.array(self.radii)
        return (np.linalg.norm(scaled, axis=1) - 1.0) * min(self.radii)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The whole boundary; the two end points on a line."""
        if len(self.axes) == 1:
            return Box(**{self.axes[0]: tuple(self.bounds[0])}).pieces
        patch = self._ellipse() if len(self.axes) == 2 else self._sphere()
        return (Piece(repr(self), self.axes, len(self.axes) - 1, (patch,), owner=self),)

    def _ellipse(self) -> Patch:
        (x, y), (a, b) = self.origin, self.radii

        def path(s):
            cos, sin = np.cos(s), np.sin(s)
            return np.stack([x + a * cos, y + b * sin]), np.stack([-a * sin, b * cos])

        return arc_length_patch(path)

    def _sphere(self) -> Patch:
        """A sphere by area: height and angle in space (Archimedes), normalized Gaussians beyond."""
        from scipy.special import gamma, ndtri

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

    def _center(self) -> str:
        return ", ".join(f"{axis}={number_text(value)}" for axis, value in zip(self.axes, self.origin, strict=True))


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
            raise InputError(
                f"`center` must be given once, as a sequence or by axis names; got both, with {', '.join(coordinates)}."
            )
        if not coordinates:
            values = np.zeros(self._dimension or 3) if center is None else np.atleast_1d(np.asarray(center, object))
            names = ("x", "y", "z") if len(values) <= 3 else [f"x{j + 1}" for j in range(len(values))]
            coordinates = dict(zip(names, values, strict=False))
        _set_center(self, coordinates, self._dimension)
        object.__setattr__(self, "radius", check_positive("radius", radius))

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Ball":
        return cls(radius=named["radius"], **dict(zip(named["axes"], named["origin"], strict=True)))

    @property
    def radii(self) -> tuple[float, ...]:
        """The radius along each axis."""
        return (self.radius,) * len(self.axes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._center()}, radius={number_text(self.radius)})"


@dataclass(frozen=True, init=False, repr=False)
class Disk(Ball):
    """A disk, |x − c| < radius, in the plane.

    Args:
        center: The center, when it is not given by keywords.
        radius: The radius.
        coordinates: The center by axis name: `Disk(x=0, y=0, radius=1)`.

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
        _set_center(self, coordinates, 2)
        object.__setattr__(self, "radii", (check_positive("a", a), check_positive("b", b)))

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Ellipse":
        a, b = named["radii"]
        return cls(a=a, b=b, **dict(zip(named["axes"], named["origin"], strict=True)))

    def __repr__(self) -> str:
        a, b = (number_text(radius) for radius in self.radii)
        return f"Ellipse({self._center()}, a={a}, b={b})"


def _set_center(shape: Ball | Ellipse, coordinates: dict[str, float], dimension: int | None) -> None:
    """Give a shape its axes and its center, refused unless they are numbers, and as many as the shape has."""
    center = tuple(coordinates.values())
    try:
        origin = tuple(float(value) for value in center)
    except (TypeError, ValueError):
        raise InputError(f"`center` must be numbers, one for each axis; got {center!r}.") from None
    if not np.all(np.isfinite(origin)) or not origin:
        raise InputError(f"`center` must be finite numbers, one for each axis; got {center!r}.")
    if dimension is not None and len(origin) != dimension:
        raise InputError(
            f"`{type(shape).__name__}` must have {dimension} axes; got {len(origin)} ({', '.join(coordinates)})."
        )
    object.__setattr__(shape, "axes", check_axes(list(coordinates)))
    object.__setattr__(shape, "origin", origin)
