"""The paper's figures, drawn from stored runs: surfaces, trajectories, the ternary path, error maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from flm.paper.plan import RECIPE, SOLVER
from flm.report.figures.control import frame, ternary
from flm.report.figures.style import COLORS, ERROR, FIELD, house_style, new_figure

FLOOR = 1e-17  # errors below are drawn as this
LINES = {RECIPE: ":", SOLVER: "--"}


def surface_figure(surfaces: Mapping[str, Mapping[str, Any]]) -> Figure:
    """For each name a row: exact solution, approximation and absolute error over the domain, as surfaces."""
    with house_style():
        figure = new_figure(9.6, 3.1 * len(surfaces))
        for i, (name, surface) in enumerate(surfaces.items()):
            first, second = np.meshgrid(*(np.asarray(line) for line in surface["lines"]), indexing="ij")
            error = np.asarray(surface["error"])
            panels = {
                "exact": (surface["exact"], FIELD),
                name: (surface["found"], FIELD),
                f"|error|, largest {error.max():.1e}": (error, ERROR),
            }
            for j, (title, (values, colors)) in enumerate(panels.items()):
                axes: Any = figure.add_subplot(len(surfaces), 3, 3 * i + j + 1, projection="3d")
                axes.plot_surface(
                    first, second, np.asarray(values), cmap=colors, linewidth=0, rcount=51, ccount=51, rasterized=True
                )
                axes.set(xlabel=surface["axes"][0], ylabel=surface["axes"][1], title=title)
                axes.view_init(elev=24, azim=-128)
                axes.tick_params(labelsize=7, pad=0)
                axes.locator_params(nbins=5)
                axes.ticklabel_format(axis="z", style="sci", scilimits=(-2, 3))
                axes.zaxis.get_offset_text().set_size(7)
                axes.set_box_aspect(None, zoom=0.86)
    return figure


class Start(NamedTuple):
    """Stored runs of Rock–Paper–Scissors from one state, by their recipe and by our solver; one of them may be empty."""

    label: str
    recipe: Mapping[str, Any]
    solver: Mapping[str, Any]

    def reference(self, key: str) -> np.ndarray:
        """By Pontryagin's principle: both have it."""
        return np.asarray((self.solver or self.recipe)[key])

    def drawn(self) -> dict[str, Mapping[str, Any]]:
        """Those that are there, by name."""
        return {name: run for name, run in ((RECIPE, self.recipe), (SOLVER, self.solver)) if run}


def trajectory_figure(starts: Sequence[Start]) -> Figure:
    """For each start a row: states and control by Pontryagin's principle, their recipe and our solver."""
    with house_style():
        figure = new_figure(9.4, 2.7 * len(starts))
        for start, (left, right) in zip(starts, figure.subplots(len(starts), 2, squeeze=False), strict=True):
            t = start.reference("times")
            for i, states in enumerate(start.reference("reference_states").T):
                left.plot(t, states, color=COLORS[i], label=f"u{i + 1}")
            right.plot(t, start.reference("reference_control"), color=COLORS[0], label="Pontryagin")
            for name, run in start.drawn().items():
                left.plot(t, np.asarray(run["states"]), LINES[name], color="#222222", linewidth=1.1)
                right.plot(t, run["control"], LINES[name], color="#222222", linewidth=1.1, label=name)
            left.set(title=f"states from {start.label}", xlabel="t")
            right.set(title="control γ", xlabel="t")
            left.legend(ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
            right.legend()
    return figure


def ternary_figure(start: Start) -> Figure:
    """The path on the simplex from one start."""
    with house_style():
        figure = new_figure(5.2, 4.6)
        axes = figure.subplots()
        path = ternary(start.reference("reference_states"))
        axes.plot(*path.T, color=COLORS[0], linewidth=2.4, label="Pontryagin")
        for name, run in start.drawn().items():
            axes.plot(*ternary(run["states"]).T, LINES[name], color="#222222", linewidth=1.2, label=name)
        axes.plot(*path[0], "o", color=COLORS[0], markersize=5)
        frame(axes, ("u1", "u2", "u3"))
        axes.set_title(f"from {start.label}")
        axes.legend(loc="upper left")
    return figure


def disk_figure(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """For each method a row: percentage and absolute errors of the cost at the test states of the three disks."""
    with house_style():
        figure = new_figure(9.4, 4.0 * len(runs))
        grid = figure.subplots(len(runs), 2, squeeze=False)
        for (name, parts), row in zip(runs.items(), grid, strict=True):
            points = ternary(np.concatenate([part["starts"] for part in parts]))
            for axes, key, title in zip(
                row, ("percent", "absolute"), ("error of the cost, %", "absolute error"), strict=True
            ):
                values = np.maximum(np.concatenate([part[key] for part in parts]), FLOOR)
                norm = LogNorm(values.min(), max(values.max(), values.min() * 1.0001))
                shown = axes.scatter(*points.T, c=values, norm=norm, cmap=ERROR, s=16)
                figure.colorbar(shown, ax=axes, shrink=0.8)
                axes.set_title(f"{name}: {title}, mean {values.mean():.2g}")
                frame(axes, ("u1", "u2", "u3"))
    return figure
