"""Functions of many variables as sums of products of functions of one variable, found from how they are written.

A function is traced once; its operations on numbers are then applied to sums of products, with factors at nodes of their axes:

    value = Re sum_r c_r prod_j v_rj(x_j) [times one derivative of the unknown]

Sums and products stay such sums; a function of one variable is applied to its values; exp, sin and cos of a sum of functions
of one variable are products of exponentials; any other function of such a sum, as 1 / (1 + |x|^2), is first written as a
short sum of exponentials of its argument, a fit in one dimension. Anything else cannot be factored and raises `Unfit`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import jax
import numpy as np
import numpy.typing as npt
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from flm.numerics.elementwise import NESTED, Values, moved, operation
from flm.pde.march.sides import Unfit
from flm.pde.products.sums import Complex, Shaped, Sum, Term, complex_operation, constant

COUNTS = (8, 12, 17, 24, 34, 48, 68, 96)  # waves that are tried for a function of a sum
FITTED = 1e-13  # the error of such a fit, relative to its largest value, that is good enough
POOR = 1e-5  # the error from which a fit is useless
POINTS = 1000  # points at which the function must be larger than the error of its fit


@dataclass(eq=False)
class Separation:
    """Turns functions into sums of products at nodes of each axis."""

    nodes: tuple[np.ndarray, ...]
    extra: float = 1.0  # fits of functions of a sum are finer by this than necessary, for a second opinion
    error: float = 0.0  # the largest relative error of such fits

    def run(self, traced: ClosedJaxpr, inputs: Sequence[Sum]) -> list[Sum]:
        """The outputs of a traced function of numbers."""
        lifted = [np.array(value, object) for value in inputs]
        return [self._settled(value.item()) for value in self._call(traced.jaxpr, traced.consts, lifted)]

    def _call(self, jaxpr: Jaxpr, consts: Sequence[npt.ArrayLike], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        own = dict(zip(jaxpr.invars, inputs, strict=True))
        own |= {v: _lifted(value) for v, value in zip(jaxpr.constvars, consts, strict=True)}
        read = lambda v: _lifted(v.val) if isinstance(v, Literal) else own[v]
        for equation in jaxpr.eqns:
            given = [read(v) for v in equation.invars]
            inner = next((v for name in NESTED if isinstance(v := equation.params.get(name), ClosedJaxpr)), None)
            name = equation.primitive.name
            if inner is not None:
                found = self._call(inner.jaxpr, inner.consts, given)
            elif (moves := moved(equation, given)) is not None:
                found = moves
            elif name in ("reduce_sum", "reduce_prod"):
                settled = np.asarray(np.frompyfunc(self._settled, 1, 1)(given[0]), object)
                found = [_reduced(settled, equation.params["axes"], np.add if name == "reduce_sum" else np.multiply)]
            else:
                found = [
                    np.asarray(np.frompyfunc(lambda *v, e=equation: self._apply(e, v), len(given), 1)(*given), object)
                ]
            own.update(zip(equation.outvars, found, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _apply(self, equation: JaxprEqn, given: tuple[Sum, ...]) -> Sum | Complex | Shaped:
        name, first = equation.primitive.name, given[0]
        inner = next((value.inner for value in given if isinstance(value, Shaped)), None)
        if inner is not None:
            own, function = [Shaped.of(value, inner) for value in given], _function(equation)
            if None not in own:
                return Shaped(inner, lambda s: function(*(f(s) for f in own if f is not None)))
            given = tuple(map(self._settled, given))
            first = given[0]
        if name == "complex" or any(isinstance(value, Complex) for value in given):
            return complex_operation(name, given)
        if name in ("add", "add_any"):
            return first + given[1]
        if name in ("sub", "neg"):
            minus = constant(-1.0) * given[-1]
            return minus if name == "neg" else first + minus
        if name == "mul":
            return first * given[1]
        if name == "convert_element_type" and not np.issubdtype(equation.params["new_dtype"], np.integer):
            return first
        axes = set().union(*(value.axes for value in given))
        if all(value.is_plain for value in given) and len(axes) <= 1:
            return self._one_variable(_function(equation), given, next(iter(axes), -1))
        if name == "div":
            other = self._of(given[1], lambda s: 1.0 / s, -1.0)
            if isinstance(other, Shaped) and (above := Shaped.of(first, other.inner)) is not None:
                return Shaped(other.inner, lambda s, under=other.function: above(s) * under(s))
            return first * self._settled(other)
        if name == "pow" and not given[1].axes:
            power = float(given[1].along(-1, np.zeros(())))
            return self._of(first, lambda s: s**power, power)
        if len(given) == 1:
            powers = {"integer_pow": equation.params.get("y"), "square": 2.0, "sqrt": 0.5, "rsqrt": -0.5}
            return self._of(first, _function(equation), powers.get(name), name)
        raise Unfit(f"`{name}` of several variables at once cannot be factored")

    def _one_variable(self, function: Callable[..., Values], given: tuple[Sum, ...], axis: int) -> Sum:
        like = self.nodes[axis] if axis >= 0 else np.zeros(())
        values = [value.along(axis, like) + value.along(-1, like) * (axis >= 0) for value in given]
        with np.errstate(all="ignore"):
            found = np.asarray(function(*values), float)
        if not np.isfinite(found).all():
            raise Unfit("it must be finite at all points of the domain")
        return Sum(Term(1.0, {axis: found})) if axis >= 0 else constant(float(found))

    def _of(self, value: Sum, function: Callable[..., Values], power: float | None, name: str = "") -> Sum | Shaped:
        """A function of a product (powers alone) or of a sum of functions of one variable."""
        if any(term.jet >= 0 for term in value.terms):
            raise Unfit("it must be linear in the unknown")
        if value.is_plain and len(value.axes) <= 1:
            return self._one_variable(function, (value,), next(iter(value.axes), -1))
        if power is not None and len(value.terms) == 1 and not value.terms[0].is_complex:
            (term,) = value.terms
            parts = [np.asarray(term.c), *term.factors.values()]
            with np.errstate(all="ignore"):
                raised = [np.sign(v) ** (power % 2) * np.abs(v) ** power if power % 1 == 0 else v**power for v in parts]
            if all(np.isfinite(v).all() for v in raised):
                return Sum(Term(float(raised[0]), dict(zip(term.factors, raised[1:], strict=True))))
        if power in (2.0, 3.0) and len(value.terms) ** power <= 64 and not value.is_plain:
            return reduce(lambda a, b: a * b, [value] * int(power))
        if not value.is_plain:
            raise Unfit(f"`{name or 'a power'}` of a product cannot be factored")
        parts = {axis: value.along(axis, self.nodes[axis]) for axis in value.axes}
        offset = float(value.along(-1, np.zeros(())))
        if name == "exp":
            return Sum(Term(math.exp(offset), {axis: np.exp(v) for axis, v in parts.items()}))
        if name in ("sin", "cos"):
            turn = offset - (np.pi / 2 if name == "sin" else 0.0)
            return Sum(Term(complex(np.exp(1j * turn)), {axis: np.exp(1j * v) for axis, v in parts.items()}))
        return Shaped(value, function)

    def _settled(self, value: Sum | Shaped) -> Sum:
        """A function of a sum as a sum of exponentials of that sum; other values unchanged."""
        if not isinstance(value, Shaped):
            return value
        parts = {axis: value.inner.along(axis, self.nodes[axis]) for axis in value.inner.axes}
        offset = float(value.inner.along(-1, np.zeros(())))
        low = offset + sum(float(v.min()) for v in parts.values())
        high = offset + sum(float(v.max()) for v in parts.values())
        middle, half = (low + high) / 2, (high - low) / 2 or 1.0
        waves, error = _fit_waves(value.function, middle, half, self.extra)
        self.error = max(self.error, error)
        if error > POOR:
            raise Unfit(f"a function of a sum is too rough to be a sum of {COUNTS[-1]} exponentials")
        rng = np.random.default_rng(0)
        drawn = np.sum([rng.choice(v, POINTS) for v in parts.values()], axis=0) + offset
        typical, largest = (np.abs(value.function(at)) for at in (drawn, np.linspace(low, high, POINTS)))
        if np.sqrt(np.mean(typical**2)) < error * largest.max():
            raise Unfit("a function of a sum is too small at most points for a fit along its whole range")
        terms = []
        for k, c in enumerate(waves):
            rate = 1j * np.pi * k / (2 * half)
            turned = {axis: np.exp(rate * v) for axis, v in parts.items()}
            terms.append(Term(complex(c * np.exp(rate * (offset - middle))), turned) if k else Term(float(c.real), {}))
        return Sum(*terms)


def _fit_waves(function: Callable[..., Values], middle: float, half: float, extra: float) -> tuple[np.ndarray, float]:
    """c_k with f(s) = Re sum c_k exp(i pi k (s - middle) / (2 half)): waves of twice the length, and their error."""
    for count in COUNTS:
        count = math.ceil(count * extra)
        x = np.cos(np.pi * (np.arange(6 * count) + 0.5) / (6 * count))
        with np.errstate(all="ignore"):
            values, held = (np.asarray(function(middle + half * z), float) for z in (x, np.linspace(-1, 1, 997)))
        if not (np.isfinite(values).all() and np.isfinite(held).all()):
            raise Unfit("it must be finite at all points of the domain")
        table = lambda z, count=count: np.exp(0.5j * np.pi * np.outer(z, np.arange(count)))
        split = lambda waves: np.concatenate([waves.real, waves.imag[:, 1:]], axis=1)
        found = np.linalg.lstsq(split(table(x)), values, rcond=1e-14)[0]
        error = np.abs(split(table(np.linspace(-1, 1, 997))) @ found - held).max() / (np.abs(held).max() or 1.0)
        if error <= FITTED:
            break
    return found[:count] - 1j * np.append(0.0, found[count:]), float(error)


def _function(equation: JaxprEqn) -> Callable[..., Values]:
    """One operation on arrays of numbers, by NumPy or else by JAX."""
    try:
        return operation(equation.primitive.name, equation)
    except LookupError:
        bind, several = equation.primitive.bind, equation.primitive.multiple_results
        once = lambda *values: bind(*values, **equation.params)[0] if several else bind(*values, **equation.params)
        return lambda *values: np.asarray(jax.vmap(once)(*np.broadcast_arrays(*map(np.atleast_1d, values)))).reshape(
            np.broadcast_shapes(*map(np.shape, values))
        )


def _lifted(value: npt.ArrayLike) -> np.ndarray:
    """Numbers as sums of products."""
    numbers = np.asarray(value)
    one = lambda v: Complex(constant(v.real), constant(v.imag)) if np.iscomplexobj(numbers) else constant(float(v))
    return np.asarray(np.frompyfunc(one, 1, 1)(numbers), object)


def _reduced(a: np.ndarray, axes: tuple[int, ...], function: np.ufunc) -> np.ndarray:
    """Sums or products along axes of an array of objects."""
    rows = np.moveaxis(a, axes, range(len(axes)))
    return np.asarray(function.reduce(rows.reshape(-1, *rows.shape[len(axes) :]), axis=0), object)
