"""Adam on the reduced problem: the control's frequencies, amplitudes and phases, states by Runge–Kutta steps of order 4."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from flm.control.law import ControlLaw
from flm.control.problem import OptimalControl
from flm.control.solve.family import cost_scale, follow_law, space_lattice
from flm.control.solve.levels import Judge, explore, law_excess, solve_starts, time_frequencies
from flm.control.solve.search import OF_THIS_SIZE, Search
from flm.results import Ending
from flm.series import sign_matrix
from flm.series.forms import separable_from_linear
from flm.wording import InputError

_CHUNK = 100


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
    num_subnets = search.num_subnets or (27 if varying else 5)
    v0 = starts.sample(settings.num_starts, seed=seed) if varying else starts.center[None]
    parameters = _start(problem, num_subnets, seed)
    optimizer = _optimizer(settings)
    state = (parameters, optimizer.init(parameters))
    arrays = tuple(jnp.asarray(a) for a in (
        starts.normalize(v0), v0, problem.numbers, problem.rest, problem.lower, problem.upper
    ))  # fmt: skip
    judge = None
    if varying:
        held_out, first = starts.spread(16, seed=seed + 1), explore(problem, seed)
        ladder = solve_starts(search, held_out, first, tol=min(search.tol, 1e-8), max_columns=400)
        judge = Judge(ladder.levels[-1], ladder.errors[-1])
    done = 0
    while done < settings.epochs:
        count = min(_CHUNK, settings.epochs - done)
        state, loss = _epochs(problem.equations, settings, count, state, arrays)
        done += count
        search.record.tell("adam", estimate=float(loss), extras={"epoch": done})
    law = _law(problem, state[0])
    if judge is not None:
        error, _ = judge.error_of(law)
    else:
        error = float((law_excess(problem, law, v0) / cost_scale(follow_law(problem, law, v0).cost))[0])
    search.keep(law, error)
    search.record.step("adam", columns=law.num_columns, estimate=float(loss), error_estimate=error)
    return OF_THIS_SIZE


def _start(problem: OptimalControl, num_subnets: int, seed: int) -> dict[str, Any]:
    """Sub-networks on a product of time frequencies and the lowest waves of the start; zero amplitudes, random phases."""
    d, k = problem.starts.dimension, len(problem.controls)
    waves = space_lattice(d, 2) if d else np.zeros((1, 0))
    times = time_frequencies(-(-num_subnets // len(waves)))
    points = np.array([[t, *w] for t in times for w in waves])[:num_subnets]
    phases = np.random.default_rng(seed).normal(0.0, np.pi / 3, (num_subnets, 2**d, k))
    return {
        "frequencies": jnp.asarray(points),
        "amplitudes": jnp.zeros((num_subnets, 2**d, k)),
        "phases": jnp.asarray(phases),
    }


def _optimizer(method: Adam) -> optax.GradientTransformation:
    schedule = optax.cosine_decay_schedule(method.learning_rate, method.epochs)
    return optax.adam(schedule, b1=method.betas[0], b2=method.betas[1])


def _controls(parameters, s, z, offset, lower, upper):
    """Controls (R, P, K) on the grid of times s (R,) and starts z (P, d): two matrix products."""
    n, A, phi = parameters["frequencies"], parameters["amplitudes"], parameters["phases"]
    signs = jnp.asarray(sign_matrix(n.shape[1]), n.dtype)
    rest = jnp.einsum("ni,li,pi->pnl", n[:, 1:], signs[:, 1:], z)[..., None] - phi
    a, b = (A * jnp.cos(rest)).sum(2), (A * jnp.sin(rest)).sum(2)  # (P, N, K)
    angle = s[:, None] * n[:, 0]
    raw = jnp.einsum("rn,pnk->rpk", jnp.cos(angle), a) - jnp.einsum("rn,pnk->rpk", jnp.sin(angle), b)
    return jnp.clip(raw + offset, lower, upper)


def _loss(equations, steps, parameters, arrays):
    z, v0, numbers, *limits = arrays
    u = _controls(parameters, jnp.linspace(0.0, 1.0, 2 * steps + 1), z, *limits)
    h = 1.0 / steps

    def slope(s, y, u):
        return jnp.concatenate([equations.rates(s, y[:-1], u, numbers), equations.running(s, y[:-1], u, numbers)[None]])

    def step(y, index):
        # Classical Runge–Kutta, the running cost as one more state.
        s, ua, ub, uc = 2 * index * h / 2, u[2 * index], u[2 * index + 1], u[2 * index + 2]
        at = jax.vmap(slope, in_axes=(None, 0, 0))
        k1 = at(s, y, ua)
        k2 = at(s + h / 2, y + h / 2 * k1, ub)
        k3 = at(s + h / 2, y + h / 2 * k2, ub)
        k4 = at(s + h, y + h * k3, uc)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    y = jnp.concatenate([v0, jnp.zeros((len(v0), 1))], axis=1)
    y, _ = jax.lax.scan(step, y, jnp.arange(steps))
    final = jax.vmap(lambda v: equations.final_cost(v, jnp.zeros(len(equations.controls)), numbers))(y[:, :-1])
    return jnp.mean(y[:, -1] + final)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _epochs(equations, method: Adam, count: int, state, arrays):
    optimizer = _optimizer(method)

    def epoch(state, _):
        parameters, moments = state
        loss, gradient = jax.value_and_grad(lambda p: _loss(equations, method.steps, p, arrays))(parameters)
        updates, moments = optimizer.update(gradient, moments)
        return (optax.apply_updates(parameters, updates), moments), loss

    state, losses = jax.lax.scan(epoch, state, None, length=count)
    return state, losses[-1]


def _law(problem: OptimalControl, parameters) -> ControlLaw:
    A, phi = parameters["amplitudes"], parameters["phases"]
    a = np.asarray(separable_from_linear(A * jnp.cos(phi), A * jnp.sin(phi)))
    n, size, k = a.shape
    return ControlLaw.of(problem, np.asarray(parameters["frequencies"]), a.reshape(n, 2, size // 2, k))
