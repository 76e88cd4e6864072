"""The ways of filling a standardized table: coupled windows of all channels, dense series per channel.

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

from flm.estimators.imputer.cross_spectrum import CrossSpectrum, filling_windows, patterns
from flm.estimators.imputer.dense import DenseSeries, DenseSpectrum
from flm.estimators.imputer.expectation_maximization import learn, lessons_of
from flm.estimators.imputer.imputation import UNCALIBRATED, Calibration
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
        """The model learned from a table."""

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(AbstractMethod):
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

    def fill(self, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Filled:
        """Channel by channel, each by one linear system and conjugate gradients."""
        filled = Filled(np.zeros(values.shape), np.zeros(values.shape))
        for c, (spectrum, column) in enumerate(zip(self.spectra, values.T, strict=True)):
            listen(Progress("filling", share=c / values.shape[1]))
            missing = np.isnan(column)
            if missing.all():
                filled.mean[:, c], filled.std[:, c] = spectrum.mean, np.sqrt(spectrum.variances.sum() + spectrum.noise)
            elif missing.any():
                series = DenseSeries(steps[~missing], column[~missing])
                filled.mean[missing, c], filled.std[missing, c] = series.fill(spectrum.stretched(steps), steps[missing])
        return filled


def _generator(seed: int) -> np.random.Generator:
    """Random numbers of our own stream: a user who hides values with the same seed must not hide the same ones."""
    return np.random.default_rng([seed, 20240607])


METHODS: dict[str, type[AbstractMethod]] = {method.name: method for method in (Coupled, Dense)}
