"""The figure of a study: errors against sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from flm.report.figures.style import COLORS, house_style, new_figure

FLOOR = 1e-34  # mean squares below are drawn as this


def size_figure(
    curves: Mapping[str, Mapping[str, Mapping[int, npt.ArrayLike]]], label: str = "sub-networks N"
) -> Figure:
    """The MSE against the size, mean and range over the seeds: curves[problem][model][size] are the scores.

    There is a panel for each problem, two in a row, in which each model is drawn in its color.
    """
    down, across = math.ceil(len(curves) / 2), min(2, len(curves))
    with house_style():
        figure = new_figure(8.6 if across > 1 else 7.0, 2.9 * down)
        for panel, (title, models) in enumerate(curves.items(), 1):
            axes = figure.add_subplot(down, across, panel)
            for color, (name, by_size) in zip(COLORS * 9, models.items(), strict=False):
                sizes = sorted(by_size)
                scores = [np.maximum(np.asarray(by_size[n], float), FLOOR) for n in sizes]
                if sizes:
                    axes.plot(sizes, [v.mean() for v in scores], "o-", color=color, markersize=3.5, label=name)
                    ends = [v.min() for v in scores], [v.max() for v in scores]
                    axes.fill_between(sizes, *ends, color=color, alpha=0.2, linewidth=0)
            axes.set(title=title, yscale="log", xlabel=label, ylabel="MSE")
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
    return figure
