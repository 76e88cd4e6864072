"""A fitted sum of waves in the units of the data: values, error bars, series, and its lines with their standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from flm.estimators.evidence import Sample
from flm.estimators.regressor.wave_model import WaveModel
from flm.estimators.table import time_text
from flm.estimators.waves import BLOCK_NUMBERS, Scale
from flm.series.tables import phasors
from flm.wording import InputError, with_error

if TYPE_CHECKING:
    import pandas as pd

    from flm.series import ExponentialSeries, PhaseSeries

PAIRED = "Paired lines are too close to tell apart from one wave whose phase wanders."
_NEAR = 1.5  # resolutions 2 pi / span: a wandering phase was seen to split lines by 0.6 to 1.6 of them


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Lines A cos(k.x - phi), one row each, strongest first; several outputs on a last axis.

    Attributes:
        frequency: k in radians per unit of x, (L, m).
        period: 2 pi / |k_j| per feature, infinite where k_j = 0, (L, m).
        amplitude: A >= 0, (L,) or (L, K).
        phase: phi in (-pi, pi], (L,) or (L, K).
        frequency_error, period_error, amplitude_error, phase_error: standard errors, of the same shapes. Those of
            frequencies and periods are NaN where frequencies were not fitted (a lattice), and zero where you gave them.
        paired: whether another line is nearer than one and a half times the resolution 1 / span, (L,): both may be one wave
            whose phase wanders, or noise.
        feature_names: names of the m features.
        units: units of features that are clocks, which count from their first row; "" for others.
    """

    frequency: np.ndarray
    period: np.ndarray
    amplitude: np.ndarray
    phase: np.ndarray
    frequency_error: np.ndarray
    period_error: np.ndarray
    amplitude_error: np.ndarray
    phase_error: np.ndarray
    paired: np.ndarray
    feature_names: tuple[str, ...]
    units: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        k: np.ndarray,
        wave: np.ndarray,
        covariances: np.ndarray,
        centers: np.ndarray,
        named: tuple[tuple[str, ...], ...],
        *,
        fitted: np.ndarray,
        paired: np.ndarray,
    ) -> Spectrum:
        """The spectrum by the delta method, from vectors k (L, m) and coefficients C + iS (L, K) of waves about centers (L, m).

        The covariances are those of (C, S, k_1 ... k_m) of every line and output, (L, K, 2 + m, 2 + m); components of k that
        are not `fitted` (L, m) have no error.
        """
        A = np.abs(wave)
        order = np.argsort(-A.max(axis=1), kind="stable")
        k, wave, covariances, centers, A = k[order], wave[order], covariances[order], centers[order], A[order]
        # A = |C + iS|, and phi = arg(C + iS) + k.center at x = 0: gradients by (C, S, k)
        unit, safe = wave / np.where(A > 0, A, 1.0), np.where(A > 0, A, 1.0)
        about = np.broadcast_to(centers[:, None], (*A.shape, k.shape[1]))
        of_A = np.concatenate([np.stack([np.real(unit), np.imag(unit)], axis=-1), 0 * about], axis=-1)
        of_phi = np.stack([-np.imag(unit) / safe, np.real(unit) / safe], axis=-1)
        of_phi = np.concatenate([of_phi, about], axis=-1)
        error = lambda g: np.sqrt(np.einsum("lki,lkij,lkj->lk", g, covariances, g).clip(0))
        # Without amplitude there is no phase: its error is at most that of a uniform angle.
        phase_error = np.minimum(np.where(A > 0, error(of_phi), np.inf), np.pi / np.sqrt(3))
        frequency_error = np.sqrt(np.diagonal(covariances[:, 0], axis1=1, axis2=2)[:, 2:].clip(0))
        frequency_error[~fitted[order]] = np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            period = 2 * np.pi / np.abs(k)
            period_error = np.where(
                k != 0, frequency_error * 2 * np.pi / k**2, 0 * frequency_error
            )  # d(2 pi / k) = -2 pi / k^2 dk
        flat = (lambda v: v[:, 0]) if A.shape[1] == 1 else (lambda v: v)
        phase = np.angle(wave * phasors((k * centers).sum(axis=1))[:, None])
        of_waves = flat(A), flat(phase), frequency_error, period_error, flat(error(of_A)), flat(phase_error)
        return cls(k, period, *of_waves, paired[order], named[0], named[1] or ("",) * len(named[0]))

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
            values, errors = (
                part.reshape(len(self), int(np.prod(part.shape[1:])))
                for part in (getattr(self, name), getattr(self, f"{name}_error"))
            )
            for k in range(values.shape[1]):
                label = name if self.amplitude.ndim == 1 else f"{name}[{k}]"
                columns[label], columns[f"{label} error"] = values[:, k], errors[:, k]
        return pd.DataFrame(columns | {"paired": self.paired})

    def plot(self, *, feature: int | str = 0, output: int = 0, periods: bool = False):
        """A figure of amplitudes as stems with one-sigma bars; horizontal bars are the errors of the frequencies.

        Args:
            feature: the feature whose frequency is on the axis.
            output: which of several outputs.
            periods: whether the axis shows periods, logarithmic, instead of frequencies.
        """
        from flm.report.figures.data import plot_spectrum

        return plot_spectrum(self, feature=feature, output=output, periods=periods)

    def __repr__(self) -> str:
        one = len(self.feature_names) == 1
        x = self.feature_names[0] if one else f"({', '.join(self.feature_names)})"
        what = "waves on a lattice" if len(self) and np.isnan(self.frequency_error).all() else "lines"
        rows = [f"Spectrum of {len(self)} {what} in {', '.join(self.feature_names)}, strongest first:"]
        for i in range(min(len(self), 8)):
            pairs = zip(self.frequency[i], np.nan_to_num(self.frequency_error[i]), strict=True)
            k = ", ".join(with_error(v, e) for v, e in pairs)  # fixed frequencies have no error
            k = k if one and "±" not in k else f"({k})"
            of_first = self.amplitude[i], self.amplitude_error[i], self.phase[i], self.phase_error[i]
            A, dA, phi, dphi = (np.ravel(part)[0] for part in of_first)
            row = f"  ({with_error(A, dA)}) cos({k} · {x} − ({with_error(phi, dphi)}))"
            clocks = zip(self.period[i], self.period_error[i], self.units, strict=True)
            told = [
                time_text(p, unit) + (f" ± {time_text(e, unit)}" if e > 0 else "")
                for p, e, unit in clocks
                if unit and np.isfinite(p)
            ]
            row += f", period {', '.join(told)}" if told else ""
            rows.append(row + ", paired" * bool(self.paired[i]))
        rows += ["  …"] if len(self) > 8 else []
        return "\n".join(rows + ([f"  {PAIRED}"] if self.paired.any() else []))


@dataclass(frozen=True, eq=False)
class WaveFit:
    """A model of scaled rows, in the units of the data."""

    inputs: Scale  # x -> z
    outputs: Scale
    model: WaveModel

    def sample(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, *, is_first: bool = False) -> Sample:
        """More rows as a sample, scaled as the first ones were and weighed by the noise found so far."""
        found, model = Sample(self.inputs(X), self.outputs(y), weights), self.model
        if is_first or model.noise.kind in ("white", "ar1"):
            return found
        variance = model.data.noise_variance(model.data.rest)
        return model.noise.weighed(found, model.values(found.z), variance)

    def refuse_beyond(self, lower: np.ndarray, upper: np.ndarray) -> None:
        """Refuse rows of this extent, (m,) each, if they reach to where a lattice only repeats itself."""
        beyond = (np.abs(self.inputs(np.stack([lower, upper]))) > self.model.reach).any(axis=0)
        if beyond.any():
            j = int(np.argmax(beyond))
            low, high = self.inputs.center - self.inputs.halfwidth, self.inputs.center + self.inputs.halfwidth
            raise InputError(
                f"`X` must stay near the extent that fixed the frequencies, [{low[j]:.6g}, {high[j]:.6g}] for feature {j}; "
                f"got {lower[j]:.6g} to {upper[j]:.6g}. Give `bounds`, the extent of all rows to come."
            )

    def mean(self, X: np.ndarray) -> np.ndarray:
        """Values (P, K)."""
        return self.outputs.center + self.outputs.halfwidth * self.model.values(self.inputs(X))

    def std(self, X: np.ndarray) -> np.ndarray:
        """Standard deviations (P, K) of a new observation."""
        step = max(1, BLOCK_NUMBERS // self.model.waves.num_columns)
        parts = [self.model.variances(self.inputs(X[i : i + step])) for i in range(0, max(len(X), 1), step)]
        return self.outputs.halfwidth * np.sqrt(np.concatenate(parts))

    def trend(self) -> np.ndarray:
        """Coefficients in powers of x of the fitted function less its series, (degree + 1, K); one feature."""
        from numpy.polynomial import Polynomial
        from numpy.polynomial.legendre import leg2poly

        waves, coefficients = self.model.waves, self.model.posterior.mean
        powers = coefficients[len(coefficients) - waves.num_powers :] * self.outputs.halfwidth
        z = Polynomial(np.r_[-self.inputs.center, 1.0] / self.inputs.halfwidth)  # of x
        found = np.zeros((waves.degree + 1, powers.shape[1]))
        for k, column in enumerate(powers.T):
            of_x = np.asarray(Polynomial(leg2poly(np.r_[0.0, column]))(z).coef)
            found[: len(of_x), k] = of_x
        return found

    @property
    def frequencies(self) -> np.ndarray:
        """Frequency vectors of the sub-networks in radians per unit of x, (N, m)."""
        return self.model.waves.subnets / self.inputs.halfwidth

    def _linear(self) -> np.ndarray:
        """C + iS of every wave about the center of the data, (M, K), with the outputs' offset in the zero wave."""
        C, S = self.model.waves.split(self.model.posterior.mean * self.outputs.halfwidth)
        C[np.flatnonzero(~self.model.waves.has_sine)[:1]] += self.outputs.center
        return C + 1j * S

    def spectrum(self, feature_names: tuple[str, ...], units: tuple[str, ...] = ()) -> Spectrum:
        """The lines with standard errors, the constant left out."""
        waves, bands = self.model.waves, self.model.bands
        rows = np.flatnonzero(waves.is_line if waves.num_lines else waves.has_sine)
        if bands is not None and not waves.num_lines:
            rows = rows[:0]  # a lattice's own waves are not lines
        halfwidth, covariances = self.inputs.halfwidth, self._line_covariances(rows)
        k, wave = waves.vectors[rows] / halfwidth, self._linear()[rows]
        centers = np.broadcast_to(self.inputs.center, k.shape)
        fitted = np.full(k.shape, self.model.joint is not None or self.model.kind == "given")
        if bands is not None:
            # Bands are lines that wander: their phases are unknown.
            middle, error, amplitude, relative = bands.T[:4]
            m, along = k.shape[1], np.arange(k.shape[1]) == bands[:, 4:].sum(axis=1)[:, None]  # (B, m)
            size = np.outer(amplitude, np.sqrt(self.model.posterior.variance) * self.outputs.halfwidth)  # (B, K)
            wide = np.zeros((*size.shape, 2 + m, 2 + m))
            wide[..., 0, 0], wide[..., 1, 1] = (relative[:, None] * size) ** 2, (np.pi * size) ** 2
            spread = (along * error[:, None] / halfwidth) ** 2
            wide[..., range(2, 2 + m), range(2, 2 + m)] = spread[:, None]
            k, wave = np.concatenate([k, along * middle[:, None] / halfwidth]), np.concatenate([wave, size])
            covariances, centers = np.concatenate([covariances, wide]), np.concatenate([centers, 0.0 * along])
            fitted = np.concatenate([fitted, along])
        are_lines = self.model.kind in ("lines", "both") or bands is not None
        paired = _paired(k * halfwidth / np.pi) if are_lines else np.zeros(len(k), bool)
        named = feature_names, units
        return Spectrum.of(k, wave, covariances, centers, named, fitted=fitted, paired=paired)

    def _line_covariances(self, rows: np.ndarray) -> np.ndarray:
        """Covariance of (C, S, k) of these waves and all outputs, (L, K, 2 + m, 2 + m), about the center, units of the data."""
        waves, joint, posterior = self.model.waves, self.model.joint, self.model.posterior
        (M, m), (p, K), L = waves.vectors.shape, posterior.mean.shape, len(rows)
        sine = np.cumsum(waves.has_sine)[rows] - 1 + M
        columns = np.stack([rows, sine], axis=1)  # cosine and sine of each line
        out = np.zeros((L, K, 2 + m, 2 + m))
        if joint is None:
            inverse = solve_triangular(posterior.factor, np.eye(p), check_finite=False)
            one = (inverse @ inverse.T)[columns[:, :, None], columns[:, None, :]]
            out[..., :2, :2] = one[:, None] * (posterior.variance * self.outputs.halfwidth**2)[:, None, None]
            return out
        slopes = K * p + waves.group[rows, None] * m + np.arange(m)
        for k, gain in enumerate(self.outputs.halfwidth):
            index = np.concatenate([k * p + columns, slopes], axis=1)
            units = np.concatenate([np.full((L, 2), gain), waves.signs[rows] / self.inputs.halfwidth], axis=1)
            out[:, k] = joint[index[:, :, None], index[:, None, :]] * units[:, :, None] * units[:, None, :]
        return out

    def series(self, axes: tuple[str, ...] | None, *, phase_form: bool) -> PhaseSeries | ExponentialSeries:
        """The fitted series in units of the data: phase form, or exponential form for many features."""
        from flm.series import ExponentialSeries, PhaseSeries

        waves, wave = self.model.waves, self._linear()
        flat = (lambda part: part[..., 0]) if wave.shape[1] == 1 else (lambda part: part)
        if not phase_form:
            k, pair = waves.vectors / self.inputs.halfwidth, waves.has_sine
            half = np.where(pair[:, None], 0.5, 1.0) * wave.conj()
            vectors, coefficients = np.concatenate([k, -k[pair]]), np.concatenate([half, half[pair].conj()])
            return ExponentialSeries(vectors, flat(coefficients), axes).shift(self.inputs.center)
        N, m = waves.subnets.shape
        linear = np.zeros((N, 2 ** (m - 1), wave.shape[1]), complex)
        row = (waves.signs[:, 1:] < 0) @ (2 ** np.arange(m - 1)[::-1])  # of the sign matrix; always e_1 = +1
        linear[waves.group, row] = wave
        cosines, sines = flat(np.real(linear)), flat(np.imag(linear))
        return PhaseSeries.from_linear(self.frequencies, cosines, sines, axes).shift(self.inputs.center).normalized()


def _paired(k: np.ndarray) -> np.ndarray:
    """Which of the frequency vectors (L, m), in units of the resolution, have another nearby, (L,)."""
    near = (np.abs(k[:, None] - k) < _NEAR).all(axis=2)
    return near.sum(axis=1) > 1  # itself and another
