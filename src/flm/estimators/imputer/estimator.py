"""FLMImputer: a time series with holes in, the same series filled out, with error bars (scikit-learn)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from flm.estimators.base import AbstractEstimator
from flm.estimators.imputer.cross_spectrum import CrossSpectrum
from flm.estimators.imputer.dense import DenseSpectrum
from flm.estimators.imputer.imputation import Calibration, ExtrapolationWarning, Imputation, dressed
from flm.estimators.imputer.methods import METHODS, AbstractMethod, Coupled
from flm.estimators.table import Container, Table, TableLike, Units, check_size, is_series, numeric_copy, read_table
from flm.numerics.least_squares import one_thread
from flm.results.progress import Progress
from flm.wording import InputError, check_count


@dataclass(frozen=True, eq=False)
class ImputerState:
    """What was learned from a table: its units, and a model of it in these."""

    units: Units
    model: AbstractMethod


@dataclass(eq=False, repr=False)
class FLMImputer(OneToOneFeatureMixin, TransformerMixin, AbstractEstimator[ImputerState]):
    """Fills missing values (NaN) of one or many channels by Fourier series, on regular or irregular clocks.

    Several channels: windows share frequencies, and their amplitudes have a cross-spectrum learned from all windows
    ("coupled"). One channel: all harmonics of the record under a learned spectral prior, plus the lines that stand out
    of it ("dense").

    Args:
        window: samples per window of the coupled model; None: 48, less for short or wide tables.
        time: the clock's column (name or position). Default: an index of dates, periods or durations, else the row number.
        method: "auto" (coupled for several channels, dense for one), "coupled" or "dense".
        overlap: windows of the coupled model every half window, each filling its middle; False: side by side.
        extrapolation: "flag" values outside the observed time span (a warning, and `Imputation.extrapolated`), or "refuse".
        seed: for values hidden in order to stop and to calibrate.
        progress: False, True (lines on the standard output), or a function of one `flm.Progress` event, whose `share` of
            the work and `stage` say how far a fit or an imputation is.

    Attributes:
        method_: the method used.
        calibration_: factor on the error bars of other tables and weight of their tails, from hidden values. (The table
            that was fitted has its own: see `fitted` of `impute`.)
        model_: the fitted model. The coupled one has its `window`, its `groups` of channels and, one per group, its
            `spectra`: frequencies (cycles per step), amplitude means and covariances, and noise. The dense one has a
            spectrum per channel, times in steps of the clock.

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

    window: int | None = None
    time: str | int | None = None
    _: KW_ONLY
    method: str = "auto"
    overlap: bool = True
    extrapolation: str = "flag"
    seed: int = 0
    progress: bool | Callable[[Progress], object] = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: TableLike, y: object = None) -> FLMImputer:
        """Learn the spectrum of a table; `y` is ignored."""
        self._check_options()
        table = self._read(X, reset=True)
        empty = np.isnan(table.values).all(axis=0)
        if empty.any():
            j = table.columns[int(np.argmax(empty))]
            label = repr(self._names[j]) if hasattr(self, "feature_names_in_") else f"column {j}"
            raise InputError(f"`X` must have an observed value in every column; got none in {label}.")
        method = ("coupled" if len(table.columns) > 1 else "dense") if self.method == "auto" else self.method
        units, listen = Units.of(table), self._listener()
        with one_thread():
            model = METHODS[method].learn(*units.standardized(table), self, listen)
        self._state = ImputerState(units, model)
        listen(Progress("fitted", share=1.0))
        return self

    def fit_transform(self, X: TableLike, y: object = None) -> Container:
        """Learn from a table and fill it; `y` is ignored."""
        return self.fit(X, y).impute(X, fitted=True).values

    def transform(self, X: TableLike) -> Container:
        """X with its missing values filled; numpy or pandas as it came, index and columns kept."""
        return self.impute(X).values

    def impute(self, X: TableLike, fitted: bool = False) -> Imputation:
        """Values and standard deviations, which also unpack: `values, std = imputer.impute(X)`.

        Args:
            X: the table to fill.
            fitted: whether X is the table that was fitted. A model fits the windows that it learned from closer than
                others, so that they have error bars of their own; the values are the same.

        Example:
            >>> import numpy as np, flm
            >>> X = np.sin(0.3 * np.arange(200.0))[:, None]
            >>> X[50:55] = np.nan
            >>> found = flm.FLMImputer().fit(X).impute(X, fitted=True)
            >>> bool((found.std[50:55] > 0).all())
            True
        """
        units, model = self._fitted.units, self._fitted.model
        table = self._read(X, reset=False)
        steps, values = units.standardized(table)
        missing = np.isnan(values)
        calibration = model.own_calibration if fitted else model.calibration
        mean, std = values, np.zeros(values.shape)
        if missing.any():
            with one_thread():
                mean, deviation = model.fill(steps, values, self, self._listener())
            std = np.where(missing, calibration.factor * deviation, 0.0)
        outside = table.placed(self._outside(missing))
        if outside.any():
            self._report(int(outside.sum()))
        holes = table.placed(missing)
        filled = np.where(holes, table.placed(mean * units.spread + units.center), table.everything)
        return Imputation(
            dressed(X, filled, [j for j in table.columns if holes[:, j].any()]),
            dressed(X, table.placed(std * units.spread), table.columns),
            holes,
            outside,
            table.times,
            calibration,
        )

    @property
    def method_(self) -> str:
        """The method used."""
        return self._fitted.model.name

    @property
    def calibration_(self) -> Calibration:
        """Factor and tails of the error bars of other tables."""
        return self._fitted.model.calibration

    @property
    def model_(self) -> AbstractMethod:
        """The fitted model of standardized tables."""
        return self._fitted.model

    def _check_options(self) -> None:
        methods = ("auto", *METHODS)
        if self.method not in methods:
            raise InputError(f"`method` must be one of {', '.join(map(repr, methods))}; got {self.method!r}.")
        if self.extrapolation not in ("flag", "refuse"):
            raise InputError(f"`extrapolation` must be 'flag' or 'refuse'; got {self.extrapolation!r}.")
        if self.window is not None:
            check_count("window", self.window, 4)

    def _read(self, X: TableLike, *, reset: bool) -> Table:
        frame = X.to_frame() if is_series(X) else X
        values = self._numbers(numeric_copy(frame, self.time), reset=reset, allow_nan=True)
        check_size("X", values)
        return read_table(frame, values, self.time)

    def _outside(self, missing: np.ndarray) -> np.ndarray:
        """Missing values before the first or after the last observation: of any channel when they are coupled."""
        seen = ~missing
        if isinstance(self._fitted.model, Coupled):
            seen = np.broadcast_to(seen.any(axis=1, keepdims=True), seen.shape)
        inside = np.logical_or.accumulate(seen, axis=0) & np.logical_or.accumulate(seen[::-1], axis=0)[::-1]
        return missing & ~inside

    def _report(self, count: int) -> None:
        text = (
            f"{count} missing values lie outside the time span of the observed ones: filling them is a forecast, which this "
            "model is not made for"
        )
        if self.extrapolation == "refuse":
            raise InputError(f"`X` must have observed values on both sides of every hole; {text}.")
        warnings.warn(f"{text}. They are marked in `impute(X).extrapolated`.", ExtrapolationWarning, stacklevel=3)

    @classmethod
    def _state_of_format_1(cls, named: dict) -> ImputerState:
        old = named["model"]
        old["calibration"] = Calibration(**old["calibration"])
        own = old.get("own_calibration")
        old["own_calibration"] = Calibration(**own) if own else old["calibration"]
        if "parts" in old:
            names = CrossSpectrum.__dataclass_fields__
            parts = old.pop("parts")
            old["spectra"] = tuple(CrossSpectrum(**{name: part[name] for name in names}) for part in parts)
        else:
            old["spectra"] = tuple(DenseSpectrum(**spectrum) for spectrum in old["spectra"])
        kind = METHODS[named["method"]]
        model = kind(**{field.name: old[field.name] for field in fields(kind)})
        return ImputerState(Units(named["step"], named["origin"], named["center"], named["spread"]), model)
