"""A control problem's functions as CasADi functions, read from their JAX traces."""

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn

from flm.control.equations import Equations
from flm.wording import ExtraMissingError

Expression = Any  # casadi.SX: the extra has no types


def import_casadi() -> ModuleType:
    """The module, or a sentence that says how to install it."""
    try:
        return importlib.import_module("casadi")
    except ImportError:
        raise ExtraMissingError(
            'casadi is not installed: direct collocation needs it. Run: pip install "fourier-learning-machines[references]"'
        ) from None


class CasadiFunctions:
    """The problem's functions as CasADi functions."""

    def __init__(self, casadi: ModuleType, equations: Equations, numbers: np.ndarray):
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

    def along(self, s: float, v: Expression, w: Expression) -> tuple[Expression, ...]:
        """Rates, running cost and path constraints."""
        return self._along(s, v, w)

    def at_end(self, v: Expression, log_horizon: Expression) -> tuple[Expression, ...]:
        """Final cost and terminal constraints."""
        rest = self._casadi.DM.zeros(self._controls)
        return self._at_end(v, self._casadi.vertcat(rest, log_horizon) if self._free else rest)


def _column(casadi: ModuleType, values: np.ndarray) -> Expression:
    """An object array of expressions as a column."""
    entries = list(np.ravel(values))
    return casadi.vertcat(*entries) if entries else casadi.SX.zeros(0, 1)


def _translate(
    casadi: ModuleType,
    function: Callable[..., tuple[jax.Array, ...]],
    example: tuple[np.ndarray, ...],
    symbols: tuple[Expression, ...],
) -> list[np.ndarray]:
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
