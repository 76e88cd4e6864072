"""Direct collocation with CasADi and IPOPT (extra `references`).

Radau collocation of degree q on even elements of normalized time: states at element starts and nodes, controls at nodes, the
dynamics as equality constraints, bounds on controls, path constraints at the nodes; one sparse nonlinear program with
exact derivatives. The problem's functions are read from their JAX traces, so that any function that
`flm` can solve can be given to CasADi.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np


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
    """

    cost: float
    horizon: float
    times: np.ndarray
    states: np.ndarray
    control_times: np.ndarray
    controls: np.ndarray
    status: str


def collocation(
    problem: Any, x0: Any = None, *, elements: int = 60, degree: int = 4, tol: float = 1e-10, max_iterations: int = 500
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
    """
    casadi = _casadi()
    equations, numbers = problem.equations, problem.numbers
    if x0 is None:
        if problem.starts.dimension:
            raise ValueError("`x0` must be given for a problem with a set of initial states.")
        x0 = problem.starts.lift(problem.starts.center)
    v0 = problem.starts.coordinates(x0)[0]
    d, k = equations.num_coordinates, len(equations.controls)
    functions = _Functions(casadi, equations, numbers)
    points = np.array([0.0, *casadi.collocation_points(degree, "radau")])
    slopes, ends, weights = _polynomials(points)

    opti = casadi.Opti()
    log_horizon = opti.variable() if equations.free else math.log(numbers[-1])
    if equations.free:
        opti.set_initial(log_horizon, math.log(numbers[-1]))
    width, cost, path = 1.0 / elements, 0.0, []
    state = opti.variable(d)
    opti.subject_to(state == v0)
    opti.set_initial(state, v0)
    stored_states, stored_controls, s_states, s_controls = [state], [], [0.0], []
    for e in range(elements):
        nodes = [state]
        for j in range(1, degree + 1):
            s = (e + points[j]) * width
            node, control = opti.variable(d), opti.variable(k)
            opti.set_initial(node, v0)
            for i in range(k):
                low, high = problem.lower[i], problem.upper[i]
                opti.set_initial(control[i], float(np.clip(0.0, low, high)))
                if np.isfinite(low) and np.isfinite(high):
                    opti.subject_to(opti.bounded(low, control[i], high))
                elif np.isfinite(low):
                    opti.subject_to(control[i] >= low)
                elif np.isfinite(high):
                    opti.subject_to(control[i] <= high)
            nodes.append(node)
            w = casadi.vertcat(control, log_horizon) if equations.free else control
            rates, running, g = functions.along(s, node, w)
            stored_states.append(node)
            stored_controls.append(control)
            s_states.append(s)
            s_controls.append(s)
            cost = cost + width * weights[j] * running
            path.append((rates, g))
        for j in range(1, degree + 1):
            slope = sum(slopes[i, j] * nodes[i] for i in range(degree + 1))
            opti.subject_to(slope == width * path[-degree - 1 + j][0])
            if equations.path:
                opti.subject_to(path[-degree - 1 + j][1] <= 0)
        after = opti.variable(d)
        opti.set_initial(after, v0)
        opti.subject_to(after == sum(ends[i] * nodes[i] for i in range(degree + 1)))
        state = after
        stored_states.append(state)
        s_states.append((e + 1) * width)
    final, h = functions.at_end(state, log_horizon)
    if equations.terminal:
        opti.subject_to(h == 0)
    opti.minimize(cost + final)
    quiet = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes", "ipopt.tol": tol}
    opti.solver("ipopt", quiet | {"ipopt.max_iter": max_iterations})
    try:
        found = opti.solve()
    except RuntimeError:
        status = opti.stats()["return_status"]
        raise RuntimeError(
            f"direct collocation was not solved from {np.round(np.ravel(x0), 6).tolist()}: IPOPT says {status}. "
            "Try more `elements` or `max_iterations`."
        ) from None
    horizon = float(np.exp(found.value(log_horizon))) if equations.free else float(numbers[-1])
    states = problem.starts.lift(np.array([np.ravel(found.value(value)) for value in stored_states]))
    controls = np.array([np.ravel(found.value(value)) for value in stored_controls])
    return CollocationSolution(
        float(found.value(cost + final)), horizon, np.array(s_states) * horizon, states,
        np.array(s_controls) * horizon, controls, found.stats()["return_status"],
    )  # fmt: skip


def _casadi() -> Any:
    try:
        import casadi
    except ImportError:
        raise ImportError(
            'casadi is not installed: direct collocation needs it. Run: pip install "fourier-learning-machines[references]"'
        ) from None
    return casadi


def _polynomials(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slopes at the points (i, j), values at 1 and integrals of the Lagrange polynomials on the points."""
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
    return slopes, ends, weights


class _Functions:
    """The problem's functions as CasADi functions."""

    def __init__(self, casadi: Any, equations: Any, numbers: np.ndarray):
        d, k = equations.num_coordinates, equations.num_inputs
        v, w, s = np.zeros(d), np.zeros(k), np.zeros(())
        along = lambda s, v, w: (
            equations.rates(s, v, w, numbers), equations.running(s, v, w, numbers), equations.path_values(s, v, w, numbers)
        )  # fmt: skip
        at_end = lambda v, w: (equations.final_cost(v, w, numbers), equations.terminal_values(v, w, numbers))
        symbols = casadi.SX.sym("s"), casadi.SX.sym("v", d), casadi.SX.sym("w", k)
        outputs = _translate(casadi, along, (s, v, w), symbols)
        self._along = casadi.Function("along", list(symbols), [_column(casadi, value) for value in outputs])
        outputs = _translate(casadi, at_end, (v, w), symbols[1:])
        self._at_end = casadi.Function("at_end", list(symbols[1:]), [_column(casadi, value) for value in outputs])
        self._controls, self._free, self._casadi = len(equations.controls), equations.free, casadi

    def along(self, s, v, w):
        """Rates, running cost and path constraints."""
        return self._along(s, v, w)

    def at_end(self, v, log_horizon):
        """Final cost and terminal constraints."""
        rest = self._casadi.DM.zeros(self._controls)
        return self._at_end(v, self._casadi.vertcat(rest, log_horizon) if self._free else rest)


def _column(casadi: Any, values: np.ndarray) -> Any:
    """An object array of expressions as a column."""
    entries = list(np.ravel(values))
    return casadi.vertcat(*entries) if entries else casadi.SX.zeros(0, 1)


def _translate(casadi: Any, function: Callable, example: tuple, symbols: tuple) -> list[np.ndarray]:
    """The outputs of a JAX function as object arrays of CasADi expressions, by walking its trace."""
    closed = jax.make_jaxpr(function)(*example)
    inputs = []
    for value, symbol in zip(example, symbols, strict=True):
        shape = np.shape(value)
        entries = np.empty(int(np.prod(shape)), object)
        for i in range(len(entries)):
            entries[i] = symbol[i] if shape else symbol
        inputs.append(entries.reshape(shape))
    return _walk(casadi, closed.jaxpr, closed.consts, inputs)


def _walk(casadi: Any, jaxpr: Any, constants: Any, inputs: list) -> list[np.ndarray]:
    values: dict[Any, np.ndarray] = {}
    read = lambda atom: np.asarray(atom.val, object) if hasattr(atom, "val") else values[atom]
    for variable, value in zip(jaxpr.constvars, constants, strict=True):
        values[variable] = np.asarray(value).astype(object)
    for variable, value in zip(jaxpr.invars, inputs, strict=True):
        values[variable] = np.asarray(value, object)
    for equation in jaxpr.eqns:
        arguments = [read(atom) for atom in equation.invars]
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        if inner is not None:
            body, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
            results = _walk(casadi, body, consts, arguments)
        else:
            results = [_apply(casadi, equation, arguments)]
        for variable, result in zip(equation.outvars, results, strict=True):
            values[variable] = result
    return [read(atom) for atom in jaxpr.outvars]


def _apply(casadi: Any, equation: Any, arguments: list[np.ndarray]) -> np.ndarray:
    """One primitive on object arrays."""
    name, params = equation.primitive.name, equation.params
    shape = equation.outvars[0].aval.shape
    elementwise = _elementwise(casadi)
    if name in elementwise:
        return _map(elementwise[name], shape, *arguments)
    if name == "integer_pow":
        return _map(lambda a: a ** params["y"], shape, *arguments)
    if name == "select_n":
        return _map(lambda which, *cases: casadi.if_else(which, cases[1], cases[0]), shape, *arguments)
    if name in ("convert_element_type", "copy", "stop_gradient", "copy_p"):
        return arguments[0]
    if name == "broadcast_in_dim":
        source = np.empty([1] * len(shape), object) if not arguments[0].ndim else None
        if source is not None:
            source[...] = arguments[0]
        else:
            expanded = [1] * len(shape)
            for axis, size in zip(params["broadcast_dimensions"], arguments[0].shape, strict=True):
                expanded[axis] = size
            source = arguments[0].reshape(expanded)
        return np.broadcast_to(source, shape)
    if name == "concatenate":
        return np.concatenate(arguments, axis=params["dimension"])
    if name == "stack":
        return np.stack(arguments, axis=params["axis"])
    if name in ("reshape", "expand_dims", "squeeze"):
        return arguments[0].reshape(shape)
    if name == "slice":
        strides = params["strides"] or [1] * arguments[0].ndim
        index = tuple(
            slice(a, b, c) for a, b, c in zip(params["start_indices"], params["limit_indices"], strides, strict=True)
        )
        return arguments[0][index]
    if name == "reduce_sum":
        return np.asarray(arguments[0].sum(axis=tuple(params["axes"])), object).reshape(shape)
    if name == "dot_general":
        ((left, right), batch) = params["dimension_numbers"]
        if not any(map(len, batch)):
            return np.asarray(np.tensordot(arguments[0], arguments[1], axes=(left, right)), object).reshape(shape)
    raise NotImplementedError(
        f"direct collocation cannot translate the operation {name!r} of the problem's functions to CasADi; "
        "write them with arithmetic, powers, exponentials, trigonometric functions and jnp.where."
    )


def _elementwise(casadi: Any) -> dict[str, Callable]:
    return {
        "add": lambda a, b: a + b, "add_any": lambda a, b: a + b, "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b, "div": lambda a, b: a / b, "neg": lambda a: -a,
        "pow": lambda a, b: a**b, "square": lambda a: a * a, "sqrt": casadi.sqrt, "rsqrt": lambda a: 1 / casadi.sqrt(a),
        "exp": casadi.exp, "exp2": lambda a: 2.0**a, "log": casadi.log, "log1p": casadi.log1p, "expm1": casadi.expm1,
        "sin": casadi.sin, "cos": casadi.cos, "tan": casadi.tan, "asin": casadi.asin, "acos": casadi.acos,
        "atan": casadi.atan, "atan2": casadi.atan2, "sinh": casadi.sinh, "cosh": casadi.cosh, "tanh": casadi.tanh,
        "logistic": lambda a: 1 / (1 + casadi.exp(-a)), "erf": casadi.erf, "abs": casadi.fabs, "sign": casadi.sign,
        "max": casadi.fmax, "min": casadi.fmin, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
        "and": casadi.logic_and, "or": casadi.logic_or, "not": casadi.logic_not,
    }  # fmt: skip


def _map(function: Callable, shape: tuple[int, ...], *arguments: np.ndarray) -> np.ndarray:
    wide = [np.broadcast_to(argument, shape) for argument in arguments]
    result = np.empty(shape, object)
    for index in np.ndindex(shape):
        result[index] = function(*(argument[index] for argument in wide))
    return result
