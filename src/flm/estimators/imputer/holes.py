"""Kinds of holes, hiding values as such holes, and error bars calibrated by kind.

A missing value has observed ones near or far on both sides, in its channel and in others. How much is known of it differs by
kind, and so do the best way to fill it and its error. What counts is the place within a hole and not the hole's length: values
that are hidden beside a hole make it longer, but are easy to fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from flm.wording import InputError

DEPTHS = np.array([0.8, 2.0, 4.5, 9.0])  # the largest depths of the kinds in a channel; one more kind is deeper
NUM_DEPTHS = len(DEPTHS) + 1
_SHARED = np.array([0.0, 1.5])  # the same for whole rows: some channel is observed, few rows lack all, many do
NUM_KINDS = NUM_DEPTHS * (len(_SHARED) + 1)
LONG = 35  # rows; a longer break of the clock begins another segment
_GAPS = (6, 24)  # rows of the gaps that are hidden
_OWN = 2 / 3  # of the gaps that are hidden are as long as the table's own
FEW = 100  # observed values
_BLOCK = 96  # rows that are hidden in one way
_SHARE = 0.08  # of single values that are hidden

_LEVELS = np.array([0.68, 0.95])
_TAILS = np.array([2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, np.inf])  # degrees of freedom that are tried
_LEAST = 1e-9  # of an error in the model's standard deviations: a constant is filled exactly
_PRIOR = 5.0  # gaps' worth of belief that a model does not expect too large errors
_ENOUGH = 60  # hidden values: with fewer, nothing is calibrated


def kinds_of(missing: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The kind of every hole, (n, C): how deep it lies among the missing values of its channel and among rows that lack all."""
    depth = depths_of(missing, steps)
    nothing = np.asarray(missing.all(axis=1))[:, None]
    shared = depths_of(nothing, steps) if missing.shape[1] > 1 else np.zeros(nothing.shape)
    return np.searchsorted(DEPTHS, depth) + NUM_DEPTHS * np.searchsorted(_SHARED, shared)


def depths_of(missing: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The depth of every hole: a b / (a + b), with a and b the rows to the observed values on both sides; zero where observed.

    That is the variance of a random walk between them: 1/2 for a single point, about 1 at the edge of a gap, a quarter of its
    length in the middle.
    """
    broken = np.r_[True, np.diff(steps) > LONG][:, None]  # another segment

    def rows_since(seen: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """Rows since the last observed one in the same segment, else infinity."""
        rows = np.arange(len(seen))[:, None]
        last = np.maximum.accumulate(np.where(seen, rows, -1), axis=0)
        return np.where(last >= np.maximum.accumulate(np.where(begins, rows, 0), axis=0), rows - last, np.inf)

    left = rows_since(~missing, broken)
    right = rows_since(~missing[::-1], np.r_[[[True]], broken[:0:-1]])[::-1]
    with np.errstate(divide="ignore"):
        return np.where(missing, 1 / np.maximum(1 / left + 1 / right, 1e-12), 0.0)


def in_samples(steps: np.ndarray) -> bool:
    """Whether the table consists of samples far apart, with no common clock and no common harmonics: three long breaks or more."""
    return int((np.diff(steps) > LONG).sum()) >= 3


def is_like(kinds: np.ndarray, kind: int) -> np.ndarray:
    """Which holes are as deep as this kind, whatever the other channels lack."""
    return kinds % NUM_DEPTHS == kind % NUM_DEPTHS


def gaps_by_kind(hidden: np.ndarray, kinds: np.ndarray, num_rows: int) -> list[float]:
    """The number of gaps that the hidden values of each kind come from: runs of rows in a channel or, if rows lack all, of rows."""
    found = []
    for kind in range(NUM_KINDS):  # the values that `Calibration.by_kind` takes
        sets = (hidden & (kinds == kind), hidden & is_like(kinds, kind))
        chosen = next((chosen for chosen in sets if chosen.sum() >= _ENOUGH), hidden)
        found.append(max(num_gaps(chosen, num_rows, kind >= NUM_DEPTHS), 1.0))
    return found


def num_gaps(hidden: np.ndarray, num_rows: int, shared: bool) -> float:
    """The number of runs of hidden values, by channel or of rows in which anything is hidden.

    Trials with a table of `num_rows` stand below each other. Values that several trials hide count once: runs are fewer by the
    share of such values.
    """
    runs = np.asarray(hidden.any(axis=1))[:, None] if shared else hidden
    distinct = runs.reshape(-1, num_rows, runs.shape[1]).any(axis=0).sum()
    return float(np.diff(runs.astype(int), axis=0, prepend=0).clip(0).sum() * distinct / max(int(runs.sum()), 1))


def _block(num_rows: int) -> int:
    """The rows of a stretch."""
    return min(_BLOCK, max(num_rows // 4, 8))


def stretches(num_rows: int) -> np.ndarray:
    """The stretch of every row: values are hidden in one way in each."""
    return np.arange(num_rows) // _block(num_rows)


def hide(observed: np.ndarray, rng: np.random.Generator, turn: int, whole: bool) -> np.ndarray:
    """Observed values to hide, (n, C): points everywhere, and by stretches of rows short gaps, long gaps, or long gaps of all.

    Most gaps are as long as one of the table's own, where it has any, but at most a third of a stretch. A table of few rows has
    shorter gaps and, if it is one `whole` record and not samples, a gap in every stretch. Neither its first nor its last row is
    hidden. In another `turn`, a stretch has another kind of gap. A single series of few values has gaps in every second stretch.
    """
    n, C = observed.shape
    hidden = rng.random((n, C)) < _SHARE
    block = _block(n)
    short, long = (max(1, min(gap, block // 3)) for gap in _GAPS)
    ways = ("points", "short", "long", "all") if C > 1 else ("points", "short", "long")
    if whole and n < 2 * len(ways) * block:  # in few stretches, gaps that give a kind the fewest values come first
        ways = ("all", "long", "all", "short") if C > 1 else ("long", "short")
        if C == 1 and observed.sum() < FEW:  # what is left must still show what the whole record does
            ways = ("long", "points", "short", "points")
    own, shared = _gap_lengths(~observed), _gap_lengths(~np.asarray(observed.any(axis=1))[:, None])
    for i, first in enumerate(range(0, n, block)):
        part, way = hidden[first : first + block], ways[(i + turn) % len(ways)]
        if way != "points":
            gap, there, lengths = short if way == "short" else long, observed[first : first + block], own
            if way == "all":
                there, lengths = np.asarray(there.any(axis=1))[:, None], shared
            if len(lengths) and rng.random() < _OWN:
                gap = min(int(rng.choice(lengths, p=lengths / lengths.sum())), block // 3)
            start = _starts(there, gap, rng)
            since = np.arange(len(part))[:, None] - start
            part |= (since >= 0) & (since < gap)
    hidden[[0, -1]] = False
    hidden &= observed
    # A channel keeps at least half of its values.
    hidden[:, hidden.sum(axis=0) > observed.sum(axis=0) / 2] = False
    return hidden


def _gap_lengths(missing: np.ndarray) -> np.ndarray:
    """How long the gaps between observed values are, in rows; holes of one or two rows are none."""
    change = np.diff(np.pad(missing, ((1, 1), (0, 0))).T.astype(int), axis=1)
    first, after = np.nonzero(change > 0)[1], np.nonzero(change < 0)[1]
    return (after - first)[(after - first > 2) & (first > 0) & (after < len(missing))]


def _starts(there: np.ndarray, gap: int, rng: np.random.Generator) -> np.ndarray:
    """By column of a stretch, a random first row of a gap, with room on both sides where possible.

    Beside a hole it would be a part of a longer gap.
    """
    sums = np.pad(np.cumsum(there, axis=0), ((1, 0), (0, 0)))
    starts = np.arange(max(len(there) - gap, 0) + 1)
    low, high = np.maximum(starts - gap // 2, 0), np.minimum(starts + gap + gap // 2, len(there))
    free = sums[high] - sums[low] == (high - low)[:, None]
    return np.argmax(rng.random(free.shape) + free, axis=0)


@dataclass(frozen=True)
class Calibration:
    """A factor on standard deviations, and a Student distribution for intervals of any level.

    The factor is chosen so that +-1 and +-1.96 standard deviations cover hidden values as nearly 68 % and 95 % as one
    factor can. The distribution has the hidden values' ratio of those two quantiles.
    """

    factor: float = 1.0  # on the model's standard deviations
    tail: float = np.inf  # degrees of freedom
    unit: float = 1.0  # scale of the distribution in units of the model's standard deviations

    @classmethod
    def of(cls, scores: np.ndarray) -> Calibration | None:
        """The calibration from the errors of hidden values in units of the model's standard deviations; None from too few."""
        size = np.maximum(np.abs(scores[np.isfinite(scores)]), _LEAST)
        if len(size) < _ENOUGH:
            return None
        sorted_ = np.sort(size)
        candidates = np.quantile(sorted_, np.linspace(0.5, 0.9, 401))
        covered = np.searchsorted(sorted_, np.outer(ndtri((1 + _LEVELS) / 2), candidates)) / len(sorted_)
        factor = float(candidates[np.argmin(np.abs(covered - _LEVELS[:, None]).max(axis=0))])
        quantiles = np.quantile(sorted_, _LEVELS)
        shapes = _student_quantile(_LEVELS[:, None], _TAILS)
        best = int(np.argmin(np.abs(np.log(shapes[1] / shapes[0]) - np.log(quantiles[1] / quantiles[0]))))
        return cls(factor, float(_TAILS[best]), float((quantiles / shapes[:, best]).mean()))

    @classmethod
    def by_kind(cls, scores: np.ndarray, kinds: np.ndarray) -> tuple[Calibration, ...]:
        """One calibration per kind; where hidden values of a kind are few, from kinds of the same depth, else from all."""
        pooled = cls.of(scores) or cls()
        exact = [cls.of(scores[kinds == kind]) for kind in range(NUM_KINDS)]
        return tuple(own or cls.of(scores[is_like(kinds, kind)]) or pooled for kind, own in enumerate(exact))

    def widest(self, others: Sequence[Calibration]) -> Calibration:
        """The largest factor and the widest 95 % interval of this calibration and others."""
        every = (self, *others)
        wide = max(every, key=lambda found: found.unit * float(_student_quantile(0.95, found.tail)))
        return replace(wide, factor=max(found.factor for found in every))

    def times(self, factor: float) -> Calibration:
        """The calibration for errors that are larger by a factor."""
        return replace(self, factor=self.factor * factor, unit=self.unit * factor)

    def known_from(self, gaps: float) -> Calibration:
        """The calibration if it comes from few gaps: errors within a gap are alike, so it is wider, with Student's tails."""
        wider = float(_student_quantile(0.68, gaps) / _student_quantile(0.68, np.inf))
        wider *= min(self.factor, 1.0) ** (-_PRIOR / (gaps + _PRIOR))
        return replace(self.times(wider), tail=min(self.tail, max(gaps, _TAILS[0])))

    def half_width(self, level: float) -> float:
        """Half-width of the interval of this level, in units of the calibrated standard deviation."""
        if not isinstance(level, Real) or not 0 < level < 1:
            raise InputError(f"`level` must be between 0 and 1; got {level!r}.")
        return float(_student_quantile(level, self.tail)) * self.unit / self.factor

    def spread(self, normal: np.ndarray) -> np.ndarray:
        """Standard normal numbers as numbers of this distribution, in units of the calibrated standard deviation."""
        if np.isinf(self.tail):
            return normal * self.unit / self.factor
        return stdtrit(self.tail, ndtr(normal)) * self.unit / self.factor


def _student_quantile(level: float | np.ndarray, degrees: float | np.ndarray) -> np.ndarray:
    """Quantile of the absolute value; infinite degrees: Gaussian."""
    finite = np.where(np.isinf(degrees), 1.0, degrees)
    return np.where(np.isinf(degrees), ndtri((1 + level) / 2), stdtrit(finite, (1 + level) / 2))
