"""A control problem's functions and their derivatives at many points, compiled once for a few sizes.

z = (v, w) are the coordinates followed by the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flm.control.equations import Equations
from flm.numerics.chunks import in_chunks

if TYPE_CHECKING:
    from flm.control.problem import OptimalControl

_ROWS = (256, 4096)  # points per compiled call
_NO_WEIGHT = 1e-12  # of constraints where there are no multipliers: the Lagrangian is then the cost


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
    """The final cost, the final Lagrangian with its first and second derivatives by z, and terminal constraints."""

    cost: np.ndarray
    lagrangian: np.ndarray
    phi_z: np.ndarray
    phi_zz: np.ndarray
    terminal: np.ndarray


def first_order(
    problem: OptimalControl, s: np.ndarray, v: np.ndarray, w: np.ndarray, multipliers: Multipliers | None = None
) -> First:
    """Values and first derivatives at times s (...), coordinates v (..., d) and inputs w (..., k)."""
    lam, rho = _of_path(problem, s, multipliers)
    kernel = lambda s, v, w, lam: _first(problem.equations, s, v, w, problem.numbers, lam, rho)
    return First(*_at_nodes(kernel, s.shape, s, v, w, lam))


def second_order(
    problem: OptimalControl,
    s: np.ndarray,
    v: np.ndarray,
    w: np.ndarray,
    p: np.ndarray,
    multipliers: Multipliers | None = None,
) -> np.ndarray:
    """Second derivatives of the Hamiltonian l + p.F by z, (..., d + k, d + k), at costates p (..., d)."""
    lam, rho = _of_path(problem, s, multipliers)
    kernel = lambda s, v, w, p, lam: (_second(problem.equations, s, v, w, p, problem.numbers, lam, rho),)
    return _at_nodes(kernel, s.shape, s, v, w, p, lam)[0]


def _of_path(problem: OptimalControl, s: np.ndarray, multipliers: Multipliers | None) -> tuple[np.ndarray, float]:
    if multipliers is not None:
        return multipliers.path, multipliers.weight
    return np.zeros((*s.shape, problem.equations.num_path)), _NO_WEIGHT


def finish(problem: OptimalControl, v: np.ndarray, w: np.ndarray, multipliers: Multipliers | None = None) -> Last:
    """What counts at the end, at final coordinates v (P, d) and inputs w (P, k)."""
    equations, count, size = problem.equations, len(v), v.shape[1] + w.shape[1]
    if equations.terminal_cost is None and not equations.num_terminal:
        zero = np.where(np.isfinite(v).all(axis=1), 0.0, np.nan)
        return Last(zero, zero, np.zeros((count, size)), np.zeros((count, size, size)), np.zeros((count, 0)))
    nu = np.zeros((count, equations.num_terminal)) if multipliers is None else multipliers.terminal
    rho = _NO_WEIGHT if multipliers is None else multipliers.weight
    return Last(*_at_nodes(lambda v, w, nu: _last(equations, v, w, problem.numbers, nu, rho), (count,), v, w, nu))


def _at_nodes(kernel: Callable[..., Sequence], shape: tuple[int, ...], *arrays: np.ndarray) -> list[np.ndarray]:
    """A kernel of rows applied to arrays (*shape, ...)."""
    count = int(np.prod(shape))
    flat = [array.reshape(count, *array.shape[len(shape) :]) for array in arrays]
    return [value.reshape(*shape, *value.shape[1:]) for value in in_chunks(kernel, *flat, sizes=_ROWS)]


@partial(jax.jit, static_argnums=0)
def _first(equations: Equations, s, v, w, numbers, lam, rho):
    d = equations.num_coordinates

    def both(z, s, lam):
        v, w = z[:d], z[d:]
        value = equations.running_lagrangian(s, v, w, numbers, lam, rho)
        return jnp.concatenate([equations.rates(s, v, w, numbers), value[None]])

    def at(s, v, w, lam):
        z = jnp.concatenate([v, w])
        slopes, values = jax.jacfwd(both)(z, s, lam), both(z, s, lam)
        running, g = equations.running(s, v, w, numbers), equations.path_values(s, v, w, numbers)
        return values[:d], slopes[:d], running, values[d], slopes[d], g

    return jax.vmap(at)(s, v, w, lam)


@partial(jax.jit, static_argnums=0)
def _second(equations: Equations, s, v, w, p, numbers, lam, rho):
    d = equations.num_coordinates

    def hamiltonian(z, s, p, lam):
        v, w = z[:d], z[d:]
        return equations.running_lagrangian(s, v, w, numbers, lam, rho) + p @ equations.rates(s, v, w, numbers)

    at = lambda s, v, w, p, lam: jax.hessian(hamiltonian)(jnp.concatenate([v, w]), s, p, lam)
    return jax.vmap(at)(s, v, w, p, lam)


@partial(jax.jit, static_argnums=0)
def _last(equations: Equations, v, w, numbers, nu, rho):
    d = equations.num_coordinates

    def value(z, nu):
        return equations.final_lagrangian(z[:d], z[d:], numbers, nu, rho)

    def at(v, w, nu):
        z, h = jnp.concatenate([v, w]), equations.terminal_values(v, w, numbers)
        return equations.final_cost(v, w, numbers), value(z, nu), jax.grad(value)(z, nu), jax.hessian(value)(z, nu), h

    return jax.vmap(at)(v, w, nu)
