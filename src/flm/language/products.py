"""Functions stated as sums of products of functions of one variable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from flm.language.arguments import Named, Value
from flm.wording import InputError, InputTypeError, short

Factor = float | Callable[..., Value]


def products(terms: Sequence[Mapping[str, Factor]]) -> Named:
    """A function that is a sum of products, for problems of many variables.

    A function written with jax.numpy is factored automatically; use this where factors are code of another
    kind, such as tables or special functions of NumPy.

    Args:
        terms: for each product its factors by axis, functions of one array or numbers; axes left out have the factor 1.

    Returns:
        A function by argument name, for `dirichlet`, `initial` and the like; called with its axes in the order in which they
        occur, it can be part of an equation.

    Example:
        >>> import flm, numpy as np
        >>> g = flm.products([{"x": np.sin, "y": np.cos}, {"x": 2.0, "z": lambda z: z**2}])
        >>> g.names
        ('x', 'y', 'z')
        >>> float(g(0.0, 0.5, 3.0))
        18.0
    """
    if not isinstance(terms, list | tuple) or not terms or not all(isinstance(t, Mapping) and t for t in terms):
        raise InputTypeError(
            f'`terms` must be a list of dicts of factors by axis, such as [{{"x": jnp.sin}}]; got {short(terms)}.'
        )
    names = tuple(dict.fromkeys(name for term in terms for name in term))
    ready = [{names.index(name): _factor(name, f) for name, f in term.items()} for term in terms]

    def total(*values: Value) -> Value:
        if len(values) != len(names):
            raise InputError(f"call with one value for each of {', '.join(names)}; got {len(values)}.")
        each = [math.prod(factor(values[j]) for j, factor in term.items()) for term in ready]
        return sum(each[1:], each[0])

    return Named(total, names)


def _factor(name: str, factor: Factor) -> Callable[[Value], Value]:
    """A factor as a function that JAX traces; one that JAX cannot trace is called back."""
    if isinstance(factor, int | float | np.number):
        return lambda x: float(factor) + 0.0 * x
    if not callable(factor):
        raise InputTypeError(f"the factor of {name!r} must be a number or a function of one array; got {factor!r}.")
    try:
        jax.eval_shape(lambda x: factor(x), jnp.zeros(3))  # JAX itself may crash on a bare function of NumPy
    except (TypeError, ValueError, jax.errors.JAXTypeError):
        call = lambda x: np.asarray(factor(np.asarray(x)), float)
        shape = lambda x: jax.ShapeDtypeStruct(jnp.shape(x), float)
        return lambda x: jax.pure_callback(call, shape(x), jnp.asarray(x, float), vmap_method="expand_dims")
    return factor
