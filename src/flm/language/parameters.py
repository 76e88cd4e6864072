"""Parameters without one given value: found from data, taking every value of an interval, or jumping between boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import jax.numpy as jnp
import numpy as np

from flm.language.arguments import Field, Named, Names, Value, argument_names
from flm.wording import InputError, InputTypeError, short

T = TypeVar("T")


@dataclass(frozen=True)
class Learn:
    """A parameter to be found from data, as a value in `parameters`.

    Args:
        start: where the search starts.
        lower: the least admissible value.
        upper: the greatest admissible value.
        axes: names of axes, to learn a function of these axes instead of a number; it starts as a constant.

    Example:
        >>> alpha = Learn(0.5, lower=0.0)  # flm.PDE(..., parameters={"alpha": alpha})
        >>> alpha.start, alpha.limits
        (0.5, (0.0, inf))
        >>> Learn(1.0, axes="x").axes  # a(x)
        ('x',)
    """

    start: float
    lower: float | None = None
    upper: float | None = None
    axes: tuple[str, ...] | None = None

    def __post_init__(self):
        if self.axes is not None:
            axes = (self.axes,) if isinstance(self.axes, str) else self.axes
            if not isinstance(axes, tuple | list) or not axes or len(set(map(str, axes))) < len(axes):
                raise InputError(f'`axes` must be different names of axes such as ("x",); got {self.axes!r}.')
            object.__setattr__(self, "axes", tuple(axes))
            if self.start in (self.lower, self.upper):
                raise InputError(
                    f"`start` of a function must be inside its limits; got {self.start!r}, on one of them."
                )
        given = (self.start, *(v for v in (self.lower, self.upper) if v is not None))
        low, high = self.limits
        numbers = all(isinstance(v, int | float | np.floating | np.integer) for v in given)
        if not numbers or not (math.isfinite(self.start) and low <= self.start <= high and low < high):
            raise InputError(
                f"`start` must be a finite number between `lower` and `upper`; got start={self.start!r}, "
                f"lower={self.lower!r}, upper={self.upper!r}."
            )

    @property
    def limits(self) -> tuple[float, float]:
        """(lower, upper), infinite where not given."""
        return (-math.inf if self.lower is None else self.lower, math.inf if self.upper is None else self.upper)


@dataclass(frozen=True)
class Range:
    """A parameter that takes every value between two numbers, as a value in `parameters`: one more axis of the answer.

    Args:
        low: the least value.
        high: the greatest value.

    Example:
        >>> import flm
        >>> heat = flm.solve(flm.problems.heat(alpha=flm.Range(0.05, 0.3)), 1e-6)
        >>> heat.axes
        ('x', 't', 'alpha')
        >>> round(float(heat.at(alpha=0.1)(x=0.5, t=1.0)), 6)  # exp(-pi^2 / 10)
        0.372708
    """

    low: float
    high: float

    def __post_init__(self):
        numbers = all(isinstance(v, int | float) and math.isfinite(v) for v in (self.low, self.high))
        if not numbers or not self.low < self.high:
            raise InputError(f"`low` must be a finite number below `high`; got {self.low!r} and {self.high!r}.")


@dataclass(frozen=True)
class Extent:
    """A box by the ends of some axes; along the others it is as wide as the domain."""

    axes: tuple[str, ...]
    intervals: tuple[tuple[float, float], ...]

    def __repr__(self) -> str:
        ends = (f"{a}=({low:g}, {high:g})" for a, (low, high) in zip(self.axes, self.intervals, strict=True))
        return f"Box({', '.join(ends)})"

    def along(self, axis: str) -> tuple[float, float]:
        """The ends along an axis."""
        return self.intervals[self.axes.index(axis)] if axis in self.axes else (-math.inf, math.inf)

    def overlaps(self, other: Extent) -> bool:
        """Whether two boxes share more than a face."""
        shared = [a for a in self.axes if a in other.axes]
        return all(max(self.along(a)[0], other.along(a)[0]) < min(self.along(a)[1], other.along(a)[1]) for a in shared)


class Piecewise:
    """A parameter that jumps: one value, and other values in boxes, as a value in `parameters`.

    Across the faces of the boxes the unknown and its flux are continuous; the argument `flux` of `flm.PDE` says what flows.

    Args:
        value: the value outside all boxes.
        where: the value inside each box (`flm.Box`); axes that a box leaves out are not restricted.

    Example:
        >>> import flm
        >>> a = flm.Piecewise(1.0, {flm.Box(x=(0, 0.5)): 100.0})
        >>> flm.PDE(
        ...     flm.Box(x=(0, 1)), lambda a, u_xx: a * u_xx + 1, [flm.dirichlet("x=0"), flm.dirichlet("x=1")],
        ...     parameters={"a": a}, flux=lambda a, u_n: a * u_n,
        ... ).parameters["a"]
        Piecewise(1, {Box(x=(0, 0.5)): 100})
    """

    def __init__(self, value: float, where: Mapping[T, float]):
        if not isinstance(where, Mapping) or not where:
            example = "{flm.Box(x=(0, 0.5)): 100.0}"
            raise InputTypeError(f"`where` of Piecewise must be values by box, such as {example}; got {short(where)}.")
        self.value = _number(value, "`value` of Piecewise")
        self.where: dict[Extent, float] = {}
        for box, inside in where.items():
            axes, intervals = getattr(box, "axes", None), getattr(box, "intervals", None)
            if axes is None or intervals is None:
                raise InputTypeError(
                    f"`where` of Piecewise must have boxes with sides along the axes as keys; got {short(box)}. Coefficients "
                    "that jump across other curves are not supported."
                )
            extent, inside = Extent(tuple(axes), tuple(intervals)), _number(inside, "a value of Piecewise")
            for other, there in self.where.items():
                if inside != there and extent.overlaps(other):
                    raise InputError(
                        f"`where` of Piecewise must have boxes that do not overlap where their values differ; got "
                        f"{there:g} in {other!r} and {inside:g} in {extent!r}."
                    )
            self.where[extent] = inside

    def __repr__(self) -> str:
        return f"Piecewise({self.value:g}, {{{', '.join(f'{box!r}: {v:g}' for box, v in self.where.items())}}})"

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes along which the parameter jumps."""
        return tuple(dict.fromkeys(axis for box in self.where for axis in box.axes))

    def __call__(self, **at: Value) -> Value:
        """The value at coordinates by name, arrays of one shape."""
        out = jnp.full(jnp.shape(at[self.axes[0]]), self.value)
        for box, inside in self.where.items():
            within = jnp.ones(jnp.shape(out), bool)
            for axis, (low, high) in zip(box.axes, box.intervals, strict=True):
                within &= (at[axis] >= low) & (at[axis] <= high)
            out = jnp.where(within, inside, out)
        return out

    def check(self, name: str, axes: tuple[str, ...], bounds: np.ndarray) -> None:
        """Refuse boxes that do not fit a domain of these axes and bounds."""
        boxes = f"the boxes of the parameter {name!r} must"
        for box in self.where:
            for axis, (start, end) in zip(box.axes, box.intervals, strict=True):
                if axis not in axes:
                    raise InputError(f"{boxes} have axes of the domain ({', '.join(axes)}); got {box!r}.")
                low, high = bounds[axes.index(axis)]
                if not (start < high and end > low):
                    where = f"{axis} ends at {low:g} and {high:g}"
                    raise InputError(f"{boxes} lie in the domain; got {box!r}, where {where}.")


def names_of(
    axes: tuple[str, ...], unknowns: tuple[str, ...], parameters: Mapping[str, object], *, normals: bool = False
) -> Names:
    """The names of a problem with these parameters."""
    fields = tuple(Field(n, v.axes) for n, v in parameters.items() if isinstance(v, Learn) and v.axes)
    return Names(axes, unknowns, tuple(parameters), normals, fields)


def parameter_values(parameters: Mapping[str, float | Learn]) -> np.ndarray:
    """The value of every parameter, and the starting value of those to be learned."""
    return np.array([v.start if isinstance(v, Learn) else v for v in parameters.values()], float)


def at_points(
    function: Callable[..., Value] | Named, jumping: Mapping[str, Piecewise], where: str
) -> Callable[..., Value] | Named:
    """A function of named arguments in which parameters that jump are looked up by the coordinates."""
    names = () if not jumping else argument_names(function, where)
    used = [name for name in names if name in jumping]
    if not used:
        return function
    plain = tuple(name for name in names if name not in used)
    wanted = tuple(dict.fromkeys([*plain, *(axis for name in used for axis in jumping[name].axes)]))
    inner = function.function if isinstance(function, Named) else function

    def looked_up(*arguments: Value) -> Value:
        at = dict(zip(wanted, arguments, strict=True))
        at |= {name: jumping[name](**{axis: at[axis] for axis in jumping[name].axes}) for name in used}
        return inner(*(at[name] for name in names))

    return Named(looked_up, wanted)


def _number(value: float, what: str) -> float:
    if not isinstance(value, int | float | np.floating | np.integer) or not math.isfinite(value):
        raise InputError(f"{what} must be a finite number; got {short(value)}.")
    return float(value)
