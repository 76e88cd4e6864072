"""The ways of filling a standardized table: coupled windows, dense and greedy series per channel, the paper's recipe.

Steps are times in units of the clock's step, increasing; values (n, C) have NaN where missing. Standard deviations are the
model's own; the imputer multiplies them by the factor of `calibration`, or of `own_calibration` for the table that was
learned from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from flm.estimators.imputer.calibration import UNCALIBRATED, Calibration
from flm.estimators.imputer.cross_spectrum import CrossSpectrum, patterns
from flm.estimators.imputer.dense import DenseSeries, DenseSpectrum
from flm.estimators.imputer.expectation_maximization import learn
from flm.estimators.imputer.paper_recipe import PaperFit, train_paper_recipe
from flm.estimators.imputer.windows import filling_windows, lessons_of
from flm.estimators.regressor.estimator import FLMRegressor
from flm.results.progress import Listener, Progress, within

if TYPE_CHECKING:
    from flm.estimators.imputer.estimator import FLMImputer

_WINDOW, _LEAST_WINDOW = 48, 8
_MAX_VALUES = 2000  # in a window: beyond, a solve takes seconds
_MAX_CHANNELS = 48  # coupled together; wider tables are split into groups of correlated channels
_HIDDEN_SHARE = 0.1  # of the observed values, to stop the learning and to calibrate the error bars
_HIDDEN = 2000  # most of them in the dense model


class Filled(NamedTuple):
    """Means and standard deviations: of a table (n, C) each, where those of observed values mean nothing; of a channel (n,)."""

    mean: np.ndarray
    std: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class AbstractMethod(ABC):
    """A model of tables: learned from one, it fills any."""

    name: ClassVar[str]
    calibration: Calibration = UNCALIBRATED  # of the error bars of other tables
    own_calibration: Calibration = UNCALIBRATED  # of those of the table that was learned from

    @classmethod
    @abstractmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Self:
        """From a table."""

    @abstractmethod
    def fill(self, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Filled:
        """Every value of a table given its observed ones."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Coupled(AbstractMethod):
    """Windowed coupled model: one cross-spectrum per group of channels."""

    name: ClassVar[str] = "coupled"
    window: int
    groups: tuple[np.ndarray, ...]
    spectra: tuple[CrossSpectrum, ...]

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Coupled:
        """Cut the table into windows and learn from them."""
        n = len(values)
        groups = _groups(values)
        widest = max(len(group) for group in groups)
        # At least about eight half-overlapping windows; a solve of at most 2,000 values.
        usual = max(min(_WINDOW, n // 4, _MAX_VALUES // widest), min(_LEAST_WINDOW, n))
        window = usual if asked.window is None else min(int(asked.window), n)
        hide = (_generator(asked.seed).random(values.shape) < _HIDDEN_SHARE) & ~np.isnan(values)
        found = []
        for i, group in enumerate(groups):
            lessons = lessons_of(steps, values[:, group], float(window), hide[:, group])
            told = within(listen, i / len(groups), (i + 1) / len(groups))
            found.append(learn(lessons, window, listen=told))
        own = Calibration.of(np.concatenate([learned.scores for learned in found]))
        fresh = np.concatenate([learned.fresh_scores for learned in found])
        return cls(
            window=window,
            groups=groups,
            spectra=tuple(learned.spectrum for learned in found),
            calibration=Calibration.of(fresh) if len(fresh) else own,
            own_calibration=own,
        )

    def fill(self, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Filled:
        """One linear solve per window."""
        filled = Filled(np.full(values.shape, np.nan), np.full(values.shape, np.nan))
        for g, (group, spectrum) in enumerate(zip(self.groups, self.spectra, strict=True)):
            pieces = filling_windows(steps, values[:, group], float(self.window), asked.overlap)
            done = 0
            for pattern, same in patterns(spectrum, [piece.window for piece in pieces]):
                for window, targets in (pieces[i] for i in same):
                    listen(Progress("filling", share=(g + done / len(pieces)) / len(self.groups)))
                    done += 1
                    place = np.ix_(window.rows[targets], group)
                    for whole, part in zip(filled, pattern.fill(window), strict=True):
                        whole[place] = part.T[targets]
        return filled


def _groups(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Channels in groups of at most 48, correlated ones together."""
    C = values.shape[1]
    if C <= _MAX_CHANNELS:
        return (np.arange(C),)
    filled = np.where(np.isnan(values), 0.0, values)
    covariance = filled.T @ filled
    size = np.sqrt(np.maximum(covariance.diagonal(), 1e-300))
    distance = 1 - np.abs(covariance) / size[:, None] / size
    np.fill_diagonal(distance, 0.0)
    order = leaves_list(linkage(squareform(np.maximum(distance, 0.0), checks=False), "average"))
    return tuple(np.sort(part) for part in np.array_split(order, -(-C // _MAX_CHANNELS)))


class AbstractChannels(AbstractMethod):
    """A model of each channel by itself."""

    @abstractmethod
    def fill_channel(self, c: int, times: np.ndarray, values: np.ndarray, at: np.ndarray) -> Filled:
        """Mean and standard deviation at other times, from the observed values of a channel."""

    def fill(self, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Filled:
        """Channel by channel."""
        filled = Filled(np.zeros(values.shape), np.zeros(values.shape))
        for c, column in enumerate(values.T):
            listen(Progress("filling", share=c / values.shape[1]))
            missing = np.isnan(column)
            if missing.any():
                found = self.fill_channel(c, steps[~missing], column[~missing], steps[missing])
                filled.mean[missing, c], filled.std[missing, c] = found
        return filled


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(AbstractChannels):
    """All harmonics of the record under a learned prior."""

    name: ClassVar[str] = "dense"
    spectra: tuple[DenseSpectrum, ...]

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Dense:
        """The prior of every channel; error bars calibrated on values hidden from it."""
        spectra, scores = [], [np.zeros(0)]
        rng, C = _generator(asked.seed), values.shape[1]
        for c, column in enumerate(values.T):
            observed = np.flatnonzero(~np.isnan(column))
            told = within(listen, c / C, (c + 1) / C)
            spectrum = DenseSeries(steps[observed], column[observed]).learn(seed=asked.seed, listen=told)
            spectra.append(spectrum)
            inner = observed[1:-1]
            if len(inner) >= 200:
                hidden = np.sort(rng.choice(inner, min(_HIDDEN, len(inner) // 10), replace=False))
                rest = np.setdiff1d(observed, hidden)
                mean, std = DenseSeries(steps[rest], column[rest]).fill(spectrum, steps[hidden])
                scores.append((mean - column[hidden]) / std)
        found = Calibration.of(np.concatenate(scores))
        return cls(spectra=tuple(spectra), calibration=found, own_calibration=found)

    def fill_channel(self, c: int, times: np.ndarray, values: np.ndarray, at: np.ndarray) -> Filled:
        """One linear system, by conjugate gradients."""
        spectrum = self.spectra[c]
        if not len(times):
            deviation = np.sqrt(spectrum.variances.sum() + spectrum.noise)
            return Filled(np.full(len(at), spectrum.mean), np.full(len(at), deviation))
        return Filled(*DenseSeries(times, values).fill(spectrum.stretched(np.append(times, at)), at))


@dataclass(frozen=True, eq=False, kw_only=True)
class Greedy(AbstractChannels):
    """A few lines per channel, found one after the other; their amplitudes are fitted to each table anew."""

    name: ClassVar[str] = "greedy"
    frequencies: tuple[np.ndarray, ...]

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Greedy:
        """Find the lines of every channel."""
        found, C = [], values.shape[1]
        for c, column in enumerate(values.T):
            seen = ~np.isnan(column)
            told = within(listen, c / C, (c + 1) / C)
            lines = FLMRegressor(asked.num_subnets, frequencies="lines", progress=told)
            found.append(lines.fit(steps[seen, None], column[seen]).frequencies_)
        return cls(frequencies=tuple(found))

    def fill_channel(self, c: int, times: np.ndarray, values: np.ndarray, at: np.ndarray) -> Filled:
        """Ridge regression on the lines, its strength by marginal likelihood."""
        if not len(times):
            return Filled(np.zeros(len(at)), np.ones(len(at)))
        fit = FLMRegressor(frequencies=self.frequencies[c]).fit(times[:, None], values)
        return Filled(*fit.predict(at[:, None], return_std=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class Paper(AbstractMethod):
    """The recipe of the paper's appendix, channel by channel; see `paper_recipe`."""

    name: ClassVar[str] = "paper"
    fits: tuple[PaperFit, ...]
    trained_until: float

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Paper:
        """Adam on the first three quarters of the observed values, stopped on the rest."""
        fits = []
        first, last = float(steps[0]), float(steps[-1])
        for c, column in enumerate(values.T):
            listen(Progress("Adam", share=c / values.shape[1]))
            seen, N = ~np.isnan(column), asked.num_subnets or 8
            fits.append(train_paper_recipe(steps[seen], column[seen], (first, last), num_subnets=N, seed=asked.seed))
        return cls(fits=tuple(fits), trained_until=first + 0.75 * (last - first))

    def fill(self, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Filled:
        """Read off the fit; the standard deviation is the root of the validation loss."""
        mean = np.stack([fit(steps) for fit in self.fits], axis=1)
        deviation = np.sqrt([fit.validation_loss for fit in self.fits])
        return Filled(mean, np.broadcast_to(np.where(np.isfinite(deviation), deviation, 1.0), values.shape))


def _generator(seed: int) -> np.random.Generator:
    """A stream of its own: a user who hides values with the same seed must not have hidden ours."""
    return np.random.default_rng([seed, 20240607])


METHODS: dict[str, type[AbstractMethod]] = {method.name: method for method in (Coupled, Dense, Greedy, Paper)}
