"""What the first rows fix: scaling, frequencies, prior. Everything after is linear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from flm.estimators.evidence import Compressed, Sample
from flm.estimators.regressor.lattice_fit import fit_lattice
from flm.estimators.regressor.lines import LineSearch
from flm.estimators.waves import Scale, Waves
from flm.results.progress import Listener, within
from flm.wording import InputError, check_count

if TYPE_CHECKING:
    from flm.estimators.regressor.estimator import FLMRegressor

_WAYS = ("auto", "lines", "lattice")


@dataclass(frozen=True, eq=False)
class Design:
    """Scaling of inputs and outputs, waves, prior variances of the columns."""

    kind: str  # "lines", "lattice" or "given"
    scale: Scale  # x -> z
    offset: np.ndarray  # of the outputs, (K,)
    gain: np.ndarray  # (K,)
    waves: Waves  # the columns
    log_s: np.ndarray  # prior variance per sub-network in units of the noise variance, (N,)
    is_learned: bool  # whether a common factor on it is found from the rows so far
    reach: np.ndarray  # |z_j| beyond which the lattice only repeats itself: T_j, (m,); infinite for lines
    joint: np.ndarray | None = None  # covariance of coefficients and frequencies, lines only
    evidence: float = np.nan  # log marginal likelihood of the rows that fixed the frequencies

    def sample(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Sample:
        """More rows, scaled as the first ones were."""
        return Sample(self.scale(X), (y - self.offset) / self.gain, weights)


@dataclass(frozen=True)
class Settings:
    """What `FLMRegressor` was asked for, checked against m features and K outputs."""

    num_subnets: int | None
    frequencies: str | np.ndarray  # (N, m)
    interactions: int
    period: np.ndarray  # (m,), NaN where free
    bounds: np.ndarray | None  # (m, 2)
    ridge: float | None
    noise: np.ndarray | None  # (K,)
    max_columns: int

    @classmethod
    def of(cls, asked: FLMRegressor, m: int, K: int) -> Settings:
        """Checked; what is not given is chosen by the number of features."""
        interactions = (m if m <= 6 else 2) if asked.interactions is None else asked.interactions
        period = asked.period if isinstance(asked.period, Iterable) else [asked.period] * m
        period = np.array([np.nan if p is None else p for p in period], float)
        if period.shape != (m,):
            raise InputError(f"`period` must be one number or one per feature ({m}); got {asked.period!r}.")
        bounds = None if asked.bounds is None else np.asarray(asked.bounds, float)
        if bounds is not None and (bounds.shape != (m, 2) or not (bounds[:, 0] < bounds[:, 1]).all()):
            raise InputError(f"`bounds` must be {m} pairs (low, high), low < high; got {asked.bounds!r}.")
        if asked.ridge is not None and not asked.ridge > 0:
            raise InputError(f"`ridge` must be positive or None; got {asked.ridge!r}.")
        noise = None if asked.noise is None else np.broadcast_to(np.asarray(asked.noise, float), (K,))
        if noise is not None and not (noise > 0).all():
            raise InputError(f"`noise` must be positive or None; got {asked.noise!r}.")
        return cls(
            None if asked.num_subnets is None else check_count("num_subnets", asked.num_subnets, 1),
            _frequencies(asked.frequencies, m),
            min(check_count("interactions", interactions, 1), m),
            period,
            bounds,
            asked.ridge,
            noise,
            check_count("max_columns", asked.max_columns, 1),
        )


def _frequencies(given: str | npt.ArrayLike, m: int) -> str | np.ndarray:
    if isinstance(given, str):
        if given not in _WAYS:
            raise InputError(f"`frequencies` must be one of {_WAYS} or an array (N, {m}); got {given!r}.")
        return given
    array = np.asarray(given, float)
    array = array[:, None] if array.ndim == 1 and m == 1 else array
    if array.ndim != 2 or array.shape[1] != m:
        raise InputError(f"`frequencies` must have shape (N, {m}); got {array.shape}.")
    return array


def fit_design(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray, asked: Settings, *, streaming: bool, listen: Listener
) -> tuple[Design, Compressed]:
    """Choose the frequencies; also what the design needs to know of these rows."""
    m, total = X.shape[1], weights.sum()
    lower, upper = (X.min(axis=0), X.max(axis=0)) if asked.bounds is None else asked.bounds.T
    scale = Scale.of(lower, upper)
    offset = weights @ y / total
    gain = np.sqrt(weights @ (y - offset) ** 2 / total)
    # A constant output, up to rounding, keeps its unit.
    gain = np.where(gain > 1e-14 * np.abs(offset), gain, 1.0)
    sample = Sample(scale(X), (y - offset) / gain, weights, None if asked.noise is None else (asked.noise / gain) ** 2)
    blank = Design("given", scale, offset, gain, Waves.of(np.zeros((1, m))), np.zeros(1), True, np.full(m, np.inf))
    half_periods = _half_periods(asked.period, scale)
    found: list[tuple[Design, Compressed | None]] = []
    # A line found in the first rows of a stream need not fit the rest of it: only on request.
    ways = ["lattice", "lines"] if m == 1 and not streaming else ["lattice"]
    if not isinstance(asked.frequencies, str):
        subnets, ways = asked.frequencies * scale.halfwidth, []
        found.append((replace(blank, waves=Waves.of(subnets), log_s=np.zeros(len(subnets))), None))
    elif asked.frequencies != "auto":
        ways = [asked.frequencies]
    for place, way in enumerate(ways):
        told = within(listen, place / len(ways), (place + 1) / len(ways))
        if way == "lattice":
            lattice = fit_lattice(
                sample,
                interactions=asked.interactions,
                half_periods=half_periods,
                num_subnets=asked.num_subnets,
                max_columns=asked.max_columns,
                listen=told,
            )
            prior = replace(blank, kind=way, waves=lattice.waves, log_s=lattice.log_s)
            found.append((replace(prior, reach=lattice.half_periods, evidence=lattice.evidence), lattice.data))
        else:
            search = LineSearch(sample, interactions=asked.interactions)
            num_lines = None if asked.num_subnets is None else asked.num_subnets - 1
            lines = search.run(num_lines, max_lines=max(1, min(64, asked.max_columns // 2**m)), listen=told)
            variance = search.noise_variance(lines)
            # Amplitudes of the size of the outputs, as in `lines`: one over the noise variance.
            log_s = np.full(len(lines.waves.subnets), np.log(min(1 / variance.max(), 2e18 / total)))
            settled = replace(blank, kind=way, waves=lines.waves, log_s=log_s, is_learned=False)
            joint, evidence = lines.covariance(variance), search.evidence(lines)
            found.append((replace(settled, joint=joint, evidence=evidence), None))
    design, data = max(found, key=lambda item: item[0].evidence)
    if asked.ridge is not None:
        # sum of squares + ridge |c|^2: prior variance 1 / ridge in units of the noise
        log_s = np.full(len(design.waves.subnets), -np.log(asked.ridge))
        design = replace(design, log_s=log_s, is_learned=False)
    return design, sample.compressed(design.waves) if data is None else data


def _half_periods(period: np.ndarray, scale: Scale) -> np.ndarray:
    """The periods in half-widths of the data, refused where they are shorter than it."""
    half_periods = period / (2 * scale.halfwidth)
    if (short := half_periods < 1 - 1e-9).any():
        j = int(np.argmax(short))
        raise InputError(
            f"`period` must be at least the extent of the data; got {period[j]:.6g} for feature {j}, whose values "
            f"span {2 * scale.halfwidth[j]:.6g}."
        )
    return half_periods
