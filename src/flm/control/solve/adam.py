"""Networks in phase form and their training by Adam: for the reduced problem here, for the penalty method beside it.

On a grid of times and starts a network is two matrix products, because time is the first input and the first column of the
sign matrix is +1: cos(x + y) = cos x cos y - sin x sin y, x in time and y in the start. The reduced problem has the
control's frequencies, amplitudes and phases as its only unknowns, and states by Runge–Kutta steps of order 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from flm.control.law import ControlLaw
from flm.control.problem import OptimalControl
from flm.control.solve.family import space_lattice
from flm.control.solve.levels import judge, time_frequencies
from flm.control.solve.search import INTERRUPTED, OF_THIS_SIZE, Search
from flm.numerics.descent import Objective, State, descend
from flm.results import Ending
from flm.series import sign_matrix, sincos
from flm.series.forms import separable_from_linear
from flm.wording import InputError


@dataclass(frozen=True)
class Adam:
    """Settings of Adam.

    Args:
        epochs: How many epochs.
        learning_rate: The rate at the start; it falls to zero along a cosine.
        betas: Adam's two momenta.
        steps: Runge–Kutta steps of a trajectory.
        num_starts: Random training starts of a family.

    Example:
        >>> import flm
        >>> flm.Adam(epochs=2000, learning_rate=1e-3).betas
        (0.9, 0.999)
    """

    epochs: int = 1000
    learning_rate: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.999)
    steps: int = 30
    num_starts: int = 250


def train_reduced(search: Search, settings: Adam) -> Ending:
    """A law of a given number of sub-networks with learned frequencies."""
    problem, seed = search.problem, search.seed
    if problem.free or problem.constrained:
        raise InputError(
            "`adam` must be used on problems with a fixed horizon and without path or terminal constraints."
        )
    starts, varying = problem.starts, problem.starts.dimension
    points = _lattice(problem, search.num_subnets or (27 if varying else 5))
    start = Networks.start(points, len(problem.controls), jax.random.key(seed))
    v0 = starts.sample(settings.num_starts, seed=seed) if varying else starts.center[None]
    schedule = optax.cosine_decay_schedule(settings.learning_rate, settings.epochs)
    optimizer = optax.adam(schedule, b1=settings.betas[0], b2=settings.betas[1])
    loss = lambda networks: _mean_cost(problem, settings.steps, v0, networks)
    found, ending = train(search, Objective.of(loss), start, optimizer, settings.epochs)
    law, value = found.best.law(problem, np.ones(1 + varying)), float(found.best_loss)
    search.record.step("adam", columns=law.num_columns, estimate=value, error_estimate=judge(search, law))
    return ending


def _lattice(problem: OptimalControl, num_subnets: int) -> np.ndarray:
    """A product of time frequencies and the lowest waves of the start, (N, 1 + d)."""
    d = problem.starts.dimension
    waves = space_lattice(d, 2) if d else np.zeros((1, 0))
    times = time_frequencies(-(-num_subnets // len(waves)))
    return np.array([[t, *w] for t in times for w in waves])[:num_subnets]


def _mean_cost(problem: OptimalControl, steps: int, v0: np.ndarray, networks: Networks) -> jax.Array:
    """The mean cost of starts v0 (P, d), states by Runge–Kutta steps."""
    equations, numbers, h = problem.equations, problem.numbers, 1.0 / steps
    z, units = jnp.asarray(problem.starts.normalize(v0)), jnp.ones(networks.frequencies.shape[1])
    values, _ = networks.values(units, jnp.linspace(0.0, 1.0, 2 * steps + 1), z)
    u = jnp.clip(jnp.moveaxis(values, 0, -1) + problem.rest, problem.lower, problem.upper)  # (R, P, K)

    def slope(s, y, u):
        return jnp.concatenate([equations.rates(s, y[:-1], u, numbers), equations.running(s, y[:-1], u, numbers)[None]])

    def step(y, index):
        # Classical Runge–Kutta, the running cost as one more state.
        s, ua, ub, uc = index * h, u[2 * index], u[2 * index + 1], u[2 * index + 2]
        at = jax.vmap(slope, in_axes=(None, 0, 0))
        k1 = at(s, y, ua)
        k2 = at(s + h / 2, y + h / 2 * k1, ub)
        k3 = at(s + h / 2, y + h / 2 * k2, ub)
        k4 = at(s + h, y + h * k3, uc)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    y = jnp.concatenate([jnp.asarray(v0), jnp.zeros((len(v0), 1))], axis=1)
    y, _ = jax.lax.scan(step, y, jnp.arange(steps))
    final = jax.vmap(lambda v: equations.final_cost(v, jnp.zeros(len(equations.controls)), numbers))(y[:, :-1])
    return jnp.mean(y[:, -1] + final)


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
        """Values and slopes by s, (K, R, P) each, at times s (R,) and starts z (P, m - 1), of inputs (s, z) * units."""
        n, (num, l, K) = self.frequencies * units, self.phases.shape
        signs = jnp.asarray(sign_matrix(n.shape[1]), n.dtype)  # (l, m), first column +1
        k = jnp.broadcast_to(n[:, 1:] * signs[:, None, 1:], (K, l, num, n.shape[1] - 1))
        phi, A = (jnp.transpose(part, (2, 1, 0))[..., None] for part in (self.phases, self.amplitudes))  # (K, l, N, 1)
        # The phase is the coefficient of an input that is one, so that its derivative is a product of matrices too.
        inputs = jnp.concatenate([z, jnp.ones((len(z), 1))], axis=1)
        sine, cosine = sincos(
            (jnp.concatenate([k, -phi], axis=-1).reshape(K * l * num, -1) @ inputs.T).reshape(K, l, num, -1)
        )
        ab = jnp.concatenate([(A * cosine).sum(1), (A * sine).sum(1)], axis=1)  # (K, 2N, P)
        sin, cos = sincos(n[:, :1] * s)  # (N, R)
        rows, slopes = jnp.concatenate([cos, -sin]).T, jnp.concatenate([-n[:, :1] * sin, -n[:, :1] * cos]).T
        return rows @ ab, slopes @ ab

    def separable(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Frequencies (N, m) per unit of normalized input, and coefficients (N, 2, 2^(m-1), K)."""
        A, phi = self.amplitudes, self.phases
        a = np.asarray(separable_from_linear(A * jnp.cos(phi), A * jnp.sin(phi)))
        return np.asarray(self.frequencies) * units, a.reshape(len(a), 2, -1, a.shape[-1])

    def law(self, problem: OptimalControl, units: np.ndarray) -> ControlLaw:
        """The control law whose series these networks are."""
        return ControlLaw.of(problem, *self.separable(units))


def train(
    search: Search, objective: Objective, start: PyTree, optimizer: optax.GradientTransformation, epochs: int
) -> tuple[State, Ending]:
    """Lower a loss from a start, and say why that ended; Ctrl-C ends it where it is."""
    latest: list[State] = []

    def told(state: State) -> None:
        latest[:] = [state]
        epoch = int(state.epoch)
        search.record.tell("adam", estimate=float(state.loss), share=epoch / epochs, extras={"epoch": epoch})

    ending = OF_THIS_SIZE
    try:
        descend(objective, start, optimizer, epochs, told=told)
    except KeyboardInterrupt:
        if not latest:
            raise
        ending = INTERRUPTED
    return latest[0], ending
