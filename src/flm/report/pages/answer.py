"""The page of one answer: what was asked, what was found, how sure, how to reproduce it.

An answer is a solution, a control law, or a fit to a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flm.control.solution import ControlSolution
from flm.estimators import FLMRegressor
from flm.report.figures.control import plot_control
from flm.report.figures.data import plot_fit
from flm.report.figures.fields import labeled_series
from flm.report.live import curves, live
from flm.report.pages.layout import Item, Page, Picture, Request, Section, Table, Text, steps_table
from flm.results import Errors, Solution, Status, Word
from flm.results.status import DOUBTFUL
from flm.wording import measured

READABLE = 10.0  # times the answer's size: amplitudes up to here can be read
TERMS, LINES = 10, 15  # of a table of a series, of a fit
POINTS_PER_PERIOD, LEAST_POINTS, MOST_POINTS = 12, 401, 4001  # of the live curve of a fit
EXCESS = (
    "The excess is ½∫H_u²/H_uu dt along the trajectory plus the change on enlarging the basis, relative to the cost."
)


def solution_page(solution: Solution, request: Request, errors: Errors | None = None) -> Page:
    """A page for a `Solution`; its `errors` are computed when they are left out and the exact solution is known."""
    if errors is None and solution.exact is not None:
        errors = solution.errors()
    estimate = measured(solution.error_estimate, "not known")
    facts = [("estimated relative L2 error", estimate), *_extremes(solution)]
    facts += [] if errors is None else [("relative L2 error", measured(errors.relative_l2))]
    facts += [("columns", f"{solution.num_columns:,}"), ("parameters", f"{solution.num_parameters:,}")]
    facts += [("seconds", f"{solution.seconds:.2f}")]
    found: list[Item] = [live(solution)]
    if solution.parameters:
        rows = [[n, str(p)] for n, p in solution.parameters.items()]
        found.append(Table(["parameter", "value ± standard error"], rows))
    sure: list[Item] = [Text(f"Estimated relative L2 error over the domain: {estimate}.")]
    if errors is not None:
        row = [measured(v) for v in (errors.mse, errors.mae, errors.max_error, errors.relative_l2)]
        headers = ["MSE", "MAE", "largest error", "relative L2"]
        sure.append(Table(headers, [row], left=0, note="Against the exact solution."))
    sure += steps_table(solution.history)
    named = {"What was found": found, "The series": _terms(solution), "How sure": sure}
    sections = [Section(title, items) for title, items in named.items()]
    status = solution.status
    shade = tone(status, solution.error_estimate)
    return request.page(f"{status.sentence} {status.advice}".strip(), facts, sections, shade)


def _terms(solution: Solution) -> list[Item]:
    found = labeled_series(solution)
    if not found:
        return [Text("This answer is not a plain Fourier series; flm.distill finds one that is near it.")]
    headers = _term_headers(solution.axes)
    items: list[Item] = []
    size = float(np.nanmax(np.abs(solution.on_grid(21)[1])))
    if max(term.amplitude for _, series in found for term in series.terms(1)) > READABLE * size:
        return [
            Text("The waves of this series are far larger than their sum, so that its terms say nothing one by one.")
        ]
    for label, series in found:
        rows = [
            [f"{t.amplitude:.6g}", f"{t.phase:.4f}"]
            + [f"{v:.6g}".replace("inf", "∞") for pair in zip(t.frequency, t.period, strict=True) for v in pair]
            for t in series.terms(TERMS)
        ]
        items += [Text(f"{label}:")] if len(found) > 1 else []
        note = f"The {len(rows)} largest cosines; {len(series.frequencies)} frequency vectors."
        items.append(Table(headers, rows, left=0, note=note))
    return items


def _term_headers(axes: Iterable[str]) -> list[str]:
    return ["amplitude", "phase", *(f"{what} {axis}" for axis in axes for what in ("frequency", "period"))]


def tone(status: Status, error_estimate: float) -> str:
    """How a page shows an ending: success, an answer with an estimate, or none."""
    if status.word in (Word.CONVERGED, Word.SOLVED):
        return "good"
    return "doubtful" if np.isfinite(error_estimate) and status.word not in DOUBTFUL else "failed"


def _extremes(solution: Solution) -> list[tuple[str, str]]:
    """The range of each unknown on a grid, and where it is largest."""
    lines, values = solution.on_grid()
    facts = []
    for name, column in list(solution._by_unknown(values).items())[:3]:
        if np.isfinite(column).any():
            top = np.unravel_index(np.nanargmax(column), column.shape)
            where = ", ".join(f"{a} = {x[i]:.3g}" for a, x, i in zip(solution.axes, lines, top, strict=True))
            facts.append((f"values of {name}", f"{np.nanmin(column):.4g} to {np.nanmax(column):.4g} (at {where})"))
    return facts


def control_page(solution: ControlSolution, request: Request) -> Page:
    """A page for a `ControlSolution` that has its problem."""
    start = solution.starts.lift(solution.starts.center)
    facts = [
        ("estimated excess cost", f"{solution.error_estimate:.1e}"),
        ("cost" if solution.starts.dimension == 0 else "cost from the center", f"{float(solution.cost(start)):.8g}"),
        ("sub-networks", str(solution.num_subnets)),
        ("parameters", f"{solution.num_parameters:,}"),
        ("seconds", f"{solution.seconds:.2f}"),
    ]
    where = ", ".join(f"{n} = {v:.4g}" for n, v in zip(solution.starts.states, start, strict=True))
    found = [
        Text(f"The law is for {solution.starts}."),
        Picture(plot_control(solution), "States and controls along the simulated dynamics."),
        replace(live(solution), caption=f"From {where}."),
    ]
    sections = [
        Section("What was found", found),
        Section("How sure", [Text(EXCESS), *steps_table(solution.history)]),
    ]
    status = solution.status
    shade = tone(status, solution.error_estimate)
    return request.page(f"{status.sentence} {status.advice}".strip(), facts, sections, shade)


def fit_page(model: FLMRegressor, X: npt.ArrayLike, y: npt.ArrayLike, request: Request) -> Page:
    """A page for a fitted `FLMRegressor` with one output, the table X (n, m) and the values y (n,) that it was fitted to."""
    mean, std = model.predict(X, return_std=True)
    values = np.asarray(y, float)
    inside = 100.0 * float(np.mean(np.abs(values - mean) <= 1.96 * std))
    facts = [
        ("rows", f"{len(mean):,}"),
        ("frequency vectors", str(len(model.frequencies_))),
        ("noise", f"{model.noise_:.4g}"),
        ("explained, in sample", f"{100 * model.score(X, values):.4g} %"),
    ]
    sure = Text(f"{inside:.1f} % of the rows lie within 1.96 standard deviations of the fit; 95 % are expected.")
    picture = Picture(plot_fit(model, X, y), "The fit, its bands and its residuals.")
    sections = [
        Section("What was found", [picture, *_curve(model, X)]),
        Section("The lines", [_lines(model)]),
        Section("How sure", [sure]),
    ]
    kinds = {"lines": "lines found in the data", "lattice": "a lattice over the data's extent"}
    return request.page(f"A Fourier series on {kinds.get(model.kind_, 'given frequencies')}.", facts, sections)


def _lines(model: FLMRegressor) -> Table:
    """The strongest lines with their standard errors; frequencies that were not fitted have none."""
    spectrum = model.spectrum_
    headers = _term_headers(spectrum.feature_names)
    rows = []
    for i in range(min(len(spectrum), LINES)):
        pairs = [(spectrum.amplitude[i], spectrum.amplitude_error[i]), (spectrum.phase[i], spectrum.phase_error[i])]
        for j in range(len(spectrum.feature_names)):
            pairs.append((spectrum.frequency[i, j], spectrum.frequency_error[i, j]))
            pairs.append((spectrum.period[i, j], spectrum.period_error[i, j]))
        rows.append([_with_error(*pair) for pair in pairs])
    middle = [float(t.amplitude * np.cos(t.phase)) for t in model.series_.terms() if not np.any(t.frequency)]
    constant = f" The constant is {middle[0]:.6g}." if middle else ""
    note = f"{len(rows)} of {len(spectrum)} lines A cos(k · x − φ), strongest first, with standard errors.{constant}"
    return Table(headers, rows, left=0, note=note)


def _with_error(value: float, error: float) -> str:
    text = f"{value:.6g}".replace("inf", "∞")
    return f"{text} ± {error:.2g}" if error else text


def _curve(model: FLMRegressor, X: Any) -> list[Item]:
    """The fit and its 95 % band under the pointer, over one feature."""
    x = np.asarray(X, float)
    if x.shape[1] != 1:
        return []
    low, high = x.min(), x.max()
    periods = np.abs(model.frequencies_).max() * (high - low) / (2 * np.pi)
    if POINTS_PER_PERIOD * periods > MOST_POINTS:
        return [Text(f"The fit has {periods:,.0f} periods over the data, too many for a curve to point at.")]
    line = np.linspace(low, high, max(LEAST_POINTS, round(POINTS_PER_PERIOD * periods)))
    mean, std = model.predict(
        type(X)({X.columns[0]: line}) if hasattr(X, "columns") else line[:, None], return_std=True
    )
    named = {"lower": mean - 1.96 * std, "upper": mean + 1.96 * std, "fit": mean}
    return [curves(line, named, model._names[0], "The fit and the ends of its 95 % band.")]
