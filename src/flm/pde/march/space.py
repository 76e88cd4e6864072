"""Space: functions on a box as Fourier, sine or cosine series along each axis, and their values on an even grid.

Conventions. Along an axis [a, b] of width L with n intervals a "fourier" axis has the waves exp(2πik (x − a) / L), |k| < n/3,
at n points; a "sine" or "cosine" axis has sin or cos(πk (x − a) / L), k < 2n/3, at the middles of its intervals. The
waves that are left out follow the two-thirds rule: products of two functions have no aliases among those that are kept.
Coefficients are complex where any axis is "fourier"; along the last such axis only k ≥ 0 is kept, since functions are real.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import scipy.fft

FOURIER, SINE, COSINE = "fourier", "sine", "cosine"
BAND = 8  # the last 1/8 of the kept waves shows whether more are needed
TRACE = 1e-13  # of the largest coefficient: smaller ones are rounding
# The signs of derivatives: of sin they are sin, cos, −sin, −cos, and of cos they are cos, −sin, −cos, sin.
SIGNS = {SINE: (1, 1, -1, -1), COSINE: (1, -1, -1, 1)}


class Space:
    """The series and the grid of one size: the points along each axis are `lines`, coefficients of a function have `shape`."""

    def __init__(self, kinds: Sequence[str], bounds: Sequence[tuple[float, float]], intervals: Sequence[int]):
        self.kinds, self.bounds, self.intervals = tuple(kinds), tuple(bounds), tuple(intervals)
        self.num_axes = len(self.kinds)
        # the axis that has no negative k; along each axis the largest k, all k in the order of the coefficients
        # (0 ... c, −c ... −1 where both signs are kept), and the same in radians per unit, shaped to broadcast
        self.half = max((j for j, kind in enumerate(kinds) if kind == FOURIER), default=None)
        self.cuts, self.numbers, self.waves, self.lines, weights = [], [], [], [], np.ones(())
        for j, (kind, (low, high), n) in enumerate(zip(kinds, bounds, intervals, strict=True)):
            periodic = kind == FOURIER
            cut = (n - 1) // 3 if periodic else (2 * n - 1) // 3
            k = np.arange(1 if kind == SINE else 0, cut + 1)
            k = np.r_[k, -cut:0] if periodic and j != self.half else k
            self.cuts.append(cut)
            self.numbers.append(k)
            self.waves.append(((1 + periodic) * np.pi / (high - low) * k).reshape(-1, *(1,) * (self.num_axes - 1 - j)))
            self.lines.append(low + (high - low) / n * (np.arange(n) + (0.0 if periodic else 0.5)))
            partners = 2.0 if j == self.half else 1.0 if periodic else 0.5
            weights = np.multiply.outer(weights, np.where(k == 0, 1.0, partners))
        self.weights = weights  # the mean square of each wave, negative partners included: ‖u‖² = Σ weights |c|²
        self.shape, self.grid = weights.shape, tuple(map(len, self.lines))

    def resized(self, intervals: Sequence[int]) -> Space:
        """The same series with other numbers of intervals."""
        return Space(self.kinds, self.bounds, intervals)

    def doubled(self, axes: Collection[int]) -> Space:
        """The space with twice the intervals along some axes."""
        return self.resized([n * (1 + (j in axes)) for j, n in enumerate(self.intervals)])

    # --- sizes -----------------------------------------------------------------------------------------------------

    def _squares(self, coefficients: np.ndarray) -> np.ndarray:
        return self.weights * (np.real(coefficients) ** 2 + np.imag(coefficients) ** 2)

    def norms(self, coefficients: np.ndarray) -> np.ndarray:
        """Root mean squares of functions (..., *shape)."""
        return np.sqrt(self._squares(coefficients).sum(axis=tuple(range(-self.num_axes, 0))))

    def beyond(self, coefficients: np.ndarray, axis: int, cut: int) -> np.ndarray:
        """The root mean square of the waves with |k| > cut along an axis."""
        last = np.abs(self.numbers[axis]) > cut
        squares = np.compress(last, self._squares(coefficients), axis=axis - self.num_axes)
        return np.sqrt(squares.sum(axis=tuple(range(-self.num_axes, 0))))

    def tails(self, coefficients: np.ndarray) -> np.ndarray:
        """The root mean square of the last kept waves along each axis, (axes, ...)."""
        bands = [max(cut // BAND, 2, min(self._gap(coefficients, j), cut // 2)) for j, cut in enumerate(self.cuts)]
        return np.stack([self.beyond(coefficients, j, self.cuts[j] - band) for j, band in enumerate(bands)])

    def _gap(self, coefficients: np.ndarray, axis: int) -> int:
        """The largest distance between neighboring wave numbers that occur: a symmetric function has every second or fourth."""
        sizes = np.abs(coefficients).max(
            axis=tuple(i for i in range(coefficients.ndim) if i != coefficients.ndim - self.num_axes + axis)
        )
        occurring = np.unique(np.abs(self.numbers[axis][sizes > TRACE * sizes.max()]))
        return int(np.diff(occurring, prepend=0).max(initial=0))

    # --- to values and back ----------------------------------------------------------------------------------------

    def symbol(self, alpha: Sequence[int]) -> np.ndarray:
        """The factor of coefficients for a derivative; an odd order along a sine or cosine axis swaps sines and cosines."""
        out = np.ones(self.shape)
        for kind, order, wave in zip(self.kinds, alpha, self.waves, strict=True):
            out = out * ((1j * wave) ** order if kind == FOURIER else SIGNS[kind][order % 4] * wave**order)
        return out if any(np.mod(alpha, 2)) else out.real

    def values(self, coefficients: np.ndarray, alpha: Sequence[int]) -> np.ndarray:
        """Functions on the grid, (..., *shape) to (..., *grid), whose coefficients were multiplied by the symbol of alpha."""
        found, ahead = coefficients, coefficients.ndim - self.num_axes
        for j, (kind, n) in enumerate(zip(self.kinds, self.intervals, strict=True)):
            if kind == FOURIER and j != self.half:
                wide = np.zeros((*found.shape[: ahead + j], n, *found.shape[ahead + j + 1 :]), found.dtype)
                wide[_along(ahead + j, self.numbers[j])] = found
                found = np.asarray(scipy.fft.ifft(wide, axis=ahead + j, norm="forward", overwrite_x=True))
        if self.half is not None:
            n = self.intervals[self.half]
            found = np.asarray(scipy.fft.irfft(found, n, axis=ahead + self.half, norm="forward"))
        for j, (kind, n) in enumerate(zip(self.kinds, self.intervals, strict=True)):
            if kind == FOURIER:
                continue
            axis, is_sine = ahead + j, (kind == SINE) == (alpha[j] % 2 == 0)
            found = found[_along(axis, slice(1, None))] if is_sine and kind == COSINE else found  # sin has no k = 0
            first = int(kind == SINE and not is_sine)
            wide = np.zeros((*found.shape[:axis], n, *found.shape[axis + 1 :]))
            wide[_along(axis, slice(first, first + found.shape[axis]))] = 0.5 * found
            wide[_along(axis, 0)] *= 1.0 if is_sine else 2.0
            transform = scipy.fft.dst if is_sine else scipy.fft.dct
            found = np.asarray(transform(wide, type=3, axis=axis, overwrite_x=True))
        return found

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        """The kept coefficients of functions on the grid, (..., *grid) to (..., *shape)."""
        found, ahead = values, values.ndim - self.num_axes
        order = sorted(range(self.num_axes), key=lambda j: (self.kinds[j] == FOURIER, j != self.half))
        for j in order:  # real transforms first
            axis, kind = ahead + j, self.kinds[j]
            if kind == FOURIER:
                transform = scipy.fft.rfft if j == self.half else scipy.fft.fft
                found = np.asarray(transform(found, axis=axis, norm="forward"))
            else:
                transform = scipy.fft.dst if kind == SINE else scipy.fft.dct
                found = np.asarray(transform(found, type=2, axis=axis)) / self.intervals[j]
            if j == self.half or kind != FOURIER:
                found = found[_along(axis, slice(0, self.shape[j]))]
            else:
                found = np.take(found, self.numbers[j], axis=axis)
            if kind == COSINE:
                found[_along(axis, 0)] *= 0.5
        return found

    def padded(self, coefficients: np.ndarray, before: Space) -> np.ndarray:
        """Coefficients of another space's functions in this space: padded with zeros, or cut off."""
        found, ahead = coefficients, coefficients.ndim - self.num_axes
        for j in range(self.num_axes):
            places = np.full(2 * max(self.cuts[j], before.cuts[j]) + 1, -1)  # negative numbers count from the end
            places[before.numbers[j]] = np.arange(before.shape[j])
            places = places[self.numbers[j]]
            found = np.take(found, np.maximum(places, 0), axis=ahead + j)
            found[_along(ahead + j, places < 0)] = 0.0
        return found

    def real(self, coefficients: np.ndarray) -> np.ndarray:
        """Real coefficients of 1, cos, sin, cos 2, ... along Fourier axes, as answers have them."""
        found, ahead = coefficients, coefficients.ndim - self.num_axes
        for j, (kind, cut) in enumerate(zip(self.kinds, self.cuts, strict=True)):
            if kind == FOURIER:
                found = np.moveaxis(found, ahead + j, -1)
                up = found[..., 1 : cut + 1]
                down = up.conj() if j == self.half else found[..., : -cut - 1 : -1]
                pairs = np.stack([up + down, 1j * (up - down)], axis=-1).reshape(*up.shape[:-1], 2 * cut)
                found = np.moveaxis(np.concatenate([found[..., :1], pairs], axis=-1), -1, ahead + j)
        return np.ascontiguousarray(np.real(found))


def _along(axis: int, places: int | slice | np.ndarray) -> tuple[int | slice | np.ndarray, ...]:
    """An index along one axis."""
    return (slice(None),) * axis + (places,)
