"""Marginal likelihood of a linear model with Gaussian prior, from a triangular factor alone.

y_k = Phi c_k + e_k,  c_k ~ N(0, sigma_k^2 diag(s)),  e_k ~ N(0, sigma_k^2 I): s is the prior variance in units of the
noise variance. With Phi = Q R and y = Q z + (part outside the span, of energy `rest`), and A = I + R diag(s) R^T,

    2 log p(y) = -n K log(2 pi) - sum_k [n log sigma_k^2 + (z_k^T A^-1 z_k + rest_k) / sigma_k^2] - K log det A,

of size min(n, p) only; the best sigma_k^2 is (z_k^T A^-1 z_k + rest_k) / n in closed form. Rows with weight w count as w
repeats: Phi and y are scaled by sqrt(w) and n is the sum of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import svd
from scipy.linalg.blas import dsyrk  # pyright: ignore[reportAttributeAccessIssue]
from scipy.linalg.lapack import dlauum, dpotrf, dtrtrs  # pyright: ignore[reportAttributeAccessIssue]

from flm.estimators.periodogram import LombScargle
from flm.estimators.waves import Waves
from flm.numerics.least_squares import RowAccumulator, block_rows, triangular_factor

# Outputs have unit variance here. Noise is not taken below 1e-11 of it: a closer fit only amplifies rounding.
NOISE_FLOOR = 1e-22


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to fit."""

    z: np.ndarray  # scaled inputs, (n, m)
    y: np.ndarray  # outputs, (n, K)
    weights: np.ndarray  # (n,)
    known_noise: np.ndarray | None = None  # noise variances of the outputs, (K,)
    rho: float = 0.0  # correlation of the noise from tick to tick of a clock, rows in order of time
    ticks: np.ndarray | None = None  # from each row to the one before, (n,); the first is infinite
    deviations: np.ndarray | None = None  # relative deviations of the noise where rows differ, (n,)

    @cached_property
    def _carried(self) -> tuple[np.ndarray, np.ndarray]:
        """e_i = (x_i - rho^d x_(i-1)) / s, s^2 = (1 - rho^2d) / (1 - rho^2), is white: rho^d and 1 / s of every row."""
        assert self.ticks is not None
        carry = self.rho**self.ticks
        return carry, np.sqrt((1 - self.rho**2) / (1 - carry**2))

    @property
    def log_scale(self) -> float:
        """Logarithm of the determinant of the whitening."""
        correlated = 0.0 if self.rho == 0 else float(np.log(self._carried[1]).sum())
        return correlated - (0.0 if self.deviations is None else float(self.weights @ np.log(self.deviations)))

    def white(self, rows: np.ndarray, first: int) -> np.ndarray:
        """Rows (b, columns) from `first` on, combined so that their noise is white; the first of correlated rows is lost."""
        own = slice(first, first + len(rows))
        if self.deviations is not None:
            rows = rows / self.deviations[own, None]
        if self.rho == 0:
            return rows
        carry, scale = (part[own, None] for part in self._carried)
        before = np.concatenate([np.zeros((1, rows.shape[1])), rows[:-1]])
        return scale * (rows - carry * before)

    @cached_property
    def count(self) -> float:
        """The number of rows, each counted with its weight."""
        return float(self.weights.sum())

    @cached_property
    def precisions(self) -> np.ndarray:
        """Weights of the rows over the variances of their noise, (n,)."""
        return self.weights if self.deviations is None else self.weights / self.deviations**2

    @cached_property
    def scans(self) -> tuple[LombScargle, ...]:
        """The periodograms of the rows along every feature."""
        return tuple(LombScargle(along, self.precisions) for along in self.z.T)

    def factor(
        self, columns: Callable[[np.ndarray], np.ndarray], num_columns: int, earlier: np.ndarray | None = None
    ) -> np.ndarray:
        """The triangular factor of sqrt(w) [Phi(z), y], one block of rows at a time; `earlier` is the factor of other rows."""
        accumulator = RowAccumulator(num_columns + self.y.shape[1], earlier)
        step = block_rows(num_columns)
        for start in range(0, len(self.z), step):
            first = max(start - (self.rho != 0), 0)  # correlated rows need the one before
            parts = columns(self.z[first : start + step]), self.y[first : start + step]
            white = [self.white(part, first)[start - first :] for part in parts]
            accumulator.add(*white, scale=np.sqrt(self.weights[start : start + step]))
        return accumulator.factor

    def compressed(self, waves: Waves) -> Compressed:
        """The rows compressed to what a fit by these waves needs."""
        factor = np.asfortranarray(self.factor(waves.blocks(), waves.num_columns))  # as LAPACK wants it
        return Compressed(factor, self.y.shape[1], self.count, self.known_noise, self.log_scale)


@dataclass(frozen=True, eq=False)
class Compressed:
    """The rows compressed to what a least-squares fit needs."""

    factor: np.ndarray  # the triangular factor of sqrt(w) [Phi, y]
    num_outputs: int  # K
    count: float  # n
    known_noise: np.ndarray | None = None  # noise variances of the outputs, (K,); None: the best ones
    log_scale: float = 0.0  # logarithm of the determinant of the whitening of the rows

    @property
    def num_columns(self) -> int:
        """The number of columns, p."""
        return self.factor.shape[1] - self.num_outputs

    @property
    def R(self) -> np.ndarray:
        """The triangular factor of the columns, (r, p), r = min(n, p)."""
        return self.factor[: self.num_columns, : self.num_columns]

    @property
    def z(self) -> np.ndarray:
        """Q^T y, (r, K)."""
        return self.factor[: self.num_columns, self.num_columns :]

    @cached_property
    def rest(self) -> np.ndarray:
        """The energy of the outputs outside the span of the columns, (K,)."""
        return (self.factor[self.num_columns :, self.num_columns :] ** 2).sum(axis=0)

    def noise_variance(self, energy: np.ndarray) -> np.ndarray:
        """sigma_k^2: the best one given the misfit energy, or the known one."""
        return np.maximum(energy / self.count, NOISE_FLOOR) if self.known_noise is None else self.known_noise

    def log_density(self, energy: np.ndarray, log_det: float | np.ndarray) -> np.ndarray:
        """log p(y), see the top of this file, from misfit energies z_k^T A^-1 z_k + rest_k, (..., K), and log det A, (...)."""
        variance = self.noise_variance(energy)
        fit = (self.count * np.log(2 * np.pi * variance) + energy / variance).sum(axis=-1)
        return self.num_outputs * (self.log_scale - 0.5 * log_det) - 0.5 * fit


def log_evidence(
    data: Compressed, s: np.ndarray, *, floor: float = NOISE_FLOOR, jitter: float = 1e-15
) -> tuple[float, np.ndarray]:
    """log p(y) and its gradient with respect to log s; `floor` is a variance added to the noise: a closer fit gains nothing."""
    both = data.factor[: data.num_columns]  # [R, z], R with a triangle first
    r, scaled = len(both), both[:, : len(s)] * np.sqrt(s)
    A = dlauum(scaled[:, :r])[0]  # the upper half of R diag(s) R^T
    if r < len(s):
        A = dsyrk(1.0, scaled[:, r:], beta=1.0, c=A, overwrite_c=1)
    # Beyond a ratio of 1e15 the identity is below rounding; the jitter keeps the factorization possible, or more of it does.
    np.fill_diagonal(A, A.diagonal() + 1.0 + jitter * A.diagonal().max(initial=0.0))
    U, failed = dpotrf(A, clean=0, overwrite_a=1)  # A = U^T U
    if failed and jitter < 1e-9:
        return log_evidence(data, s, floor=floor, jitter=100 * jitter)
    if failed:
        raise np.linalg.LinAlgError(f"A must be positive definite; its minor of order {failed} is not")
    half = dtrtrs(U, both, trans=1)[0]
    UR, Uz = half[:, : len(s)], half[:, len(s) :]
    energy = (Uz**2).sum(axis=0) + data.rest + data.count * floor
    variance = data.noise_variance(energy)
    fit = UR.T @ Uz  # R^T A^-1 z, (p, K)
    gradient = 0.5 * s * ((fit**2 / variance).sum(axis=1) - data.num_outputs * np.einsum("ij,ij->j", UR, UR))
    return float(data.log_density(energy, 2 * np.log(U.diagonal()).sum())), gradient


def best_scale(
    data: Compressed, s: np.ndarray, factors: np.ndarray, *, log_deviation: float = np.inf
) -> tuple[float, float]:
    """The factor on s of largest evidence among `factors`, and that evidence.

    A Gaussian prior on the factor's logarithm, of deviation `log_deviation`, decides where the data do not. One singular
    value decomposition of R diag(s)^1/2 serves all factors, and holds to ratios of 1e28, where forming A would stop at
    1e15: noise-free data need that.
    """
    U, sigma, _ = svd(data.R * np.sqrt(s), full_matrices=False, check_finite=False, lapack_driver="gesdd")
    z2 = (U.T @ data.z) ** 2  # (r, K)
    gain = 1.0 + np.outer(factors, sigma**2)  # (factors, r)
    energy = (1 / gain) @ z2 + data.rest  # U is square: r <= p
    prior = -0.5 * (np.log(factors) / log_deviation) ** 2
    values = data.log_density(energy, np.log(gain).sum(axis=1)) + prior
    best = int(np.argmax(values))
    return float(factors[best]), float(values[best])


@dataclass(frozen=True, eq=False)
class Posterior:
    """Gaussian posterior of the coefficients: mean (p, K), covariance variance_k (T^T T)^-1, T upper triangular."""

    mean: np.ndarray
    factor: np.ndarray
    variance: np.ndarray  # (K,) noise

    @classmethod
    def of(cls, data: Compressed, s: np.ndarray) -> Posterior:
        """The posterior from the QR of [R z; diag(s)^-1/2 0], which keeps the digits that normal equations lose."""
        p, K = len(s), data.num_outputs
        stacked = np.zeros((len(data.R) + p, p + K), order="F")
        stacked[:-p] = data.factor[:p]
        stacked[-p:, :p] = np.diag(1 / np.sqrt(s))
        T = triangular_factor(stacked, overwrite=True)
        factor = T[:p, :p]
        mean = dtrtrs(factor, T[:p, p:])[0]
        energy = (T[p:, p:] ** 2).sum(axis=0) + data.rest
        return cls(mean, factor, data.noise_variance(energy))
