"""The page of one control law: what was asked, the law at work, how sure, how to reproduce it."""

from __future__ import annotations

from typing import Any

import numpy as np

from flm.report.figures.control import plot_control
from flm.report.pages.layout import Code, Curves, Page, Picture, Section, Table, Text


def control_page(solution: Any, *, title: str, asked: str, command: str = "") -> Page:
    """A page for a `ControlSolution` that has its problem.

    Args:
        solution: What `solve` returned for an `OptimalControl`.
        title: The page's title.
        asked: The problem as text.
        command: What to type to get the same again.
    """
    start = solution.starts.lift(solution.starts.center)
    cost, horizon = float(solution.cost(start)), float(solution.horizon(start))
    t = np.linspace(0.0, horizon, 201)
    states, controls = solution.trajectory(t, start), solution.control(t, start).reshape(len(t), -1)
    names = {s: states[:, i] for i, s in enumerate(solution.starts.states)}
    names |= {c: controls[:, i] for i, c in enumerate(solution.controls)}
    facts = [
        ("estimated excess cost", f"{solution.error_estimate:.1e}"),
        ("cost" if solution.starts.dimension == 0 else "cost from the center", f"{cost:.8g}"),
        ("sub-networks", str(solution.num_subnets)),
        ("seconds", f"{solution.seconds:.2f}"),
    ]
    where = ", ".join(f"{n} = {v:.4g}" for n, v in zip(solution.starts.states, start, strict=True))
    found = [
        Text(f"The law is for {solution.starts}."),
        Picture(plot_control(solution), "States and controls along the simulated dynamics."),
        Curves(t.tolist(), {n: v.tolist() for n, v in names.items()}, "t", f"From {where}."),
    ]
    steps = {k: v for k, v in solution.history.items() if np.ndim(v) == 1 and 0 < len(v) <= 60}
    rows = [[_cell(v) for v in row] for row in zip(*steps.values(), strict=False)]
    sure = [
        Text(
            "The excess is ½∫H_u²/H_uu dt along the trajectory plus the change on enlarging the basis, relative to the cost."
        ),
        *([Table(list(steps), rows, left=1, note="The steps of the search.")] if rows else []),
    ]
    sections = [Section("What was asked", [Code(asked)]), Section("What was found", found), Section("How sure", sure)]
    if command:
        sections.append(Section("How to reproduce it", [Code(command)]))
    return Page(title, solution.status.sentence, facts, sections)


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if np.isfinite(value) else "–"
