"""Solving optimal control problems: tolerance in, control law out."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flm.control.problem import OptimalControl
from flm.control.solution import ControlSolution
from flm.control.solve.adam import Adam, train_reduced
from flm.control.solve.augmented import AugmentedLagrangian, Networks, solve_augmented
from flm.control.solve.family import cost_scale, follow_law
from flm.control.solve.levels import law_excess
from flm.control.solve.monitor import Monitor
from flm.control.solve.penalty import Penalty, Trained, train_penalty
from flm.control.solve.reduced import Outcome, Request, solve_family, solve_point
from flm.numerics.least_squares import one_thread
from flm.results import Status


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
    progress: bool | Callable[[dict], Any] = False,
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
        progress: False, True, or a function that is called with a dict after each step.

    Returns:
        The law, its status and an error estimate. Ctrl-C returns the best law so far.
    """
    method = _method(method)
    if problem.free and not isinstance(method, Reduced):
        raise ValueError("`method` must be 'reduced' for a free horizon; got " + _name(method) + ".")
    monitor = Monitor(progress)
    with one_thread(0):  # many small factorizations
        return _SOLVERS[type(method)](problem, method, tol, num_subnets, max_columns, seed, monitor)


def _method(method: Any) -> Any:
    if method is None:
        return Reduced()
    if isinstance(method, str):
        if method not in _METHODS:
            close = difflib.get_close_matches(method, _METHODS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"`method` must be one of {', '.join(map(repr, _METHODS))}; got {method!r}.{hint}")
        return _METHODS[method]()
    if type(method) not in _SOLVERS:
        raise ValueError(f"`method` must be a name or settings such as Reduced(); got {method!r}.")
    return method


def _name(method: Any) -> str:
    return next(name for name, kind in _METHODS.items() if isinstance(method, kind))


def _solve_reduced(problem, method: Reduced, tol, num_subnets, max_columns, seed, monitor) -> ControlSolution:
    best: list[Outcome] = []
    try:
        if method.adam is not None:
            outcome = train_reduced(problem, method.adam, tol, num_subnets, method.guesses, seed, monitor, best)
        else:
            solve = solve_family if problem.starts.dimension else solve_point
            learn, starts, guesses = method.learn_frequencies, method.num_starts, method.guesses
            request = Request(tol, num_subnets, max_columns, seed, learn, starts, guesses)
            outcome = solve(problem, request, monitor, best)
    except KeyboardInterrupt:
        if not best:
            raise
        outcome = min(best, key=lambda entry: entry.error)
    return _solution(problem, outcome, tol, monitor, "reduced", None)


def _solve_augmented(
    problem, method: AugmentedLagrangian, tol, num_subnets, max_columns, seed, monitor
) -> ControlSolution:
    best: list[Networks] = []
    try:
        found = solve_augmented(problem, method, tol, num_subnets, max_columns, seed, monitor, best)
    except KeyboardInterrupt:
        if not best:
            raise
        found = min(best, key=lambda entry: entry.outcome.error)
    return _solution(problem, found.outcome, tol, monitor, "augmented_lagrangian", found.networks)


def _solve_penalty(problem, method: Penalty, tol, num_subnets, max_columns, seed, monitor) -> ControlSolution:
    kept: list[Trained] = []
    reason = "size"
    try:
        trained = train_penalty(
            problem, method, num_subnets, seed, monitor, lambda entry: kept.__setitem__(slice(None), [entry])
        )
    except KeyboardInterrupt:
        if not kept:
            raise
        trained, reason = kept[0], "interrupted"
    error, worst = penalty_error(problem, trained, seed)
    monitor.record("penalty", trained.law.num_columns + trained.networks.coefficients.size, trained.loss, error)
    outcome = Outcome(trained.law, error, "converged" if error <= tol else reason, worst)
    return _solution(problem, outcome, tol, monitor, "penalty", trained.networks)


def penalty_error(problem: OptimalControl, trained: Trained, seed: int) -> tuple[float, float]:
    """The estimated relative excess of the simulated cost, and the violation of constraints, worst of a few starts."""
    starts = problem.starts
    v0 = starts.spread(16, seed=seed + 1) if starts.dimension else starts.center[None]
    followed = follow_law(problem, trained.law, v0)
    excess = law_excess(problem, trained.law, v0) / cost_scale(followed.cost)
    return float(excess.max()), float(followed.violation().max())


_SOLVERS = {Reduced: _solve_reduced, Penalty: _solve_penalty, AugmentedLagrangian: _solve_augmented}


def _solution(problem, outcome: Outcome, tol: float, monitor: Monitor, method: str, networks: Any) -> ControlSolution:
    error, size = outcome.error, outcome.law.num_subnets
    sentences = {
        "converged": f"The tolerance {tol:g} is met: the estimated excess cost is {error:.1e}, with {size} sub-networks.",
        "columns": f"The tolerance {tol:g} is not met within the allowed columns: the estimated excess cost is {error:.1e}. "
        "Raise max_columns or tol.",
        "stalled": f"The tolerance {tol:g} is not met, and more columns no longer help: the estimated excess cost is "
        f"{error:.1e}.",
        "size": f"The best law of this size, {size} sub-networks, has an estimated excess cost of {error:.1e}; the tolerance "
        f"{tol:g} is not met.",
        "interrupted": f"Stopped by the user: the best law so far has an estimated excess cost of {error:.1e}.",
    }
    sentence = sentences[outcome.reason]
    if outcome.violation > 1e-9:
        sentence += f" Constraints are violated by at most {outcome.violation:.1e}."
    if not np.isfinite(error):
        sentence += " The estimate is infinite: the control enters linearly and is not bounded, or the dynamics failed."
    return ControlSolution(
        outcome.law, problem.starts, tuple(problem.controls), Status(outcome.reason, sentence), error, method, networks,
        outcome.violation, monitor.history, monitor.seconds, problem,
    )  # fmt: skip
