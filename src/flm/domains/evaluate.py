"""A user's elementwise function, with derivatives, on NumPy arrays of any length: compiled once, for one shape."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flm.wording import InputError

_CHUNK = 2048  # rows per call; the last chunk is padded, so XLA compiles a single shape


def check_arguments(function: Callable[..., Any], names: Sequence[str], what: str) -> list[str]:
    """The positional arguments of `function`, refused unless all are among `names`."""
    parameters = inspect.signature(function).parameters.values()
    arguments = [p.name for p in parameters if p.default is p.empty]
    if unknown := [name for name in arguments if name not in names]:
        raise InputError(
            f"`{what}` must be a function of {', '.join(names)}; got the argument{'s' * (len(unknown) > 1)} "
            f"{', '.join(unknown)}."
        )
    return arguments


def compile_rows(function: Callable[..., Any], width: int, what: str) -> Callable[[np.ndarray], list[np.ndarray]]:
    """`function(columns (width, P))` → arrays with last axis P, jitted and applied in chunks to points (P, width).

    Raises:
        ValueError: `function` cannot be traced, as when it uses NumPy where it needs jax.numpy.
    """
    import jax  # imported here: boxes need no jax
    import jax.numpy as jnp

    try:
        jax.eval_shape(function, jnp.zeros((width, 2)))
    except jax.errors.JAXTypeError as error:
        raise InputError(
            f"`{what}` must be elementwise and written with jax.numpy, so that it can be differentiated; "
            f"got {type(error).__name__} on tracing it. Use jnp.sin, jnp.where, … instead of np.sin or if."
        ) from None
    except (TypeError, ArithmeticError) as error:
        raise InputError(f"`{what}` must return numbers, elementwise; it failed with: {error}") from None
    compiled = jax.jit(function)

    def rows(points: np.ndarray) -> list[np.ndarray]:
        parts = []
        for start in range(0, max(len(points), 1), _CHUNK):
            chunk = points[start : start + _CHUNK]
            padded = np.zeros((width, _CHUNK)) + (chunk[0][:, None] if len(chunk) else 0.0)
            padded[:, : len(chunk)] = chunk.T
            parts.append([np.asarray(value)[..., : len(chunk)] for value in compiled(padded)])
        return [np.concatenate(values, axis=-1) for values in zip(*parts, strict=True)]

    return rows
