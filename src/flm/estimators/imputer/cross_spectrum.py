"""Several channels in a window: one set of frequencies, amplitudes coupled across channels and frequencies.

In a window of w steps, with times t counted from its center,

    x_c(t) = sum_j a_cj cos 2 pi f_j t + b_cj sin 2 pi f_j t + noise_c,   f_j = j / (1.5 w),  j = 0 ... up to Nyquist:

a Fourier extension (period one and a half windows). All amplitudes of a window are one Gaussian vector, its mean and
covariance learned from the windows of a table by expectation maximization: the cross-spectrum. A window is then filled
by one linear solve. It is a sparse-spectrum Gaussian process with a learned (Loeve) spectrum, and has its error bars.
Amplitudes are ordered (channel, frequency, cos | sin), observations (channel, time).

Volatility differs from day to day, so error bars are scaled, per channel, by the leave-one-out residuals of observed
values nearby: r_i^2 / var_i = (G y)_i^2 / G_ii with G their inverse covariance.

Shrinkage: with W windows, C channels and q amplitudes, the 2C x 2C block of a frequency goes towards a smooth one with the
weight of 2 + 12 (2C)^2 / W windows. There the variance of a channel is the geometric mean over nearby frequencies, and
channels cohere, in phase, as they do on average at nearby frequencies: what holds between channels at every moment, such as one
being the sum of two others, is learned from few windows. Covariances between different frequencies, which describe what depends on
the time within a window (time of day), are multiplied by W / (W + q / 2). All was chosen on hidden values of the first
2,000 hours of ETTh1, of macroeconomic quarters, and of generated walks, daily waves and band-limited noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, lapack

from flm.series.tables import WaveTable

_PERIOD = 1.5  # of the extension, in windows
_FIRST_NOISE, _LEAST_NOISE = 1e-3, 1e-6  # of the unit variance of a channel
_SCALE_PRIOR = 3.0  # values' worth of belief that every hour is as volatile as the whole
_SCALE_REACH = 24.0  # steps within which observed values show the volatility
_MOSTLY_SEEN = 0.35  # below this share of missing values, their inverse is the cheaper way
_SHRINKAGE = 1.0  # times the weights above; without any, each round raises the likelihood
_SMOOTH_VARIANCE, _SMOOTH_COHERENCE = 1.0, 3.0  # widths in frequencies
_RELAXATION = (1.9, 1.4)


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
        """A start: independent channels of unit variance, with a spectrum that falls with the square of the frequency."""
        f = np.arange(int(_PERIOD * window / 2) + 1) / (_PERIOD * window)
        s = 1 / (1 + (f * window / 2) ** 2)
        per_channel = np.repeat(s / s.sum(), 2)
        q = 2 * len(f) * num_channels
        return cls(f, np.zeros(q), np.diag(np.tile(per_channel, num_channels)), np.full(num_channels, _FIRST_NOISE))

    def project(self, B: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """(I_C x B) matrix for a matrix with q rows: (C n, columns)."""
        C = len(self.noise)
        return (B @ matrix.reshape(C, B.shape[1], -1)).reshape(C * len(B), -1)

    def merged(self, other: CrossSpectrum, share: float) -> CrossSpectrum:
        """One distribution with the mean and covariance of the mixture of two; `share` is the weight of the second."""
        apart = other.mean - self.mean
        covariance = (1 - share) * self.covariance + share * other.covariance
        covariance += share * (1 - share) * np.outer(apart, apart)
        noise = (1 - share) * self.noise + share * other.noise
        return replace(self, mean=self.mean + share * apart, covariance=covariance, noise=noise)


class Precision(NamedTuple):
    """The inverse covariance G of the observed values of a window; y are these values less their mean.

    Where few values are missing, G = P - P_m^T P_mm^-1 P_m, with P the inverse covariance of all values, which windows
    share; P_mm^-1 is the covariance of the missing values, noise included, given the observed ones.
    """

    weighted: np.ndarray  # G y, zero where missing, (C n,)
    observed: np.ndarray  # the places of the observed values, (o,)
    missing: np.ndarray  # and of the missing ones, (m,)
    whole: np.ndarray | None  # G, (o, o); else
    inner: np.ndarray  # P_mm^-1, (m, m)


class Pattern:
    """Everything that windows with the same times share, under one cross-spectrum."""

    def __init__(self, spectrum: CrossSpectrum, times: np.ndarray, *, shared: bool):
        # cos and sin of every frequency, the pair of a frequency side by side, (n, 2 F)
        self.B = WaveTable.at(times, 2 * np.pi * spectrum.frequencies).pairs().reshape(len(times), -1)
        self.mean = spectrum.project(self.B, spectrum.mean[:, None])[:, 0]  # of every value, (C n,)
        self.noise = np.repeat(spectrum.noise, len(times))  # its variance, (C n,)
        # of the noise-free values, (C n, C n)
        self.covariance = spectrum.project(self.B, spectrum.project(self.B, spectrum.covariance).T)
        self._noisy = self.covariance + np.diag(self.noise)
        self.inverse = _inverse(self._noisy) if shared else np.zeros((0, 0))

    def precision(self, window: Window) -> Precision:
        """The inverse covariance G of the observed values, with G y."""
        seen = window.observed.ravel()
        y = np.where(seen, window.values.ravel() - self.mean, 0.0)
        P, observed, missing = self.inverse, np.flatnonzero(seen), np.flatnonzero(~seen)
        if not len(P) or len(missing) >= _MOSTLY_SEEN * len(seen):
            G, weighted = _inverse(self._noisy[observed].take(observed, axis=1)), np.zeros(len(seen))
            weighted[observed] = G @ y[observed]
            return Precision(weighted, observed, missing, G, np.zeros((0, 0)))
        rows, z = P[missing], P @ y
        inner = _inverse(rows.take(missing, axis=1))
        weighted = np.where(seen, z - (inner @ z[missing]) @ rows, 0.0)
        return Precision(weighted, observed, missing, None, inner)

    def fill(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (noise included) of all values given the observed ones, both (C, n)."""
        shape, seen = window.observed.shape, window.observed.ravel()
        weighted, observed, missing, G, inner = self.precision(window)
        mean, variance = np.where(seen, window.values.ravel(), self.mean), self.noise.copy()
        K = self.covariance[missing]
        mean[missing] += K @ weighted
        if G is not None:
            K = K.take(observed, axis=1)
            variance[missing] += np.maximum(self.covariance.diagonal()[missing] - ((K @ G) * K).sum(axis=1), 0.0)
            diagonal = np.zeros(len(seen))
            diagonal[observed] = G.diagonal()
        else:
            variance[missing] = np.maximum(inner.diagonal(), variance[missing])
            rows = self.inverse[missing]
            diagonal = self.inverse.diagonal() - ((inner @ rows) * rows).sum(axis=0)
        surprise = weighted**2 / np.where(seen, np.maximum(diagonal, 1e-300), 1.0)
        near = np.exp(-0.5 * ((window.times[:, None] - window.times) / _SCALE_REACH) ** 2)
        scale = (_SCALE_PRIOR + surprise.reshape(shape) @ near) / (_SCALE_PRIOR + window.observed @ near)
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
    whole = lower + lower.T  # above the diagonal, `lower` has the zeros of the Cholesky factor
    whole.flat[:: len(whole) + 1] /= 2
    return whole


def _add(total: np.ndarray, places: np.ndarray, part: np.ndarray) -> None:
    """Add a matrix at some rows and columns of a larger one; by two indices it would take three times as long."""
    total.ravel()[(places[:, None] * len(total) + places).ravel()] += part.ravel()


def patterns(spectrum: CrossSpectrum, windows: Sequence[Window]) -> Iterator[tuple[Pattern, list[int]]]:
    """Each pattern of times (to 1e-9 steps), and the indices of the windows that have it."""
    groups: dict[bytes, list[int]] = {}
    for i, window in enumerate(windows):
        groups.setdefault(np.round(window.times, 9).tobytes(), []).append(i)
    for group in groups.values():
        yield Pattern(spectrum, windows[group[0]].times, shared=len(group) > 2), group


def expectation_maximization(spectrum: CrossSpectrum, windows: list[Window]) -> CrossSpectrum:
    """One round: posterior moments of the amplitudes of every window, then their (shrunk) mean and covariance."""
    C, q, W = len(spectrum.noise), len(spectrum.mean), len(windows)
    means = np.zeros((W, q))
    drop = np.zeros((q, q))  # sum over windows of prior minus posterior covariance
    noise_energy, noise_count = np.zeros(C), np.zeros(C)
    for pattern, group in patterns(spectrum, windows):
        weights, total = np.zeros((len(group), len(pattern.mean))), np.zeros(pattern.covariance.shape)
        num_few, removed = 0, np.zeros(total.shape)
        for i, index in enumerate(group):
            weights[i], observed, missing, G, inner = pattern.precision(windows[index])
            noise_count += windows[index].observed.sum(axis=1)
            if G is not None:
                _add(total, observed, G)
            else:
                num_few += 1
                _add(removed, missing, inner)
        if num_few:
            total += num_few * pattern.inverse - pattern.inverse @ removed @ pattern.inverse
        # E e^2 = noise^2 u^2 + noise - noise^2 G_ii for an observed value, u = G y; u and G_ii are zero for others
        noise_energy += ((weights**2).sum(axis=0) - total.diagonal()).reshape(C, -1).sum(axis=1) * spectrum.noise**2
        SB = spectrum.project(pattern.B, spectrum.covariance)  # (C n, q): (I x B) S
        means[group] = weights @ SB
        drop += SB.T @ total @ SB
    belief = _SHRINKAGE * (1 + (2 * C) ** 2 / W)  # in windows
    shift = means.mean(axis=0) * W / (W + belief)
    means -= shift
    second = spectrum.covariance + (means.T @ means - drop) / W
    noise = spectrum.noise + noise_energy / np.maximum(noise_count, 1)
    noise = np.maximum(noise, _LEAST_NOISE)
    return replace(spectrum, mean=spectrum.mean + shift, covariance=_shrunk(second, C, W), noise=noise)


def _shrunk(covariance: np.ndarray, C: int, W: int) -> np.ndarray:
    """The covariance of the amplitudes of W windows, shrunk towards a smooth one."""
    belief = _SHRINKAGE * (2 + 12 * (2 * C) ** 2 / W)  # in windows
    F = len(covariance) // (2 * C)
    frequency = np.tile(np.repeat(np.arange(F), 2), C)
    between = W / (W + 0.5 * len(covariance) * _SHRINKAGE)
    shrunk = np.where(frequency[:, None] == frequency, 1.0, between) * (W / (W + belief)) * covariance
    blocks = np.einsum("cfkdfk->fcd", covariance.reshape(C, F, 2, C, F, 2)) / 2  # in phase, (F, C, C)
    size = np.sqrt(np.maximum(np.einsum("fcc->fc", blocks), 1e-300))
    coherence = _near(F, _SMOOTH_COHERENCE) @ (blocks / size[:, :, None] / size[:, None]).reshape(F, -1)
    coherence = 2 * W * coherence.reshape(blocks.shape) + C * np.eye(C)  # a belief that channels are independent
    coherence /= np.einsum("fcc->fc", coherence)[:, :, None]
    near = _near(F, _SMOOTH_VARIANCE)
    size = np.exp(near @ np.log(size) / near.sum(axis=1, keepdims=True))
    target = (belief / (W + belief)) * coherence * size[:, :, None] * size[:, None]
    shrunk = shrunk.reshape(C, F, 2, C, F, 2)
    for f in range(F):
        for phase in range(2):
            shrunk[:, f, phase, :, f, phase] += target[f]
    shrunk = shrunk.reshape(covariance.shape)
    return (shrunk + shrunk.T) / 2


def _near(num_frequencies: int, width: float) -> np.ndarray:
    """Weights of nearby frequencies, one on the diagonal, (F, F)."""
    f = np.arange(num_frequencies)
    return np.exp(-0.5 * ((f[:, None] - f) / width) ** 2)


def relaxed_round(spectrum: CrossSpectrum, windows: list[Window]) -> CrossSpectrum:
    """A round that goes nearly twice as far as expectation maximization, as long as covariances stay positive.

    Over-relaxation by less than two keeps the fixed points and their stability, and halves the number of rounds.
    """
    plain = expectation_maximization(spectrum, windows)
    for factor in _RELAXATION:
        covariance = spectrum.covariance + factor * (plain.covariance - spectrum.covariance)
        try:
            cholesky(covariance + 1e-9 * np.eye(len(covariance)), lower=True, check_finite=False)
        except LinAlgError:
            continue
        mean = spectrum.mean + factor * (plain.mean - spectrum.mean)
        noise = np.maximum(spectrum.noise * (plain.noise / spectrum.noise) ** factor, _LEAST_NOISE)
        return replace(plain, mean=mean, covariance=covariance, noise=noise)
    return plain
