"""The first rows fix scaling, trend, frequencies, prior and noise, by the largest evidence. Everything after is linear."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flm.estimators.evidence import Sample
from flm.estimators.regressor.lattice_fit import fit_lattice, relevant_features
from flm.estimators.regressor.lines import Lines, LineSearch
from flm.estimators.regressor.noise import Noise, likely_noise
from flm.estimators.regressor.settings import TRENDS, Settings, clock_step, half_periods
from flm.estimators.regressor.spectral_prior import SpectralPrior
from flm.estimators.regressor.wave_fit import WaveFit
from flm.estimators.regressor.wave_model import WaveModel
from flm.estimators.waves import Scale, Waves
from flm.results.progress import Listener, Progress, silent, within

_TREND_GAIN = 2.0  # nats that polynomials alone must explain before they are tried with waves
_SAME_RHO = 0.02  # correlations closer than this count as equal
_LEAST_ROWS = 50  # rows from which a kind of noise is found, at least
_REWEIGHTINGS = 8
_WORSE = 1.1  # factor by which growing noise may raise the mean square error of rows that are left out
_NOISE_FREE = 1e-12  # of the variance of the outputs
_MOST_LINES = 24  # beside a lattice
_NO_WORSE = 1.0  # nats a degree by which a trend may be behind another: they hang on the prior of its coefficients
_HOPELESS = 10.0  # nats: a lattice further behind is not tried with other trends
_MOVES = 3  # of the frequencies of lines beside a lattice
_NEAR = 20.0  # nats by which a model may be behind and still be heard beyond the record


def first_fit(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray, asked: Settings, *, streaming: bool, listen: Listener
) -> WaveFit:
    """The first fit, with trend, frequencies and noise chosen."""
    total = weights.sum()
    inputs = Scale.of(*((X.min(axis=0), X.max(axis=0)) if asked.bounds is None else asked.bounds.T))
    offset = weights @ y / total
    gain = np.sqrt(weights @ (y - offset) ** 2 / total)
    # A constant output, up to rounding, keeps its unit.
    outputs = Scale(offset, np.where(gain > 1e-14 * np.abs(offset), gain, 1.0))
    known = None if asked.noise is None else (asked.noise / outputs.halfwidth) ** 2
    sample = Sample(inputs(X), outputs(y), weights, known)
    search = _Search(asked, inputs, half_periods(asked.period, inputs), streaming)
    share = 0.6 if asked.kind is None and not streaming else 1.0
    model = search.best(sample, within(listen, 0.0, share))
    is_open = asked.noise is None and (asked.kind in ("student", "growing") or (asked.kind is None and not streaming))
    if is_open and model.noise.rho == 0 and total >= _LEAST_ROWS:
        model = search.with_noise(sample, model, within(listen, share, 1.0))
    return WaveFit(inputs, outputs, model)


@dataclass(frozen=True)
class _Search:
    """The ways in which frequencies may be chosen."""

    asked: Settings
    inputs: Scale
    half_periods: np.ndarray
    streaming: bool

    def best(self, sample: Sample, listen: Listener) -> WaveModel:
        """The model of largest evidence, over the ways to choose frequencies and the degrees of the trend."""
        asked, m = self.asked, sample.z.shape[1]
        degrees = [TRENDS[asked.trend]]
        if asked.trend == "auto" and not self.streaming and np.isnan(self.half_periods[0]):
            degrees = _likely_degrees(sample)
        # Where there may be a trend, a wave of which the record holds less than one and a half periods is not a line.
        slowest = 1.5 if degrees[-1] else 0.5
        # A line found in the first rows of a stream need not fit the rest: lines are then tried only on request.
        ways = ["lines", "lattice"] if m == 1 and not self.streaming else ["lattice"]
        if not isinstance(asked.frequencies, str) or asked.frequencies != "auto":
            ways = [asked.frequencies if isinstance(asked.frequencies, str) else "given"]
        found: list[WaveModel] = []
        best: tuple[WaveModel, SpectralPrior] | None = None  # of the lattices
        tasks = [(degree, way) for degree in degrees for way in ways]
        for place, (degree, way) in enumerate(tasks):
            told = within(listen, 0.9 * place / len(tasks), 0.9 * (place + 1) / len(tasks))
            hopeless = max((model.evidence for model in found), default=0.0) - _HOPELESS
            if way == "lines":
                found.append(self._lines(sample, degree, slowest, told))
            elif way == "given":
                waves = Waves.of(np.asarray(asked.frequencies) * self.inputs.halfwidth, degree)
                reach, data = np.full(m, np.inf), sample.compressed(waves)
                found.append(WaveModel("given", waves, np.zeros(waves.num_blocks), reach, data, is_learned=True))
            elif max((model.evidence for model in found if model.kind == way), default=np.inf) >= hopeless:
                lattice, prior = self._lattice(sample, degree, told)
                found.append(lattice)
                # With a trend it explains no less. If it does, the search was stuck, and goes on from the bands found without one.
                if best is not None and lattice.evidence < best[0].evidence - _NO_WORSE:
                    lattice, prior = self._lattice(sample, degree, told, start=best[1])
                    found.append(lattice)
                best = max(best or (lattice, prior), (lattice, prior), key=lambda item: item[0].evidence)
        if len(ways) == 2 and asked.num_subnets is None:
            listen(Progress("lines beside a lattice", share=0.9))
            found += self._both(sample, found)
        model = max(found, key=lambda model: model.evidence)
        if model.waves.degree:
            model = max(found, key=lambda model: model.evidence + _NO_WORSE * model.waves.degree)
        rivals = [other for other in found if other is not model and other.evidence > model.evidence - _NEAR]
        if asked.ridge is not None:
            # sum of squares + ridge |c|^2: prior variance 1 / ridge in units of the noise
            log_s = np.full(model.waves.num_blocks, -np.log(asked.ridge))
            model = replace(model, log_s=log_s, is_learned=False)
        return replace(model, rivals=tuple(rivals))

    def _lines(self, sample: Sample, degree: int, slowest: float, listen: Listener) -> WaveModel:
        """Lines in white noise or in correlated noise, whichever has the larger evidence or was asked for."""
        asked, m = self.asked, sample.z.shape[1]
        num_lines = None if asked.num_subnets is None else asked.num_subnets - 1
        most = max(1, min(256, asked.max_columns // 2**m))
        make = lambda sample: LineSearch(sample, interactions=asked.interactions, degree=degree, slowest=slowest)
        searches = [make(sample)]
        plain = m == 1 and bool((sample.weights == sample.weights[0]).all()) and asked.kind in (None, "ar1")
        rho = searches[0].correlation() if plain and sample.deviations is None else 0.0
        if rho * np.sqrt(len(sample.z)) > 4:  # more than four standard errors from zero
            colored = make(_colored(sample, rho))
            searches = [colored] if asked.kind == "ar1" else [*searches, colored]
        found = []
        for i, search in enumerate(searches):
            told = within(listen, i / len(searches), (i + 1) / len(searches))
            lines = search.run(num_lines, max_lines=most, listen=told)
            again = _colored(sample, _correlation(search.sample, lines)) if search.sample.rho else search.sample
            if abs(again.rho - search.sample.rho) > _SAME_RHO:  # their residual tells it better than the periodogram
                search = make(again)
                lines = search.run(num_lines, max_lines=most, listen=told)
            variance = search.noise_variance(lines)
            # Amplitudes as large as the outputs, as in `lines`: prior variance one over the noise variance.
            log_s = np.full(lines.waves.num_blocks, np.log(min(1 / variance.max(), 2e18 / sample.count)))
            rho, reach, data = search.sample.rho, np.full(m, np.inf), search.sample.compressed(lines.waves)
            model = WaveModel("lines", lines.waves, log_s, reach, data, evidence=search.evidence(lines))
            noise = Noise("ar1", rho) if rho else Noise()
            found.append((replace(model, noise=noise), lines, variance))
        model, lines, variance = max(found, key=lambda item: item[0].evidence)
        return replace(model, joint=lines.covariance(variance))

    def _lattice(
        self,
        sample: Sample,
        degree: int,
        listen: Listener,
        *,
        lines: np.ndarray | None = None,
        start: SpectralPrior | None = None,
    ) -> tuple[WaveModel, SpectralPrior]:
        m, kept = sample.z.shape[1], relevant_features(sample)
        known = sample if len(kept) == m else replace(sample, z=sample.z[:, kept])
        more = {"degree": degree, "lines": lines, "start": start, "listen": listen}
        model, prior = fit_lattice(known, self.asked, self.half_periods[kept], **more)
        if len(kept) == m:
            return model, prior
        # Waves of the features that were kept, written for all features; a trend of all features is no longer included.
        base, integers, reach = np.ones(m), np.zeros((len(model.waves.subnets), m)), np.full(m, np.inf)
        base[kept], integers[:, kept], reach[kept] = np.pi / model.reach, model.waves.integers, model.reach
        waves = Waves.on_lattice(base, integers)
        model = replace(model, waves=waves, reach=reach, data=sample.compressed(waves))
        bands = model.bands
        if bands is not None:
            bands = np.column_stack([bands[:, :4], kept[bands[:, 4].astype(int)]])
        return replace(model, log_s=model.log_s[: len(integers)], bands=bands), prior

    def _both(self, sample: Sample, found: list[WaveModel]) -> list[WaveModel]:
        """Lines and a lattice in one model, where there are lines and something besides; only lines that raise the evidence."""
        by_kind = lambda kind: max((model for model in found if model.kind == kind), key=lambda model: model.evidence)
        lines, lattice = by_kind("lines"), by_kind("lattice")
        if lines.noise.rho == 0 and lattice.evidence <= lines.evidence:
            return []
        subnets, search = lines.waves.subnets[1:], LineSearch(sample)
        cost = np.log(search.cells) + 0.5 * np.log(sample.count)
        while 0 < len(subnets) <= _MOST_LINES:
            start = self._lattice(sample, lines.waves.degree, silent, lines=subnets)[0]
            model = _refined(sample, start, search.highest)
            # Half the chi-squared of the two coefficients of each line: what it explains beyond the rest.
            paying = 0.5 * _line_chi_squared(model) > cost + np.log(sample.count)
            if paying.all():
                return [replace(model, evidence=start.evidence - cost * len(subnets))]
            subnets = subnets[paying]
        return []

    def with_noise(self, sample: Sample, model: WaveModel, listen: Listener) -> WaveModel:
        """The model, or one found again with heavy-tailed or growing noise, if the residuals suggest such noise."""
        fitted = model.values(sample.z)
        noise = likely_noise(sample, fitted, self.asked.kind)
        if noise.kind == "white" or ((sample.y - fitted) ** 2).mean() < _NOISE_FREE:  # rounding has no kind
            return model
        # Deviations and amplitudes in turn, at fixed frequencies; then other frequencies.
        weighed = sample
        for _ in range(_REWEIGHTINGS):
            variance = np.maximum(weighed.precisions @ (sample.y - fitted) ** 2 / sample.count, 1e-300)
            weighed = noise.weighed(sample, fitted, variance)
            fitted = replace(model, data=weighed.compressed(model.waves)).values(sample.z)
        found = self.best(weighed, listen)
        # Rows that were taken to be noisier must not be predicted worse for it; each is predicted from all others.
        if self.asked.kind is None and noise.kind == "growing":
            missed, before = ((part.left_out(rows) ** 2).mean() for part, rows in ((found, weighed), (model, sample)))
            if missed > _WORSE * before:
                return model
        noise = likely_noise(sample, found.values(sample.z), noise.kind)
        return replace(found, noise=noise, rivals=tuple(replace(rival, noise=noise) for rival in found.rivals))


def _refined(sample: Sample, model: WaveModel, highest: float) -> WaveModel:
    """The model after steps of its lines' frequencies, with the joint covariance."""
    model = replace(model.rescaled(), kind="both")
    noise, mean = model.posterior.variance, model.posterior.mean
    fit = Lines(sample, model.waves, highest, 0.0, noise, mean, sample.count * noise, prior=model.s).refined(_MOVES)
    model = replace(model, waves=fit.waves, data=sample.compressed(fit.waves))
    return replace(model, joint=fit.covariance(model.posterior.variance))


def _line_chi_squared(model: WaveModel) -> np.ndarray:
    """Chi-squared of the two coefficients of every line against zero, over the outputs, (L,)."""
    waves, joint, coefficients = model.waves, model.joint, model.posterior.mean
    assert joint is not None
    rows = np.flatnonzero(waves.is_line)
    pairs = np.stack([rows, rows + len(waves.group) - 1], axis=1)  # all waves but the constant have a sine
    found = np.zeros(len(rows))
    for k, c in enumerate(coefficients.T):
        index = k * len(coefficients) + pairs
        inverse = np.linalg.inv(joint[index[:, :, None], index[:, None, :]])
        found += np.einsum("li,lij,lj->l", c[pairs], inverse, c[pairs])
    return found


def _likely_degrees(sample: Sample) -> list[int]:
    """The degrees of a trend to try, larger ones only where polynomials alone explain something; one feature."""
    if sample.z.shape[1] > 1 or sample.count < 2 * _LEAST_ROWS / 5:
        return [0]
    root = np.sqrt(sample.precisions)[:, None]
    columns, y = Waves.of(np.zeros((1, 1)), 2).columns(sample.z) * root, sample.y * root
    energy = [(y - columns[:, :d] @ np.linalg.lstsq(columns[:, :d], y)[0]) ** 2 for d in (1, 3)]
    constant, trend = (np.maximum(part.sum(axis=0), 1e-300) for part in energy)
    return [0, 1, 2] if 0.5 * sample.count * np.log(constant / trend).sum() > _TREND_GAIN else [0]


def _correlation(sample: Sample, lines: Lines) -> float:
    """The correlation of largest likelihood in the residual of lines on a colored sample."""
    residual, candidates = sample.y - lines.waves.values(sample.z, lines.coefficients), np.arange(0.01, 0.99, 0.01)
    colored = [replace(sample, rho=float(rho)) for rho in candidates]
    energy = np.array([(s.white(residual, 0)[1:] ** 2).mean() for s in colored])  # the first correlated row is lost
    likelihood = np.array([s.log_scale for s in colored]) - 0.5 * sample.count * np.log(energy)
    return float(candidates[np.argmax(likelihood)])


def _colored(sample: Sample, rho: float) -> Sample:
    """The sample in order of time, with noise that is correlated from tick to tick."""
    order = np.argsort(sample.z[:, 0], kind="stable")
    z = sample.z[order]
    ticks = np.r_[np.inf, np.maximum(np.diff(z[:, 0]) / clock_step(z), 1e-3)]
    return replace(sample, z=z, y=sample.y[order], weights=sample.weights[order], rho=rho, ticks=ticks)
