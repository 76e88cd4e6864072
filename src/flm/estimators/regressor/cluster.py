"""Dask arrays and data frames: rows stay where they are, and triangular factors travel.

One pass over the blocks finds the extent of the features and some rows of every block, which fix scaling, frequencies and
prior as the first rows of a stream would. In a second pass each block becomes one triangular factor on its worker, and
factors are merged two by two: a tree, of which only the root comes back. If there is a `dask.distributed.Client`, its
cluster does the work, else Dask's own scheduler.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from flm.estimators.regressor.settings import refuse_holes
from flm.estimators.regressor.wave_fit import WaveFit
from flm.estimators.table import Feature, as_frame, encoded, features_of, is_frame
from flm.numerics.least_squares import one_thread, triangular_factor
from flm.wording import InputError

if TYPE_CHECKING:
    from flm.estimators.regressor.estimator import FLMRegressor, RegressorState

_ROWS = 20_000  # that fix the frequencies


def is_dask(X: object) -> bool:
    """Whether X is an array or a data frame of Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


class _Part(NamedTuple):
    """What the second pass keeps of a block: its triangular factor, its rows, and the extent of its features."""

    factor: np.ndarray
    count: float
    lower: np.ndarray
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
    if hasattr(y, "chunks"):  # an array: its blocks are those of the features
        y = y if len(y.shape) == 1 else y.rechunk({1: -1})
        y = y if is_table else y.rechunk({0: whole.chunks[0]})
    blocks, outputs = (np.ravel(part.to_delayed()).tolist() for part in (whole, y))
    if len(blocks) != len(outputs):
        raise InputError(f"`y` must have the blocks of `X`, {len(blocks)}; got {len(outputs)}.")
    each = max(_ROWS // len(blocks), 4)
    look = dask.delayed(_some_rows, pure=False)
    some = dask.compute(*[look(a, b, each, i) for i, (a, b) in enumerate(zip(blocks, outputs, strict=True))])
    some = [(rows, goals) for rows, goals in some if len(rows)]
    if not some:
        raise InputError("`X` must have rows; got blocks without any.")
    together = pd.concat if is_table else np.concatenate
    model._absorb(together([rows for rows, _ in some]), np.concatenate([goals for _, goals in some]), first=True)
    state = model._state
    fit, features = dask.delayed(state.fit), state.features
    absorb, merge = dask.delayed(_part, pure=False), dask.delayed(_merged, pure=False)
    level = [absorb(fit, features, a, b) for a, b in zip(blocks, outputs, strict=True)]
    while len(level) > 1:
        level = [merge(*level[i : i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    (root,) = dask.compute(level[0])
    state.fit.refuse_beyond(root.lower, root.upper)
    data = replace(state.fit.model.data, factor=root.factor, count=root.count, log_scale=0.0)
    return replace(state, fit=replace(state.fit, model=state.fit.model.with_rows(data)), repeats=1.0)


def _some_rows(X: pd.DataFrame | np.ndarray, y: object, most: int, seed: int) -> tuple[Any, np.ndarray]:
    """Some rows of a block at random, and those in which a feature is smallest or largest, with their outputs."""
    if not len(X):
        return X, np.asarray(y)
    rows = np.random.default_rng(seed).choice(len(X), min(most, len(X)), replace=False)
    numbers = np.asarray(X.select_dtypes(["number", "datetime", "timedelta"]) if is_frame(X) else X)
    kept = np.unique(np.r_[rows, numbers.argmin(axis=0), numbers.argmax(axis=0)].astype(int))
    return X.take(kept) if is_frame(X) else np.asarray(X)[kept], np.asarray(y)[kept]


def _part(fit: WaveFit, features: tuple[Feature, ...], X: object, y: object) -> _Part:
    frame = as_frame(X)
    table = encoded(frame, features or features_of(frame))
    refuse_holes(table)
    numbers, outputs = np.asarray(table, float), np.asarray(y, float)
    if not np.isfinite(numbers).all() or not np.isfinite(outputs).all():
        raise InputError("`X` and `y` must be finite; got NaN or an infinite number in a block.")
    sample = fit.sample(numbers, outputs.reshape(len(numbers), -1), np.ones(len(numbers)), is_first=True)
    with one_thread():
        factor = sample.factor(fit.model.waves.blocks(), fit.model.waves.num_columns)
    edges = (numbers.min(axis=0), numbers.max(axis=0)) if len(numbers) else (fit.inputs.center,) * 2
    return _Part(factor, float(len(numbers)), *edges)


def _merged(a: _Part, b: _Part) -> _Part:
    with one_thread():
        factor = triangular_factor(np.concatenate([a.factor, b.factor]))
    return _Part(factor, a.count + b.count, np.minimum(a.lower, b.lower), np.maximum(a.upper, b.upper))
