"""Arrays by numpy, which compiles nothing, when their numbers are at hand, and by jax.numpy when they are traced."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array

from flm.wording import InputError, short

Numbers = np.ndarray | Array  # at hand, or traced
Along = str | int | Sequence[str | int]  # the axes of a derivative: "xx", ("x", "x") or (0, 0)
Scalar = complex | np.number | np.ndarray | Array  # one number: Python's, numpy's or an array without axes


def host(*values: npt.ArrayLike) -> tuple[ModuleType, tuple[Numbers, ...]]:
    """The module to compute with, and the values as its arrays: numpy when all are concrete, jax.numpy when one is traced."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):  # type: ignore[attr-defined]
        return jnp, tuple(jnp.asarray(v) for v in values)
    return np, tuple(np.asarray(v) for v in values)


def device(value: npt.ArrayLike) -> Array:
    """A JAX array of a concrete or traced array; unlike `jnp.asarray`, it compiles nothing for a new shape.

    Rows are contiguous whatever view they come from, so that a loaded model rounds as the one that was saved.
    """
    return value if isinstance(value, jax.Array) else jax.device_put(np.array(value, order="C"))


def drawn(law: Callable[..., Array], key: Array, shape: tuple[int, ...], *limits: float) -> Numbers:
    """Random numbers of `jax.random.normal` or `uniform`, of any shape from few compiled ones.

    A longer array begins with the numbers of a shorter one, so that more of them may be drawn than are needed.
    """
    count, size = math.prod(shape), 256
    while size < count:
        size *= 4
    _, (flat,) = host(law(key, (size,), jnp.result_type(float), *limits))
    return flat[:count].reshape(shape)


def per_row(values: Numbers, like: Numbers) -> Numbers:
    """Values shaped to multiply `like` along its first axes."""
    return values.reshape(values.shape + (1,) * (like.ndim - values.ndim))


def joined(first: npt.ArrayLike, second: npt.ArrayLike) -> Numbers:
    """One array after the other along the first axis."""
    xp, both = host(first, second)
    return xp.concatenate(both)


def as_numbers(name: str, *values: npt.ArrayLike) -> tuple[ModuleType, tuple[Numbers, ...]]:
    """The module and the arrays that `host` returns, refused unless the arrays hold numbers."""
    try:
        xp, found = host(*values)
        numeric = all(value.dtype.kind not in "OSUMm" for value in found)
    except (TypeError, ValueError):
        xp, found, numeric = np, (), False
    if not numeric:
        got = ", ".join(map(short, values))
        raise InputError(f"`{name}` must be an array of numbers, all rows equally long; got {got}.")
    return xp, found


def as_floats(name: str, value: npt.ArrayLike, ndim: tuple[int, ...], *, may_be_complex: bool = False) -> Array:
    """The argument `name` as a JAX array of floats in its own precision."""
    _, (array,) = as_numbers(name, value)
    if np.iscomplexobj(array) and not may_be_complex:
        raise InputError(f"`{name}` must be real; got {array.dtype}.")
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        array = array.astype(jnp.result_type(float))
    if array.ndim not in ndim:
        raise InputError(f"`{name}` must have {' or '.join(map(str, ndim))} axes; got shape {array.shape}.")
    return device(array)


def as_points(
    points: npt.ArrayLike | None, named: Mapping[str, npt.ArrayLike], axes: Sequence[str] | None, m: int
) -> Numbers:
    """Points (..., m) from one array (m = 1: also (...,)), or from arrays by axis name that broadcast together."""
    if named:
        if points is not None or axes is None or set(named) != set(axes):
            known = "no names: it was built without `axes`" if axes is None else ", ".join(axes)
            raise InputError(f"call with points (..., {m}) or with every axis by name ({known}); got {sorted(named)}.")
        xp, columns = as_numbers("points", *(named[a] for a in axes))
        return xp.stack(xp.broadcast_arrays(*columns), axis=-1)
    if points is None:
        raise InputError(f"call with points (..., {m}) or with every axis by name; got nothing.")
    _, (array,) = as_numbers("points", points)
    if m == 1 and (array.ndim == 0 or array.shape[-1] != 1):
        array = array[..., None]
    if array.ndim == 0 or array.shape[-1] != m:
        raise InputError(f"`points` must have {m} columns, one per input; got shape {array.shape}.")
    return array


def upper_half(k: np.ndarray) -> np.ndarray:
    """One of each pair (k, -k): the rows that are zero or whose first nonzero component is positive."""
    if not len(k):
        return np.zeros(0, bool)
    return k[np.arange(len(k)), (k != 0).argmax(axis=1)] >= 0


def axis_indices(axes: Along, names: tuple[str, ...] | None, count: int) -> tuple[int, ...]:
    """Axis numbers of a derivative given as "xx" (one-letter names), as names, or as numbers below `count`."""
    if isinstance(axes, str | int | np.integer):
        axes = tuple(axes) if isinstance(axes, str) and axes not in (names or ()) else (axes,)
    if not isinstance(axes, tuple | list):
        raise InputError(f'`d` must name axes, as in "xx" or (0, 0); got {axes!r}.')
    for axis in axes:
        if isinstance(axis, str) and axis not in (names or ()):
            raise InputError(f"`d` must name axes among {names}; got {axis!r}.")
        if not isinstance(axis, str) and not (isinstance(axis, int | np.integer) and 0 <= axis < count):
            raise InputError(f"`d` must number axes from 0 to {count - 1}; got {axis!r}.")
    return tuple((names or ()).index(axis) if isinstance(axis, str) else int(axis) for axis in axes)
