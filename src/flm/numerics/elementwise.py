"""Elementwise functions that JAX traces, run by NumPy: for small arrays a compiled call costs more than its arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import jax
import numpy as np
import scipy.special
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

Values = float | np.ndarray
_PLAIN: dict[str, Callable[..., Values]] = {
    **{
        name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log")
    },
    **{name: getattr(np, name) for name in ("log1p", "sqrt", "cbrt", "square", "abs", "sign", "floor", "ceil", "real")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "imag": np.imag, "conj": np.conj, "neg": np.negative, "rsqrt": lambda a: 1 / np.sqrt(a), "copy": lambda a: a,
    "erf": scipy.special.erf, "logistic": scipy.special.expit, "is_finite": np.isfinite, "not": np.logical_not,
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "max": np.maximum, "min": np.minimum, "atan2": np.arctan2, "complex": lambda a, b: a + 1j * b,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    "select_n": lambda which, *cases: np.where(which, cases[1], cases[0]),
}  # fmt: skip
_NESTED = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # where a call keeps the program that it calls


def as_numpy(function: Callable[..., object], count: int) -> Callable[..., Values] | None:
    """A function of so many numbers as NumPy operations on arrays; None where it has others than elementwise ones."""
    try:
        closed = jax.make_jaxpr(function)(*(0.5,) * count)
    except (TypeError, ValueError, jax.errors.JAXTypeError):
        return None
    if len(closed.jaxpr.outvars) != 1 or not _is_known(closed.jaxpr):
        return None
    return lambda *values: _run(closed.jaxpr, closed.consts, values)[0]


def _is_known(jaxpr: Jaxpr) -> bool:
    for equation in jaxpr.eqns:
        inner = _inner(equation.params)
        name = equation.primitive.name
        known = name in _PLAIN or name in ("integer_pow", "convert_element_type", "broadcast_in_dim", "stop_gradient")
        if not (known if inner is None else _is_known(inner.jaxpr)) or any(
            getattr(v.aval, "shape", ()) for v in equation.outvars
        ):
            return False
    return True


def _inner(params: dict[str, object]) -> ClosedJaxpr | None:
    return next((v for name in _NESTED if isinstance(v := params.get(name), ClosedJaxpr)), None)


def _run(jaxpr: Jaxpr, consts: Sequence[Values], values: Sequence[Values]) -> list[Values]:
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *values), strict=True))
    read = lambda v: v.val if isinstance(v, Literal) else known[v]
    for equation in jaxpr.eqns:
        given, name, params = [read(v) for v in equation.invars], equation.primitive.name, equation.params
        inner = _inner(params)
        if inner is not None:
            found = _run(inner.jaxpr, inner.consts, given)
        elif name == "integer_pow":
            power = reduce(np.multiply, [given[0]] * abs(params["y"]), 1.0)  # many times faster than np.power
            found = [power if params["y"] >= 0 else 1.0 / power]
        elif name == "convert_element_type":
            found = [np.asarray(given[0], params["new_dtype"])]
        elif name in ("broadcast_in_dim", "stop_gradient"):
            found = given[:1]
        else:
            found = [_PLAIN[name](*given)]
        known.update(zip(equation.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]
