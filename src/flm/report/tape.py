"""A function of numbers as a list of operations that a page repeats, read from JAX's trace of it.

Arrays inside the function are followed number by number: operations that only move numbers are applied to their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.extend.core import Jaxpr, JaxprEqn

MOST = 4_000  # operations that a page repeats many times in one drawing
KNOWN = (  # to the page, number by number
    *("neg", "exp", "log", "log1p", "expm1", "sqrt", "cbrt", "abs", "sign", "floor", "ceil", "not", "logistic"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "atan2", "select_n"),
    *("add", "sub", "mul", "div", "pow", "max", "min", "lt", "gt", "le", "ge", "eq", "ne", "and", "or"),
)
SAME = ("convert_element_type", "copy", "copy_p", "stop_gradient")
MOVES = ("slice", "squeeze", "reshape", "broadcast_in_dim", "transpose", "rev", "expand_dims", "concatenate", "split")
MOVES += ("stack", "unstack")


class _Unreadable(Exception):
    """The function has an operation that pages do not know, or too many operations."""


class _Tape:
    """Operations [name, places of arguments…], appended once each; the first places are the inputs."""

    def __init__(self, count: int):
        self.count, self.operations = count, []
        self._places: dict[tuple[object, ...], int] = {}

    def add(self, name: str, *arguments: float) -> int:
        key = (name, *arguments)
        if key not in self._places:
            if len(self.operations) >= MOST:
                raise _Unreadable
            self._places[key] = self.count + len(self.operations)
            self.operations.append([name, *arguments])
        return self._places[key]

    def each(self, name: str, *places: npt.ArrayLike) -> np.ndarray:
        return np.vectorize(lambda *at: self.add(name, *map(int, at)), otypes=[int])(*places)

    def constant(self, value: npt.ArrayLike) -> np.ndarray:
        return np.vectorize(lambda v: self.add("number", float(v)), otypes=[int])(np.asarray(value, float))

    def total(self, places: Iterable[int]) -> int:
        *before, last = places
        return self.add("add", self.total(before), int(last)) if before else int(last)

    def run(self, jaxpr: Jaxpr, consts: Sequence[npt.ArrayLike], arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The places of the outputs of a traced function: an array of places for each array of numbers."""
        known = dict(zip(jaxpr.constvars, map(self.constant, consts), strict=True))
        known |= dict(zip(jaxpr.invars, arguments, strict=True))
        read = lambda v: self.constant(v.val) if hasattr(v, "val") else known[v]
        for step in jaxpr.eqns:
            inner = step.params.get("jaxpr", step.params.get("call_jaxpr"))
            places = [read(v) for v in step.invars]
            if inner is not None:
                found = self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), places)
            else:
                found = self.step(step, places)
            known |= dict(zip(step.outvars, found if isinstance(found, list) else [found], strict=True))
        return [read(v) for v in jaxpr.outvars]

    def step(self, step: JaxprEqn, places: list[np.ndarray]) -> np.ndarray | list[np.ndarray]:
        """The places of the result, or of the results, of one operation on arrays."""
        name, params = step.primitive.name, step.params
        if name in SAME:
            return places[0]
        if name in MOVES:  # the same operation moves the places
            moved = step.primitive.bind(*map(jnp.asarray, places), **params)
            return [np.asarray(one) for one in moved] if step.primitive.multiple_results else np.asarray(moved)
        if name in ("integer_pow", "square", "rsqrt"):
            return self.each("pow", places[0], self.constant(params.get("y", -0.5 if name == "rsqrt" else 2)))
        if name == "clamp":
            return self.each("min", self.each("max", places[1], places[0]), places[2])
        if name == "reduce_sum":
            kept = [j for j in range(places[0].ndim) if j not in params["axes"]]
            flat = places[0].transpose(*kept, *params["axes"]).reshape(*(places[0].shape[j] for j in kept), -1)
            return np.apply_along_axis(self.total, -1, flat)
        if name == "dot_general" and not any(params["dimension_numbers"][1]):
            (left, right), _ = params["dimension_numbers"]
            a, b = (np.moveaxis(p, axes, range(-len(axes), 0)) for p, axes in zip(places, (left, right), strict=True))
            kept = a.shape[: -len(left)] + b.shape[: -len(right)]
            a, b = (p.reshape(-1, int(np.prod(p.shape[-len(left) :]))) for p in (a, b))
            return np.array([[self.total(self.each("mul", x, y)) for y in b] for x in a]).reshape(kept)
        if name not in KNOWN:
            raise _Unreadable(name)
        return self.each(name, *places)


def tape(function: Callable[..., Sequence[object]], count: int) -> dict[str, object] | None:
    """The operations of a function of `count` numbers, and the places of its results; None where a page cannot repeat it."""
    traced, made = jax.make_jaxpr(function)(*(0.0,) * count), _Tape(count)
    try:
        found = made.run(traced.jaxpr, traced.consts, [np.array(j) for j in range(count)])
    except _Unreadable:
        return None
    return {"inputs": count, "operations": made.operations, "outputs": [int(place) for place in found]}
