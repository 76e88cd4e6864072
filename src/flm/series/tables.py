"""Tables of waves in NumPy: cosines and sines at points, their derivatives, and powers by angle addition.

Conventions:
- A wave of frequency w (radians per unit of x) at a point x has the angle theta = w x.
- Columns come in one of two orders: `columns` has the cosines of all frequencies, then the sines of all; `pairs` has the
  cosine and the sine of each frequency side by side on a last axis of two.
- The derivative of order r is a quarter-turn per order times w^r: cos, -w sin, -w^2 cos, ...; an antiderivative has a
  negative order and no constant. One table gives the value and every derivative.
- A phasor is exp(i theta) = cos theta + i sin theta. Powers have the power as their first axis, from 0 on.

For traced arrays there is `flm.series.sincos`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class WaveTable(NamedTuple):
    """Cosines and sines of frequencies (N,) at points of any shape: two arrays (..., N)."""

    frequencies: np.ndarray
    cosine: np.ndarray
    sine: np.ndarray

    @classmethod
    def at(cls, points: npt.ArrayLike, frequencies: npt.ArrayLike) -> WaveTable:
        """The table of these frequencies at these points."""
        frequencies = np.asarray(frequencies, float)
        angle = np.asarray(points, float)[..., None] * frequencies
        return cls(frequencies, np.cos(angle), np.sin(angle))

    def derivative(self, order: int) -> WaveTable:
        """The derivative of every cosine and every sine with respect to the points; of negative order, the antiderivative."""
        if order == 0:
            return self
        c, s = self.cosine, self.sine
        turned = ((c, s), (-s, c), (-c, -s), (s, -c))[order % 4]
        factor = self.frequencies ** float(order)
        return WaveTable(self.frequencies, turned[0] * factor, turned[1] * factor)

    def columns(self, order: int = 0) -> np.ndarray:
        """All cosines, then all sines, differentiated `order` times: (..., 2 N)."""
        table = self.derivative(order)
        return np.concatenate([table.cosine, table.sine], axis=-1)

    def pairs(self, order: int = 0) -> np.ndarray:
        """The cosine and the sine of each frequency, differentiated `order` times: (..., N, 2)."""
        table = self.derivative(order)
        return np.stack([table.cosine, table.sine], axis=-1)


def phasors(theta: np.ndarray) -> np.ndarray:
    """exp(i theta) from real sines and cosines, three times as fast as a complex exponential."""
    out = np.empty((*theta.shape, 2))
    np.cos(theta, out=out[..., 0])
    np.sin(theta, out=out[..., 1])
    return out.view(complex)[..., 0]


def powers(theta: np.ndarray, highest: int) -> np.ndarray:
    """exp(i k theta) for k = 0 ... highest, (highest + 1, P), by doubling: log2(k) roundings from one sine and cosine."""
    out = np.empty((highest + 1, len(theta)), complex)
    out[0] = 1.0
    out[1:2] = phasors(theta)
    k = 1
    while k < highest:
        more = min(k, highest - k)
        np.multiply(out[1 : more + 1], out[k], out=out[k + 1 : k + more + 1])  # exp(i (j + k) theta), j = 1 ... more
        k += more
    return out
