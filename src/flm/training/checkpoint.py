"""Checkpoints: everything that the next epoch depends on, in one file that is complete at any moment.

A checkpoint belongs to one run: the same program (equation, model, optimizer), the same start and the same points.
A fingerprint of these is stored, and another run's checkpoint is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from flm.files import load, save
from flm.numerics.descent import State
from flm.wording import InputError

Leaf = np.ndarray | jax.Array


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The fingerprint of the run, its stage, its state, the losses (E, T) of all epochs so far and the time spent."""

    run: str
    stage: int
    state: State  # in a file its leaves
    history: np.ndarray
    seconds: float


def fingerprint(programs: Iterable[ClosedJaxpr], constants: Iterable[Leaf], numbers: Iterable[int]) -> str:
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


def write(path: str | os.PathLike[str], content: Checkpoint) -> None:
    """Replace the file at `path` in one step."""
    save(replace(content, state=tuple(map(_plain, jax.tree.leaves(content.state)))), path)


def read(path: str | os.PathLike[str], run: str, states: Sequence[State]) -> Checkpoint | None:
    """The checkpoint at `path`, or None when there is none yet; `states` are of the right structure for each stage.

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
