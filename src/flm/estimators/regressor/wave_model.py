"""Waves under a Gaussian prior, with the compressed rows that they need: what every search for frequencies returns.

Inputs and outputs are scaled here; `wave_fit` converts to the units of the data.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from flm.estimators.evidence import Compressed, Posterior, Sample, best_scale
from flm.estimators.regressor.noise import Noise
from flm.estimators.waves import Waves

# Factors on the prior variance, under a Gaussian prior on their logarithm: noise-free data need ratios up to 1e26.
_FACTORS, _LOG_DEVIATION = np.exp(np.arange(-8.0, 40.0 + 1 / 16, 1 / 4)), 4.0
_TEMPER = 8.0  # evidence is known to several nats, being the best over a dozen hyperparameters: this far behind counts a third


@dataclass(frozen=True, eq=False)
class WaveModel:
    """y = Phi(z) c + noise with a Gaussian distribution of c, and of the frequencies where they were fitted."""

    kind: str  # "lines", "lattice", "both" or "given"
    waves: Waves  # the columns
    log_s: np.ndarray  # prior variance per sub-network in units of the noise variance, (N,)
    reach: np.ndarray  # |z_j| beyond which the lattice only repeats itself: T_j, (m,); infinite for lines
    data: Compressed
    is_learned: bool = False  # whether a common factor on the prior is found from the rows so far
    evidence: float = np.nan  # log marginal likelihood of the rows that fixed the frequencies
    noise: Noise = field(default_factory=Noise)
    joint: np.ndarray | None = None  # covariance of coefficients and frequencies, where these were fitted
    # Of bands: center, its error, amplitude in units of the noise, its relative error, feature (older files: none): (B, 5)
    bands: np.ndarray | None = None
    rivals: tuple[WaveModel, ...] = ()  # other models that explain the rows about as well; one feature

    @property
    def s(self) -> np.ndarray:
        """Prior variance of every column, in units of the noise variance."""
        return np.exp(self.log_s)[self.waves.column_subnet]

    def rescaled(self) -> WaveModel:
        """The model with all prior variances times the factor of largest evidence."""
        factor, value = best_scale(self.data, self.s, _FACTORS, log_deviation=_LOG_DEVIATION)
        return replace(self, log_s=self.log_s + np.log(factor), evidence=value, is_learned=False)

    def with_rows(self, data: Compressed) -> WaveModel:
        """The model after more rows. Its frequencies are then fixed: their errors from the first rows no longer hold."""
        return replace(self, data=data, joint=None, rivals=())

    @cached_property
    def _settled(self) -> WaveModel:
        return self.rescaled() if self.is_learned else self

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior of the coefficients, computed on first use, so that a stream need not wait for it after every chunk."""
        found, data = Posterior.of(self.data, self._settled.s), self.data
        if data.known_noise is None and self.kind == "lines":
            freedom = max(data.count - data.num_columns - self.waves.subnets.size / data.num_outputs, 1.0)
            found = replace(found, variance=found.variance * data.count / freedom)
        return found

    @property
    def is_noise_free(self) -> bool:
        """Whether the posterior leaves no noise to speak of."""
        return self.data.known_noise is None and bool((self.posterior.variance < 1e-9).all())

    def values(self, z: np.ndarray) -> np.ndarray:
        """The fitted function, (P, K)."""
        return self.waves.values(z, self.posterior.mean)

    def _leverage(self, z: np.ndarray) -> np.ndarray:
        """Variances of the curve at the fitted frequencies, in units of the noise variance, (P,)."""
        solved = solve_triangular(self.posterior.factor, self.waves.columns(z).T, trans=1, check_finite=False)
        return (solved**2).sum(axis=0)

    def left_out(self, sample: Sample) -> np.ndarray:
        """The difference of each row from its prediction by a fit to all others at the same frequencies, (n, K)."""
        kept = 1 - sample.precisions * self._leverage(sample.z)
        return (sample.y - self.values(sample.z)) / np.maximum(kept, 1e-6)[:, None]

    @property
    def noise_variance(self) -> np.ndarray:
        """The noise variance of one observation; with correlated noise `posterior.variance` is that of the innovation."""
        return self.posterior.variance * self.noise.spread**2

    def variances(self, z: np.ndarray) -> np.ndarray:
        """Variances of the curve and of the noise together, (P, K)."""
        fitted = self.values(z) if self.noise.slopes is not None else np.zeros((len(z), 1))
        own = self._of_curve(z) + self.noise_variance * self.noise.growth(z, fitted)[:, None] ** 2
        beyond = (np.abs(z) > 1 + 1e-9).any(axis=1)
        if not self.rivals or not beyond.any():
            return own
        # Models that agree on the record may differ beyond it: the mean square of their values about this model's mean.
        z, total, weights = z[beyond], own[beyond], 1.0
        mean = self.values(z)
        for rival in self.rivals:
            weight = np.exp((rival.evidence - self.evidence) / _TEMPER)
            apart = rival.values(z) - mean
            total, weights = total + weight * np.minimum(rival.variances(z) + apart**2, z**2), weights + weight
        own[beyond] = np.maximum(own[beyond], total / weights)
        return own

    def _of_curve(self, z: np.ndarray) -> np.ndarray:
        waves, joint, posterior = self.waves, self.joint, self.posterior
        p, K = posterior.mean.shape
        if joint is None:
            variances = self._leverage(z)[:, None] * posterior.variance
        else:
            columns, slopes = waves.columns_and_slopes(z, posterior.mean)
            variances = np.empty((len(z), K))
            for k in range(K):
                live = np.r_[k * p : (k + 1) * p, K * p : len(joint)]
                gradient = np.concatenate([columns, slopes[:, k]], axis=1)
                variances[:, k] = ((gradient @ joint[np.ix_(live, live)]) * gradient).sum(axis=1)
        # Lines and a trend continue; nothing is known of the continuum beyond its period: at least the spread of the data.
        continuum = self._settled.s[waves.column_subnet < len(waves.subnets) - waves.num_lines].sum()
        beyond = (np.abs(z) > self.reach).any(axis=1)
        variances[beyond] = np.maximum(variances[beyond], np.maximum(continuum * posterior.variance, 1.0))
        return np.maximum(variances, 0.0)
