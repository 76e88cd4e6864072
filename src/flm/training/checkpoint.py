"""Checkpoints: everything that the next epoch depends on, in one file that is complete at any moment.

A checkpoint belongs to one run: the same program (equation, model, optimizer), the same start and the same points.
A fingerprint of these is stored, and another run's checkpoint is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flm.files import write_atomic
from flm.wording import InputError

FORMAT = 1


class Restored(NamedTuple):
    """What a checkpoint holds: the stage, the state, the losses (E, T) of all epochs so far and the time spent."""

    stage: int
    state: Any
    history: np.ndarray
    seconds: float


def fingerprint(programs: Iterable[Any], constants: Iterable[Any], words: Iterable[Any]) -> str:
    """A digest of compiled-to-be programs (jaxprs with their constants), arrays and plain values."""
    digest = hashlib.sha256()
    for program in programs:
        digest.update(re.sub(r"0x[0-9a-f]+", "", str(program)).encode())  # addresses differ between processes
        for constant in getattr(program, "consts", ()):
            _add(digest, constant)
    for constant in constants:
        _add(digest, constant)
    digest.update(json.dumps([jax.__version__, *words]).encode())
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    array = _plain(value)
    digest.update(f"{array.dtype}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())


def write(path: Any, run: str, content: Restored) -> None:
    """Replace the file at `path` in one step."""
    from safetensors.numpy import save

    leaves = jax.tree.leaves(content.state)
    arrays = {f"leaf.{i}": _contiguous(leaf) for i, leaf in enumerate(leaves)}
    arrays["history"] = _contiguous(content.history)
    header = {"format": FORMAT, "run": run, "stage": content.stage, "seconds": content.seconds, "leaves": len(leaves)}
    write_atomic(path, save(arrays, metadata={"flm-checkpoint": json.dumps(header)}))


def read(path: Any, run: str, states: list[Any]) -> Restored | None:
    """The checkpoint at `path`, or None when there is none yet.

    Args:
        path: the file.
        run: the fingerprint of the run that asks.
        states: for each stage, a state of the right structure.

    Raises:
        ValueError: the file is damaged, or belongs to another run.
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


def _plain(leaf: Any) -> np.ndarray:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def _contiguous(leaf: Any) -> np.ndarray:
    array = _plain(leaf)
    return np.ascontiguousarray(array).reshape(array.shape)


def _like(array: np.ndarray, leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(leaf))
    return jax.device_put(array)
