"""The parameters of a regressor, checked against the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from flm.wording import InputError, check_count

if TYPE_CHECKING:
    from flm.estimators.regressor.estimator import FLMRegressor

_WAYS = ("auto", "lines", "lattice")


@dataclass(frozen=True)
class Settings:
    """What `FLMRegressor` was asked for, with m features and K outputs; see there."""

    num_subnets: int | None
    frequencies: str | np.ndarray  # (N, m)
    interactions: int
    period: np.ndarray  # (m,), NaN where free
    bounds: np.ndarray | None  # (m, 2)
    ridge: float | None
    noise: np.ndarray | None  # (K,)
    max_columns: int

    @classmethod
    def of(cls, asked: FLMRegressor, m: int, K: int) -> Settings:
        """Checked; what is not given is chosen by the number of features."""
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
        noise = None if asked.noise is None else np.broadcast_to(np.asarray(asked.noise, float), (K,))
        if noise is not None and not (noise > 0).all():
            raise InputError(f"`noise` must be positive or None; got {asked.noise!r}.")
        return cls(
            None if asked.num_subnets is None else check_count("num_subnets", asked.num_subnets, 1),
            _frequencies(asked.frequencies, m),
            min(check_count("interactions", interactions, 1), m),
            period,
            bounds,
            asked.ridge,
            noise,
            check_count("max_columns", asked.max_columns, 1),
        )

    def ways(self, m: int, streaming: bool) -> tuple[str, ...]:
        """Which ways to find frequencies are tried."""
        if not isinstance(self.frequencies, str):
            return ("given",)
        if self.frequencies != "auto":
            return (self.frequencies,)
        # A line found in the first rows of a stream need not fit the rest of it: only on request.
        return ("lattice", "lines") if m == 1 and not streaming else ("lattice",)

    def max_lines(self, m: int) -> int:
        """Most lines within the budget of columns."""
        return max(1, min(64, self.max_columns // 2**m))


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
