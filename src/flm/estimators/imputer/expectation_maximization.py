"""Learning a cross-spectrum from windows: expectation maximization with shrinkage, stopped on hidden values.

Shrinkage: the 2C x 2C block of a frequency towards its diagonal with the weight of 1 + (2C)^2 / W windows, W the number of
windows; covariances between different frequencies, which describe what depends on the time within a window (time of day),
by W / (W + 2q) for q amplitudes. Both were chosen on hidden values of validation months of ETTh1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from flm.estimators.imputer.cross_spectrum import CrossSpectrum, Window, cut, patterns
from flm.results.progress import Listener, Progress, silent, within

_LEAST_NOISE = 1e-6
_SHRINKAGE = 1.0  # times the weights above; without any, each round raises the likelihood
_RELAXATION = (1.9, 1.4)
_MAX_ROUNDS = 60
_USUAL_ROUNDS = 16  # on ETTh1 10 to 14: for the share of the work, nothing else
_BLOCK = 2  # windows per block of cross-validation
_FEW = 20  # hidden values: fewer do not tell when to stop


def expectation_maximization(spectrum: CrossSpectrum, windows: list[Window]) -> CrossSpectrum:
    """One round: posterior moments of the amplitudes of every window, then their (shrunk) mean and covariance."""
    C, q = spectrum.num_channels, len(spectrum.mean)
    W = len(windows)
    S = spectrum.covariance
    means = np.zeros((W, q))
    drop = np.zeros((q, q))  # sum over windows of prior minus posterior covariance
    noise_energy, noise_count = np.zeros(C), np.zeros(C)
    for pattern, group in patterns(spectrum, windows):
        n = len(pattern.B)
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
    belief = _SHRINKAGE * (1 + (2 * C) ** 2 / W)  # in windows
    shift = means.mean(axis=0) * W / (W + belief)
    means -= shift
    second = S + (means.T @ means - drop) / W
    noise = np.where(noise_count > 0, noise_energy / np.maximum(noise_count, 1), spectrum.noise)
    return replace(
        spectrum,
        mean=spectrum.mean + shift,
        covariance=_shrunk(second, C, W, belief),
        noise=np.maximum(noise, _LEAST_NOISE),
    )


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


def _shrunk(covariance: np.ndarray, C: int, W: int, belief: float) -> np.ndarray:
    q = len(covariance)
    frequency = np.tile(np.repeat(np.arange(q // (2 * C)), 2), C)
    between = W / (W + 2 * q * _SHRINKAGE)
    kept = np.where(frequency[:, None] == frequency, 1.0, between) * (W / (W + belief))
    shrunk = kept * covariance
    # Cos and sin of a channel at a frequency have the same variance when nothing is known of the phase.
    target = np.repeat(covariance.diagonal().reshape(-1, 2).mean(axis=1), 2)
    shrunk[np.diag_indices(q)] += target * (belief / (W + belief))
    return (shrunk + shrunk.T) / 2


@dataclass(frozen=True, eq=False)
class Learned:
    """A cross-spectrum, and errors of hidden values in units of their standard deviations."""

    spectrum: CrossSpectrum  # learned from all windows
    rounds: int = 0  # of expectation maximization
    error: float = np.inf  # mean absolute error of the hidden values
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))  # of the windows that were learned from
    # Of windows that were kept out of a second learning: what to expect of other tables.
    fresh_scores: np.ndarray = field(default_factory=lambda: np.zeros(0))


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


def lessons_of(steps: np.ndarray, values: np.ndarray, width: float, hide: np.ndarray) -> list[Lesson]:
    """Windows every half width to learn from; every fifth block of two widths is held out in cross-validation.

    The observed values to hide, (n, C), are the same in every window that covers them.
    """
    last = max(steps[-1] + 1 - width, steps[0])
    lessons = []
    for start in np.arange(steps[0], last + 1e-6, width / 2):
        window = cut(steps, values, start, width)
        if not window.observed.any():
            continue
        ends = np.array([start + 1e-6, start + width - 1e-6]) - steps[0]
        out = (ends // (_BLOCK * width)) % 5 == 4
        role = "held out" if out.all() else "between" if out.any() else "kept"
        lessons.append(Lesson(window, hide[window.rows].T, role))
    return lessons


def learn(lessons: list[Lesson], window: float, *, max_rounds: int = _MAX_ROUNDS, listen: Listener = silent) -> Learned:
    """Expectation maximization, stopped on hidden values; with fewer than twenty of them, eight rounds with all values.

    No rounds with the hidden values afterwards: they would fit the windows closer than the error bars are calibrated for.
    """
    start = CrossSpectrum.start(window, lessons[0].window.values.shape[0])

    def rounds_on(windows: list[Window], count: int, stage: str, listen: Listener) -> CrossSpectrum:
        spectrum = start
        for round_ in range(count):
            listen(Progress(stage, share=round_ / count))
            spectrum = relaxed_round(spectrum, windows)
        return spectrum

    if _num_hidden(lessons) < _FEW:
        count = min(8, max_rounds)
        spectrum = rounds_on([lesson.window for lesson in lessons], count, "learning", listen)
        return Learned(spectrum, count)
    masked = [lesson.masked for lesson in lessons]
    best = Learned(start)
    spectrum, failures = start, 0
    for round_ in range(1, max_rounds + 1):
        of_hidden = f", error of hidden values {best.error:.3g}" if best.rounds else ""
        listen(Progress(f"round {round_}{of_hidden}", share=0.6 * (round_ - 1) / max(_USUAL_ROUNDS, round_ + 3)))
        spectrum = relaxed_round(spectrum, masked)
        if round_ % 2 and round_ != max_rounds:
            continue
        error, scores = _score(spectrum, lessons)
        # A gain below one in a thousand is no reason to go on.
        failures = failures + 1 if error > 0.999 * best.error else 0
        if error < best.error:
            best = Learned(spectrum, round_, error, scores)
        if failures >= 2:
            break
    fresh = [lesson for lesson in lessons if lesson.role == "held out"]
    others = [lesson.masked for lesson in lessons if lesson.role == "kept"]
    if _num_hidden(fresh) < _FEW or len(others) < len(lessons) / 2:
        return best
    second = rounds_on(others, best.rounds, "calibrating the error bars", within(listen, 0.6, 1.0))
    return replace(best, fresh_scores=_score(second, fresh)[1])


def _num_hidden(lessons: list[Lesson]) -> int:
    return sum(int(lesson.hidden.sum()) for lesson in lessons)


def _score(spectrum: CrossSpectrum, lessons: list[Lesson]) -> tuple[float, np.ndarray]:
    """Mean absolute error over hidden values, and all of them in units of their standard deviations."""
    errors, deviations = [], []
    for pattern, group in patterns(spectrum, [lesson.window for lesson in lessons]):
        for lesson in (lessons[i] for i in group):
            mean, std = pattern.fill(lesson.masked)
            errors.append((mean - lesson.window.values)[lesson.hidden])
            deviations.append(std[lesson.hidden])
    error = np.concatenate(errors)
    return float(np.abs(error).mean()), error / np.concatenate(deviations)
