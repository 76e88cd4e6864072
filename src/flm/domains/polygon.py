"""Polygons, and the planar geometry that other shapes use."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flm.domains.base import EDGE, AbstractDomain, check_axes
from flm.domains.piece import Patch, Piece
from flm.wording import InputError, number_text, short

_PAIRS = 2**18  # of sides that are compared at once
_MOST_STORED = 10_000  # vertices of a polygon in a file: all pairs of its sides are compared


class AbstractPolygonal(AbstractDomain):
    """The points of the plane inside an odd number of closed polygons, grown by a margin."""

    rings: tuple[tuple[tuple[float, float], ...], ...]  # the vertices of each polygon, not closed
    margin: float  # how far outside of the polygons a point still counts as inside

    @cached_property
    def _arrays(self) -> list[np.ndarray]:
        return [np.array(ring) for ring in self.rings]

    @cached_property
    def bounds(self) -> np.ndarray:
        """The rectangle around it, (2, 2)."""
        every = np.concatenate(self._arrays)
        return np.stack([every.min(axis=0) - self.margin, every.max(axis=0) + self.margin], axis=1)

    def level(self, points: np.ndarray) -> np.ndarray:
        """The signed distance to the nearest side, less the margin."""
        distance = np.min([distance_to(ring, points) for ring in self._arrays], axis=0)
        return np.where(self._winds(points), -distance, distance) - self.margin

    def contains(self, points: npt.ArrayLike, *, tolerance: float = EDGE) -> np.ndarray:
        """Whether each point (P, 2) is inside or within the margin, up to a tolerance relative to the size."""
        points = self.as_points(points)
        reach, inside = self.margin + tolerance * self.width.max(), self._winds(points)
        near = np.any([is_near(ring, points, abs(reach)) for ring in self._arrays], axis=0)
        return inside | near if reach >= 0.0 else inside & ~near

    def _winds(self, points: np.ndarray) -> np.ndarray:
        return np.logical_xor.reduce([winds_around(ring, points) for ring in self._arrays])

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The whole boundary as one piece, one patch for each side."""
        patches = []
        for index, ring in enumerate(self._arrays):
            others = [winds_around(other, ring[:1])[0] for k, other in enumerate(self._arrays) if k != index]
            outer = signed_area(ring) * (-1.0 if sum(others) % 2 else 1.0) > 0.0
            ring = ring if outer else ring[::-1]
            patches += [side(start, end) for start, end in zip(ring, np.roll(ring, -1, axis=0), strict=True)]
        return (Piece(repr(self), self.axes, 1, tuple(patches), owner=self),)


@dataclass(frozen=True, init=False, repr=False)
class Polygon(AbstractPolygonal):
    """A simple polygon: `Polygon(x=[0, 1, 1], y=[0, 0, 1])`.

    Args:
        vertices: The vertices (V, 2), when they are not given by keywords; either direction, not closed.
        axes: Names of the axes, when they are not given by keywords; x and y by default.
        coordinates: The vertices by axis name.

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

    def __init__(
        self,
        vertices: Sequence[Sequence[float]] | None = None,
        *,
        axes: Sequence[str] = ("x", "y"),
        **coordinates: Sequence[float],
    ):
        if (vertices is None) == (not coordinates):
            raise InputError("`Polygon` must be given its vertices once: Polygon(x=[...], y=[...]) or (V, 2) numbers.")
        if coordinates:
            axes = tuple(coordinates)
            lengths = {name: np.size(values) for name, values in coordinates.items()}
            if len(set(lengths.values())) != 1:
                raise InputError(f"`Polygon` must have as many coordinates in each axis; got {lengths}.")
            vertices = list(zip(*(np.ravel(values) for values in coordinates.values()), strict=True))
        try:
            array = np.array(vertices, float)
        except (TypeError, ValueError):
            raise InputError(f"`Polygon` must have numbers for vertices; got {short(vertices)}.") from None
        if array.ndim != 2 or array.shape[1] != 2 or len(axes) != 2:
            raise InputError(f"`Polygon` must have two axes; got vertices of shape {array.shape}.")
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
        object.__setattr__(self, "axes", check_axes(axes))
        object.__setattr__(self, "vertices", tuple(map(tuple, array.tolist())))

    @property
    def rings(self) -> tuple[tuple[tuple[float, float], ...], ...]:
        """The one ring of vertices, counterclockwise."""
        return (self.vertices,)

    def _pack(self) -> dict[str, object]:
        return {"axes": self.axes, "vertices": self._arrays[0]}

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Polygon":
        if len(named["vertices"]) > _MOST_STORED:
            raise InputError(f"a stored polygon has at most {_MOST_STORED} vertices; got {len(named['vertices'])}")
        return cls(named["vertices"], axes=named["axes"])

    def __repr__(self) -> str:
        columns = [", ".join(map(number_text, values)) for values in zip(*self.vertices, strict=True)]
        return f"Polygon({', '.join(f'{axis}=[{text}]' for axis, text in zip(self.axes, columns, strict=True))})"


def side(start: np.ndarray, end: np.ndarray) -> Patch:
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


def distance_to(vertices: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The distance of each point to the nearest side, (P,)."""
    distance = np.full(len(points), np.inf)
    for start, end in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        side = end - start
        along = np.clip((points - start) @ side / (side @ side), 0.0, 1.0)
        distance = np.minimum(distance, np.linalg.norm(points - start - along[:, None] * side, axis=1))
    return distance


def winds_around(vertices: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether a ray from each point crosses the polygon an odd number of times, (P,)."""
    inside = np.zeros(len(points), bool)
    order = np.argsort(points[:, 1])  # a side is looked at for the points of its own heights alone
    x, y = points[order].T
    for (x0, y0), (x1, y1) in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        if y0 != y1:
            level = slice(*np.searchsorted(y, [min(y0, y1), max(y0, y1)]))  # lower end in, upper end out
            inside[level] ^= x[level] < x0 + (y[level] - y0) * ((x1 - x0) / (y1 - y0))
    inside[order] = inside.copy()
    return inside


def is_near(vertices: np.ndarray, points: np.ndarray, reach: float) -> np.ndarray:
    """Whether each point is within `reach` of a side, (P,)."""
    near = np.zeros(len(points), bool)
    order = np.argsort(points[:, 1])
    y = points[order, 1]
    for start, end in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        low, high = np.searchsorted(y, [min(start[1], end[1]) - reach, max(start[1], end[1]) + reach])
        some = order[low:high]
        some = some[
            (points[some, 0] >= min(start[0], end[0]) - reach) & (points[some, 0] <= max(start[0], end[0]) + reach)
        ]
        side = end - start
        along = np.clip((points[some] - start) @ side / (side @ side), 0.0, 1.0)
        near[some] |= np.linalg.norm(points[some] - start - along[:, None] * side, axis=1) <= reach
    return near


def crosses_itself(vertices: np.ndarray) -> bool:
    """Whether two sides that are not neighbors meet."""
    a, b, count = vertices, np.roll(vertices, -1, axis=0), len(vertices)  # side i runs from a_i to b_i
    slack = 1e-14 * np.ptp(vertices, axis=0).max() ** 2

    def turn(p, q, r):
        return (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1]) - (q[..., 1] - p[..., 1]) * (r[..., 0] - p[..., 0])

    block = max(1, _PAIRS // count)
    for start in range(0, count, block):
        first, second = np.arange(start, min(start + block, count))[:, None], np.arange(count)
        i, j = np.nonzero((second > first + 1) & ~((first == 0) & (second == count - 1)))
        i += start
        low_i, high_i, low_j, high_j = (pick(a[k], b[k]) for k in (i, j) for pick in (np.minimum, np.maximum))
        overlap = np.all((low_i <= high_j) & (low_j <= high_i), axis=1)
        i, j = i[overlap], j[overlap]
        straddle_i = turn(a[i], b[i], a[j]) * turn(a[i], b[i], b[j]) <= slack**2
        straddle_j = turn(a[j], b[j], a[i]) * turn(a[j], b[j], b[i]) <= slack**2
        if np.any(straddle_i & straddle_j):
            return True
    return False
