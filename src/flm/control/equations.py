"""The functions of an optimal control problem, written by argument name, as functions of vectors.

Conventions. s = t/T in [0, 1] is the normalized time; v are the independent coordinates of the state (all states, or all
but the last on the simplex); w are the controls, followed by log T when the horizon is free. With these

    dv/ds = F(s, v, w) = T f(t, x, u),        J = phi(v(1)) + integral of l(s, v, w) ds,        l = T L(t, x, u).

Constraints enter through an augmented Lagrangian: path constraints g <= 0 with multipliers lam >= 0,
terminal constraints h = 0 with multipliers nu,

    l + T sum (max(0, lam + rho g)^2 - lam^2) / (2 rho),        phi + nu . h + rho |h|^2 / 2.

Everything here is for one point; `flm.control.dynamics.simulation` batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from flm.language.arguments import Named, argument_names
from flm.wording import InputError, InputTypeError, did_you_mean


def by_name(role: str, function: Any, known: Sequence[str]) -> Named:
    """`function` with its argument names checked against `known`; arguments with defaults are left alone.

    Raises:
        TypeError: It is not a function of named arguments.
        ValueError: An argument is not known; the message lists those that are.
    """
    names = argument_names(function, f"`{role}`")
    for name in names:
        if name not in known:
            raise InputError(
                f"`{role}` must only use the names {', '.join(known)}; got {name!r}.{did_you_mean(name, known)}"
            )
    return Named(function.function if isinstance(function, Named) else function, names)


def call(named: Named, known: Mapping[str, Any]) -> Any:
    """The function's value, its arguments picked by name."""
    return named.function(*(known[name] for name in named.names))


@dataclass(frozen=True)
class Equations:
    """What a control problem says, without its numbers: hashable, so that compiled kernels are shared between problems.

    Args:
        dynamics: One value per state.
        running_cost: One value.
        terminal_cost: One value at the final time, or None.
        path: Functions g, required to be <= 0 all along.
        terminal: Functions h, required to be 0 at the final time.
        states: Names.
        controls: Names.
        parameters: Names.
        on_simplex: Whether the last state is one minus the sum of the others.
        free: Whether the horizon is free.
    """

    dynamics: Named
    running_cost: Named
    terminal_cost: Named | None
    path: tuple[Named, ...]
    terminal: tuple[Named, ...]
    states: tuple[str, ...]
    controls: tuple[str, ...]
    parameters: tuple[str, ...]
    on_simplex: bool
    free: bool

    @property
    def num_coordinates(self) -> int:
        """The number of independent coordinates of the state."""
        return len(self.states) - self.on_simplex

    @property
    def num_inputs(self) -> int:
        """The number of controls, log T included when the horizon is free."""
        return len(self.controls) + self.free

    def lift(self, v):
        """All states from the independent coordinates (last axis)."""
        if not self.on_simplex:
            return v
        return jnp.concatenate([v, 1.0 - v.sum(axis=-1, keepdims=True)], axis=-1)

    def duration(self, w, numbers):
        """T, from log T or from the last of `numbers`."""
        return jnp.exp(w[len(self.controls)]) if self.free else numbers[len(self.parameters)]

    def known(self, s, v, w, numbers) -> dict:
        """Every name's value at a point."""
        values = dict(zip(self.parameters, numbers, strict=False))
        values["t"] = s * self.duration(w, numbers)
        values.update(zip(self.states, self.lift(v), strict=True))
        values.update(zip(self.controls, w, strict=False))
        return values

    def rates(self, s, v, w, numbers):
        """F: the coordinates' derivative with respect to normalized time."""
        values = call(self.dynamics, self.known(s, v, w, numbers))
        values = values if isinstance(values, tuple | list) else (values,)
        return self.duration(w, numbers) * stack(values[: self.num_coordinates])

    def running(self, s, v, w, numbers):
        """l: the running cost per unit of normalized time."""
        return self.duration(w, numbers) * jnp.asarray(call(self.running_cost, self.known(s, v, w, numbers)), float)

    def path_values(self, s, v, w, numbers):
        """All path constraints g."""
        return self._all(self.path, self.known(s, v, w, numbers))

    def final_cost(self, v, w, numbers):
        """phi, zero when there is no terminal cost."""
        if self.terminal_cost is None:
            return jnp.zeros(())
        return jnp.asarray(call(self.terminal_cost, self.known(1.0, v, w, numbers)), float)

    def terminal_values(self, v, w, numbers):
        """All terminal constraints h."""
        return self._all(self.terminal, self.known(1.0, v, w, numbers))

    def running_lagrangian(self, s, v, w, numbers, lam, rho):
        """l with the path constraints' augmented Lagrangian."""
        value = self.running(s, v, w, numbers)
        if not self.path:
            return value
        g = self.path_values(s, v, w, numbers)
        return value + self.duration(w, numbers) * jnp.sum(jnp.maximum(0.0, lam + rho * g) ** 2 - lam**2) / (2 * rho)

    def final_lagrangian(self, v, w, numbers, nu, rho):
        """phi with the terminal constraints' augmented Lagrangian."""
        value = self.final_cost(v, w, numbers)
        if not self.terminal:
            return value
        h = self.terminal_values(v, w, numbers)
        return value + nu @ h + 0.5 * rho * h @ h

    def _all(self, functions: tuple[Named, ...], known: dict):
        values = []
        for function in functions:
            value = call(function, known)
            values.extend(value if isinstance(value, tuple | list) else (value,))
        return stack(values) if values else jnp.zeros((0,))


def stack(values):
    """Scalars as a vector of floats."""
    return jnp.stack([jnp.asarray(value, float) for value in values])


def count_values(role: str, named: Named, expected: str) -> int:
    """The number of values that a function returns at one point.

    Raises:
        TypeError: The function cannot be traced, for instance because it calls NumPy on a state.
        ValueError: It returns arrays for scalar arguments.
    """
    point = {name: jax.ShapeDtypeStruct((), jnp.result_type(float)) for name in named.names}
    try:
        result = jax.eval_shape(lambda known: call(named, known), point)
    except (jax.errors.TracerArrayConversionError, jax.errors.TracerBoolConversionError) as error:
        use = (
            "not numpy: jnp.sin(x), not np.sin(x)"
            if "Array" in type(error).__name__
            else "not `if`: jnp.where(a, b, c)"
        )
        raise InputTypeError(f"`{role}` must use jax.numpy, {use}, so that it can be differentiated.") from None
    values = result if isinstance(result, tuple | list) else (result,)
    shapes = [getattr(value, "shape", ()) for value in values]
    if any(shapes):
        raise InputError(f"`{role}` must return {expected}, elementwise; got shapes {shapes} for scalar arguments.")
    return len(values)
