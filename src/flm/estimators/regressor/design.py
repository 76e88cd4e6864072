"""What the first rows fix: scaling, frequencies, prior. Everything after is linear."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from flm.estimators.evidence import Compressed, Posterior, Sample, log_evidence
from flm.estimators.periodogram import Clock
from flm.estimators.regressor.lattice_fit import LatticeFit, fit_lattice, relevant_features
from flm.estimators.regressor.lines import Lines, LineSearch
from flm.estimators.regressor.noise import Noise, likely_noise
from flm.estimators.regressor.settings import TRENDS, Settings, half_periods
from flm.estimators.waves import Scale, Waves
from flm.results.progress import Listener, Progress, silent, within
from flm.wording import InputError

_TREND_GAIN = 2.0  # nats that polynomials alone must explain before they are tried with waves
_LEAST_ROWS = 50  # for a kind of noise
_NOISE_ROUNDS, _REWEIGHTINGS = 1, 8
_NOISE_FREE = 1e-12  # of the variance of the outputs
_MOST_LINES = 24  # beside a lattice
_HOPELESS = 10.0  # nats by which a lattice may be behind before other trends are tried with it
_MOVES = 3  # of the frequencies of lines beside a lattice
_NEAR = 20.0  # nats by which a design may be behind and still count beyond the record


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
    noise: Noise = field(default_factory=Noise)
    bands: np.ndarray | None = None  # of a lattice over one feature: see `LatticeFit`
    evidence: float = np.nan  # log marginal likelihood of the rows that fixed the frequencies
    rivals: tuple[tuple[Design, Compressed], ...] = ()  # that explain the rows about as well, over one feature

    def sample(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, data: Compressed | None) -> Sample:
        """More rows, scaled as the first ones were, and weighed by what `data` say of the noise."""
        found = Sample(self.scale(X), (y - self.offset) / self.gain, weights)
        if data is None or self.noise.kind in ("white", "ar1"):
            return found
        residual, fitted = _residual(found, self, data)
        variance = data.noise_variance(data.rest)
        return replace(found, deviations=self.noise.deviations(found.z, fitted, residual, variance))

    def refuse_beyond(self, lower: np.ndarray, upper: np.ndarray) -> None:
        """Refuse rows of this extent, (m,) each, where a lattice only repeats itself."""
        beyond = (np.abs(self.scale(np.stack([lower, upper]))) > self.reach).any(axis=0)
        if beyond.any():
            j = int(np.argmax(beyond))
            low, high = self.scale.center - self.scale.halfwidth, self.scale.center + self.scale.halfwidth
            raise InputError(
                f"`X` must stay near the extent that fixed the frequencies, [{low[j]:.6g}, {high[j]:.6g}] for feature {j}; "
                f"got {lower[j]:.6g} to {upper[j]:.6g}. Give `bounds`, the extent of all rows to come."
            )


def fit_design(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray, asked: Settings, *, streaming: bool, listen: Listener
) -> tuple[Design, Compressed]:
    """Choose trend, frequencies and noise; also what the design needs to know of these rows."""
    m, total = X.shape[1], weights.sum()
    lower, upper = (X.min(axis=0), X.max(axis=0)) if asked.bounds is None else asked.bounds.T
    scale = Scale.of(lower, upper)
    offset = weights @ y / total
    gain = np.sqrt(weights @ (y - offset) ** 2 / total)
    # A constant output, up to rounding, keeps its unit.
    gain = np.where(gain > 1e-14 * np.abs(offset), gain, 1.0)
    sample = Sample(scale(X), (y - offset) / gain, weights, None if asked.noise is None else (asked.noise / gain) ** 2)
    blank = Design("given", scale, offset, gain, Waves.of(np.zeros((1, m))), np.zeros(1), True, np.full(m, np.inf))
    search = _Search(asked, blank, half_periods(asked.period, scale), streaming)
    share = 0.6 if asked.kind is None and not streaming else 1.0
    design, data = search.best(sample, within(listen, 0.0, share))
    is_open = asked.noise is None and (asked.kind in ("student", "growing") or (asked.kind is None and not streaming))
    if is_open and design.noise.rho == 0 and total >= _LEAST_ROWS:
        design, data = search.with_noise(sample, design, data, within(listen, share, 1.0))
    return design, data


@dataclass(frozen=True)
class _Search:
    """The ways in which frequencies may be chosen."""

    asked: Settings
    blank: Design  # what holds of all of them
    half_periods: np.ndarray
    streaming: bool

    def best(self, sample: Sample, listen: Listener) -> tuple[Design, Compressed]:
        """The design of largest evidence, over the ways and the degrees of the trend."""
        asked, m = self.asked, sample.z.shape[1]
        degrees = [TRENDS[asked.trend]]
        if asked.trend == "auto" and not self.streaming:
            degrees = _likely_degrees(sample)
        # Where there may be a trend, a wave that the record does not hold one and a half times is no line.
        slowest = 1.5 if degrees[-1] else 0.5
        # A line found in the first rows of a stream need not fit the rest of it: only on request.
        ways = ["lines", "lattice"] if m == 1 and not self.streaming else ["lattice"]
        if not isinstance(asked.frequencies, str) or asked.frequencies != "auto":
            ways = [asked.frequencies if isinstance(asked.frequencies, str) else "given"]
        found: list[tuple[Design, Compressed | None]] = []
        tasks = [(degree, way) for degree in degrees for way in ways]
        for place, (degree, way) in enumerate(tasks):
            told = within(listen, 0.9 * place / len(tasks), 0.9 * (place + 1) / len(tasks))
            if way == "lines":
                found.append((_lines(sample, asked, self.blank, degree, slowest, told), None))
            elif way == "given":
                waves = Waves.of(np.asarray(asked.frequencies) * self.blank.scale.halfwidth, degree)
                found.append((replace(self.blank, waves=waves, log_s=np.zeros(waves.num_blocks)), None))
            elif not any(design.kind == way and design.evidence < _best(found) - _HOPELESS for design, _ in found):
                found.append(self._lattice(sample, degree, told))
        if len(ways) == 2 and asked.num_subnets is None:
            listen(Progress("lines beside a lattice", share=0.9))
            found += self._both(sample, found)
        design, data = max(found, key=lambda item: item[0].evidence) if len(found) > 1 else found[0]
        near = [(d, part) for d, part in found if d is not design and d.evidence > design.evidence - _NEAR]
        compressed = lambda d, part: part or _colored(sample, d.noise.rho).compressed(d.waves)
        design = replace(design, rivals=tuple((d, compressed(d, part)) for d, part in near))
        if asked.ridge is not None:
            # sum of squares + ridge |c|^2: prior variance 1 / ridge in units of the noise
            log_s = np.full(design.waves.num_blocks, -np.log(asked.ridge))
            design = replace(design, log_s=log_s, is_learned=False)
        return design, compressed(design, data)

    def _lattice(
        self, sample: Sample, degree: int, listen: Listener, lines: np.ndarray | None = None
    ) -> tuple[Design, Compressed]:
        m, kept = sample.z.shape[1], relevant_features(sample)
        lattice = fit_lattice(
            replace(sample, z=sample.z[:, kept]),
            interactions=min(self.asked.interactions, len(kept)),
            half_periods=self.half_periods[kept],
            num_subnets=self.asked.num_subnets,
            max_columns=self.asked.max_columns,
            degree=degree,
            lines=lines,
            listen=listen,
        )
        prior = replace(self.blank, kind="lattice", waves=lattice.waves, log_s=lattice.log_s, bands=lattice.bands)
        if len(kept) == m:
            return replace(prior, reach=lattice.half_periods, evidence=lattice.evidence), lattice.data
        # Waves of the features that were kept, in the space of all; a trend of all takes part no more.
        base, integers, reach = np.ones(m), np.zeros((len(lattice.waves.subnets), m)), np.full(m, np.inf)
        assert lattice.waves.base is not None
        base[kept], integers[:, kept], reach[kept] = lattice.waves.base, lattice.waves.integers, lattice.half_periods
        waves = Waves.on_lattice(base, integers)
        log_s = lattice.log_s[: len(integers)]
        widened = replace(prior, waves=waves, log_s=log_s, reach=reach, evidence=lattice.evidence)
        return widened, lattice.data if degree == 0 else sample.compressed(waves)

    def _both(
        self, sample: Sample, found: list[tuple[Design, Compressed | None]]
    ) -> list[tuple[Design, Compressed | None]]:
        """Lines and a lattice in one model, where there are lines and something besides: what pays of the lines."""
        by_kind = lambda kind: max((d for d, _ in found if d.kind == kind), key=lambda d: d.evidence)
        lines, lattice = by_kind("lines"), by_kind("lattice")
        subnets = lines.waves.subnets[1:]
        has_more = lines.noise.rho > 0 or lattice.evidence > lines.evidence
        while has_more and 0 < len(subnets) <= _MOST_LINES:
            design, data = self._lattice(sample, lines.waves.degree, silent, subnets)
            cost = np.log(LineSearch(sample).cells) + 0.5 * np.log(sample.count)
            fitted = _refined(sample, replace(design, kind="both"), data)
            # Half of chi-squared of the two coefficients of each line: what it explains that the rest does not.
            paying = 0.5 * _line_chi_squared(fitted) > cost + np.log(sample.count)
            if paying.all():
                return [(replace(fitted.design, evidence=design.evidence - cost * len(subnets)), fitted.data)]
            subnets = subnets[paying]
        return []

    def with_noise(
        self, sample: Sample, design: Design, data: Compressed, listen: Listener
    ) -> tuple[Design, Compressed]:
        """The same, or a design that was found again in noise that is heavy-tailed or grows, if residuals speak for it."""
        residual, fitted = _residual(sample, design, data)
        if (residual**2).mean() < _NOISE_FREE:  # rounding has no kind
            return design, data
        noise = likely_noise(sample.z, fitted, residual, sample.weights, self.asked.kind)
        if noise.kind == "white":
            return design, data
        for round_ in range(_NOISE_ROUNDS):
            # Deviations and amplitudes in turn, at frequencies that stay; then other frequencies.
            weighed = sample
            for _ in range(_REWEIGHTINGS):
                variance = np.maximum(weighed.precisions @ residual**2 / sample.count, 1e-300)
                deviations = noise.deviations(sample.z, fitted, residual, variance)
                weighed = replace(sample, deviations=deviations)
                residual, fitted = _residual(sample, design, weighed.compressed(design.waves))
            told = within(listen, round_ / _NOISE_ROUNDS, (round_ + 1) / _NOISE_ROUNDS)
            design, data = self.best(weighed, told)
            residual, fitted = _residual(sample, design, data)
            noise = likely_noise(sample.z, fitted, residual, sample.weights, noise.kind)
        rivals = tuple((replace(rival, noise=noise), part) for rival, part in design.rivals)
        return replace(design, noise=noise, rivals=rivals), data


class _Refined(NamedTuple):
    """Lines beside a lattice after a few steps of their frequencies."""

    design: Design
    data: Compressed
    coefficients: np.ndarray  # (p, K)


def _refined(sample: Sample, design: Design, data: Compressed) -> _Refined:
    """Gauss-Newton steps of the lines' frequencies, at most half a cell each while evidence rises, and the joint covariance."""
    s = np.exp(LatticeFit(design.waves, design.log_s, design.reach, data).rescaled().log_s)
    evidence = lambda data: log_evidence(data, s[design.waves.column_subnet])[0]
    highest = LineSearch(sample).highest
    for _ in range(_MOVES):
        posterior = Posterior.of(data, s[design.waves.column_subnet])
        fit = Lines(sample, design.waves, highest, 0.0, posterior.variance, posterior.mean, posterior.variance)
        joint = fit.covariance(posterior.variance, s[design.waves.column_subnet])
        residual = sample.y - design.waves.values(sample.z, posterior.mean)
        slopes = design.waves.columns_and_slopes(sample.z, posterior.mean)[1]  # (n, K, N)
        gradient = np.einsum("nk,nkf->f", sample.precisions[:, None] * residual / posterior.variance, slopes)
        place = len(joint) - design.waves.subnets.size
        step = joint[place:, place:] @ gradient
        waves = design.waves.moved(design.waves.subnets + np.clip(step, -np.pi / 2, np.pi / 2)[:, None])
        design = replace(design, joint=joint, log_s=np.log(s), is_learned=False)
        moved = sample.compressed(waves)
        if evidence(moved) <= evidence(data):
            break
        design, data = replace(design, waves=waves), moved
    return _Refined(design, data, posterior.mean)


def _line_chi_squared(fitted: _Refined) -> np.ndarray:
    """Of the two coefficients of every line against zero, over the outputs, (L,)."""
    waves, joint = fitted.design.waves, fitted.design.joint
    assert joint is not None
    p, K = fitted.coefficients.shape
    rows = np.flatnonzero(waves.is_line)
    pairs = np.stack([rows, rows + len(waves.group) - 1], axis=1)  # all waves but the constant have a sine
    found = np.zeros(len(rows))
    for k in range(K):
        index = k * p + pairs
        c = fitted.coefficients[pairs, k]
        found += np.einsum("li,lij,lj->l", c, np.linalg.inv(joint[index[:, :, None], index[:, None, :]]), c)
    return found


def _best(found: list[tuple[Design, Compressed | None]]) -> float:
    return max(design.evidence for design, _ in found)


def _residual(sample: Sample, design: Design, data: Compressed) -> tuple[np.ndarray, np.ndarray]:
    """What the design's fit to these data leaves over of the rows, and the fit itself, (n, K) each."""
    log_s = design.log_s
    if design.is_learned:
        log_s = LatticeFit(design.waves, log_s, design.reach, data).rescaled().log_s
    mean = Posterior.of(data, np.exp(log_s)[design.waves.column_subnet]).mean
    fitted = design.waves.values(sample.z, mean)
    return sample.y - fitted, fitted


def _likely_degrees(sample: Sample) -> list[int]:
    """Degrees of a trend to try, the larger ones only where polynomials alone explain something; one feature."""
    if sample.z.shape[1] > 1 or sample.count < 2 * _LEAST_ROWS / 5:
        return [0]
    columns = Waves.of(np.zeros((1, 1)), 2).columns(sample.z) * np.sqrt(sample.precisions)[:, None]
    y = sample.y * np.sqrt(sample.precisions)[:, None]
    energy = [(y - columns[:, :d] @ np.linalg.lstsq(columns[:, :d], y)[0]) ** 2 for d in (1, 3)]
    constant, trend = (np.maximum(part.sum(axis=0), 1e-300) for part in energy)
    gain = 0.5 * sample.count * np.log(constant / trend).sum()
    return [0, 1, 2] if gain > _TREND_GAIN else [0]


def _colored(sample: Sample, rho: float) -> Sample:
    """The sample in order of time, with noise that is correlated from tick to tick."""
    if rho == 0:
        return sample
    order = np.argsort(sample.z[:, 0], kind="stable")
    z = sample.z[order]
    gaps = np.diff(z[:, 0])
    step = Clock.of(z[:, 0]).step or float(np.median(gaps[gaps > 0], axis=0))
    ticks = np.concatenate([[np.inf], np.maximum(gaps / step, 1e-3)])
    return replace(sample, z=z, y=sample.y[order], weights=sample.weights[order], rho=rho, ticks=ticks)


def _lines(sample: Sample, asked: Settings, blank: Design, degree: int, slowest: float, listen: Listener) -> Design:
    """Lines in white noise or in correlated noise, whichever has the larger evidence or was asked for."""
    m, total = sample.z.shape[1], sample.count
    num_lines = None if asked.num_subnets is None else asked.num_subnets - 1
    most = max(1, min(256, asked.max_columns // 2**m))
    make = lambda sample: LineSearch(sample, interactions=asked.interactions, degree=degree, slowest=slowest)
    searches = [make(sample)]
    plain = m == 1 and bool((sample.weights == sample.weights[0]).all()) and asked.kind in (None, "ar1")
    rho = searches[0].correlation() if plain and sample.deviations is None else 0.0
    if rho * np.sqrt(len(sample.z)) > 4:  # more than four standard errors of none
        searches.append(make(_colored(sample, rho)))
    if asked.kind == "ar1" and len(searches) > 1:
        del searches[0]
    found = []
    for i, search in enumerate(searches):
        lines = search.run(num_lines, max_lines=most, listen=within(listen, i / len(searches), (i + 1) / len(searches)))
        found.append((search.evidence(lines), search, lines))
    evidence, search, lines = max(found, key=lambda item: item[0])
    variance = search.noise_variance(lines)
    # Amplitudes of the size of the outputs, as in `lines`: one over the noise variance.
    log_s = np.full(lines.waves.num_blocks, np.log(min(1 / variance.max(), 2e18 / total)))
    rho = search.sample.rho
    settled = replace(blank, kind="lines", waves=lines.waves, log_s=log_s, is_learned=False)
    settled = replace(settled, noise=Noise("ar1", rho) if rho else Noise())
    return replace(settled, joint=lines.covariance(variance), evidence=evidence)
