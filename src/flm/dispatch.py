"""`solve`: one verb for every kind of problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from flm.conservation.law import ConservationLaw
from flm.conservation.solve import solve_law
from flm.control.problem import OptimalControl
from flm.control.solve import solve_control
from flm.pde.problem import PDE
from flm.pde.waves.solve import solve_pde
from flm.results import Listener, listener
from flm.wording import InputError, InputTypeError, check_count


def solve(
    problem: Any,
    tol: float = 1e-8,
    *,
    num_subnets: int | None = None,
    method: str | None = None,
    max_columns: int = 3000,
    seed: int = 0,
    progress: bool | Listener = False,
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
        progress: True for a line per step, or a function that is called with a `flm.Progress` per step.

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
        raise InputError(f"`tol` must be a positive number; got {tol!r}.")
    if tol < 1e-5 and not jax.config.read("jax_enable_x64"):
        raise InputError(
            f"`tol` must be at least 1e-5 in 32-bit mode; got {tol!r}. Unset JAX_ENABLE_X64 or set it to 1 to go further."
        )
    if num_subnets is not None:
        check_count("num_subnets", num_subnets, 1)
    check_count("max_columns", max_columns, 1)
    check_count("seed", seed)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # numbers that are not finite end in a status
        return _solver(problem)(
            problem,
            tol,
            num_subnets=num_subnets,
            method=method,
            max_columns=max_columns,
            seed=seed,
            progress=listener(progress),
        )


SOLVERS = {PDE: solve_pde, ConservationLaw: solve_law, OptimalControl: solve_control}


def _solver(problem: Any) -> Callable[..., Any]:
    for kind, solver in SOLVERS.items():
        if isinstance(problem, kind):
            return solver
    raise InputTypeError(
        f"`problem` must be a PDE, a ConservationLaw or an OptimalControl; got {type(problem).__name__}."
    )
