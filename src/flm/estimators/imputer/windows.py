"""Cutting a table into windows: to learn from, to fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flm.estimators.imputer.cross_spectrum import Window
from flm.estimators.imputer.expectation_maximization import Lesson

_BLOCK = 2  # windows per block of cross-validation


class Filling(NamedTuple):
    """A window, and which of its rows it is there to fill."""

    window: Window
    targets: np.ndarray


def cut(steps: np.ndarray, values: np.ndarray, start: float, width: float) -> Window:
    """The rows with start <= steps < start + width; steps increasing, a millionth of tolerance against rounding."""
    first, last = np.searchsorted(steps, [start - 1e-6, start + width - 1e-6])
    block, observed = values[first:last].T, ~np.isnan(values[first:last].T)
    times = steps[first:last] - (start + (width - 1) / 2)
    return Window(times, np.where(observed, block, 0.0), observed, np.arange(first, last))


def lessons_of(steps: np.ndarray, values: np.ndarray, width: float, hide: np.ndarray) -> list[Lesson]:
    """Windows every half width to learn from; every fifth block of two widths is held out in cross-validation.

    The observed values to hide, (n, C), are the same in every window that covers them.
    """
    last = max(steps[-1] + 1 - width, steps[0])
    lessons = []
    for start in np.arange(steps[0], last + 1e-6, width / 2):
        window = cut(steps, values, start, width)
        if not window.observed.any():
            continue
        ends = np.array([start + 1e-6, start + width - 1e-6]) - steps[0]
        out = (ends // (_BLOCK * width)) % 5 == 4
        role = "held out" if out.all() else "between" if out.any() else "kept"
        lessons.append(Lesson(window, hide[window.rows].T, role))
    return lessons


def filling_windows(steps: np.ndarray, values: np.ndarray, width: float, overlap: bool) -> list[Filling]:
    """Windows that together fill every row once.

    Starts are multiples of half the width, as in training. With `overlap`, a window every half width inside
    the table, each row going to the window in whose middle it is; else windows side by side from the first row on.
    """
    half = width / 2
    first = np.floor(steps[0] / half + 1e-6) * half
    step = half if overlap else width
    starts = np.arange(first, steps[-1] + 1e-6, step)
    if overlap:
        # Windows that hang over an end of the table know less: dropped where another covers the same rows.
        inside = starts[(starts >= steps[0] - 1e-6) & (starts + width <= steps[-1] + 1 + 1e-6)]
        if len(inside):
            before = starts[starts < inside[0]][-1:] if steps[0] < inside[0] - 1e-6 else starts[:0]
            after = starts[starts > inside[-1]][:1] if steps[-1] + 1 > inside[-1] + width + 1e-6 else starts[:0]
            starts = np.concatenate([before, inside, after])
    centers = starts + (width - 1) / 2
    border = (centers[1:] + centers[:-1]) / 2 if overlap else starts[1:] - 1e-6
    owner = np.searchsorted(border, steps, side="right")
    pieces = []
    for i, start in enumerate(starts):
        window = cut(steps, values, start, width)
        targets = owner[window.rows] == i
        if not window.observed[:, targets].all():
            pieces.append(Filling(window, targets))
    return pieces
