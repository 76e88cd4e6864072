"""What both estimators share: progress, names of features, files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from flm.results.progress import Listener, Progress, Record, listener

State = TypeVar("State")


class AbstractEstimator(BaseEstimator, Generic[State]):
    """An estimator whose fit is one frozen object, `_state`, which files hold; events say how far a fit is."""

    n_features_in_: int
    feature_names_in_: np.ndarray
    progress: bool | Callable[[Progress], object]
    _state: State

    @property
    def _fitted(self) -> State:
        check_is_fitted(self, "_state")
        return self._state

    def _listener(self) -> Listener:
        """The listener for the parts of a fit, which adds the time since the fit began to events."""
        record = Record(listener(self.progress))
        return lambda event: record.listen(replace(event, seconds=record.seconds))

    def _numbers(self, X: object, *, reset: bool, allow_nan: bool = False) -> np.ndarray:
        """X as numbers by the rules of scikit-learn; with `reset`, its features are remembered."""
        finite = "allow-nan" if allow_nan else True
        checked: object = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite)  # pyright: ignore[reportArgumentType]
        return np.asarray(checked)

    @property
    def _names(self) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        return tuple(f"x{j}" for j in range(self.n_features_in_)) if names is None else tuple(map(str, names))

    def _pack(self) -> dict[str, object]:
        state, parameters = self._fitted, self.get_params(deep=False)
        del parameters["progress"]
        names = self._names if hasattr(self, "feature_names_in_") else None
        return {
            "parameters": parameters,
            "num_features": int(self.n_features_in_),
            "names": names,
            "state": state,
        }

    @classmethod
    def _unpack(cls, named: dict) -> Self:
        known = cls._get_param_names()
        self = cls(**{name: value for name, value in named["parameters"].items() if name in known})
        self.n_features_in_ = named["num_features"]
        if named["names"] is not None:
            self.feature_names_in_ = np.array(named["names"], dtype=object)
        self._state = named["state"]
        return self
