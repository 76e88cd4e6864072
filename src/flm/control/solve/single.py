"""Independent solves for a batch of starts: Newton's method on each start's own time coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from flm.control.dynamics.kernels import Multipliers
from flm.control.dynamics.simulation import Simulated
from flm.control.solve.variation import Derivatives, Transcription
from flm.numerics.newton import FixedFactors, Minimum, Step, Trial, minimize

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
        return Trial(
            Batch(self.transcription, c, run, self.multipliers), self.transcription.merit(run, c, self.derivatives)
        )

    def mixed(self, other: Batch, accepted: np.ndarray) -> Batch:
        """This batch with the starts that accepted a step taken from another one."""
        c = np.where(accepted[:, None], other.c, self.c)
        return Batch(self.transcription, c, self.run.mixed(other.run, accepted), self.multipliers)


def newton(
    transcription: Transcription, c: np.ndarray, *, multipliers: Multipliers | None = None, steps: int
) -> Minimum[Batch]:
    """Minimize each start's Lagrangian by a damped, saddle-free Newton method from coefficients c (P, M)."""
    start = Batch(transcription, c, transcription.run(c, multipliers), multipliers)
    return minimize(start, lambda batch: batch, _RULE, max_steps=steps, step_tol=1e-13, noise=1e-15, mix=Batch.mixed)
