"""Cutting a table into windows: to learn from, to hold out, to fill."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flm.estimators.coupled import Window

_BLOCK = 2  # windows per held-out block; every fifth block is held out


@dataclass(frozen=True, eq=False)
class Cut:
    """A window, the rows of the table that it covers, in time order, and which of them it is there to fill."""

    window: Window
    rows: np.ndarray
    targets: np.ndarray


def cut(steps: np.ndarray, values: np.ndarray, start: float, width: float) -> Cut:
    """The rows with start <= steps < start + width; steps increasing, a millionth of tolerance against rounding."""
    first, last = np.searchsorted(steps, [start - 1e-6, start + width - 1e-6])
    rows = np.arange(first, last)
    block = values[rows].T
    times = steps[rows] - (start + (width - 1) / 2)
    observed = ~np.isnan(block)
    return Cut(Window(times, np.where(observed, block, 0.0), observed), rows, np.ones(len(rows), bool))


def training_windows(steps: np.ndarray, values: np.ndarray, width: float) -> tuple[list[Window], list[Window]]:
    """Windows every half width to learn from, and windows of held-out blocks that share no rows with them.

    A block is two windows long and every fifth one is held out; a table of fewer than five blocks holds out nothing.
    """
    end = steps[-1] + 1
    last = max(end - width, steps[0])
    starts = np.arange(steps[0], last + 1e-6, width / 2)
    blocks = int((end - steps[0]) // (_BLOCK * width))
    learn, held = [], []
    for start in starts:
        piece = cut(steps, values, start, width).window
        if not piece.observed.any():
            continue
        first = int((start - steps[0] + 1e-6) // (_BLOCK * width))
        final = int((start + width - steps[0] - 1e-6) // (_BLOCK * width))
        out = [block % 5 == 4 and blocks >= 5 for block in (first, final)]
        if all(out):
            held.append(piece)
        elif not any(out):
            learn.append(piece)
    return learn, held


def filling_windows(steps: np.ndarray, values: np.ndarray, width: float, phase: float, overlap: bool) -> list[Cut]:
    """Windows that together cover every row once as a target.

    Starts are `phase` plus multiples of half the width, as in training. With `overlap`, a window every half width inside
    the table, each row going to the window in whose middle it is; else windows side by side from the first row on.
    """
    half = width / 2
    first = phase + np.floor((steps[0] - phase) / half + 1e-6) * half
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
        piece = cut(steps, values, start, width)
        targets = owner[piece.rows] == i
        if not piece.window.observed[:, targets].all():
            pieces.append(Cut(piece.window, piece.rows, targets))
    return pieces
