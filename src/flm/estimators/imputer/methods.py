"""The models of a standardized table: coupled windows of all channels, dense series per channel.

Steps are times in units of the clock's step, increasing; values (n, C) have NaN where missing. Standard deviations are the
model's own; `blend` calibrates them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from flm.estimators.imputer.cross_spectrum import CrossSpectrum, filling_windows, patterns
from flm.estimators.imputer.dense import DenseSeries, DenseSpectrum
from flm.estimators.imputer.expectation_maximization import learn, merged, windows_of
from flm.estimators.imputer.holes import LONG
from flm.results.progress import Listener, Progress, within

if TYPE_CHECKING:
    from flm.estimators.imputer.estimator import FLMImputer

_WINDOW, _LEAST_WINDOW = 48, 8
_MAX_VALUES = 600  # in a window: a solve is cubic in them
_MAX_CHANNELS = 12  # coupled together; wider tables are split into groups of correlated channels


def in_samples(steps: np.ndarray) -> bool:
    """Whether stretches of the table are far apart, with no clock and no harmonics in common: three long breaks or more."""
    return int((np.diff(steps) > LONG).sum()) >= 3


class Filled(NamedTuple):
    """Means and standard deviations of a table (n, C); those of observed values mean nothing."""

    mean: np.ndarray
    std: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class Coupled:
    """Windowed coupled model: one cross-spectrum per group of channels."""

    window: int
    groups: tuple[np.ndarray, ...]
    spectra: tuple[CrossSpectrum, ...]
    num_rows: int

    @classmethod
    def learn(
        cls,
        steps: np.ndarray,
        values: np.ndarray,
        guess: np.ndarray,
        asked: FLMImputer,
        listen: Listener,
        rows: np.ndarray | None = None,
    ) -> Coupled:
        """Cut the table into windows and learn from them, or from those of some rows; `guess` is the table filled anyhow."""
        n = len(values)
        groups = _groups(values)
        widest = max(len(group) for group in groups)
        # At least about eight half-overlapping windows; a solve of at most 600 values.
        usual = max(min(_WINDOW, n // 4, _MAX_VALUES // widest), min(_LEAST_WINDOW, n))
        window = usual if asked.window is None else min(int(asked.window), n)
        found = []
        for i, group in enumerate(groups):
            told = within(listen, i / len(groups), (i + 1) / len(groups))
            windows, first = (windows_of(steps, v[:, group], float(window), rows) for v in (values, guess))
            found.append(learn(windows, first, window, listen=told))
        return cls(window=window, groups=groups, spectra=tuple(found), num_rows=n)

    def continued(self, steps: np.ndarray, values: np.ndarray, listen: Listener) -> Coupled:
        """Two more rounds on all windows of a table."""
        spectra = []
        for i, (group, spectrum) in enumerate(zip(self.groups, self.spectra, strict=True)):
            told = within(listen, i / len(self.groups), (i + 1) / len(self.groups))
            windows = windows_of(steps, values[:, group], float(self.window))
            spectra.append(learn(windows, [], self.window, spectrum, listen=told))
        return replace(self, spectra=tuple(spectra), num_rows=len(values))

    def merged(self, other: Coupled) -> Coupled:
        """The distribution of the amplitudes over the windows of two tables."""
        share = other.num_rows / (self.num_rows + other.num_rows)
        pairs = zip(self.spectra, other.spectra, strict=True)
        spectra = tuple(merged(old, new, share) for old, new in pairs)
        return replace(self, spectra=spectra, num_rows=self.num_rows + other.num_rows)

    def fill(self, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Filled:
        """One linear solve per window."""
        filled = Filled(np.full(values.shape, np.nan), np.full(values.shape, np.nan))
        for g, (group, spectrum) in enumerate(zip(self.groups, self.spectra, strict=True)):
            overlap = asked.overlap and not in_samples(steps)
            pieces = filling_windows(steps, values[:, group], float(self.window), overlap)
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
    """Channels in groups of at most twelve, correlated ones together."""
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
class Dense:
    """All harmonics of the record under a learned prior."""

    spectra: tuple[DenseSpectrum, ...]

    @classmethod
    def learn(cls, steps: np.ndarray, values: np.ndarray, asked: FLMImputer, listen: Listener) -> Dense:
        """The prior of every channel."""
        spectra, C = [], values.shape[1]
        for c, column in enumerate(values.T):
            seen = ~np.isnan(column)
            told = within(listen, c / C, (c + 1) / C)
            spectra.append(DenseSeries(steps[seen], column[seen]).learn(seed=asked.seed, listen=told))
        return cls(spectra=tuple(spectra))

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
