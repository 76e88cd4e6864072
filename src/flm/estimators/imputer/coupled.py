"""Several channels in windows: one set of frequencies, amplitudes coupled across channels and frequencies.

In a window of w steps, with times t counted from its center,

    x_c(t) = sum_j a_cj cos 2 pi f_j t + b_cj sin 2 pi f_j t + noise_c,   f_j = j / (1.5 w),  j = 0 ... up to Nyquist:

a Fourier extension (period one and a half windows). All amplitudes of a window are one Gaussian vector, its mean and
covariance learned by expectation maximization over the windows of a table: the cross-spectrum. A window is then filled
by one linear solve. It is a sparse-spectrum Gaussian process with a learned (Loeve) spectrum, and has its error bars.

Shrinkage: the 2C x 2C block of a frequency towards its diagonal with the weight of `shrinkage` windows, by default
1 + (2C)^2 / W for W windows; covariances between different frequencies, which describe what depends on the time within a
window (time of day), by W / (W + 2q) for q amplitudes. Both were chosen on hidden values of validation months of ETTh1.
Amplitudes are ordered (channel, frequency, cos | sin), observations (channel, time).

Volatility differs from day to day, so error bars are scaled, per channel, by the leave-one-out residuals of observed
values nearby: r_i^2 / var_i = (G y)_i^2 / G_ii with G their inverse covariance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky, lapack, solve_triangular

from flm.estimators.progress import part, tell
from flm.series.tables import WaveTable

PERIOD = 1.5  # of the extension, in windows
_FIRST_NOISE = 1e-3  # of the unit variance of a channel
_LEAST_NOISE = 1e-6
_RELAXATION = (1.9, 1.4)
_USUAL_ROUNDS = 16  # on ETTh1 10 to 14: for the share of the work, nothing else
_SCALE_PRIOR = 3.0  # values' worth of belief that every hour is as volatile as all
_SCALE_REACH = 24.0  # steps within which observed values tell of the volatility


@dataclass(frozen=True, eq=False)
class Window:
    """One window: times from its center in steps (n,), values (C, n), which are observed."""

    times: np.ndarray
    values: np.ndarray
    observed: np.ndarray


@dataclass(frozen=True, eq=False)
class CrossSpectrum:
    """The learned distribution of a window's amplitudes.

    Args:
        frequencies: f_j in cycles per step, (F,).
        mean: of the amplitudes, (q,), q = 2 F C.
        covariance: (q, q).
        noise: variance per channel, (C,).
    """

    frequencies: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    noise: np.ndarray

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
        """C."""
        return len(self.noise)

    def columns(self, times: np.ndarray) -> np.ndarray:
        """cos and sin of every frequency at these times, (n, 2 F), the pair of a frequency side by side."""
        return WaveTable.at(times, 2 * np.pi * self.frequencies).pairs().reshape(len(times), -1)

    def project(self, B: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """(I_C x B) matrix for a matrix with q rows: (C n, columns)."""
        C = self.num_channels
        return (B @ matrix.reshape(C, B.shape[1], -1)).reshape(C * len(B), -1)

    def value_covariance(self, B: np.ndarray) -> np.ndarray:
        """Covariance of the noise-free values of a window, (C n, C n)."""
        half = self.project(B, self.covariance)
        return self.project(B, half.T)

    def value_noise(self, n: int) -> np.ndarray:
        """Noise variance of every value of a window, (C n,)."""
        return np.repeat(self.noise, n)


class Pattern:
    """Everything that windows with the same times share, under one cross-spectrum."""

    def __init__(self, spectrum: CrossSpectrum, times: np.ndarray, *, shared: bool):
        self.B = spectrum.columns(times)
        self.mean = spectrum.project(self.B, spectrum.mean[:, None])[:, 0]
        self.noise = spectrum.value_noise(len(times))
        self.covariance = spectrum.value_covariance(self.B)
        noisy = self.covariance + np.diag(self.noise)
        self._noisy = noisy
        # With few values missing, the inverse of all is the way to that of the observed ones.
        self._inverse = _inverse(noisy) if shared else None

    def observed_inverse(self, observed: np.ndarray) -> np.ndarray:
        """Inverse covariance of the observed values; `observed` holds their positions."""
        if self._inverse is not None and len(observed) > 0.625 * len(self.noise):
            # G = P_oo - P_om P_mm^-1 P_mo, P the inverse covariance of all values
            missing = np.ones(len(self.noise), bool)
            missing[observed] = False
            rows = self._inverse[missing]
            V = solve_triangular(_cholesky(rows[:, missing]), rows[:, observed], lower=True, check_finite=False)
            return self._inverse[np.ix_(observed, observed)] - V.T @ V
        return _inverse(self._noisy[np.ix_(observed, observed)])

    def fill(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (noise included) of all values given the observed ones, both (C, n)."""
        observed = np.flatnonzero(window.observed)
        missing = np.flatnonzero(~window.observed)
        G = self.observed_inverse(observed)
        K = self.covariance[missing[:, None], observed]
        KG = K @ G
        mean, variance = self.mean.copy(), self.noise.copy()
        mean[missing] += KG @ (window.values.ravel() - self.mean)[observed]
        variance[missing] += np.maximum(self.covariance.diagonal()[missing] - (KG * K).sum(axis=1), 0.0)
        shape = window.observed.shape
        weights = G @ (window.values.ravel() - self.mean)[observed]
        surprise = np.zeros(len(mean))
        surprise[observed] = weights**2 / G.diagonal()
        near = np.exp(-0.5 * ((window.times[:, None] - window.times) / _SCALE_REACH) ** 2)
        scale = _SCALE_PRIOR + surprise.reshape(shape) @ near
        scale /= _SCALE_PRIOR + window.observed @ near
        mean[observed] = window.values.ravel()[observed]
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


def group_by_times(windows: list[Window]) -> list[list[int]]:
    """Indices of windows with the same times (to 1e-9 steps)."""
    groups: dict[bytes, list[int]] = {}
    for i, window in enumerate(windows):
        groups.setdefault(np.round(window.times, 9).tobytes(), []).append(i)
    return list(groups.values())


def expectation_maximization(
    spectrum: CrossSpectrum, windows: list[Window], shrinkage: float | None = None
) -> CrossSpectrum:
    """One round: posterior moments of the amplitudes of every window, then their (shrunk) mean and covariance."""
    C, q = spectrum.num_channels, len(spectrum.mean)
    W = len(windows)
    shrinkage = 1 + (2 * C) ** 2 / W if shrinkage is None else shrinkage
    S = spectrum.covariance
    means = np.zeros((W, q))
    drop = np.zeros((q, q))  # sum over windows of prior minus posterior covariance
    noise_energy, noise_count = np.zeros(C), np.zeros(C)
    for group in group_by_times(windows):
        times = windows[group[0]].times
        pattern = Pattern(spectrum, times, shared=len(group) > 2)
        n = len(times)
        G = np.zeros((C * n, C * n))
        weights = np.zeros((len(group), C * n))
        for i, index in enumerate(group):
            window = windows[index]
            observed = np.flatnonzero(window.observed)
            inverse = pattern.observed_inverse(observed)
            u = inverse @ (window.values.ravel() - pattern.mean)[observed]
            G[observed[:, None], observed] += inverse
            weights[i, observed] = u
            # E e^2 = noise^2 u^2 + noise - noise^2 G_ii for an observed value
            r = pattern.noise[observed]
            channel = observed // n
            noise_energy += np.bincount(channel, r**2 * (u**2 - inverse.diagonal()) + r, C)
            noise_count += np.bincount(channel, minlength=C)
        SB = spectrum.project(pattern.B, S)  # (C n, q): (I x B) S
        means[group] = weights @ SB
        drop += SB.T @ G @ SB
    shift = means.mean(axis=0) * W / (W + shrinkage)
    means -= shift
    second = S + (means.T @ means - drop) / W
    noise = np.where(noise_count > 0, noise_energy / np.maximum(noise_count, 1), spectrum.noise)
    return replace(
        spectrum,
        mean=spectrum.mean + shift,
        covariance=_shrunk(second, C, W, shrinkage),
        noise=np.maximum(noise, _LEAST_NOISE),
    )


def relaxed_round(spectrum: CrossSpectrum, windows: list[Window], shrinkage: float | None = None) -> CrossSpectrum:
    """A round that goes nearly twice as far as expectation maximization, as long as covariances stay positive.

    Over-relaxation by less than two keeps the fixed points and their stability, and halves the number of rounds.
    """
    plain = expectation_maximization(spectrum, windows, shrinkage)
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


def _shrunk(covariance: np.ndarray, C: int, W: int, shrinkage: float) -> np.ndarray:
    q = len(covariance)
    F = q // (2 * C)
    frequency = np.tile(np.repeat(np.arange(F), 2), C)
    same = frequency[:, None] == frequency
    # Cos and sin of a channel at a frequency have the same variance when nothing is known of the phase.
    target = np.repeat(covariance.diagonal().reshape(-1, 2).mean(axis=1), 2)
    between = W / (W + 2 * q)
    kept = np.where(same, 1.0, between) * (W / (W + shrinkage))
    shrunk = kept * covariance
    shrunk[np.diag_indices(q)] += target * (shrinkage / (W + shrinkage))
    return (shrunk + shrunk.T) / 2


@dataclass(frozen=True, eq=False)
class Learned:
    """A cross-spectrum, the number of rounds, and hidden values in units of their standard deviations (may be empty).

    Args:
        spectrum: learned from all windows.
        rounds: of expectation maximization.
        scores: hidden values of the windows that were learned from.
        fresh_scores: of windows that were kept out of a second learning: what to expect of other tables.
    """

    spectrum: CrossSpectrum
    rounds: int
    scores: np.ndarray
    fresh_scores: np.ndarray


@dataclass(frozen=True, eq=False)
class Lesson:
    """A window to learn from, the observed values of it to hide, (C, n), and its part in cross-validation."""

    window: Window
    hidden: np.ndarray
    role: str  # "kept", "held out", or "between": it shares values with both

    @property
    def masked(self) -> Window:
        """The window without the hidden values."""
        return replace(self.window, observed=self.window.observed & ~self.hidden)


def learn(
    lessons: list[Lesson],
    window: float,
    *,
    shrinkage: float | None = None,
    max_rounds: int = 60,
) -> Learned:
    """Expectation maximization, stopped on hidden values; with fewer than twenty of them, eight rounds with all values.

    No rounds with the hidden values afterwards: they would fit the windows closer than the error bars are calibrated for.

    Args:
        lessons: windows with values to hide.
        window: samples per window.
        shrinkage: see the top of this file.
        max_rounds: most rounds.
    """
    start = CrossSpectrum.start(window, lessons[0].window.values.shape[0])
    spectrum = start
    if sum(int(lesson.hidden.sum()) for lesson in lessons) < 20:
        rounds = min(8, max_rounds)
        for round_ in range(rounds):
            tell(round_ / rounds, f"round {round_ + 1}")
            spectrum = relaxed_round(spectrum, [lesson.window for lesson in lessons], shrinkage)
        return Learned(spectrum, rounds, np.zeros(0), np.zeros(0))
    masked = [lesson.masked for lesson in lessons]
    best: tuple[float, CrossSpectrum, int, np.ndarray] | None = None
    failures = 0
    for round_ in range(1, max_rounds + 1):
        of_hidden = f", error of hidden values {best[0]:.3g}" if best else ""
        tell(0.6 * (round_ - 1) / max(_USUAL_ROUNDS, round_ + 3), f"round {round_}{of_hidden}")
        spectrum = relaxed_round(spectrum, masked, shrinkage)
        if round_ % 2 and round_ != max_rounds:
            continue
        error, scores = _score(spectrum, lessons)
        # A gain below one in a thousand is no reason to go on.
        failures = failures + 1 if best is not None and error > 0.999 * best[0] else 0
        if best is None or error < best[0]:
            best = (error, spectrum, round_, scores)
        if failures >= 2:
            break
    assert best is not None
    _, spectrum, rounds, scores = best
    fresh = [lesson for lesson in lessons if lesson.role == "held out"]
    others = [lesson.masked for lesson in lessons if lesson.role == "kept"]
    if sum(int(lesson.hidden.sum()) for lesson in fresh) < 20 or len(others) < len(lessons) / 2:
        return Learned(spectrum, rounds, scores, np.zeros(0))
    second = start
    with part(0.6, 1.0):
        for round_ in range(rounds):
            tell(round_ / rounds, "calibrating the error bars")
            second = relaxed_round(second, others, shrinkage)
    return Learned(spectrum, rounds, scores, _score(second, fresh)[1])


def _score(spectrum: CrossSpectrum, lessons: list[Lesson]) -> tuple[float, np.ndarray]:
    """Mean absolute error over hidden values, and all of them in units of their standard deviations."""
    errors, deviations = [], []
    for group in group_by_times([lesson.window for lesson in lessons]):
        pattern = Pattern(spectrum, lessons[group[0]].window.times, shared=len(group) > 2)
        for i in group:
            lesson = lessons[i]
            mean, std = pattern.fill(lesson.masked)
            errors.append((mean - lesson.window.values)[lesson.hidden])
            deviations.append(std[lesson.hidden])
    error = np.concatenate(errors)
    return float(np.abs(error).mean()), error / np.concatenate(deviations)
