"""The checked settings of `FLMRegressor`, and what happens to rows before they are fitted: chunks, a clock, repeats, holes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from flm.estimators.periodogram import Clock
from flm.estimators.regressor.noise import KINDS
from flm.estimators.table import as_frame, is_frame
from flm.estimators.waves import Scale
from flm.wording import InputError, check_count

if TYPE_CHECKING:
    from flm.estimators.regressor.estimator import FLMRegressor

_WAYS = ("auto", "lines", "lattice")
TRENDS = {None: 0, "linear": 1, "quadratic": 2, "auto": 0}  # degrees


@dataclass(frozen=True)
class Settings:
    """The settings of `FLMRegressor`, checked against m features and K outputs."""

    num_subnets: int | None
    frequencies: str | np.ndarray  # (N, m)
    interactions: int
    period: np.ndarray  # (m,), NaN where free
    bounds: np.ndarray | None  # (m, 2)
    ridge: float | None
    noise: np.ndarray | None  # (K,)
    kind: str | None  # of the noise; None: by evidence
    trend: str | None
    max_columns: int

    @classmethod
    def of(cls, asked: FLMRegressor, m: int, K: int) -> Settings:
        """The checked settings; those that are not given are chosen by the number of features."""
        interactions = (m if m <= 6 else 2) if asked.interactions is None else asked.interactions
        period = asked.period if isinstance(asked.period, Iterable) else [asked.period] * m
        period = np.array([np.nan if p is None else p for p in period], float)
        if period.shape != (m,):
            raise InputError(f"`period` must be one number or one per feature ({m}); got {asked.period!r}.")
        bounds = None if asked.bounds is None else np.asarray(asked.bounds, float)
        if bounds is not None and (bounds.shape != (m, 2) or not (bounds[:, 0] < bounds[:, 1]).all()):
            raise InputError(f"`bounds` must be {m} pairs (low, high), low < high; got {asked.bounds!r}.")
        if asked.ridge is not None and not asked.ridge > 0:
            raise InputError(f"`ridge` must be positive or None; got {asked.ridge!r}.")
        kind = noise = None
        if isinstance(asked.noise, str):
            kind = asked.noise
            if kind not in KINDS:
                raise InputError(f"`noise` must be a number, None or one of {KINDS}; got {asked.noise!r}.")
        elif asked.noise is not None:
            noise = np.broadcast_to(np.asarray(asked.noise, float), (K,))
            if not (noise > 0).all():
                raise InputError(f"`noise` must be positive or None; got {asked.noise!r}.")
        if asked.trend not in TRENDS:
            raise InputError(f"`trend` must be one of {tuple(TRENDS)}; got {asked.trend!r}.")
        num_subnets = None if asked.num_subnets is None else check_count("num_subnets", asked.num_subnets, 1)
        frequencies, interactions = _frequencies(asked.frequencies, m), check_count("interactions", interactions, 1)
        return cls(
            num_subnets=num_subnets,
            frequencies=frequencies,
            interactions=min(interactions, m),
            period=period,
            bounds=bounds,
            ridge=asked.ridge,
            noise=noise,
            kind=kind,
            trend=asked.trend,
            max_columns=check_count("max_columns", asked.max_columns, 1),
        )


def _frequencies(given: str | npt.ArrayLike, m: int) -> str | np.ndarray:
    if isinstance(given, str):
        if given not in _WAYS:
            raise InputError(f"`frequencies` must be one of {_WAYS} or an array (N, {m}); got {given!r}.")
        return given
    array = np.asarray(given, float)
    array = array[:, None] if array.ndim == 1 and m == 1 else array
    if array.ndim != 2 or array.shape[1] != m:
        raise InputError(f"`frequencies` must have shape (N, {m}); got {array.shape}.")
    return array


def half_periods(period: np.ndarray, scale: Scale) -> np.ndarray:
    """The periods in half-widths of the data, refused where they are shorter than the data's extent."""
    found = period / (2 * scale.halfwidth)
    if (short := found < 1 - 1e-9).any():
        j = int(np.argmax(short))
        raise InputError(
            f"`period` must be at least the extent of the data; got {period[j]:.6g} for feature {j}, whose values "
            f"span {2 * scale.halfwidth[j]:.6g}."
        )
    return found


def clock_step(X: np.ndarray) -> float:
    """The step of a clock: all gaps are multiples of it; if there is none, the median gap."""
    gaps = np.diff(np.unique(X[:, 0]))
    return 1.0 if X.shape[1] > 1 or not len(gaps) else Clock.of(X[:, 0]).step or float(np.median(gaps))


def as_features(X: object) -> object:
    """The table as `as_frame` makes it; a series of dates, periods or durations is one feature."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM" and X.ndim < 3:
        X = pd.DataFrame(X.reshape(len(X), -1))
        return X.set_axis(["time"] if X.shape[1] == 1 else [f"x{j}" for j in X], axis=1)
    framed = as_frame(pd.Index(X) if isinstance(X, pd.Series) and X.dtype.kind in "mMO" else X)
    return X if isinstance(framed, pd.Index) else framed


def as_outputs(y: object) -> object:
    """Outputs as they came, objects as numbers; refused where they are texts, dates or durations."""
    y = as_frame(y)
    values = y.to_numpy() if is_frame(y) or isinstance(y, pd.Series) else np.asarray(y)
    if y is None or values.dtype.kind not in "OUSmM":
        return y
    text = next((value for value in values.ravel() if isinstance(value, str)), None)
    if text is not None or values.dtype.kind in "mM":
        got = "dates or durations" if text is None else f"the text {str(text)!r}"
        raise InputError(f"`y` must have numbers; got {got}. Convert them, for instance with pandas.to_numeric.")
    try:
        return y.astype(float) if is_frame(y) or isinstance(y, pd.Series) else values.astype(float)
    except (ValueError, TypeError):  # other objects, which scikit-learn refuses
        return y


def refuse_holes(X: object, name: str = "X") -> None:
    """Refuse NaN in a data frame or array of floats, with a message that names a way out; `y` may have one axis."""
    values = X.to_numpy() if is_frame(X) or isinstance(X, pd.Series) else X
    values = np.asarray(values) if isinstance(values, list) else values
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or not 1 + (name == "X") <= values.ndim <= 2:
        return
    empty = np.isnan(values).sum(axis=0)
    if np.any(empty):
        j = int(np.argmax(empty > 0))
        label = repr(str(X.columns[j])) if is_frame(X) else f"column {j}"
        got = f"{empty} of {len(values)}" if values.ndim == 1 else f"{empty[j]} in {label}"
        way_out = "Leave these rows out." if name == "y" else "Leave the rows out, or fill them with flm.FLMImputer."
        raise InputError(f"`{name}` must have no NaN; got {got}. {way_out}")


def mean_repeats(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Weight per distinct row of X where repeats carry no noise (equal X always with equal y); else one."""
    repeated = pd.DataFrame(X).duplicated().sum()
    if repeated and pd.DataFrame(np.concatenate([X, y], axis=1)).duplicated().sum() < repeated:
        return 1.0
    return float(weights.sum() / (len(X) - repeated))


def as_chunks(X: object) -> Iterator[object] | None:
    """An iterator over chunks when X is not a table: an iterator, or a sequence of tuples that start with a matrix."""
    if isinstance(X, Iterator):
        return X
    is_table = any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__"))
    if is_table or not isinstance(X, Iterable) or isinstance(X, str | bytes | dict):
        return None
    iterator = iter(X)
    first = next(iterator, None)
    are_chunks = isinstance(first, tuple) and len(first) in (2, 3) and np.ndim(first[0]) == 2
    return itertools.chain([first], iterator) if are_chunks else None
