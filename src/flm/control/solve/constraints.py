"""Path and terminal constraints: the augmented Lagrangian (method of multipliers) around a minimizer.

Inequalities g <= 0 have multipliers lam <- max(0, lam + rho g), equalities h = 0 have nu <- nu + rho h; the weight rho
grows when a round has not reduced the violation to a quarter (Nocedal and Wright, Numerical Optimization, ch. 17).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from flm.control.dynamics.kernels import Multipliers, constraint_counts
from flm.control.dynamics.simulation import Simulated, gauss
from flm.control.equations import Equations

FEASIBLE = 1e-7  # constraints are met when no value is further off than this
_AIM = 1e-10  # what the rounds aim at: a violation h changes the cost by nu . h, to first order
_ROUNDS = 40


def first_multipliers(equations: Equations, run: Simulated) -> Multipliers:
    """Zero multipliers, and a weight that makes the constraints of `run` count as much as its cost."""
    num_path, num_terminal = constraint_counts(equations)
    num_elements, num_starts, nodes = run.s.shape
    path, terminal = np.zeros((num_elements, num_starts, nodes, num_path)), np.zeros((num_starts, num_terminal))
    finite = np.isfinite(run.cost)
    worst = max(violation(run)[finite].max(initial=0.0), 0.1)
    size = max(np.abs(run.cost[finite]).mean() if finite.any() else 1.0, 0.1)
    return Multipliers(path, terminal, float(np.clip(10.0 * size / worst**2, 1.0, 1e4)))


def violation(run: Simulated) -> np.ndarray:
    """The largest constraint value of each start, (P,)."""
    path = np.maximum(run.path, 0.0).max(axis=(0, 2, 3), initial=0.0)
    return np.maximum(path, np.abs(run.terminal).max(axis=1, initial=0.0))


def owed(multipliers: Multipliers | None, run: Simulated) -> np.ndarray:
    """The cost that each start's violation is worth, |nu . h| + integral of lam |g|, (P,)."""
    if multipliers is None:
        return np.zeros(len(run.cost))
    weights = run.width[..., None] * gauss(run.s.shape[-1]).weights
    along = np.einsum("epq,epqg->p", weights, multipliers.path * np.abs(run.path))
    return along + np.abs(multipliers.terminal * run.terminal).sum(axis=1)


def with_multipliers(
    minimize: Callable[[np.ndarray, Multipliers], tuple[np.ndarray, Simulated]],
    point: np.ndarray,
    multipliers: Multipliers,
) -> Multipliers:
    """Minimize and update multipliers in turn until the constraints are met; the last multipliers.

    Args:
        minimize: Minimizes the Lagrangian with given multipliers from a given point.
        point: Where to begin.
        multipliers: The first ones.
    """
    before, history = np.inf, []
    for _ in range(_ROUNDS):
        point, run = minimize(point, multipliers)
        # max(g, -lam/rho): how far g is from its own sign condition and complementarity.
        gap = np.maximum(run.path, -multipliers.path / multipliers.weight)
        worst = max(np.abs(gap).max(initial=0.0), np.abs(run.terminal).max(initial=0.0))
        if not np.isfinite(worst):
            break
        multipliers = replace(
            multipliers,
            path=np.maximum(0.0, multipliers.path + multipliers.weight * run.path),
            terminal=multipliers.terminal + multipliers.weight * run.terminal,
        )
        history.append(worst)
        if worst <= _AIM or (len(history) > 6 and worst < FEASIBLE and worst > 0.5 * min(history[:-3])):
            break
        if worst > 0.25 * before:
            multipliers = replace(multipliers, weight=min(5.0 * multipliers.weight, 1e7))
        before = worst
    return multipliers
