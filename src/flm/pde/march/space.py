"""Space: functions on a box as Fourier, sine or cosine series along each axis, and their values on an even grid.

Conventions. Along an axis [a, b] of width L with n intervals a "fourier" axis has the waves exp(2πik (x − a) / L), |k| < n/3,
at n points; a "sine" or "cosine" axis has sin or cos(πk (x − a) / L), k < 2n/3, at the n − 1 inner or all n + 1 points. The
waves that are left out are the two-thirds rule: products of two functions have no aliases among those that are kept.
Coefficients are complex where any axis is "fourier", of which the last has k ≥ 0 alone, since functions are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.fft

FOURIER, SINE, COSINE = "fourier", "sine", "cosine"
BAND = 8  # the last 1/8 of the kept waves shows whether more are needed


@dataclass(frozen=True)
class Space:
    """The series and the grid of one size.

    Args:
        kinds: "fourier", "sine" or "cosine" for each axis.
        bounds: of the axes, pairs.
        intervals: n for each axis.
    """

    kinds: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    intervals: tuple[int, ...]

    @property
    def num_axes(self) -> int:
        """How many axes space has."""
        return len(self.kinds)

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """The largest k that is kept along each axis."""
        return tuple(
            (n - 1) // 3 if kind == FOURIER else (2 * n - 1) // 3
            for kind, n in zip(self.kinds, self.intervals, strict=True)
        )

    @cached_property
    def half(self) -> int | None:
        """The axis that has no negative k: the last Fourier axis."""
        return max((j for j, kind in enumerate(self.kinds) if kind == FOURIER), default=None)

    @cached_property
    def numbers(self) -> tuple[np.ndarray, ...]:
        """The k of each axis in the order of the coefficients: 0 ... c, −c ... −1 where both signs are kept."""
        lists = []
        for j, (kind, cut) in enumerate(zip(self.kinds, self.cuts, strict=True)):
            up = np.arange(1 if kind == SINE else 0, cut + 1)
            lists.append(np.r_[up, -cut:0] if kind == FOURIER and j != self.half else up)
        return tuple(lists)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the coefficients of one function."""
        return tuple(len(k) for k in self.numbers)

    @cached_property
    def lines(self) -> tuple[np.ndarray, ...]:
        """The grid along each axis."""
        out = []
        for kind, (low, high), n in zip(self.kinds, self.bounds, self.intervals, strict=True):
            first, last = {FOURIER: (0, n), SINE: (1, n), COSINE: (0, n + 1)}[kind]
            out.append(low + (high - low) / n * np.arange(first, last))
        return tuple(out)

    @property
    def grid(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(len(line) for line in self.lines)

    @cached_property
    def waves(self) -> tuple[np.ndarray, ...]:
        """Wave numbers in radians per unit along each axis, shaped to broadcast with coefficients."""
        out = []
        for j, (kind, (low, high)) in enumerate(zip(self.kinds, self.bounds, strict=True)):
            unit = (2 if kind == FOURIER else 1) * np.pi / (high - low)
            out.append((unit * self.numbers[j]).reshape(tuple(-1 if i == j else 1 for i in range(self.num_axes))))
        return tuple(out)

    @cached_property
    def weights(self) -> np.ndarray:
        """The mean square of each wave over the box, negative partners included: ‖u‖² = Σ weights |c|²."""
        total = np.ones((1,) * self.num_axes)
        for j, (kind, k) in enumerate(zip(self.kinds, self.numbers, strict=True)):
            own = np.ones(len(k)) if kind == FOURIER else np.where(k == 0, 1.0, 0.5)
            own = np.where(k == 0, 1.0, 2.0) if j == self.half else own
            total = total * own.reshape(tuple(-1 if i == j else 1 for i in range(self.num_axes)))
        return total

    def norms(self, coefficients: np.ndarray) -> np.ndarray:
        """Root mean squares of functions (..., *shape)."""
        squares = self.weights * np.abs(coefficients) ** 2
        return np.sqrt(squares.sum(axis=tuple(range(-self.num_axes, 0))))

    def tails(self, coefficients: np.ndarray) -> np.ndarray:
        """The root mean square of the last kept waves along each axis, (axes, ...)."""
        out = []
        for j, (cut, k) in enumerate(zip(self.cuts, self.numbers, strict=True)):
            last = np.abs(k) > cut - max(cut // BAND, 2)
            view = last.reshape(tuple(-1 if i == j else 1 for i in range(self.num_axes)))
            out.append(self.norms(np.where(view, coefficients, 0.0)))
        return np.stack(out)

    def symbol(self, alpha: Sequence[int]) -> np.ndarray | None:
        """What the derivative multiplies coefficients by; None where it leaves the basis, odd along a sine or cosine."""
        out = np.ones((1,) * self.num_axes)
        for kind, order, wave in zip(self.kinds, alpha, self.waves, strict=True):
            if kind == FOURIER:
                out = out * (1j * wave) ** order if order else out
            elif order % 2:
                return None
            elif order:
                out = out * (-1.0) ** (order // 2) * wave**order
        return out

    # --- to values and back ----------------------------------------------------------------------------------------

    def values(self, coefficients: np.ndarray, alpha: Sequence[int]) -> np.ndarray:
        """A derivative of functions (..., *shape) on the grid, (..., *grid)."""
        found = coefficients
        for kind, order, wave in zip(self.kinds, alpha, self.waves, strict=True):
            if order:
                found = found * ((1j * wave) ** order if kind == FOURIER else wave**order)
        ahead = found.ndim - self.num_axes
        others = [j for j in range(self.num_axes) if self.kinds[j] == FOURIER and j != self.half]
        for j in others:
            found = np.asarray(scipy.fft.ifft(self._spread(found, ahead + j, j), axis=ahead + j, norm="forward"))
        if self.half is not None:
            n = self.intervals[self.half]
            found = np.asarray(scipy.fft.irfft(found, n, axis=ahead + self.half, norm="forward"))
        for j, kind in enumerate(self.kinds):
            if kind != FOURIER:
                found = self._trigonometric(found, ahead + j, j, alpha[j])
        return found

    def _spread(self, found: np.ndarray, axis: int, j: int) -> np.ndarray:
        """Coefficients of both signs with the missing waves as zeros between."""
        cut, n = self.cuts[j], self.intervals[j]
        low, high = np.split(found, [cut + 1], axis=axis)
        shape = list(found.shape)
        shape[axis] = n - (2 * cut + 1)
        return np.concatenate([low, np.zeros(shape, found.dtype), high], axis=axis)

    def _trigonometric(self, found: np.ndarray, axis: int, j: int, order: int) -> np.ndarray:
        """Sine or cosine coefficients, already times wave^order, to values of the derivative."""
        kind, n, cut = self.kinds[j], self.intervals[j], self.cuts[j]
        is_sine = (kind == SINE) == (order % 2 == 0)
        # Derivatives of sin: cos, −sin, −cos, sin; of cos: −sin, −cos, sin, cos.
        sign = (1, 1, -1, -1)[order % 4] if kind == SINE else (1, -1, -1, 1)[order % 4]
        found = np.moveaxis(found, axis, -1)
        inner = found if kind == SINE else found[..., 1:]
        wide = np.zeros((*found.shape[:-1], n + 1), found.dtype)
        wide[..., 1 : cut + 1] = sign / 2 * inner
        if is_sine:
            values = np.zeros_like(wide)
            values[..., 1:n] = scipy.fft.dst(wide[..., 1:n], type=1, axis=-1)
        else:
            if kind == COSINE and order == 0:
                wide[..., 0] = found[..., 0]
            values = np.asarray(scipy.fft.dct(wide, type=1, axis=-1))
        return np.moveaxis(values[..., 1:n] if kind == SINE else values, -1, axis)

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        """The kept coefficients of functions on the grid, (..., *grid) to (..., *shape)."""
        found, ahead = values, values.ndim - self.num_axes
        for j, (kind, n, cut) in enumerate(zip(self.kinds, self.intervals, self.cuts, strict=True)):
            axis = ahead + j
            if kind == SINE:
                found = _first(np.asarray(scipy.fft.dst(found, type=1, axis=axis)) / n, cut, axis)
            elif kind == COSINE:
                found = _first(np.asarray(scipy.fft.dct(found, type=1, axis=axis)) / n, cut + 1, axis)
                found[(slice(None),) * axis + (0,)] *= 0.5
        if self.half is not None:
            axis = ahead + self.half
            found = _first(np.asarray(scipy.fft.rfft(found, axis=axis, norm="forward")), self.cuts[self.half] + 1, axis)
        for j in range(self.num_axes):
            if self.kinds[j] == FOURIER and j != self.half:
                found = np.asarray(scipy.fft.fft(found, axis=ahead + j, norm="forward"))
                found = np.take(found, self.numbers[j], axis=ahead + j)
        return found

    def padded(self, coefficients: np.ndarray, before: Space) -> np.ndarray:
        """Coefficients of another space's functions in this one: zeros beyond, or cut off."""
        found, ahead = coefficients, coefficients.ndim - self.num_axes
        for j in range(self.num_axes):
            old = {int(k): i for i, k in enumerate(before.numbers[j])}
            places = np.array([old.get(int(k), -1) for k in self.numbers[j]])
            found = np.take(found, np.maximum(places, 0), axis=ahead + j)
            found[(slice(None),) * (ahead + j) + (places < 0,)] = 0.0
        return found

    def doubled(self, axes: Sequence[int]) -> Space:
        """The space with twice the intervals along some axes."""
        return Space(self.kinds, self.bounds, tuple(n * (2 if j in axes else 1) for j, n in enumerate(self.intervals)))

    def real(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients of 1, cos, sin, cos 2, ... along Fourier axes, real: what answers are made of."""
        found, ahead = coefficients, coefficients.ndim - self.num_axes
        for j, (kind, cut) in enumerate(zip(self.kinds, self.cuts, strict=True)):
            if kind != FOURIER:
                continue
            found = np.moveaxis(found, ahead + j, -1)
            up = found[..., 1 : cut + 1]
            if j == self.half:
                pairs = np.stack([2 * np.real(up), -2 * np.imag(up)], axis=-1)
                first = np.real(found[..., :1])
            else:
                down = found[..., : -cut - 1 : -1]
                pairs = np.stack([up + down, 1j * (up - down)], axis=-1)
                first = found[..., :1]
            found = np.concatenate([first, pairs.reshape(*up.shape[:-1], 2 * cut)], axis=-1)
            found = np.moveaxis(found, -1, ahead + j)
        return np.ascontiguousarray(np.real(found))


def _first(array: np.ndarray, count: int, axis: int) -> np.ndarray:
    return array[(slice(None),) * axis + (slice(0, count),)]
