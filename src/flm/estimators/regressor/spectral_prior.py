"""The spectral prior of a lattice: a Matern density per axis, and bands along single axes: lines of some width.

Sub-network k on the lattice, frequencies omega_j = (pi / T_j) k_j on scaled inputs, q nonzero components:

    log s_k = rho + sum_{j: k_j != 0} [a_j or b_j - (nu + 1/2) log(1 + (l_j omega_j)^2 / (2 nu))]

a_j is the relevance of feature j alone (q = 1), b_j its relevance in interactions (q > 1), l_j its length scale, nu the
smoothness: the spectral density of a Matern kernel per axis (nu -> infinity: squared exponential). A sum over such waves
is a sparse-spectrum Gaussian process. A band of height h, center c and width w adds exp(rho + h) / (1 + ((omega_j - c) / w)^2)^2
to s of the waves along its feature j: a quasi-periodic process, whose phase wanders. If it is not a sine, its second harmonic
is a band at 2 c that is four times as wide, as phases wander twice as far, of height h plus its overtone. All parameters but the
centers are logarithms, found by marginal likelihood with a weak prior that fixes the directions which the data leave free.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from flm.estimators.evidence import Compressed, log_evidence
from flm.estimators.waves import Waves
from flm.series.lattices import by_size

# Logarithms: (mean, standard deviation, lower, upper) of the weak priors. Inputs have half-width 1, outputs variance 1.
_RHO = (3.0, 4.0, -14.0, 28.0)
_NU = (1.0, 1.0, -0.7, 3.4)
_LENGTH = (-0.3, 1.5, -5.5, 2.5)
_RELEVANCE = (0.0, 3.0, -16.0, 7.0)
_INTERACTION = (-2.0, 3.0, -18.0, 5.0)
# For a band: its height over rho, its center and the logarithm of its width, both in cells of pi on scaled inputs.
_HEIGHT = (0.0, 3.0, -12.0, 14.0)
_WIDTH = (0.5, 1.0, -1.2, 3.5)
_OVERTONE = (-2.0, 2.0, -12.0, 2.0)  # logarithm of the height of the second harmonic over that of the band
_CELL = np.pi
_MOST_CELLS = 12.0  # to both sides of a band's center, beside waves of several features
TREND = 2.0  # logarithm of the variance of lines and of the trend's columns over that of the constant
# While length scales are sought, noise is not taken below 1e-5 of the outputs: interpolating more closely gains nothing, and
# the evidence keeps six digits. The final scan over the ratio of signal to noise has no such floor.
_NOISE_FLOOR = 1e-10
# Hyperparameters are rounded to this step: data do not fix them more closely, and a fit then does not depend on rounding.
STEP = 1 / 16
_SAME = 1e-6  # a step of the search that gains fewer nats than this is the last; beyond lies rounding


@dataclass(frozen=True, eq=False)
class SpectralPrior:
    """The parameters of the prior, for m features."""

    theta: np.ndarray  # rho, nu, l (m), a (m), b (m), then the parameters of every band
    num_features: int
    harmonics: tuple[int, ...] = (1,)  # of the bands: (1,) or (1, 2)
    axes: tuple[int, ...] = ()  # the feature of every band

    @classmethod
    def start(cls, m: int) -> SpectralPrior:
        """The mean of the weak prior."""
        blank = cls(np.zeros(2 + 3 * m), m)
        return replace(blank, theta=_spread(blank)[0])

    def _part(self, i: int) -> np.ndarray:
        return self.theta[2 + i * self.num_features : 2 + (i + 1) * self.num_features]

    @property
    def lengths(self) -> np.ndarray:
        """Length scales in half-widths of the data, (m,)."""
        return np.exp(self._part(0))

    @property
    def bands(self) -> np.ndarray:
        """Height, center, width and, if there is a second harmonic, overtone of every band, (B, 3 or 4)."""
        return self.theta[2 + 3 * self.num_features :].reshape(-1, 2 + len(self.harmonics))

    def with_band(self, frequency: float, axis: int = 0) -> SpectralPrior:
        """The prior with one more band, at a frequency on scaled inputs, along a feature."""
        overtone = [_OVERTONE[0]] * (len(self.harmonics) - 1)
        theta = np.r_[self.theta, 0.0, frequency / _CELL, _WIDTH[0], overtone]
        return replace(self, theta=theta, axes=(*self.axes, axis))

    def with_length(self, log_length: float, axis: int = 0) -> SpectralPrior:
        """The prior with another length scale of one feature, given by its logarithm."""
        theta = self.theta.copy()
        theta[2 + axis] = log_length
        return replace(self, theta=theta)

    @property
    def centers(self) -> np.ndarray:
        """The centers of the bands as frequencies on scaled inputs, (B,)."""
        return _CELL * self.bands[:, 1]

    def rounded(self) -> SpectralPrior:
        """The nearest parameters on the grid of hyperparameters."""
        return replace(self, theta=np.round(self.theta / STEP) * STEP)

    def log_variances(self, omega: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log s of sub-networks with frequencies (N, m), and its Jacobian with respect to theta (N, size of theta)."""
        m = self.num_features
        nu = np.exp(self.theta[1])
        on = omega != 0
        single = on.sum(axis=1) == 1
        x2 = (self.lengths * omega) ** 2
        logs = np.log1p(x2 / (2 * nu))
        relevance = np.where(single[:, None], self._part(1), self._part(2)) * on
        value = np.maximum(self.theta[0] + (relevance - (nu + 0.5) * logs).sum(axis=1), -60.0)
        ratio = x2 / (2 * nu + x2)
        by_nu = (-nu * logs + (nu + 0.5) * ratio).sum(axis=1)
        of_bands = np.zeros((len(omega), self.bands.size))
        relevances = on * single[:, None], on * ~single[:, None]
        jacobian = np.column_stack([np.ones(len(omega)), by_nu, -2 * (nu + 0.5) * ratio, *relevances, of_bands])
        for (b, (height, center, log_width, *overtone)), k in itertools.product(enumerate(self.bands), self.harmonics):
            inverse = np.exp(-log_width) / k**2
            axis = self.axes[b]
            u = (np.abs(omega[:, axis]) / _CELL - k * center) * inverse
            band = np.maximum(self.theta[0] + height + (k - 1) * sum(overtone) - 2 * np.log1p(u**2), -60.0)
            band[np.delete(on, axis, axis=1).any(axis=1)] = -np.inf
            total = np.logaddexp(value, band)
            share = np.exp(band - total)
            jacobian *= (1 - share)[:, None]
            slope = share * 4 * u / (1 + u**2)
            jacobian[:, 0] += share
            own = [share, slope * k * inverse, slope * u, *([(k - 1) * share] * len(overtone))]
            jacobian[:, 2 + 3 * m + len(own) * b :][:, : len(own)] += np.column_stack(own)
            value = total
        return value, jacobian

    def of_waves(self, waves: Waves) -> tuple[np.ndarray, np.ndarray]:
        """log s of the sub-networks, including lines, and of the columns of the trend, with its Jacobian."""
        value, jacobian = self.log_variances(waves.subnets[: len(waves.subnets) - waves.num_lines])
        trend = np.zeros((waves.num_lines + waves.num_powers, len(self.theta)))
        trend[:, 0] = 1.0
        return np.r_[value, np.full(len(trend), self.theta[0] + TREND)], np.concatenate([jacobian, trend])

    def band_amplitudes(self, waves: Waves) -> np.ndarray:
        """Amplitudes of waves as strong as the bands, in units of the noise: the root of twice their variance, (B,)."""
        whole = self.of_waves(waves)[0][waves.group]
        amplitudes = []
        for b in range(len(self.bands)):
            kept = np.delete(self.bands, b, axis=0).ravel()
            axes = self.axes[:b] + self.axes[b + 1 :]
            without = replace(self, theta=np.r_[self.theta[: 2 + 3 * self.num_features], kept], axes=axes)
            rest = without.of_waves(waves)[0][waves.group]
            amplitudes.append(np.sqrt(2 * max(float((np.exp(whole) - np.exp(rest)).sum()), 0.0)))
        return np.array(amplitudes)


def _spread(prior: SpectralPrior) -> np.ndarray:
    """Rows: mean, standard deviation, lower and upper bound of every parameter."""
    m, overtone = prior.num_features, [_OVERTONE] * (len(prior.harmonics) - 1)
    bands = [_HEIGHT, (0.0, np.inf, 1.5, np.inf), _WIDTH, *overtone] * len(prior.bands)
    rows = [_RHO, _NU, *[_LENGTH] * m, *[_RELEVANCE] * m, *[_INTERACTION] * m, *bands]
    return np.array(rows).T


def maximize_evidence(
    data: Compressed, waves: Waves, start: SpectralPrior, *, iterations: int = 100
) -> tuple[SpectralPrior, float]:
    """The prior of largest (penalized) evidence, and that value."""
    _, _, lower, upper = _spread(start)
    least = _SAME / max(data.count * data.num_outputs, 1.0)  # of the evidence, which is of the size of n K
    found = minimize(
        lambda theta: _objective(replace(start, theta=theta), data, waves),
        np.clip(start.theta, lower, upper),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(lower, upper, strict=True)),
        options={"maxiter": iterations, "gtol": 1e-5, "ftol": least, "maxcor": 20},
    )
    return replace(start, theta=found.x), -float(found.fun)


def _objective(prior: SpectralPrior, data: Compressed, waves: Waves) -> tuple[float, np.ndarray]:
    """The objective that the search lowers, minus the penalized evidence, and its gradient."""
    subnet = waves.column_subnet
    mean, deviation, _, _ = _spread(prior)
    log_s, jacobian = prior.of_waves(waves)
    value, gradient = log_evidence(data, np.exp(log_s)[subnet], floor=_NOISE_FLOOR)
    per_subnet = np.bincount(subnet, gradient, len(log_s))
    z = (prior.theta - mean) / deviation
    return -(value - 0.5 * z @ z), -(jacobian.T @ per_subnet - z / deviation)


def covariance(prior: SpectralPrior, data: Compressed, waves: Waves) -> np.ndarray:
    """The covariance of the parameters at a maximum of the evidence: its inverse curvature, by differences of the gradient."""
    step = 2 * STEP
    gradient = lambda theta: _objective(replace(prior, theta=theta), data, waves)[1]
    ends = [(gradient(prior.theta + d), gradient(prior.theta - d)) for d in step * np.eye(len(prior.theta))]
    H = np.array([(up - down) / (2 * step) for up, down in ends])
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    return (vectors / np.maximum(values, 1e-3)) @ vectors.T


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
    is added to the log variance of points on a pair of features: the evidence for it in the residual.
    """
    m = prior.num_features
    if m == 1 and num_subnets is None and max_columns is not None:
        # Bands may have high frequencies, to what 64 times the columns reach; beyond the last band the variance falls.
        last = int(max(prior.harmonics) * prior.centers.max(initial=0.0) / base[0])
        integers = np.arange(1, min(last, 63 * max_columns) + max_columns)[:, None]
        variances = prior.log_variances(base * integers)[0]
        kept = np.sort(np.argsort(-variances, kind="stable")[: (max_columns - 1) // 2])
        return np.concatenate([np.zeros((1, 1)), integers[kept]]).astype(float)
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

    banded = [] if max_columns is None else _banded(prior, base)[: max_columns // 4]
    chosen, columns = [(0,) * m, *banded], 1 + 2 * len(banded)
    # Within one set of active features the variance falls with every component.
    sets = [active for q in range(1, interactions + 1) for active in itertools.combinations(range(m), q)]
    roots = [(tuple(int(j in active) for j in range(m)), active) for active in sets]
    for k in by_size(lambda k: -size(k), roots):
        if k in banded:
            continue
        columns += 2 ** np.count_nonzero(k)
        if len(chosen) == num_subnets or (max_columns is not None and columns > max_columns):
            break
        chosen.append(k)
    return np.array(chosen, float)


def _banded(prior: SpectralPrior, base: np.ndarray) -> list[tuple[int, ...]]:
    """The lattice points of the bands, to four widths from their centers where the density has fallen to 1 / 300."""
    found: dict[tuple[int, ...], None] = {}
    for (_, center, log_width, *_), axis in zip(prior.bands, prior.axes, strict=True):
        half = min(4 * float(np.exp(log_width)), _MOST_CELLS)
        first, last = (int(np.ceil((center + side * half) * _CELL / base[axis])) for side in (-1, 1))
        found |= {tuple(k * (j == axis) for j in range(prior.num_features)): None for k in range(max(first, 1), last)}
    return list(found)
