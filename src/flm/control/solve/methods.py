"""The methods that solve optimal control problems, by name or by settings."""

from dataclasses import replace

import numpy as np

from flm.control.problem import OptimalControl
from flm.control.solution import ControlSolution
from flm.control.solve.penalty import Penalty, solve_penalty
from flm.control.solve.reduced import Reduced, solve_reduced
from flm.control.solve.search import INTERRUPTED, Search
from flm.numerics.least_squares import one_thread
from flm.results import Ending, Listener, Record, silent
from flm.wording import InputError, did_you_mean

Settings = Reduced | Penalty

_KINDS: dict[str, type[Settings]] = {"reduced": Reduced, "penalty": Penalty}


def solve_control(
    problem: OptimalControl,
    tol: float,
    *,
    num_subnets: int | None = None,
    method: str | Settings | None = None,
    max_columns: int = 3000,
    seed: int = 0,
    progress: Listener = silent,
) -> ControlSolution:
    """The control law of an optimal control problem, for one initial state or a whole set of them; see `flm.solve`.

    Ctrl-C returns the best law so far.
    """
    settings = _settings(method)
    if problem.free and isinstance(settings, Penalty):
        raise InputError(f"`method` must be 'reduced' for a free horizon; got {method!r}.")
    search = Search(problem, tol, num_subnets, max_columns, seed, Record(progress))
    with one_thread(0):  # many small factorizations
        try:
            ending = (
                solve_penalty(search, settings) if isinstance(settings, Penalty) else solve_reduced(search, settings)
            )
        except KeyboardInterrupt:
            if not search.found:
                raise
            ending = INTERRUPTED
    return _solution(search, ending, "penalty" if isinstance(settings, Penalty) else "reduced")


def _settings(method: str | Settings | None) -> Settings:
    if method is None:
        return Reduced()
    if isinstance(method, str) and method in _KINDS:
        return _KINDS[method]()
    if isinstance(method, Reduced | Penalty):
        return method
    hint = did_you_mean(method, _KINDS) if isinstance(method, str) else ""
    raise InputError(f"`method` must be 'reduced', 'penalty' or settings such as flm.Reduced(); got {method!r}.{hint}")


def _solution(search: Search, ending: Ending, method: str) -> ControlSolution:
    problem, found = search.problem, search.best
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
        tolerance=search.tol,
        method=method,
        networks=found.networks,
        largest_violation=found.violation,
        history=search.record.history,
        num_columns=found.law.num_columns,
        seconds=search.record.seconds,
        problem=problem,
    )
