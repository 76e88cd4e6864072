"""A control problem's functions as CasADi functions, read from their JAX traces."""

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn

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
