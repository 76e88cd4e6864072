"""Values of many variables: sums of products, functions of one such sum, and complex values on the way.

Re sum_r c_r prod_j v_rj(x_j) [times one derivative of the unknown], v_rj at the nodes of its axis
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from flm.numerics.elementwise import Values
from flm.pde.march.sides import Unfit

MOST = 3000  # terms of one function


class Term(NamedTuple):
    """One product: a factor, functions by axis at its nodes, and the derivative of the unknown that it multiplies (or -1)."""

    c: complex
    factors: dict[int, np.ndarray]
    jet: int = -1

    @property
    def is_complex(self) -> bool:
        """Whether the real part of the product is meant."""
        return isinstance(self.c, complex) or any(np.iscomplexobj(v) for v in self.factors.values())

    def times(self, other: Term) -> Term:
        """The product of two terms."""
        if self.jet >= 0 and other.jet >= 0:
            raise Unfit("it must be linear in the unknown")
        factors = dict(self.factors)
        for axis, values in other.factors.items():
            factors[axis] = factors[axis] * values if axis in factors else values
        return Term(self.c * other.c, factors, max(self.jet, other.jet))

    def conjugate(self) -> Term:
        """Its complex conjugate."""
        return Term(np.conj(self.c), {axis: np.conj(v) for axis, v in self.factors.items()}, self.jet)


class Sum:
    """Re sum of terms, `products` of two axes and more; those of one axis, or of none (-1), are merged by derivative and axis."""

    def __init__(self, *terms: Term):
        self.products = tuple(term for term in terms if len(term.factors) > 1)
        single: dict[tuple[int, int], Values] = {}
        for term in terms:
            if len(term.factors) < 2:
                axis, values = next(iter(term.factors.items()), (-1, 1.0))
                place = term.jet, axis
                single[place] = single.get(place, 0.0) + np.real(term.c * values)
        self.single = {place: values for place, values in single.items() if np.any(values)}
        if len(self.products) + len(self.single) > MOST:
            raise Unfit(f"it must have at most {MOST:,} terms")

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """All terms that are not zero."""
        one = lambda jet, axis, v: Term(1.0, {axis: v}, jet) if axis >= 0 else Term(float(v), {}, jet)
        return (*self.products, *(one(*place, values) for place, values in self.single.items()))

    @property
    def is_plain(self) -> bool:
        """Whether it is a sum of functions of one variable, without the unknown."""
        return not self.products and all(jet < 0 for jet, _ in self.single)

    @property
    def axes(self) -> set[int]:
        """The axes that it depends on."""
        return {axis for term in self.terms for axis in term.factors}

    def along(self, axis: int, like: np.ndarray) -> np.ndarray:
        """The part that depends on one axis alone, at its nodes; constants are of axis -1."""
        return self.single.get((-1, axis), 0.0) + np.zeros_like(like)

    def __add__(self, other: Sum) -> Sum:
        return Sum(*self.terms, *other.terms)

    def __mul__(self, other: Sum) -> Sum:
        if len(self.terms) * len(other.terms) > MOST:
            raise Unfit(f"it must have at most {MOST:,} terms")
        out = []
        for a in self.terms:
            for b in other.terms:
                if a.is_complex and b.is_complex:  # Re A Re B = Re (A B + A conj B) / 2
                    out += [half._replace(c=half.c / 2) for half in (a.times(b), a.times(b.conjugate()))]
                else:
                    out.append(a.times(b))
        return Sum(*out)


def constant(value: float) -> Sum:
    """The sum that is a number."""
    return Sum(Term(float(value), {}))


@dataclass(frozen=True, eq=False)
class Shaped:
    """A function of one sum of functions of one variable, such as an affine form or |x|^2, kept until it meets other values."""

    inner: Sum
    function: Callable[[np.ndarray], Values]

    @staticmethod
    def of(value: Sum | Shaped | Complex, inner: Sum) -> Callable[[np.ndarray], Values] | None:
        """A value as a function of the same sum; None where it is not one."""
        if isinstance(value, Shaped):
            return value.function if _equal(value.inner, inner) else None
        if not isinstance(value, Sum):
            return None
        if not value.axes and value.is_plain:
            number = float(value.along(-1, np.zeros(())))
            return lambda s: np.full_like(s, number)
        return (lambda s: s) if _equal(value, inner) else None


def _equal(a: Sum, b: Sum) -> bool:
    return a is b or (
        a.is_plain and b.is_plain and a.single.keys() == b.single.keys()
        and all(np.array_equal(v, b.single[k]) for k, v in a.single.items())
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex intermediate value: the equations of a complex unknown are the parts of one function."""

    real: Sum
    imag: Sum


def complex_operation(name: str, given: Sequence[Sum | Complex]) -> Sum | Complex:
    """One operation on complex values."""
    if name == "complex":
        real, imag = (v for v in given if isinstance(v, Sum))
        return Complex(real, imag)
    both = [(v.real, v.imag) if isinstance(v, Complex) else (v, constant(0.0)) for v in given]
    (a, b), minus = both[0], constant(-1.0)
    if name in ("real", "imag"):
        return a if name == "real" else b
    if name in ("conj", "neg"):
        return Complex(a if name == "conj" else minus * a, minus * b)
    if name in ("convert_element_type", "copy"):
        return Complex(a, b)
    c, d = both[1]
    if name in ("add", "add_any", "sub"):
        sign = minus if name == "sub" else constant(1.0)
        return Complex(a + sign * c, b + sign * d)
    if name == "mul":
        return Complex(a * c + minus * b * d, a * d + b * c)
    raise Unfit(f"`{name}` of complex values cannot be factored")
