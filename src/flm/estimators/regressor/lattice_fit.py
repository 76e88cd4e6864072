"""Growing a lattice of frequencies until the evidence stops rising.

Each round takes the lattice points that matter most under the current prior, compresses the data to one triangular
factor, and moves the prior to larger evidence; twice as many columns in the next. Features of length scale l get the
period T = 1 + 1.5 l half-widths, so that the two ends of the data are correlated through the period no more than
through the data: a Fourier extension, without Gibbs phenomenon.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flm.estimators.evidence import Compressed, Posterior, best_scale, compress
from flm.estimators.periodogram import lattice_power
from flm.estimators.progress import tell
from flm.estimators.regressor.prior import STEP, SpectralPrior, choose_lattice, maximize_evidence
from flm.estimators.waves import Waves

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
    """A lattice, the prior on it, and the triangular factor of the data."""

    waves: Waves
    log_s: np.ndarray  # (N,) of the sub-networks
    half_periods: np.ndarray  # (m,) T_j
    factor: np.ndarray
    evidence: float

    @property
    def s(self) -> np.ndarray:
        """Prior variance of every column, in units of the noise variance."""
        return np.exp(self.log_s)[self.waves.column_subnet]


def snapped_periods(lengths: np.ndarray) -> np.ndarray:
    """T from a short list: the first that is at least 1 + 1.5 l."""
    index = np.searchsorted(_PERIODS, 1 + 1.5 * lengths)
    return _PERIODS[np.minimum(index, len(_PERIODS) - 1)]


def fit_lattice(
    z: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    *,
    interactions: int,
    half_periods: np.ndarray,
    num_subnets: int | None,
    max_columns: int,
    known_noise: np.ndarray | None = None,
) -> LatticeFit:
    """The lattice model of largest evidence.

    Args:
        z: scaled inputs, (n, m).
        y: outputs, (n, K), unit variance.
        weights: (n,).
        interactions: most nonzero components of a frequency.
        half_periods: T_j where the user fixed it, NaN where it is free.
        num_subnets: a fixed number of sub-networks, or None.
        max_columns: most columns.
        known_noise: noise variances (K,), or None.
    """
    m, count = z.shape[1], float(weights.sum())
    prior = SpectralPrior.start(m)
    T = np.where(np.isnan(half_periods), 2.0, half_periods)
    screening = m > 2 and interactions > 1 and num_subnets is None
    bonus = None
    best: tuple[float, LatticeFit, SpectralPrior] | None = None
    failures = 0
    # More columns than four per row only repeat themselves. By the sum of weights: a weight is a number of repeats.
    most = int(min(max_columns, max(_FIRST_BUDGET, 4 * count)))
    budgets = [min(max(_FIRST_BUDGET, 4 * m + 1), most)]
    while budgets[-1] < most:
        budgets.append(min(2 * budgets[-1], most))
    if num_subnets is not None:
        budgets = [max_columns] * 3
    squares = np.square(budgets, dtype=float)
    # Done before each round; the last fifth is for the lattice kept.
    work = 0.8 * (np.cumsum(squares) - squares) / squares.sum()
    for round_, budget in enumerate(budgets):
        allowed = 1 if screening and round_ == 0 and len(budgets) > 1 else interactions
        base = np.pi / T
        integers = choose_lattice(prior, base, allowed, max_columns=budget, num_subnets=num_subnets, pair_bonus=bonus)
        waves = Waves.on_lattice(base, integers)
        tell(float(work[round_]), f"{waves.num_columns} columns")
        factor = compress(waves.columns, z, y, weights, waves.num_columns)
        data = Compressed.of_factor(factor, y.shape[1], count)
        prior, value = maximize_evidence(data, waves, prior, iterations=_STEPS, known_noise=known_noise)
        rounded = prior.rounded()
        fit = LatticeFit(waves, rounded.log_variances(waves.subnets)[0], T, factor, value)
        gain = np.inf if best is None else value - best[0]
        if gain > 0:
            best = (value, fit, prior)
        failures = 0 if gain > _ENOUGH else failures + 1
        if failures >= _PATIENCE:
            break
        if screening and round_ == 0:
            bonus = _pair_bonus(waves, fit, data, z, y, weights, known_noise)
        T = np.where(np.isnan(half_periods), snapped_periods(rounded.lengths), half_periods)
    assert best is not None
    _, fit, prior = best
    tell(0.8, f"{fit.waves.num_columns} columns kept")
    data = Compressed.of_factor(fit.factor, y.shape[1], count)
    prior, _ = maximize_evidence(data, fit.waves, prior, iterations=_LAST_STEPS, known_noise=known_noise)
    log_s = prior.rounded().log_variances(fit.waves.subnets)[0]
    fit = rescaled(replace(fit, log_s=log_s), data, known_noise)
    # The search for the prior sees no noise below its floor; data without noise go on under the prior found.
    while num_subnets is None and _is_noise_free(fit, data, known_noise) and fit.waves.num_columns < most:
        budget = min(2 * fit.waves.num_columns, most)
        base = np.pi / fit.half_periods
        integers = choose_lattice(prior.rounded(), base, interactions, max_columns=budget, pair_bonus=bonus)
        waves = Waves.on_lattice(base, integers)
        if waves.num_columns <= fit.waves.num_columns:
            break
        factor = compress(waves.columns, z, y, weights, waves.num_columns)
        data = Compressed.of_factor(factor, y.shape[1], count)
        log_s = prior.rounded().log_variances(waves.subnets)[0]
        larger = rescaled(LatticeFit(waves, log_s, fit.half_periods, factor, 0.0), data, known_noise)
        if larger.evidence < fit.evidence + _ENOUGH:
            break
        fit = larger
    return fit


def _is_noise_free(fit: LatticeFit, data: Compressed, known_noise: np.ndarray | None) -> bool:
    return known_noise is None and bool((Posterior.of(data, fit.s).variance < 1e-9).all())


def rescaled(fit: LatticeFit, data: Compressed, known_noise: np.ndarray | None) -> LatticeFit:
    """The same with all prior variances times the factor of largest evidence."""
    factor, value = best_scale(data, fit.s, _FACTORS, known_noise, log_deviation=_LOG_DEVIATION)
    return LatticeFit(fit.waves, fit.log_s + np.log(factor), fit.half_periods, fit.factor, value)


def _pair_bonus(waves, fit, data, z, y, weights, known_noise) -> np.ndarray:
    """How much of the residual of the single-feature model the lowest waves on each pair of features explain, (m, m).

    Under no interaction the statistic is chi-squared with four degrees of freedom per output; its log over that mean is
    the bonus, doubled so that a clear signal outranks a length scale.
    """
    posterior = Posterior.of(data, fit.s, known_noise)
    step = max(1024, (1 << 22) // waves.num_columns)
    residual = np.concatenate(
        [y[i : i + step] - waves.columns(z[i : i + step]) @ posterior.mean for i in range(0, len(z), step)]
    )
    m = z.shape[1]
    integers, squares = lattice_power(z, residual * weights[:, None], waves.base, np.ones(m, int), 2)
    pairs = np.count_nonzero(integers, axis=1) == 2
    ratio = (2 * squares[pairs] / data.count / posterior.variance).mean(axis=1) / 4
    bonus = np.full((m, m), -20.0)
    first, second = np.nonzero(integers[pairs])[1].reshape(-1, 2).T
    bonus[first, second] = bonus[second, first] = 2 * np.log(np.maximum(ratio, 1e-4))
    return bonus
