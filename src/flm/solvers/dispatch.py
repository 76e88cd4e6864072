"""`solve`: one verb for every kind of problem."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import jax
import numpy as np

from flm.problems import PDE
from flm.series.arrays import check_count
from flm.solution import Parameter, Solution, Status
from flm.solvers.fixed_size import best_of_size
from flm.solvers.growth import ROUNDING, Search
from flm.solvers.tolerance import METHODS, solve_to_tolerance


def solve(
    problem: Any,
    tol: float = 1e-8,
    *,
    num_subnets: int | None = None,
    method: str | None = None,
    max_columns: int = 3000,
    seed: int = 0,
    progress: bool | Callable[..., None] = False,
) -> Any:
    """Solve a problem to a tolerance; the answer is a series with an error estimate.

    Args:
        problem: a `PDE`, a `ConservationLaw` or an `OptimalControl`.
        tol: relative L2 error over the domain, worst unknown (conservation laws: relative L1; optimal control: relative
            excess of the simulated cost).
        num_subnets: the best series of exactly this many sub-networks instead of the smallest that meets `tol`.
        method: how; None chooses. See the documentation of each kind of problem.
        max_columns: the largest least-squares problem that may be built.
        seed: governs all points and random starts.
        progress: True for a line per step, or a function that is called with a dict per step.

    Returns:
        A `Solution`. `solution.status` says in a sentence how it ended; the best answer is returned even when the
        tolerance was not met, also after Ctrl-C.

    Example:
        >>> import flm
        >>> solution = flm.solve(flm.problems.heat(), tol=1e-10)
        >>> solution.converged
        True
    """
    if not (isinstance(tol, int | float | np.number) and np.isfinite(tol) and tol > 0):
        raise ValueError(f"`tol` must be a positive number; got {tol!r}.")
    if tol < 1e-5 and not jax.config.read("jax_enable_x64"):
        raise ValueError(
            f"`tol` must be at least 1e-5 in 32-bit mode; got {tol!r}. Unset JAX_ENABLE_X64 or set it to 1 to go further."
        )
    if num_subnets is not None:
        check_count("num_subnets", num_subnets, 1)
    check_count("max_columns", max_columns, 1)
    check_count("seed", seed)
    report = progress if callable(progress) else (_print_step if progress else (lambda step: None))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # numbers that are not finite end in a status
        return solve_problem(
            problem, tol, num_subnets=num_subnets, method=method, max_columns=max_columns, seed=seed, progress=report
        )


def _print_step(step: dict[str, Any]) -> None:
    print(", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in step.items()), flush=True)


@singledispatch
def solve_problem(problem: Any, tol: float, **options: Any) -> Any:
    """Solve one kind of problem; kinds register themselves here."""
    raise TypeError(f"`problem` must be a PDE, a ConservationLaw or an OptimalControl; got {type(problem).__name__}.")


@solve_problem.register
def _(
    problem: PDE,
    tol: float,
    *,
    num_subnets: int | None,
    method: str | None,
    max_columns: int,
    seed: int,
    progress: Callable[..., None],
) -> Solution:
    began = time.perf_counter()
    if method not in (None, *METHODS):
        raise ValueError(f"`method` must be None or one of {', '.join(map(repr, METHODS))} for a PDE; got {method!r}.")
    count = 0 if num_subnets is None else num_subnets * 2 ** len(problem.axes) * len(problem.unknowns)
    if count > max_columns:
        raise ValueError(
            f"`num_subnets` must have at most `max_columns` = {max_columns} coefficients; got {num_subnets}, which has "
            f"{count}. Raise `max_columns`, or give a tolerance alone."
        )
    if num_subnets is not None:
        search = best_of_size(problem, num_subnets, tol=tol, seed=seed, progress=progress)
    else:
        search = solve_to_tolerance(problem, tol, method=method, max_columns=max_columns, seed=seed, progress=progress)
    return to_solution(problem, search, began)


def to_solution(problem: PDE, search: Search, began: float, exact: Any = None) -> Solution:
    """The answer of a search as a solution."""
    best = search.best
    if best is None:
        raise ValueError(f"`max_columns` must leave room for the smallest lattice. {search.status.sentence}")
    model = best.basis.model(best.coefficients)
    bar = float(search.bar) + (0.0 if search.windows else _rounding(problem, search, model))
    names = list(problem.parameters)
    errors = np.sqrt(np.diag(best.covariance)) if best.covariance.size else np.full(len(problem.learned), np.nan)
    parameters = {
        names[q]: Parameter(float(best.parameters[q]), float(errors[i])) for i, q in enumerate(problem.learned)
    }
    return Solution(
        model=model,
        axes=problem.axes,
        unknowns=problem.unknowns,
        bounds=problem.domain.bounds,
        status=Status(search.status.word, search.status.sentence.replace(f"{search.bar:.1e}", f"{bar:.1e}")),
        error_estimate=bar,
        parameters=parameters,
        history={k: list(v) for k, v in search.history.items()},
        num_columns=best.basis.num_columns * len(problem.unknowns),
        seconds=time.perf_counter() - began,
        windows=search.windows,
        window_axis=search.window_axis,
        domain=problem.domain,
        exact=exact or (problem.exact_values if problem.exact is not None else None),
    )


def _rounding(problem: PDE, search: Search, model: Any) -> float:
    """What rounding in the phase form costs: amplitudes much larger than the answer lose digits in their phases."""
    best = search.best
    assert best is not None
    points = problem.domain.interior(64, seed=1, warp=False)
    zero = (0,) * len(problem.axes)
    expected = best.basis.evaluate(best.basis.tables(points), best.coefficients, (zero,))[0]
    gap = np.asarray(model.jets(points, (zero,))[0]).reshape(expected.shape) - expected
    size = np.sqrt(np.mean(expected**2, axis=0))
    lost = float(np.max(np.sqrt(np.mean(gap**2, axis=0)) / np.where(size > 0, size, 1.0)))
    return lost if lost > ROUNDING else 0.0
