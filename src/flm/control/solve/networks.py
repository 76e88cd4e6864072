"""Networks in phase form, trained by Adam as in the paper: on the reduced problem, or by its penalty method.

The reduced problem has the control's frequencies, amplitudes and phases as its only unknowns, and states by Runge–Kutta steps
of order 4. The penalty method (paper, Eq. penalty_loss) trains networks for the states too, with the integrals by the
trapezoidal rule:

    loss = mean over starts of  J + μ₁/2 ∫ |dx/dt - f|² dt + μ₂/2 |x(0) - x0|²

The networks' own cost is below the optimum by ∫|p|²/μ₁ + |p(0)|²/μ₂, to first order in 1/μ (p the costates): it is reported
beside the simulated cost, which is what counts. With a large μ from the start Adam first finds some trajectories that obey the
dynamics, and then creeps along their narrow valley. So μ grows geometrically: the optimum is found while the valley is
still wide, and followed as it narrows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from flm.control.equations import values_of
from flm.control.law import ControlLaw, StateNetworks
from flm.control.problem import OptimalControl
from flm.control.solve.levels import time_frequencies
from flm.control.solve.reduced import space_lattice
from flm.control.solve.search import INTERRUPTED, OF_THIS_SIZE, Search, judge
from flm.numerics.descent import Objective, State, descend
from flm.results import Ending
from flm.series import lattice, sign_matrix, sincos
from flm.series.arrays import device, drawn
from flm.series.forms import separable_from_linear
from flm.wording import InputError

_POLISHED = 400  # the most parameters for which BFGS holds an inverse Hessian


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


@dataclass(frozen=True)
class Penalty:
    """Settings of the penalty method.

    The paper gives sizes, learning rates and betas, but not μ₁, μ₂, epochs or time nodes; these are ours.

    Args:
        state_subnets: Sub-networks of each state's FLM; as many as the control's when None.
        control_subnets: Sub-networks of the control's FLM; `num_subnets` of `solve` when None.
        mu_dynamics: μ₁ at the end.
        mu_initial: μ₂ at the end.
        ramp: The share of the epochs over which both grow geometrically, from 1 where `mu_dynamics` ends above 1; 0 keeps
            both constant.
        epochs: How many times Adam sees all starts.
        batch: Starts in one step of Adam; all of them when None.
        learning_rate: Adam's rate at the start; it falls to zero along a cosine.
        betas: Adam's two momenta.
        nodes: How many nodes the trapezoidal rule has.
        num_starts: Random training starts of a family.
        spread: Start at frequencies 0 … 4 in time, evenly, and ½ in each coordinate of the start, instead of the first
            points of the lattice, of which few have a frequency in time where there are many coordinates.
        polish: Iterations of BFGS after Adam, for at most 400 parameters.

    Example:
        >>> import flm
        >>> method = flm.Penalty.paper_fixed(epochs=5000)  # flm.solve(problem, method=method)
        >>> method.state_subnets, method.epochs
        (5, 5000)
    """

    state_subnets: int | None = None
    control_subnets: int | None = None
    mu_dynamics: float = 1e4
    mu_initial: float = 1e4
    ramp: float = 0.9
    epochs: int = 20_000
    batch: int | None = None
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    nodes: int = 41
    num_starts: int = 250
    spread: bool = False
    polish: int = 3000

    @classmethod
    def paper_fixed(cls, **changes: object) -> Penalty:
        """The paper's fixed start: three FLMs with N = 5, Adam with its defaults."""
        return replace(cls(state_subnets=5, control_subnets=5), **changes)

    @classmethod
    def paper_family(cls, **changes: object) -> Penalty:
        """The paper's varying start: 250 starts, three FLMs with N = 27, Adam 5e-4 with betas (0.95, 0.97)."""
        paper = cls(state_subnets=27, control_subnets=27, learning_rate=5e-4, betas=(0.95, 0.97))
        return replace(paper, **changes)

    @classmethod
    def paper_rpssl(cls, **changes: object) -> Penalty:
        """The paper's five strategies: four state FLMs with N = 16, the control's with N = 32, betas (0.95, 0.97).

        The rate is 5e-4 where the paper has 1e-4, in batches of 25 starts and with `spread`: its own rate and lattice
        need far more steps (docs/paper.md).
        """
        paper = cls(
            state_subnets=16, control_subnets=32, mu_dynamics=2e4, mu_initial=2e4, epochs=5_000, batch=25,
            learning_rate=5e-4, betas=(0.95, 0.97), spread=True,
        )  # fmt: skip
        return replace(paper, **changes)


class Networks(NamedTuple):
    """FLMs with K outputs that share their frequencies: frequencies (N, m), amplitudes and phases (N, l, K).

    On a grid of times and starts a network is two matrix products, because time is the first input and the first column of the
    sign matrix is +1: cos(x + y) = cos x cos y - sin x sin y, x in time and y in the start.
    """

    frequencies: jax.Array
    amplitudes: jax.Array
    phases: jax.Array

    @classmethod
    def start(cls, frequencies: np.ndarray, num_outputs: int, key: jax.Array) -> Networks:
        """Networks with zero amplitudes and random phases N(0, π/3), as in the paper."""
        n, m = frequencies.shape
        phases = device(drawn(jax.random.normal, key, (n, 2 ** (m - 1), num_outputs)) * np.pi / 3)
        return cls(jnp.asarray(frequencies, float), jnp.zeros_like(phases), phases)

    def values(self, units: jax.Array, s: jax.Array, z: jax.Array, *, slopes: bool = False) -> jax.Array:
        """Values at times s (R,) and starts z (P, m - 1) of inputs (s, z) * units, (K, R, P), then derivatives in s, (K, 2R, P)."""
        n, (num, l, K) = self.frequencies * units, self.phases.shape
        signs = jnp.asarray(sign_matrix(n.shape[1]), n.dtype)  # (l, m), first column +1
        k = jnp.broadcast_to(n[:, 1:] * signs[:, None, 1:], (K, l, num, n.shape[1] - 1))
        phi, A = (jnp.transpose(part, (2, 1, 0))[..., None] for part in (self.phases, self.amplitudes))  # (K, l, N, 1)
        # The phase is the coefficient of an input that is always one, so that its derivative is a product of matrices too.
        inputs = jnp.concatenate([z, jnp.ones((len(z), 1))], axis=1)
        angles = jnp.concatenate([k, -phi], axis=-1).reshape(K * l * num, -1) @ inputs.T
        sine, cosine = sincos(angles.reshape(K, l, num, -1))
        ab = jnp.concatenate([(A * cosine).sum(1), (A * sine).sum(1)], axis=1)  # (K, 2N, P)
        sin, cos = sincos(n[:, :1] * s)  # (N, R)
        more = [jnp.concatenate([-n[:, :1] * sin, -n[:, :1] * cos])] if slopes else []  # in one product with the values
        return jnp.concatenate([jnp.concatenate([cos, -sin]), *more], axis=1).T @ ab

    def separable(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Frequencies (N, m) per unit of normalized input, and coefficients (N, 2, 2^(m-1), K)."""
        A, phi = self.amplitudes, self.phases
        a = np.asarray(separable_from_linear(A * jnp.cos(phi), A * jnp.sin(phi)))
        return np.asarray(self.frequencies) * units, a.reshape(len(a), 2, -1, a.shape[-1])

    def law(self, problem: OptimalControl, units: np.ndarray) -> ControlLaw:
        """The control law whose series these networks are."""
        return ControlLaw.of(problem, *self.separable(units))


def _train(
    search: Search, objective: Objective, start: PyTree, settings: Adam | Penalty, steps: int
) -> tuple[State, Ending]:
    """Lower a loss from a start, and return how that ended; Ctrl-C ends it where it is."""
    latest: list[State] = []

    def told(state: State) -> None:
        latest[:] = [state]
        epoch = int(state.epoch)
        search.record.tell("adam", estimate=float(state.loss), share=epoch / steps, extras={"epoch": epoch})

    rate = optax.cosine_decay_schedule(settings.learning_rate, steps)
    adam = optax.flatten(optax.adam(rate, *settings.betas))  # one vector: small arrays would take a tenth of an epoch
    try:
        descend(objective, start, adam, steps, told=told)
    except KeyboardInterrupt:
        if not latest:
            raise
        return latest[0], INTERRUPTED
    return latest[0], OF_THIS_SIZE


def train_reduced(search: Search, settings: Adam) -> Ending:
    """Train a law of a given number of sub-networks, frequencies included, and return how that ended."""
    problem, starts, d = search.problem, search.problem.starts, search.problem.starts.dimension
    if problem.free or problem.constrained:
        raise InputError(
            "`adam` must be used on problems with a fixed horizon and without path or terminal constraints."
        )
    # A product lattice: time frequencies times the lowest waves in the start.
    num_subnets, waves = search.num_subnets or (27 if d else 5), space_lattice(d, 2) if d else np.zeros((1, 0))
    times = time_frequencies(-(-num_subnets // len(waves)))
    frequencies = np.array([[t, *w] for t in times for w in waves])[:num_subnets]
    start = Networks.start(frequencies, len(problem.controls), jax.random.key(search.seed))
    v0 = starts.sample(settings.num_starts, seed=search.seed) if d else starts.center[None]
    loss = partial(_mean_cost, problem, settings.steps, v0)
    found, ending = _train(search, Objective.of(loss), start, settings, settings.epochs)
    judge(search, "adam", found.best.law(problem, np.ones(1 + d)), float(found.best_loss))
    return ending


def _mean_cost(problem: OptimalControl, steps: int, v0: np.ndarray, networks: Networks) -> jax.Array:
    """The mean cost over starts v0 (P, d), with states by Runge–Kutta steps."""
    equations, numbers, h = problem.equations, problem.numbers, 1.0 / steps
    z, units = jnp.asarray(problem.starts.normalize(v0)), jnp.ones(networks.frequencies.shape[1])
    values = networks.values(units, jnp.linspace(0.0, 1.0, 2 * steps + 1), z)
    u = jnp.clip(jnp.moveaxis(values, 0, -1) + problem.rest, problem.lower, problem.upper)  # (R, P, K)

    @partial(jax.vmap, in_axes=(None, 0, 0))
    def slope(s, y, u):
        point = equations.along(s, y[:-1], u, numbers)
        return jnp.append(point.rates, point.running)

    def step(y, index):
        # Classical Runge–Kutta, with the running cost as one more state.
        s, ua, ub, uc = index * h, u[2 * index], u[2 * index + 1], u[2 * index + 2]
        k1 = slope(s, y, ua)
        k2 = slope(s + h / 2, y + h / 2 * k1, ub)
        k3 = slope(s + h / 2, y + h / 2 * k2, ub)
        k4 = slope(s + h, y + h * k3, uc)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    y = jnp.concatenate([jnp.asarray(v0), jnp.zeros((len(v0), 1))], axis=1)
    y, _ = jax.lax.scan(step, y, jnp.arange(steps))
    final = jax.vmap(lambda v: equations.at_end(v, jnp.zeros(len(equations.controls)), numbers)[0])(y[:, :-1])
    return jnp.mean(y[:, -1] + final)


class Parameters(NamedTuple):
    """What the penalty method trains: one network for each coordinate of the state, and one for all controls."""

    states: tuple[Networks, ...]
    controls: Networks


def solve_penalty(search: Search, settings: Penalty) -> Ending:
    """Train state and control networks together; the last parameters are kept, since losses at different μ do not compare."""
    problem, starts, varying = search.problem, search.problem.starts, search.problem.starts.dimension
    control_subnets = settings.control_subnets or search.num_subnets or (27 if varying else 5)
    state_subnets = settings.state_subnets or control_subnets
    v0 = starts.sample(settings.num_starts, seed=search.seed) if varying else starts.center[None]
    units = np.array([2 * np.pi, *np.full(varying, np.pi / 2)])  # inputs are 2π t/T and π/2 z
    state_key, control_key = jax.random.split(jax.random.key(search.seed))
    keys = jax.random.split(state_key, problem.equations.num_coordinates)
    make = lambda key: Networks.start(_frequencies(settings, 1 + varying, state_subnets), 1, key)
    first = _frequencies(settings, 1 + varying, control_subnets)
    start = Parameters(tuple(map(make, keys)), Networks.start(first, len(problem.controls), control_key))
    batches = max(1, len(v0) // (settings.batch or len(v0)))
    parts = jnp.asarray(v0[: len(v0) // batches * batches].reshape(batches, -1, v0.shape[1]))
    steps = settings.epochs * batches
    loss = partial(penalty_loss, problem, settings, jnp.asarray(units))
    growth = jnp.array([max(settings.ramp * steps, 1.0)])  # an array: all ramps share one compiled program

    def terms(parameters, step):
        share = jnp.clip((step + 1) / growth[0], 0.0, 1.0)
        return loss(parts[step % batches], share, parameters)[None]

    found, ending = _train(search, Objective(terms, np.ones(1)), start, settings, steps)
    last, value = found.free, float(found.loss)
    if settings.polish and ending is not INTERRUPTED and sum(leaf.size for leaf in jax.tree.leaves(last)) <= _POLISHED:
        try:
            last, value = _polish(partial(loss, jnp.asarray(v0), 1.0), last, settings.polish)
        except KeyboardInterrupt:
            ending = INTERRUPTED
    law = last.controls.law(problem, units)
    frequencies, coefficients = map(np.stack, zip(*(own.separable(units) for own in last.states), strict=True))
    weights = (float(settings.mu_dynamics), float(settings.mu_initial))
    networks = StateNetworks(frequencies, coefficients[..., 0], law.center, law.scale, weights)
    judge(search, "penalty", law, value, networks)
    return ending


def _frequencies(settings: Penalty, inputs: int, num_subnets: int) -> np.ndarray:
    """The frequencies at the start, (N, inputs)."""
    if not settings.spread:
        return lattice(inputs, num_subnets)
    return np.column_stack([4.0 * np.arange(num_subnets) / num_subnets, np.full((num_subnets, inputs - 1), 0.5)])


def penalty_loss(
    problem: OptimalControl,
    settings: Penalty,
    units: jax.Array,
    v0: jax.Array,
    share: jax.Array | float,
    parameters: Parameters,
) -> jax.Array:
    """The penalty loss at starts v0 (P, d) after a given share of the growth of μ."""
    equations, numbers = problem.equations, problem.numbers
    s = jnp.linspace(0.0, 1.0, settings.nodes)
    z = jnp.asarray(problem.starts.normalize(v0))  # type: ignore[arg-type]  # v0 is traced
    # One after the other: XLA's batched products take half as long again.
    states = jnp.concatenate([own.values(units, s, z, slopes=True) for own in parameters.states])
    v, slope = jnp.split(states, 2, axis=1)  # (d, R, P)
    bound = lambda values: jnp.asarray(values)[:, None, None]
    u = parameters.controls.values(units, s, z) + bound(problem.rest)
    u = jnp.clip(u, bound(problem.lower), bound(problem.upper))

    def along(s, v, slope, u):
        # One array for each name and rate: stacked, they would be copied into columns.
        known, horizon = equations.known(s, v, u, numbers), equations.duration(u, numbers)
        rates = values_of(equations.dynamics, known)
        defect = sum((a - horizon * rate) ** 2 for a, rate in zip(slope, rates, strict=False)) / horizon
        broken = sum(jnp.maximum(0.0, g) ** 2 for path in equations.path for g in values_of(path, known))
        return horizon * values_of(equations.running_cost, known)[0], defect + horizon * broken

    def at_end(v):
        cost, h = equations.at_end(v, jnp.zeros(len(problem.controls)), numbers)
        return cost, h @ h

    integral = lambda values: jnp.trapezoid(values, s, axis=0)
    at_time = jax.vmap(along, in_axes=(None, 0, 0, 0))
    running, defect = jax.vmap(at_time)(s, tuple(v), tuple(slope), tuple(u))
    final, end = jax.vmap(at_end, in_axes=1)(v[:, -1])
    start = jnp.sum((v[:, 0] - v0.T) ** 2, axis=0)
    mu_dynamics, mu_initial = (max(mu, 1.0) ** (share - 1) * mu for mu in (settings.mu_dynamics, settings.mu_initial))
    return jnp.mean(integral(running) + final + 0.5 * (mu_dynamics * (integral(defect) + end) + mu_initial * start))


def _polish(loss: Callable[[Parameters], jax.Array], start: Parameters, steps: int) -> tuple[Parameters, float]:
    """The parameters after at most `steps` iterations of BFGS, and their loss."""
    from scipy.optimize import minimize  # imported here: most laws are not polished

    flat, restore = ravel_pytree(start)
    slopes = jax.jit(jax.value_and_grad(lambda x: loss(restore(x))))
    found = minimize(
        lambda x: tuple(map(np.asarray, slopes(x))), flat, jac=True, method="BFGS", options={"maxiter": steps}
    )
    return restore(jnp.asarray(found.x)), float(found.fun)
