"""The paper's figures, drawn from stored runs: surfaces, trajectories with their path on the simplex, error maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from flm.paper.plan import RECIPE, SOLVER
from flm.report.figures.control import frame, overlay, ternary
from flm.report.figures.style import COLORS, ERROR, FIELD, house_style, new_figure

FLOOR = 1e-17  # errors below are drawn as this
LINES = {RECIPE: ":", SOLVER: "--"}
NAMES = ("u1", "u2", "u3")


def surface_figure(surfaces: Mapping[str, Mapping[str, Any]]) -> Figure:
    """For each name a row: exact solution, approximation and absolute error over the domain, as surfaces."""
    with house_style():
        figure = new_figure(9.6, 3.1 * len(surfaces))
        for i, (name, surface) in enumerate(surfaces.items()):
            grid = np.meshgrid(*(np.asarray(line) for line in surface["lines"]), indexing="ij")
            titles = ("exact", name, f"|error|, largest {np.max(surface['error']):.1e}")
            for j, (key, colors) in enumerate((("exact", FIELD), ("found", FIELD), ("error", ERROR))):
                axes: Any = figure.add_subplot(len(surfaces), 3, 3 * i + j + 1, projection="3d")
                look = {"cmap": colors, "linewidth": 0, "rcount": 51, "ccount": 51, "rasterized": True}
                axes.plot_surface(*grid, np.asarray(surface[key]), **look)
                axes.set(xlabel=surface["axes"][0], ylabel=surface["axes"][1], title=titles[j])
                axes.view_init(elev=24, azim=-128)
                axes.tick_params(labelsize=7, pad=0)
                axes.locator_params(nbins=5)
                axes.ticklabel_format(axis="z", style="sci", scilimits=(-2, 3))
                axes.zaxis.get_offset_text().set_size(7)
                axes.set_box_aspect(None, zoom=0.86)
    return figure


def trajectory_figure(starts: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Figure:
    """For each start a row: states, control and the path on the simplex by Pontryagin's principle, their recipe and our solver.

    starts[label][method] is a stored run; all runs of a start have the same reference.
    """
    with house_style():
        figure = new_figure(11.4, 2.9 * len(starts))
        grid = figure.subplots(len(starts), 3, squeeze=False, width_ratios=[1.25, 1.25, 1.0])
        for (label, runs), (left, right, simplex) in zip(starts.items(), grid, strict=True):
            one = next(iter(runs.values()))
            t, path = one["times"], ternary(one["reference_states"])
            for i, states in enumerate(np.transpose(one["reference_states"])):
                left.plot(t, states, color=COLORS[i], label=NAMES[i])
            right.plot(t, one["reference_control"], color=COLORS[0], label="Pontryagin")
            simplex.plot(*path.T, color=COLORS[0], linewidth=2.4)
            simplex.plot(*path[0], "o", color=COLORS[0], markersize=5)
            for name, run in runs.items():
                overlay((left, right, simplex), t, run["states"], run["control"], name, LINES[name])
            left.set(title=f"states from {label}", xlabel="t")
            right.set(title="control γ", xlabel="t")
            left.legend(ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
            right.legend()
            frame(simplex, NAMES)
    return figure


def disk_figure(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """For each method a row: percentage and absolute errors of the cost at the test states of the three disks."""
    with house_style():
        figure = new_figure(9.4, 4.0 * len(runs))
        for (name, parts), row in zip(runs.items(), figure.subplots(len(runs), 2, squeeze=False), strict=True):
            points = ternary(np.concatenate([part["starts"] for part in parts]))
            for axes, key, title in zip(row, ("percent", "absolute"), ("error of the cost, %", "error"), strict=True):
                values = np.maximum(np.concatenate([part[key] for part in parts]), FLOOR)
                norm = LogNorm(values.min(), max(values.max(), values.min() * 1.0001))
                shown = axes.scatter(*points.T, c=values, norm=norm, cmap=ERROR, s=16)
                figure.colorbar(shown, ax=axes, shrink=0.8)
                axes.set_title(f"{name}: {title}, mean {values.mean():.2g}")
                frame(axes, NAMES)
    return figure
