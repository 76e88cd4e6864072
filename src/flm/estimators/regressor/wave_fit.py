"""A fitted sum of waves in the units of the data: values, error bars, spectrum, series."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from flm.estimators.regressor.spectrum import Spectrum
from flm.estimators.waves import Scale, Waves
from flm.series.tables import phasors

_BLOCK_NUMBERS = 1 << 22  # numbers in one block of the design matrix: 32 MiB


@dataclass(frozen=True, eq=False)
class WaveFit:
    """y = offset + gain * Phi(z) c + noise with a Gaussian distribution of c, and of the frequencies where they were fitted.

    Args:
        scale: x -> z.
        waves: Phi.
        offset, gain: of the outputs, (K,).
        coefficients: mean of c, (p, K).
        variance: of the noise in units of gain^2, (K,).
        factor: T with covariance of c_k = variance_k (T^T T)^-1, or None where `joint` says it.
        joint: covariance of (c_1 ... c_K, frequencies), or None.
        reach: |z_j| beyond which the lattice only repeats itself: T_j, (m,); infinite for lines.
        prior_variance: of a value, in units of the noise variance: what is known beyond the reach.
    """

    scale: Scale
    waves: Waves
    offset: np.ndarray
    gain: np.ndarray
    coefficients: np.ndarray
    variance: np.ndarray
    factor: np.ndarray | None
    joint: np.ndarray | None
    reach: np.ndarray
    prior_variance: float

    def _blocks(self, X: np.ndarray):
        step = max(1, _BLOCK_NUMBERS // self.waves.num_columns)
        return (self.scale(X[i : i + step]) for i in range(0, len(X), step))

    def mean(self, X: np.ndarray) -> np.ndarray:
        """Values (P, K)."""
        parts = [self.waves.columns(z) @ self.coefficients for z in self._blocks(X)]
        return self.offset + self.gain * (np.concatenate(parts) if parts else np.zeros((0, len(self.gain))))

    def std(self, X: np.ndarray, *, noise: bool = True) -> np.ndarray:
        """Standard deviations (P, K) of a new observation, or of the function when not `noise`."""
        parts = [self._variances(z) for z in self._blocks(X)]
        spread = np.concatenate(parts) if parts else np.zeros((0, len(self.gain)))
        return self.gain * np.sqrt(spread + (self.variance if noise else 0.0))

    def _variances(self, z: np.ndarray) -> np.ndarray:
        columns = self.waves.columns(z)
        p, K = self.coefficients.shape
        if self.joint is None:
            assert self.factor is not None
            solved = solve_triangular(self.factor, columns.T, trans=1, check_finite=False)
            variances = (solved**2).sum(axis=0)[:, None] * self.variance
        else:
            slopes = self.waves.slopes(z, self.coefficients)  # (P, K, N m)
            variances = np.empty((len(z), K))
            for k in range(K):
                live = np.r_[k * p : (k + 1) * p, K * p : len(self.joint)]
                gradient = np.concatenate([columns, slopes[:, k]], axis=1)
                variances[:, k] = ((gradient @ self.joint[np.ix_(live, live)]) * gradient).sum(axis=1)
        beyond = (np.abs(z) > self.reach).any(axis=1)
        variances[beyond] = np.maximum(variances[beyond], self.prior_variance * self.variance)
        return np.maximum(variances, 0.0)

    @property
    def frequencies(self) -> np.ndarray:
        """Frequency vectors of the sub-networks in radians per unit of x, (N, m)."""
        return self.waves.subnets / self.scale.halfwidth

    def _linear(self) -> tuple[np.ndarray, np.ndarray]:
        """(C, S) of every wave about the center of the data, (M, K), the outputs' offset in the zero wave."""
        C, S = self.waves.split(self.coefficients)
        C, S = C * self.gain, S * self.gain
        zero = np.flatnonzero(~self.waves.has_sine)
        if len(zero):
            C = C.copy()
            C[zero[0]] += self.offset
        return C, S

    def spectrum(self, feature_names: tuple[str, ...]) -> Spectrum:
        """The lines with standard errors, the constant left out."""
        rows = np.flatnonzero(self.waves.has_sine)
        k = self.waves.vectors / self.scale.halfwidth
        C, S = (v[rows] for v in self._linear())
        covariances = self._line_covariances()[rows]
        # About x = 0: theta' = theta + k.center, that is (C + iS) exp(i k.center).
        turn = phasors(k[rows] @ self.scale.center)
        cosine, sine = turn.real, turn.imag
        turned = turn[:, None] * (C + 1j * S)
        C0, S0 = turned.real, turned.imag
        L, K, m = len(rows), C.shape[1], k.shape[1]
        J = np.zeros((L, K, 2 + m, 2 + m))
        J[..., 0, 0] = J[..., 1, 1] = cosine[:, None]
        J[..., 0, 1], J[..., 1, 0] = -sine[:, None], sine[:, None]
        J[..., 0, 2:], J[..., 1, 2:] = -S0[..., None] * self.scale.center, C0[..., None] * self.scale.center
        J[..., 2:, 2:] = np.eye(m)
        return Spectrum.of(k[rows], C0, S0, J @ covariances @ np.swapaxes(J, -1, -2), feature_names)

    def _line_covariances(self) -> np.ndarray:
        """Covariance of (C, S, k) of every wave and output, (M, K, 2 + m, 2 + m), about the center, units of the data."""
        M, m = self.waves.vectors.shape
        p, K = self.coefficients.shape
        sine = np.full(M, -1)
        sine[self.waves.has_sine] = np.arange(M, p)
        out = np.zeros((M, K, 2 + m, 2 + m))
        if self.joint is None:
            assert self.factor is not None
            inverse = solve_triangular(self.factor, np.eye(p), check_finite=False)
            cov = inverse @ inverse.T
        for k in range(K):
            for i in range(M):
                pick = [i, *([sine[i]] if sine[i] >= 0 else [])]
                if self.joint is None:
                    block = cov[np.ix_(pick, pick)] * self.variance[k]
                    out[i, k, : len(pick), : len(pick)] = block * self.gain[k] ** 2
                    continue
                frequency = K * p + self.waves.group[i] * m + np.arange(m)
                index = [*(k * p + np.array(pick)), *frequency]
                units = np.concatenate([np.full(len(pick), self.gain[k]), self.waves.signs[i] / self.scale.halfwidth])
                place = [*range(len(pick)), *range(2, 2 + m)]
                out[i, k][np.ix_(place, place)] = self.joint[np.ix_(index, index)] * units[:, None] * units
        return out

    def series(self, axes: tuple[str, ...] | None, *, phase_form: bool) -> Any:
        """The fitted series in units of the data: phase form, or exponential form for many features."""
        from flm.series import ExponentialSeries, PhaseSeries

        C, S = self._linear()
        one = C.shape[1] == 1
        if not phase_form:
            k = self.waves.vectors / self.scale.halfwidth
            pair = self.waves.has_sine
            half = np.where(pair[:, None], 0.5, 1.0) * (C - 1j * S)
            vectors = np.concatenate([k, -k[pair]])
            coefficients = np.concatenate([half, half[pair].conj()])
            return ExponentialSeries(vectors, coefficients[:, 0] if one else coefficients, axes).shift(
                self.scale.center
            )
        N, m = self.waves.subnets.shape
        shape = (N, 2 ** (m - 1), C.shape[1])
        cosines, sines = np.zeros(shape), np.zeros(shape)
        row = (self.waves.signs[:, 1:] < 0) @ (2 ** np.arange(m - 1)[::-1])  # of the sign matrix; always e_1 = +1
        cosines[self.waves.group, row] = C
        sines[self.waves.group, row] = S
        cosines, sines = (cosines[..., 0], sines[..., 0]) if one else (cosines, sines)
        return PhaseSeries.from_linear(self.frequencies, cosines, sines, axes).shift(self.scale.center).normalized()

    def pack(self) -> dict[str, Any]:
        """Plain arrays and numbers, for files."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("scale", "waves")}
        named |= {"center": self.scale.center, "halfwidth": self.scale.halfwidth}
        return named | {f"waves_{f.name}": getattr(self.waves, f.name) for f in fields(self.waves)}

    @classmethod
    def unpack(cls, named: dict[str, Any]) -> WaveFit:
        """The inverse of `pack`."""
        waves = Waves(**{f.name: named[f"waves_{f.name}"] for f in fields(Waves)})
        own = {f.name: named[f.name] for f in fields(cls) if f.name not in ("scale", "waves")}
        return cls(scale=Scale(named["center"], named["halfwidth"]), waves=waves, **own)
