"""Figures of solutions: curves for one axis, heat maps for two, slices beyond, the error beside them, the spectrum."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.animation import FuncAnimation
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from flm.report.figures.style import COLORS, ERROR, house_style, limits, new_figure
from flm.results import Solution
from flm.series import AbstractSeries, ProductSeries
from flm.wording import InputError, NoSeriesError

MAX_UNKNOWNS = 4  # rows of panels; the others are named in the title
MOST_PIECES = 4  # whose series are listed and drawn
FLOOR = 1e-17  # errors below are drawn as this


def plot_solution(
    solution: Solution,
    *,
    axes: str | Sequence[str] | None = None,
    at: dict[str, float] | None = None,
    shape: int = 101,
    error: bool | None = None,
    spectrum: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """A figure of a solution: a row for each unknown, its error beside it where the exact solution is known.

    Args:
        solution: a `Solution`.
        axes: the two axes to draw for three axes and more; the first two by default, `t` last.
        at: where to cut the other axes; the middle by default.
        shape: grid points along each drawn axis.
        error: whether to draw |found - exact|; where it is known by default.
        spectrum: whether to add the amplitudes of the series.
        ax: axes to draw the first unknown into, and nothing else.

    Example:
        >>> import flm
        >>> figure = flm.solve(flm.problems.oscillator(), tol=1e-6).plot(spectrum=True)
    """
    drawn, cut = _view(solution, axes, at)
    if error and solution.exact is None:
        raise InputError("`error` must be False: the solution came without an exact one.")
    grid = _grid(solution, drawn, cut, shape)
    found = grid.columns(solution(grid.points, extrapolate=True))[:MAX_UNKNOWNS]
    if ax is not None:
        if error or spectrum:
            raise InputError("`ax` must be left out with `error` or `spectrum`, which need panels of their own.")
        with house_style():
            _draw(ax, grid, found[0])
            ax.set_title(_title(solution, solution.unknowns[0], cut))
        figure = ax.get_figure(root=True)
        assert figure is not None
        return figure
    exact = None
    if solution.exact is not None and error is not False:
        exact = grid.columns(solution.exact(grid.points))[:MAX_UNKNOWNS]
    names = solution.unknowns[:MAX_UNKNOWNS]
    panels = 1 + (exact is not None) + spectrum
    with house_style():
        figure = new_figure(4.1 * panels, 3.2 * len(names))
        for k, (name, row) in enumerate(zip(names, figure.subplots(len(names), panels, squeeze=False), strict=True)):
            title = _title(solution, name, cut)
            wrong = None if exact is None else np.abs(found[k] - exact[k])
            if len(drawn) == 1:
                _curves(row, grid, {"found": found[k]} | ({} if exact is None else {"exact": exact[k]}))
            else:
                _map(row[0], grid, found[k], **limits(found[k]))
                if wrong is not None:
                    shown, norm = _logarithmic(wrong)
                    _map(row[1], grid, shown, cmap=ERROR, norm=norm)
            row[0].set_title(title)
            if wrong is not None:
                row[1].set_title(f"|error|, largest {np.nanmax(wrong):.1e}")
            if spectrum:
                draw_spectrum(row[-1], solution[name] if len(solution.unknowns) > 1 else solution)
        notes = [f"{MAX_UNKNOWNS} of {len(solution.unknowns)} unknowns"] * (len(solution.unknowns) > MAX_UNKNOWNS)
        if solution.domain is not None and solution.domain.note:
            notes.append(solution.domain.note)
        if notes:
            figure.suptitle(textwrap.fill("; ".join(notes), 60), fontsize="small")
    return figure


def animate_solution(
    solution: Solution, axis: str = "t", *, at: dict[str, float] | None = None, frames: int = 60
) -> FuncAnimation:
    """A solution that moves along one axis: curves or maps of up to two others, on one scale.

    Example:
        >>> import flm
        >>> moving = flm.solve(flm.problems.heat(), tol=1e-4).animate("t", frames=3)
        >>> moving.save("heat.gif", writer="pillow")
    """
    if axis not in solution.axes or len(solution.axes) < 2:
        raise InputError(f"`axis` must be one of several axes, {', '.join(solution.axes)}; got {axis!r}.")
    drawn, cut = _view(solution, [a for a in solution.axes if a != axis][:2], at)
    begin, end = map(float, solution.reach[solution.axes.index(axis)])
    places = np.linspace(begin, end, frames)
    grids = [_grid(solution, drawn, cut | {axis: float(place)}, 81) for place in places]
    values = [grid.columns(solution(grid.points, extrapolate=True))[:MAX_UNKNOWNS] for grid in grids]
    names = solution.unknowns[:MAX_UNKNOWNS]
    with house_style():
        figure = new_figure(4.6 * len(names), 3.4)
        panels = list(np.ravel(figure.subplots(1, len(names))))
        every = [np.stack([one[k] for one in values]) for k in range(len(names))]
        artists = [_draw(panel, grids[0], v[0], v) for panel, v in zip(panels, every, strict=True)]

    def show(i: int) -> list[Any]:
        for panel, name, artist, v in zip(panels, names, artists, every, strict=True):
            panel.set_title(_title(solution, name, cut | {axis: float(places[i])}))
            flat = v[i] if len(drawn) == 1 or drawn[1] == "t" else v[i].T
            artist.set_ydata(flat) if len(drawn) == 1 else artist.set_array(flat)
        return artists

    return FuncAnimation(figure, show, frames=frames, interval=6000 / frames)


def _title(solution: Solution, name: str, cut: dict[str, float]) -> str:
    along = "".join(a * n for a, n in zip(solution.axes, solution.alpha or (), strict=False))
    label = f"{name}_{along}" if along else name
    return label + (f" at {', '.join(f'{a} = {v:.4g}' for a, v in cut.items())}" if cut else "")


def _draw(panel: Axes, grid: Grid, values: np.ndarray, every: np.ndarray | None = None) -> Any:
    """A curve or a map on the scale of all values; what was drawn."""
    scale = limits(values if every is None else every)
    if len(grid.lines) == 2:
        return _map(panel, grid, values, **scale)
    (line,) = panel.plot(grid.lines[0], values)
    low, high = float(scale["vmin"]), float(scale["vmax"])
    panel.set(xlabel=grid.axes[0], ylim=(low - 0.04 * (high - low), high + 0.04 * (high - low)))
    panel.margins(x=0)
    return line


def plot_spectrum(found: object) -> Figure:
    """The amplitudes of the series in a solution, model or estimator against the lengths of the frequency vectors."""
    with house_style():
        figure = new_figure(4.6, 3.2)
        draw_spectrum(figure.subplots(), found)
    return figure


def draw_spectrum(panel: Axes, found: object) -> None:
    """Amplitude against |frequency| (against frequency for one axis), one mark for each wave; series by color."""
    series = labeled_series(found)
    if not series:
        panel.text(0.5, 0.5, "not a plain Fourier series", ha="center", va="center", transform=panel.transAxes)
        panel.set_axis_off()
        return
    for color, (label, one) in zip(COLORS, series, strict=False):
        waves, cosine, sine = (np.asarray(v) for v in one._waves())
        size, length = np.hypot(cosine, sine), np.linalg.norm(waves, axis=1)
        marks = panel.stem(length[size > 0], size[size > 0], basefmt=" ", label=label)
        marks.markerline.set(markersize=3.0, color=color)
        marks.stemlines.set(linewidth=0.7, color=color, alpha=0.5)
    single = series[0][1].num_inputs == 1
    panel.set_yscale("log")
    panel.set(xlabel="frequency (rad)" if single else "|frequency| (rad)", ylabel="amplitude", title="spectrum")
    low, high = panel.get_ylim()
    panel.set_ylim(max(low, high * 1e-18), high)
    if len(series) > 1:
        panel.legend(ncols=1 if max(len(label) for label, _ in series) > 16 else 2)


def labeled_series(found: object) -> list[tuple[str, AbstractSeries]]:
    """Every series with one output inside a solution, a model, an estimator or a series; empty where there is none to read.

    The labels of a solution name the unknown, and the piece where there are several, of which the first few are taken.
    """
    if isinstance(found, Solution):
        try:
            every = [pair for unknown in found.unknowns for pair in _of_unknown(found, unknown)]
            return [(label, one) for label, one in every if _is_read(one)]
        except NoSeriesError:
            return []
    inside = (found, getattr(found, "series_", None), getattr(found, "series", None))
    series = next((s for s in inside if isinstance(s, AbstractSeries)), None)
    return [] if series is None or series._outputs or not _is_read(series) else [("series", series)]


def _is_read(series: AbstractSeries) -> bool:
    """Whether it has terms to list: thousands of products of many variables have none."""
    return not isinstance(series, ProductSeries) or series.is_short


def _of_unknown(solution: Solution, unknown: str) -> list[tuple[str, AbstractSeries]]:
    one = solution[unknown] if len(solution.unknowns) > 1 else solution
    pieces = one.pieces[:MOST_PIECES]
    names = lambda box: (
        f"{a} from {low:.4g} to {high:.4g}" for a, (low, high) in zip(box.axes, box.bounds, strict=True)
    )
    where = lambda box: f" for {', '.join(names(box))}" if len(pieces) > 1 else ""
    return [(f"{unknown}{where(box)}", series) for box, series in pieces]


def _view(
    solution: Solution, axes: str | Sequence[str] | None, at: dict[str, float] | None
) -> tuple[tuple[str, ...], dict[str, float]]:
    """The drawn axes and the fixed values of the others."""
    known = solution.axes
    axes = known[:2] if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    if not 1 <= len(axes) <= 2 or len(set(axes)) < len(axes) or not set(axes) <= set(known):
        raise InputError(f"`axes` must be one or two of {', '.join(known)}; got {axes!r}.")
    at = dict(at or {})
    if not set(at) <= set(known) - set(axes):
        raise InputError(f"`at` must fix axes that are not drawn ({', '.join(axes)} are); got {', '.join(at)}.")
    middle = {a: float(np.mean(b)) for a, b in zip(known, solution.reach, strict=True) if a not in axes}
    return axes, middle | {a: float(v) for a, v in at.items()}


class Grid(NamedTuple):
    """An even grid over the drawn axes, as points of the whole domain; `inside` says which of them lie in it."""

    axes: tuple[str, ...]
    lines: list[np.ndarray]
    points: np.ndarray
    inside: np.ndarray

    def columns(self, values: npt.ArrayLike) -> list[np.ndarray]:
        """The values of each unknown in the shape of the grid; NaN outside of the domain."""
        found = np.array(values, float).reshape(len(self.points), -1).T
        return [np.where(self.inside, column.reshape(self.inside.shape), np.nan) for column in found]


def _grid(solution: Solution, drawn: tuple[str, ...], cut: dict[str, float], shape: int) -> Grid:
    bounds = dict(zip(solution.axes, solution.reach, strict=True))
    full = (4 * shape,) if len(drawn) == 1 else (shape, shape)
    lines = [np.linspace(bounds[a][0], bounds[a][1], n) for a, n in zip(drawn, full, strict=True)]
    mesh = dict(zip(drawn, np.meshgrid(*lines, indexing="ij"), strict=True))
    points = np.stack([np.broadcast_to(mesh.get(a, cut.get(a, 0.0)), full).ravel() for a in solution.axes], axis=1)
    inside = np.ones(len(points), bool) if solution.domain is None else np.asarray(solution.domain.contains(points))
    return Grid(drawn, lines, points, inside.reshape(full))


def _curves(row: Sequence[Axes], grid: Grid, curves: dict[str, np.ndarray]) -> None:
    """What was found and, where it is known, the exact solution, with the error beside them."""
    (line,), look = grid.lines, {"found": {}, "exact": {"linestyle": "--", "color": "#222222", "linewidth": 0.9}}
    for name, values in curves.items():
        row[0].plot(line, values, label=name, **look[name])
    if "exact" in curves:
        row[0].legend()
        row[1].semilogy(line, np.maximum(np.abs(curves["found"] - curves["exact"]), FLOOR), color=COLORS[1])
    for panel in row[: len(curves)]:
        panel.set_xlabel(grid.axes[0])
        panel.margins(x=0)


def _logarithmic(wrong: np.ndarray) -> tuple[np.ndarray, LogNorm]:
    """An error from a floor on, and its scale of colors: at most six decades below the largest."""
    top = max(float(np.nanmax(wrong)), 10 * FLOOR)
    bottom = max(float(np.nanpercentile(wrong, 2)), top * 1e-6, FLOOR)
    return np.where(np.isnan(wrong), np.nan, np.maximum(wrong, FLOOR)), LogNorm(min(bottom, top / 10), top)


def _map(panel: Axes, grid: Grid, values: np.ndarray, **options: Any) -> Any:
    up = 0 if grid.axes[1] == "t" else 1  # time runs to the right, as in the paper; otherwise the first axis does
    across, shown = 1 - up, values if up == 0 else values.T
    image = panel.pcolormesh(grid.lines[across], grid.lines[up], shown, shading="gouraud", rasterized=True, **options)
    panel.set(xlabel=grid.axes[across], ylabel=grid.axes[up])
    ratio = np.ptp(grid.lines[0]) / np.ptp(grid.lines[1])
    if "t" not in grid.axes and 0.25 < ratio < 4:
        panel.set_aspect("equal")
    panel.grid(False)
    panel.figure.colorbar(image, ax=panel, pad=0.02)
    return image
