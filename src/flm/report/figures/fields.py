"""Figures of solutions: curves for one axis, heat maps for two, slices beyond, the error beside them, the spectrum."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from flm.report.figures.style import COLORS, ERROR, house_style, limits, new_figure
from flm.wording import InputError

MAX_UNKNOWNS = 4  # rows of panels; the others are named in the title
FLOOR = 1e-17  # errors below are drawn as this


def plot_solution(
    solution: Any,
    *,
    axes: tuple[str, str] | None = None,
    at: dict[str, float] | None = None,
    shape: int = 101,
    error: bool | None = None,
    spectrum: bool = False,
) -> Figure:
    """A figure of a solution: a row for each unknown, its error beside it where the exact solution is known.

    Args:
        solution: A `Solution`.
        axes: The two axes to draw for three axes and more; the first two by default, `t` last.
        at: Where to cut the other axes; the middle by default.
        shape: Grid points along each drawn axis.
        error: Whether to draw |found - exact|; where it is known by default.
        spectrum: Whether to add the amplitudes of the series.

    Example:
        >>> import flm
        >>> figure = flm.solve(flm.problems.oscillator(), tol=1e-6).plot(spectrum=True)
    """
    drawn, cut = _view(solution, axes, at)
    error = solution.exact is not None if error is None else error
    if error and solution.exact is None:
        raise InputError("`error` must be False: the solution came without an exact one.")
    lines, points, inside = _grid(solution, drawn, cut, shape)
    found = _columns(solution(points), inside)[:MAX_UNKNOWNS]
    exact = _columns(solution.exact(points), inside)[:MAX_UNKNOWNS] if error else None
    names = solution.unknowns[:MAX_UNKNOWNS]
    panels = 1 + error + spectrum
    with house_style():
        figure = new_figure(4.1 * panels, 3.2 * len(names))
        grid = figure.subplots(len(names), panels, squeeze=False)
        for k, name in enumerate(names):
            row = grid[k]
            label = name if solution.alpha is None or not any(solution.alpha) else _derivative(solution, name)
            title = label + (f" at {', '.join(f'{a} = {v:.4g}' for a, v in cut.items())}" if cut else "")
            draw = _curve if len(drawn) == 1 else _map
            draw(row[0], lines, drawn, found[k], title, None if exact is None else exact[k])
            if exact is not None:
                wrong = np.abs(found[k] - exact[k])
                (_error_curve if len(drawn) == 1 else _error_map)(row[1], lines, drawn, wrong)
            if spectrum:
                draw_spectrum(row[-1], solution[name] if len(solution.unknowns) > 1 else solution)
        notes = [f"{MAX_UNKNOWNS} of {len(solution.unknowns)} unknowns"] * (len(solution.unknowns) > MAX_UNKNOWNS)
        if solution.domain is not None and solution.domain.note:
            notes.append(solution.domain.note)
        if notes:
            figure.suptitle(textwrap.fill("; ".join(notes), 60), fontsize="small")
    return figure


def plot_spectrum(solution: Any) -> Figure:
    """The amplitudes of a solution's series against the lengths of the frequency vectors."""
    with house_style():
        figure = new_figure(4.6, 3.2)
        draw_spectrum(figure.subplots(), solution)
    return figure


def plot_series(labeled: list[tuple[str, Any]]) -> Figure:
    """The amplitudes of series, given as (label, series)."""
    with house_style():
        figure = new_figure(4.6, 3.2)
        _stems(figure.subplots(), labeled, "")
    return figure


def draw_spectrum(panel: Any, solution: Any) -> None:
    """Amplitude against |frequency| (against frequency for one axis), one mark for each wave; windows by color."""
    _stems(panel, _series(solution), f"windows of {solution.axes[solution.window_axis]}")


def _stems(panel: Any, pieces: list[tuple[str, Any]], legend: str) -> None:
    if not pieces:
        panel.text(0.5, 0.5, "not a plain Fourier series", ha="center", va="center", transform=panel.transAxes)
        panel.set_axis_off()
        return
    single = pieces[0][1].num_inputs == 1
    for i, (label, series) in enumerate(pieces[: len(COLORS)]):
        waves, cosine, sine = (np.asarray(v) for v in series._waves())
        size = np.hypot(cosine, sine)
        size = size if size.ndim == 1 else size.max(axis=1)
        length = np.abs(waves[:, 0]) if single else np.linalg.norm(waves, axis=1)
        keep = size > 0
        marks = panel.stem(length[keep], size[keep], basefmt=" ", label=label)
        marks.markerline.set(markersize=3.0, color=COLORS[i])
        marks.stemlines.set(linewidth=0.7, color=COLORS[i], alpha=0.5)
    panel.set_yscale("log")
    panel.set(xlabel="frequency (rad)" if single else "|frequency| (rad)", ylabel="amplitude", title="spectrum")
    low, high = panel.get_ylim()
    panel.set_ylim(max(low, high * 1e-18), high)
    if len(pieces) > 1:
        panel.legend(title=legend or None, ncols=2)


def _series(solution: Any) -> list[tuple[str, Any]]:
    try:
        return [(f"{low:.3g} to {high:.3g}", series) for (low, high), series in solution.pieces]
    except AttributeError:
        return []


def _view(solution: Any, axes: Any, at: Any) -> tuple[tuple[str, ...], dict[str, float]]:
    """The drawn axes and the fixed values of the others."""
    known = solution.axes
    if axes is None:
        axes = known if len(known) <= 2 else known[:2]
    axes = (axes,) if isinstance(axes, str) else tuple(axes)
    if not 1 <= len(axes) <= 2 or len(set(axes)) < len(axes) or not set(axes) <= set(known):
        raise InputError(f"`axes` must be one or two of {', '.join(known)}; got {axes!r}.")
    at = dict(at or {})
    if not set(at) <= set(known) - set(axes):
        raise InputError(f"`at` must fix axes that are not drawn ({', '.join(axes)} are); got {', '.join(at)}.")
    middle = {a: float(np.mean(b)) for a, b in zip(known, solution.bounds, strict=True) if a not in axes}
    return axes, middle | {a: float(v) for a, v in at.items()}


def _grid(solution: Any, drawn: tuple[str, ...], cut: dict[str, float], shape: int) -> Any:
    bounds = dict(zip(solution.axes, np.asarray(solution.bounds), strict=True))
    count = 4 * shape if len(drawn) == 1 else shape
    lines = [np.linspace(bounds[a][0], bounds[a][1], count) for a in drawn]
    mesh = dict(zip(drawn, np.meshgrid(*lines, indexing="ij"), strict=True))
    full = (count,) * len(drawn)
    points = np.stack([np.broadcast_to(mesh.get(a, cut.get(a, 0.0)), full).ravel() for a in solution.axes], axis=1)
    inside = np.ones(len(points), bool) if solution.domain is None else np.asarray(solution.domain.contains(points))
    return lines, points, inside.reshape(full)


def _columns(values: Any, inside: np.ndarray) -> list[np.ndarray]:
    values = np.array(values, float)
    columns = [values] if values.ndim == 1 else list(values.T)
    return [np.where(inside, column.reshape(inside.shape), np.nan) for column in columns]


def _derivative(solution: Any, name: str) -> str:
    return f"{name}_" + "".join(a * n for a, n in zip(solution.axes, solution.alpha, strict=True))


def _curve(panel: Any, lines: Any, drawn: Any, values: np.ndarray, title: str, exact: Any) -> None:
    panel.plot(lines[0], values, label="found")
    if exact is not None:
        panel.plot(lines[0], exact, "--", color="#222222", linewidth=0.9, label="exact")
        panel.legend()
    panel.set(xlabel=drawn[0], title=title)
    panel.margins(x=0)


def _map(panel: Any, lines: Any, drawn: Any, values: np.ndarray, title: str, exact: Any) -> None:
    image = _image(panel, lines, drawn, values, **limits(values))
    panel.set_title(title)
    panel.figure.colorbar(image, ax=panel, pad=0.02)


def _error_curve(panel: Any, lines: Any, drawn: Any, wrong: np.ndarray) -> None:
    panel.semilogy(lines[0], np.maximum(wrong, FLOOR), color=COLORS[1])
    panel.set(xlabel=drawn[0], title=f"|error|, largest {np.nanmax(wrong):.1e}")
    panel.margins(x=0)


def _error_map(panel: Any, lines: Any, drawn: Any, wrong: np.ndarray) -> None:
    top = max(float(np.nanmax(wrong)), 10 * FLOOR)
    bottom = max(float(np.nanpercentile(wrong, 2)), top * 1e-6, FLOOR)
    shown = np.where(np.isnan(wrong), np.nan, np.maximum(wrong, FLOOR))
    image = _image(panel, lines, drawn, shown, cmap=ERROR, norm=LogNorm(min(bottom, top / 10), top))
    panel.set_title(f"|error|, largest {np.nanmax(wrong):.1e}")
    panel.figure.colorbar(image, ax=panel, pad=0.02)


def _image(panel: Any, lines: Any, drawn: Any, values: np.ndarray, **options: Any) -> Any:
    up = 0 if drawn[1] == "t" else 1  # time runs to the right, as in the paper; otherwise the first axis does
    across = 1 - up
    image = panel.pcolormesh(
        lines[across], lines[up], values if up == 0 else values.T, shading="gouraud", rasterized=True, **options
    )
    panel.set(xlabel=drawn[across], ylabel=drawn[up])
    ratio = np.ptp(lines[0]) / np.ptp(lines[1])
    if "t" not in drawn and 0.25 < ratio < 4:
        panel.set_aspect("equal")
    panel.grid(False)
    return image
