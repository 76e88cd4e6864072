"""Elementwise functions that JAX traces, run by NumPy: for small arrays a compiled call costs more than its arithmetic."""

from collections.abc import Callable, Sequence
from functools import reduce

import jax
import numpy as np
import scipy.special
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

Values = float | np.ndarray
_PLAIN: dict[str, Callable[..., Values]] = {
    **{
        name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log")
    },
    **{name: getattr(np, name) for name in ("log1p", "sqrt", "cbrt", "square", "sign", "floor", "ceil", "real")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "abs": lambda a: np.sqrt(a.real**2 + a.imag**2) if np.iscomplexobj(a) else np.abs(a),  # np.abs guards against overflow
    "imag": np.imag, "conj": np.conj, "neg": np.negative, "rsqrt": lambda a: 1 / np.sqrt(a), "copy": lambda a: a,
    "broadcast_in_dim": lambda a: a, "stop_gradient": lambda a: a,
    "erf": scipy.special.erf, "erfc": scipy.special.erfc, "logistic": scipy.special.expit, "is_finite": np.isfinite,
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "max": np.maximum, "min": np.minimum, "rem": np.fmod, "clamp": lambda low, a, high: np.clip(a, low, high),
    "atan2": np.arctan2, "complex": lambda a, b: a + 1j * b, "not": np.invert,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or,
    "select_n": lambda which, *cases: np.where(which, cases[1], cases[0]),
}  # fmt: skip
NESTED = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # where a call keeps the program that it calls


class Program:
    """A flat list of NumPy operations in which nothing is computed twice.

    A step holds the places of its arguments among the inputs and the results of earlier steps.
    """

    def __init__(self, count: int):
        self.count, self.steps, self.outputs = count, list[tuple[Callable[..., Values], list[int]]](), list[int]()
        self.known: dict[tuple[object, ...], int] = {}

    def add(self, jaxpr: Jaxpr, consts: Sequence[Values], places: Sequence[int]) -> list[int]:
        """Append a traced program whose inputs have these places, and return the places of its outputs."""
        own = dict(zip(jaxpr.invars, places, strict=True))
        own.update((v, self._constant(value)) for v, value in zip(jaxpr.constvars, consts, strict=True))
        read = lambda v: self._constant(v.val) if isinstance(v, Literal) else own[v]
        # Sums and products turn real numbers into complex ones as they go; no other operation does.
        others = [e.invars for e in jaxpr.eqns if e.primitive.name not in ("add", "sub", "mul")]
        exact = {id(v) for variables in (*others, jaxpr.outvars) for v in variables}
        for equation in jaxpr.eqns:
            given = [read(v) for v in equation.invars]
            inner = next((v for name in NESTED if isinstance(v := equation.params.get(name), ClosedJaxpr)), None)
            if inner is not None:
                found = self.add(inner.jaxpr, inner.consts, given)
            elif np.dtype(equation.params.get("new_dtype", float)).kind == "c" and id(equation.outvars[0]) not in exact:
                found = given
            else:
                if any(getattr(v.aval, "shape", ()) for v in equation.outvars):
                    raise LookupError("an operation on whole arrays")
                key = (equation.primitive.name, *map(str, equation.params.values()), *given)
                found = [self._once(key, operation(equation), given)]
            own.update(zip(equation.outvars, found, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _constant(self, value: Values) -> int:
        own = np.asarray(value)
        return self._once(("constant", own.dtype, own.tobytes()), lambda: own[()], [])

    def _once(self, key: tuple[object, ...], operation: Callable[..., Values], arguments: list[int]) -> int:
        """The place of a step, which is appended unless an equal one is there."""
        if key not in self.known:
            self.steps.append((operation, arguments))
            self.known[key] = self.count + len(self.steps) - 1
        return self.known[key]

    def __call__(self, *values: Values) -> list[Values]:
        """All outputs for values of the inputs that broadcast together."""
        found: list[Values] = list(values)
        for operation, arguments in self.steps:
            found.append(operation(*[found[i] for i in arguments]))
        return [found[i] for i in self.outputs]


def as_numpy(function: Callable[..., object], count: int) -> Program | None:
    """A function of `count` numbers as NumPy operations on arrays; None if it has operations that are not elementwise."""
    try:
        closed, program = jax.make_jaxpr(function)(*(0.5,) * count), Program(count)
        program.outputs = program.add(closed.jaxpr, closed.consts, range(count))
    except (TypeError, ValueError, LookupError, jax.errors.JAXTypeError):
        return None
    return program


def operation(equation: JaxprEqn) -> Callable[..., Values]:
    """NumPy's version of one traced operation; `LookupError` where there is none."""
    name, params = equation.primitive.name, equation.params
    if name == "integer_pow":
        power = abs(params["y"])
        raised = lambda a: reduce(np.multiply, [a] * power, 1.0) if power != 2 else np.multiply(a, a)
        return raised if params["y"] >= 0 else lambda a: 1.0 / raised(a)
    if name == "convert_element_type":
        return lambda a: np.asarray(a, params["new_dtype"])
    whole = equation.outvars[0].aval.dtype.kind in "iu"
    if (name == "div" and whole) or (name == "select_n" and len(equation.invars) > 3):
        raise LookupError("NumPy's version of it is another")
    return _PLAIN[name]
