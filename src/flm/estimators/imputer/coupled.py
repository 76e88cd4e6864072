"""The coupled model of a standardized table: its windows, learning their cross-spectrum, filling them.

Steps are times in units of the clock's step, increasing; values (n, C) have NaN where missing. Standard deviations are the
model's own, here as in `dense`; `blend` calibrates them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from flm.estimators.imputer.cross_spectrum import CrossSpectrum, Window, patterns, relaxed_round
from flm.results.progress import Listener, Progress, silent, within

_WINDOW, _LEAST_WINDOW = 48, 8
_MAX_VALUES = 600  # in a window: a solve is cubic in them
_MAX_CHANNELS = 12  # coupled together; wider tables are split into groups of correlated channels
_GUESSED_ROUNDS, _ROUNDS = 3, 4  # with a guess of the holes, and then without
_ENOUGH = 80.0  # windows' worth of observed values: the first rounds then take odd and even windows in turn
_MANY_ROUNDS = (12, 40)  # with too many holes to guess: a round gains about the share that is observed
_MANY = 0.3  # of the values missing: a guess of so many is worse than none


class Filled(NamedTuple):
    """Means and standard deviations of a table (n, C); they mean nothing where a value is observed."""

    mean: np.ndarray
    std: np.ndarray


def cut(steps: np.ndarray, values: np.ndarray, start: float, width: float) -> Window:
    """The rows with start <= steps < start + width, for increasing steps; a millionth is allowed for rounding."""
    first, last = np.searchsorted(steps, [start - 1e-6, start + width - 1e-6])
    block, observed = values[first:last].T, ~np.isnan(values[first:last].T)
    times = steps[first:last] - (start + (width - 1) / 2)
    return Window(times, np.where(observed, block, 0.0), observed, np.arange(first, last))


def windows_of(steps: np.ndarray, values: np.ndarray, width: float, rows: np.ndarray | None = None) -> list[Window]:
    """Windows every half width that have observed values; with a mask `rows`, those inside it, if there are any."""
    last = max(steps[-1] + 1 - width, steps[0])
    starts = np.arange(steps[0], last + 1e-6, width / 2)
    found = [cut(steps, values, start, width) for start in starts]
    found = [window for window in found if window.observed.any()]
    kept = [window for window in found if rows is None or rows[window.rows].all()]
    return kept or found


def filling_windows(
    steps: np.ndarray, values: np.ndarray, width: float, overlap: bool
) -> list[tuple[Window, np.ndarray]]:
    """Windows that together fill every row once, and the rows that each of them fills.

    Starts are multiples of half the width. With `overlap`, each row goes to the window whose middle it is in, if possible
    not to one that hangs over an end of the table and knows less; else windows are side by side from the first row on.
    """
    half = width / 2
    first = np.floor(steps[0] / half + 1e-6) * half
    starts = first + np.floor((steps - first) / width + 1e-6) * width  # of the window that fills a row
    if overlap:
        later = np.floor(steps / half + 1e-6) * half
        both = np.stack([later, later - half])  # the windows that a row is in
        hangs = (both < steps[0] - 1e-6) | (both + width > steps[-1] + 1 + 1e-6)
        away = np.abs(steps - both - (width - 1) / 2) + width * hangs
        starts = np.where(away[0] <= away[1] + 1e-6, *both)
    pieces = []
    for start in np.unique(starts):
        window = cut(steps, values, start, width)
        targets = starts[window.rows] == start
        if not window.observed[:, targets].all():
            pieces.append((window, targets))
    return pieces


@dataclass(frozen=True, eq=False, kw_only=True)
class Coupled:
    """Windowed coupled model: one cross-spectrum per group of channels."""

    window: int
    groups: tuple[np.ndarray, ...]
    spectra: tuple[CrossSpectrum, ...]
    num_rows: int = 0  # how many rows it was learned from
    earlier: tuple[CrossSpectrum, ...] = ()  # before the last four rounds

    @classmethod
    def start(cls, values: np.ndarray, window: int | None) -> Coupled:
        """A model that has learned nothing yet, with windows of `window` rows, or of a length that suits the table."""
        n, groups = len(values), _groups(values)
        # At least about eight half-overlapping windows; a solve of at most 600 values.
        usual = max(min(_WINDOW, n // 4, _MAX_VALUES // max(map(len, groups))), min(_LEAST_WINDOW, n))
        window = usual if window is None else min(int(window), n)
        return cls(window=window, groups=groups, spectra=tuple(CrossSpectrum.start(window, len(g)) for g in groups))

    def learned(
        self,
        steps: np.ndarray,
        values: np.ndarray,
        listen: Listener = silent,
        guess: np.ndarray | None = None,
        rows: np.ndarray | None = None,
    ) -> Coupled:
        """The model after four more rounds on the windows of a table or of some rows; a guess of the holes has rounds before them.

        Windows filled by a guess share one factorization and, where few values are missing, take the covariances
        most of the way; rounds on the observed values follow, of which the last four begin with the `earlier` spectra.
        """
        spectra, earlier = [], []
        for i, (group, spectrum) in enumerate(zip(self.groups, self.spectra, strict=True)):
            told = within(listen, i / len(self.groups), (i + 1) / len(self.groups))
            windows = windows_of(steps, values[:, group], self.window, rows)
            plan = [windows] * _ROUNDS
            if guess is not None:
                observed = float(np.mean([window.observed.mean() for window in windows]))
                plan = [windows_of(steps, guess[:, group], self.window, rows)] * _GUESSED_ROUNDS + plan * 2
                if observed < 1 - _MANY:
                    rounds = int(np.clip(round(5 / observed), *_MANY_ROUNDS))
                    parts = 2 if len(windows) * observed >= _ENOUGH else 1
                    plan = [windows[i % parts :: parts] for i in range(rounds - _ROUNDS)] + [windows] * (2 * _ROUNDS)
            for round_, some in enumerate(plan):
                if round_ == len(plan) - _ROUNDS:
                    earlier.append(spectrum)
                told(Progress(f"round {round_ + 1} of {len(plan)}", share=round_ / len(plan)))
                spectrum = relaxed_round(spectrum, some)
            spectra.append(spectrum)
        return replace(self, spectra=tuple(spectra), num_rows=len(values), earlier=tuple(earlier))

    def merged(self, other: Coupled) -> Coupled:
        """The model whose amplitudes have the mixture of both distributions, weighted by rows."""
        num_rows = self.num_rows + other.num_rows
        pairs = zip(self.spectra, other.spectra, strict=True)
        spectra = tuple(old.merged(new, other.num_rows / num_rows) for old, new in pairs)
        return replace(self, spectra=spectra, num_rows=num_rows)

    def fill(self, steps: np.ndarray, values: np.ndarray, overlap: bool, listen: Listener) -> Filled:
        """The table filled by one linear solve per window."""
        filled = Filled(np.full(values.shape, np.nan), np.full(values.shape, np.nan))
        for g, (group, spectrum) in enumerate(zip(self.groups, self.spectra, strict=True)):
            pieces = filling_windows(steps, values[:, group], self.window, overlap)
            done = 0
            for pattern, same in patterns(spectrum, [window for window, _ in pieces]):
                for window, targets in (pieces[i] for i in same):
                    listen(Progress("filling", share=(g + done / len(pieces)) / len(self.groups)))
                    done += 1
                    place = np.ix_(window.rows[targets], group)
                    for whole, part in zip(filled, pattern.fill(window), strict=True):
                        whole[place] = part.T[targets]
        return filled


def _groups(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Groups of at most twelve channels, correlated ones together."""
    C = values.shape[1]
    if C <= _MAX_CHANNELS:
        return (np.arange(C),)
    filled = np.where(np.isnan(values), 0.0, values)
    covariance = filled.T @ filled
    size = np.sqrt(np.maximum(covariance.diagonal(), 1e-300))
    distance = np.maximum(1 - np.abs(covariance) / size[:, None] / size, 0.0)
    np.fill_diagonal(distance, 0.0)
    order = leaves_list(linkage(squareform(distance, checks=False), "average"))
    return tuple(np.sort(part) for part in np.array_split(order, -(-C // _MAX_CHANNELS)))
