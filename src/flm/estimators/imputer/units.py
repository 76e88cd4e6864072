"""The units in which a table is standardized: steps of its clock, and scales on which channels vary evenly.

Counts, concentrations and flows vary in proportion to their size, and are filled better on a scale of roots or logarithms. A
channel without negative values takes such a scale where straight lines on it, over one row and over many, surely come nearer to
its values; one that spans orders of magnitude is also judged by relative errors, which its largest values do not decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from flm.estimators.periodogram import Clock
from flm.estimators.table import ROWS, Table

_SPANS = (1, 2, 4, 8, 16)  # half-lengths of the lines, in rows
_FEWEST = 30  # values between observed ones, to judge by lines of a span
# What lines on another scale err by, over those on the plain one: at most so much on average, so much in each span; and they
# must be better by so many standard errors.
_WORTH, _HARM, _SURE = 0.93, 1.03, 2.0
_MORE = 0.1  # of the mean is added to the values before their logarithms are taken
# A channel over orders of magnitude takes logarithms where relative errors, |a - b| / (a + b), are at most so large a share of
# plain ones; its absolute errors are those of a few values. So much of the smallest value is added: zeros may follow.
_MUCH, _LITTLE = 0.6, 1e-3
_MOST = 700.0  # e to this power is still a number


@dataclass(frozen=True)
class Warp:
    """An increasing map of values: their roots, the logarithms of a little more than the values, or the values themselves."""

    kind: str = ""  # or "root", "log"
    more: float = 0.0  # is added before logarithms are taken
    signed: bool = False  # whether values may be negative: the scale goes on evenly below zero

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The values on the scale."""
        if self.kind == "root":
            return np.sign(x) * np.sqrt(np.abs(x))
        return np.sign(x) * np.log1p(np.abs(x) / self.more) + np.log(self.more) if self.kind == "log" else x

    def back(self, z: np.ndarray) -> np.ndarray:
        """The values in their own units."""
        if not self.kind:
            return z
        above = z if self.kind == "root" else z - np.log(self.more)
        size = above**2 if self.kind == "root" else self.more * np.expm1(np.minimum(np.abs(above), _MOST))
        return np.where(above > 0, size, -size if self.signed else 0.0)


@dataclass(frozen=True, eq=False)
class Units:
    """The units in which a table is standardized."""

    step: float  # of the clock
    origin: float  # the first time where clocks are absolute, else zero
    center: np.ndarray  # of the channels, on their scales, (C,)
    spread: np.ndarray  # (C,)
    warps: tuple[Warp, ...] = ()  # the scales of the channels; none: as they are

    @classmethod
    def of(cls, table: Table) -> Units:
        """The means and deviations of the observed values; a channel that is constant up to rounding keeps its unit.

        The step of an irregular clock is its median gap.
        """
        gaps = np.diff(np.unique(table.times))
        step = Clock.of(table.times).step or (float(np.median(gaps)) if len(gaps) else 1.0)
        origin = float(table.times.min()) if table.clock != ROWS else 0.0
        values = table.values[table.order]
        steps = (table.times[table.order] - origin) / step
        warps = tuple(warp_of(steps, x) for x in values.T)
        warped = _warped(warps, values)
        center, spread = np.nanmean(warped, axis=0), np.nanstd(warped, axis=0)
        spread = np.where(spread > 1e-12 * np.abs(center), spread, 1.0)
        return cls(step, origin, center, spread, warps if any(warp.kind for warp in warps) else ())

    def suited(self, table: Table) -> Units:
        """The units for another table: a channel that is negative there may be filled with negative values."""
        below = np.any(table.values < 0, axis=0)
        return replace(
            self, warps=tuple(replace(w, signed=b) for w, b in zip(self.warps, below.tolist(), strict=False))
        )

    def standardized(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Times in steps from the origin, increasing, and the channels at these times."""
        origin = self.origin if table.clock != ROWS else 0.0
        values = _warped(self.warps, table.values[table.order])
        return (table.times[table.order] - origin) / self.step, (values - self.center) / self.spread

    def back(self, standardized: np.ndarray) -> np.ndarray:
        """Values of the channels (n, C) in their own units."""
        values = standardized * self.spread + self.center
        return (
            np.stack([warp.back(z) for warp, z in zip(self.warps, values.T, strict=True)], 1) if self.warps else values
        )


def _warped(warps: Sequence[Warp], values: np.ndarray) -> np.ndarray:
    return np.stack([warp(x) for warp, x in zip(warps, values.T, strict=True)], axis=1) if warps else values


def warp_of(steps: np.ndarray, x: np.ndarray) -> Warp:
    """The scale of a channel (n,) at these steps of its clock."""
    best, least, seen = Warp(), _WORTH, x[~np.isnan(x)]
    if not len(seen) or seen.min() < 0 or seen.std() <= 1e-9 * seen.max():
        return best
    for warp in (Warp("root"), Warp("log", _MORE * float(seen.mean()))):
        lines = _Lines.of(steps, x, warp)
        if lines.mean < least and lines.most < _HARM and lines.sure > _SURE:
            best, least = warp, lines.mean
    if seen.min() > 0:
        log = Warp("log", _LITTLE * float(seen.min()))
        absolute, relative = (_Lines.of(steps, x, log, relative=each) for each in (False, True))
        if relative.mean < _MUCH and relative.most < _HARM and relative.sure > _SURE and absolute.mean < 1:
            return log
    return best


class _Lines(NamedTuple):
    """What straight lines on another scale err by, over those on the plain one."""

    mean: float  # over the spans; infinite where too few values are observed to tell
    most: float  # of a span
    sure: float  # how many standard errors they are better by, on average

    @classmethod
    def of(cls, steps: np.ndarray, x: np.ndarray, warp: Warp, relative: bool = False) -> _Lines:
        ratios, sure = [], []
        for k in _SPANS:
            even = np.abs(steps[2 * k :] - steps[: -2 * k] - 2 * k) < 0.5
            ends, between = (x[: -2 * k], x[2 * k :]), x[k:-k]
            lines = [w.back((w(ends[0]) + w(ends[1])) / 2) for w in (Warp(), warp)]
            known = even & np.isfinite(lines[0] + between)
            sizes = [line + between if relative else np.ones(len(between)) for line in lines]
            old, new = (np.abs(l - between)[known] / size[known] for l, size in zip(lines, sizes, strict=True))
            if len(old) >= _FEWEST:
                gain = old - new
                ratios.append(new.mean() / max(old.mean(), 1e-300))
                sure.append(gain.mean() / max(gain.std() / np.sqrt(len(gain)), 1e-300))
        return cls(float(np.mean(ratios)), max(ratios), float(np.mean(sure))) if ratios else cls(np.inf, np.inf, 0.0)
