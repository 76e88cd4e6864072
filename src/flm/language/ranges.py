"""Parameters that take every value of an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flm.wording import InputError


@dataclass(frozen=True)
class Range:
    """A parameter that takes every value between two numbers, as a value in `parameters`: one more axis of the answer.

    Args:
        low: the least value.
        high: the greatest.

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
