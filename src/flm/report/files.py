"""An answer handed over: a folder with the model, a record for machines, a table, figures and a page; HTML for a notebook."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from flm.control.solution import ControlSolution
from flm.estimators import FLMRegressor
from flm.files import save, to_json, write_atomic, write_csv
from flm.report.facts import readable, record, tone
from flm.report.figures.fields import plot_amplitudes
from flm.report.figures.style import to_png, to_svg
from flm.report.live import MOST_AXES, from_the_center, live
from flm.report.pages.answer import control_page, fit_page, solution_page
from flm.report.pages.layout import Picture, Request
from flm.results import AbstractResult, Listener, Progress, Solution, silent
from flm.series import AbstractSeries

MOST_BYTES = 300_000  # of a live figure that a notebook shows by itself
WAVES = 6  # of a formula
COLORS = {"good": "#2e8b57", "doubtful": "#d9a404", "failed": "#c62828"}


def write_solution(
    solution: Solution | ControlSolution, path: Path, request: Request, progress: Listener = silent
) -> dict[str, Any]:
    """Write the model, a record, the values on a grid, figures and a page into a folder, and return the record."""
    found = record(solution, request.name)
    progress(Progress("writing the values", share=0.0))
    save(solution, path / "model.safetensors")
    write_atomic(path / "record.json", to_json(found).encode())
    figures = {"solution": solution.plot()}
    if isinstance(solution, ControlSolution):
        table, page = from_the_center(solution), control_page(solution, request)
    else:
        table = solution.to_pandas()
        progress(Progress("drawing", share=0.2))
        figures["spectrum"] = plot_amplitudes(solution)
        page = solution_page(solution, request)
    write_csv(path / "solution.csv", [table.columns, *table.to_numpy()])
    progress(Progress("writing the page", share=0.5))
    page.write(path / "index.html")
    write_figures(path, figures)
    return found


def write_fit(
    model: FLMRegressor,
    X: pd.DataFrame,
    y: npt.ArrayLike,
    folder: Path,
    request: Request,
    target: str,
    written: pd.DataFrame | None = None,
) -> None:
    """Write an estimator fitted to a table X (n, m) and values y (n,), which `target` names: the model, its values at the rows
    with standard deviations, a page, and a figure of one feature. Columns of `written` replace those of X in the table.
    """
    fitted = model.predict(X, return_std=True)
    fit_page(model, X, y, request).write(folder / "index.html")
    save(model, folder / "model.safetensors")
    shown = X if written is None else X.assign(**{str(name): cells for name, cells in written.items()})
    rows = zip(*(shown.iloc[:, j] for j in range(X.shape[1])), np.asarray(y, float), *fitted, strict=True)
    write_csv(folder / "fitted.csv", [[*model.input_names_, target, "fitted", "standard_deviation"], *rows])
    if len(model._names) == 1:
        write_atomic(folder / "fit.png", to_png(model.plot(X, y)))


def write_figures(folder: Path, figures: dict[str, Figure]) -> None:
    """Write figures as PNG and SVG files, by name."""
    for name, figure in figures.items():
        write_atomic(folder / f"{name}.png", to_png(figure))
        write_atomic(folder / f"{name}.svg", to_svg(figure).encode())


def in_notebook(answer: AbstractResult) -> str:
    """The HTML of an answer: its status, the live figure or a picture, and its series as a formula."""
    assert isinstance(answer, Solution | ControlSolution)
    color = COLORS[tone(answer.status, answer.error_estimate)]
    words = html.escape(f"{answer!r}\n{answer.status.advice}".strip())
    status = f'<pre style="border-left: 5px solid {color}; padding-left: 0.8em; white-space: pre-wrap">{words}</pre>'
    many = isinstance(answer, Solution) and len(answer.axes) > MOST_AXES
    figure = None if many else live(answer)
    if figure is None or len(figure.data) > MOST_BYTES:
        shown = f'<img src="{Picture(answer.plot()).address}" alt="The answer" style="max-width: 100%">'
    else:
        shown = figure._repr_html_()
    # No formula where the terms are far larger than their sum, and none of single pieces.
    series = [(one.name.partition(", "), one.series) for one in readable(answer)[0] if not one.piece]
    lines = [f"<p>$${formula(name, one)}$$ {words}</p>" for (name, _, words), one in series]
    return status + shown + "".join(lines)


def formula(label: str, series: AbstractSeries) -> str:
    """ "u(x, t) = 0.71 \\cos(3.14 x - 1.57) + …", in LaTeX, the largest terms first."""
    axes = tuple(series.axes or (f"x_{j + 1}" for j in range(series.num_inputs)))
    terms, parts = series.terms(WAVES), []
    for term in terms:
        inner = " ".join(f"{k:+.4g} {_name(a)}" for k, a in zip(term.frequency, axes, strict=True) if k)
        wave = f"{term.amplitude:+.4g} \\cos({inner.removeprefix('+')} {-term.phase:+.4g})"
        parts.append(wave if inner else f"{term.amplitude * np.cos(term.phase):+.4g}")
    more = " + \\dots" if len(series.frequencies) * 2 ** (series.num_inputs - 1) > len(terms) else ""
    return f"{_name(label)}({', '.join(map(_name, axes))}) = {' '.join(parts).removeprefix('+')}{more}"


def _name(name: str) -> str:
    first, _, rest = name.partition("_")
    return f"{first}_{{{rest}}}" if rest else first
