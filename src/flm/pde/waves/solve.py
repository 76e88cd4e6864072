"""Solving PDEs and ODEs with one series: to a tolerance, or with a given number of sub-networks."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from flm.pde.problem import PDE
from flm.pde.waves.fixed_size import best_of_size
from flm.pde.waves.growth import Search, rounding_lost, solve_to_tolerance
from flm.results import LearnedFunction, Listener, Parameter, Solution
from flm.wording import InputError

MAX_COLUMNS = 3000  # of one dense least-squares problem


def solve_by_waves(
    problem: PDE,
    tol: float,
    *,
    num_subnets: int | None,
    max_columns: int | None,
    seed: int,
    progress: Listener,
) -> Solution:
    """Solve a PDE or ODE with one series: see `flm.pde.solve.solve_pde`."""
    began = time.perf_counter()
    max_columns = MAX_COLUMNS if max_columns is None else max_columns
    count = 0 if num_subnets is None else num_subnets * 2 ** len(problem.axes) * len(problem.unknowns)
    if count > max_columns:
        raise InputError(
            f"`num_subnets` must have at most `max_columns` = {max_columns} coefficients; got {num_subnets}, which has "
            f"{count}. Raise `max_columns`, or give a tolerance alone."
        )
    if num_subnets is not None:
        search = best_of_size(problem, num_subnets, tol=tol, seed=seed, progress=progress)
    else:
        search = solve_to_tolerance(problem, tol, max_columns=max_columns, seed=seed, progress=progress)
    return to_solution(problem, search, tol, began)


def to_solution(problem: PDE, search: Search, tol: float, began: float, exact: Any = None) -> Solution:
    """The answer of a search as a solution."""
    best = search.best
    if best is None:
        raise InputError(f"`max_columns` must leave room for the smallest lattice. {search.ending.clause}.")
    model = best.basis.model(best.coefficients)
    bar = float(search.bar) + rounding_lost(problem, best)
    names = list(problem.parameters)
    errors = np.sqrt(np.diag(best.covariance)) if best.covariance.size else np.full(len(problem.learned), np.nan)
    parameters: dict[str, Parameter | LearnedFunction] = {
        names[q]: Parameter(float(best.parameters[q]), float(errors[i])) for i, q in enumerate(problem.learned)
    }
    return Solution(
        model=model,
        axes=problem.axes,
        unknowns=problem.unknowns,
        bounds=problem.domain.bounds,
        ending=search.ending,
        error_estimate=bar,
        tolerance=tol,
        parameters=parameters,
        history=search.record.history,
        num_columns=best.basis.num_columns * len(problem.unknowns),
        seconds=time.perf_counter() - began,
        domain=problem.domain,
        exact=exact or (problem.exact_values if problem.exact is not None else None),
    )
