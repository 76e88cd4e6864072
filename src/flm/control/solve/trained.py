"""Networks in phase form on a grid of times and starts, as Adam trains them.

On such a grid a network is two matrix products, because time is the first input and the first column of the sign
matrix is +1: cos(x + y) = cos x cos y - sin x sin y, x in time and y in the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from flm.control.law import ControlLaw
from flm.control.problem import OptimalControl
from flm.control.solve.search import INTERRUPTED, OF_THIS_SIZE, Search
from flm.numerics.descent import Objective, State, descend
from flm.results import Ending
from flm.series import sign_matrix
from flm.series.transforms import separable_from_linear


class Networks(NamedTuple):
    """FLMs with K outputs that share their frequencies: frequencies (N, m), amplitudes and phases (N, l, K)."""

    frequencies: jax.Array
    amplitudes: jax.Array
    phases: jax.Array

    @classmethod
    def start(cls, frequencies: np.ndarray, num_outputs: int, key: jax.Array) -> Networks:
        """Zero amplitudes and random phases N(0, π/3), as in the paper."""
        n, m = frequencies.shape
        phases = jax.random.normal(key, (n, 2 ** (m - 1), num_outputs)) * np.pi / 3
        return cls(jnp.asarray(frequencies, float), jnp.zeros_like(phases), phases)

    def values(self, units: jax.Array, s: jax.Array, z: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Values and slopes by s, (R, P, K) each, at times s (R,) and starts z (P, m - 1), of inputs (s, z) * units."""
        n, A, phi = self.frequencies * units, self.amplitudes, self.phases
        signs = jnp.asarray(sign_matrix(n.shape[1]), n.dtype)  # (l, m), first column +1
        rest = jnp.einsum("ni,li,pi->pnl", n[:, 1:], signs[:, 1:], z)[..., None] - phi
        a, b = (A * jnp.cos(rest)).sum(2), (A * jnp.sin(rest)).sum(2)  # (P, N, K)
        angle = s[:, None] * n[:, 0]
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        total = lambda left, right: jnp.einsum("rn,pnk->rpk", left, right)
        return total(cos, a) - total(sin, b), -total(sin * n[:, 0], a) - total(cos * n[:, 0], b)

    def separable(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Frequencies (N, m) per unit of normalized input, and coefficients (N, 2, 2^(m-1), K)."""
        A, phi = self.amplitudes, self.phases
        a = np.asarray(separable_from_linear(A * jnp.cos(phi), A * jnp.sin(phi)))
        return np.asarray(self.frequencies) * units, a.reshape(len(a), 2, -1, a.shape[-1])

    def law(self, problem: OptimalControl, units: np.ndarray) -> ControlLaw:
        """The control law whose series these networks are."""
        return ControlLaw.of(problem, *self.separable(units))


class Descent(NamedTuple):
    """The parameters of the lowest loss, that loss, and why the descent ended."""

    best: PyTree
    loss: float
    ending: Ending


def train(
    search: Search,
    loss: Callable[[PyTree], jax.Array],
    start: PyTree,
    optimizer: optax.GradientTransformation,
    epochs: int,
) -> Descent:
    """Lower a loss from a start; after Ctrl-C the best parameters so far."""
    latest: list[State] = []

    def told(state: State) -> None:
        latest[:] = [state]
        epoch = int(state.epoch)
        search.record.tell("adam", estimate=float(state.best_loss), share=epoch / epochs, extras={"epoch": epoch})

    ending = OF_THIS_SIZE
    try:
        descend(Objective.of(loss), start, optimizer, epochs, told=told)
    except KeyboardInterrupt:
        if not latest:
            raise
        ending = INTERRUPTED
    return Descent(latest[0].best, float(latest[0].best_loss), ending)
