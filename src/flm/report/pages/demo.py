"""The tour: the paper's four PDEs solved to a tolerance, and what the library does beyond them, as a table and a page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import flm
from flm.paper.printed import DISKS, PDE_ERRORS
from flm.report.figures.control import plot_control
from flm.report.figures.fields import plot_solution
from flm.report.pages.layout import Code, Page, Picture, Section, Table, Text
from flm.results import AbstractResult, Listener, Progress, silent

HEADERS = ("problem", "measure", "ours", "the paper's", "tolerance", "estimate", "seconds")
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
    ours: float
    paper: float | None
    text: str
    figure: Figure
    seconds: float
    converged: bool
    tol: float | None = None
    estimate: float | None = None
    unit: str = ""

    def row(self) -> list[str]:
        """Cells of the table, as `HEADERS`."""
        digits = lambda v: f"{v:.2g}" if self.unit or v > 0.01 else f"{v:.2e}"
        show = lambda v: "–" if v is None else digits(v) + self.unit
        tol = "–" if self.tol is None else f"{self.tol:.0e}"
        estimate = "–" if self.estimate is None else f"{self.estimate:.1e}"
        return [self.name, self.measure, show(self.ours), show(self.paper), tol, estimate, f"{self.seconds:.1f}"]


@dataclass(frozen=True)
class Tour:
    """All stops, and the time they took."""

    stops: tuple[Stop, ...]
    seconds: float

    @property
    def converged(self) -> bool:
        """Whether every stop reached its tolerance."""
        return all(stop.converged for stop in self.stops)

    def record(self) -> dict[str, object]:
        """For machines."""
        keys = ("name", "measure", "tol", "ours", "paper", "estimate", "seconds", "converged")
        return {"seconds": self.seconds, "stops": [{k: getattr(s, k) for k in keys} for s in self.stops]}

    def page(self) -> Page:
        """For people."""
        note = (
            "Ours: measured in this run against exact or independent references. The paper's: its published results, by "
            "training. A tolerance is a relative error, in L2, for Burgers in L1; the estimate is "
            "what the solver itself believes. Imputation is of a generated series, for which the paper has no number."
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


def run_demo(progress: Listener = silent) -> Tour:
    """Take the tour; `progress` is called before each stop."""
    began = time.perf_counter()
    plan: dict[str, Callable[[], Stop]] = {
        f"{TITLES[name]}, to a relative error of {tol:.0e}": partial(_pde, name, tol) for name, tol in PDES.items()
    }
    plan["Rock-Paper-Scissors, one control law for a whole ball of initial states"] = _family
    plan["a series with holes, filled with error bars"] = _imputation
    stops = []
    for text, stop in plan.items():
        progress(Progress(text, share=len(stops) / len(plan), seconds=time.perf_counter() - began))
        stops.append(stop())
    return Tour(tuple(stops), time.perf_counter() - began)


def _pde(name: str, tol: float) -> Stop:
    problem = getattr(flm.problems, name)()
    solution = flm.solve(problem, tol)
    errors = solution.errors()
    text = (
        f"{solution.status.sentence[:1].upper()}{solution.status.sentence[1:]} Against the exact solution: relative L2 "
        f"{errors.relative_l2:.1e}, largest error {errors.max_error:.1e}, with {solution.num_columns} linear unknowns."
    )
    printed = PDE_ERRORS[name]["flm"][0]
    figure = plot_solution(solution, spectrum=True)
    return Stop(TITLES[name], "MSE", errors.mse, printed, text, figure, **_ending(solution))


def _family() -> Stop:
    problem = flm.problems.rock_paper_scissors(initial=flm.Ball((0.2, 0.2, 0.6), 0.15))
    solution = flm.solve(problem, 1e-3)
    comparison = solution.compare("pontryagin", num_starts=8, seed=1)
    text = (
        f"{solution.status.sentence} Simulated costs against Pontryagin's equations, solved anew for each of 8 "
        f"random initial states: mean absolute error {comparison.mape:.1e} %, largest {comparison.worst:.1e} %."
    )
    name, printed = "Rock-Paper-Scissors family", DISKS[0.2, 0.2, 0.6][0]
    figure = plot_control(solution, comparison.x0[:3])
    return Stop(name, "cost MAPE", comparison.mape, printed, text, figure, **_ending(solution), unit=" %")


def _ending(solution: AbstractResult) -> dict[str, Any]:
    found = {"tol": solution.tolerance, "estimate": solution.error_estimate}
    return found | {"seconds": solution.seconds, "converged": solution.converged}


def _imputation() -> Stop:
    """Four weeks of hourly temperature and humidity: daily and weekly rhythms, noise, scattered holes and long gaps."""
    rng = np.random.default_rng(0)
    hours = np.arange(24 * 28)
    day, week = 2 * np.pi * hours / 24, 2 * np.pi * hours / 168
    warmth = 15 + 5 * np.sin(day) + 2 * np.sin(2 * day + 0.5) + 3 * np.sin(week)
    humidity = 60 - 12 * np.sin(day - 0.4) - 4 * np.cos(week)
    truth = np.stack([warmth, humidity], axis=1) + rng.normal(0.0, [0.3, 1.0], (len(hours), 2))
    holed = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    for channel in range(2):
        for start in rng.integers(0, len(hours) - 20, 6):
            holed[start : start + 14, channel] = np.nan
    began = time.perf_counter()
    found = flm.FLMImputer().fit(holed).impute(holed, fitted=True)
    seconds = time.perf_counter() - began
    missing = np.isnan(holed)
    error = float(np.abs(found.values - truth)[missing].mean())
    lines = [np.interp(hours, hours[~missing[:, c]], holed[~missing[:, c], c]) for c in range(2)]
    straight = float(np.abs(np.stack(lines, axis=1) - truth)[missing].mean())
    low, high = found.interval(0.9)
    covered = 100 * float(((truth >= low) & (truth <= high))[missing].mean())
    text = (
        f"A generated series of two channels, {missing.sum()} of {missing.size} values hidden, in gaps of up to 14 hours and "
        f"more. Mean absolute error {error:.2f}; straight lines between neighbors have {straight:.2f}. The 90 % intervals "
        f"cover {covered:.0f} % of what was hidden."
    )
    figure = found.plot(rows=slice(0, 24 * 9), level=0.9)
    return Stop("imputation, generated series", "MAE", error, None, text, figure, seconds, error < straight)
