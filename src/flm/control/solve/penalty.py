"""The paper's penalty method: state and control FLMs trained together by Adam (paper, Eq. penalty_loss).

    loss = mean over starts of  J + μ₁/2 ∫ |dx/dt - f|² dt + μ₂/2 |x(0) - x0|²

with J, the integrals by the trapezoidal rule. The networks' own cost is below the optimum by ∫|p|²/μ₁ + |p(0)|²/μ₂, to first
order in 1/μ (p the costates): it is reported beside the simulated cost, which is what counts.
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
from scipy.optimize import minimize

from flm.control.law import StateNetworks
from flm.control.problem import OptimalControl
from flm.control.solve.adam import Networks, train
from flm.control.solve.levels import judge
from flm.control.solve.search import INTERRUPTED, Search
from flm.results import Ending
from flm.series import lattice

_POLISHED = 400  # parameters up to which BFGS holds an inverse Hessian


@dataclass(frozen=True)
class Penalty:
    """Settings of the penalty method.

    The paper gives sizes, learning rates and betas, but not μ₁, μ₂, epochs or time nodes; these are ours.

    Args:
        state_subnets: Sub-networks of each state's FLM; as many as the control's when None.
        control_subnets: Sub-networks of the control's FLM; `num_subnets` of `solve` when None.
        mu_dynamics: μ₁.
        mu_initial: μ₂.
        epochs: How many epochs of Adam.
        learning_rate: Adam's rate.
        betas: Adam's two momenta.
        nodes: How many nodes the trapezoidal rule has.
        num_starts: Random training starts of a family.
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
    epochs: int = 20_000
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    nodes: int = 101
    num_starts: int = 250
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
        """The paper's five strategies: four state FLMs with N = 16, the control's with N = 32, Adam 1e-4."""
        paper = cls(state_subnets=16, control_subnets=32, learning_rate=1e-4, betas=(0.95, 0.97))
        return replace(paper, **changes)


class _Parameters(NamedTuple):
    """What is trained: one network for each coordinate of the state, stacked, and one for all controls."""

    states: Networks
    controls: Networks


def solve_penalty(search: Search, settings: Penalty) -> Ending:
    """Train state and control networks together; the parameters of the lowest loss are kept."""
    problem, starts, varying = search.problem, search.problem.starts, search.problem.starts.dimension
    control_subnets = settings.control_subnets or search.num_subnets or (27 if varying else 5)
    state_subnets = settings.state_subnets or control_subnets
    v0 = starts.sample(settings.num_starts, seed=search.seed) if varying else starts.center[None]
    units = np.array([np.pi, *np.full(varying, np.pi / 2)])  # inputs are π t/T and π/2 z
    state_key, control_key = jax.random.split(jax.random.key(search.seed))
    keys = jax.random.split(state_key, problem.equations.num_coordinates)
    make = lambda key: Networks.start(lattice(1 + varying, state_subnets), 1, key)
    controls = Networks.start(lattice(1 + varying, control_subnets), len(problem.controls), control_key)
    loss = partial(_loss, problem, settings, jnp.asarray(units), v0)
    optimizer = optax.adam(settings.learning_rate, b1=settings.betas[0], b2=settings.betas[1])
    best, value, ending = train(search, loss, _Parameters(jax.vmap(make)(keys), controls), optimizer, settings.epochs)
    size = sum(leaf.size for leaf in jax.tree.leaves(best))
    if settings.polish and ending is not INTERRUPTED and size <= _POLISHED:
        try:
            best, value = _polish(loss, best, settings.polish)
        except KeyboardInterrupt:
            ending = INTERRUPTED
    law = best.controls.law(problem, units)
    each = [jax.tree.map(lambda leaf, i=i: leaf[i], best.states).separable(units) for i in range(len(keys))]
    frequencies, coefficients = (np.stack(part) for part in zip(*each, strict=True))
    weights = (float(settings.mu_dynamics), float(settings.mu_initial))
    networks = StateNetworks(frequencies, coefficients[..., 0], law.center, law.scale, weights)
    columns, error = law.num_columns + networks.coefficients.size, judge(search, law, networks)
    search.record.step("penalty", columns=columns, estimate=value, error_estimate=error)
    return ending


def _loss(
    problem: OptimalControl, settings: Penalty, units: jax.Array, v0: np.ndarray, parameters: _Parameters
) -> jax.Array:
    equations, numbers, at_rest = problem.equations, problem.numbers, jnp.zeros(len(problem.controls))
    s, z = jnp.linspace(0.0, 1.0, settings.nodes), jnp.asarray(problem.starts.normalize(v0))
    states = jax.vmap(lambda networks: networks.values(units, s, z))(parameters.states)
    v, slope = (jnp.moveaxis(values[..., 0], 0, -1) for values in states)  # (R, P, d)
    u = jnp.clip(parameters.controls.values(units, s, z)[0] + problem.rest, problem.lower, problem.upper)

    def along(s, v, slope, u):
        rates = equations.rates(s, v, u, numbers)
        excess = jnp.maximum(0.0, equations.path_values(s, v, u, numbers))
        horizon = equations.duration(u, numbers)
        defect = jnp.sum((slope - rates) ** 2) / horizon + horizon * excess @ excess
        return equations.running(s, v, u, numbers), defect

    def at_end(v):
        h = equations.terminal_values(v, at_rest, numbers)
        return equations.final_cost(v, at_rest, numbers), h @ h

    integral = lambda values: jnp.trapezoid(values, s, axis=0)
    running, defect = jax.vmap(jax.vmap(along))(jnp.broadcast_to(s[:, None], v.shape[:2]), v, slope, u)
    final, end = jax.vmap(at_end)(v[-1])
    start = jnp.sum((v[0] - v0) ** 2, axis=-1)
    penalty = settings.mu_dynamics * (integral(defect) + end) + settings.mu_initial * start
    return jnp.mean(integral(running) + final + 0.5 * penalty)


def _polish(loss: Callable[[_Parameters], jax.Array], start: _Parameters, steps: int) -> tuple[_Parameters, float]:
    """All parameters after at most so many iterations of BFGS."""
    flat, restore = ravel_pytree(start)
    slopes = jax.jit(jax.value_and_grad(lambda x: loss(restore(x))))
    found = minimize(
        lambda x: tuple(map(np.asarray, slopes(x))), flat, jac=True, method="BFGS", options={"maxiter": steps}
    )
    return restore(jnp.asarray(found.x)), float(found.fun)
