"""Numbers at hand are handled by numpy, which compiles nothing; traced ones by jax.numpy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from flm.wording import InputError


def host(*values: Any) -> tuple[Any, ...]:
    """(numpy, arrays) when every value is concrete, else (jax.numpy, arrays): series work inside `jit` and outside."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):  # type: ignore[attr-defined]
        return jnp, *(jnp.asarray(v) for v in values)
    return np, *(np.asarray(v) for v in values)


def device(value: Any) -> Array:
    """A JAX array of a concrete or traced array; unlike `jnp.asarray`, it compiles nothing for a new shape."""
    return value if isinstance(value, jax.Array) else jax.device_put(np.array(value))


def per_row(values: Any, like: Any) -> Any:
    """Values shaped to multiply `like` along its first axes."""
    return values.reshape(values.shape + (1,) * (like.ndim - values.ndim))


def joined(first: Any, second: Any) -> Any:
    """One array after the other along the first axis."""
    xp, first, second = host(first, second)
    return xp.concatenate([first, second])


def as_numbers(name: str, *values: Any) -> tuple[Any, ...]:
    """(numpy or jax.numpy, arrays) as `host` gives them, refused unless they hold numbers."""
    try:
        found = host(*values)
    except (TypeError, ValueError):
        found = ()
    if not found or any(value.dtype.kind in "OSUMm" for value in found[1:]):
        got = ", ".join(" ".join(repr(value).split())[:60] for value in values)
        raise InputError(f"`{name}` must be an array of numbers, all rows equally long; got {got}.")
    return found


def as_floats(name: str, value: Any, ndim: tuple[int, ...], *, may_be_complex: bool = False) -> Array:
    """That argument as a JAX array of floats, its own precision kept."""
    _, value = as_numbers(name, value)
    if np.iscomplexobj(value) and not may_be_complex:
        raise InputError(f"`{name}` must be real; got {value.dtype}.")
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        value = value.astype(jnp.result_type(float))
    if value.ndim not in ndim:
        raise InputError(f"`{name}` must have {' or '.join(map(str, ndim))} axes; got shape {value.shape}.")
    return device(value)
