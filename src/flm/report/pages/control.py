"""The page of one control law: what was asked, the law at work, how sure, how to reproduce it."""

from __future__ import annotations

import numpy as np

from flm.control.solution import ControlSolution
from flm.report.figures.control import plot_control
from flm.report.pages.layout import Curves, Page, Picture, Request, Section, Text, steps_table

EXCESS = (
    "The excess is ½∫H_u²/H_uu dt along the trajectory plus the change on enlarging the basis, relative to the cost."
)


def control_page(solution: ControlSolution, request: Request) -> Page:
    """A page for a `ControlSolution` that has its problem."""
    start = solution.starts.lift(solution.starts.center)
    names, table = control_table(solution)
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
        Curves(table[:, 0], dict(zip(names[1:], table.T[1:], strict=True)), "t", f"From {where}."),
    ]
    sections = [
        Section("What was found", found),
        Section("How sure", [Text(EXCESS), *steps_table(solution.history)]),
    ]
    return request.page(solution.status.sentence, facts, sections)


def control_table(solution: ControlSolution, num_times: int = 201) -> tuple[list[str], np.ndarray]:
    """Names and columns of time, states and controls from the center of the initial states."""
    start = solution.starts.lift(solution.starts.center)
    t = np.linspace(0.0, solution.horizon(start), num_times)
    columns = [t, solution.trajectory(t, start), solution.control(t, start).reshape(num_times, -1)]
    return ["t", *solution.starts.states, *solution.controls], np.column_stack(columns)
