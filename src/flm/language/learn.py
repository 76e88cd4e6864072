"""Parameters without one given value: those found from data, and those that take every value of an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flm.wording import InputError


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
