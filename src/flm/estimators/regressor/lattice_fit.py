"""Growing a lattice of frequencies under a spectral prior until the evidence stops rising.

Each round takes the lattice points that matter most under the current prior, compresses the data to one triangular
factor, and moves the prior to larger evidence; the next round has twice as many columns. Features of length scale l get the
period T = 1 + 1.5 l half-widths, so that the two ends of the data are correlated through the period no more than
through the data: a Fourier extension, without Gibbs phenomenon.

The size is right when the residual of the fit is white along every feature. Where it is not, a band is tried at its strongest
frequency, and once a rough prior on all columns; what raises the evidence is kept, and the residual is tested again. With one
feature, one band with a second harmonic is tried against all this at the end: a cycle that is not a sine, such as that of sunspots.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flm.estimators.evidence import Sample
from flm.estimators.periodogram import lattice_power
from flm.estimators.regressor.settings import Settings
from flm.estimators.regressor.spectral_prior import SpectralPrior, choose_lattice, covariance, maximize_evidence
from flm.estimators.regressor.wave_model import WaveModel
from flm.estimators.waves import Waves
from flm.results.progress import Listener, Progress, silent
from flm.series.tables import WaveTable

_PERIODS = np.array([1.25, 1.5, 2.0, 3.0, 4.0, 6.0])  # half the period, in half-widths of the data
_FIRST_BUDGET = 32
_ENOUGH = 1.0  # a gain of one nat is not worth twice the columns
_PATIENCE = 2
_STEPS, _LAST_STEPS = 30, 100  # of the search for the prior: while growing, and on the lattice kept
_FEW = 128  # columns; beyond, the prior of one feature is sought in fewer steps
_MOST_FEATURES = 60  # with more features, those that matter by themselves are kept
_MOST_BANDS = 4
_CLEAR = 6.0  # nats by which a frequency of the residual must stand out of white noise
_ROUGH, _SHORT = -3.5, -1.0  # logarithms of the length scales of a rough prior, and of one beside another trend


def snapped_periods(lengths: np.ndarray) -> np.ndarray:
    """T from a short list: for each length scale l, the first that is at least 1 + 1.5 l."""
    index = np.searchsorted(_PERIODS, 1 + 1.5 * lengths)
    return _PERIODS[np.minimum(index, len(_PERIODS) - 1)]


def fit_lattice(
    sample: Sample,
    asked: Settings,
    half_periods: np.ndarray,
    *,
    degree: int = 0,
    lines: np.ndarray | None = None,
    start: SpectralPrior | None = None,
    listen: Listener = silent,
) -> tuple[WaveModel, SpectralPrior]:
    """The lattice model of largest evidence, and its prior; `half_periods` are T_j where the user fixed them, NaN where free.

    A trend of degree `degree` and lines at given frequencies (L, m) may be part of the model. The search may start from the prior
    of another trend: its bands are kept, but with a trend of its own the rest may vary faster.
    """
    m, num_subnets = sample.z.shape[1], asked.num_subnets
    interactions = min(asked.interactions, m)
    screening = m > 2 and interactions > 1 and num_subnets is None
    bonus = None
    # More than four columns per row bring nothing new. Rows count by their weights: a weight is a number of repeats.
    most = int(min(asked.max_columns, max(_FIRST_BUDGET, 4 * sample.count)))
    budgets = [min(max(_FIRST_BUDGET, 4 * m + 1), most)]
    while budgets[-1] < most:
        budgets.append(min(2 * budgets[-1], most))
    if num_subnets is not None:
        budgets = [asked.max_columns] * 3
    squares = np.square(budgets, dtype=float)
    # The share of the work done before each round; the last fifth is for the lattice that is kept.
    work = 0.8 * (np.cumsum(squares) - squares) / squares.sum()

    def on_lattice(T: np.ndarray, prior: SpectralPrior, interactions: int, budget: int) -> WaveModel:
        limits = {"max_columns": budget, "num_subnets": num_subnets, "pair_bonus": bonus}
        waves = Waves.on_lattice(np.pi / T, choose_lattice(prior, np.pi / T, interactions, **limits), degree)
        waves = waves if lines is None else waves.with_lines(lines)
        return WaveModel("lattice", waves, prior.of_waves(waves)[0], T, sample.compressed(waves))

    def reach(prior: SpectralPrior) -> np.ndarray:
        return np.where(np.isnan(half_periods), snapped_periods(prior.rounded().lengths), half_periods)

    def cost(prior: SpectralPrior) -> float:  # of the search, for the numbers of all bands
        return 0.5 * prior.bands.size * np.log(max(sample.count, 2.0))

    def maximized(
        model: WaveModel, prior: SpectralPrior, most_steps: int = _STEPS, fewer: int = _STEPS // 2
    ) -> tuple[WaveModel, SpectralPrior]:
        steps = fewer if m == 1 and model.waves.num_columns > _FEW else most_steps
        prior, value = maximize_evidence(model.data, model.waves, prior, iterations=steps)
        return replace(model, log_s=prior.rounded().of_waves(model.waves)[0], evidence=value - cost(prior)), prior

    prior, best, smallest, failures = start or SpectralPrior.start(m), None, None, 0
    T = np.where(np.isnan(half_periods), 2.0, half_periods)
    if start is not None:
        prior = start.with_length(_SHORT)
        T, budgets, work = reach(prior), [most] * 2, np.array([0.0, 0.4])
    for round_, budget in enumerate(budgets):
        allowed = 1 if screening and round_ == 0 and len(budgets) > 1 else interactions
        listen(Progress(f"{budget} columns", share=float(work[round_])))
        model, prior = maximized(on_lattice(T, prior, allowed, budget), prior)
        gain = np.inf if best is None else model.evidence - best[0].evidence
        smallest = smallest or (model, prior)
        if best is None or gain > 0:
            best = (model, prior)
        failures = 0 if gain > _ENOUGH else failures + 1
        if failures >= _PATIENCE:
            break
        if screening and round_ == 0:
            bonus = _pair_bonus(model, sample)
        T = reach(prior)
    assert best is not None
    assert smallest is not None
    rough: set[int] = set()  # features
    while num_subnets is None and len(best[1].bands) < _MOST_BANDS:
        model, prior = best
        peak = _unexplained(model, sample)
        if peak is None:
            break
        frequency, axis = peak
        listen(Progress(f"a band beside {len(prior.bands)}", share=float(work[-1])))
        trials = [(prior.with_band(frequency, axis), min(2 * model.waves.num_columns + 2 * _FIRST_BUDGET, most))]
        if axis not in rough:
            rough.add(axis)
            trials.append((prior.with_length(_ROUGH if m == 1 else -np.log(frequency), axis), most))
        tried = [maximized(on_lattice(model.reach, start, interactions, budget), start) for start, budget in trials]
        found = max(tried, key=lambda item: item[0].evidence)
        if found[0].evidence < model.evidence + _ENOUGH:
            break
        best = found
    # A lattice that has grown interpolates and may hide a process that repeats: one band with overtones on the smallest.
    peak = _unexplained(smallest[0], sample) if m == 1 and num_subnets is None and start is None else None
    if peak is not None:
        T = reach(smallest[1])
        overtones = replace(smallest[1], harmonics=(1, 2)).with_band(*peak)
        budget = min(int(T[0] * sample.count) + 2 * _FIRST_BUDGET, most)
        found = maximized(on_lattice(T, overtones, 1, budget), overtones)
        best = found if found[0].evidence > best[0].evidence + _CLEAR else best
    listen(Progress(f"{best[0].waves.num_columns} columns kept", share=0.8))
    model, prior = maximized(*best, _LAST_STEPS, _STEPS)
    model, prior = model.rescaled(), prior.rounded()
    # The search for the prior sees no noise below its floor; for data without noise the lattice grows on under the prior found.
    while num_subnets is None and model.is_noise_free and model.waves.num_columns < most:
        larger = on_lattice(model.reach, prior, interactions, min(2 * model.waves.num_columns, most)).rescaled()
        if larger.waves.num_columns <= model.waves.num_columns or larger.evidence < model.evidence + _ENOUGH:
            break
        model = larger
    bands = _bands(prior, model) if len(prior.bands) else None
    return replace(model, evidence=model.evidence - cost(prior), bands=bands, is_learned=True), prior


def relevant_features(sample: Sample) -> np.ndarray:
    """All features or, of more than sixty, those whose lowest waves explain most of the outputs or of their squares.

    A feature that acts only together with others changes the spread of the outputs, and so their squares.
    """
    m = sample.z.shape[1]
    if m <= _MOST_FEATURES:
        return np.arange(m)
    root = np.sqrt(sample.weights)[:, None]
    goals = np.concatenate([sample.y, sample.y**2 - sample.weights @ sample.y**2 / sample.count], axis=1) * root
    explained = np.zeros(m)
    for j in range(m):
        Q = np.linalg.qr(WaveTable.at(np.pi / 2 * sample.z[:, j], np.arange(1, 4)).columns() * root)[0]
        explained[j] = ((Q.T @ goals) ** 2 / np.maximum((goals**2).sum(axis=0), 1e-300)).sum(axis=0).max()
    return np.sort(np.argsort(-explained, kind="stable")[:_MOST_FEATURES])


def _unexplained(model: WaveModel, sample: Sample) -> tuple[float, int] | None:
    """The frequency, and the feature, at which the residual of a fit stands out most from white noise; None if none does."""
    if (model.posterior.variance < 1e-9).all():
        return None
    residual, m = sample.y - model.values(sample.z), sample.z.shape[1]
    variance = np.maximum(sample.precisions @ residual**2 / sample.count, 1e-300)
    heights = []
    for scan in sample.scans:
        # Half the drop in chi-squared by one sinusoid: in white noise, for one output, a standard exponential number.
        height = 0.5 * (scan.power(residual) / variance).sum(axis=1)
        height[scan.frequencies < 1.5 * scan.cell] = 0.0  # slower variations are not a band
        heights.append(height)
    axis = int(np.argmax([height.max() for height in heights]))
    height, outputs = heights[axis], residual.shape[1]
    least = outputs * (np.log(max(m * sample.count / 2, 2.0)) + _CLEAR)
    # The residual along one feature is not white, either, if a fifth of all frequencies have much more power than the rest.
    parts = np.array([part.mean() for part in np.array_split(height[1:], 5) if len(part)] or [0.0]) / outputs
    uneven = m == 1 and parts.max() - 1 > 5 / np.sqrt(max(sample.count / 10, 1.0))
    clear = height.max() > least or uneven
    return (float(sample.scans[axis].frequencies[np.argmax(height)]), axis) if clear else None


def _bands(prior: SpectralPrior, model: WaveModel) -> np.ndarray:
    """The bands as lines: centers and amplitudes with errors, from the curvature of the evidence."""
    found, size = covariance(prior, model.data, model.waves), len(prior.theta)
    amplitudes = prior.band_amplitudes(model.waves)
    errors = np.sqrt(np.maximum(np.diagonal(found)[size - prior.bands.size :], 0.0)).reshape(prior.bands.shape)
    # a factor on the prior that was found later scales all amplitudes alike
    scale = np.exp((model.log_s[0] - prior.of_waves(model.waves)[0][0]) / 2)
    return np.column_stack([prior.centers, np.pi * errors[:, 1], scale * amplitudes, errors[:, 0] / 2, prior.axes])


def _pair_bonus(model: WaveModel, sample: Sample) -> np.ndarray:
    """How much of the residual of the single-feature model the lowest waves on each pair of features explain, (m, m).

    Without interaction the statistic is chi-squared with four degrees of freedom per output; its log over that mean is
    the bonus, doubled so that a clear signal outranks a length scale.
    """
    residual, m = sample.y - model.values(sample.z), sample.z.shape[1]
    weighted = residual * sample.weights[:, None]
    integers, squares = lattice_power(sample.z, weighted, np.pi / model.reach, np.ones(m, int), 2)
    pairs = np.count_nonzero(integers, axis=1) == 2
    ratio = (2 * squares[pairs] / sample.count / model.posterior.variance).mean(axis=1) / 4
    bonus = np.full((m, m), -20.0)
    first, second = np.nonzero(integers[pairs])[1].reshape(-1, 2).T
    bonus[first, second] = bonus[second, first] = 2 * np.log(np.maximum(ratio, 1e-4))
    return bonus
