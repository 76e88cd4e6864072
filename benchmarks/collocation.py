"""Direct collocation with CasADi and IPOPT: a rival, and a second opinion where there are path constraints.

Radau collocation of degree q on even elements of normalized time: states and controls at the nodes, the last of which is the
element's end, the dynamics as equality constraints, bounds on controls, path constraints at the nodes; one sparse nonlinear
program with exact derivatives. The problem's functions are read from their JAX traces, so that any function that `flm`
can solve can be given to CasADi.
"""

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.extend.core import Jaxpr, JaxprEqn

from flm.control.problem import OptimalControl
from flm.wording import ExtraMissingError, UnsolvedError

Expression = Any  # casadi.SX: the extra has no types


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
    """
    casadi, v0 = import_casadi(), problem.starts.one(x0)
    say, numbers, d, k = problem.equations, problem.numbers, len(v0), len(problem.controls)
    along = lambda s, v, w: say.along(s, v, w, numbers)  # rates, running cost and path constraints
    rates_and_costs = to_casadi(casadi, along, None, d, say.num_inputs)
    at_end = to_casadi(casadi, lambda v, w: say.at_end(v, w, numbers), d, say.num_inputs)
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


def import_casadi() -> ModuleType:
    """The module, or a sentence that says how to install it."""
    try:
        return importlib.import_module("casadi")
    except ImportError:
        raise ExtraMissingError(
            'casadi is not installed: direct collocation needs it. Run: pip install "fourier-learning-machines[references]"'
        ) from None


def to_casadi(
    casadi: ModuleType, function: Callable[..., tuple[jax.Array, ...]], *sizes: int | None
) -> Callable[..., tuple[Expression, ...]]:
    """A JAX function of vectors of given sizes, or of numbers (None), as a CasADi function with a column per output."""
    closed = jax.make_jaxpr(function)(*(np.zeros(() if size is None else size) for size in sizes))
    symbols = [casadi.SX.sym("z", 1 if size is None else size) for size in sizes]
    inputs = []
    for size, symbol in zip(sizes, symbols, strict=True):
        entries = np.empty(1 if size is None else size, object)
        for i in range(len(entries)):
            entries[i] = symbol[i]
        inputs.append(entries.reshape(()) if size is None else entries)
    outputs = [list(np.ravel(value)) for value in _walk(casadi, closed.jaxpr, closed.consts, inputs)]
    columns = [casadi.vertcat(*entries) if entries else casadi.SX.zeros(0, 1) for entries in outputs]
    return casadi.Function("f", symbols, columns)


def _walk(
    casadi: ModuleType, jaxpr: Jaxpr, constants: Sequence[jax.Array], inputs: list[np.ndarray]
) -> list[np.ndarray]:
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


def _apply(casadi: ModuleType, equation: JaxprEqn, arguments: list[np.ndarray]) -> np.ndarray:
    """One primitive on object arrays."""
    name, params = equation.primitive.name, equation.params
    shape = equation.outvars[0].aval.shape  # type: ignore[attr-defined]
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
        expanded = [1] * len(shape)
        for axis, size in zip(params["broadcast_dimensions"], arguments[0].shape, strict=True):
            expanded[axis] = size
        return np.broadcast_to(arguments[0].reshape(expanded), shape)
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


def _elementwise(casadi: ModuleType) -> dict[str, Callable[..., Expression]]:
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


def _map(function: Callable[..., Expression], shape: tuple[int, ...], *arguments: np.ndarray) -> np.ndarray:
    wide = [np.broadcast_to(argument, shape) for argument in arguments]
    result = np.empty(shape, object)
    for index in np.ndindex(shape):
        result[index] = function(*(argument[index] for argument in wide))
    return result
