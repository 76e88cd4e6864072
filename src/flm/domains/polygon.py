"""Polygons, and the planar geometry that other shapes use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flm.domains.base import EDGE, AbstractDomain, check_axes
from flm.domains.piece import Patch, Piece
from flm.wording import InputError, number_text, short

_SAFETY = 1.5  # times the largest gap between an outline and its curve
_MOST_STORED = 10_000  # vertices of a polygon in a file: all pairs of its sides are compared


class AbstractPolygonal(AbstractDomain):
    """The points of the plane inside an odd number of closed polygons, grown by a margin."""

    margin: float  # how far outside of the polygons a point still counts as inside
    _arrays: list[np.ndarray]  # the vertices of each polygon, (V, 2), not closed

    def _trace(self, arrays: list[np.ndarray]) -> None:
        """Store the polygons as arrays, and the bounding rectangle."""
        every = np.concatenate(arrays)
        bounds = np.stack([every.min(axis=0) - self.margin, every.max(axis=0) + self.margin], axis=1)
        self._set(_arrays=arrays, bounds=bounds)

    def level(self, points: np.ndarray, reach: float = np.inf) -> np.ndarray:
        """The signed distance to the nearest side, less the margin; sides beyond `reach` may be left out."""
        inside = np.logical_xor.reduce([winds_around(ring, points) for ring in self._arrays])
        distance = np.min([_distance_to(ring, points, reach) for ring in self._arrays], axis=0)
        return np.where(inside, -distance, distance) - self.margin

    def contains(self, points: npt.ArrayLike, *, tolerance: float = EDGE) -> np.ndarray:
        """Whether each point (P, 2) is inside or within the margin, up to a tolerance relative to the size."""
        slack = tolerance * self.width.max()
        return self.level(self.as_points(points), abs(self.margin + slack)) <= slack

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The whole boundary as one piece, one patch for each side."""
        patches = []
        for index, ring in enumerate(self._arrays):
            others = [winds_around(other, ring[:1])[0] for k, other in enumerate(self._arrays) if k != index]
            outer = signed_area(ring) * (-1.0 if sum(others) % 2 else 1.0) > 0.0
            ring = ring if outer else ring[::-1]
            patches += [_side(start, end) for start, end in zip(ring, np.roll(ring, -1, axis=0), strict=True)]
        return (Piece(repr(self), self.axes, 1, tuple(patches), owner=self),)


@dataclass(frozen=True, init=False, repr=False)
class Polygon(AbstractPolygonal):
    """A simple polygon: `Polygon(x=[0, 1, 1], y=[0, 0, 1])`.

    Args:
        coordinates: The vertices by axis name, in either direction; the first need not be repeated.

    Raises:
        ValueError: Fewer than three vertices, repeated ones, no area, or sides that cross.

    Example:
        >>> triangle = Polygon(x=[0, 1, 1], y=[0, 0, 1])
        >>> triangle.contains([[0.9, 0.5], [0.1, 0.5]])
        array([ True, False])
    """

    axes: tuple[str, ...]
    vertices: tuple[tuple[float, float], ...]
    margin: ClassVar[float] = 0.0

    def __init__(self, **coordinates: Sequence[float]):
        if len(coordinates) != 2:
            raise InputError(f"`Polygon` must have two axes, Polygon(x=[...], y=[...]); got {len(coordinates)}.")
        lengths = {name: np.size(values) for name, values in coordinates.items()}
        if len(set(lengths.values())) != 1:
            raise InputError(f"`Polygon` must have as many coordinates in each axis; got {lengths}.")
        try:
            array = np.stack([np.ravel(np.asarray(values, float)) for values in coordinates.values()], axis=1)
        except (TypeError, ValueError):
            raise InputError(f"`Polygon` must have numbers for vertices; got {short(coordinates)}.") from None
        if len(array) > 1 and np.array_equal(array[0], array[-1]):
            array = array[:-1]
        if len(array) < 3 or not np.all(np.isfinite(array)):
            raise InputError(f"`Polygon` must have at least three finite vertices; got {len(array)}.")
        size = np.ptp(array, axis=0).max()
        sides = np.linalg.norm(np.roll(array, -1, axis=0) - array, axis=1)
        if sides.min() <= 1e-12 * size:
            index = int(sides.argmin())
            raise InputError(f"`Polygon` must not repeat a vertex; got {tuple(array[index].tolist())} twice in a row.")
        if crosses_itself(array):
            raise InputError("`Polygon` must not cross itself; got sides that do. Check the order of the vertices.")
        area = signed_area(array)
        if abs(area) <= 1e-12 * size**2:
            raise InputError(f"`Polygon` must have an area; got vertices with area {area:.3g}.")
        array = array if area > 0 else array[::-1]
        self._set(axes=check_axes(list(coordinates)), vertices=tuple(map(tuple, array.tolist())))
        self._trace([array])

    def _pack(self) -> dict[str, object]:
        return {"axes": self.axes, "vertices": self._arrays[0]}

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Polygon":
        if len(named["vertices"]) > _MOST_STORED:
            raise InputError(f"a stored polygon has at most {_MOST_STORED} vertices; got {len(named['vertices'])}")
        return cls(**dict(zip(named["axes"], np.asarray(named["vertices"]).T, strict=True)))

    def __repr__(self) -> str:
        columns = [", ".join(map(number_text, values)) for values in zip(*self.vertices, strict=True)]
        return f"Polygon({', '.join(f'{axis}=[{text}]' for axis, text in zip(self.axes, columns, strict=True))})"


@dataclass(frozen=True, init=False, repr=False)
class Outline(AbstractPolygonal):
    """A region traced by closed polygons; its margin bounds the error of tracing, negative where it is cut out of another."""

    axes: tuple[str, ...]
    rings: tuple[tuple[tuple[float, float], ...], ...]
    margin: float
    source: str  # what was traced

    def __init__(self, rings: Sequence[npt.ArrayLike], *, axes: Sequence[str], margin: float = 0.0, source: str = ""):
        arrays = [np.array(ring, float) for ring in rings]
        for array in arrays:
            if array.ndim != 2 or array.shape[1] != 2 or len(array) < 3 or not np.all(np.isfinite(array)):
                raise InputError(f"`rings` must be polygons (V, 2) of finite vertices; got shape {array.shape}.")
        if not arrays or len(axes) != 2 or not np.isfinite(margin):
            got = f"{len(arrays)}, {axes!r}, {margin}"
            raise InputError(f"`Outline` must have a ring, two axes and a finite margin; got {got}.")
        rings = tuple(tuple(map(tuple, array.tolist())) for array in arrays)
        self._set(axes=check_axes(axes), rings=rings, margin=float(margin), source=str(source))
        self._trace(arrays)

    def _pack(self) -> dict[str, object]:
        return {"axes": self.axes, "rings": tuple(self._arrays), "margin": self.margin, "source": self.source}

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Outline":
        return cls(**named)

    def __repr__(self) -> str:
        return f"Outline of {self.source}, {sum(map(len, self.rings))} points"


def outline(
    axes: Sequence[str], lines: Sequence[np.ndarray], middles: Sequence[np.ndarray], source: str, outward: bool
) -> Outline:
    """An outline from closed lines; `middles` are points of the curve, one about halfway between neighboring vertices."""
    rings, gap = [], 0.0
    for line, middle in zip(lines, middles, strict=True):
        gap = max(gap, np.linalg.norm(middle - 0.5 * (line + np.roll(line, -1, axis=0)), axis=1).max())
        ring = np.stack([line, middle], axis=1).reshape(-1, 2)
        apart = np.linalg.norm(ring - np.roll(ring, 1, axis=0), axis=1) > 1e-12 * np.ptp(ring, axis=0).max()
        rings.append(ring[apart])
    # A side of half the length is a quarter as far from the curve.
    margin = _SAFETY * gap / 4.0
    return Outline(rings, axes=axes, margin=margin if outward else -margin, source=source)


def _side(start: np.ndarray, end: np.ndarray) -> Patch:
    """A straight side of a counterclockwise boundary."""
    length = float(np.linalg.norm(end - start))
    normal = np.array([end[1] - start[1], start[0] - end[0]]) / length

    def chart(unit):
        return start + unit * (end - start), np.tile(normal, (len(unit), 1))

    return Patch(chart, ends=(True,), measure=length)


def signed_area(vertices: np.ndarray) -> float:
    """½ Σ x_i y_{i+1} − x_{i+1} y_i: positive counterclockwise. Taken about the mean, for accuracy far from 0."""
    x, y = (vertices - vertices.mean(axis=0)).T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


def _distance_to(vertices: np.ndarray, points: np.ndarray, reach: float) -> np.ndarray:
    """The distance of each point to the nearest side, (P,); sides more than `reach` above or below are left out."""
    square, order = np.full(len(points), np.inf), np.argsort(points[:, 1])
    x, y = points[order].T.copy()
    for (x0, y0), (x1, y1), low, high in _sides_at(vertices, y, reach):
        near, width, height = slice(low, high), x1 - x0, y1 - y0
        right, up = x[near] - x0, y[near] - y0
        along = (right * width + up * height) / (width * width + height * height)
        along = np.minimum(np.maximum(along, 0.0), 1.0)
        right -= along * width
        up -= along * height
        np.minimum(square[near], right * right + up * up, out=square[near])
    distance = np.empty_like(square)
    distance[order] = np.sqrt(square)
    return distance


def _sides_at(vertices: np.ndarray, y: np.ndarray, reach: float) -> Iterator[tuple[Any, ...]]:
    """(start, end, low, high) of the sides with points at their own heights or within `reach`: those are `y[low:high]`."""
    ends = np.roll(vertices, -1, axis=0)
    lows = np.searchsorted(y, np.minimum(vertices[:, 1], ends[:, 1]) - reach)
    highs = np.searchsorted(y, np.maximum(vertices[:, 1], ends[:, 1]) + reach)
    some = lows < highs
    return zip(*(values[some].tolist() for values in (vertices, ends, lows, highs)), strict=True)


def winds_around(vertices: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether a ray from each point crosses the polygon an odd number of times, (P,)."""
    inside = np.zeros(len(points), bool)
    order = np.argsort(points[:, 1])  # a side is compared only with the points at its own heights
    x, y = points[order].T.copy()
    for (x0, y0), (x1, y1), low, high in _sides_at(vertices, y, 0.0):  # lower end in, upper end out
        inside[low:high] ^= x[low:high] < x0 + (y[low:high] - y0) * ((x1 - x0) / (y1 - y0))
    inside[order] = inside.copy()
    return inside


def crosses_itself(vertices: np.ndarray) -> bool:
    """Whether two sides that are not neighbors meet."""
    starts, ends, count = vertices, np.roll(vertices, -1, axis=0), len(vertices)
    slack = 1e-14 * np.ptp(vertices, axis=0).max() ** 2

    def turn(p, q, r):
        return (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1]) - (q[..., 1] - p[..., 1]) * (r[..., 0] - p[..., 0])

    for i in range(count - 2):
        later = slice(i + 2, count - (i == 0))  # the last side is a neighbor of the first
        a, b, c, d = starts[i], ends[i], starts[later], ends[later]
        overlap = np.all((np.minimum(a, b) <= np.maximum(c, d)) & (np.minimum(c, d) <= np.maximum(a, b)), axis=1)
        straddle = (turn(a, b, c) * turn(a, b, d) <= slack**2) & (turn(c, d, a) * turn(c, d, b) <= slack**2)
        if np.any(overlap & straddle):
            return True
    return False
