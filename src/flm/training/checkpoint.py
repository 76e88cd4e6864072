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
from pathlib import Path
from typing import NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from flm.files import write_atomic
from flm.numerics.descent import State
from flm.wording import InputError

FORMAT = 1
Leaf = np.ndarray | jax.Array


class Restored(NamedTuple):
    """What a checkpoint holds: the stage, the state, the losses (E, T) of all epochs so far and the time spent."""

    stage: int
    state: State
    history: np.ndarray
    seconds: float


def fingerprint(programs: Iterable[ClosedJaxpr], constants: Iterable[Leaf], numbers: Iterable[int]) -> str:
    """A digest of compiled-to-be programs (jaxprs with their constants), arrays and numbers."""
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


def write(path: str | os.PathLike[str], run: str, content: Restored) -> None:
    """Replace the file at `path` in one step."""
    from safetensors.numpy import save

    leaves = jax.tree.leaves(content.state)
    arrays = {f"leaf.{i}": _plain(leaf) for i, leaf in enumerate(leaves)} | {"history": _plain(content.history)}
    header = {"format": FORMAT, "run": run, "stage": content.stage, "seconds": content.seconds, "leaves": len(leaves)}
    write_atomic(path, save(arrays, metadata={"flm-checkpoint": json.dumps(header)}))


def read(path: str | os.PathLike[str], run: str, states: Sequence[State]) -> Restored | None:
    """The checkpoint at `path`, or None when there is none yet; `states` are of the right structure for each stage.

    A file that is damaged or belongs to a run of another fingerprint is refused.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["flm-checkpoint"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        known, history = str(header["run"]), arrays["history"]
        stage, count, seconds = int(header["stage"]), int(header["leaves"]), float(header["seconds"])
        leaves = [arrays[f"leaf.{i}"] for i in range(count)]
    except (SafetensorError, OSError, KeyError, TypeError, ValueError):
        raise InputError(
            f"`checkpoint` must be an undamaged checkpoint of flm.train or a new path; got {str(path)!r}."
        ) from None
    if known != run or not 0 <= stage < len(states):
        raise InputError(
            f"`checkpoint` must belong to this run; got {str(path)!r}, which was written for another problem, model, "
            "optimizer, seed or set of points. Choose a new path, or call train as it was called then."
        )
    old, structure = jax.tree.flatten(states[stage])
    restored = [_like(new, leaf) for new, leaf in zip(leaves, old, strict=True)]
    return Restored(stage, jax.tree.unflatten(structure, restored), history, seconds)


def _is_key(leaf: Leaf) -> TypeGuard[jax.Array]:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Leaf) -> np.ndarray:
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    return np.ascontiguousarray(array).reshape(array.shape)


def _like(array: np.ndarray, leaf: Leaf) -> jax.Array:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(leaf))
    return jax.device_put(array)
