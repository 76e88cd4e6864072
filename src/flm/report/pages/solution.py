"""The page of one solution: what was asked, what was found, how sure, how to reproduce it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from flm.report.figures.fields import plot_solution
from flm.report.pages.layout import Code, Curves, HeatMap, Page, Picture, Section, Table, Text

TERMS = 10


def solution_page(
    solution: Any, *, title: str, asked: str, command: str = "", errors: dict[str, float] | None = None
) -> Page:
    """A page for a `Solution`.

    Args:
        solution: What `solve`, `train` or `distill` returned.
        title: The page's title.
        asked: The problem as text.
        command: What to type to get the same again.
        errors: The fields of `solution.errors()`, where they are at hand; computed when the exact solution is known.
    """
    if errors is None and solution.exact is not None:
        errors = asdict(solution.errors())
    found: list[Any] = [
        Picture(plot_solution(solution, spectrum=True), "The solution, its error where known, and its spectrum.")
    ]
    found += _live(solution)
    if solution.parameters:
        rows = [[n, f"{p.value:.8g}", f"{p.standard_error:.2g}"] for n, p in solution.parameters.items()]
        found.append(Table(["parameter", "value", "standard error"], rows))
    sections = [
        Section("What was asked", [Code(asked)]),
        Section("What was found", found),
        Section("The series", _terms(solution)),
        Section("How sure", _certainty(solution, errors)),
    ]
    if command:
        sections.append(Section("How to reproduce it", [Code(command)]))
    summary = solution.status.sentence[:1].upper() + solution.status.sentence[1:]
    return Page(title, summary, _facts(solution, errors), sections)


def _facts(solution: Any, errors: dict[str, float] | None) -> list[tuple[str, str]]:
    found = [("error estimate", _number(solution.error_estimate))]
    if errors is not None:
        found.append(("relative L2 error", _number(errors["relative_l2"])))
    return [*found, ("columns", f"{solution.num_columns:,}"), ("seconds", f"{solution.seconds:.2f}")]


def _terms(solution: Any) -> list[Any]:
    items: list[Any] = []
    for unknown in solution.unknowns:
        one = solution[unknown] if len(solution.unknowns) > 1 else solution
        try:
            pieces = one.pieces
        except AttributeError as reason:
            return [Text(str(reason))]
        for (low, high), series in pieces:
            terms = series.terms(TERMS)
            if len(pieces) > 1 or len(solution.unknowns) > 1:
                window = (
                    f", {solution.axes[solution.window_axis]} from {low:.4g} to {high:.4g}" if len(pieces) > 1 else ""
                )
                items.append(Text(f"{unknown}{window}:"))
            headers = ["amplitude", "phase", *(f"{w} {a}" for a in solution.axes for w in ("frequency", "period"))]
            rows = [
                [f"{t.amplitude:.6g}", f"{t.phase:.4f}"]
                + [f"{v:.6g}".replace("inf", "∞") for pair in zip(t.frequency, t.period, strict=True) for v in pair]
                for t in terms
            ]
            items.append(
                Table(
                    headers,
                    rows,
                    left=0,
                    note=f"The {len(rows)} largest cosines; {len(series.frequencies)} frequency vectors.",
                )
            )
    return items


def _certainty(solution: Any, errors: dict[str, float] | None) -> list[Any]:
    items: list[Any] = [Text(f"Estimated relative error over the domain: {_number(solution.error_estimate)}.")]
    if errors is not None:
        row = [_number(errors[k]) for k in ("mse", "mae", "max_error", "relative_l2")]
        items.append(
            Table(["MSE", "MAE", "largest error", "relative L2"], [row], left=0, note="Against the exact solution.")
        )
    columns = {k: v for k, v in solution.history.items() if np.ndim(v) == 1 and 0 < len(v) <= 60}
    lengths = {len(v) for v in columns.values()}
    if len(lengths) == 1:
        rows = [
            [_number(v, "–") if isinstance(v, float) else str(v) for v in row]
            for row in zip(*columns.values(), strict=True)
        ]
        items.append(Table([k.replace("_", " ") for k in columns], rows, left=0, note="The steps of the search."))
    return items


def _live(solution: Any) -> list[Any]:
    m = len(solution.axes)
    if m > 2:
        return []
    lines, values = solution.on_grid(201 if m == 1 else 101)
    columns = [values] if len(solution.unknowns) == 1 else list(np.moveaxis(values, -1, 0))
    if m == 1:
        curves = dict(zip(solution.unknowns, columns, strict=True))
        return [
            Curves(
                lines[0].tolist(),
                {k: v.tolist() for k, v in curves.items()},
                solution.axes[0],
                "Values along the solution.",
            )
        ]
    flip = solution.axes[1] == "t"  # time to the right
    across, up = (1, 0) if flip else (0, 1)
    return [
        HeatMap(
            lines[across].tolist(),
            lines[up].tolist(),
            (column.T if flip else column).tolist(),
            (solution.axes[across], solution.axes[up], name),
            f"Values of {name}, from {np.nanmin(column):.4g} to {np.nanmax(column):.4g}.",
            to_scale="t" not in solution.axes,
        )
        for name, column in zip(solution.unknowns[:2], columns[:2], strict=True)
    ]


def _number(value: float, unknown: str = "not known") -> str:
    return unknown if not np.isfinite(value) else f"{value:.2e}" if value and abs(value) < 1e-2 else f"{value:.4g}"
