"""A fitted sum of waves in the units of the data: values, error bars, series, and its lines with their standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from flm.estimators.evidence import Compressed, Posterior
from flm.estimators.features import time_text
from flm.estimators.regressor.design import Design
from flm.estimators.regressor.lattice_fit import LatticeFit
from flm.estimators.waves import BLOCK_NUMBERS
from flm.series.tables import phasors

if TYPE_CHECKING:
    import pandas as pd

    from flm.series import ExponentialSeries, PhaseSeries

_TEMPER = 8.0  # evidence at the best of a dozen hyperparameters is known to several nats: so much behind counts a third


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Lines A cos(k.x - phi), one row each, strongest first; several outputs on a last axis.

    Attributes:
        frequency: k in radians per unit of x, (L, m).
        period: 2 pi / |k_j| per feature, infinite where k_j = 0, (L, m).
        amplitude: A >= 0, (L,) or (L, K).
        phase: phi in (-pi, pi], (L,) or (L, K).
        frequency_error, period_error, amplitude_error, phase_error: standard errors, of the same shapes. Those of
            frequencies are zero where the frequencies were not fitted (a lattice, or given ones).
        feature_names: names of the m features.
        units: of features that are clocks, which count from their first row; "" for others.
    """

    frequency: np.ndarray
    period: np.ndarray
    amplitude: np.ndarray
    phase: np.ndarray
    frequency_error: np.ndarray
    period_error: np.ndarray
    amplitude_error: np.ndarray
    phase_error: np.ndarray
    feature_names: tuple[str, ...]
    units: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        vectors: np.ndarray,
        wave: np.ndarray,
        covariances: np.ndarray,
        names: tuple[str, ...],
        units: tuple[str, ...] = (),
    ) -> Spectrum:
        """By the delta method, from vectors k (L, m) and coefficients C + iS (L, K) of cosines and sines.

        The covariances are those of (C, S, k_1 ... k_m) of every line and output, (L, K, 2 + m, 2 + m).
        """
        C, S = np.real(wave), np.imag(wave)
        A = np.hypot(C, S)
        safe = np.where(A > 0, A, 1.0)
        # A = sqrt(C^2 + S^2), phi = atan2(S, C): gradients by (C, S)
        of_A = np.stack([C, S], axis=-1) / safe[..., None]
        of_phi = np.stack([-S, C], axis=-1) / safe[..., None] ** 2
        block = covariances[..., :2, :2]
        amplitude_error = np.sqrt(np.einsum("lki,lkij,lkj->lk", of_A, block, of_A).clip(0))
        phase_error = np.sqrt(np.einsum("lki,lkij,lkj->lk", of_phi, block, of_phi).clip(0))
        # No amplitude, no phase: its error is that of a uniform angle at most.
        phase_error = np.minimum(np.where(A > 0, phase_error, np.inf), np.pi / np.sqrt(3))
        diagonal = np.arange(2, covariances.shape[-1])
        frequency_error = np.sqrt(covariances[:, 0, diagonal, diagonal].clip(0))
        with np.errstate(divide="ignore", invalid="ignore"):
            period = np.where(vectors != 0, 2 * np.pi / np.abs(vectors), np.inf)
            # d(2 pi / k) = -2 pi / k^2 dk
            period_error = np.where(vectors != 0, frequency_error * 2 * np.pi / vectors**2, 0.0)
        order = np.argsort(-A.max(axis=1), kind="stable")
        flat = (lambda v: v[order, 0]) if C.shape[1] == 1 else (lambda v: v[order])
        return cls(
            vectors[order],
            period[order],
            flat(A),
            flat(np.arctan2(S, C)),
            frequency_error[order],
            period_error[order],
            flat(amplitude_error),
            flat(phase_error),
            names,
            units or ("",) * len(names),
        )

    def __len__(self) -> int:
        return len(self.frequency)

    def to_pandas(self) -> pd.DataFrame:
        """A data frame with one row per line; columns of several features or outputs carry their name or number."""
        import pandas as pd

        columns = {}
        for name in ("frequency", "period"):
            for j, feature in enumerate(self.feature_names):
                label = name if len(self.feature_names) == 1 else f"{name}[{feature}]"
                label += f" [{'rad / ' * (name == 'frequency')}{self.units[j]}]" if self.units[j] else ""
                columns[label] = getattr(self, name)[:, j]
                columns[f"{label} error"] = getattr(self, f"{name}_error")[:, j]
        for name in ("amplitude", "phase"):
            values, errors = getattr(self, name), getattr(self, f"{name}_error")
            for k in range(1 if values.ndim == 1 else values.shape[1]):
                label = name if values.ndim == 1 else f"{name}[{k}]"
                columns[label] = values if values.ndim == 1 else values[:, k]
                columns[f"{label} error"] = errors if values.ndim == 1 else errors[:, k]
        return pd.DataFrame(columns)

    def plot(self, *, feature: int | str = 0, output: int = 0, periods: bool = False):
        """Amplitudes as stems with one-sigma bars; bars to the side are the errors of the frequencies.

        Args:
            feature: the feature whose frequency is on the axis.
            output: which of several outputs.
            periods: periods on the axis, logarithmic, instead of frequencies.
        """
        from flm.report.figures.data import plot_spectrum

        return plot_spectrum(self, feature=feature, output=output, periods=periods)

    def _period_text(self, i: int) -> str:
        """Periods of clocks as durations."""
        pairs = zip(self.period[i], self.period_error[i], self.units, strict=True)
        told = [
            time_text(p, unit) + (f" ± {time_text(e, unit)}" if e else "")
            for p, e, unit in pairs
            if unit and np.isfinite(p)
        ]
        return f", period {', '.join(told)}" if told else ""

    def __repr__(self) -> str:
        rows = [f"Spectrum of {len(self)} lines in {', '.join(self.feature_names)}, strongest first:"]
        for i in range(min(len(self), 8)):
            pairs = zip(self.frequency[i], self.frequency_error[i], strict=True)
            k = ", ".join(f"{v:.6g} ± {e:.2g}" if e else f"{v:.6g}" for v, e in pairs)  # fixed ones have no error
            A, phi = np.atleast_1d(self.amplitude[i])[0], np.atleast_1d(self.phase[i])[0]
            dA, dphi = np.atleast_1d(self.amplitude_error[i])[0], np.atleast_1d(self.phase_error[i])[0]
            one = len(self.feature_names) == 1
            dot = k if one and "±" not in k else f"({k})"
            x = self.feature_names[0] if one else f"({', '.join(self.feature_names)})"
            row = f"  ({A:.5g} ± {dA:.2g}) cos({dot} · {x} − ({phi:.4g} ± {dphi:.2g}))"
            rows.append(row + self._period_text(i))
        return "\n".join(rows + (["  …"] if len(self) > 8 else []))


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
        # Lines and a trend go on; the continuum is what is not known beyond its period.
        continuum = s[waves.column_subnet < len(waves.subnets) - waves.num_lines].sum()
        return cls(design, posterior.mean, variance, posterior.factor, float(continuum))

    @cached_property
    def rivals(self) -> list[WaveFit]:
        """Other models of the same rows, found when they are first asked for."""
        return [WaveFit.of(*rival) for rival in self.design.rivals]

    def mean(self, X: np.ndarray) -> np.ndarray:
        """Values (P, K)."""
        design = self.design
        return design.offset + design.gain * design.waves.values(design.scale(X), self.coefficients)

    @property
    def noise_variance(self) -> np.ndarray:
        """Of one observation, in units of gain^2: `variance` is what is new in it where noise is correlated."""
        return self.variance * self.design.noise.spread**2

    def std(self, X: np.ndarray) -> np.ndarray:
        """Standard deviations (P, K) of a new observation."""
        step = max(1, BLOCK_NUMBERS // self.design.waves.num_columns)
        parts = [self._spread(self.design.scale(X[i : i + step])) for i in range(0, len(X), step)]
        return self.design.gain * np.sqrt(np.concatenate([np.zeros((0, len(self.variance))), *parts]))

    def _spread(self, z: np.ndarray) -> np.ndarray:
        """Variances of the curve and of the noise together, (P, K), in units of gain^2."""
        noise = self.design.noise
        fitted = self.design.waves.values(z, self.coefficients) if noise.slopes is not None else np.zeros((len(z), 1))
        own = self._variances(z) + self.noise_variance * noise.growth(z, fitted)[:, None] ** 2
        beyond = (np.abs(z) > 1 + 1e-9).any(axis=1)
        if not self.design.rivals or not beyond.any():
            return own
        # Models that agree on the record may not beyond it: the mean square of what they say about this one's mean.
        z, total, weights = z[beyond], own[beyond], 1.0
        mean = self.design.waves.values(z, self.coefficients)
        for rival in self.rivals:
            weight = np.exp((rival.design.evidence - self.design.evidence) / _TEMPER)
            apart = rival.design.waves.values(z, rival.coefficients) - mean
            total, weights = total + weight * np.minimum(rival._spread(z) + apart**2, z**2), weights + weight
        own[beyond] = np.maximum(own[beyond], total / weights)
        return own

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
        # Nothing is known there: at least the spread of the data.
        variances[beyond] = np.maximum(variances[beyond], np.maximum(self.prior_variance * self.variance, 1.0))
        return np.maximum(variances, 0.0)

    def trend(self) -> np.ndarray:
        """Coefficients in powers of x of what the series leaves of the fitted function, (degree + 1, K); one feature."""
        from numpy.polynomial import Polynomial
        from numpy.polynomial.legendre import leg2poly

        waves, scale = self.design.waves, self.design.scale
        powers = self.coefficients[len(self.coefficients) - waves.num_powers :] * self.design.gain
        z = Polynomial([-scale.center[0] / scale.halfwidth[0], 1 / scale.halfwidth[0]])  # of x
        found = np.zeros((waves.degree + 1, powers.shape[1]))
        for k in range(powers.shape[1]):
            coefficients = np.asarray(Polynomial(leg2poly(np.r_[0.0, powers[:, k]]))(z).coef)
            found[: len(coefficients), k] = coefficients
        return found

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

    def spectrum(self, feature_names: tuple[str, ...], units: tuple[str, ...] = ()) -> Spectrum:
        """The lines with standard errors, the constant left out."""
        waves, center = self.design.waves, self.design.scale.center
        rows = np.flatnonzero(waves.is_line if waves.num_lines else waves.has_sine)
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
        if self.design.bands is not None:
            # Bands are lines that wander: their phases are unknown.
            middle, error, amplitude, relative = self.design.bands.T
            halfwidth = self.design.scale.halfwidth[0]
            size = np.outer(amplitude, np.sqrt(self.variance) * self.design.gain)  # (B, K)
            wide = np.zeros((*size.shape, 3, 3))
            wide[..., 0, 0], wide[..., 1, 1] = (relative[:, None] * size) ** 2, (np.pi * size) ** 2
            wide[..., 2, 2] = ((error / halfwidth) ** 2)[:, None]
            keep = slice(None) if waves.num_lines else slice(0)  # a lattice's own waves are no lines
            k, turned = np.concatenate([k[keep], middle[:, None] / halfwidth]), np.concatenate([turned[keep], size])
            covariances = np.concatenate([covariances[keep], wide])
        return Spectrum.of(k, turned, covariances, feature_names, units)

    def _line_covariances(self, rows: np.ndarray) -> np.ndarray:
        """Covariance of (C, S, k) of these waves and all outputs, (L, K, 2 + m, 2 + m), about the center, units of the data."""
        design, waves = self.design, self.design.waves
        (M, m), (p, K), L = waves.vectors.shape, self.coefficients.shape, len(rows)
        sine = np.cumsum(waves.has_sine)[rows] - 1 + M
        columns = np.stack([rows, sine], axis=1)  # cosine and sine of each line
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
