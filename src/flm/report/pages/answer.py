"""The page of one answer: what was asked, what was found, how sure it is, how to reproduce it.

An answer is a solution, a control law, a fit to a table, or a table that was filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flm.control.solution import ControlSolution
from flm.estimators import FLMRegressor
from flm.estimators.imputer.imputation import Imputation
from flm.estimators.regressor.wave_fit import PAIRED
from flm.pde.problem import PDE
from flm.report.facts import facts_of, readable, tone
from flm.report.figures.control import plot_control
from flm.report.figures.data import plot_fit, plot_spectrum
from flm.report.figures.style import COLORS, house_style, new_figure
from flm.report.live import MOST_AXES, curves, dots, live
from flm.report.pages.layout import Item, Page, Picture, Request, Table
from flm.results import LearnedFunction, Parameter, Solution
from flm.series import AbstractSeries
from flm.wording import measured, with_error

TERMS, LINES, MOST_STEPS = 10, 15, 60  # rows of tables: of a series, of a fit, of the steps of a search
POINTS_PER_PERIOD, LEAST_POINTS, MOST_POINTS = 12, 401, 4001  # of the live curve of a fit
MOST_FIGURES = 4  # of columns that were filled
NOISES = {"ar1": ", correlated", "student": ", heavy-tailed", "growing": ", growing"}
STEPS = (
    "The steps of the search. Columns are coefficients that were solved for; the estimate is what a step lowers, such as a "
    "residual; the error estimate is of the answer, where one was made."
)
UNSURE = "There is no error estimate: nothing says how near this figure is to a solution."
LEARNED = (
    "This is the error of solving with the parameters that were found. "
    "What the readings leave open is in the parameters' standard errors."
)
EXCESS = "It is ½∫H_u²/H_uu dt along the trajectory plus the change on enlarging the basis, relative to the cost."


def solution_page(solution: Solution, request: Request) -> Page:
    """A page for a `Solution`."""
    few = len(solution.axes) <= MOST_AXES
    figure = live(solution, request.units, _dots(request.problem, solution)) if few else Picture(solution.plot())
    if tone(solution.status, solution.error_estimate) == "failed" and solution.trusted_until is None:
        figure = replace(figure, caption=UNSURE)
    found: list[Item] = [figure]
    sure: list[Item] = []
    if solution.parameters:
        found.append(_learned(solution.parameters))
        sure.append(LEARNED)
    if solution.exact is not None:
        row = [measured(error) for error in asdict(solution.errors()).values()]
        headers = ["MSE", "MAE", "largest error", "relative L2"]
        sure.append(Table(headers, [row], left=0, note="Against the exact solution."))
    return _answer_page(solution, request, found, [*sure, *_misfit(request.problem, solution)])


def control_page(solution: ControlSolution, request: Request) -> Page:
    """A page for a `ControlSolution` that has its problem."""
    starts, figure = solution.starts, live(solution, request.units)
    where = ", ".join(f"{n} = {v:.4g}" for n, v in zip(starts.states, starts.lift(starts.center), strict=True))
    caption = f"{'At first from' if starts.dimension else 'From'} {where}. {figure.caption}"
    found: list[Item] = [f"The law is for {starts}.", replace(figure, caption=caption)]
    found.append(Picture(plot_control(solution), "States and controls along the simulated dynamics."))
    return _answer_page(solution, request, found, [EXCESS])


def _answer_page(
    answer: Solution | ControlSolution, request: Request, found: Sequence[Item], more: Sequence[Item]
) -> Page:
    """The page of an answer: what was found, the series, how sure it is."""
    facts, status = facts_of(answer, request.problem), answer.status
    told = {name: value for name, value in facts.items() if name.startswith(("estimated", "trusted"))}
    sure: list[Item] = [f"{name[:1].upper()}{name[1:]}: {value}." for name, value in told.items()]
    sections = {"What was found": [*found], "The series": _terms(answer), "How sure": [*sure, *more]}
    steps = {name: values for name, values in answer.history.items() if all(np.ndim(v) == 0 for v in values)}
    if steps and 0 < len(next(iter(steps.values()))) <= MOST_STEPS:
        cell = lambda value: measured(value) if isinstance(value, float) else "–" if value is None else str(value)
        rows = [[cell(value) for value in row] for row in zip(*steps.values(), strict=True)]
        headers = [name.replace("_", " ") for name in steps]
        sections["How sure"].append(Table(headers, rows, left=0, note=STEPS))
    summary = f"{status.sentence} {status.advice}".strip()
    return request.page(summary, facts, sections, tone(status, answer.error_estimate))


def _learned(parameters: Mapping[str, Parameter | LearnedFunction]) -> Table:
    """The parameters with their standard errors and, where there are several numbers, the correlations of their errors."""
    numbers = [name for name, found in parameters.items() if isinstance(found, Parameter)]
    others = numbers if len(numbers) > 1 else []
    cell = lambda found, name: f"{found.correlations[name]:+.3f}" if name in getattr(found, "correlations", {}) else ""
    rows = [[name, str(found), *(cell(found, other) for other in others)] for name, found in parameters.items()]
    return Table(["parameter", "value ± standard error", *(f"correlation with {name}" for name in others)], rows)


def _readings(problem: object) -> list[Any]:
    """The conditions of a problem of any kind that hold measured values."""
    conditions = problem.conditions if isinstance(problem, PDE) else ()
    return [block for block in conditions if block.kind == "data" and block.data is not None]


def _dots(problem: Any, solution: Solution) -> dict[str, object] | None:
    """The first readings of an unknown itself, packed for the live figure."""
    for block in _readings(problem):
        (unknown, alpha), *others = block.residual.jets
        plain = not others and not any(alpha) and unknown < len(solution.unknowns)
        if plain and len(solution.axes) == len(problem.axes):
            return dots(block.data.points, np.asarray(block.data.values, float), unknown)
    return None


def _misfit(problem: Any, solution: Solution) -> list[Item]:
    """A sentence on the misfit and on what is expected of it, and a picture of the residuals of all readings."""
    if not (blocks := _readings(problem)):
        return []
    numbers = problem.parameter_start.copy()
    for place, name in enumerate(problem.parameters):
        if isinstance(learned := solution.parameters.get(name), Parameter):
            numbers[place] = learned.value
    parts, deviations = [], []
    for block in blocks:
        points, values = np.asarray(block.data.points, float), np.asarray(block.data.values, float)
        jet = lambda k, alpha, at=points: np.asarray(solution.model.jets(at, (alpha,))[0]).reshape(len(at), -1)[:, k]
        found = block.residual(points, [jet(*one) for one in block.residual.jets], numbers)
        parts.append(np.asarray(found) - values)
        sigma = np.nan if block.data.sigma is None else block.data.sigma
        deviations.append(np.broadcast_to(np.asarray(sigma, float), values.shape))
    away, sigma, label = np.concatenate(parts), np.concatenate(deviations), "residual"
    words = f"{len(away):,} readings; the root mean square of their residuals is {np.sqrt(np.mean(away**2)):.3g}."
    if np.isfinite(sigma).all():
        away, left, label = away / sigma, len(away) - len(solution.parameters), "residual / σ"
        square, slack = float(np.sum(away**2)), 2 * np.sqrt(2 * max(left, 1))
        words += f" Their squares in standard deviations add to {square:.4g}; {left} ± {slack:.2g} is expected."
    with house_style():
        figure = new_figure(7.0, 2.4)
        panel = figure.subplots()
        panel.axhline(0, color="#444444", lw=0.8)
        panel.plot(away, ".", ms=4, color=COLORS[0])
        panel.set(xlabel="reading", ylabel=label)
    return [words, Picture(figure, "Residuals of the readings.")]


def _terms(solution: Solution | ControlSolution) -> list[Item]:
    found, words = readable(solution)
    items: list[Item] = [words] if words else []
    for one in found:
        items += [f"{one.label}:"] if len(found) > 1 or "," in one.label else []
        items.append(_term_table(one.series, TERMS if len(found) < 3 else TERMS // 2))
    return items


def _term_table(series: AbstractSeries, most: int = TERMS) -> Table:
    rows = [
        [f"{t.amplitude:.6g}", f"{t.phase:z.4f}"]
        + [with_error(v, 0.0) for pair in zip(t.frequency, t.period, strict=True) for v in pair]
        for t in series.terms(most)
    ]
    many = f"The {len(rows)} largest" if len(rows) > 1 else "The only"
    note = f"{many} of the cosines A cos(k · x − φ): amplitude A, phase φ, frequencies k = 2π / period."
    axes = series.axes or [f"x{j + 1}" for j in range(series.num_inputs)]
    headers = ["amplitude", "phase", *(f"{what} {axis}" for axis in axes for what in ("frequency", "period"))]
    return Table(headers, rows, left=0, note=note)


def fit_facts(model: FLMRegressor, X: npt.ArrayLike, y: npt.ArrayLike) -> dict[str, str]:
    """The first facts about a fit with one output."""
    facts = {"rows": f"{len(np.asarray(y)):,}", "frequency vectors": f"{len(model.frequencies_)} ({model.kind_})"}
    facts["noise"] = f"{measured(float(model.noise_))}{NOISES.get(model.noise_kind_, '')}"
    if model.n_features_in_ == 1 and len(model.trend_) > 1:
        facts["trend"] = "linear" if len(model.trend_) == 2 else "quadratic"
    return facts | {"explained, in sample": f"{100 * float(model.score(X, y)):.4g} %"}


def fit_page(model: FLMRegressor, X: npt.ArrayLike, y: npt.ArrayLike, request: Request) -> Page:
    """A page for a fitted `FLMRegressor` with one output, the table X (n, m) and the values y (n,) that it was fitted to."""
    mean, std = model.predict(X, return_std=True)
    values, spectrum = np.asarray(y, float), model.spectrum_
    inside = 100.0 * float(np.mean(np.abs(values - mean) <= 1.96 * std))
    shown = spectrum.to_pandas().head(LINES)
    cells: dict[str, list[str]] = {}
    for name in (name for name in shown if f"{name} error" in shown):
        errors = np.nan_to_num(shown[f"{name} error"])  # fixed frequencies have none
        cells[name] = [with_error(*pair) for pair in zip(shown[name], errors, strict=True)]
    if spectrum.paired.any():
        cells["paired"] = ["yes" if pair else "" for pair in shown["paired"]]
    middle = [float(t.amplitude * np.cos(t.phase)) for t in model.series_.terms() if not np.any(t.frequency)]
    note = f"{len(shown)} of {len(spectrum)} lines A cos(k · x − φ), strongest first, with standard errors."
    note += f" The constant is {middle[0]:.6g}." if middle else ""
    note += f" {PAIRED}" if spectrum.paired.any() else ""
    note += " Frequencies lie on a lattice and were not fitted." if np.isnan(spectrum.frequency_error).all() else ""
    lines: list[Item] = [Table([*cells], [[*row] for row in zip(*cells.values(), strict=True)], left=0, note=note)]
    if np.isfinite(spectrum.period[:, 0]).any():
        lines.append(Picture(plot_spectrum(spectrum, periods=True), "Amplitudes against periods."))
    picture = Picture(plot_fit(model, X, y), "The fit, its bands and its residuals.")
    sure = f"{inside:.1f} % of the rows lie within 1.96 standard deviations of the fit; 95 % are expected."
    sections = {"What was found": [*_curve(model, X, values), picture], "The lines": lines, "How sure": [sure]}
    kinds = {"lines": "lines found in the data", "lattice": "a lattice over the data's extent"}
    summary = f"A Fourier series on {kinds.get(model.kind_, 'given frequencies')}."
    return request.page(summary, fit_facts(model, X, y), sections)


def _curve(model: FLMRegressor, X: Any, y: np.ndarray) -> list[Item]:
    """The fit and its 95 % band under the pointer, over one feature."""
    x = model.numbers(X)
    if x.shape[1] != 1:
        return []
    low, high = x.min(), x.max()
    periods = np.abs(model.frequencies_).max() * (high - low) / (2 * np.pi)
    if POINTS_PER_PERIOD * periods > MOST_POINTS:
        return [f"The fit has {periods:,.0f} periods over the data, too many for a curve to point at."]
    line = np.linspace(low, high, max(LEAST_POINTS, round(POINTS_PER_PERIOD * periods)))
    fit = model._fitted.fit
    mean, std = fit.mean(line[:, None])[:, 0], fit.std(line[:, None])[:, 0]
    caption = "The fit with its 95 % band, and the data."
    name, unit, there = model._names[0], model.spectrum_.units[0], dots(x, np.ravel(y))
    unit = f"{unit} from the first row" if unit else ""
    return [
        curves(
            line, {"fit": mean}, name, caption, unit=unit, band=(mean - 1.96 * std, mean + 1.96 * std), readings=there
        )
    ]


def impute_page(imputation: Imputation, names: Sequence[str], request: Request) -> Page:
    """A page for a filled table whose last columns are `names`."""
    values, std = (np.asarray(part)[:, -len(names) :].astype(float) for part in imputation)
    filled, beyond = imputation.filled[:, -len(names) :], imputation.extrapolated[:, -len(names) :]
    with_holes = [j for j in range(len(names)) if filled[:, j].any()]
    middle = lambda j: measured(float(np.median(std[filled[:, j], j])))
    rows = [[names[j], f"{filled[:, j].sum():,}", f"{beyond[:, j].sum():,}", middle(j)] for j in with_holes]
    facts = {"rows": f"{len(values):,}", "filled": f"{filled.sum():,}", "extrapolated": f"{beyond.sum():,}"}
    ends = [np.asarray(end)[:, -len(names) :].astype(float) for end in imputation.interval(0.95)]
    times, clock, found = imputation.axis, imputation.clock, []
    even = 2 < len(times) <= MOST_POINTS and np.ptp(np.diff(times)) <= 1e-6 * np.ptp(times)
    for j in with_holes[:MOST_FIGURES] if even else []:
        there = dots(times[~filled[:, j], None], values[~filled[:, j], j])
        caption = f"{names[j]}, its 95 % band where it was filled, and what was observed."
        curve, band = {names[j]: values[:, j]}, (ends[0][:, j], ends[1][:, j])
        found.append(curves(times, curve, clock.name, caption, unit=clock.counted, band=band, readings=there))
    found.append(Picture(imputation.plot(), "Observed values, and filled ones with their intervals."))
    found.append(Table(["column", "filled", "extrapolated", "standard deviation about"], rows))
    return request.page(f"{filled.sum():,} of {filled.size:,} cells filled.", facts, {"What was found": found})
