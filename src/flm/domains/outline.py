"""What a file holds of a region that is code: its outline in the plane, its bounds and its name in space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flm.domains.base import check_axes
from flm.domains.box import Box
from flm.domains.polygon import AbstractPolygonal
from flm.wording import InputError

_SAFETY = 1.5  # times the largest gap between an outline and its curve


@dataclass(frozen=True, init=False, repr=False)
class Outline(AbstractPolygonal):
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

    def _pack(self) -> dict[str, object]:
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


@dataclass(frozen=True, init=False, repr=False)
class NotHeld(Box):
    """The bounds of a region that a file does not hold, because it was code in three variables or more.

    Args:
        bounds: The interval of each axis.
        source: What the region was.
    """

    source: str

    def __init__(self, bounds: Mapping[str, tuple[float, float]], source: str):
        super().__init__(**bounds)
        object.__setattr__(self, "source", str(source))

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "NotHeld":
        return cls(dict(zip(named["axes"], named["intervals"], strict=True)), named["source"])

    @property
    def note(self) -> str:
        """That values outside of the region are not told apart."""
        return f"the file does not hold the region {self.source}, so all of its bounds are shown"

    def __repr__(self) -> str:
        return f"{self.source} (not held; bounds {super().__repr__()})"
