"""The paper's penalty method: state and control FLMs trained together by Adam (paper, Eq. penalty_loss).

    loss = mean over starts of  J + μ₁/2 ∫ |dx/dt - f|² dt + μ₂/2 |x(0) - x0|²

with J, the integrals by the trapezoidal rule. The networks' own cost is below the optimum by ∫|p|²/μ₁ + |p(0)|²/μ₂, to first
order in 1/μ (p the costates): it is reported beside the simulated cost, which is what counts.

On a grid of times and starts every network is two matrix products, because time is the first input and the first column
of the sign matrix is +1.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from flm.control.law import ControlLaw
from flm.control.networks import StateNetworks
from flm.control.problem import OptimalControl
from flm.control.solve.family import cost_scale, follow_law
from flm.control.solve.levels import law_excess
from flm.control.solve.search import INTERRUPTED, OF_THIS_SIZE, Search
from flm.results import Ending
from flm.series import lattice, sign_matrix
from flm.series.forms import separable_from_linear

_CHUNK = 500  # epochs between looks at the clock
_POLISHED = 400  # parameters up to which a Hessian is formed


@dataclass(frozen=True)
class Penalty:
    """Settings of the penalty method.

    The paper gives sizes, learning rates and betas, but not μ₁, μ₂, epochs or time nodes; these are ours.

    Args:
        state_subnets: Sub-networks of each state's FLM; as many as the control's when None.
        control_subnets: Sub-networks of the control's FLM; `num_subnets` of `solve` when None.
        mu_dynamics: μ₁.
        mu_initial: μ₂.
        epochs: Of Adam.
        learning_rate: Of Adam.
        betas: Of Adam.
        nodes: Of the trapezoidal rule.
        num_starts: Random training starts of a family.
        normalize: Whether inputs are scaled to (π t/T, π/2 z), or raw (t, x0).
        polish: Newton steps after Adam, for at most 400 parameters.

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
    epochs: int = 20_000
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    nodes: int = 101
    num_starts: int = 250
    normalize: bool = True
    polish: int = 200

    @classmethod
    def paper_fixed(cls, **changes: Any) -> "Penalty":
        """The paper's fixed start: three FLMs with N = 5, Adam with its defaults."""
        return replace(cls(state_subnets=5, control_subnets=5), **changes)

    @classmethod
    def paper_family(cls, **changes: Any) -> "Penalty":
        """The paper's varying start: 250 starts, three FLMs with N = 27, Adam 5e-4 with betas (0.95, 0.97)."""
        paper = cls(state_subnets=27, control_subnets=27, learning_rate=5e-4, betas=(0.95, 0.97))
        return replace(paper, **changes)

    @classmethod
    def paper_rpssl(cls, **changes: Any) -> "Penalty":
        """The paper's five strategies: four state FLMs with N = 16, the control's with N = 32, Adam 1e-4."""
        paper = cls(state_subnets=16, control_subnets=32, learning_rate=1e-4, betas=(0.95, 0.97))
        return replace(paper, **changes)


def solve_penalty(search: Search, settings: Penalty) -> Ending:
    """Train state and control networks together; the parameters of the lowest loss are kept."""
    problem, starts, varying = search.problem, search.problem.starts, search.problem.starts.dimension
    control_subnets = settings.control_subnets or search.num_subnets or (27 if varying else 5)
    state_subnets = settings.state_subnets or control_subnets
    v0 = starts.sample(settings.num_starts, seed=search.seed) if varying else starts.center[None]
    units = _units(problem, settings.normalize)
    inputs = _Inputs(
        jnp.linspace(0.0, 1.0, settings.nodes), jnp.asarray(starts.normalize(v0)), jnp.asarray(v0), jnp.asarray(units),
        jnp.asarray(problem.numbers), jnp.asarray(problem.rest), jnp.asarray(problem.lower), jnp.asarray(problem.upper),
        jnp.asarray([settings.mu_dynamics, settings.mu_initial]),
    )  # fmt: skip
    state_key, control_key = jax.random.split(jax.random.key(search.seed))
    parameters = {
        "states": _start(state_key, problem.equations.num_coordinates, state_subnets, 1 + varying),
        "controls": _start(control_key, len(problem.controls), control_subnets, 1 + varying),
    }
    ending = OF_THIS_SIZE
    optimizer = optax.adam(settings.learning_rate, b1=settings.betas[0], b2=settings.betas[1])
    state = (parameters, optimizer.init(parameters), parameters, jnp.inf)
    done = 0
    try:
        while done < settings.epochs:
            count = min(_CHUNK, settings.epochs - done)
            state = _epochs(problem.equations, (settings.learning_rate, *settings.betas), count, state, inputs)
            done += count
            search.record.tell("adam", estimate=float(state[3]), extras={"epoch": done})
        best, loss = state[2], float(state[3])
        if settings.polish and sum(leaf.size for leaf in jax.tree.leaves(best)) <= _POLISHED:
            best, loss = _polish(problem.equations, best, inputs, settings.polish)
    except KeyboardInterrupt:
        if not done:
            raise
        best, loss, ending = state[2], float(state[3]), INTERRUPTED
    law = _law(problem, best["controls"], units)
    frequencies, a = _separable(best["states"], units)
    weights = (float(settings.mu_dynamics), float(settings.mu_initial))
    networks = StateNetworks(frequencies, a, law.center, law.scale, weights)
    tested = starts.spread(16, seed=search.seed + 1) if varying else starts.center[None]
    followed = follow_law(problem, law, tested)
    error = float((law_excess(problem, law, tested) / cost_scale(followed.cost)).max())
    error = search.keep(law, error, float(followed.violation().max()), networks)
    columns = law.num_columns + networks.coefficients.size
    search.record.step("penalty", columns=columns, estimate=loss, error_estimate=error)
    return ending


def _units(problem: OptimalControl, normalize: bool) -> np.ndarray:
    """Input units per unit of normalized time and start, (1 + D,)."""
    starts = problem.starts
    if normalize:
        return np.array([np.pi, *np.full(starts.dimension, np.pi / 2)])
    return np.array([problem.numbers[-1], *starts.scale[: starts.dimension]])


def _start(key, count: int, num_subnets: int, m: int) -> dict[str, jax.Array]:
    """The paper's start: the integer lattice, zero amplitudes, phases N(0, π/3)."""
    points = jnp.asarray(lattice(m, num_subnets), float)
    size = 2 ** (m - 1)
    return {
        "frequencies": jnp.repeat(points[None], count, axis=0),
        "amplitudes": jnp.zeros((count, num_subnets, size)),
        "phases": jax.random.normal(key, (count, num_subnets, size)) * np.pi / 3,
    }


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Inputs:
    s: jax.Array
    z: jax.Array
    v0: jax.Array
    units: jax.Array
    numbers: jax.Array
    offset: jax.Array
    lower: jax.Array
    upper: jax.Array
    weights: jax.Array


def _networks(parameters, inputs: _Inputs):
    """Values and slopes by s of a set of networks, (K, R, P) each, on the grid of times and starts."""
    n, A, phi = parameters["frequencies"], parameters["amplitudes"], parameters["phases"]
    signs = jnp.asarray(sign_matrix(n.shape[-1]), n.dtype)  # (l, m), first column +1
    rest = jnp.einsum("kni,li,pi->kpnl", n[..., 1:] * inputs.units[1:], signs[:, 1:], inputs.z) - phi[:, None]
    a, b = (A[:, None] * jnp.cos(rest)).sum(-1), (A[:, None] * jnp.sin(rest)).sum(-1)  # (K, P, N)
    omega = n[..., 0] * inputs.units[0]  # (K, N)
    angle = inputs.s[:, None] * omega[:, None, :]  # (K, R, N)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    # cos(x + y) = cos x cos y - sin x sin y
    values = jnp.einsum("krn,kpn->krp", cos, a) - jnp.einsum("krn,kpn->krp", sin, b)
    slopes = -jnp.einsum("krn,kpn->krp", sin * omega[:, None], a) - jnp.einsum("krn,kpn->krp", cos * omega[:, None], b)
    return values, slopes


def _loss(equations, parameters, inputs: _Inputs):
    v, slope = _networks(parameters["states"], inputs)
    u = jnp.clip(
        _networks(parameters["controls"], inputs)[0] + inputs.offset[:, None, None],
        inputs.lower[:, None, None],
        inputs.upper[:, None, None],
    )
    move = lambda array: jnp.moveaxis(array, 0, -1)  # (R, P, K)

    def along(s, v, slope, u):
        rates = equations.rates(s, v, u, inputs.numbers)
        excess = jnp.maximum(0.0, equations.path_values(s, v, u, inputs.numbers))
        horizon = equations.duration(u, inputs.numbers)
        return equations.running(s, v, u, inputs.numbers), jnp.sum(
            (slope - rates) ** 2
        ) / horizon + horizon * excess @ excess

    every = jnp.broadcast_to(inputs.s[:, None], v.shape[1:])
    running, residual = jax.vmap(jax.vmap(along))(every, move(v), move(slope), move(u))
    final, end = jax.vmap(
        lambda v: (
            equations.final_cost(v, jnp.zeros(len(equations.controls)), inputs.numbers),
            jnp.sum(equations.terminal_values(v, jnp.zeros(len(equations.controls)), inputs.numbers) ** 2),
        )
    )(move(v)[-1])
    integral = lambda values: jnp.trapezoid(values, inputs.s, axis=0)
    start = jnp.sum((move(v)[0] - inputs.v0) ** 2, axis=-1)
    penalty = inputs.weights[0] * (integral(residual) + end) + inputs.weights[1] * start
    return jnp.mean(integral(running) + final + 0.5 * penalty)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _epochs(equations, adam, count, state, inputs):
    """`count` epochs of Adam; the state holds the best parameters and loss so far."""
    optimizer = optax.adam(adam[0], b1=adam[1], b2=adam[2])

    def epoch(state, _):
        parameters, moments, best, lowest = state
        loss, gradient = jax.value_and_grad(lambda p: _loss(equations, p, inputs))(parameters)
        better = loss < lowest
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), parameters, best)
        updates, moments = optimizer.update(gradient, moments)
        return (optax.apply_updates(parameters, updates), moments, best, jnp.minimum(loss, lowest)), None

    return jax.lax.scan(epoch, state, None, length=count)[0]


def _polish(equations, parameters, inputs: _Inputs, steps: int):
    """A damped, saddle-free Newton method on all parameters."""
    flat, restore = ravel_pytree(parameters)
    flat = np.array(flat)
    loss = lambda x: float(_value(equations, restore(jnp.asarray(x)), inputs))
    value, damping = loss(flat), 1e-3
    for _ in range(steps):
        gradient, hessian = (np.asarray(part) for part in _derivatives(equations, restore, jnp.asarray(flat), inputs))
        values, vectors = np.linalg.eigh(hessian)
        along = vectors.T @ gradient
        improved = False
        while damping < 1e8 and not improved:
            size = np.maximum(np.abs(values), 1e-14 * np.abs(values).max()) + damping
            trial = flat - vectors @ (along / size)
            new = loss(trial)
            improved = np.isfinite(new) and new < value
            damping = max(damping / 5, 1e-12) if improved else damping * 4
        if not improved:
            break
        gain, flat, value = value - new, trial, new
        if gain < 1e-13 * abs(value):
            break
    return restore(jnp.asarray(flat)), value


@partial(jax.jit, static_argnums=0)
def _value(equations, parameters, inputs):
    return _loss(equations, parameters, inputs)


@partial(jax.jit, static_argnums=(0, 1))
def _derivatives(equations, restore, flat, inputs):
    function = lambda x: _loss(equations, restore(x), inputs)
    return jax.grad(function)(flat), jax.hessian(function)(flat)


def _law(problem: OptimalControl, parameters, units: np.ndarray) -> ControlLaw:
    frequencies, a = _separable(parameters, units)
    coefficients = np.zeros(
        (len(a), *a.shape[1:], len(a))
    )  # networks of their own: one law with all their sub-networks
    for i, part in enumerate(a):
        coefficients[i, ..., i] = part
    return ControlLaw.of(problem, np.concatenate(frequencies), np.concatenate(coefficients))


def _separable(parameters, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (K, N, m) per unit of normalized input and coefficients (K, N, 2, 2^(m-1))."""
    A, phi = np.asarray(parameters["amplitudes"]), np.asarray(parameters["phases"])
    count, n, size = A.shape
    C, S = (A * np.cos(phi)).reshape(-1, size), (A * np.sin(phi)).reshape(-1, size)
    a = np.asarray(separable_from_linear(jnp.asarray(C), jnp.asarray(S))).reshape(count, n, 2, size)
    return np.asarray(parameters["frequencies"]) * units, a
