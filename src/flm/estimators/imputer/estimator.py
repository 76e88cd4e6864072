"""FLMImputer: a time series with holes in, the same series filled out, with error bars (scikit-learn)."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from flm.estimators.imputer import methods
from flm.estimators.imputer.imputation import ExtrapolationWarning, Imputation
from flm.estimators.table import Table, check_size, clock_step, numeric_copy, read_table
from flm.numerics.least_squares import one_thread
from flm.wording import InputError, NoSeriesError

_METHODS = ("auto", "coupled", "dense", "greedy", "paper")


class FLMImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fills missing values (NaN) of one or many channels by Fourier series, on regular or irregular clocks.

    Several channels: windows share frequencies, and their amplitudes have a cross-spectrum learned from all windows
    ("coupled"). One channel: all harmonics of the record under a learned spectral prior, plus the lines that stand out
    of it ("dense"). Also: few lines found one after the other ("greedy"), and the recipe of the paper ("paper": N = 8,
    Adam, extrapolation), which is kept for comparison and is not a good imputer.

    Args:
        window: samples per window of the coupled model; None: 48, less for short or wide tables.
        time: the clock's column (name or position). Default: an index of dates, periods or durations, else the row number.
        method: "auto" (coupled for several channels, dense for one), "coupled", "dense", "greedy" or "paper".
        overlap: windows of the coupled model every half window, each filling its middle; False: side by side.
        num_subnets: number of lines of "greedy" (None: by evidence) or of frequencies of "paper" (None: 8).
        shrinkage: pseudo-windows of the coupled model; None: by the number of channels and windows.
        max_rounds: most rounds of expectation maximization.
        extrapolation: "flag" values outside the observed time span (a warning, and `Imputation.extrapolated`), or "refuse".
        seed: for values hidden in order to stop and to calibrate, and for the paper's phases.

    Attributes:
        method_: the method used.
        calibration_: factor on the error bars of other tables and weight of their tails, from hidden values. (The table
            that was fitted has its own: a model fits the windows that it learned from closer than others.)
        window_, cross_spectrum_: of the coupled model.
        spectra_: of the dense model, one per channel.

    Fit on one table and fill another: what is learned is the spectrum; the values of the filled table come from its own
    observed values. A table without missing values comes back as it is.

    Example:
        >>> import numpy as np, flm
        >>> t = np.arange(400.0)
        >>> X = np.stack([np.sin(0.3 * t), np.cos(0.3 * t)], axis=1)
        >>> holed = X.copy()
        >>> holed[3::7, 0] = np.nan
        >>> filled = flm.FLMImputer().fit_transform(holed)
        >>> bool(np.abs(filled - X).max() < 0.05)
        True
    """

    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        window: int | None = None,
        time: Any = None,
        *,
        method: str = "auto",
        overlap: bool = True,
        num_subnets: int | None = None,
        shrinkage: float | None = None,
        max_rounds: int = 60,
        extrapolation: str = "flag",
        seed: int = 0,
    ):
        self.window = window
        self.time = time
        self.method = method
        self.overlap = overlap
        self.num_subnets = num_subnets
        self.shrinkage = shrinkage
        self.max_rounds = max_rounds
        self.extrapolation = extrapolation
        self.seed = seed

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> FLMImputer:
        """Learn the spectrum of a table; `y` is ignored."""
        self._check_options()
        table = self._read(X, reset=True)
        empty = np.isnan(table.values).all(axis=0)
        if empty.any():
            raise InputError(
                f"`X` must have an observed value in every column; got none in {self._labels(table)[int(np.argmax(empty))]}."
            )
        order = table.order
        self._step = clock_step(table.times)
        self._origin = float(table.times[order[0]]) if table.is_absolute else 0.0
        self._center = np.nanmean(table.values, axis=0)
        spread = np.nanstd(table.values, axis=0)
        self._spread = np.where(spread > 1e-12 * np.abs(self._center), spread, 1.0)
        steps, values = self._standardized(table)
        self.method_ = ("coupled" if values.shape[1] > 1 else "dense") if self.method == "auto" else self.method
        with one_thread():
            self._model = methods.METHODS[self.method_].learn(steps, values, self)
        self._fingerprint = _fingerprint(steps, values)
        return self

    def transform(self, X: Any) -> Any:
        """X with its missing values filled; numpy or pandas as it came, index and columns kept."""
        return self.impute(X).values

    def impute(self, X: Any) -> Imputation:
        """Values and standard deviations, which also unpack: `values, std = imputer.impute(X)`."""
        check_is_fitted(self, "_model")
        table = self._read(X, reset=False)
        order = table.order
        steps, values = self._standardized(table)
        mean, std = values.copy(), np.zeros(values.shape)
        missing = np.isnan(values)
        calibration = self._model.calibration
        if _fingerprint(steps, values) == self._fingerprint:
            calibration = getattr(self._model, "own_calibration", calibration)
        if missing.any():
            with one_thread():
                filled, deviation = self._model.fill(steps, values, self)
            mean = np.where(missing, filled, values)
            std = np.where(missing, calibration.factor * deviation, 0.0)
        outside = self._outside(steps, values, missing)
        back = np.empty(len(order), int)
        back[order] = np.arange(len(order))
        full = table.everything.copy()
        found = (mean * self._spread + self._center)[back]
        full[:, table.columns] = np.where(np.isnan(table.values), found, table.values)
        deviations = np.zeros(full.shape)
        deviations[:, table.columns] = (std * self._spread)[back]
        flags = np.zeros(full.shape, bool)
        flags[:, table.columns] = outside[back]
        if flags.any():
            self._report(int(flags.sum()))
        holes = np.zeros(full.shape, bool)
        holes[:, table.columns] = np.isnan(table.values)
        return Imputation.like(X, full, deviations, holes, flags, table, calibration)

    @property
    def calibration_(self) -> Any:
        """Factor and tails of the error bars of other tables."""
        check_is_fitted(self, "_model")
        return self._model.calibration

    @property
    def cross_spectrum_(self) -> Any:
        """The coupled model's frequencies (cycles per step), amplitude means and covariances, and noise."""
        return self._of("coupled").learned.spectrum

    @property
    def window_(self) -> int:
        """Samples per window of the coupled model."""
        return self._of("coupled").window

    @property
    def spectra_(self) -> Any:
        """The dense model's spectra, one per channel, times in steps of the clock."""
        return self._of("dense").spectra

    def _of(self, method: str) -> Any:
        """The fitted model where it is of this method."""
        check_is_fitted(self, "_model")
        if self.method_ != method:
            raise NoSeriesError(f"only the method {method!r} has this attribute; got a fit by {self.method_!r}.")
        return self._model

    def _check_options(self) -> None:
        if self.method not in _METHODS:
            raise InputError(f"`method` must be one of {', '.join(map(repr, _METHODS))}; got {self.method!r}.")
        if self.extrapolation not in ("flag", "refuse"):
            raise InputError(f"`extrapolation` must be 'flag' or 'refuse'; got {self.extrapolation!r}.")
        for name, least in (("window", 4), ("num_subnets", 1), ("max_rounds", 1)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < least):
                raise InputError(f"`{name}` must be an integer of at least {least}; got {value!r}.")

    def _read(self, X: Any, *, reset: bool) -> Table:
        frame = X.to_frame() if _is_series(X) else X
        numbers = numeric_copy(frame, self.time)
        values = validate_data(self, numbers, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        check_size("X", np.asarray(values))
        return read_table(frame, np.asarray(values), self.time)

    def _labels(self, table: Table) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [repr(names[j]) if names is not None else f"column {j}" for j in table.columns]

    def _standardized(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Times in steps from the origin, increasing, and standardized channels."""
        order = table.order
        origin = self._origin if table.is_absolute else 0.0
        return (table.times[order] - origin) / self._step, (table.values[order] - self._center) / self._spread

    def _outside(self, steps: np.ndarray, values: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Missing values before the first or after the last observation: of any channel when they are coupled."""
        seen = ~missing
        if self.method_ == "coupled":
            seen = np.broadcast_to(seen.any(axis=1, keepdims=True), seen.shape)
        inside = np.logical_or.accumulate(seen, axis=0) & np.logical_or.accumulate(seen[::-1], axis=0)[::-1]
        outside = missing & ~inside
        if self.method_ == "paper":
            outside |= missing & (steps > self._model.trained_until)[:, None]
        return outside

    def _report(self, count: int) -> None:
        text = (
            f"{count} missing values lie outside the time span of the observed ones: filling them is a forecast, which this "
            "model is not made for"
        )
        if self.extrapolation == "refuse":
            raise InputError(f"`X` must have observed values on both sides of every hole; {text}.")
        warnings.warn(f"{text}. They are marked in `impute(X).extrapolated`.", ExtrapolationWarning, stacklevel=3)

    def _pack(self) -> dict[str, Any]:
        check_is_fitted(self, "_model")
        names = getattr(self, "feature_names_in_", None)
        return {
            "parameters": self.get_params(deep=False),
            "num_features": int(self.n_features_in_),
            "names": None if names is None else [str(name) for name in names],
            "method": self.method_,
            "step": self._step,
            "origin": self._origin,
            "center": self._center,
            "spread": self._spread,
            "fingerprint": self._fingerprint,
            "model": self._model.pack(),
        }

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> FLMImputer:
        self = cls(**named["parameters"])
        self.n_features_in_ = named["num_features"]
        if named["names"] is not None:
            self.feature_names_in_ = np.array(named["names"], dtype=object)
        self.method_ = named["method"]
        self._step, self._origin = named["step"], named["origin"]
        self._center, self._spread = named["center"], named["spread"]
        self._fingerprint = named["fingerprint"]
        self._model = methods.METHODS[self.method_].unpack(named["model"])
        return self


def _fingerprint(steps: np.ndarray, values: np.ndarray) -> str:
    """Tells the table that was fitted from others: its error bars are calibrated apart."""
    return hashlib.sha256(steps.tobytes() + values.tobytes()).hexdigest()


def _is_series(X: Any) -> bool:
    return hasattr(X, "to_frame") and not hasattr(X, "columns") and hasattr(X, "index")
