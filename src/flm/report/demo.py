"""The tour: the paper's four PDEs solved to a tolerance, and what the library does beyond them, as a table and a page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flm
from flm.report.fields import plot_solution
from flm.report.page import Code, Page, Picture, Section, Table, Text
from flm.solvers.paper_protocol import REPORTED

HEADERS = ("problem", "measure", "tolerance", "ours", "the paper's", "estimate", "seconds")
PDES = {"heat": 1e-9, "poisson": 1e-9, "black_scholes": 1e-9, "burgers": 1e-2}
TITLES = {
    "heat": "heat equation",
    "poisson": "Poisson equation",
    "black_scholes": "Black–Scholes equation",
    "burgers": "inviscid Burgers",
}


@dataclass(frozen=True)
class Stop:
    """One stop of the tour: a measure, ours beside the paper's (None where it has none)."""

    name: str
    measure: str
    tol: float | None
    ours: float
    paper: float | None
    estimate: float | None
    seconds: float
    converged: bool
    figure: Any
    text: str
    unit: str = ""

    def row(self) -> list[str]:
        """Cells of the table, as `HEADERS`."""
        show = lambda v: "–" if v is None else f"{v:.2e}" if not self.unit else f"{v:.2g}{self.unit}"
        tol = "–" if self.tol is None else f"{self.tol:.0e}"
        estimate = "–" if self.estimate is None else f"{self.estimate:.1e}"
        return [self.name, self.measure, tol, show(self.ours), show(self.paper), estimate, f"{self.seconds:.1f}"]


@dataclass(frozen=True)
class Tour:
    """All stops, and the time they took."""

    stops: tuple[Stop, ...]
    seconds: float

    @property
    def converged(self) -> bool:
        """Whether every stop reached its tolerance."""
        return all(stop.converged for stop in self.stops)

    def record(self) -> dict[str, Any]:
        """For machines."""
        keys = ("name", "measure", "tol", "ours", "paper", "estimate", "seconds", "converged")
        return {"seconds": self.seconds, "stops": [{k: getattr(s, k) for k in keys} for s in self.stops]}

    def page(self) -> Page:
        """For people."""
        note = (
            "Ours: measured in this run against exact or independent references. The paper's: its Tables 2 and 3, by "
            "training. A tolerance is a relative error; the estimate is what the solver itself believes."
        )
        rows = [stop.row() for stop in self.stops]
        sections = [Section("Ours against the paper", [Table(HEADERS, rows, left=2, note=note)])]
        sections += [Section(s.name[:1].upper() + s.name[1:], [Text(s.text), Picture(s.figure)]) for s in self.stops]
        sections.append(Section("How to reproduce it", [Code("flm demo")]))
        summary = (
            "Fourier Learning Machines: tolerance in, series out. No network size, no learning rate, no loss weights."
        )
        facts = [
            ("stops", str(len(self.stops))),
            ("seconds", f"{self.seconds:.0f}"),
            ("all converged", "yes" if self.converged else "no"),
        ]
        return Page("A tour of flm", summary, facts, sections)


def run_demo(say: Callable[[str], None]) -> Tour:
    """Take the tour; `say` gets a line before each stop."""
    began = time.perf_counter()
    stops = []
    for name, tol in PDES.items():
        say(f"{TITLES[name]}, to a relative error of {tol:.0e} …")
        stops.append(_pde(name, tol))
    return Tour(tuple(stops), time.perf_counter() - began)


def _pde(name: str, tol: float) -> Stop:
    problem = getattr(flm.problems, name)()
    solution = flm.solve(problem, tol)
    errors = solution.errors()
    text = (
        f"{solution.status.sentence[:1].upper()}{solution.status.sentence[1:]} Against the exact solution: relative L2 "
        f"{errors.relative_l2:.1e}, largest error {errors.max_error:.1e}, with {solution.num_columns} linear unknowns."
    )
    return Stop(
        TITLES[name],
        "MSE",
        tol,
        errors.mse,
        REPORTED[name]["flm"][0],
        solution.error_estimate,
        solution.seconds,
        solution.converged,
        plot_solution(solution, spectrum=True),
        text,
    )
