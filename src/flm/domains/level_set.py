"""Regions given by a level function, negative inside."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from flm.domains.base import AbstractDomain
from flm.domains.box import Box, NotHeld
from flm.domains.curve import on_rows
from flm.domains.piece import Patch, Piece, check_arguments
from flm.domains.polygon import outline
from flm.domains.sequences import sobol
from flm.language.expressions import Expression, compile_expression, refuse_reserved
from flm.wording import InputError, InputTypeError

_NEWTON_STEPS = 12  # from a start h² away Newton's method needs four steps; the rest are for kinks
_POOL = 2**14  # points of a surface pool in three dimensions and more


@dataclass(frozen=True, init=False, repr=False)
class Region(AbstractDomain):
    """The set where a level function is negative: `Region(lambda x, y: x**4 + y**4 - 1, bounds=Box(…))`.

    In the plane the boundary is traced on a grid (contourpy) and every sample is moved onto the zero set by Newton
    steps along the gradient, p ← p − φ∇φ/|∇φ|². In space, points of a thin shell around the zero set are moved onto it.

    Args:
        function: The level function of the axes by name, elementwise and written with jax.numpy; or a text such as
            "x**4 + y**4 - 1", which files hold as it is.
        bounds: A box that contains the region with room to spare on every side.
        resolution: Grid cells per axis when looking for the boundary; parts smaller than a cell are missed.
            256 in the plane, 48 in space by default.

    Raises:
        ValueError: The level is nowhere negative, is not positive on all of the bounds' faces, is not finite, or cannot
            be differentiated.

    Example:
        >>> region = Region(lambda x, y: x**4 + y**4 - 1, bounds=Box(x=(-2, 2), y=(-2, 2)))
        >>> region.contains([[0.9, 0.0], [0.9, 0.9]])
        array([ True, False])
    """

    function: Callable[..., Any]
    box: Box
    resolution: int
    _grid_values: ClassVar[np.ndarray]
    _scale: ClassVar[float]  # from the level function to about a distance

    def __init__(self, function: Callable[..., Any] | str, bounds: Box, *, resolution: int | None = None):
        if not isinstance(bounds, Box) or len(bounds) < 2:
            raise InputError(f"`bounds` must be a Box with two or more axes; got {bounds!r}.")
        if isinstance(function, str):
            refuse_reserved(bounds.axes)
            function = compile_expression(function, declared=bounds.axes)
        if not callable(function):
            raise InputTypeError(f"`function` must be a function of the axes of `bounds`; got {function!r}.")
        self._set(function=function, box=bounds, resolution=resolution or (256 if len(bounds) == 2 else 48))
        self._set(axes=bounds.axes, bounds=bounds.bounds)
        shape = (self.resolution + 1,) * len(bounds)
        values = self._raw(bounds.grid(shape))[0].reshape(shape)
        if not np.all(np.isfinite(values)):
            bad = int(np.sum(~np.isfinite(values)))
            raise InputError(f"`function` must be finite in its bounds; got {bad} values that are not.")
        if not np.any(values < 0.0):
            least = f"{values.min():.3g} or more: an empty region"
            raise InputError(f"`function` must be negative somewhere in {bounds!r}; got {least}.")
        self._set(_grid_values=values, _scale=float(bounds.width.max() / np.abs(values).max()))
        for (index, axis), (end, side) in product(enumerate(bounds), ((0, "min"), (-1, "max"))):
            if np.any(np.take(values, end, axis=index) <= 0.0):
                raise InputError(
                    f"`bounds` must contain the region with room on every side; got one that touches {axis}={side}. "
                    "Enlarge the bounds, or intersect with a Box that cuts it on purpose."
                )

    def stored(self, *, outward: bool = True) -> AbstractDomain:
        """A text as it is; a function as its traced outline in the plane, as its bounds in space."""
        if isinstance(self.function, Expression):
            return self
        if len(self.axes) != 2:
            return NotHeld(dict(self.box), repr(self))
        middles = [self._project(0.5 * (line + np.roll(line, -1, axis=0)))[0] for line in self._lines]
        return outline(self.axes, self._lines, middles, repr(self), outward)

    def __reduce__(self) -> tuple[object, ...]:
        function = self.function.text if isinstance(self.function, Expression) else self.function
        return partial(Region, resolution=self.resolution), (function, self.box)

    def _pack(self) -> dict[str, object]:
        assert isinstance(self.function, Expression)  # `stored` has made sure of it
        return {"function": self.function.text, "bounds": self.box, "resolution": self.resolution}

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> "Region":
        text, resolution = named["function"], named["resolution"]
        if not isinstance(text, str) or not isinstance(resolution, int) or not 2 <= resolution <= 1024:
            raise InputError(f"a stored region has a text and a resolution up to 1024; got {text!r} and {resolution!r}")
        return cls(text, named["bounds"], resolution=resolution)

    def level(self, points: np.ndarray) -> np.ndarray:
        """The level function, scaled so that it is about as large as a distance."""
        return self._raw(points)[0] * self._scale

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The whole boundary as one piece; in the plane, with one patch for each closed line."""
        planar = len(self.axes) == 2
        patches = tuple(map(self._line_patch, self._lines)) if planar else (self._surface_patch(),)
        return (Piece(repr(self), self.axes, len(self.axes) - 1, patches, owner=self),)

    @cached_property
    def _raw(self) -> Callable[[np.ndarray], list[np.ndarray]]:
        """points (P, m) → level (P,), gradient (P, m)."""
        columns = [self.axes.index(name) for name in check_arguments(self.function, self.axes, "function")]

        def level(coordinates):
            value = self.function(*(coordinates[column] for column in columns))
            return jnp.broadcast_to(value, coordinates.shape[1:])

        def value_and_gradient(coordinates):
            value, back = jax.vjp(level, coordinates)
            return value, back(jnp.ones_like(value))[0]

        return on_rows(value_and_gradient, len(self.axes), "function")

    @cached_property
    def _lines(self) -> list[np.ndarray]:
        """The closed lines of the boundary in the plane: vertices on the zero set, the first one not repeated."""
        from contourpy import contour_generator

        x, y = (np.linspace(low, high, self.resolution + 1) for low, high in self.bounds)
        traced = contour_generator(x=x, y=y, z=self._grid_values.T).lines(0.0)
        lines = [self._project(np.asarray(line)[:-1])[0] for line in traced if len(line) > 3]
        if not lines:
            raise InputError(
                "`function` must be negative on more than a grid cell; got a region that is too small for "
                f"resolution={self.resolution}. Tighten the bounds or raise `resolution`."
            )
        return lines

    def _project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points moved onto the zero set, and the unit gradients there; no step is longer than a grid cell."""
        cell = float(np.linalg.norm(self.width)) / self.resolution
        best, (value, gradient) = points, self._raw(points)
        for _ in range(_NEWTON_STEPS):
            slope = np.linalg.norm(gradient, axis=1)
            slope = np.where(slope > 0.0, slope, 1.0)
            step = np.clip(value / slope, -cell, cell) / slope
            moved = best - step[:, None] * gradient
            new_value, new_gradient = self._raw(moved)
            better = np.abs(new_value) < np.abs(value)
            if not better.any():
                break
            best = np.where(better[:, None], moved, best)
            value = np.where(better, new_value, value)
            gradient = np.where(better[:, None], new_gradient, gradient)
        slope = np.linalg.norm(gradient, axis=1)
        if not np.all(np.isfinite(slope)) or np.any(slope * self._scale < 1e-9):
            raise InputError(
                "`function` must cross zero with a slope; got a gradient that vanishes or is not finite on the "
                "boundary. Use a level function that changes sign like a distance."
            )
        return best, gradient / slope[:, None]

    def _line_patch(self, line: np.ndarray) -> Patch:
        closed = np.concatenate([line, line[:1]])
        length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])

        def chart(unit):
            along = unit[:, 0] * length[-1]
            return self._project(np.stack([np.interp(along, length, column) for column in closed.T], axis=1))

        return Patch(chart, ends=(False,), measure=float(length[-1]))

    def _surface_patch(self) -> Patch:
        """A pool of points, neighbors in a row: a shell |φ|/|∇φ| < δ projected onto the boundary, even by area up to O(δ²)."""
        from scipy.spatial import KDTree  # imported here: only regions need it

        m = len(self.axes)
        shell = float(self.width.max()) / 128.0
        found, tried = np.zeros((0, m)), 0
        for block in range(64):
            points = self.bounds[:, 0] + self.width * sobol(2**16, m, seed=block)
            value, gradient = self._raw(points)
            near = np.abs(value) < shell * np.linalg.norm(gradient, axis=1)
            found, tried = np.concatenate([found, points[near]]), tried + len(points)
            if len(found) >= _POOL:
                break
        if len(found) < 64:
            raise InputError("`bounds` must fit the region more tightly; got hardly any points near its boundary.")
        measure = float(np.prod(self.width)) * len(found) / tried / (2.0 * shell)
        pool, normals = self._project(found)
        order = KDTree(pool, leafsize=1).indices
        pool, normals = pool[order], normals[order]

        def chart(unit):
            index = (unit[:, 0] * len(pool)).astype(int)
            return pool[index], normals[index]

        return Patch(chart, ends=(False,), measure=measure)

    def __repr__(self) -> str:
        if isinstance(self.function, Expression):
            return f"Region({self.function.text!r}, bounds={self.box!r})"
        name = getattr(self.function, "__name__", "function")
        return f"Region({'level' if name == '<lambda>' else name}, bounds={self.box!r})"
