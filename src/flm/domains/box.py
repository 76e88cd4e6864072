"""Boxes: products of intervals with named axes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from flm.domains.base import EDGE, AbstractDomain, check_axes
from flm.domains.piece import Piece, join
from flm.wording import InputError, UnknownNameError, did_you_mean, number_text


@dataclass(frozen=True, init=False, repr=False)
class Box(AbstractDomain):
    """A box with named axes, lo_j ≤ x_j ≤ hi_j.

    Args:
        axes: For each axis its interval, in order: `Box(x=(0, 1), t=(0, 2))`.

    Raises:
        ValueError: An interval is not finite or not increasing, or a name is not usable in a residual.

    Example:
        >>> box = Box(x=(0, 1), t=(0, 2))
        >>> box["t"]
        (0.0, 2.0)
        >>> [piece.name for piece in box.pieces]
        ['x=0', 'x=1', 't=0', 't=2']
    """

    axes: tuple[str, ...]
    intervals: tuple[tuple[float, float], ...]

    def __init__(self, **axes: tuple[float, float]):
        if not axes:
            raise InputError("`Box` must have at least one axis, for example Box(x=(0, 1)).")
        names, intervals = check_axes(list(axes)), tuple(_interval(name, pair) for name, pair in axes.items())
        self._set(axes=names, intervals=intervals, bounds=np.array(intervals))

    def level(self, points: np.ndarray) -> np.ndarray:
        """The signed distance to the nearest face plane, negative inside."""
        low, high = self.bounds.T
        return np.maximum(low - points, points - high).max(axis=1)

    def contains(self, points: npt.ArrayLike, *, tolerance: float = EDGE) -> np.ndarray:
        """Whether each point (P, m) is in the closed box, up to a tolerance relative to each axis and to rounding."""
        points, (low, high) = self.as_points(points), self._widened(tolerance)
        if len(points) and np.all(points.min(axis=0) >= low) and np.all(points.max(axis=0) <= high):
            return np.ones(len(points), bool)  # fast path for the usual case, three times faster
        return np.all((points >= low) & (points <= high), axis=1)

    def contains_traced(self, points: jax.Array, *, tolerance: float = EDGE) -> jax.Array:
        """`contains` within a program that JAX traces."""
        low, high = self._widened(tolerance)
        return ((points >= low) & (points <= high)).all(axis=-1)

    def _widened(self, tolerance: float) -> np.ndarray:
        """The lower and upper bounds with the slack that `contains` allows, (2, m)."""
        low, high = self.bounds.T
        slack = np.maximum(tolerance * self.width, 2.0 * np.spacing(np.maximum(abs(low), abs(high))))
        return np.stack([low - slack, high + slack])

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Box":
        return cls(**dict(zip(named["axes"], named["intervals"], strict=True)))

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The faces, axis by axis, lower before upper."""
        return tuple(self._pinned(f"{axis}={end}") for axis in self.axes for end in ("min", "max"))

    def keys(self) -> tuple[str, ...]:
        """The axes' names, so that `dict(box)` gives the intervals."""
        return self.axes

    def __getitem__(self, axis: str) -> tuple[float, float]:
        if axis not in self.axes:
            near = did_you_mean(axis, self.axes)
            raise UnknownNameError(f"`axis` must be one of {', '.join(self.axes)}; got {axis!r}.{near}")
        return self.intervals[self.axes.index(axis)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.axes)

    def __len__(self) -> int:
        return len(self.axes)

    def __repr__(self) -> str:
        sides = (f"{axis}=({_text(lo)}, {_text(hi)})" for axis, (lo, hi) in zip(self.axes, self.intervals, strict=True))
        return f"Box({', '.join(sides)})"

    _fills_bounds = True

    def _boundary(self) -> Piece:
        # Axes may have different units, so areas do not compare: faces share samples equally.
        return join("boundary", self.pieces, equal=True)


@dataclass(frozen=True, init=False, repr=False)
class NotHeld(Box):
    """The bounds of a region that a file could not hold, because it was code in three variables or more."""

    source: str  # what the region was

    def __init__(self, bounds: Mapping[str, tuple[float, float]], source: str):
        super().__init__(**bounds)
        self._set(source=str(source))

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "NotHeld":
        return cls(dict(zip(named["axes"], named["intervals"], strict=True)), named["source"])

    @property
    def note(self) -> str:
        """A clause that says that values outside of the region are not told apart."""
        return f"the file does not hold the region {self.source}, so all of its bounds are shown"

    def __repr__(self) -> str:
        return f"{self.source} (not held; bounds {super().__repr__()})"


def _text(value: float) -> str:
    short = number_text(value)
    return short if float(short) == value else repr(value)


def _interval(name: str, pair) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in pair)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be an interval (low, high); got {pair!r}.") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"`{name}` must be a finite interval with low < high; got ({_text(low)}, {_text(high)}).")
    width = high - low
    if not (math.isfinite(1.0 / width) and math.isfinite(width)):
        raise InputError(f"`{name}` must be an interval of width 1e-307 to 1e308; got ({_text(low)}, {_text(high)}).")
    return low, high
