"""Solving optimal control problems to a tolerance: the result is a control law.

`solve_control` chooses and runs a method. In the reduced one (`reduced`) only the control is a series: `levels` solves starts one
by one on growing time bases with the derivatives of `variation`, and one law is fitted to many of them. The paper's methods
(`networks`) train the law by Adam, on the reduced problem or by the penalty method, where states are series too. `search`
keeps the best law.
"""

from dataclasses import dataclass

from flm.control.problem import OptimalControl
from flm.control.solution import ControlSolution
from flm.control.solve.networks import Adam as Adam
from flm.control.solve.networks import Penalty, solve_penalty, train_reduced
from flm.control.solve.reduced import solve_reduced
from flm.control.solve.search import INTERRUPTED, Search
from flm.numerics.least_squares import one_thread
from flm.results import Listener, Record, silent
from flm.wording import InputError, did_you_mean


@dataclass(frozen=True)
class Reduced:
    """Settings of the reduced method: only the control is a series, the states follow from the dynamics.

    Args:
        adam: Train frequencies, amplitudes and phases by Adam, as the paper does, instead of Newton's method.

    Example:
        >>> import flm
        >>> method = flm.Reduced(adam=flm.Adam(epochs=2000))  # flm.solve(problem, num_subnets=8, method=method)
    """

    adam: Adam | None = None


def solve_control(
    problem: OptimalControl,
    tol: float,
    *,
    num_subnets: int | None = None,
    method: str | Reduced | Penalty | None = None,
    max_columns: int = 3000,
    seed: int = 0,
    progress: Listener = silent,
) -> ControlSolution:
    """The control law of an optimal control problem, for one initial state or a whole set of them; see `flm.solve`.

    Ctrl-C returns the best law so far.
    """
    named = {None: Reduced(), "reduced": Reduced(), "penalty": Penalty()}
    settings = named.get(method) if method is None or isinstance(method, str) else method
    if not isinstance(settings, Reduced | Penalty):
        hint = did_you_mean(method, ("reduced", "penalty")) if isinstance(method, str) else ""
        raise InputError(
            f"`method` must be 'reduced', 'penalty' or settings such as flm.Reduced(); got {method!r}.{hint}"
        )
    if problem.free and isinstance(settings, Penalty):
        raise InputError(f"`method` must be 'reduced' for a free horizon; got {method!r}.")
    search = Search(problem, tol, num_subnets, max_columns, seed, Record(progress))
    with one_thread(0):  # many small factorizations
        try:
            if isinstance(settings, Penalty):
                ending = solve_penalty(search, settings)
            else:
                ending = train_reduced(search, settings.adam) if settings.adam else solve_reduced(search)
        except KeyboardInterrupt:
            if not search.found:
                raise
            ending = INTERRUPTED
    return search.solution(ending, "penalty" if isinstance(settings, Penalty) else "reduced")
