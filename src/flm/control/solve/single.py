"""Independent solves for a batch of starts: Newton's method on each start's own time coefficients."""

from dataclasses import dataclass

import numpy as np

from flm.control.dynamics.kernels import Multipliers
from flm.control.solve.variation import Derivatives, Transcription


@dataclass(frozen=True, eq=False)
class Batch:
    """The outcome for each start: coefficients c (P, M), costs (P,), estimated excess costs (P,)."""

    c: np.ndarray
    derivatives: Derivatives
    iterations: int

    @property
    def cost(self) -> np.ndarray:
        """Costs without the constraints' terms, (P,)."""
        return self.derivatives.run.cost


def newton(
    problem: Transcription,
    c: np.ndarray,
    *,
    multipliers: Multipliers | None = None,
    steps: int = 60,
    rtol: float = 1e-13,
) -> Batch:
    """Minimize each start's Lagrangian by a damped, saddle-free Newton method.

    The step is -V (V'g) / (|e| + damping), e and V the Hessian's eigenvalues and vectors; the damping of a start follows
    the ratio of its actual and predicted decrease.
    """
    run = problem.run(c, multipliers)
    current = problem.derivatives(run, c, multipliers)
    damping = np.zeros(len(c))
    iterations = 0
    while iterations < steps:
        iterations += 1
        values, vectors = np.linalg.eigh(_finite(current.hessian))
        scale = np.abs(values).max(axis=1)
        along = np.einsum("pim,pi->pm", vectors, np.nan_to_num(current.gradient))
        size = np.maximum(np.abs(values), 1e-13 * scale[:, None]) + (damping * scale)[:, None]
        step = -np.einsum("pim,pm->pi", vectors, along / size)
        predicted = (along**2 / size - 0.5 * values * (along / size) ** 2).sum(axis=1)
        before = problem.merit(run, c, current)
        if np.all(predicted <= rtol * (np.abs(run.lagrangian) + 1e-300)):
            break
        trial = c + step
        trial_run = problem.run(trial, multipliers, guess=np.nan_to_num(run.stages))
        after = problem.merit(trial_run, trial, current)
        noise = 1e-15 * np.abs(before)
        accepted = after <= before + noise
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = (before - after) / np.maximum(predicted, 1e-300)
        adjusted = np.where(ratio > 0.5, damping / 8, np.where(ratio < 0.1, 2 * damping, damping))
        damping = np.where(accepted, adjusted, np.maximum(4 * damping, 1e-4))
        damping = np.where(damping < 1e-8, 0.0, damping)
        if not accepted.any():
            if damping.min() > 1e6:
                break
            continue
        c = np.where(accepted[:, None], trial, c)
        run = trial_run if accepted.all() else run.mixed(trial_run, accepted)
        current = problem.derivatives(run, c, multipliers)
    return Batch(c, current, iterations)


def _finite(hessian: np.ndarray) -> np.ndarray:
    good = np.isfinite(hessian).all(axis=(1, 2), keepdims=True)
    return np.where(good, hessian, np.eye(hessian.shape[1]))
