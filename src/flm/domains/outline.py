"""What a file holds of a region that is code: its outline in the plane, its bounds and its name in space."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from flm.domains.base import EDGE, AbstractDomain, check_axes
from flm.domains.box import Box
from flm.domains.piece import Piece
from flm.domains.polygon import distance_to, is_near, side, signed_area, winds_around
from flm.wording import InputError

_SAFETY = 1.5  # times the largest gap between an outline and its curve


@dataclass(frozen=True, init=False, repr=False)
class Outline(AbstractDomain):
    """The points of the plane inside an odd number of closed polygons, grown by a margin: a traced region.

    Args:
        rings: The vertices of each polygon, (V, 2), not closed.
        axes: Names of the axes.
        margin: How far outside of the polygons a point still counts as inside: what tracing a curved boundary may miss.
            Negative where the outline is cut out of something else.
        source: What was traced.
    """

    axes: tuple[str, ...]
    rings: tuple[tuple[tuple[float, float], ...], ...]
    margin: float
    source: str

    def __init__(self, rings: Sequence[npt.ArrayLike], *, axes: Sequence[str], margin: float = 0.0, source: str = ""):
        arrays = [np.array(ring, float) for ring in rings]
        for array in arrays:
            if array.ndim != 2 or array.shape[1] != 2 or len(array) < 3 or not np.all(np.isfinite(array)):
                raise InputError(f"`rings` must be polygons (V, 2) of finite vertices; got shape {array.shape}.")
        if not arrays or len(axes) != 2 or not np.isfinite(margin):
            raise InputError(
                f"`Outline` must have a ring, two axes and a finite margin; got {len(arrays)}, {axes!r}, {margin}."
            )
        object.__setattr__(self, "axes", check_axes(axes))
        object.__setattr__(self, "rings", tuple(tuple(map(tuple, array.tolist())) for array in arrays))
        object.__setattr__(self, "margin", float(margin))
        object.__setattr__(self, "source", str(source))

    @cached_property
    def _arrays(self) -> list[np.ndarray]:
        return [np.array(ring) for ring in self.rings]

    @cached_property
    def bounds(self) -> np.ndarray:
        """The rectangle around the outline, (2, 2)."""
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
        """The whole outline as one piece, one patch for each side."""
        patches = []
        for index, ring in enumerate(self._arrays):
            others = [winds_around(other, ring[:1])[0] for k, other in enumerate(self._arrays) if k != index]
            outer = signed_area(ring) * (-1.0 if sum(others) % 2 else 1.0) > 0.0
            ring = ring if outer else ring[::-1]
            patches += [side(start, end) for start, end in zip(ring, np.roll(ring, -1, axis=0), strict=True)]
        return (Piece(repr(self), self.axes, 1, tuple(patches), owner=self),)

    def _pack(self) -> dict[str, Any]:
        return {"axes": self.axes, "rings": tuple(self._arrays), "margin": self.margin, "source": self.source}

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Outline":
        return cls(named["rings"], axes=named["axes"], margin=named["margin"], source=named["source"])

    def __repr__(self) -> str:
        return f"Outline of {self.source}, {sum(map(len, self.rings))} points"


def outline(
    axes: Sequence[str], lines: Sequence[np.ndarray], middles: Sequence[np.ndarray], source: str, outward: bool
) -> Outline:
    """Closed lines as an outline; `middles` are points of the curve, one about halfway between neighboring vertices."""
    rings, gap = [], 0.0
    for line, middle in zip(lines, middles, strict=True):
        gap = max(gap, np.linalg.norm(middle - 0.5 * (line + np.roll(line, -1, axis=0)), axis=1).max())
        ring = np.stack([line, middle], axis=1).reshape(-1, 2)
        apart = np.linalg.norm(ring - np.roll(ring, 1, axis=0), axis=1) > 1e-12 * np.ptp(ring, axis=0).max()
        rings.append(ring[apart])
    # Half the length of a side is a quarter of the gap between it and the curve.
    margin = _SAFETY * gap / 4.0
    return Outline(rings, axes=axes, margin=margin if outward else -margin, source=source)


@dataclass(frozen=True, repr=False)
class NotHeld(AbstractDomain):
    """A region that a file does not hold, because it was code in three variables or more: its bounds stand for it.

    Args:
        box: Its bounds.
        source: What it was.
    """

    box: Box
    source: str

    def __post_init__(self):
        if not isinstance(self.box, Box):
            raise InputError(f"`box` must be a Box; got {self.box!r}.")

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the bounds."""
        return self.box.axes

    @property
    def bounds(self) -> np.ndarray:
        """The bounds, (m, 2)."""
        return self.box.bounds

    @property
    def note(self) -> str:
        """That values outside of the region are not told apart."""
        return f"the file does not hold the region {self.source}, so all of its bounds are shown"

    def level(self, points: np.ndarray) -> np.ndarray:
        """That of the bounds."""
        return self.box.level(points)

    def contains(self, points: npt.ArrayLike, *, tolerance: float = EDGE) -> np.ndarray:
        """Whether each point (P, m) is in the bounds."""
        return self.box.contains(points, tolerance=tolerance)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The faces of the bounds."""
        return self.box.pieces

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "NotHeld":
        return cls(named["box"], str(named["source"]))

    def __repr__(self) -> str:
        return f"{self.source} (not held; bounds {self.box!r})"
