"""The functions of an optimal control problem, written by argument name, as functions of vectors.

Conventions. s = t/T in [0, 1] is the normalized time; v are the independent coordinates of the state (all states, or all
but the last on the simplex); w are the controls, followed by log T when the horizon is free. With these

    dv/ds = F(s, v, w) = T f(t, x, u),        J = phi(v(1)) + integral of l(s, v, w) ds,        l = T L(t, x, u).

Constraints enter through an augmented Lagrangian: path constraints g <= 0 with multipliers lam >= 0,
terminal constraints h = 0 with multipliers nu,

    l + T sum (max(0, lam + rho g)^2 - lam^2) / (2 rho),        phi + nu . h + rho |h|^2 / 2.

Everything here is for one point; `flm.control.dynamics.simulation` batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from flm.language.arguments import Named, argument_names
from flm.wording import InputError, InputTypeError, did_you_mean

if TYPE_CHECKING:
    from flm.control.problem import OptimalControl

Function = Callable[..., object] | Named  # its arguments are picked by name; it returns a number, or several
Constraints = Function | list[Function] | tuple[Function, ...] | None
Array = jax.Array | np.ndarray
Scalar = jax.Array | np.ndarray | float


@dataclass(frozen=True)
class Equations:
    """What a control problem says, without its numbers: hashable, so that compiled kernels are shared between problems.

    `num_path` and `num_terminal` count the values that its constraints return.
    """

    dynamics: Named
    running_cost: Named
    terminal_cost: Named | None
    path: tuple[Named, ...]
    terminal: tuple[Named, ...]
    num_path: int
    num_terminal: int
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

    def lift(self, v: Array) -> Array:
        """All states from the independent coordinates (last axis)."""
        if not self.on_simplex:
            return v
        return jnp.concatenate([v, 1.0 - v.sum(axis=-1, keepdims=True)], axis=-1)

    def duration(self, w: Array, numbers: Array) -> jax.Array:
        """T, from log T or from the last of `numbers`."""
        return jnp.exp(w[len(self.controls)]) if self.free else numbers[len(self.parameters)]

    def known(self, s: Scalar, v: Array, w: Array, numbers: Array) -> dict[str, Scalar]:
        """Every name's value at a point."""
        values = dict(zip(self.parameters, numbers, strict=False))
        values["t"] = s * self.duration(w, numbers)
        values.update(zip(self.states, self.lift(v), strict=True))
        values.update(zip(self.controls, w, strict=False))
        return values

    def rates(self, s: Scalar, v: Array, w: Array, numbers: Array) -> jax.Array:
        """F: the coordinates' derivative with respect to normalized time."""
        values = values_of(self.dynamics, self.known(s, v, w, numbers))
        return self.duration(w, numbers) * stack(values[: self.num_coordinates])

    def running(self, s: Scalar, v: Array, w: Array, numbers: Array) -> jax.Array:
        """l: the running cost per unit of normalized time."""
        return self.duration(w, numbers) * stack(values_of(self.running_cost, self.known(s, v, w, numbers)))[0]

    def path_values(self, s: Scalar, v: Array, w: Array, numbers: Array) -> jax.Array:
        """All path constraints g."""
        return _all(self.path, self.known(s, v, w, numbers))

    def final_cost(self, v: Array, w: Array, numbers: Array) -> jax.Array:
        """phi, zero when there is no terminal cost."""
        if self.terminal_cost is None:
            return jnp.zeros(())
        return stack(values_of(self.terminal_cost, self.known(1.0, v, w, numbers)))[0]

    def terminal_values(self, v: Array, w: Array, numbers: Array) -> jax.Array:
        """All terminal constraints h."""
        return _all(self.terminal, self.known(1.0, v, w, numbers))

    def running_lagrangian(self, s: Scalar, v: Array, w: Array, numbers: Array, lam: Array, rho: Scalar) -> jax.Array:
        """l with the path constraints' augmented Lagrangian."""
        value = self.running(s, v, w, numbers)
        if not self.path:
            return value
        g = self.path_values(s, v, w, numbers)
        return value + self.duration(w, numbers) * jnp.sum(jnp.maximum(0.0, lam + rho * g) ** 2 - lam**2) / (2 * rho)

    def final_lagrangian(self, v: Array, w: Array, numbers: Array, nu: Array, rho: Scalar) -> jax.Array:
        """phi with the terminal constraints' augmented Lagrangian."""
        value = self.final_cost(v, w, numbers)
        if not self.terminal:
            return value
        h = self.terminal_values(v, w, numbers)
        return value + nu @ h + 0.5 * rho * h @ h


def values_of(named: Named, known: Mapping[str, Scalar]) -> Sequence[Scalar]:
    """What a function returns, its arguments picked by name: one value or several, as a sequence."""
    value = named.function(*(known[name] for name in named.names))
    return value if isinstance(value, tuple | list) else (value,)


def _all(functions: tuple[Named, ...], known: Mapping[str, Scalar]) -> jax.Array:
    values = [value for function in functions for value in values_of(function, known)]
    return stack(values) if values else jnp.zeros((0,))


def stack(values: Sequence[Scalar]) -> jax.Array:
    """Scalars as a vector of floats."""
    return jnp.stack([jnp.asarray(value, float) for value in values])


def make_equations(problem: OptimalControl) -> Equations:
    """A problem's functions, refused unless their arguments are known names and they return as many values as they should."""
    states, controls, parameters = problem.states, problem.controls, tuple(problem.parameters)
    along, at_end = ("t", *states, *controls, *parameters), ("t", *states, *parameters)
    rates, count = _read("dynamics", problem.dynamics, along, "one value per state")
    if count != len(states):
        raise InputError(
            f"`dynamics` must return one value for each state {', '.join(states)}; got {count} "
            f"value{'s' if count > 1 else ''} for {len(states)} states."
        )
    costs = [_read("running_cost", problem.running_cost, along, "one value")]
    if problem.terminal_cost is not None:
        costs.append(_read("terminal_cost", problem.terminal_cost, at_end, "one value"))
    for role, (_, count) in zip(("running_cost", "terminal_cost"), costs, strict=False):
        if count != 1:
            raise InputError(f"`{role}` must return one value; got {count}.")
    path = [_read("path", function, along, "values") for function in _listed(problem.path)]
    terminal = [_read("terminal", function, at_end, "values") for function in _listed(problem.terminal)]
    return Equations(
        dynamics=rates,
        running_cost=costs[0][0],
        terminal_cost=costs[1][0] if len(costs) > 1 else None,
        path=tuple(named for named, _ in path),
        terminal=tuple(named for named, _ in terminal),
        num_path=sum(count for _, count in path),
        num_terminal=sum(count for _, count in terminal),
        states=states,
        controls=controls,
        parameters=parameters,
        on_simplex=problem.on_simplex,
        free=problem.free,
    )


def _listed(value: Constraints) -> Sequence[Function]:
    return () if value is None else value if isinstance(value, list | tuple) else (value,)


def _read(role: str, function: Function, known: tuple[str, ...], expected: str) -> tuple[Named, int]:
    """A function whose arguments are known names (those with defaults are left alone), and how many values it returns."""
    names = argument_names(function, f"`{role}`")
    for name in names:
        if name not in known:
            raise InputError(
                f"`{role}` must only use the names {', '.join(known)}; got {name!r}.{did_you_mean(name, known)}"
            )
    named = Named(function.function if isinstance(function, Named) else function, names)
    point = {name: jax.ShapeDtypeStruct((), jnp.result_type(float)) for name in names}
    try:
        values = jax.eval_shape(lambda known: values_of(named, known), point)
    except (jax.errors.TracerArrayConversionError, jax.errors.TracerBoolConversionError) as error:
        use = "not `if`: jnp.where(a, b, c)"
        if isinstance(error, jax.errors.TracerArrayConversionError):
            use = "not numpy: jnp.sin(x), not np.sin(x)"
        raise InputTypeError(f"`{role}` must use jax.numpy, {use}, so that it can be differentiated.") from None
    shapes = [getattr(value, "shape", ()) for value in values]
    if any(shapes):
        raise InputError(f"`{role}` must return {expected}, elementwise; got shapes {shapes} for scalar arguments.")
    return named, len(values)
