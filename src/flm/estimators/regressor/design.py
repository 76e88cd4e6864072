"""What the first rows fix: scaling, frequencies, prior. Everything after is linear."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flm.estimators.evidence import Compressed, Sample
from flm.estimators.regressor.lattice_fit import fit_lattice
from flm.estimators.regressor.lines import LineSearch
from flm.estimators.regressor.settings import Settings
from flm.estimators.waves import Scale, Waves
from flm.results.progress import Listener, within
from flm.wording import InputError


@dataclass(frozen=True, eq=False)
class Design:
    """Scaling of inputs and outputs, waves, prior variances of the columns.

    Args:
        kind: "lines", "lattice" or "given".
        scale: x -> z.
        offset, gain: of the outputs, (K,).
        waves: the columns.
        log_s: prior variance per sub-network in units of the noise variance, (N,).
        is_learned: whether a common factor on it is found from the rows so far.
        reach: |z_j| beyond which the lattice only repeats itself: T_j, (m,); infinite for lines.
        joint: covariance of coefficients and frequencies, lines only.
        evidence: log marginal likelihood of the rows that fixed the frequencies.
    """

    kind: str
    scale: Scale
    offset: np.ndarray
    gain: np.ndarray
    waves: Waves
    log_s: np.ndarray
    is_learned: bool
    reach: np.ndarray
    joint: np.ndarray | None = None
    evidence: float = np.nan

    def sample(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Sample:
        """More rows, scaled as the first ones were."""
        return Sample(self.scale(X), (y - self.offset) / self.gain, weights)


def fit_design(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray, asked: Settings, *, streaming: bool, listen: Listener
) -> tuple[Design, Compressed]:
    """Choose the frequencies; also what the design needs to know of these rows."""
    m = X.shape[1]
    lower, upper = (X.min(axis=0), X.max(axis=0)) if asked.bounds is None else asked.bounds.T
    scale = Scale.of(lower, upper)
    total = weights.sum()
    offset = weights @ y / total
    gain = np.sqrt(weights @ (y - offset) ** 2 / total)
    # A constant output, up to rounding, keeps its unit.
    gain = np.where(gain > 1e-14 * np.abs(offset), gain, 1.0)
    sample = Sample(scale(X), (y - offset) / gain, weights, None if asked.noise is None else (asked.noise / gain) ** 2)
    blank = Design("given", scale, offset, gain, Waves.of(np.zeros((1, m))), np.zeros(1), True, np.full(m, np.inf))
    half_periods = _half_periods(asked.period, scale)
    found: list[tuple[Design, Compressed | None]] = []
    ways = asked.ways(m, streaming)
    for place, way in enumerate(ways):
        told = within(listen, place / len(ways), (place + 1) / len(ways))
        if way == "given":
            subnets = np.asarray(asked.frequencies) * scale.halfwidth
            found.append((replace(blank, waves=Waves.of(subnets), log_s=np.zeros(len(subnets))), None))
        elif way == "lattice":
            lattice = fit_lattice(
                sample,
                interactions=asked.interactions,
                half_periods=half_periods,
                num_subnets=asked.num_subnets,
                max_columns=asked.max_columns,
                listen=told,
            )
            prior = replace(blank, kind="lattice", waves=lattice.waves, log_s=lattice.log_s)
            found.append((replace(prior, reach=lattice.half_periods, evidence=lattice.evidence), lattice.data))
        else:
            num = None if asked.num_subnets is None else asked.num_subnets - 1
            search = LineSearch(sample, interactions=asked.interactions)
            lines = search.run(num_lines=num, max_lines=asked.max_lines(m), listen=told)
            # Amplitudes of the size of the outputs, as in `variable_projection`: one over the noise variance.
            log_s = np.full(len(lines.waves.subnets), np.log(min(1 / lines.variance.max(), 2e18 / total)))
            settled = replace(blank, kind="lines", waves=lines.waves, log_s=log_s, is_learned=False)
            found.append((replace(settled, joint=lines.covariance, evidence=lines.evidence), None))
    design, data = max(found, key=lambda item: item[0].evidence)
    if asked.ridge is not None:
        # sum of squares + ridge |c|^2: prior variance 1 / ridge in units of the noise
        log_s = np.full(len(design.waves.subnets), -np.log(asked.ridge))
        design = replace(design, log_s=log_s, is_learned=False)
    return design, sample.compressed(design.waves) if data is None else data


def _half_periods(period: np.ndarray, scale: Scale) -> np.ndarray:
    """The periods in half-widths of the data, refused where they are shorter than it."""
    half_periods = period / (2 * scale.halfwidth)
    if (half_periods < 1 - 1e-9).any():
        j = int(np.argmax(half_periods < 1 - 1e-9))
        raise InputError(
            f"`period` must be at least the extent of the data; got {period[j]:.6g} for feature {j}, whose values "
            f"span {2 * scale.halfwidth[j]:.6g}."
        )
    return half_periods
