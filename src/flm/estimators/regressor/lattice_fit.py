"""Growing a lattice of frequencies under a spectral prior until the evidence stops rising.

Sub-network k on the lattice, frequencies omega_j = (pi / T_j) k_j on scaled inputs, q nonzero components:

    log s_k = rho + sum_{j: k_j != 0} [a_j or b_j - (nu + 1/2) log(1 + (l_j omega_j)^2 / (2 nu))]

a_j is the relevance of feature j alone (q = 1), b_j its relevance in interactions (q > 1), l_j its length scale, nu the
smoothness: the spectral density of a Matern kernel per axis (nu -> infinity: squared exponential). A sum over such waves
is a sparse-spectrum Gaussian process. All parameters are logarithms, found by marginal likelihood with a weak prior that
keeps the directions which the data leave free at a definite place.

Each round takes the lattice points that matter most under the current prior, compresses the data to one triangular
factor, and moves the prior to larger evidence; twice as many columns in the next. Features of length scale l get the
period T = 1 + 1.5 l half-widths, so that the two ends of the data are correlated through the period no more than
through the data: a Fourier extension, without Gibbs phenomenon.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from flm.estimators.evidence import Compressed, Posterior, Sample, best_scale, log_evidence
from flm.estimators.periodogram import lattice_power
from flm.estimators.waves import Waves
from flm.results.progress import Listener, Progress, silent

# Logarithms: (mean, standard deviation, lower, upper) of the weak priors. Inputs have half-width 1, outputs variance 1.
_RHO = (3.0, 4.0, -14.0, 28.0)
_NU = (1.0, 1.0, -0.7, 3.4)
_LENGTH = (-0.3, 1.5, -5.5, 2.5)
_RELEVANCE = (0.0, 3.0, -16.0, 7.0)
_INTERACTION = (-2.0, 3.0, -18.0, 5.0)
# While length scales are sought, noise is not taken below 1e-5 of the outputs: it gains nothing to interpolate closer, and
# the evidence keeps six digits. The final scan over the ratio of signal to noise has no such floor.
_NOISE_FLOOR = 1e-10
# Hyperparameters are rounded to this step: data do not fix them closer, and a fit does not then depend on rounding.
STEP = 1 / 16


@dataclass(frozen=True, eq=False)
class SpectralPrior:
    """The parameters of the prior, for m features."""

    theta: np.ndarray  # rho, nu, l (m), a (m), b (m)
    num_features: int

    @classmethod
    def start(cls, m: int) -> SpectralPrior:
        """The mean of the weak prior."""
        return cls(_spread(m)[0].copy(), m)

    def _part(self, i: int) -> np.ndarray:
        return self.theta[2 + i * self.num_features : 2 + (i + 1) * self.num_features]

    @property
    def lengths(self) -> np.ndarray:
        """Length scales in half-widths of the data, (m,)."""
        return np.exp(self._part(0))

    def rounded(self) -> SpectralPrior:
        """The nearest parameters on the grid of hyperparameters."""
        return SpectralPrior(np.round(self.theta / STEP) * STEP, self.num_features)

    def log_variances(self, omega: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log s of sub-networks with frequencies (N, m), and its Jacobian by theta (N, size of theta)."""
        m = self.num_features
        nu = np.exp(self.theta[1])
        on = omega != 0
        single = on.sum(axis=1) == 1
        x2 = (self.lengths * omega) ** 2
        logs = np.log1p(x2 / (2 * nu))
        relevance = np.where(single[:, None], self._part(1), self._part(2)) * on
        value = np.maximum(self.theta[0] + (relevance - (nu + 0.5) * logs).sum(axis=1), -60.0)
        jacobian = np.zeros((len(omega), len(self.theta)))
        jacobian[:, 0] = 1.0
        ratio = x2 / (2 * nu + x2)
        jacobian[:, 1] = (-nu * logs + (nu + 0.5) * ratio).sum(axis=1)
        jacobian[:, 2 : 2 + m] = -2 * (nu + 0.5) * ratio
        jacobian[:, 2 + m : 2 + 2 * m] = on * single[:, None]
        jacobian[:, 2 + 2 * m :] = on * ~single[:, None]
        return value, jacobian


def _spread(m: int) -> np.ndarray:
    """Rows: mean, standard deviation, lower, upper of every parameter."""
    rows = [_RHO, _NU, *[_LENGTH] * m, *[_RELEVANCE] * m, *[_INTERACTION] * m]
    return np.array(rows).T


def maximize_evidence(
    data: Compressed, waves: Waves, start: SpectralPrior, *, iterations: int = 100
) -> tuple[SpectralPrior, float]:
    """The prior of largest (penalized) evidence, and that value."""
    mean, deviation, lower, upper = _spread(start.num_features)
    subnet = waves.column_subnet

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        log_s, jacobian = SpectralPrior(theta, start.num_features).log_variances(waves.subnets)
        value, gradient = log_evidence(data, np.exp(log_s)[subnet], floor=_NOISE_FLOOR)
        per_subnet = np.bincount(subnet, gradient, len(log_s))
        z = (theta - mean) / deviation
        return -(value - 0.5 * z @ z), -(jacobian.T @ per_subnet - z / deviation)

    found = minimize(
        objective,
        np.clip(start.theta, lower, upper),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(lower, upper, strict=True)),
        options={"maxiter": iterations, "gtol": 1e-5, "ftol": 1e-13, "maxcor": 20},
    )
    return SpectralPrior(found.x, start.num_features), -float(found.fun)


def choose_lattice(
    prior: SpectralPrior,
    base: np.ndarray,
    interactions: int,
    *,
    max_columns: int | None = None,
    num_subnets: int | None = None,
    pair_bonus: np.ndarray | None = None,
) -> np.ndarray:
    """The lattice points (N, m) of largest prior variance, best first, within a budget of columns or of sub-networks.

    One lattice step is `base` = pi / T_j, and a point with q nonzero components costs 2^q columns. `pair_bonus` (m, m)
    is added to the log variance of points on a pair of features: what the residual says.
    """
    m = prior.num_features
    rho, nu = float(prior.theta[0]), float(np.exp(prior.theta[1]))
    unit = (prior.lengths * base).tolist()  # l_j pi / T_j
    alone, joint = prior._part(1).tolist(), prior._part(2).tolist()

    def size(k: tuple[int, ...]) -> float:
        nonzero = [j for j in range(m) if k[j]]
        relevance = alone if len(nonzero) == 1 else joint
        value = rho + sum(relevance[j] - (nu + 0.5) * math.log1p((unit[j] * k[j]) ** 2 / (2 * nu)) for j in nonzero)
        if pair_bonus is not None and len(nonzero) > 1:
            value += max(pair_bonus[i, j] for i, j in itertools.combinations(nonzero, 2))
        return value

    chosen: list[tuple[int, ...]] = [(0,) * m]
    columns = 1
    # Within one set of active features the variance falls with every component: a best-first search per set, merged.
    heap: list[tuple[float, tuple[int, ...]]] = []
    for q in range(1, interactions + 1):
        for active in itertools.combinations(range(m), q):
            k = tuple(1 if j in active else 0 for j in range(m))
            heap.append((-size(k), k))
    heapq.heapify(heap)
    while heap:
        _, k = heapq.heappop(heap)
        cost = 2 ** sum(1 for i in k if i)
        if num_subnets is not None and len(chosen) >= num_subnets:
            break
        if max_columns is not None and columns + cost > max_columns:
            break
        chosen.append(k)
        columns += cost
        # Each point has one parent: one less in its last component above one.
        last = max((j for j in range(m) if k[j] > 1), default=0)
        for j in range(last, m):
            if k[j]:
                child = (*k[:j], k[j] + 1, *k[j + 1 :])
                heapq.heappush(heap, (-size(child), child))
    return np.array(chosen, float)


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
