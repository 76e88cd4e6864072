"""Figures of solutions: curves for one axis, heat maps for two, slices beyond, the error beside them, the spectrum."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.animation import FuncAnimation
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from flm.report.facts import labeled_series
from flm.report.figures.style import BESIDE, COLORS, ERROR, house_style, limits, new_figure
from flm.results import Solution
from flm.wording import InputError

MAX_UNKNOWNS = 4  # rows of panels; the others are named in the title
FLOOR = 1e-17  # smaller errors are drawn as this


def plot_solution(
    solution: Solution,
    *,
    axes: str | Sequence[str] | None = None,
    at: Mapping[str, float] | None = None,
    shape: int = 101,
    error: bool | None = None,
    spectrum: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """A figure of a solution; `Solution.plot` says what the arguments mean."""
    if error and solution.exact is None:
        raise InputError("`error` must be False: the solution came without an exact one.")
    if ax is not None and (error or spectrum):
        raise InputError("`ax` must be left out with `error` or `spectrum`, which need panels of their own.")
    grid, names = _grid(solution, axes, at or {}, shape), solution.unknowns[:MAX_UNKNOWNS]
    found = grid.columns(solution(grid.points, extrapolate=True))
    with house_style():
        if ax is not None:
            _draw(ax, grid, found[0])
            ax.set_title(_title(solution, names[0], grid))
            return ax.get_figure(root=True)  # pyright: ignore[reportReturnType]
        exact = None
        if solution.exact is not None and error is not False:
            exact = grid.columns(solution.exact(grid.points))
        panels = 1 + (exact is not None) + spectrum
        figure = new_figure(4.1 * panels, 3.2 * len(names))
        for k, (name, row) in enumerate(zip(names, figure.subplots(len(names), panels, squeeze=False), strict=True)):
            _draw(row[0], grid, found[k])
            row[0].set_title(_title(solution, name, grid))
            if exact is not None:
                _compare(row, grid, found[k], exact[k])
            if spectrum:
                _draw_amplitudes(row[-1], solution[name] if len(solution.unknowns) > 1 else solution)
        notes = [f"{MAX_UNKNOWNS} of {len(solution.unknowns)} unknowns"] * (len(solution.unknowns) > MAX_UNKNOWNS)
        notes += [solution.domain.note] if solution.domain is not None and solution.domain.note else []
        if notes:
            figure.suptitle(textwrap.fill("; ".join(notes), 60), fontsize="small")
    return figure


def animate_solution(
    solution: Solution, axis: str = "t", *, at: Mapping[str, float] | None = None, frames: int = 60
) -> FuncAnimation:
    """An animation of a solution along one axis: curves or maps over up to two others, on one scale."""
    if len(solution.axes) < 2:
        raise InputError(
            f"`animate` must be of a function of two axes or more; got one of {', '.join(solution.axes)} alone. Use plot()."
        )
    if axis not in solution.axes:
        raise InputError(f"`axis` must be one of {', '.join(solution.axes)}; got {axis!r}.")
    drawn, names = [a for a in solution.axes if a != axis][:2], solution.unknowns[:MAX_UNKNOWNS]
    begin, end = map(float, solution.reach[solution.axes.index(axis)])
    places = np.linspace(begin, end, frames)
    grids = [_grid(solution, drawn, {**(at or {}), axis: float(place)}, 81) for place in places]
    values = [grid.columns(solution(grid.points, extrapolate=True)) for grid in grids]
    every = [np.stack([one[k] for one in values]) for k in range(len(names))]
    with house_style():
        figure = new_figure(4.6 * len(names), 3.4)
        panels = list(np.ravel(figure.subplots(1, len(names))))
        artists = [_draw(panel, grids[0], v[0], v) for panel, v in zip(panels, every, strict=True)]

    def show(i: int) -> list[Any]:
        for panel, name, artist, v in zip(panels, names, artists, every, strict=True):
            panel.set_title(_title(solution, name, grids[i]))
            flat = v[i] if len(drawn) == 1 or drawn[1] == "t" else v[i].T
            artist.set_ydata(flat) if len(drawn) == 1 else artist.set_data(flat)
        return artists

    return FuncAnimation(figure, show, frames=frames, interval=6000 / frames)


class Grid(NamedTuple):
    """An even grid over the drawn axes, as points of the whole domain; `inside` says which are in it; other axes are cut."""

    axes: tuple[str, ...]
    cut: dict[str, float]
    lines: list[np.ndarray]
    points: np.ndarray
    inside: np.ndarray

    def columns(self, values: npt.ArrayLike) -> list[np.ndarray]:
        """The values of the first unknowns in the shape of the grid; NaN outside of the domain."""
        found = np.array(values, float).reshape(len(self.points), -1).T[:MAX_UNKNOWNS]
        return [np.where(self.inside, column.reshape(self.inside.shape), np.nan) for column in found]


def _grid(solution: Solution, axes: str | Sequence[str] | None, at: Mapping[str, float], shape: int) -> Grid:
    """A grid over these axes, the first two by default; the others are cut at `at`, else in the middle."""
    known = solution.axes
    axes = known[:2] if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    if not 1 <= len(axes) <= 2 or len(set(axes)) < len(axes) or not set(axes) <= set(known):
        raise InputError(f"`axes` must be one or two of {', '.join(known)}; got {axes!r}.")
    if not set(at) <= set(known) - set(axes):
        raise InputError(f"`at` must fix axes that are not drawn ({', '.join(axes)} are); got {', '.join(at)}.")
    bounds = dict(zip(known, np.asarray(solution.reach, float), strict=True))
    cut = {a: float(at.get(a, np.mean(bounds[a]))) for a in known if a not in axes}
    full = (4 * shape,) if len(axes) == 1 else (shape, shape)
    lines = [np.linspace(bounds[a][0], bounds[a][1], n) for a, n in zip(axes, full, strict=True)]
    mesh = dict(zip(axes, np.meshgrid(*lines, indexing="ij"), strict=True)) | cut
    points = np.stack([np.broadcast_to(mesh[a], full).ravel() for a in known], axis=1)
    inside = np.ones(len(points), bool) if solution.domain is None else np.asarray(solution.domain.contains(points))
    return Grid(axes, cut, lines, points, inside.reshape(full))


def _title(solution: Solution, name: str, grid: Grid) -> str:
    along = "".join(a * n for a, n in zip(solution.axes, solution.alpha or (), strict=False))
    places = ", ".join(f"{a} = {v:.4g}" for a, v in grid.cut.items())
    return (f"{name}_{along}" if along else name) + (f" at {places}" if places else "")


def _draw(panel: Axes, grid: Grid, values: np.ndarray, every: np.ndarray | None = None) -> Any:
    """Draw a curve or a map, on the scale of all values (`every`) where these are given, and return what was drawn."""
    if len(grid.lines) == 2:
        return _map(panel, grid, values, **limits(values if every is None else every))
    (line,) = panel.plot(grid.lines[0], values, label="found")
    panel.margins(x=0)
    panel.set_xlabel(grid.axes[0])
    if every is not None:
        low, high = float(np.nanmin(every)), float(np.nanmax(every))
        pad = 0.04 * (high - low) or 0.5
        panel.set_ylim(low - pad, high + pad)
    return line


def _compare(row: Sequence[Axes], grid: Grid, found: np.ndarray, exact: np.ndarray) -> None:
    """Draw the error beside what was found, over at most six decades, and the exact curve."""
    wrong = np.abs(found - exact)
    shown = np.where(np.isnan(wrong), np.nan, np.maximum(wrong, FLOOR))
    if len(grid.lines) == 1:
        row[0].plot(grid.lines[0], exact, label="exact", linestyle="--", color="#222222", linewidth=0.9)
        row[0].legend(**BESIDE)
        row[1].semilogy(grid.lines[0], shown, color=COLORS[1])
        row[1].set_xlabel(grid.axes[0])
        row[1].margins(x=0)
    else:
        top = max(float(np.nanmax(wrong)), 10 * FLOOR)
        bottom = max(float(np.nanpercentile(wrong, 2)), top * 1e-6, FLOOR)
        _map(row[1], grid, shown, cmap=ERROR, norm=LogNorm(min(bottom, top / 10), top))
    row[1].set_title(f"|error|, largest {np.nanmax(wrong):.1e}")


def _map(panel: Axes, grid: Grid, values: np.ndarray, **options: Any) -> Any:
    up = 0 if grid.axes[1] == "t" else 1  # time runs to the right, as in the paper; otherwise the first axis does
    across, shown = 1 - up, values if up == 0 else values.T
    x, y = grid.lines[across], grid.lines[up]
    ends = [end for line in (x, y) for end in (line[0] - (line[1] - line[0]) / 2, line[-1] + (line[1] - line[0]) / 2)]
    square = "t" not in grid.axes and 0.25 < np.ptp(x) / np.ptp(y) < 4
    look = {"extent": ends, "origin": "lower", "aspect": "equal" if square else "auto", "interpolation": "bilinear"}
    image = panel.imshow(shown, **look, **options)
    panel.set(xlabel=grid.axes[across], ylabel=grid.axes[up], xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    panel.grid(False)
    panel.figure.colorbar(image, ax=panel, pad=0.02)
    return image


def plot_amplitudes(found: object) -> Figure:
    """A figure of the amplitudes of the series in a solution, model or estimator against the lengths of its frequency vectors."""
    with house_style():
        figure = new_figure(4.6, 3.2)
        _draw_amplitudes(figure.subplots(), found)
    return figure


def _draw_amplitudes(panel: Axes, found: object) -> None:
    """Draw amplitude against |frequency| (against frequency for one axis), one mark per wave; series by color."""
    series = labeled_series(found)
    if not series:
        panel.text(0.5, 0.5, "not a plain Fourier series", ha="center", va="center", transform=panel.transAxes)
        panel.set_axis_off()
        return
    for color, one in zip(COLORS, series, strict=False):
        waves, cosine, sine = (np.asarray(v) for v in one.series._waves())
        size, length = np.hypot(cosine, sine), np.linalg.norm(waves, axis=1)
        marks = panel.stem(length[size > 0], size[size > 0], basefmt=" ", label=one.name)
        marks.markerline.set(markersize=3.0, color=color)
        marks.stemlines.set(linewidth=0.7, color=color, alpha=0.5)
    single, piece = series[0].series.num_inputs == 1, " of the first piece" if series[0].piece else ""
    panel.set_yscale("log")
    panel.set(xlabel="frequency (rad)" if single else "|frequency| (rad)", ylabel="amplitude", title=f"spectrum{piece}")
    low, high = panel.get_ylim()
    panel.set_ylim(max(low, high * 1e-18), high)
    if len(series) > 1:
        panel.legend(**BESIDE)
