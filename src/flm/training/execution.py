"""One training run: compiled calls, a history, a checkpoint, and a sentence about how it ended.

A checkpoint is everything that the next epoch depends on, in one file that is complete at any moment. It belongs to one
run: the same program (equation, model, optimizer), the same start and the same points. A fingerprint of these is stored
with it, and the checkpoint of another run is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from jaxtyping import PyTree

from flm.files import load, save
from flm.numerics.descent import Objective, Stage, State, calls, enter_stage, initial_state, program_of, running
from flm.results import Ending, Listener, Progress, Word
from flm.wording import InputError

SECONDS_PER_CHECKPOINT = 10.0
Leaf = np.ndarray | jax.Array


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The fingerprint of the run, its stage, its state, the losses (E, T) of all epochs so far and the time spent."""

    run: str
    stage: int
    state: State  # stored in a file as its leaves
    history: np.ndarray
    seconds: float


def execute(
    objective: Objective,
    free: PyTree,
    stages: Sequence[Stage],
    tolerance: float,
    *,
    constants: Sequence[Leaf],
    path: str | os.PathLike[str] | None,
    listen: Listener,
) -> tuple[Ending, Checkpoint]:
    """Train `free` by the optimizers in turn, to the end, the tolerance, a divergence or Ctrl-C.

    A run is continued from the checkpoint at `path`; `constants`, like its programs, distinguish it from other runs.
    """
    dtype = objective.weights.dtype
    least, ends = np.asarray(tolerance, dtype), np.cumsum([stage.epochs for stage in stages])
    fresh = [enter_stage(initial_state(free, dtype), stage) for stage in stages]
    programs = [program_of(objective, *pair) for pair in zip(stages, fresh, strict=True)]
    saved, name = None, ""
    if path is not None:
        held, earlier = [*constants, *jax.tree.leaves(free)], [stage.epochs for stage in stages[:-1]]
        name = _fingerprint((program.jaxpr for program in programs), held, earlier)
        saved = _read_checkpoint(path, name, fresh)
    here = saved or Checkpoint(name, 0, fresh[0], np.zeros((0, 1 + len(objective.weights)), dtype), 0.0)
    stage, state, history = here.stage, here.state, [here.history]
    began = written = time.monotonic()
    spent = lambda: here.seconds + time.monotonic() - began
    interrupted = False

    def write() -> Checkpoint:
        content = Checkpoint(name, stage, state, np.concatenate(history), spent())
        if path is not None:
            save(replace(content, state=tuple(map(_plain, jax.tree.leaves(state)))), path)
        return content

    try:
        for stage in range(here.stage, len(stages)):
            if stage > here.stage:
                state = enter_stage(state, stages[stage])
            for call in calls(programs[stage], state, int(ends[stage]), least):
                state, history = call.state, [*history, call.history]
                epoch, total = int(state.epoch), int(ends[-1])
                left = call.seconds_per_epoch * max(total - epoch, 0)
                extras = {"epoch": epoch, "epochs": total, "best_loss": float(state.best_loss)}
                listen(Progress("training", 0, float(state.loss), np.nan, spent(), epoch / total, left, extras))
                if time.monotonic() - written > SECONDS_PER_CHECKPOINT:
                    write()
                    written = time.monotonic()
    except KeyboardInterrupt:
        interrupted = True
    return _ending(state, least, interrupted), write()


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


def _fingerprint(programs: Iterable[ClosedJaxpr], constants: Iterable[Leaf], numbers: Iterable[int]) -> str:
    """A digest of traced programs (jaxprs with their constants), arrays and numbers."""
    digest = hashlib.sha256()

    def add(arrays: Iterable[Leaf]) -> None:
        for array in map(_plain, arrays):
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())

    for program in programs:
        digest.update(re.sub(r"0x[0-9a-f]+", "", str(program)).encode())  # addresses differ between processes
        add(program.consts)
    add(constants)
    digest.update(json.dumps([jax.__version__, *numbers]).encode())
    return digest.hexdigest()


def _read_checkpoint(path: str | os.PathLike[str], run: str, states: Sequence[State]) -> Checkpoint | None:
    """The checkpoint at `path`, or None when there is none yet; `states` have the right structure for each stage.

    A file that is damaged or belongs to a run of another fingerprint is refused.
    """
    if not Path(path).exists():
        return None
    try:
        found = load(path)
    except (InputError, OSError):
        found = None
    if not isinstance(found, Checkpoint):
        raise InputError(f"`checkpoint` must be an undamaged checkpoint of flm.train or a new path; got {str(path)!r}.")
    if found.run != run or not 0 <= found.stage < len(states):
        raise InputError(
            f"`checkpoint` must belong to this run; got {str(path)!r}, which was written for another problem, model, "
            "optimizer, seed or set of points. Choose a new path, or call train as it was called then."
        )
    old, structure = jax.tree.flatten(states[found.stage])
    restored = [_like(new, leaf) for new, leaf in zip(jax.tree.leaves(found.state), old, strict=True)]
    return replace(found, state=jax.tree.unflatten(structure, restored))


def _is_key(leaf: Leaf) -> TypeGuard[jax.Array]:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Leaf) -> np.ndarray:
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    return np.ascontiguousarray(array).reshape(array.shape)


def _like(array: np.ndarray, leaf: Leaf) -> jax.Array:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(leaf))
    return jax.device_put(array)
