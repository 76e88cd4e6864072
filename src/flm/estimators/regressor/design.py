"""What the first rows fix: scaling, frequencies, prior. Everything after is linear."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from flm.estimators.evidence import Compressed, Posterior, compress
from flm.estimators.progress import part
from flm.estimators.regressor.lattice_fit import LatticeFit, fit_lattice, rescaled
from flm.estimators.regressor.lines import LineFit, LineSearch
from flm.estimators.regressor.variable_projection import refine
from flm.estimators.regressor.wave_fit import WaveFit
from flm.estimators.waves import Scale, Waves
from flm.wording import InputError


@dataclass(frozen=True, eq=False)
class Design:
    """Scaling of inputs and outputs, waves, prior variances of the columns."""

    kind: str  # "lines", "lattice" or "given"
    scale: Scale
    offset: np.ndarray  # (K,)
    gain: np.ndarray  # (K,)
    waves: Waves
    log_s: np.ndarray  # (N,) prior variance per sub-network in units of the noise variance
    is_learned: bool  # whether a common factor on it is found from the rows so far
    reach: np.ndarray  # (m,)
    known_noise: np.ndarray | None  # (K,) variances in units of gain^2
    joint: np.ndarray | None  # covariance of coefficients and frequencies, lines only
    evidence: float

    def solve(self, factor: np.ndarray, count: float) -> WaveFit:
        """The posterior of the amplitudes given the triangular factor of all rows so far."""
        data = Compressed.of_factor(factor, len(self.gain), count)
        log_s = self.log_s
        if self.is_learned:
            lattice = LatticeFit(self.waves, log_s, self.reach, factor, self.evidence)
            log_s = rescaled(lattice, data, self.known_noise).log_s
        s = np.exp(log_s)[self.waves.column_subnet]
        posterior = Posterior.of(data, s, self.known_noise)
        variance = posterior.variance
        if self.known_noise is None and self.kind == "lines":
            freedom = max(count - len(s) - self.waves.subnets.size / len(self.gain), 1.0)
            variance = variance * count / freedom
        return WaveFit(
            self.scale,
            self.waves,
            self.offset,
            self.gain,
            posterior.mean,
            variance,
            posterior.factor if self.joint is None else None,
            self.joint,
            self.reach,
            float(s.sum()),
        )

    def pack(self) -> dict[str, Any]:
        """Plain arrays and numbers, for files."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("scale", "waves")}
        named |= {"center": self.scale.center, "halfwidth": self.scale.halfwidth}
        return named | {f"waves_{f.name}": getattr(self.waves, f.name) for f in fields(self.waves)}

    @classmethod
    def unpack(cls, named: dict[str, Any]) -> Design:
        """The inverse of `pack`."""
        waves = Waves(**{f.name: named[f"waves_{f.name}"] for f in fields(Waves)})
        own = {f.name: named[f.name] for f in fields(cls) if f.name not in ("scale", "waves")}
        return cls(scale=Scale(named["center"], named["halfwidth"]), waves=waves, **own)


def fit_design(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray, options: Any, *, streaming: bool
) -> tuple[Design, np.ndarray]:
    """Choose the frequencies by the estimator's parameters; also the triangular factor of these rows."""
    checked = _Options.of(options, X.shape[1], y.shape[1])
    m = X.shape[1]
    lower, upper = (X.min(axis=0), X.max(axis=0)) if checked.bounds is None else checked.bounds.T
    scale = Scale.of(lower, upper)
    z = scale(X)
    total = weights.sum()
    offset = weights @ y / total
    gain = np.sqrt(weights @ (y - offset) ** 2 / total)
    # A constant output, up to rounding, keeps its unit.
    gain = np.where(gain > 1e-14 * np.abs(offset), gain, 1.0)
    v = (y - offset) / gain
    known = None if checked.noise is None else (checked.noise / gain) ** 2
    half_periods = checked.period / (2 * scale.halfwidth)
    if (half_periods < 1 - 1e-9).any():
        j = int(np.argmax(half_periods < 1 - 1e-9))
        raise InputError(
            f"`period` must be at least the extent of the data; got {checked.period[j]:.6g} for feature {j}, whose values "
            f"span {2 * scale.halfwidth[j]:.6g}."
        )
    kinds = checked.kinds(m, streaming)
    found: list[tuple[Design, np.ndarray]] = []

    def build(kind, waves, log_s, is_learned, reach, evidence, factor, joint=None):
        if factor is None:
            factor = compress(waves.columns, z, v, weights, waves.num_columns)
        design = Design(kind, scale, offset, gain, waves, log_s, is_learned, reach, known, joint, evidence)
        found.append((design, factor))

    infinite = np.full(m, np.inf)
    if "given" in kinds:
        waves = Waves.of(np.asarray(checked.frequencies) * scale.halfwidth)
        if checked.refine:
            fit = _refined(waves, z, v, weights, checked)
            build("lines", fit.waves, _line_prior(fit, total), False, infinite, fit.evidence, None, fit.covariance)
        else:
            build("given", waves, np.zeros(len(waves.subnets)), True, infinite, np.nan, None)
    if "lattice" in kinds:
        with part(0.0, 1 / len(kinds)):
            lattice = fit_lattice(
                z,
                v,
                weights,
                interactions=checked.interactions,
                half_periods=half_periods,
                num_subnets=checked.num_subnets,
                max_columns=checked.max_columns,
                known_noise=known,
            )
        if checked.refine and lattice.waves.num_columns < total:
            fit = _refined(Waves.of(lattice.waves.subnets), z, v, weights, checked)
            build("lines", fit.waves, _line_prior(fit, total), False, infinite, fit.evidence, None, fit.covariance)
        else:
            args = lattice.waves, lattice.log_s, True, lattice.half_periods, lattice.evidence, lattice.factor
            build("lattice", *args)
    if "lines" in kinds:
        search = LineSearch(z, v, weights, interactions=checked.interactions)
        num = None if checked.num_subnets is None else checked.num_subnets - 1
        with part(1 - 1 / len(kinds), 1.0):
            fit = search.run(num_lines=num, max_lines=checked.max_lines(m), refined=checked.refine is not False)
        build("lines", fit.waves, _line_prior(fit, total), False, infinite, fit.evidence, None, fit.covariance)
    design, factor = max(found, key=lambda item: item[0].evidence)
    if checked.ridge is not None:
        # sum of squares + ridge |c|^2: prior variance 1 / ridge in units of the noise
        log_s = np.full(len(design.waves.subnets), -np.log(checked.ridge))
        design = Design(**{**_shallow(design), "log_s": log_s, "is_learned": False})
    return design, factor


def _shallow(design: Design) -> dict[str, Any]:
    return {f.name: getattr(design, f.name) for f in fields(design)}


def _line_prior(fit: LineFit, count: float) -> np.ndarray:
    """log s for amplitudes of the size of the outputs, as in `variable_projection`: one over the noise variance."""
    return np.full(len(fit.waves.subnets), np.log(min(1 / fit.variance.max(), 2e18 / count)))


def _refined(waves: Waves, z: np.ndarray, v: np.ndarray, weights: np.ndarray, checked: _Options) -> LineFit:
    search = LineSearch(z, v, weights, interactions=checked.interactions)
    return search.finish(refine(waves, z, v, weights, steps=60))


@dataclass(frozen=True)
class _Options:
    """The estimator's parameters, checked against the data."""

    num_subnets: int | None
    frequencies: Any
    interactions: int
    period: np.ndarray
    bounds: np.ndarray | None
    refine: bool | None
    ridge: float | None
    noise: np.ndarray | None
    max_columns: int

    @classmethod
    def of(cls, options: Any, m: int, K: int) -> _Options:
        frequencies = options.frequencies
        names = ("auto", "lines", "lattice")
        if isinstance(frequencies, str):
            if frequencies not in names:
                raise InputError(f"`frequencies` must be one of {names} or an array (N, {m}); got {frequencies!r}.")
        else:
            frequencies = np.asarray(frequencies, float)
            if frequencies.ndim == 1 and m == 1:
                frequencies = frequencies[:, None]
            if frequencies.ndim != 2 or frequencies.shape[1] != m:
                raise InputError(f"`frequencies` must have shape (N, {m}); got {frequencies.shape}.")
        interactions = (m if m <= 6 else 2) if options.interactions is None else options.interactions
        for name, value in (("interactions", interactions), ("max_columns", options.max_columns)):
            if not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"`{name}` must be an integer of at least 1; got {value!r}.")
        if options.num_subnets is not None and (
            not isinstance(options.num_subnets, int | np.integer) or options.num_subnets < 1
        ):
            raise InputError(f"`num_subnets` must be an integer of at least 1 or None; got {options.num_subnets!r}.")
        if options.ridge is not None and not options.ridge > 0:
            raise InputError(f"`ridge` must be positive or None; got {options.ridge!r}.")
        noise = options.noise
        if noise is not None:
            noise = np.broadcast_to(np.asarray(noise, float), (K,))
            if not (noise > 0).all():
                raise InputError(f"`noise` must be positive or None; got {options.noise!r}.")
        bounds = options.bounds
        if bounds is not None:
            bounds = np.asarray(bounds, float)
            if bounds.shape != (m, 2) or not (bounds[:, 0] < bounds[:, 1]).all():
                raise InputError(f"`bounds` must be {m} pairs (low, high), low < high; got {options.bounds!r}.")
        period = options.period
        period = np.array(
            [np.nan if p is None else p for p in (period if np.iterable(period) else [period] * m)], float
        )
        if period.shape != (m,):
            raise InputError(f"`period` must be one number or one per feature ({m}); got {options.period!r}.")
        return cls(
            None if options.num_subnets is None else int(options.num_subnets),
            frequencies,
            min(int(interactions), m),
            period,
            bounds,
            options.refine,
            options.ridge,
            noise,
            int(options.max_columns),
        )

    def kinds(self, m: int, streaming: bool) -> tuple[str, ...]:
        """Which ways to find frequencies are tried."""
        if not isinstance(self.frequencies, str):
            return ("given",)
        if self.frequencies != "auto":
            return (self.frequencies,)
        # A line found in the first rows of a stream need not fit the rest of it: only on request.
        return ("lines", "lattice") if m == 1 and not streaming else ("lattice",)

    def max_lines(self, m: int) -> int:
        """Most lines within the budget of columns."""
        return max(1, min(64, self.max_columns // 2**m))
