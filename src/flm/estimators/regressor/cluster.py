"""Dask arrays and data frames: rows stay where they are, and triangular factors travel.

One pass over the blocks finds the extent of the features and some rows of every block, which fix scaling, frequencies and
prior as the first rows of a stream would. In a second pass each block becomes one triangular factor on its worker, and
factors are merged two by two: a tree, of which only the root comes back. Where a `dask.distributed.Client` is there, its
cluster does the work, else Dask's own scheduler.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from flm.estimators.evidence import Compressed
from flm.estimators.features import Feature, as_frame, encoded, features_of
from flm.estimators.regressor.design import Design
from flm.estimators.regressor.settings import refuse_holes
from flm.estimators.table import is_frame
from flm.numerics.least_squares import one_thread, triangular_factor
from flm.wording import InputError

if TYPE_CHECKING:
    from flm.estimators.regressor.estimator import FLMRegressor, RegressorState

_ROWS = 20_000  # that fix the frequencies


def is_dask(X: object) -> bool:
    """Whether X is an array or a data frame of Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


class Glance(NamedTuple):
    """What the first pass sees of a block."""

    rows: pd.DataFrame | np.ndarray  # some of them
    outputs: np.ndarray  # theirs
    count: int


class Part(NamedTuple):
    """What the second pass keeps of a block."""

    factor: np.ndarray
    count: float
    lower: np.ndarray  # of the features, (m,)
    upper: np.ndarray


def fit_blocks(model: FLMRegressor, X: Any, y: Any) -> RegressorState:
    """The state of a regressor after all blocks; the model itself is fitted to a sample of the rows on the way."""
    import dask  # pyright: ignore[reportMissingImports]

    if not is_dask(y):
        raise InputError(f"`y` must be of Dask where `X` is; got {type(y).__name__}.")
    is_table = hasattr(X, "columns")
    if not is_table and len(X.shape) != 2:
        raise InputError(f"`X` must have two axes; got the shape {X.shape}.")
    whole = X if is_table else X.rechunk({1: -1})
    blocks = np.ravel(whole.to_delayed()).tolist()
    goals = y
    if hasattr(y, "chunks"):  # an array: its blocks are those of the features
        goals = y if len(y.shape) == 1 else y.rechunk({1: -1})
        goals = goals if is_table else goals.rechunk({0: whole.chunks[0]})
    outputs = np.ravel(goals.to_delayed()).tolist()
    if len(blocks) != len(outputs):
        raise InputError(f"`y` must have the blocks of `X`, {len(blocks)}; got {len(outputs)}.")
    each = max(_ROWS // len(blocks), 4)
    look = dask.delayed(_glance, pure=False)
    glances = dask.compute(*[look(a, b, each, i) for i, (a, b) in enumerate(zip(blocks, outputs, strict=True))])
    glances = [glance for glance in glances if glance.count]
    if not glances:
        raise InputError("`X` must have rows; got blocks without any.")
    together = pd.concat if is_table else np.concatenate
    model._absorb(together([g.rows for g in glances]), np.concatenate([g.outputs for g in glances]), first=True)
    state = model._state
    design = replace(state.design, joint=None, rivals=())
    settled, features = dask.delayed(design), state.features
    absorb, merge = dask.delayed(_part, pure=False), dask.delayed(_merged, pure=False)
    level = [absorb(settled, features, a, b) for a, b in zip(blocks, outputs, strict=True)]
    while len(level) > 1:
        pairs = [merge(*level[i : i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
        level = pairs
    (root,) = dask.compute(level[0])
    design.refuse_beyond(root.lower, root.upper)
    data = Compressed(root.factor, state.data.num_outputs, root.count, state.data.known_noise)
    return replace(state, design=design, data=data, repeats=1.0)


def _glance(X: pd.DataFrame | np.ndarray, y: object, most: int, seed: int) -> Glance:
    """Some rows at random, and those in which a feature is smallest or largest."""
    count = len(X)
    if not count:
        return Glance(X, np.asarray(y), 0)
    rows = np.random.default_rng(seed).choice(count, min(most, count), replace=False)
    numbers = X.select_dtypes(["number", "datetime", "timedelta"]) if is_frame(X) else X
    ends = [operator.attrgetter(end)(np.asarray(numbers))(axis=0) for end in ("argmin", "argmax")]
    kept = np.unique(np.concatenate([rows, *(end.astype(int) for end in ends)]))
    return Glance(X.take(kept) if is_frame(X) else np.asarray(X)[kept], np.asarray(y)[kept], count)


def _part(design: Design, features: tuple[Feature, ...], X: object, y: object) -> Part:
    """A block as a triangular factor."""
    frame = as_frame(X)
    table = encoded(frame, features or features_of(frame))
    refuse_holes(table)
    numbers, outputs = np.asarray(table, float), np.asarray(y, float)
    if not np.isfinite(numbers).all() or not np.isfinite(outputs).all():
        raise InputError("`X` and `y` must be finite; got NaN or an infinite number in a block.")
    sample = design.sample(numbers, outputs.reshape(len(numbers), -1), np.ones(len(numbers)), None)
    with one_thread():
        factor = sample.factor(design.waves.columns, design.waves.num_columns)
    edges = (numbers.min(axis=0), numbers.max(axis=0)) if len(numbers) else (design.scale.center,) * 2
    return Part(factor, float(len(numbers)), *edges)


def _merged(a: Part, b: Part) -> Part:
    """Two factors as one."""
    with one_thread():
        factor = triangular_factor(np.concatenate([a.factor, b.factor]))
    return Part(factor, a.count + b.count, np.minimum(a.lower, b.lower), np.maximum(a.upper, b.upper))
