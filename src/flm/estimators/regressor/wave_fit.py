"""A fitted sum of waves in the units of the data: values, error bars, spectrum, series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from flm.estimators.evidence import Compressed, Posterior
from flm.estimators.regressor.design import Design
from flm.estimators.regressor.lattice_fit import LatticeFit
from flm.estimators.regressor.spectrum import Spectrum
from flm.estimators.waves import BLOCK_NUMBERS
from flm.series.tables import phasors

if TYPE_CHECKING:
    from flm.series import ExponentialSeries, PhaseSeries


@dataclass(frozen=True, eq=False)
class WaveFit:
    """y = offset + gain * Phi(z) c + noise with a Gaussian distribution of c, and of the frequencies where they were fitted."""

    design: Design  # the scaling, Phi, and the prior
    coefficients: np.ndarray  # mean of c, (p, K)
    variance: np.ndarray  # of the noise in units of gain^2, (K,)
    factor: np.ndarray  # T with covariance of c_k = variance_k (T^T T)^-1; not used where `design.joint` says it
    prior_variance: float  # of a value, in units of the noise variance: what is known beyond the reach

    @classmethod
    def of(cls, design: Design, data: Compressed) -> WaveFit:
        """The posterior of the amplitudes given all rows so far."""
        waves, log_s = design.waves, design.log_s
        if design.is_learned:
            log_s = LatticeFit(waves, log_s, design.reach, data).rescaled().log_s
        s = np.exp(log_s)[waves.column_subnet]
        posterior = Posterior.of(data, s)
        variance = posterior.variance
        if data.known_noise is None and design.kind == "lines":
            freedom = max(data.count - len(s) - waves.subnets.size / data.num_outputs, 1.0)
            variance = variance * data.count / freedom
        return cls(design, posterior.mean, variance, posterior.factor, float(s.sum()))

    def mean(self, X: np.ndarray) -> np.ndarray:
        """Values (P, K)."""
        design = self.design
        return design.offset + design.gain * design.waves.values(design.scale(X), self.coefficients)

    def std(self, X: np.ndarray) -> np.ndarray:
        """Standard deviations (P, K) of a new observation."""
        step = max(1, BLOCK_NUMBERS // self.design.waves.num_columns)
        parts = [self._variances(self.design.scale(X[i : i + step])) for i in range(0, len(X), step)]
        spread = np.concatenate([np.zeros((0, len(self.variance))), *parts])
        return self.design.gain * np.sqrt(spread + self.variance)

    def _variances(self, z: np.ndarray) -> np.ndarray:
        waves, joint = self.design.waves, self.design.joint
        p, K = self.coefficients.shape
        if joint is None:
            solved = solve_triangular(self.factor, waves.columns(z).T, trans=1, check_finite=False)
            variances = (solved**2).sum(axis=0)[:, None] * self.variance
        else:
            columns, slopes = waves.columns_and_slopes(z, self.coefficients)
            variances = np.empty((len(z), K))
            for k in range(K):
                live = np.r_[k * p : (k + 1) * p, K * p : len(joint)]
                gradient = np.concatenate([columns, slopes[:, k]], axis=1)
                variances[:, k] = ((gradient @ joint[np.ix_(live, live)]) * gradient).sum(axis=1)
        beyond = (np.abs(z) > self.design.reach).any(axis=1)
        variances[beyond] = np.maximum(variances[beyond], self.prior_variance * self.variance)
        return np.maximum(variances, 0.0)

    @property
    def frequencies(self) -> np.ndarray:
        """Frequency vectors of the sub-networks in radians per unit of x, (N, m)."""
        return self.design.waves.subnets / self.design.scale.halfwidth

    def _linear(self) -> tuple[np.ndarray, np.ndarray]:
        """(C, S) of every wave about the center of the data, (M, K), the outputs' offset in the zero wave."""
        C, S = self.design.waves.split(self.coefficients * self.design.gain)
        zero = np.flatnonzero(~self.design.waves.has_sine)[:1]
        C[zero] += self.design.offset
        return C, S

    def spectrum(self, feature_names: tuple[str, ...]) -> Spectrum:
        """The lines with standard errors, the constant left out."""
        waves, center = self.design.waves, self.design.scale.center
        rows = np.flatnonzero(waves.has_sine)
        k = waves.vectors[rows] / self.design.scale.halfwidth
        C, S = (v[rows] for v in self._linear())
        # About x = 0: theta' = theta + k.center, that is (C + iS) exp(i k.center).
        turn = phasors(k @ center)[:, None]
        turned = turn * (C + 1j * S)
        C0, S0 = turned.real[..., None], turned.imag[..., None]
        L, K, m = len(rows), C.shape[1], k.shape[1]
        J = np.zeros((L, K, 2 + m, 2 + m))
        J[..., 0, 0] = J[..., 1, 1] = np.real(turn)
        J[..., 0, 1], J[..., 1, 0] = -np.imag(turn), np.imag(turn)
        J[..., 0, 2:], J[..., 1, 2:] = -S0 * center, C0 * center
        J[..., 2:, 2:] = np.eye(m)
        covariances = J @ self._line_covariances(rows) @ np.swapaxes(J, -1, -2)
        return Spectrum.of(k, turned, covariances, feature_names)

    def _line_covariances(self, rows: np.ndarray) -> np.ndarray:
        """Covariance of (C, S, k) of these waves and all outputs, (L, K, 2 + m, 2 + m), about the center, units of the data."""
        design, waves = self.design, self.design.waves
        (M, m), (p, K), L = waves.vectors.shape, self.coefficients.shape, len(rows)
        columns = np.stack([rows, np.arange(M, p)], axis=1)  # cosine and sine of each line
        out = np.zeros((L, K, 2 + m, 2 + m))
        if design.joint is None:
            inverse = solve_triangular(self.factor, np.eye(p), check_finite=False)
            one = (inverse @ inverse.T)[columns[:, :, None], columns[:, None, :]]
            out[..., :2, :2] = one[:, None] * (self.variance * design.gain**2)[:, None, None]
            return out
        slopes = K * p + waves.group[rows, None] * m + np.arange(m)
        for k in range(K):
            index = np.concatenate([k * p + columns, slopes], axis=1)
            units = np.concatenate(
                [np.full((L, 2), design.gain[k]), waves.signs[rows] / design.scale.halfwidth], axis=1
            )
            out[:, k] = design.joint[index[:, :, None], index[:, None, :]] * units[:, :, None] * units[:, None, :]
        return out

    def series(self, axes: tuple[str, ...] | None, *, phase_form: bool) -> PhaseSeries | ExponentialSeries:
        """The fitted series in units of the data: phase form, or exponential form for many features."""
        from flm.series import ExponentialSeries, PhaseSeries

        waves, scale = self.design.waves, self.design.scale
        C, S = self._linear()
        one = C.shape[1] == 1
        if not phase_form:
            k, pair = waves.vectors / scale.halfwidth, waves.has_sine
            half = np.where(pair[:, None], 0.5, 1.0) * (C - 1j * S)
            vectors = np.concatenate([k, -k[pair]])
            coefficients = np.concatenate([half, half[pair].conj()])
            return ExponentialSeries(vectors, coefficients[:, 0] if one else coefficients, axes).shift(scale.center)
        N, m = waves.subnets.shape
        linear = np.zeros((2, N, 2 ** (m - 1), C.shape[1]))
        row = (waves.signs[:, 1:] < 0) @ (2 ** np.arange(m - 1)[::-1])  # of the sign matrix; always e_1 = +1
        linear[:, waves.group, row] = C, S
        cosines, sines = linear[..., 0] if one else linear
        return PhaseSeries.from_linear(self.frequencies, cosines, sines, axes).shift(scale.center).normalized()
