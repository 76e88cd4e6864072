"""The functions of an optimal control problem: by argument name, as functions of vectors, and compiled for many points.

Conventions. s = t/T in [0, 1] is the normalized time; v are the independent coordinates of the state (all states, or all
but the last on the simplex); w are the controls, followed by log T when the horizon is free; z = (v, w). With these

    dv/ds = F(s, v, w) = T f(t, x, u),        J = phi(v(1)) + integral of l(s, v, w) ds,        l = T L(t, x, u).

Constraints enter through an augmented Lagrangian: path constraints g <= 0 with multipliers lam >= 0,
terminal constraints h = 0 with multipliers nu,

    l + T sum (max(0, lam + rho g)^2 - lam^2) / (2 rho),        phi + nu . h + rho |h|^2 / 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flm.language.arguments import Named, argument_names
from flm.numerics.elementwise import at_rows
from flm.wording import InputError, InputTypeError, did_you_mean

if TYPE_CHECKING:
    from flm.control.problem import OptimalControl

Function = Callable[..., object] | Named  # its arguments are picked by name; it returns a number, or several
Constraints = Function | list[Function] | tuple[Function, ...] | None
Array = jax.Array | np.ndarray
Scalar = jax.Array | np.ndarray | float
Kernel = Callable[..., list[np.ndarray]]  # of arrays with one row for each point

_NO_WEIGHT = 1e-12  # of constraints without multipliers: the Lagrangian is then the cost


class Along(NamedTuple):
    """The rates F, the running cost l and the path constraints g at a point."""

    rates: jax.Array
    running: jax.Array
    path: jax.Array


@dataclass(frozen=True)
class Equations:
    """The functions of a control problem without its numbers: hashable, so that problems share compiled functions.

    `num_path` and `num_terminal` count the values that the constraints return. Methods take the problem's `numbers`.
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

    def duration(self, w: Array, numbers: Array) -> jax.Array:
        """T, from log T or from the last of `numbers`."""
        return jnp.exp(w[len(self.controls)]) if self.free else numbers[len(self.parameters)]

    def known(self, s: Scalar, v: Sequence[Scalar] | Array, w: Array, numbers: Array) -> dict[str, Scalar]:
        """The values of all names at a point."""
        values = dict(zip(self.parameters, numbers, strict=False))
        values["t"] = s * self.duration(w, numbers)
        values.update(zip(self.states, (*v, 1.0 - sum(v)) if self.on_simplex else v, strict=True))
        values.update(zip(self.controls, w, strict=False))
        return values

    def along(self, s: Scalar, v: Array, w: Array, numbers: Array) -> Along:
        """The rates, the running cost and the path constraints at a point."""
        known, horizon = self.known(s, v, w, numbers), self.duration(w, numbers)
        rates = stack(values_of(self.dynamics, known)[: self.num_coordinates])
        return Along(horizon * rates, horizon * _all([self.running_cost], known)[0], _all(self.path, known))

    def at_end(self, v: Array, w: Array, numbers: Array) -> tuple[jax.Array, jax.Array]:
        """phi, zero when there is no terminal cost, and the terminal constraints h."""
        known = self.known(1.0, v, w, numbers)
        cost = jnp.zeros(()) if self.terminal_cost is None else _all([self.terminal_cost], known)[0]
        return cost, _all(self.terminal, known)


def values_of(named: Named, known: Mapping[str, Scalar]) -> Sequence[Scalar]:
    """The values that a function returns, its arguments picked by name: a sequence, also for one value."""
    value = named.function(*(known[name] for name in named.names))
    return value if isinstance(value, tuple | list) else (value,)


def _all(functions: Sequence[Named], known: Mapping[str, Scalar]) -> jax.Array:
    values = [value for function in functions for value in values_of(function, known)]
    return stack(values) if values else jnp.zeros((0,))


def stack(values: Sequence[Scalar]) -> jax.Array:
    """Scalars as a vector of floats."""
    return jnp.stack([jnp.asarray(value, float) for value in values])


def make_equations(problem: OptimalControl) -> Equations:
    """A problem's functions, refused unless their arguments are known names and they return the right number of values."""
    states, controls, parameters = problem.states, problem.controls, tuple(problem.parameters)
    along, at_end = ("t", *states, *controls, *parameters), ("t", *states, *parameters)
    rates, count = _read("dynamics", problem.dynamics, along, "one value per state")
    if count != len(states):
        raise InputError(
            f"`dynamics` must return one value for each state {', '.join(states)}; got {count} "
            f"value{'s' if count > 1 else ''} for {len(states)} states."
        )
    path = [_read("path", function, along, "values") for function in _listed(problem.path)]
    terminal = [_read("terminal", function, at_end, "values") for function in _listed(problem.terminal)]
    return Equations(
        dynamics=rates,
        running_cost=_read_cost("running_cost", problem.running_cost, along),
        terminal_cost=problem.terminal_cost and _read_cost("terminal_cost", problem.terminal_cost, at_end),
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


def _read_cost(role: str, function: Function, known: tuple[str, ...]) -> Named:
    named, count = _read(role, function, known, "one value")
    if count != 1:
        raise InputError(f"`{role}` must return one value; got {count}.")
    return named


def _listed(value: Constraints) -> Sequence[Function]:
    return () if value is None else value if isinstance(value, list | tuple) else (value,)


def _read(role: str, function: Function, known: tuple[str, ...], expected: str) -> tuple[Named, int]:
    """A function whose arguments are known names (those with defaults are left alone), and the number of its values."""
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


# Values at many points, with derivatives.


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Augmented-Lagrangian multipliers: path (E, P, q, G), terminal (P, H), and the penalty weight."""

    path: np.ndarray
    terminal: np.ndarray
    weight: float


class First(NamedTuple):
    """Rates F with their slopes F_z, the running cost, the running Lagrangian with its slopes l_z, and path constraints."""

    rates: np.ndarray
    F_z: np.ndarray
    running: np.ndarray
    lagrangian: np.ndarray
    l_z: np.ndarray
    path: np.ndarray


class Last(NamedTuple):
    """The final cost, the final Lagrangian with its first and second derivatives with respect to z, and terminal constraints."""

    cost: np.ndarray
    lagrangian: np.ndarray
    phi_z: np.ndarray
    phi_zz: np.ndarray
    terminal: np.ndarray


def first_order(
    problem: OptimalControl, s: np.ndarray, v: np.ndarray, w: np.ndarray, multipliers: Multipliers | None = None
) -> First:
    """Values and first derivatives at times s (...), coordinates v (..., d) and inputs w (..., k)."""
    return First(*_at_nodes(_first, problem, multipliers, s, v, w))


def second_order(
    problem: OptimalControl,
    s: np.ndarray,
    v: np.ndarray,
    w: np.ndarray,
    p: np.ndarray,
    multipliers: Multipliers | None = None,
) -> np.ndarray:
    """Second derivatives of the Hamiltonian l + p.F with respect to z, (..., d + k, d + k), at costates p (..., d)."""
    return _at_nodes(_second, problem, multipliers, s, v, w, p)[0]


def finish(problem: OptimalControl, v: np.ndarray, w: np.ndarray, multipliers: Multipliers | None = None) -> Last:
    """Costs, Lagrangian and terminal constraints at final coordinates v (P, d) and inputs w (P, k)."""
    equations, count, size = problem.equations, len(v), v.shape[1] + w.shape[1]
    if equations.terminal_cost is None and not equations.num_terminal:  # tracing derivatives of nothing takes time
        zero = np.where(np.isfinite(v).all(axis=1), 0.0, np.nan)
        return Last(zero, zero, np.zeros((count, size)), np.zeros((count, size, size)), np.zeros((count, 0)))
    nu = np.zeros((count, equations.num_terminal)) if multipliers is None else multipliers.terminal
    rho = _NO_WEIGHT if multipliers is None else multipliers.weight
    return Last(*_last(equations)(problem.numbers[None], np.array([rho]), nu, v, w))


def _at_nodes(
    kernel: Callable[[Equations], Kernel], problem: OptimalControl, multipliers: Multipliers | None, *arrays: np.ndarray
) -> list[np.ndarray]:
    """A kernel applied row by row to arrays (*shape, ...); the first array has exactly `shape`."""
    shape, count = arrays[0].shape, arrays[0].size
    lam = np.zeros((*shape, problem.equations.num_path)) if multipliers is None else multipliers.path
    rho = _NO_WEIGHT if multipliers is None else multipliers.weight
    flat = [array.reshape(count, *array.shape[len(shape) :]) for array in (lam, *arrays)]
    values = kernel(problem.equations)(problem.numbers[None], np.array([rho]), *flat)
    return [value.reshape(*shape, *value.shape[1:]) for value in values]


def _lagrangian(equations: Equations, numbers, rho, z, s, lam):
    """At one point: F followed by the running Lagrangian, and the values of `along` at the point."""
    v, w = z[: equations.num_coordinates], z[equations.num_coordinates :]
    point = equations.along(s, v, w, numbers)
    penalty = jnp.sum(jnp.maximum(0.0, lam + rho * point.path) ** 2 - lam**2) / (2 * rho)
    return jnp.append(point.rates, point.running + equations.duration(w, numbers) * penalty), point


@lru_cache(maxsize=64)
def _first(equations: Equations) -> Kernel:
    def at(numbers, rho, lam, s, v, w):
        def both(z):
            values, point = _lagrangian(equations, numbers, rho, z, s, lam)
            return values, (values, point)

        slopes, (values, point) = jax.jacfwd(both, has_aux=True)(jnp.concatenate([v, w]))
        return values[:-1], slopes[:-1], point.running, values[-1], slopes[-1], point.path

    return at_rows(at, *_shapes(equations), common=2)


@lru_cache(maxsize=64)
def _second(equations: Equations) -> Kernel:
    def at(numbers, rho, lam, s, v, w, p):
        hamiltonian = lambda z: jnp.append(p, 1.0) @ _lagrangian(equations, numbers, rho, z, s, lam)[0]
        return jax.hessian(hamiltonian)(jnp.concatenate([v, w]))

    return at_rows(at, *_shapes(equations), (equations.num_coordinates,), common=2)


@lru_cache(maxsize=64)
def _last(equations: Equations) -> Kernel:
    d = equations.num_coordinates

    def at(numbers, rho, nu, v, w):
        def value(z):
            cost, h = equations.at_end(z[:d], z[d:], numbers)
            return cost + nu @ h + 0.5 * rho * h @ h

        z, (cost, h) = jnp.concatenate([v, w]), equations.at_end(v, w, numbers)
        return cost, value(z), jax.grad(value)(z), jax.hessian(value)(z), h

    numbers, rho, _, _, v, w = _shapes(equations)
    return at_rows(at, numbers, rho, (equations.num_terminal,), v, w, common=2)


def _shapes(equations: Equations) -> list[tuple[int, ...]]:
    """The shapes of numbers, rho, lam, s, v and w at one point."""
    counts = len(equations.parameters) + 1, equations.num_path, equations.num_coordinates, equations.num_inputs
    numbers, path, v, w = ((count,) for count in counts)
    return [numbers, (), path, (), v, w]
