"""Disks and balls."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from flm.domains.base import AbstractDomain, check_axes
from flm.domains.box import Box
from flm.domains.piece import Patch, Piece
from flm.wording import InputError, check_positive, number_text


@dataclass(frozen=True, init=False, repr=False)
class Ball(AbstractDomain):
    """A ball, |x − c| < radius, in any dimension: a region, or a set of initial states.

    Args:
        center: The center, when it is not given by keywords: `Ball((0.2, 0.2, 0.6), 0.15)`.
        radius: The radius.
        axes: Names of the axes, when not given by keywords; x, y, z up to three dimensions, x1, x2, … beyond.
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

    def __init__(
        self,
        center: Sequence[float] | None = None,
        radius: float = 1.0,
        *,
        axes: Sequence[str] | None = None,
        **coordinates: float,
    ):
        axes, origin = read_center(type(self).__name__, center, axes, coordinates, dimension=self._dimension)
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "origin", origin)
        object.__setattr__(self, "radius", check_positive("radius", radius))

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Ball":
        return cls(named["origin"], named["radius"], axes=named["axes"])

    @cached_property
    def bounds(self) -> np.ndarray:
        """The cube around the ball, (m, 2)."""
        bounds = np.array(self.origin)[:, None] + self.radius * np.array([-1.0, 1.0])
        bounds.setflags(write=False)
        return bounds

    def level(self, points: np.ndarray) -> np.ndarray:
        """The signed distance to the sphere."""
        return np.linalg.norm(points - np.array(self.origin), axis=1) - self.radius

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The sphere as one piece: the circle in the plane, the two end points on a line.

        Area-preserving charts: the angle (m = 2), height and angle (m = 3, Archimedes), normalized Gaussians beyond.
        """
        from scipy.special import gamma, ndtri

        m = len(self.axes)
        if m == 1:
            return Box(**{self.axes[0]: tuple(self.bounds[0])}).pieces

        def chart(unit):
            if m == 2:
                angle = 2.0 * np.pi * unit[:, 0]
                normals = np.stack([np.cos(angle), np.sin(angle)], axis=1)
            elif m == 3:
                height, angle = 1.0 - 2.0 * unit[:, 0], 2.0 * np.pi * unit[:, 1]
                ring = np.sqrt((1.0 - height) * (1.0 + height))
                normals = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=1)
            else:
                normals = ndtri(unit)
            normals /= np.linalg.norm(normals, axis=1, keepdims=True)
            return np.array(self.origin) + self.radius * normals, normals

        # |S^(m−1)| = 2 π^(m/2) / Γ(m/2)
        measure = 2.0 * np.pi ** (m / 2) / gamma(m / 2) * self.radius ** (m - 1)
        ends = (False,) * (m - 1 if m <= 3 else m)
        return (Piece(repr(self), self.axes, m - 1, (Patch(chart, ends, float(measure)),), owner=self),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({center_text(self.axes, self.origin)}, radius={number_text(self.radius)})"


@dataclass(frozen=True, init=False, repr=False)
class Disk(Ball):
    """A disk, |x − c| < radius, in the plane.

    Args:
        center: The center, when it is not given by keywords.
        radius: The radius.
        axes: Names of the two axes, when they are not given by keywords; x and y by default.
        coordinates: The center by axis name: `Disk(x=0, y=0, radius=1)`.

    Example:
        >>> disk = Disk(x=0, y=0, radius=2)
        >>> disk.bounds
        array([[-2.,  2.],
               [-2.,  2.]])
    """

    _dimension: ClassVar[int | None] = 2


def read_center(
    shape: str,
    center: Sequence[float] | None,
    axes: Sequence[str] | None,
    coordinates: dict[str, float],
    dimension: int | None,
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Axes and center of a shape, from a sequence or from keywords."""
    if center is not None and coordinates:
        raise InputError(
            f"`center` must be given once, as a sequence or by axis names; got both, with {', '.join(coordinates)}."
        )
    if coordinates:
        axes, center = tuple(coordinates), tuple(coordinates.values())
    elif center is None:
        center = (0.0,) * (dimension or 3)
    try:
        origin = tuple(float(value) for value in center)
    except (TypeError, ValueError):
        raise InputError(f"`center` must be numbers, one for each axis; got {center!r}.") from None
    if not np.all(np.isfinite(origin)) or not origin:
        raise InputError(f"`center` must be finite numbers, one for each axis; got {center!r}.")
    if dimension is not None and len(origin) != dimension:
        raise InputError(
            f"`{shape}` must have {dimension} axes; got {len(origin)}"
            + (f" ({', '.join(coordinates)})." if coordinates else ".")
        )
    if axes is None:
        axes = ("x", "y", "z")[: len(origin)] if len(origin) <= 3 else [f"x{j + 1}" for j in range(len(origin))]
    if len(axes) != len(origin):
        raise InputError(f"`axes` must be {len(origin)} names, one for each coordinate; got {', '.join(axes)}.")
    return check_axes(axes), origin


def center_text(axes: Sequence[str], origin: Sequence[float]) -> str:
    """ "x=0, y=0.5"."""
    return ", ".join(f"{axis}={number_text(value)}" for axis, value in zip(axes, origin, strict=True))
