"""Growing a lattice of frequencies under a spectral prior until the evidence stops rising.

Each round takes the lattice points that matter most under the current prior, compresses the data to one triangular
factor, and moves the prior to larger evidence; twice as many columns in the next. Features of length scale l get the
period T = 1 + 1.5 l half-widths, so that the two ends of the data are correlated through the period no more than
through the data: a Fourier extension, without Gibbs phenomenon.

Over one feature the size is right when what the fit leaves over is white. Where it is not, a band is tried at its strongest
frequency, and once a rough prior on all columns; what pays is kept, and asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flm.estimators.evidence import Compressed, Posterior, Sample, best_scale
from flm.estimators.periodogram import LombScargle, lattice_power
from flm.estimators.regressor.spectral_prior import STEP, SpectralPrior, choose_lattice, covariance, maximize_evidence
from flm.estimators.waves import Waves
from flm.results.progress import Listener, Progress, silent

_PERIODS = np.array([1.25, 1.5, 2.0, 3.0, 4.0, 6.0])  # half the period, in half-widths of the data
_FIRST_BUDGET = 32
_ENOUGH = 1.0  # a gain of one nat is not worth twice the columns
_PATIENCE = 2
_STEPS, _LAST_STEPS = 30, 100  # of the search for the prior: while growing, and on the lattice kept
# Factors on the prior variance for the last scan: noise-free data want ratios up to 1e26.
_FACTORS = np.exp(np.arange(-8.0, 40.0 + STEP, 4 * STEP))
_LOG_DEVIATION = 4.0
_FEW = 128  # columns beyond which one feature's prior is sought in fewer steps
_MOST_FEATURES = 60  # of more, those that matter by themselves are kept
_MOST_BANDS = 4
_CLEAR = 6.0  # nats by which a frequency of the residual must stand out of white noise
_ROUGH = -3.5  # logarithm of the length scale of a rough prior


@dataclass(frozen=True, eq=False)
class LatticeFit:
    """A lattice, the prior on it, and what it needs to know of the data."""

    waves: Waves
    log_s: np.ndarray  # (N,) of the sub-networks
    half_periods: np.ndarray  # (m,) T_j
    data: Compressed
    evidence: float = -np.inf
    bands: np.ndarray | None = None  # center, its error, amplitude in units of the noise, its relative error: (B, 4)

    @property
    def s(self) -> np.ndarray:
        """Prior variance of every column, in units of the noise variance."""
        return np.exp(self.log_s)[self.waves.column_subnet]

    def rescaled(self) -> LatticeFit:
        """The same with all prior variances times the factor of largest evidence."""
        factor, value = best_scale(self.data, self.s, _FACTORS, log_deviation=_LOG_DEVIATION)
        return replace(self, log_s=self.log_s + np.log(factor), evidence=value)

    @property
    def is_noise_free(self) -> bool:
        """Whether the posterior leaves no noise to speak of."""
        return self.data.known_noise is None and bool((Posterior.of(self.data, self.s).variance < 1e-9).all())


def snapped_periods(lengths: np.ndarray) -> np.ndarray:
    """T from a short list: the first that is at least 1 + 1.5 l."""
    index = np.searchsorted(_PERIODS, 1 + 1.5 * lengths)
    return _PERIODS[np.minimum(index, len(_PERIODS) - 1)]


def fit_lattice(
    sample: Sample,
    *,
    interactions: int,
    half_periods: np.ndarray,
    num_subnets: int | None,
    max_columns: int,
    degree: int = 0,
    lines: np.ndarray | None = None,
    listen: Listener = silent,
) -> LatticeFit:
    """The lattice model of largest evidence; `half_periods` are T_j where the user fixed them, NaN where they are free.

    A trend of some degree and lines at given frequencies (L, m) may be beside it.
    """
    m = sample.z.shape[1]
    prior = SpectralPrior.start(m)
    T = np.where(np.isnan(half_periods), 2.0, half_periods)
    screening = m > 2 and interactions > 1 and num_subnets is None
    bonus = None
    best: tuple[LatticeFit, SpectralPrior] | None = None
    failures = 0
    # More columns than four per row only repeat themselves. By the sum of weights: a weight is a number of repeats.
    most = int(min(max_columns, max(_FIRST_BUDGET, 4 * sample.count)))
    budgets = [min(max(_FIRST_BUDGET, 4 * m + 1), most)]
    while budgets[-1] < most:
        budgets.append(min(2 * budgets[-1], most))
    if num_subnets is not None:
        budgets = [max_columns] * 3
    squares = np.square(budgets, dtype=float)
    # Done before each round; the last fifth is for the lattice kept.
    work = 0.8 * (np.cumsum(squares) - squares) / squares.sum()

    def on_lattice(T: np.ndarray, prior: SpectralPrior, interactions: int, budget: int) -> LatticeFit:
        base = np.pi / T
        integers = choose_lattice(
            prior, base, interactions, max_columns=budget, num_subnets=num_subnets, pair_bonus=bonus
        )
        waves = Waves.on_lattice(base, integers, degree)
        waves = waves if lines is None else waves.with_lines(lines)
        return LatticeFit(waves, prior.of_waves(waves)[0], T, sample.compressed(waves))

    def maximized(fit: LatticeFit, prior: SpectralPrior) -> tuple[LatticeFit, SpectralPrior]:
        steps = _STEPS // 2 if m == 1 and fit.waves.num_columns > _FEW else _STEPS
        prior, value = maximize_evidence(fit.data, fit.waves, prior, iterations=steps)
        # Three numbers each.
        cost = 1.5 * len(prior.bands) * np.log(max(sample.count, 2.0))
        return replace(fit, log_s=prior.rounded().of_waves(fit.waves)[0], evidence=value - cost), prior

    for round_, budget in enumerate(budgets):
        allowed = 1 if screening and round_ == 0 and len(budgets) > 1 else interactions
        listen(Progress(f"{budget} columns", share=float(work[round_])))
        fit = on_lattice(T, prior, allowed, budget)
        fit, prior = maximized(fit, prior)
        gain = np.inf if best is None else fit.evidence - best[0].evidence
        if gain > 0:
            best = (fit, prior)
        failures = 0 if gain > _ENOUGH else failures + 1
        if failures >= _PATIENCE:
            break
        if screening and round_ == 0:
            bonus = _pair_bonus(fit, sample)
        T = np.where(np.isnan(half_periods), snapped_periods(prior.rounded().lengths), half_periods)
    assert best is not None
    scan = LombScargle(sample.z[:, 0], sample.precisions) if m == 1 and num_subnets is None else None
    rough = False
    while scan is not None and len(best[1].bands) < _MOST_BANDS:
        fit, prior = best
        frequency = _unexplained(fit, sample, scan)
        if frequency is None:
            break
        listen(Progress(f"a band beside {len(prior.bands)}", share=float(work[-1])))
        T, more = fit.half_periods, min(2 * fit.waves.num_columns + 2 * _FIRST_BUDGET, most)
        trials = [(prior.with_band(frequency), more)]
        if not rough:
            theta = prior.theta.copy()
            theta[2], rough = _ROUGH, True
            trials.append((SpectralPrior(theta, m), most))
        tried = [maximized(on_lattice(T, start, 1, budget), start) for start, budget in trials]
        found = max(tried, key=lambda item: item[0].evidence)
        if found[0].evidence < fit.evidence + _ENOUGH:
            break
        best = found
    fit, prior = best
    num_bands = len(prior.bands)
    listen(Progress(f"{fit.waves.num_columns} columns kept", share=0.8))
    steps = _STEPS if m == 1 and fit.waves.num_columns > _FEW else _LAST_STEPS
    prior, _ = maximize_evidence(fit.data, fit.waves, prior, iterations=steps)
    prior = prior.rounded()
    fit = replace(fit, log_s=prior.of_waves(fit.waves)[0]).rescaled()
    # The search for the prior sees no noise below its floor; data without noise go on under the prior found.
    while num_subnets is None and fit.is_noise_free and fit.waves.num_columns < most:
        larger = on_lattice(fit.half_periods, prior, interactions, min(2 * fit.waves.num_columns, most)).rescaled()
        if larger.waves.num_columns <= fit.waves.num_columns or larger.evidence < fit.evidence + _ENOUGH:
            break
        fit = larger
    if num_bands:
        fit = replace(fit, evidence=fit.evidence - 1.5 * num_bands * np.log(max(sample.count, 2.0)))
        fit = replace(fit, bands=_bands(prior, fit))
    return fit


def relevant_features(sample: Sample) -> np.ndarray:
    """All features, or of more than sixty those whose lowest waves explain most of the outputs or of their squares.

    A feature that acts only together with others changes the spread of the outputs, and so their squares.
    """
    m = sample.z.shape[1]
    if m <= _MOST_FEATURES:
        return np.arange(m)
    root = np.sqrt(sample.weights)[:, None]
    goals = np.concatenate([sample.y, sample.y**2 - sample.weights @ sample.y**2 / sample.count], axis=1) * root
    explained = np.zeros(m)
    for j in range(m):
        angle = np.pi / 2 * sample.z[:, j : j + 1] * np.arange(1, 4)
        Q = np.linalg.qr(np.concatenate([np.cos(angle), np.sin(angle)], axis=1) * root)[0]
        explained[j] = ((Q.T @ goals) ** 2 / np.maximum((goals**2).sum(axis=0), 1e-300)).sum(axis=0).max()
    return np.sort(np.argsort(-explained, kind="stable")[:_MOST_FEATURES])


def _unexplained(fit: LatticeFit, sample: Sample, scan: LombScargle) -> float | None:
    """The frequency at which the residual of a fit stands out most of white noise, None where none does."""
    posterior = Posterior.of(fit.data, fit.s)
    if (posterior.variance < 1e-9).all():
        return None
    residual = sample.y - fit.waves.values(sample.z, posterior.mean)
    variance = np.maximum(sample.precisions @ residual**2 / sample.count, 1e-300)
    # Half the drop in chi-squared by one sinusoid: a standard exponential number in white noise of one output.
    height = 0.5 * (scan.power(residual) / variance).sum(axis=1)
    height[scan.frequencies < 1.5 * scan.cell] = 0.0  # slower things are no band
    peak = int(np.argmax(height))
    outputs = residual.shape[1]
    least = outputs * (np.log(max(sample.count / 2, 2.0)) + _CLEAR)
    # Or a fifth of all frequencies have much more than the rest.
    parts = np.array([part.mean() for part in np.array_split(height[1:], 5)]) / outputs
    uneven = parts.max() - 1 > 5 / np.sqrt(max(sample.count / 10, 1.0))
    return float(scan.frequencies[peak]) if height[peak] > least or uneven else None


def _bands(prior: SpectralPrior, fit: LatticeFit) -> np.ndarray:
    """The bands as lines: centers and amplitudes with errors, from the curvature of the evidence."""
    found, size = covariance(prior, fit.data, fit.waves), len(prior.theta)
    amplitudes = prior.band_amplitudes(fit.waves)
    errors = np.sqrt(np.maximum(np.diagonal(found)[size - 3 * len(amplitudes) :], 0.0)).reshape(-1, 3)
    # a prior's factor that was found later scales all amplitudes alike
    scale = np.exp((fit.log_s[0] - prior.of_waves(fit.waves)[0][0]) / 2)
    return np.column_stack([prior.centers, np.pi * errors[:, 1], scale * amplitudes, errors[:, 0] / 2])


def _pair_bonus(fit: LatticeFit, sample: Sample) -> np.ndarray:
    """How much of the residual of the single-feature model the lowest waves on each pair of features explain, (m, m).

    Under no interaction the statistic is chi-squared with four degrees of freedom per output; its log over that mean is
    the bonus, doubled so that a clear signal outranks a length scale.
    """
    posterior = Posterior.of(fit.data, fit.s)
    residual = sample.y - fit.waves.values(sample.z, posterior.mean)
    m = sample.z.shape[1]
    base = np.pi / fit.half_periods
    integers, squares = lattice_power(sample.z, residual * sample.weights[:, None], base, np.ones(m, int), 2)
    pairs = np.count_nonzero(integers, axis=1) == 2
    ratio = (2 * squares[pairs] / sample.count / posterior.variance).mean(axis=1) / 4
    bonus = np.full((m, m), -20.0)
    first, second = np.nonzero(integers[pairs])[1].reshape(-1, 2).T
    bonus[first, second] = bonus[second, first] = 2 * np.log(np.maximum(ratio, 1e-4))
    return bonus
