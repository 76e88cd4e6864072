"""One training run: compiled calls, a history, a checkpoint, and a sentence about its end."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from flm.numerics.descent import Objective, Stage, State, calls, enter_stage, initial_state, program_of, running
from flm.results import Ending, Listener, Progress, Word
from flm.training import checkpoint as checkpoints

SECONDS_PER_CHECKPOINT = 10.0


class Trained(NamedTuple):
    """How a run ended, its last state, the losses of all epochs (E, 1 + T), and the time spent in all sessions."""

    ending: Ending
    state: State
    history: np.ndarray
    seconds: float


class Run:
    """A run that can be interrupted and continued: optimizers in turn, to a loss at which to stop.

    The constants are arrays that tell this run from others beside its programs.
    """

    def __init__(
        self,
        objective: Objective,
        free: PyTree,
        stages: Sequence[Stage],
        tolerance: float,
        constants: Sequence[np.ndarray | jax.Array],
    ):
        self.stages, self.tolerance = stages, np.asarray(tolerance, objective.weights.dtype)
        self.fresh = [enter_stage(initial_state(free, objective.weights.dtype), stage) for stage in stages]
        self.programs = [program_of(objective, *pair) for pair in zip(stages, self.fresh, strict=True)]
        self.constants = [*constants, *jax.tree.leaves(free)]
        self.ends = np.cumsum([stage.epochs for stage in stages])
        self.nothing = np.zeros((0, 1 + len(objective.weights)), objective.weights.dtype)

    def execute(self, path: str | os.PathLike[str] | None, listen: Listener) -> Trained:
        """Run to the end, the tolerance, a divergence or Ctrl-C."""
        saved, name = None, ""
        if path is not None:
            earlier = [stage.epochs for stage in self.stages[:-1]]
            name = checkpoints.fingerprint((p.jaxpr for p in self.programs), self.constants, earlier)
            saved = checkpoints.read(path, name, self.fresh)
        here = saved or checkpoints.Restored(0, self.fresh[0], self.nothing, 0.0)
        stage, state, history = here.stage, here.state, [here.history]
        began = written = time.monotonic()
        spent = lambda: here.seconds + time.monotonic() - began
        interrupted = False

        def write() -> None:
            if path is not None:
                checkpoints.write(path, name, checkpoints.Restored(stage, state, np.concatenate(history), spent()))

        try:
            for stage in range(here.stage, len(self.stages)):
                if stage > here.stage:
                    state = enter_stage(state, self.stages[stage])
                for call in calls(self.programs[stage], state, int(self.ends[stage]), self.tolerance):
                    state, history = call.state, [*history, call.history]
                    listen(self._progress(state, spent(), call.seconds_per_epoch))
                    if time.monotonic() - written > SECONDS_PER_CHECKPOINT:
                        write()
                        written = time.monotonic()
        except KeyboardInterrupt:
            interrupted = True
        write()
        return Trained(self._ending(state, interrupted), state, np.concatenate(history), spent())

    def _progress(self, state: State, seconds: float, per_epoch: float) -> Progress:
        epoch, total = int(state.epoch), int(self.ends[-1])
        return Progress(
            "training",
            estimate=float(state.loss),
            seconds=seconds,
            share=epoch / total,
            seconds_left=per_epoch * max(total - epoch, 0),
            extras={"epoch": epoch, "epochs": total, "best_loss": float(state.best_loss)},
        )

    def _ending(self, state: State, interrupted: bool) -> Ending:
        epoch, best = int(state.epoch), float(state.best_loss)
        kept = f"the lowest training loss, {best:.2e} at epoch {int(state.best_epoch) + 1:,}"
        if epoch and not np.isfinite(state.loss):
            kept = f"the parameters of {kept}, are kept" if np.isfinite(best) else "the start is kept"
            return Ending(Word.DIVERGED, f"the loss was no longer finite at epoch {epoch:,}", f"{kept}: lower the rate")
        if not running(state, self.tolerance):
            return Ending(Word.CONVERGED, f"the training loss reached {best:.2e} after {epoch:,} epochs")
        if interrupted:
            kept = f"the parameters are those of {kept}" if epoch else "the parameters are those of the start"
            return Ending(Word.INTERRUPTED, f"interrupted after {epoch:,} epochs", kept)
        return Ending(Word.EPOCHS, f"all {epoch:,} epochs were run", f"the parameters are those of {kept}")
