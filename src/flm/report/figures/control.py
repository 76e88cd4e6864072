"""Figures of optimal control: paths on the simplex, states and controls against time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flm.control.solution import ControlSolution
from flm.references import PontryaginSolution, pontryagin
from flm.report.figures.style import BESIDE, COLORS, house_style, new_figure
from flm.wording import InputError

NUM_TIMES = 201  # points along a curve
STYLES = ("-", "--", ":", "-.")  # of the starts, on every panel; colors are of states or of controls
ALONE = "#444444"  # the color of what is not one of several states or controls

# Corners of the ternary picture: the first state at the lower left, the second at the lower right, the third on top.
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def ternary(x: npt.ArrayLike) -> np.ndarray:
    """Points of the plane (..., 2) for states (..., 3) on the simplex."""
    return np.asarray(x) @ _CORNERS


def plot_control(
    solution: ControlSolution,
    x0: npt.ArrayLike | None = None,
    *,
    reference: str | PontryaginSolution | None = None,
) -> Figure:
    """A figure of states and controls against time, with the paths of three states on the simplex; see `ControlSolution.plot`."""
    kept, names, controls = solution.starts, solution.starts.states, solution.controls
    if x0 is None:
        others = kept.spread(2, seed=0) if kept.dimension else kept.center[None][:0]
        x0 = kept.lift(np.concatenate([kept.center[None], others]))
    starts = np.atleast_2d(np.asarray(x0, float))
    if isinstance(reference, str):
        if reference != "pontryagin":
            raise InputError(f"`reference` must be 'pontryagin' or a reference solution; got {reference!r}.")
        reference = pontryagin(solution._problem, starts[0])
    if reference is not None and len(starts) > 1:
        raise InputError(f"`reference` must be drawn for one initial state; got {len(starts)}.")
    simplex = kept.on_simplex and len(names) == 3
    with house_style():
        figure = new_figure(9.2 + 3.4 * simplex, 3.2)
        axes = figure.subplots(1, 2 + simplex, width_ratios=[1.25, 1.25, 1.0][: 2 + simplex])
        for index, start in enumerate(starts):
            t = np.linspace(0.0, solution.horizon(start), NUM_TIMES)
            x, u = solution.trajectory(t, start), solution.control(t, start).reshape(NUM_TIMES, -1)
            for i, name in enumerate(names):
                look = {"color": COLORS[i % len(COLORS)], "linestyle": STYLES[index % len(STYLES)]}
                axes[0].plot(t, x[:, i], label=None if index else name, **look)
            for i, name in enumerate(controls):
                color = COLORS[i % len(COLORS)] if len(controls) > 1 else ALONE
                axes[1].plot(t, u[:, i], color=color, label=None if index else name, linestyle=look["linestyle"])
            if simplex:
                path = ternary(x)
                axes[2].plot(*path.T, color=ALONE, linestyle=look["linestyle"])
                axes[2].plot(*path[0], "o", color=ALONE, markersize=4)
        for bound in {*solution.law.lower.tolist(), *solution.law.upper.tolist()}:
            if np.isfinite(bound):
                axes[1].axhline(bound, color="#888888", linewidth=0.8, linestyle=":")
        if reference is not None:
            t = np.linspace(0.0, reference.horizon, NUM_TIMES)
            overlay(axes, t, reference.states(t), reference.controls(t), "reference", (0, (2, 3)))
        axes[0].set(title="states", xlabel="t")
        axes[1].set(title=", ".join(controls), xlabel="t")
        axes[0].legend(**BESIDE)
        if len(controls) > 1 or reference is not None:
            axes[1].legend(**BESIDE)
        if len(starts) > 1:
            told = [Line2D([], [], color=ALONE, linestyle=style) for style, _ in zip(STYLES, starts, strict=False)]
            words = [f"from {', '.join(f'{v:.3g}' for v in start)}" for start in starts[: len(told)]]
            figure.legend(told, words, loc="outside lower center", ncols=len(told))
        if simplex:
            frame(axes[2], names)
            axes[2].set_title("on the simplex")
    return figure


def overlay(
    axes: Sequence[Axes], t: Any, states: npt.ArrayLike, controls: npt.ArrayLike, label: str, style: Any
) -> None:
    """Draw another answer as thin lines of a style: states, controls and, on a third panel, the path on the simplex."""
    look = {"color": "#222222", "linewidth": 1.1, "linestyle": style}
    axes[0].plot(t, np.asarray(states), **look)
    axes[1].plot(t, np.asarray(controls), **look)[0].set_label(label)
    for panel in axes[2:]:
        panel.plot(*ternary(states).T, **look)


def frame(axis: Axes, names: Sequence[str]) -> None:
    """Draw the triangle with its center and named corners."""
    axis.plot(*np.vstack([_CORNERS, _CORNERS[:1]]).T, color="#444444", linewidth=1.0, zorder=0)
    axis.plot(*ternary(np.full(3, 1 / 3)), "+", color="#444444", markersize=7, zorder=0)
    for corner, name, (dx, dy) in zip(_CORNERS, names, [(-0.04, -0.06), (0.04, -0.06), (0.0, 0.04)], strict=True):
        axis.annotate(name, (corner[0] + dx, corner[1] + dy), ha="center", va="center")
    axis.set(aspect="equal", xlim=(-0.12, 1.12), ylim=(-0.13, 0.97))
    axis.set_axis_off()
