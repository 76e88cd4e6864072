"""A search for a control law: what was asked for, the laws found on the way, and why it can end."""

from dataclasses import dataclass, field, replace

import numpy as np

from flm.control.law import ControlLaw, StateNetworks
from flm.control.problem import OptimalControl
from flm.control.solution import ControlSolution
from flm.results import Ending, Record, Word

FEASIBLE = 1e-7  # the largest constraint value at which constraints count as met
MET = Ending(Word.CONVERGED)
COLUMNS = Ending(Word.SIZE, "stopped at the allowed number of columns", "raise `max_columns` or `tol`")
NO_GAIN = Ending(Word.STALLED, "stalled: more columns no longer help")
OF_THIS_SIZE = Ending(Word.SIZE, "the best law of this size that was found")
INTERRUPTED = Ending(Word.INTERRUPTED)


@dataclass(frozen=True, eq=False)
class Found:
    """A law with its estimated relative excess cost, its violation of constraints, and a penalty method's state networks."""

    law: ControlLaw
    error: float
    violation: float
    networks: StateNetworks | None


@dataclass(frozen=True, eq=False)
class Search:
    """The request (see `solve_control`) and the laws that were found so far."""

    problem: OptimalControl
    tol: float
    num_subnets: int | None
    max_columns: int
    seed: int
    record: Record
    found: list[Found] = field(default_factory=list)

    def keep(
        self, law: ControlLaw, error: float, violation: float = 0.0, networks: StateNetworks | None = None
    ) -> float:
        """Keep a law and return its error: infinite if it breaks constraints, since it may then cost less than the optimum.

        Violations up to ten times the tolerance count as met: the law of a family meets constraints as well as the optimum.
        """
        error = float(error) if violation <= max(FEASIBLE, 10 * self.tol) else float("inf")
        self.found.append(Found(law, error, violation, networks))
        return error

    def solution(self, ending: Ending, method: str) -> ControlSolution:
        """The solution for the user: the law with the smallest error, the latest of equal ones."""
        problem, found = self.problem, min(reversed(self.found), key=lambda entry: entry.error)
        notes = [ending.note] if ending.note else []
        if found.violation > 1e-9:
            notes.append(f"constraints are violated by at most {found.violation:.1e}")
        elif not np.isfinite(found.error):
            notes.append("the control enters linearly and is not bounded, or the dynamics failed")
        return ControlSolution(
            law=found.law,
            starts=problem.starts,
            controls=problem.controls,
            ending=replace(ending, note="; ".join(notes)),
            error_estimate=found.error,
            tolerance=self.tol,
            method=method,
            networks=found.networks,
            largest_violation=found.violation,
            history=self.record.history,
            num_columns=found.law.num_columns,
            seconds=self.record.seconds,
            problem=problem,
        )


def cost_scale(cost: np.ndarray) -> np.ndarray:
    """The unit of excess costs: |cost|, or one percent of the mean where that is larger."""
    size = np.abs(cost[np.isfinite(cost)])
    mean = size.mean() if len(size) else 1.0
    return np.maximum(np.where(np.isfinite(cost), np.abs(cost), mean), max(0.01 * mean, 1e-300))
