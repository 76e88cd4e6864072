"""Closed parametric curves, sampled evenly by arc length, and the compiling of functions that users write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from flm.domains.base import AbstractDomain, check_axes
from flm.domains.piece import Patch, Piece
from flm.domains.polygon import Outline, crosses_itself, outline, winds_around
from flm.numerics.chunks import in_chunks
from flm.wording import InputError, InputTypeError

if TYPE_CHECKING:
    from jax import Array

_NODES = 4096  # nodes of the arc length table
_OUTLINE = 1024  # vertices of the polygon that tells inside from outside away from the curve

Path = Callable[[np.ndarray], Sequence[np.ndarray]]  # s (P,) → position (2, P), velocity (2, P)


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


def compile_rows(function: Callable[..., object], width: int, what: str) -> Callable[[np.ndarray], list[np.ndarray]]:
    """`function(columns (width, P))` → arrays with last axis P, jitted and applied in chunks to points (P, width)."""
    import jax
    import jax.numpy as jnp

    try:
        jax.eval_shape(function, jnp.zeros((width, 2)))
    except jax.errors.JAXTypeError as error:
        raise InputError(
            f"`{what}` must be elementwise and written with jax.numpy, so that it can be differentiated; "
            f"got {type(error).__name__} on tracing it. Use jnp.sin, jnp.where, … instead of np.sin or if."
        ) from None
    except (TypeError, ArithmeticError) as error:
        raise InputError(f"`{what}` must return numbers, elementwise; it failed with: {error}") from None
    compiled = jax.jit(function)

    return lambda points: in_chunks(lambda rows: compiled(rows.T), points, axis=-1)
