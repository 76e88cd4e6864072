"""A search for a control law: what was asked for, the laws found on the way, and why it can end."""

from dataclasses import dataclass, field, replace

import numpy as np

from flm.control.law import ControlLaw, StateNetworks
from flm.control.problem import OptimalControl
from flm.control.solution import ControlSolution
from flm.control.solve.variation import excess_along
from flm.results import Ending, Record, Word

FEASIBLE = 1e-7  # the largest constraint value at which constraints count as met
MET = Ending(Word.CONVERGED)
COLUMNS = Ending(Word.SIZE, "stopped at the allowed number of columns", "raise `max_columns` or `tol`")
NO_GAIN = Ending(Word.STALLED, "stalled: more columns no longer help")
NOT_MET = Ending(Word.STALLED, "stalled: no control found meets the constraints")
UNRESOLVED = "a third of the cost or more may be lost"
OF_THIS_SIZE = Ending(Word.SIZE, "the best law of this size that was found")
INTERRUPTED = Ending(Word.INTERRUPTED)


@dataclass(frozen=True, eq=False)
class Found:
    """A law with its estimated relative excess cost, its violation of constraints, and a penalty method's state networks.

    `doubt` says why a law has no estimate.
    """

    law: ControlLaw
    error: float
    violation: float = 0.0
    doubt: str = ""
    networks: StateNetworks | None = None


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

    @property
    def allowed(self) -> float:
        """The violation up to which constraints count as met by a law: ten times the tolerance, 1e-7 at least."""
        return max(FEASIBLE, 10 * self.tol)

    def keep(self, found: Found) -> float:
        """Keep a law and return its error: infinite if it breaks constraints, since it may then cost less than the optimum."""
        error = found.error if found.violation <= self.allowed else np.inf
        self.found.append(replace(found, error=error))
        return error

    def solution(self, ending: Ending, method: str) -> ControlSolution:
        """The solution for the user: the law with the smallest error, the latest of equal ones."""
        problem, found = self.problem, min(reversed(self.found), key=lambda entry: entry.error)
        notes = [ending.note] if ending.note else []
        if not found.violation <= self.allowed:
            notes.append(f"constraints are not met, but violated by {found.violation:.1e}")
        elif found.violation > 1e-9:
            notes.append(f"constraints are violated by at most {found.violation:.1e} where this was checked")
        if not np.isfinite(found.error) and found.doubt and found.doubt not in ending.clause:
            notes.append(found.doubt)
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
    """The unit of excess costs: |cost|, or one percent of the mean over all starts where that is larger."""
    size = np.abs(cost[np.isfinite(cost)])
    mean = size.mean() if len(size) else 1.0
    return np.maximum(np.where(np.isfinite(cost), np.abs(cost), mean), max(0.01 * mean, 1e-300))


def relative_excess(lost: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Costs that are lost, relative to the optimum cost - lost, (P,): infinite from a third of the cost on, which is unresolved."""
    share = lost / cost_scale(cost)
    return np.where(share < 1 / 3, share / np.maximum(1.0 - share, 0.5), np.inf)


def judge(search: Search, stage: str, law: ControlLaw, estimate: float, networks: StateNetworks | None = None) -> None:
    """Keep a trained law with its error: ½∫h_u²/h_uu along its trajectories over the cost, the worst of the held-out starts."""
    problem, starts = search.problem, search.problem.starts
    v0 = starts.held_out(seed=search.seed + 1)
    run = law.at(v0).follow(problem, v0)
    error = float(relative_excess(excess_along(run), run.cost).max())
    doubt = UNRESOLVED if np.isfinite(run.cost).all() else "the dynamics failed"
    error = search.keep(Found(law, error, float(run.violation.max()), doubt, networks))
    columns = law.num_columns + (0 if networks is None else networks.coefficients.size)
    search.record.step(stage, columns=columns, estimate=estimate, error_estimate=error)
