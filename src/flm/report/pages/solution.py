"""The page of one solution: what was asked, what was found, how sure, how to reproduce it."""

from __future__ import annotations

import numpy as np

from flm.report.figures.fields import plot_solution
from flm.report.pages.layout import Curves, HeatMap, Item, Page, Picture, Request, Section, Table, Text, steps_table
from flm.report.series import labeled_series
from flm.results import Errors, Solution
from flm.wording import measured

TERMS = 10


def solution_page(solution: Solution, request: Request, errors: Errors | None = None) -> Page:
    """A page for a `Solution`.

    Args:
        solution: what `solve`, `train` or `distill` returned.
        request: what was asked.
        errors: what `solution.errors()` returned; computed when it is left out and the exact solution is known.
    """
    if errors is None and solution.exact is not None:
        errors = solution.errors()
    facts = [("error estimate", measured(solution.error_estimate, "not known"))]
    facts += [] if errors is None else [("relative L2 error", measured(errors.relative_l2))]
    facts += [("columns", f"{solution.num_columns:,}"), ("parameters", f"{solution.num_parameters:,}")]
    facts += [("seconds", f"{solution.seconds:.2f}")]
    picture = Picture(plot_solution(solution, spectrum=True), "The solution, its error where known, and its spectrum.")
    found: list[Item] = [picture, *_live(solution)]
    if solution.parameters:
        found.append(
            Table(["parameter", "value ± standard error"], [[n, str(p)] for n, p in solution.parameters.items()])
        )
    sections = [
        Section("What was found", found),
        Section("The series", _terms(solution)),
        Section("How sure", _certainty(solution, errors)),
    ]
    return request.page(solution.status.sentence, facts, sections)


def _terms(solution: Solution) -> list[Item]:
    found = labeled_series(solution)
    if not found:
        return [Text("This is not a plain Fourier series; flm.distill makes one of it.")]
    headers = ["amplitude", "phase", *(f"{what} {a}" for a in solution.axes for what in ("frequency", "period"))]
    items: list[Item] = []
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


def _certainty(solution: Solution, errors: Errors | None) -> list[Item]:
    estimate = measured(solution.error_estimate, "not known")
    items: list[Item] = [Text(f"Estimated relative error over the domain: {estimate}.")]
    if errors is not None:
        row = [measured(v) for v in (errors.mse, errors.mae, errors.max_error, errors.relative_l2)]
        headers = ["MSE", "MAE", "largest error", "relative L2"]
        items.append(Table(headers, [row], left=0, note="Against the exact solution."))
    return [*items, *steps_table(solution.history)]


def _live(solution: Solution) -> list[Item]:
    """Values under the pointer, for one and two axes."""
    m = len(solution.axes)
    if m > 2:
        return []
    lines, values = solution.on_grid(201 if m == 1 else 101)
    columns = [values] if len(solution.unknowns) == 1 else list(np.moveaxis(values, -1, 0))
    named = list(zip(solution.unknowns, columns, strict=True))
    if m == 1:
        return [Curves(lines[0], dict(named), solution.axes[0], "Values along the solution.")]
    flip = solution.axes[1] == "t"  # time to the right
    across, up = (1, 0) if flip else (0, 1)
    return [
        HeatMap(
            lines[across],
            lines[up],
            column.T if flip else column,
            (solution.axes[across], solution.axes[up], name),
            f"Values of {name}, from {np.nanmin(column):.4g} to {np.nanmax(column):.4g}.",
            to_scale="t" not in solution.axes,
        )
        for name, column in named[:2]
    ]
