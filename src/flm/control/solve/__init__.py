"""Solving optimal control problems: tolerance in, control law out."""

import difflib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flm.control.problem import OptimalControl
from flm.control.solution import ControlSolution
from flm.control.solve.adam import Adam, train_reduced
from flm.control.solve.augmented import AugmentedLagrangian, Networks, solve_augmented
from flm.control.solve.constraints import FEASIBLE
from flm.control.solve.family import cost_scale, follow_law
from flm.control.solve.levels import law_excess
from flm.control.solve.penalty import Penalty, Trained, train_penalty
from flm.control.solve.reduced import Outcome, Request, solve_family, solve_point
from flm.numerics.least_squares import one_thread
from flm.results import Ending, Listener, Record, Word, silent
from flm.wording import InputError


@dataclass(frozen=True)
class Reduced:
    """Settings of the reduced method: only the control is a series, the states follow from the dynamics.

    Args:
        learn_frequencies: Whether frequencies move too. By default they do when the number of sub-networks is given,
            and a growing lattice of fixed ones is used otherwise.
        num_starts: Training starts of a family; by default 2.5 for each function of the start.
        guesses: Random controls to begin with, beside zero.
        adam: Train frequencies, amplitudes and phases by Adam instead, as the paper does; needs `num_subnets`.
    """

    learn_frequencies: bool | None = None
    num_starts: int | None = None
    guesses: int = 10
    adam: Adam | None = None


_METHODS = {"reduced": Reduced, "penalty": Penalty, "augmented_lagrangian": AugmentedLagrangian}


def solve_control(
    problem: OptimalControl,
    tol: float = 1e-8,
    *,
    num_subnets: int | None = None,
    method: Any = None,
    max_columns: int = 3000,
    seed: int = 0,
    progress: Listener = silent,
) -> ControlSolution:
    """The control law of an optimal control problem, for one initial state or a whole set of them.

    Args:
        problem: What to solve.
        tol: Relative excess of the simulated cost over the optimum, worst initial state.
        num_subnets: The number of sub-networks of the control; grown until `tol` is met when left out.
        method: "reduced" (default), "penalty" (the paper's) or "augmented_lagrangian", or settings: `Reduced(...)`,
            `Penalty(...)`, `AugmentedLagrangian(...)`.
        max_columns: The most linear unknowns that a growing basis may have.
        seed: Of random guesses and starts.
        progress: Called with each step.

    Returns:
        The law, its status and an error estimate. Ctrl-C returns the best law so far.
    """
    method = _method(method)
    if problem.free and not isinstance(method, Reduced):
        raise InputError("`method` must be 'reduced' for a free horizon; got " + _name(method) + ".")
    record = Record(progress)
    with one_thread(0):  # many small factorizations
        return _SOLVERS[type(method)](problem, method, tol, num_subnets, max_columns, seed, record)


def _method(method: Any) -> Any:
    if method is None:
        return Reduced()
    if isinstance(method, str):
        if method not in _METHODS:
            close = difflib.get_close_matches(method, _METHODS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise InputError(f"`method` must be one of {', '.join(map(repr, _METHODS))}; got {method!r}.{hint}")
        return _METHODS[method]()
    if type(method) not in _SOLVERS:
        raise InputError(f"`method` must be a name or settings such as Reduced(); got {method!r}.")
    return method


def _name(method: Any) -> str:
    return next(name for name, kind in _METHODS.items() if isinstance(method, kind))


def _solve_reduced(problem, method: Reduced, tol, num_subnets, max_columns, seed, record) -> ControlSolution:
    best: list[Outcome] = []
    try:
        if method.adam is not None:
            outcome = train_reduced(problem, method.adam, tol, num_subnets, method.guesses, seed, record, best)
        else:
            solve = solve_family if problem.starts.dimension else solve_point
            learn, starts, guesses = method.learn_frequencies, method.num_starts, method.guesses
            request = Request(tol, num_subnets, max_columns, seed, learn, starts, guesses)
            outcome = solve(problem, request, record, best)
    except KeyboardInterrupt:
        if not best:
            raise
        outcome = min(best, key=lambda entry: entry.error)
    return _solution(problem, outcome, tol, record, "reduced", None)


def _solve_augmented(
    problem, method: AugmentedLagrangian, tol, num_subnets, max_columns, seed, record
) -> ControlSolution:
    best: list[Networks] = []
    try:
        found = solve_augmented(problem, method, tol, num_subnets, max_columns, seed, record, best)
    except KeyboardInterrupt:
        if not best:
            raise
        found = min(best, key=lambda entry: entry.outcome.error)
    return _solution(problem, found.outcome, tol, record, "augmented_lagrangian", found.networks)


def _solve_penalty(problem, method: Penalty, tol, num_subnets, max_columns, seed, record) -> ControlSolution:
    kept: list[Trained] = []
    reason = "size"
    try:
        trained = train_penalty(
            problem, method, num_subnets, seed, record, lambda entry: kept.__setitem__(slice(None), [entry])
        )
    except KeyboardInterrupt:
        if not kept:
            raise
        trained, reason = kept[0], "interrupted"
    error, worst = penalty_error(problem, trained, seed)
    record.step(
        "penalty",
        columns=trained.law.num_columns + trained.networks.coefficients.size,
        estimate=trained.loss,
        error_estimate=error,
    )
    outcome = Outcome(trained.law, error, "converged" if error <= tol else reason, worst)
    return _solution(problem, outcome, tol, record, "penalty", trained.networks)


def penalty_error(problem: OptimalControl, trained: Trained, seed: int) -> tuple[float, float]:
    """The estimated relative excess of the simulated cost, and the violation of constraints, worst of a few starts."""
    starts = problem.starts
    v0 = starts.spread(16, seed=seed + 1) if starts.dimension else starts.center[None]
    followed = follow_law(problem, trained.law, v0)
    excess = law_excess(problem, trained.law, v0) / cost_scale(followed.cost)
    return float(excess.max()), float(followed.violation().max())


_SOLVERS = {Reduced: _solve_reduced, Penalty: _solve_penalty, AugmentedLagrangian: _solve_augmented}


_CLAUSES = {
    "converged": Ending(Word.CONVERGED),
    "columns": Ending(Word.SIZE, "stopped at the allowed number of columns", "raise `max_columns` or `tol`"),
    "stalled": Ending(Word.STALLED, "stalled: more columns no longer help"),
    "size": Ending(Word.SIZE, "the best law of this size that was found"),
    "interrupted": Ending(Word.INTERRUPTED),
}


def _solution(problem, outcome: Outcome, tol: float, record: Record, method: str, networks: Any) -> ControlSolution:
    ending, notes = _CLAUSES[outcome.reason], []
    if outcome.violation > 1e-9:
        notes.append(f"constraints are violated by at most {outcome.violation:.1e}")
    error = float(outcome.error)
    if not np.isfinite(error):
        notes.append("the control enters linearly and is not bounded, or the dynamics failed")
    if outcome.violation > FEASIBLE or not np.isfinite(error):
        error = np.inf  # a law that breaks the constraints may cost less than the optimum
    return ControlSolution(
        law=outcome.law,
        starts=problem.starts,
        controls=tuple(problem.controls),
        ending=replace(ending, note="; ".join([*filter(None, [ending.note]), *notes])),
        error_estimate=error,
        tolerance=tol,
        method=method,
        networks=networks,
        largest_violation=outcome.violation,
        history=record.history,
        num_columns=outcome.law.num_columns,
        seconds=record.seconds,
        problem=problem,
    )
