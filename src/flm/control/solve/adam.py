"""Adam on the reduced problem: the control's frequencies, amplitudes and phases, states by Runge–Kutta steps of order 4."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax

from flm.control.problem import OptimalControl
from flm.control.solve.family import space_lattice
from flm.control.solve.levels import explore, law_error, solve_starts, time_frequencies
from flm.control.solve.search import Search
from flm.control.solve.trained import Networks, train
from flm.results import Ending
from flm.wording import InputError


@dataclass(frozen=True)
class Adam:
    """Settings of Adam.

    Args:
        epochs: How many.
        learning_rate: At the start; it falls to zero along a cosine.
        betas: Of Adam.
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
    judge = None
    if varying:
        held_out, first = starts.spread(16, seed=seed + 1), explore(problem, seed)
        judge = solve_starts(search, held_out, first, tol=min(search.tol, 1e-8), max_columns=400)
    schedule = optax.cosine_decay_schedule(settings.learning_rate, settings.epochs)
    optimizer = optax.adam(schedule, b1=settings.betas[0], b2=settings.betas[1])
    loss = lambda networks: _mean_cost(problem, settings.steps, v0, networks)
    found = train(search, loss, start, optimizer, settings.epochs)
    law = found.best.law(problem, np.ones(1 + varying))
    error, violation = law_error(problem, law, v0) if judge is None else judge.error_of(law)
    error = search.keep(law, error, violation)
    search.record.step("adam", columns=law.num_columns, estimate=found.loss, error_estimate=error)
    return found.ending


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
    u = jnp.clip(values + problem.rest, problem.lower, problem.upper)

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
