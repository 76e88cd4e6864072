"""Periodograms: how much of the data a single wave explains, at every frequency of a fine grid.

One input, any clock: the generalized Lomb-Scargle statistic (floating mean and weights; Zechmeister and Kuerster 2009),
whose sums come from an ordinary FFT on a regular clock (missing rows allowed) and from a nonuniform FFT on an irregular
one. Several inputs: squared moduli of the transform on a lattice, whose sums separate over the axes into matrix products.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import fft

from flm.estimators.nufft import NonuniformFFT, fast_length
from flm.series.tables import powers

# Frequencies per resolution cell 2 pi / span: a peak is then at most 1/8 cell away, where it keeps 98 % of its height.
OVERSAMPLING = 4


@dataclass(frozen=True, eq=False)
class Clock:
    """The times of a series: the step of a regular clock, or None for an irregular one."""

    step: float | None
    span: float
    num_times: int

    @classmethod
    def of(cls, times: np.ndarray) -> Clock:
        """Find the step: all gaps are multiples of the smallest one, to 1e-6 of it."""
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


def _regular_sums(times: np.ndarray, step: float, frequency_step: float) -> Callable[[np.ndarray, int], np.ndarray]:
    """Sums by one FFT: 2 pi / (length * step) is the frequency step."""
    tick = np.round((times - times.min()) / step).astype(int)
    length = round(2 * np.pi / (frequency_step * step))

    def sums(values: np.ndarray, highest: int) -> np.ndarray:
        grid = np.stack([np.bincount(tick, column, length) for column in values.T], axis=1)
        half = np.asarray(fft.rfft(grid, axis=0))
        full = np.concatenate([half, half[1 : (length + 1) // 2][::-1].conj()])  # twice Nyquist is needed for 2 omega
        return full[np.arange(highest + 1) % length]

    return sums


def _irregular_sums(times: np.ndarray, frequency_step: float) -> Callable[[np.ndarray, int], np.ndarray]:
    """Sums by a nonuniform FFT, planned once per highest frequency."""
    plan = cache(lambda highest: NonuniformFFT(times, frequency_step, highest))
    return lambda values, highest: plan(highest).forward(values)


class LombScargle:
    """The periodogram of times (n,) with weights (n,), to be asked for one set of values after another."""

    def __init__(self, times: np.ndarray, weights: np.ndarray):
        clock = Clock.of(times)
        self.clock = clock
        self.cell = 2 * np.pi / (clock.span or 1.0)
        if clock.step:
            length = fast_length(max(int(np.ceil(OVERSAMPLING * clock.span / clock.step)), 8))
            step = 2 * np.pi / (length * clock.step)
            self._sums = _regular_sums(times, clock.step, step)
        else:
            step = self.cell / OVERSAMPLING
            self._sums = _irregular_sums(times - times.min(), step)
        count = max(int(np.floor(clock.highest_frequency / step * (1 + 1e-12))), 1)
        self.frequencies = step * np.arange(count + 1)  # (F + 1,), from zero
        self._weights, self._total = weights, weights.sum()
        w1 = self._sums(weights[:, None], 2 * count)[:, 0] / self._total
        first, second = w1[: count + 1], w1[::2]
        C, S = first.real, -first.imag
        # Weighted variances and covariance of cos and sin about their means.
        self._CC = (1 + second.real) / 2 - C * C
        self._SS = (1 - second.real) / 2 - S * S
        self._CS = -second.imag / 2 - C * S
        self._C, self._S = C, S

    def power(self, values: np.ndarray) -> np.ndarray:
        """Drop of the weighted sum of squares when one sinusoid is fitted at each frequency: (F + 1, K) for (n, K)."""
        w = self._weights[:, None]
        mean = (w * values).sum(axis=0) / self._total
        centered = values - mean
        sums = self._sums(w * centered, len(self.frequencies) - 1) / self._total
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
    m = z.shape[1]
    tables = [powers(-base[j] * z[:, j], int(counts[j]))[1:] for j in range(m)]  # (count, n)
    points, found = [], []
    for q in range(1, interactions + 1):
        for active in itertools.combinations(range(m), q):
            shape = tuple(int(counts[j]) for j in active)
            if min(shape) < 1:
                continue
            total = np.zeros((*shape, values.shape[1]))
            for flips in itertools.product((False, True), repeat=q - 1):
                for k in range(values.shape[1]):
                    product = _separable(tables, active, (False, *flips), values[:, k].astype(complex))
                    total[..., k] += np.abs(product) ** 2
            grid = np.stack(np.meshgrid(*[np.arange(1, s + 1) for s in shape], indexing="ij"), axis=-1).reshape(-1, q)
            vectors = np.zeros((len(grid), m), int)
            vectors[:, active] = grid
            points.append(vectors)
            found.append(total.reshape(-1, values.shape[1]))
    return np.concatenate(points), np.concatenate(found)


def _separable(
    tables: list[np.ndarray], active: tuple[int, ...], flips: tuple[bool, ...], values: np.ndarray
) -> np.ndarray:
    """Sum_i v_i prod_j E_j[k_j, i] over all (k_j): the last two axes are one matrix product."""
    first, *others = [tables[j].conj() if flip else tables[j] for j, flip in zip(active, flips, strict=True)]
    if not others:
        return first @ values
    if len(others) == 1:
        return (first * values) @ others[0].T
    return np.stack([_separable(tables, active[1:], flips[1:], row) for row in first * values])
