"""The tour: the paper's four PDEs solved to a tolerance and one of its control problems, as a table and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import flm
from flm.paper.printed import DISKS, PDE_ERRORS
from flm.report.live import live
from flm.report.pages.layout import Page, Request, Sections, Table
from flm.results import AbstractResult, Listener, Progress, silent

HEADERS = ("problem", "measure", "ours", "the paper's", "tolerance", "estimate", "seconds")
PDES = {"heat": 1e-9, "poisson": 1e-9, "black_scholes": 1e-9, "burgers": 1e-2}
TITLES = {
    "heat": "heat equation",
    "poisson": "Poisson equation",
    "black_scholes": "Black–Scholes equation",
    "burgers": "inviscid Burgers",
}
NOTE = (
    "Ours: measured in this run against exact or independent references. The paper's: its published results, by training. A "
    "tolerance is a relative error, in L2, for Burgers in L1, for control in the cost; the estimate is what the solver believes."
)


@dataclass(frozen=True)
class Stop:
    """One stop of the tour: a measure of our answer beside the paper's."""

    name: str
    measure: str
    ours: float
    paper: float
    text: str
    found: AbstractResult

    def row(self) -> list[str]:
        """The cells of the table, in the order of `HEADERS`."""
        shown = [f"{v:.2g}" if v > 1e-4 else f"{v:.2e}" for v in (self.ours, self.paper)]
        sure = [f"{self.found.tolerance:.0e}", f"{self.found.error_estimate:.1e}", f"{self.found.seconds:.1f}"]
        return [self.name, self.measure, *shown, *sure]

    def record(self) -> dict[str, object]:
        """The stop as a record for machines."""
        found: dict[str, object] = {key: getattr(self, key) for key in ("name", "measure", "ours", "paper")}
        found |= {"tol": self.found.tolerance, "estimate": self.found.error_estimate}
        return found | {"seconds": self.found.seconds, "converged": self.found.converged}


def demo_page(stops: Sequence[Stop], seconds: float) -> Page:
    """The page of the tour."""
    table = Table(HEADERS, [stop.row() for stop in stops], left=2, note=NOTE)
    sections: Sections = {"Ours against the paper": [table]}
    large = lambda text: text[:1].upper() + text[1:]
    sections |= {large(stop.name): [large(stop.text), live(stop.found)] for stop in stops}
    summary = "Fourier Learning Machines: tolerance in, series out. No network size, no learning rate, no loss weights."
    converged = "yes" if all(stop.found.converged for stop in stops) else "no"
    facts = {"stops": str(len(stops)), "seconds": f"{seconds:.0f}", "all converged": converged}
    return Request("A tour of flm", command="flm demo").page(summary, facts, sections)


def run_demo(progress: Listener = silent) -> list[Stop]:
    """Take the tour and return its stops; `progress` is called before each."""
    stops: list[Stop] = []
    for name, tol in PDES.items():
        progress(Progress(f"{TITLES[name]}, to a relative error of {tol:.0e}", share=len(stops) / (len(PDES) + 1)))
        stops.append(_pde(name, tol))
    words = "Rock-Paper-Scissors, one control law for a whole ball of initial states"
    progress(Progress(words, share=len(stops) / (len(PDES) + 1)))
    return [*stops, _family()]


def _pde(name: str, tol: float) -> Stop:
    found = flm.solve(getattr(flm.problems, name)(), tol)
    errors = found.errors()
    text = (
        f"{found.status.sentence} Against the exact solution: relative L2 {errors.relative_l2:.1e}, largest error "
        f"{errors.max_error:.1e}, with {found.num_columns} linear unknowns."
    )
    return Stop(TITLES[name], "MSE", errors.mse, PDE_ERRORS[name]["flm"][0], text, found)


def _family() -> Stop:
    found = flm.solve(flm.problems.rock_paper_scissors(initial=flm.Ball((0.2, 0.2, 0.6), 0.15)), 1e-3)
    errors = found.compare("pontryagin", num_starts=8, seed=1)
    text = (
        f"{found.status.sentence} Simulated costs against Pontryagin's equations, solved anew for each of 8 random initial "
        f"states: mean absolute error {errors.mape:.1e} %, largest {errors.worst:.1e} %."
    )
    printed = DISKS[0.2, 0.2, 0.6][0]
    return Stop("Rock-Paper-Scissors family", "cost MAPE, %", errors.mape, printed, text, found)
