"""A control problem's functions and their derivatives at many points, compiled once for a few sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from flm.control.equations import Equations
from flm.numerics.chunks import in_chunks

_ROWS = (256, 4096)  # points per compiled call


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Augmented-Lagrangian multipliers: path (E, P, q, G), terminal (P, H), and the penalty weight."""

    path: np.ndarray
    terminal: np.ndarray
    weight: float


@lru_cache(maxsize=64)
def constraint_counts(equations: Equations) -> tuple[int, int]:
    """The numbers of path and terminal constraints."""
    v, w = jnp.zeros(equations.num_coordinates), jnp.zeros(equations.num_inputs)
    numbers = jnp.ones(len(equations.parameters) + 1)
    path = jax.eval_shape(equations.path_values, 0.5, v, w, numbers)
    terminal = jax.eval_shape(equations.terminal_values, v, w, numbers)
    return path.shape[0], terminal.shape[0]


@dataclass(frozen=True, eq=False)
class Points:
    """The nodes at which the problem's functions are evaluated, in chunks of few shapes so that little is compiled."""

    equations: Equations
    s: np.ndarray
    inputs: np.ndarray
    numbers: np.ndarray
    multipliers: Multipliers | None

    @property
    def _lam(self) -> np.ndarray:
        if self.multipliers is not None:
            return self.multipliers.path
        return np.zeros((*self.s.shape, constraint_counts(self.equations)[0]))

    @property
    def _rho(self) -> float:
        return 1.0 if self.multipliers is None else self.multipliers.weight

    def first(self, v: np.ndarray, element: int | None = None) -> tuple[np.ndarray, ...]:
        """(F, F_z, running, Lagrangian, l_z, g) at states v (E, P, q, d), or (P, q, d) in one element."""
        pick = slice(None) if element is None else element
        s, w, lam = self.s[pick], self.inputs[pick], self._lam[pick]
        kernel = lambda s, v, w, lam: _first(self.equations, s, v, w, self.numbers, lam, self._rho)
        return _at_nodes(kernel, s.shape, s, v, w, lam)

    def second(self, v: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Second derivatives of the Hamiltonian at states v and costates p, (E, P, q, d)."""
        kernel = lambda s, v, w, p, lam: (_second(self.equations, s, v, w, p, self.numbers, lam, self._rho),)
        return _at_nodes(kernel, self.s.shape, self.s, v, self.inputs, p, self._lam)[0]


def _at_nodes(kernel: Callable[..., Sequence], shape: tuple[int, ...], *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """A kernel of rows applied to arrays (*shape, ...)."""
    count = int(np.prod(shape))
    flat = [array.reshape(count, *array.shape[len(shape) :]) for array in arrays]
    return tuple(value.reshape(*shape, *value.shape[1:]) for value in in_chunks(kernel, *flat, sizes=_ROWS))


def finish(equations: Equations, v, w, numbers, multipliers) -> tuple[np.ndarray, ...]:
    """(phi, Lagrangian, phi_z, phi_zz, h) at the final states v (P, d)."""
    count, d = v.shape
    size = d + w.shape[1]
    num_terminal = constraint_counts(equations)[1]
    if equations.terminal_cost is None and not num_terminal:
        zero = np.where(np.isfinite(v).all(axis=1), 0.0, np.nan)
        return zero, zero, np.zeros((count, size)), np.zeros((count, size, size)), np.zeros((count, 0))
    nu = np.zeros((count, num_terminal)) if multipliers is None else multipliers.terminal
    rho = 1e-12 if multipliers is None else multipliers.weight
    return _at_nodes(lambda v, w, nu: _last(equations, v, w, numbers, nu, rho), (count,), v, w, nu)


@partial(jax.jit, static_argnums=0)
def _first(equations: Equations, s, v, w, numbers, lam, rho):
    d = equations.num_coordinates

    def both(z, s, lam):
        v, w = z[:d], z[d:]
        value = equations.running_lagrangian(s, v, w, numbers, lam, rho)
        return jnp.concatenate([equations.rates(s, v, w, numbers), value[None]])

    def at(s, v, w, lam):
        z = jnp.concatenate([v, w])
        slopes = jax.jacfwd(both)(z, s, lam)
        values = both(z, s, lam)
        running = equations.running(s, v, w, numbers)
        g = equations.path_values(s, v, w, numbers)
        return values[:d], slopes[:d], running, values[d], slopes[d], g

    return jax.vmap(at)(s, v, w, lam)


@partial(jax.jit, static_argnums=0)
def _second(equations: Equations, s, v, w, p, numbers, lam, rho):
    d = equations.num_coordinates

    def hamiltonian(z, s, p, lam):
        v, w = z[:d], z[d:]
        return equations.running_lagrangian(s, v, w, numbers, lam, rho) + p @ equations.rates(s, v, w, numbers)

    return jax.vmap(lambda s, v, w, p, lam: jax.hessian(hamiltonian)(jnp.concatenate([v, w]), s, p, lam))(
        s, v, w, p, lam
    )


@partial(jax.jit, static_argnums=0)
def _last(equations: Equations, v, w, numbers, nu, rho):
    d = equations.num_coordinates

    def value(z, nu):
        return equations.final_lagrangian(z[:d], z[d:], numbers, nu, rho)

    def at(v, w, nu):
        z = jnp.concatenate([v, w])
        h = equations.terminal_values(v, w, numbers)
        return equations.final_cost(v, w, numbers), value(z, nu), jax.grad(value)(z, nu), jax.hessian(value)(z, nu), h

    return jax.vmap(at)(v, w, nu)


def evaluate(
    equations: Equations, numbers: np.ndarray, s: np.ndarray, v: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, ...]:
    """(F, F_z, running, Lagrangian, l_z, g) at points of any shape: s (...), v (..., d), w (..., k)."""
    return Points(equations, s, w, numbers, None).first(v)


def evaluate_end(equations: Equations, numbers: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The terminal cost of final coordinates v (P, d), (P,)."""
    return finish(equations, v, np.zeros((len(v), equations.num_inputs)), numbers, None)[0]
