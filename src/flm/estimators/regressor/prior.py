"""A spectral prior with relevance per feature, and the lattice points that matter under it.

Sub-network k on the lattice, frequencies omega_j = (pi / T_j) k_j on scaled inputs, q nonzero components:

    log s_k = rho + sum_{j: k_j != 0} [a_j or b_j - (nu + 1/2) log(1 + (l_j omega_j)^2 / (2 nu))]

a_j is the relevance of feature j alone (q = 1), b_j its relevance in interactions (q > 1), l_j its length scale, nu the
smoothness: the spectral density of a Matern kernel per axis (nu -> infinity: squared exponential). A sum over such waves
is a sparse-spectrum Gaussian process. All parameters are logarithms, found by marginal likelihood with a weak prior that
keeps the directions which the data leave free at a definite place.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from flm.estimators.evidence import Compressed, log_evidence
from flm.estimators.waves import Waves

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
