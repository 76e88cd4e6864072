"""Growing a lattice of frequencies until the evidence stops rising.

Each round takes the lattice points that matter most under the current prior, compresses the data to one triangular
factor, and moves the prior to larger evidence; twice as many columns in the next. Features of length scale l get the
period T = 1 + 1.5 l half-widths, so that the two ends of the data are correlated through the period no more than
through the data: a Fourier extension, without Gibbs phenomenon.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flm.estimators.evidence import Compressed, Posterior, Sample, best_scale
from flm.estimators.periodogram import lattice_power
from flm.estimators.regressor.prior import STEP, SpectralPrior, choose_lattice, maximize_evidence
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


@dataclass(frozen=True, eq=False)
class LatticeFit:
    """A lattice, the prior on it, and what it needs to know of the data."""

    waves: Waves
    log_s: np.ndarray  # (N,) of the sub-networks
    half_periods: np.ndarray  # (m,) T_j
    data: Compressed
    evidence: float = -np.inf

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
    listen: Listener = silent,
) -> LatticeFit:
    """The lattice model of largest evidence; `half_periods` are T_j where the user fixed them, NaN where they are free."""
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
        waves = Waves.on_lattice(base, integers)
        return LatticeFit(waves, prior.log_variances(waves.subnets)[0], T, sample.compressed(waves))

    for round_, budget in enumerate(budgets):
        allowed = 1 if screening and round_ == 0 and len(budgets) > 1 else interactions
        listen(Progress(f"{budget} columns", share=float(work[round_])))
        fit = on_lattice(T, prior, allowed, budget)
        prior, value = maximize_evidence(fit.data, fit.waves, prior, iterations=_STEPS)
        rounded = prior.rounded()
        fit = replace(fit, log_s=rounded.log_variances(fit.waves.subnets)[0], evidence=value)
        gain = np.inf if best is None else value - best[0].evidence
        if gain > 0:
            best = (fit, prior)
        failures = 0 if gain > _ENOUGH else failures + 1
        if failures >= _PATIENCE:
            break
        if screening and round_ == 0:
            bonus = _pair_bonus(fit, sample)
        T = np.where(np.isnan(half_periods), snapped_periods(rounded.lengths), half_periods)
    assert best is not None
    fit, prior = best
    listen(Progress(f"{fit.waves.num_columns} columns kept", share=0.8))
    prior, _ = maximize_evidence(fit.data, fit.waves, prior, iterations=_LAST_STEPS)
    prior = prior.rounded()
    fit = replace(fit, log_s=prior.log_variances(fit.waves.subnets)[0]).rescaled()
    # The search for the prior sees no noise below its floor; data without noise go on under the prior found.
    while num_subnets is None and fit.is_noise_free and fit.waves.num_columns < most:
        larger = on_lattice(fit.half_periods, prior, interactions, min(2 * fit.waves.num_columns, most)).rescaled()
        if larger.waves.num_columns <= fit.waves.num_columns or larger.evidence < fit.evidence + _ENOUGH:
            break
        fit = larger
    return fit


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
