"""Periodograms: how much of the data a single wave explains, at every frequency of a fine grid.

One input, any clock: the generalized Lomb-Scargle statistic (floating mean and weights; Zechmeister and Kuerster 2009),
whose sums come from a nonuniform FFT. Several inputs: squared moduli of the transform on a lattice, whose sums separate
over the axes into matrix products.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import fft
from scipy.sparse import csr_matrix
from scipy.special import i0

from flm.series.tables import powers

# Frequencies per resolution cell 2 pi / span: a peak is then at most 1/8 cell away, where it keeps 98 % of its height.
OVERSAMPLING = 4
_TAPS = 12
_OVERSAMPLING = 2.0
# beta = pi sqrt((w / a)^2 (a - 1/2)^2 - 0.8), w taps, oversampling a
_BETA = np.pi * np.sqrt((_TAPS / _OVERSAMPLING) ** 2 * (_OVERSAMPLING - 0.5) ** 2 - 0.8)


@dataclass(frozen=True, eq=False)
class Clock:
    """The times of a series: the step of a regular clock, or None for an irregular one."""

    step: float | None
    span: float
    num_times: int

    @classmethod
    def of(cls, times: np.ndarray) -> Clock:
        """The clock of these times: regular if all gaps are multiples of the smallest one, to 1e-6 of it."""
        unique = np.unique(times)
        span = float(unique[-1] - unique[0]) if len(unique) > 1 else 0.0
        if len(unique) < 3:
            return cls(span or None, span, len(unique))
        gaps = np.diff(unique)
        gaps = gaps[gaps > 1e-9 * span]
        smallest = float(gaps.min())
        ticks = np.round((unique - unique[0]) / smallest)
        # A better step from the whole record, then every time must be within 1e-4 of a tick.
        step = span / ticks[-1]
        regular = np.abs((unique - unique[0]) / step - ticks).max() < 1e-4 and ticks[-1] < 16 * len(unique)
        return cls(step if regular else None, span, len(unique))

    @property
    def highest_frequency(self) -> float:
        """Nyquist's frequency on a regular clock; pi times the mean rate on an irregular one. Radians per unit."""
        if self.step:
            return np.pi / self.step
        return np.pi * max(self.num_times - 1, 1) / (self.span or 1.0)


class NonuniformFFT:
    """The nonuniform fast Fourier transform in one dimension, in both directions, for real data.

    Values at times t_j are spread onto a grid twice as fine as the highest frequency needs with a Kaiser-Bessel window of
    twelve taps, transformed by an ordinary FFT, and divided by the window's own transform (Fessler and Sutton 2003; the
    window's parameter from Beatty et al. 2005). Relative error about 1e-11. The spreading is one sparse matrix, built once.

    Sums over times t_j at the frequencies omega_k = k * step (radians per unit of time), k = 0 ... highest.
    """

    def __init__(self, times: np.ndarray, step: float, highest: int):
        self.highest = int(highest)
        least = max(int(np.ceil(_OVERSAMPLING * (2 * highest + 1))), 2 * _TAPS)
        self._size = size = int(fft.next_fast_len(least, real=True))  # pyright: ignore[reportArgumentType]
        position = np.mod(np.asarray(times, float) * step, 2 * np.pi) * (size / (2 * np.pi))
        first = np.ceil(position - _TAPS / 2).astype(int)
        taps = first[:, None] + np.arange(_TAPS)  # (n, w)
        distance = 2 * (position[:, None] - taps) / _TAPS
        window = i0(_BETA * np.sqrt(np.maximum(1 - distance**2, 0.0))) * (np.abs(distance) <= 1)
        rows = np.repeat(np.arange(len(position)), _TAPS)
        self._spread = csr_matrix((window.ravel(), (rows, np.mod(taps, size).ravel())), shape=(len(position), size))
        self._gather = self._spread.T
        # The window's transform: w sinh(r) / r, r = sqrt(beta^2 - (pi w k / size)^2).
        root = np.sqrt(_BETA**2 - (np.pi * _TAPS * np.arange(highest + 1) / size) ** 2)
        self._correction = root / (_TAPS * np.sinh(root))

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Sum_j v_j exp(-i omega_k t_j), (highest + 1, ...) complex, for real values (n, ...)."""
        grid = self._gather @ values
        sums = np.asarray(fft.rfft(grid, axis=0))[: self.highest + 1]
        return sums * self._correction.reshape(-1, *(1,) * (sums.ndim - 1))

    def backward(self, coefficients: np.ndarray) -> np.ndarray:
        """Re sum_k g_k exp(i omega_k t_j), (n,) real, for complex coefficients (highest + 1,)."""
        half = np.zeros(self._size // 2 + 1, complex)
        half[: self.highest + 1] = coefficients * self._correction * (self._size / 2)
        half[0] *= 2
        return self._spread @ np.asarray(fft.irfft(half, self._size))


class LombScargle:
    """The periodogram of times (n,) with weights (n,), for one set of values after another."""

    def __init__(self, times: np.ndarray, weights: np.ndarray):
        clock = Clock.of(times)
        self.cell = 2 * np.pi / (clock.span or 1.0)
        step, since = self.cell / OVERSAMPLING, times - times.min()
        count = max(int(np.floor(clock.highest_frequency / step * (1 + 1e-12))), 1)
        self.frequencies = step * np.arange(count + 1)  # (F + 1,), from zero
        self._plan = NonuniformFFT(since, step, count)
        self._weights, self._total = weights, weights.sum()
        w1 = NonuniformFFT(since, step, 2 * count).forward(weights) / self._total
        first, second = w1[: count + 1], w1[::2]
        C, S = first.real, -first.imag
        # Weighted variances and covariance of cos and sin about their means.
        self._CC = (1 + second.real) / 2 - C * C
        self._SS = (1 - second.real) / 2 - S * S
        self._CS = -second.imag / 2 - C * S
        self._C, self._S = C, S

    def power(self, values: np.ndarray) -> np.ndarray:
        """The drop of the weighted sum of squares when one sinusoid is fitted at each frequency: (F + 1, K) for (n, K)."""
        w = self._weights[:, None]
        mean = (w * values).sum(axis=0) / self._total
        centered = values - mean
        sums = self._plan.forward(w * centered) / self._total
        YC, YS = sums.real, -sums.imag
        CC, SS, CS = self._CC[:, None], self._SS[:, None], self._CS[:, None]
        determinant = CC * SS - CS * CS
        joint = (SS * YC**2 + CC * YS**2 - 2 * CS * YC * YS) / np.where(determinant > 0, determinant, 1.0)
        # At zero and at Nyquist one of the two columns vanishes: fit the other alone.
        larger = np.maximum(CC, SS)
        alone = np.where(CC >= SS, YC, YS) ** 2 / np.where(larger > 1e-12, larger, np.inf)
        power = np.where(determinant > 1e-6 * larger**2, joint, alone)
        power[0] = 0.0
        return self._total * np.maximum(power, 0.0)


def lattice_power(
    z: np.ndarray, values: np.ndarray, base: np.ndarray, counts: np.ndarray, interactions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Squared moduli of the transform of `values` (n, K) on a lattice of sub-networks.

    Integer vectors (N, m) with at most `interactions` nonzero components, component j up to counts[j], and for each
    the sum over its sign flips of |sum_i v_i exp(-i k.z_i)|^2, (N, K).
    """
    m, K = z.shape[1], values.shape[1]
    tables = [powers(-base[j] * z[:, j], int(counts[j]))[1:] for j in range(m)]  # (count, n)
    points, found = [], []
    for q in range(1, interactions + 1):
        for active in itertools.combinations([j for j in range(m) if counts[j]], q):
            shape = tuple(int(counts[j]) for j in active)
            total = np.zeros((*shape, K))
            for flips in itertools.product((False, True), repeat=q - 1):
                pairs = zip(active, (False, *flips), strict=True)
                chosen = [tables[j].conj() if flip else tables[j] for j, flip in pairs]
                for k in range(K):  # sum_i v_i prod_j E_j[k_j, i] over all (k_j)
                    operands = itertools.chain(*((table, [axis, q]) for axis, table in enumerate(chosen)))
                    product = np.einsum(*operands, values[:, k], [q], list(range(q)), optimize=True)
                    total[..., k] += np.abs(product) ** 2
            vectors = np.zeros((int(np.prod(shape)), m), int)
            vectors[:, active] = 1 + np.indices(shape).reshape(q, -1).T
            points.append(vectors)
            found.append(total.reshape(-1, K))
    return np.concatenate(points), np.concatenate(found)
