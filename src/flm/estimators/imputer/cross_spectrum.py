"""Several channels in a window: one set of frequencies, amplitudes coupled across channels and frequencies.

In a window of w steps, with times t counted from its center,

    x_c(t) = sum_j a_cj cos 2 pi f_j t + b_cj sin 2 pi f_j t + noise_c,   f_j = j / (1.5 w),  j = 0 ... up to Nyquist:

a Fourier extension (period one and a half windows). All amplitudes of a window are one Gaussian vector, its mean and
covariance learned from the windows of a table (`expectation_maximization`): the cross-spectrum. A window is then filled
by one linear solve. It is a sparse-spectrum Gaussian process with a learned (Loeve) spectrum, and has its error bars.
Amplitudes are ordered (channel, frequency, cos | sin), observations (channel, time).

Volatility differs from day to day, so error bars are scaled, per channel, by the leave-one-out residuals of observed
values nearby: r_i^2 / var_i = (G y)_i^2 / G_ii with G their inverse covariance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, lapack, solve_triangular

from flm.series.tables import WaveTable

PERIOD = 1.5  # of the extension, in windows
_FIRST_NOISE = 1e-3  # of the unit variance of a channel
_SCALE_PRIOR = 3.0  # values' worth of belief that every hour is as volatile as all
_MOSTLY_SEEN = 0.35  # share of missing values below which their inverse is the cheaper way
_SCALE_REACH = 24.0  # steps within which observed values tell of the volatility


@dataclass(frozen=True, eq=False)
class Window:
    """Some consecutive rows of a table."""

    times: np.ndarray  # from the center of the window, in steps, (n,)
    values: np.ndarray  # (C, n)
    observed: np.ndarray  # which of them are, (C, n)
    rows: np.ndarray  # of the table, in time order, (n,)


@dataclass(frozen=True, eq=False)
class CrossSpectrum:
    """The learned distribution of a window's amplitudes."""

    frequencies: np.ndarray  # f_j in cycles per step, (F,)
    mean: np.ndarray  # of the amplitudes, (q,), q = 2 F C
    covariance: np.ndarray  # (q, q)
    noise: np.ndarray  # variance per channel, (C,)

    @classmethod
    def start(cls, window: float, num_channels: int) -> CrossSpectrum:
        """Independent channels of unit variance, falling with the square of the frequency."""
        f = np.arange(int(PERIOD * window / 2) + 1) / (PERIOD * window)
        s = 1 / (1 + (f * window / 2) ** 2)
        per_channel = np.repeat(s / s.sum(), 2)
        q = 2 * len(f) * num_channels
        return cls(f, np.zeros(q), np.diag(np.tile(per_channel, num_channels)), np.full(num_channels, _FIRST_NOISE))

    @property
    def num_channels(self) -> int:
        """The number of channels, C."""
        return len(self.noise)

    def columns(self, times: np.ndarray) -> np.ndarray:
        """cos and sin of every frequency at these times, (n, 2 F), the pair of a frequency side by side."""
        return WaveTable.at(times, 2 * np.pi * self.frequencies).pairs().reshape(len(times), -1)

    def project(self, B: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """(I_C x B) matrix for a matrix with q rows: (C n, columns)."""
        C = self.num_channels
        return (B @ matrix.reshape(C, B.shape[1], -1)).reshape(C * len(B), -1)


class Precision(NamedTuple):
    """Of the observed values of a window, with G their inverse covariance and y what they are above the mean."""

    weighted: np.ndarray  # G y, zero where missing, (C n,)
    diagonal: np.ndarray  # of G, (C n,)
    G: np.ndarray | None  # with zeros where missing, or
    V: np.ndarray | None  # V with G = P - V^T V, P the inverse covariance of all values; neither: G = P


class Pattern:
    """Everything that windows with the same times share, under one cross-spectrum."""

    def __init__(self, spectrum: CrossSpectrum, times: np.ndarray, *, shared: bool):
        self.B = spectrum.columns(times)
        self.mean = spectrum.project(self.B, spectrum.mean[:, None])[:, 0]  # of every value, (C n,)
        self.noise = np.repeat(spectrum.noise, len(times))  # its variance, (C n,)
        # of the noise-free values, (C n, C n)
        self.covariance = spectrum.project(self.B, spectrum.project(self.B, spectrum.covariance).T)
        self._noisy = self.covariance + np.diag(self.noise)
        # With few values missing, the inverse of all is the way to that of the observed ones.
        self.inverse = _inverse(self._noisy) if shared else None

    def precision(self, window: Window) -> Precision:
        """By the inverse of all values where it is there and most are observed, else by that of the observed ones."""
        seen = window.observed.ravel()
        y = np.where(seen, window.values.ravel() - self.mean, 0.0)
        P, missing = self.inverse, np.flatnonzero(~seen)
        if P is not None and len(missing) < _MOSTLY_SEEN * len(seen):
            weighted, diagonal, V = P @ y, P.diagonal(), None
            if len(missing):
                rows = P[missing]
                V = solve_triangular(_cholesky(rows[:, missing]), rows, lower=True, check_finite=False)
                weighted, diagonal = weighted - V.T @ (V @ y), diagonal - (V**2).sum(axis=0)
            return Precision(np.where(seen, weighted, 0.0), np.where(seen, diagonal, 0.0), None, V)
        observed = np.flatnonzero(seen)
        G = np.zeros((len(seen), len(seen)))
        G[observed[:, None], observed] = _inverse(self._noisy[np.ix_(observed, observed)])
        return Precision(G @ y, G.diagonal(), G, None)

    def fill(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (noise included) of all values given the observed ones, both (C, n)."""
        shape, seen = window.observed.shape, window.observed.ravel()
        missing = np.flatnonzero(~seen)
        found = self.precision(window)
        mean, variance = self.mean.copy(), self.noise.copy()
        if self.inverse is not None and found.G is None:
            # P_mm (x_m - mean_m) = -P_mo y, and P_mm^-1 is their covariance
            y = np.where(seen, window.values.ravel() - self.mean, 0.0)
            root = _cholesky(self.inverse[np.ix_(missing, missing)])
            half = solve_triangular(root, np.eye(len(missing)), lower=True, check_finite=False)
            mean[missing] -= half.T @ (half @ (self.inverse[missing] @ y))
            variance[missing] = (half**2).sum(axis=0)
        else:
            K = self.covariance[missing]
            assert found.G is not None
            mean[missing] += K @ found.weighted
            variance[missing] += np.maximum(self.covariance.diagonal()[missing] - ((K @ found.G) * K).sum(axis=1), 0.0)
        surprise = found.weighted**2 / np.where(seen, np.maximum(found.diagonal, 1e-300), 1.0)
        near = np.exp(-0.5 * ((window.times[:, None] - window.times) / _SCALE_REACH) ** 2)
        scale = _SCALE_PRIOR + surprise.reshape(shape) @ near
        scale /= _SCALE_PRIOR + window.observed @ near
        mean[seen] = window.values.ravel()[seen]
        return mean.reshape(shape), np.sqrt(variance.reshape(shape) * scale)


def _cholesky(matrix: np.ndarray) -> np.ndarray:
    try:
        return cholesky(matrix, lower=True, check_finite=False)
    except LinAlgError:
        jitter = 1e-10 * matrix.diagonal().max()
        return cholesky(matrix + jitter * np.eye(len(matrix)), lower=True, check_finite=False)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    if not len(matrix):
        return matrix
    lower, _ = lapack.dpotri(_cholesky(matrix), lower=1, overwrite_c=1)  # pyright: ignore[reportAttributeAccessIssue]
    return np.tril(lower) + np.tril(lower, -1).T


def patterns(spectrum: CrossSpectrum, windows: Sequence[Window]) -> Iterator[tuple[Pattern, list[int]]]:
    """Each pattern of times (to 1e-9 steps), and the indices of the windows that have it."""
    groups: dict[bytes, list[int]] = {}
    for i, window in enumerate(windows):
        groups.setdefault(np.round(window.times, 9).tobytes(), []).append(i)
    for group in groups.values():
        yield Pattern(spectrum, windows[group[0]].times, shared=len(group) > 2), group


class Filling(NamedTuple):
    """A window, and which of its rows it is there to fill."""

    window: Window
    targets: np.ndarray


def cut(steps: np.ndarray, values: np.ndarray, start: float, width: float) -> Window:
    """The rows with start <= steps < start + width; steps increasing, a millionth of tolerance against rounding."""
    first, last = np.searchsorted(steps, [start - 1e-6, start + width - 1e-6])
    block, observed = values[first:last].T, ~np.isnan(values[first:last].T)
    times = steps[first:last] - (start + (width - 1) / 2)
    return Window(times, np.where(observed, block, 0.0), observed, np.arange(first, last))


def filling_windows(steps: np.ndarray, values: np.ndarray, width: float, overlap: bool) -> list[Filling]:
    """Windows that together fill every row once.

    Starts are multiples of half the width, as in training. With `overlap`, a window every half width inside
    the table, each row going to the window in whose middle it is; else windows side by side from the first row on.
    """
    half = width / 2
    first = np.floor(steps[0] / half + 1e-6) * half
    step = half if overlap else width
    starts = np.arange(first, steps[-1] + 1e-6, step)
    if overlap:
        # Windows that hang over an end of the table know less: dropped where another covers the same rows.
        inside = starts[(starts >= steps[0] - 1e-6) & (starts + width <= steps[-1] + 1 + 1e-6)]
        if len(inside):
            before = starts[starts < inside[0]][-1:] if steps[0] < inside[0] - 1e-6 else starts[:0]
            after = starts[starts > inside[-1]][:1] if steps[-1] + 1 > inside[-1] + width + 1e-6 else starts[:0]
            starts = np.concatenate([before, inside, after])
    centers = starts + (width - 1) / 2
    border = (centers[1:] + centers[:-1]) / 2 if overlap else starts[1:] - 1e-6
    owner = np.searchsorted(border, steps, side="right")
    pieces = []
    for i, start in enumerate(starts):
        window = cut(steps, values, start, width)
        targets = owner[window.rows] == i
        if not window.observed[:, targets].all():
            pieces.append(Filling(window, targets))
    return pieces
