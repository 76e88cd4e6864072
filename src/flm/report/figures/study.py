"""Figures of studies: errors against sizes, convergence, and Demšar's diagrams of average ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flm.report.figures.style import COLORS, house_style, new_figure
from flm.study.statistics import FRIEDMAN, Comparison
from flm.wording import InputError

T = TypeVar("T")
FLOOR = 1e-34  # mean squares below are drawn as this


def size_figure(
    curves: Mapping[str, Mapping[str, Mapping[int, npt.ArrayLike]]], label: str = "sub-networks N"
) -> Figure:
    """The MSE against the size, mean and range over the seeds: curves[problem][model][size] are the scores."""

    def draw(axes: Axes, color: str, name: str, by_size: Mapping[int, npt.ArrayLike]) -> None:
        sizes = sorted(by_size)
        scores = [np.maximum(np.asarray(by_size[n], float), FLOOR) for n in sizes]
        if sizes:
            axes.plot(sizes, [v.mean() for v in scores], "o-", color=color, markersize=3.5, label=name)
            ends = [v.min() for v in scores], [v.max() for v in scores]
            axes.fill_between(sizes, *ends, color=color, alpha=0.2, linewidth=0)

    return _panels(curves, draw, yscale="log", xlabel=label, ylabel="MSE")


def convergence_figure(
    curves: Mapping[str, Mapping[str, Sequence[tuple[Sequence[int], Sequence[float]]]]],
) -> Figure:
    """The lowest loss so far against the epoch: curves[problem][model] are (epochs, losses), one for each seed."""

    def draw(axes: Axes, color: str, name: str, lines: Sequence[tuple[Sequence[int], Sequence[float]]]) -> None:
        for i, (epochs, losses) in enumerate(lines):
            axes.plot(epochs, losses, color=color, lw=0.8, alpha=0.7, label=None if i else name)

    return _panels(curves, draw, xscale="log", yscale="log", xlabel="epoch", ylabel="lowest loss so far")


def _panels(curves: Mapping[str, Mapping[str, T]], draw: Callable[[Axes, str, str, T], None], **labels: str) -> Figure:
    """A panel for each problem, two in a row, in which each model is drawn in its color."""
    down, across = math.ceil(len(curves) / 2), min(2, len(curves))
    with house_style():
        figure = new_figure(8.6 if across > 1 else 7.0, 2.9 * down)
        for panel, (title, models) in enumerate(curves.items(), 1):
            axes = figure.add_subplot(down, across, panel)
            for color, (name, one) in zip(COLORS * 9, models.items(), strict=False):
                draw(axes, color, name, one)
            axes.set(title=title, **labels)
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
    return figure


def critical_difference(comparison: Comparison, labels: Sequence[str], title: str = "") -> Figure:
    """Demšar's diagram: average ranks on a line, a bar over those not different from the best by Nemenyi's test."""
    if comparison.test != FRIEDMAN:
        raise InputError(f"`comparison` must be by {FRIEDMAN}; got one by {comparison.test}.")
    ranks = list(comparison.locations)
    k = len(ranks)
    order = np.argsort(ranks, kind="stable").tolist()
    left, right = order[: (k + 1) // 2], order[(k + 1) // 2 :][::-1]
    with house_style():
        figure = new_figure(8.0, 1.3 + 0.22 * len(left))
        axes = figure.add_subplot()
        axes.grid(False)
        axes.set_axis_off()
        axes.plot([1, k], [0, 0], color="#444444", lw=1)
        for tick in range(1, k + 1, math.ceil(k / 12)):
            axes.plot([tick, tick], [0, 0.25], color="#444444", lw=1)
            axes.text(tick, 0.35, f"{tick:g}", ha="center", va="bottom")
        pad = 0.06 * (k - 1)
        for side, members in ((1 - pad, left), (k + pad, right)):
            for depth, i in enumerate(members):
                color = COLORS[0] if comparison.kept[i] else "#777777"
                y = -1.0 - 0.7 * depth
                axes.plot([ranks[i], ranks[i], side], [0, y, y], color=color, lw=0.9)
                text = f"{labels[i]}  ({ranks[i]:.2f})"
                gap = 0.01 * (k - 1) * (-1 if side < 1 else 1)
                axes.text(side + gap, y, text, ha="right" if side < 1 else "left", va="center", color=color, fontsize=8)
        low = ranks[comparison.best]
        high = max(r for r, kept in zip(ranks, comparison.kept, strict=True) if kept)
        axes.plot([low, max(high, low + 0.02 * k)], [-0.4, -0.4], color=COLORS[0], lw=4, solid_capstyle="butt")
        cd = comparison.critical_difference
        axes.plot([1, min(1 + cd, k)], [1.6, 1.6], color=COLORS[1], lw=2)
        axes.text(1, 1.75, f"critical difference {cd:.2f}", va="bottom", color=COLORS[1], fontsize=8)
        axes.set_xlim(1 - 0.6 * (k - 1), k + 0.6 * (k - 1))
        axes.set_ylim(-1.0 - 0.7 * len(left), 2.8)
        axes.set_title(title)
    return figure
