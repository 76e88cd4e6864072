"""Independent solves for a batch of starts: Newton's method on each start's own time coefficients.

Path and terminal constraints are met by the method of multipliers around it: inequalities g <= 0 have multipliers
lam <- max(0, lam + rho g), equalities h = 0 have nu <- nu + rho h; the weight rho grows when a round has not reduced the
violation to a quarter (Nocedal and Wright, Numerical Optimization, ch. 17).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flm.control.dynamics.kernels import Multipliers
from flm.control.dynamics.simulation import NODES, Simulated
from flm.control.solve.variation import Derivatives, Transcription
from flm.numerics.newton import FixedFactors, Minimum, Step, Trial, minimize

FEASIBLE = 1e-7  # constraints are met when no value is further off than this
STEPS = 40  # of Newton's method
_AIM = 1e-10  # what the rounds aim at: a violation h changes the cost by nu . h, to first order
_ROUNDS = 40
# Steps start undamped: the Hessian is exact, and far from the minimum its negative eigenvalues are turned positive.
_RULE = FixedFactors(start=0.0, down=8.0, up=4.0, least=1e-4, off=1e-8, trust=0.5)


@dataclass(frozen=True, eq=False)
class Batch:
    """Coefficients c (P, M) of each start and the trajectories under them: a point of Newton's method, and its model there."""

    transcription: Transcription
    c: np.ndarray
    run: Simulated
    multipliers: Multipliers | None

    @cached_property
    def derivatives(self) -> Derivatives:
        """Of each start's Lagrangian."""
        return self.transcription.derivatives(self.run, self.c, self.multipliers)

    @property
    def value(self) -> np.ndarray:
        """What a step must decrease, (P,)."""
        return self.transcription.merit(self.run, self.c, self.derivatives)

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (P, M) and eigenvectors (P, M, M) of the Hessians; of the identity where they are not finite."""
        hessian = self.derivatives.hessian
        good = np.isfinite(hessian).all(axis=(1, 2), keepdims=True)
        return np.linalg.eigh(np.where(good, hessian, np.eye(hessian.shape[1])))

    def step(self, damping: np.ndarray) -> Step:
        """-V (V'g) / (|e| + damping), e and V the Hessian's eigenvalues and vectors."""
        values, vectors = self._spectrum
        scale = np.abs(values).max(axis=1)
        along = np.einsum("pim,pi->pm", vectors, np.nan_to_num(self.derivatives.gradient))
        size = np.maximum(np.abs(values), 1e-13 * scale[:, None]) + (damping * scale)[:, None]
        predicted = (along**2 / size - 0.5 * values * (along / size) ** 2).sum(axis=1)
        return Step(-np.einsum("pim,pm->pi", vectors, along / size), predicted)

    def take(self, move: np.ndarray) -> Trial[Batch]:
        """The trajectories after a step, by Newton's iteration from those before it."""
        c = self.c + move
        run = self.transcription.run(c, self.multipliers, guess=np.nan_to_num(self.run.stages))
        return Trial(replace(self, c=c, run=run), self.transcription.merit(run, c, self.derivatives))

    def mixed(self, other: Batch, accepted: np.ndarray) -> Batch:
        """This batch with the starts that accepted a step taken from another one."""
        c = np.where(accepted[:, None], other.c, self.c)
        return replace(self, c=c, run=self.run.mixed(other.run, accepted))


def newton(
    transcription: Transcription, c: np.ndarray, *, multipliers: Multipliers | None = None, steps: int = STEPS
) -> Minimum[Batch]:
    """Minimize each start's Lagrangian by a damped, saddle-free Newton method from coefficients c (P, M)."""
    start = Batch(transcription, c, transcription.run(c, multipliers), multipliers)
    return minimize(start, lambda batch: batch, _RULE, max_steps=steps, step_tol=1e-13, noise=1e-15, mix=Batch.mixed)


def meet_constraints(
    transcription: Transcription, c: np.ndarray, multipliers: Multipliers | None
) -> tuple[Minimum[Batch], Multipliers | None]:
    """Minimize and update multipliers in turn until the constraints are met; the last minimum and multipliers."""
    if multipliers is None:
        return newton(transcription, c), None
    if not transcription.problem.equations.path:
        # Multipliers of path constraints live on the grid, which then stays as it is; without any it may have changed.
        shape = (len(transcription.basis.edges) - 1, len(c), NODES, 0)
        multipliers = replace(multipliers, path=np.zeros(shape))
    before, history = np.inf, []
    for _ in range(_ROUNDS):
        found = newton(transcription, c, multipliers=multipliers)
        c, run = found.point.c, found.point.run
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
    return found, multipliers


def first_multipliers(transcription: Transcription, c: np.ndarray) -> Multipliers | None:
    """Zeros, with a weight that makes the constraints count as much as the cost; None without constraints."""
    if not transcription.problem.constrained:
        return None
    run = transcription.run(c)
    finite = np.isfinite(run.cost)
    worst = max(run.violation[finite].max(initial=0.0), 0.1)
    size = max(np.abs(run.cost[finite]).mean() if finite.any() else 1.0, 0.1)
    weight = float(np.clip(10.0 * size / worst**2, 1.0, 1e4))
    return Multipliers(np.zeros_like(run.path), np.zeros_like(run.terminal), weight)


def owed(multipliers: Multipliers | None, run: Simulated) -> np.ndarray:
    """The cost that each start's violation is worth, |nu . h| + integral of lam |g|, (P,)."""
    if multipliers is None:
        return np.zeros(len(run.cost))
    along = np.einsum("epq,epqg->p", run.weights, multipliers.path * np.abs(run.path))
    return along + np.abs(multipliers.terminal * run.terminal).sum(axis=1)
