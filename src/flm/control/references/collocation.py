"""Direct collocation with CasADi and IPOPT (extra `references`).

Radau collocation of degree q on even elements of normalized time: states and controls at the nodes, the last of which is the
element's end, the dynamics as equality constraints, bounds on controls, path constraints at the nodes; one sparse nonlinear
program with exact derivatives. The problem's functions are read from their JAX traces, so that any function that `flm`
can solve can be given to CasADi.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flm.control.problem import OptimalControl
from flm.control.references.casadi_functions import import_casadi, to_casadi
from flm.wording import UnsolvedError


@dataclass(frozen=True, eq=False)
class CollocationSolution:
    """A local minimum of the discretized problem.

    Attributes:
        cost: J.
        horizon: T.
        times: Of the start and the nodes, (R,).
        states: All states there, (R, n).
        control_times: Of the nodes, (R',).
        controls: There, (R', k).
        status: What IPOPT says.

    Example:
        >>> import flm
        >>> problem = flm.problems.linear_quadratic(A=-1.0, B=1.0, Q=1.0, R=1.0, initial=(1.0,), horizon=1.0)
        >>> answer = collocation(problem, elements=10)
        >>> answer.states[0], round(answer.horizon, 12)
        (array([1.]), 1.0)
    """

    cost: float
    horizon: float
    times: np.ndarray
    states: np.ndarray
    control_times: np.ndarray
    controls: np.ndarray
    status: str


def collocation(
    problem: OptimalControl,
    x0: npt.ArrayLike | None = None,
    *,
    elements: int = 60,
    degree: int = 4,
    tol: float = 1e-10,
    max_iterations: int = 500,
) -> CollocationSolution:
    """The optimal cost and trajectory of one initial state by direct collocation.

    Args:
        problem: An `OptimalControl`; bounds, path and terminal constraints and a free horizon are all allowed.
        x0: The initial state; the problem's own when it has one.
        elements: Of time.
        degree: Of the collocation polynomials.
        tol: Of IPOPT.
        max_iterations: Of IPOPT.

    Raises:
        ImportError: CasADi is not installed.
        RuntimeError: IPOPT did not converge; the message has its status.

    Example:
        >>> import flm
        >>> problem = flm.problems.linear_quadratic(A=-1.0, B=1.0, Q=1.0, R=1.0, initial=(1.0,), horizon=1.0)
        >>> round(collocation(problem, elements=10).cost, 6)
        0.192909
    """
    casadi, v0 = import_casadi(), problem.starts.one(x0)
    say, numbers, d, k = problem.equations, problem.numbers, len(v0), len(problem.controls)
    along = lambda s, v, w: (
        say.rates(s, v, w, numbers), say.running(s, v, w, numbers), say.path_values(s, v, w, numbers)
    )  # fmt: skip
    rates_and_costs = to_casadi(casadi, along, None, d, say.num_inputs)
    final = lambda v, w: (say.final_cost(v, w, numbers), say.terminal_values(v, w, numbers))
    at_end = to_casadi(casadi, final, d, say.num_inputs)
    points = casadi.collocation_points(degree, "radau")
    slopes, _, weights = casadi.collocation_coeff(points)
    opti = casadi.Opti()
    log_horizon = opti.variable() if problem.free else math.log(numbers[-1])
    if problem.free:
        opti.set_initial(log_horizon, math.log(numbers[-1]))
    state, width, cost = casadi.DM(v0), 1.0 / elements, 0.0
    times, states, controls = [], [state], []
    for e in range(elements):
        nodes, control = opti.variable(d, degree), opti.variable(k, degree)
        opti.set_initial(nodes, np.repeat(v0[:, None], degree, axis=1))
        opti.set_initial(control, np.clip(np.zeros((k, degree)), problem.lower[:, None], problem.upper[:, None]))
        times.append((e + np.array(points)) * width)
        rates = []
        for j in range(degree):
            w = casadi.vertcat(control[:, j], log_horizon) if problem.free else control[:, j]
            rate, running, g = rates_and_costs(times[-1][j], nodes[:, j], w)
            rates.append(rate)
            cost = cost + width * weights[j] * running
            if say.path:
                opti.subject_to(g <= 0)
            for i in np.flatnonzero(np.isfinite(problem.lower) | np.isfinite(problem.upper)):
                opti.subject_to(opti.bounded(problem.lower[i], control[int(i), j], problem.upper[i]))
        opti.subject_to(casadi.vec(casadi.horzcat(state, nodes) @ slopes - width * casadi.horzcat(*rates)) == 0)
        state = nodes[:, -1]
        states.append(nodes)
        controls.append(control)
    last, h = at_end(state, casadi.vertcat(casadi.DM.zeros(k), *([log_horizon] if problem.free else [])))
    if say.terminal:
        opti.subject_to(h == 0)
    opti.minimize(cost + last)
    quiet = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes", "ipopt.tol": tol}
    opti.solver("ipopt", quiet | {"ipopt.max_iter": max_iterations})
    try:
        found = opti.solve()
    except RuntimeError:
        status, start = opti.stats()["return_status"], np.round(problem.starts.lift(v0), 6).tolist()
        raise UnsolvedError(
            f"direct collocation was not solved from {start}: IPOPT says {status}. "
            "Try more `elements` or `max_iterations`."
        ) from None
    value = lambda parts, size: np.reshape(found.value(casadi.horzcat(*parts)), (size, -1)).T
    horizon, s = float(np.exp(found.value(log_horizon))), np.concatenate(times)
    return CollocationSolution(
        float(found.value(cost + last)), horizon, np.append(0.0, s) * horizon, problem.starts.lift(value(states, d)),
        s * horizon, value(controls, k), found.stats()["return_status"],
    )  # fmt: skip
