"""Learning a cross-spectrum from windows: expectation maximization with shrinkage, from a first guess of the holes.

Shrinkage: the 2C x 2C block of a frequency towards its diagonal with the weight of 1 + (2C)^2 / W windows, W the number of
windows; covariances between different frequencies, which describe what depends on the time within a window (time of day),
by W / (W + 2q) for q amplitudes. Both were chosen on hidden values of validation months of ETTh1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from flm.estimators.imputer.cross_spectrum import CrossSpectrum, Window, cut, patterns
from flm.results.progress import Listener, Progress, silent

_LEAST_NOISE = 1e-6
_STACK = 1000  # rows that are multiplied at once
_SHRINKAGE = 1.0  # times the weights above; without any, each round raises the likelihood
_RELAXATION = (1.9, 1.4)
_GUESSED_ROUNDS, _ROUNDS = 3, 4  # with a guess of the holes, and then without
_MANY_ROUNDS = (12, 40)  # where there are too many holes to guess: a round gains about the share that is observed
_MORE_ROUNDS = 4  # from a spectrum
_MANY = 0.3  # of the values missing: a guess of so many is worse than none


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
        stacked: list[np.ndarray] = []  # V of windows to come
        for i, index in enumerate(group):
            window = windows[index]
            found = pattern.precision(window)
            weights[i] = u = found.weighted
            if found.G is not None:
                G += found.G
            else:
                assert pattern.inverse is not None
                G += pattern.inverse
                stacked += [] if found.V is None else [found.V]
            if stacked and (sum(map(len, stacked)) > _STACK or i == len(group) - 1):
                V = np.concatenate(stacked)
                G -= V.T @ V
                stacked = []
            # E e^2 = noise^2 u^2 + noise - noise^2 G_ii for an observed value
            seen, r = window.observed, pattern.noise.reshape(C, n)
            energy = r**2 * (u**2 - found.diagonal).reshape(C, n) + r
            noise_energy += np.where(seen, energy, 0.0).sum(axis=1)
            noise_count += seen.sum(axis=1)
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


def merged(old: CrossSpectrum, new: CrossSpectrum, share: float) -> CrossSpectrum:
    """The mixture of two distributions of amplitudes as one of the same mean and covariance; `share` is that of the second."""
    apart = new.mean - old.mean
    covariance = (1 - share) * old.covariance + share * new.covariance
    covariance += share * (1 - share) * np.outer(apart, apart)
    noise = (1 - share) * old.noise + share * new.noise
    return replace(old, mean=old.mean + share * apart, covariance=covariance, noise=noise)


def windows_of(steps: np.ndarray, values: np.ndarray, width: float, rows: np.ndarray | None = None) -> list[Window]:
    """Windows every half width that have observed values; with `rows`, those of these rows alone."""
    last = max(steps[-1] + 1 - width, steps[0])
    starts = np.arange(steps[0], last + 1e-6, width / 2)
    found = [cut(steps, values, start, width) for start in starts]
    found = [window for window in found if window.observed.any()]
    kept = [window for window in found if rows is None or rows[window.rows].all()]
    return kept or found


def learn(
    windows: list[Window],
    guesses: list[Window],
    width: float,
    spectrum: CrossSpectrum | None = None,
    *,
    listen: Listener = silent,
) -> CrossSpectrum:
    """Rounds on windows filled by a guess, which share one factorization, then a few on what was observed.

    Where few values are missing, the guess takes the covariances most of the way; a spectrum to start from needs none.
    """
    observed = float(np.mean([window.observed.mean() for window in windows]))
    plan = [windows] * _MORE_ROUNDS
    if spectrum is None:
        spectrum = CrossSpectrum.start(width, windows[0].values.shape[0])
        many = [windows] * int(np.clip(round(5 / observed), *_MANY_ROUNDS))
        plan = many if observed < 1 - _MANY else [guesses] * _GUESSED_ROUNDS + [windows] * _ROUNDS
    for round_, some in enumerate(plan):
        listen(Progress(f"round {round_ + 1} of {len(plan)}", share=round_ / len(plan)))
        spectrum = relaxed_round(spectrum, some)
    return spectrum
