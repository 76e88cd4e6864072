"""A user's elementwise function, with derivatives, on NumPy arrays of any length: compiled once, for one shape."""

import inspect
from collections.abc import Callable, Sequence

import numpy as np

from flm.numerics.chunks import in_chunks
from flm.wording import InputError


def check_arguments(function: Callable[..., object], names: Sequence[str], what: str) -> list[str]:
    """The positional arguments of `function`, refused unless all are among `names`."""
    parameters = inspect.signature(function).parameters.values()
    arguments = [p.name for p in parameters if p.default is p.empty]
    if unknown := [name for name in arguments if name not in names]:
        raise InputError(
            f"`{what}` must be a function of {', '.join(names)}; got the argument{'s' * (len(unknown) > 1)} "
            f"{', '.join(unknown)}."
        )
    return arguments


def compile_rows(function: Callable[..., object], width: int, what: str) -> Callable[[np.ndarray], list[np.ndarray]]:
    """`function(columns (width, P))` → arrays with last axis P, jitted and applied in chunks to points (P, width)."""
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

    return lambda points: in_chunks(lambda rows: compiled(rows.T), points, axis=-1)
