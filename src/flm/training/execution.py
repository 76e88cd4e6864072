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


def execute(
    objective: Objective,
    free: PyTree,
    stages: Sequence[Stage],
    tolerance: float,
    *,
    constants: Sequence[np.ndarray | jax.Array],
    path: str | os.PathLike[str] | None,
    listen: Listener,
) -> Trained:
    """Train `free` by the optimizers in turn, to the end, the tolerance, a divergence or Ctrl-C.

    A run is continued from the checkpoint at `path`; the constants tell it from others beside its programs.
    """
    dtype = objective.weights.dtype
    least, ends = np.asarray(tolerance, dtype), np.cumsum([stage.epochs for stage in stages])
    fresh = [enter_stage(initial_state(free, dtype), stage) for stage in stages]
    programs = [program_of(objective, *pair) for pair in zip(stages, fresh, strict=True)]
    saved, name = None, ""
    if path is not None:
        held, earlier = [*constants, *jax.tree.leaves(free)], [stage.epochs for stage in stages[:-1]]
        name = checkpoints.fingerprint((program.jaxpr for program in programs), held, earlier)
        saved = checkpoints.read(path, name, fresh)
    here = saved or checkpoints.Checkpoint(name, 0, fresh[0], np.zeros((0, 1 + len(objective.weights)), dtype), 0.0)
    stage, state, history = here.stage, here.state, [here.history]
    began = written = time.monotonic()
    spent = lambda: here.seconds + time.monotonic() - began
    interrupted = False

    def write() -> None:
        if path is not None:
            checkpoints.write(path, checkpoints.Checkpoint(name, stage, state, np.concatenate(history), spent()))

    try:
        for stage in range(here.stage, len(stages)):
            if stage > here.stage:
                state = enter_stage(state, stages[stage])
            for call in calls(programs[stage], state, int(ends[stage]), least):
                state, history = call.state, [*history, call.history]
                listen(_progress(state, int(ends[-1]), spent(), call.seconds_per_epoch))
                if time.monotonic() - written > SECONDS_PER_CHECKPOINT:
                    write()
                    written = time.monotonic()
    except KeyboardInterrupt:
        interrupted = True
    write()
    return Trained(_ending(state, least, interrupted), state, np.concatenate(history), spent())


def _progress(state: State, total: int, seconds: float, per_epoch: float) -> Progress:
    epoch = int(state.epoch)
    return Progress(
        "training",
        estimate=float(state.loss),
        seconds=seconds,
        share=epoch / total,
        seconds_left=per_epoch * max(total - epoch, 0),
        extras={"epoch": epoch, "epochs": total, "best_loss": float(state.best_loss)},
    )


def _ending(state: State, tolerance: np.ndarray, interrupted: bool) -> Ending:
    epoch, best = int(state.epoch), float(state.best_loss)
    kept = f"the lowest training loss, {best:.2e} at epoch {int(state.best_epoch) + 1:,}"
    if epoch and not np.isfinite(state.loss):
        kept = f"the parameters of {kept}, are kept" if np.isfinite(best) else "the start is kept"
        return Ending(Word.DIVERGED, f"the loss was no longer finite at epoch {epoch:,}", f"{kept}: lower the rate")
    if not running(state, tolerance):
        return Ending(Word.CONVERGED, f"the training loss reached {best:.2e} after {epoch:,} epochs")
    if interrupted:
        kept = f"the parameters are those of {kept}" if epoch else "the parameters are those of the start"
        return Ending(Word.INTERRUPTED, f"interrupted after {epoch:,} epochs", kept)
    return Ending(Word.EPOCHS, f"all {epoch:,} epochs were run", f"the parameters are those of {kept}")
