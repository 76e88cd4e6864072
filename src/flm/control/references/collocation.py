"""Direct collocation with CasADi and IPOPT (extra `references`).

Radau collocation of degree q on even elements of normalized time: states at element starts and nodes, controls at nodes, the
dynamics as equality constraints, bounds on controls, path constraints at the nodes; one sparse nonlinear program with
exact derivatives. The problem's functions are read from their JAX traces, so that any function that
`flm` can solve can be given to CasADi.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flm.control.problem import OptimalControl
from flm.control.references.casadi_functions import CasadiFunctions, Expression, import_casadi
from flm.wording import UnsolvedError


@dataclass(frozen=True, eq=False)
class CollocationSolution:
    """A local minimum of the discretized problem.

    Attributes:
        cost: J.
        horizon: T.
        times: Of element starts and nodes, (R,).
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
    v0 = problem.starts.one(x0)
    return CollocationProgram(problem, elements, degree, tol, max_iterations).solve(v0)


class CollocationProgram:
    """A nonlinear program that is built once and solved for any initial state; see `collocation`."""

    def __init__(
        self,
        problem: OptimalControl,
        elements: int = 60,
        degree: int = 4,
        tol: float = 1e-10,
        max_iterations: int = 500,
    ):
        casadi = import_casadi()
        self.problem = problem
        equations, numbers = problem.equations, problem.numbers
        d, k = equations.num_coordinates, len(equations.controls)
        functions = CasadiFunctions(casadi, equations, numbers)
        points = np.array([0.0, *casadi.collocation_points(degree, "radau")])
        polynomials = _polynomials(points)
        self._opti = opti = casadi.Opti()
        self._start = opti.parameter(d)
        self._log_horizon = opti.variable() if equations.free else math.log(numbers[-1])
        width, cost = 1.0 / elements, 0.0
        state = opti.variable(d)
        opti.subject_to(state == self._start)
        self._states, self._controls, self._s, self._s_controls = [state], [], [0.0], []
        for e in range(elements):
            nodes, rates = [state], []
            for j in range(1, degree + 1):
                s = (e + points[j]) * width
                node, control = opti.variable(d), opti.variable(k)
                nodes.append(node)
                self._bound(control)
                w = casadi.vertcat(control, self._log_horizon) if equations.free else control
                rate, running, g = functions.along(s, node, w)
                rates.append(rate)
                if equations.path:
                    opti.subject_to(g <= 0)
                cost = cost + width * polynomials.weights[j] * running
                self._states.append(node)
                self._controls.append(control)
                self._s.append(s)
                self._s_controls.append(s)
            for j in range(1, degree + 1):
                slope = sum(polynomials.slopes[i, j] * nodes[i] for i in range(degree + 1))
                opti.subject_to(slope == width * rates[j - 1])
            state = opti.variable(d)
            opti.subject_to(state == sum(polynomials.ends[i] * nodes[i] for i in range(degree + 1)))
            self._states.append(state)
            self._s.append((e + 1) * width)
        final, h = functions.at_end(state, self._log_horizon)
        if equations.terminal:
            opti.subject_to(h == 0)
        self._cost = cost + final
        opti.minimize(self._cost)
        quiet = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes", "ipopt.tol": tol}
        opti.solver("ipopt", quiet | {"ipopt.max_iter": max_iterations})

    def solve(self, v0: np.ndarray) -> CollocationSolution:
        """The optimum from one initial state's coordinates (d,), started from rest there."""
        problem, opti = self.problem, self._opti
        opti.set_value(self._start, v0)
        for state in self._states:
            opti.set_initial(state, v0)
        rest = np.clip(np.zeros(len(problem.controls)), problem.lower, problem.upper)
        for control in self._controls:
            opti.set_initial(control, rest)
        if problem.free:
            opti.set_initial(self._log_horizon, math.log(problem.numbers[-1]))
        try:
            found = opti.solve()
        except RuntimeError:
            status, start = opti.stats()["return_status"], np.round(problem.starts.lift(v0), 6).tolist()
            raise UnsolvedError(
                f"direct collocation was not solved from {start}: IPOPT says {status}. "
                "Try more `elements` or `max_iterations`."
            ) from None
        horizon = float(np.exp(found.value(self._log_horizon))) if problem.free else float(problem.numbers[-1])
        states = problem.starts.lift(np.array([np.ravel(found.value(value)) for value in self._states]))
        controls = np.array([np.ravel(found.value(value)) for value in self._controls])
        return CollocationSolution(
            float(found.value(self._cost)), horizon, np.array(self._s) * horizon, states,
            np.array(self._s_controls) * horizon, controls, found.stats()["return_status"],
        )  # fmt: skip

    def _bound(self, control: Expression) -> None:
        for i, (low, high) in enumerate(zip(self.problem.lower, self.problem.upper, strict=True)):
            if np.isfinite(low) and np.isfinite(high):
                self._opti.subject_to(self._opti.bounded(low, control[i], high))
            elif np.isfinite(low):
                self._opti.subject_to(control[i] >= low)
            elif np.isfinite(high):
                self._opti.subject_to(control[i] <= high)


class _Polynomials(NamedTuple):
    """Slopes at the points (i, j), values at 1 and integrals of the Lagrange polynomials on the points."""

    slopes: np.ndarray
    ends: np.ndarray
    weights: np.ndarray


def _polynomials(points: np.ndarray) -> _Polynomials:
    size = len(points)
    slopes, ends, weights = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for i in range(size):
        others = np.delete(points, i)
        polynomial = np.poly1d(others, r=True) / np.prod(points[i] - others)
        slopes[i] = polynomial.deriv()(points)
        ends[i] = polynomial(1.0)
    # The running cost is integrated by the Radau rule itself: nodes without the element's start, exact to degree 2q - 2.
    nodes = points[1:]
    for j in range(1, size):
        others = np.delete(nodes, j - 1)
        weights[j] = (np.poly1d(others, r=True) / np.prod(nodes[j - 1] - others)).integ()(1.0)
    return _Polynomials(slopes, ends, weights)
