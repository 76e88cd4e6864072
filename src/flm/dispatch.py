"""`solve`: one verb for every kind of problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, overload

import jax
import numpy as np

from flm.models import AbstractLinearModel
from flm.pde.problem import PDE
from flm.results import AbstractResult, Listener, Solution, listener
from flm.wording import InputError, InputTypeError, check_count, check_positive, short

if TYPE_CHECKING:
    from flm.conservation.law import ConservationLaw
    from flm.control.problem import OptimalControl
    from flm.control.solution import ControlSolution
    from flm.control.solve import Penalty, Reduced

MAX_COLUMNS = 3000  # of the least-squares problem of a conservation law or a control law


class Kind(NamedTuple):
    """What is to be known of a kind of problem."""

    solver: Callable[..., AbstractResult]
    tol: float  # what it reaches in seconds
    methods: tuple[type, ...] | None  # that may be asked for; None where the solver says
    words: str = ""  # for them


def kind_of(problem: object) -> Kind:
    """The kind of a problem; its solver is imported here, so that no command waits for those of other kinds."""
    if isinstance(problem, PDE):
        from flm.pde.solve import solve_pde

        methods = (str, AbstractLinearModel, type(None))
        return Kind(solve_pde, 1e-8, methods, "a name, a model that is linear in its amplitudes or None for a PDE")
    from flm.conservation.law import ConservationLaw
    from flm.control.problem import OptimalControl

    if isinstance(problem, ConservationLaw):
        from flm.conservation.solve import solve_law

        return Kind(solve_law, 1e-2, None)
    if isinstance(problem, OptimalControl):
        from flm.control.solve import solve_control

        return Kind(solve_control, 1e-4, None)
    got = type(problem).__name__
    raise InputTypeError(f"`problem` must be a PDE, a ConservationLaw or an OptimalControl; got {got}.")


@overload
def solve(
    problem: PDE | ConservationLaw,
    tol: float | None = None,
    *,
    num_subnets: int | None = None,
    method: str | AbstractLinearModel | None = None,
    max_columns: int | None = None,
    seed: int = 0,
    progress: bool | Listener = False,
) -> Solution: ...


@overload
def solve(
    problem: OptimalControl,
    tol: float | None = None,
    *,
    num_subnets: int | None = None,
    method: str | Reduced | Penalty | None = None,
    max_columns: int | None = None,
    seed: int = 0,
    progress: bool | Listener = False,
) -> ControlSolution: ...


def solve(
    problem: PDE | ConservationLaw | OptimalControl,
    tol: float | None = None,
    *,
    num_subnets: int | None = None,
    method: str | AbstractLinearModel | Reduced | Penalty | None = None,
    max_columns: int | None = None,
    seed: int = 0,
    progress: bool | Listener = False,
) -> AbstractResult:
    """Solve a problem to a tolerance; the answer is a series with an error estimate.

    Args:
        problem: a `PDE`, a `ConservationLaw` or an `OptimalControl`.
        tol: relative L2 error over the domain, worst unknown (conservation laws: relative L1; optimal control: relative
            excess of the simulated cost). By default 1e-8 for a `PDE`, 1e-2 for a `ConservationLaw`, 1e-4 for an
            `OptimalControl`.
        num_subnets: return the best series of exactly this many sub-networks instead of the smallest one that meets `tol`.
        method: a name; for optimal control also settings such as `flm.Reduced()`; for a PDE also a model that is linear in
            its amplitudes, which are then found by least squares. None chooses; a conservation law has one method, and
            takes only None. See the documentation of each kind of problem.
        max_columns: the largest number of linear unknowns: in all pieces of a PDE, by default what half of the free memory
            holds; in one dense least-squares problem otherwise, 3,000 by default.
        seed: fixes all points and random starts.
        progress: True for a line per step, or a function that is called with a `flm.Progress` per step.

    Returns:
        A `Solution`, for optimal control a `ControlSolution`. Its `status` says in a sentence how the solve ended; the
        best answer is returned even when the tolerance was not met, also after Ctrl-C.

    Example:
        >>> import flm
        >>> solution = flm.solve(flm.problems.heat(), tol=1e-10)
        >>> solution.converged
        True
    """
    kind = kind_of(problem)
    tol = check_positive("tol", kind.tol if tol is None else tol)
    if tol < 1e-5 and not jax.config.read("jax_enable_x64"):
        remedy = "Unset JAX_ENABLE_X64 or set it to 1 to go further."
        raise InputError(f"`tol` must be at least 1e-5 in 32-bit mode; got {tol!r}. {remedy}")
    for name, count in (("num_subnets", num_subnets), ("max_columns", max_columns)):
        if count is not None:
            check_count(name, count, 1)
    check_count("seed", seed)
    if max_columns is None and not isinstance(problem, PDE):
        max_columns = MAX_COLUMNS
    if kind.methods is not None and not isinstance(method, kind.methods):
        raise InputTypeError(f"`method` must be {kind.words}; got {short(method)}.")
    options = {"num_subnets": num_subnets, "method": method, "max_columns": max_columns, "seed": seed}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # numbers that are not finite lead to a status
        return kind.solver(problem, tol, progress=listener(progress), **options)
