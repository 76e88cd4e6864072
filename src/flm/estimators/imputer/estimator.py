"""FLMImputer: fills the holes of a time series, with error bars (scikit-learn)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from operator import attrgetter

import numpy as np
import pandas as pd
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from flm.estimators.base import AbstractEstimator
from flm.estimators.imputer.blend import NAMES, Mixture
from flm.estimators.imputer.holes import kinds_of
from flm.estimators.imputer.imputation import ExtrapolationWarning, Imputation, Standardized, dressed
from flm.estimators.imputer.units import Units
from flm.estimators.table import (
    Container,
    Table,
    TableLike,
    as_frame,
    check_size,
    is_frame,
    numeric_copy,
    read_table,
)
from flm.numerics.least_squares import one_thread
from flm.results.progress import Progress
from flm.wording import InputError, check_count

_APART = 40  # rows between samples, at least


@dataclass(frozen=True, eq=False)
class ImputerState:
    """What was learned from a table: its units, and a model of the table in these units."""

    units: Units
    model: Mixture


@dataclass(eq=False, repr=False)
class FLMImputer(OneToOneFeatureMixin, TransformerMixin, AbstractEstimator[ImputerState]):
    """Fills missing values (NaN) of one or many channels by Fourier series, on regular or irregular clocks.

    Several models fill a hole, blended with weights that follow what each expects of itself there and how well it fills values
    hidden for this purpose, per channel and kind of hole. The models: windows of all channels that share frequencies, whose
    amplitudes have a cross-spectrum learned from all windows ("coupled"); all harmonics of a channel under a learned spectral
    prior, plus the lines that stand out of it ("dense": one channel, or small tables); a regression on the rows around the hole
    ("lags"), also on the coupled model's filling ("refined"); straight lines ("lines"). So no channel is filled much worse than
    by the best of them. A channel without negative values is filled on a scale of roots or logarithms where it varies more evenly
    there: it then has no negative fillings, and its intervals reach farther up than down.

    Args:
        window: samples per window of the coupled model; None means 48, less for short or wide tables.
        time: the clock's column (name or position). Default: an index of dates, periods or durations, else the row number.
        method: "auto" (the blend), or "coupled" or "dense" alone.
        overlap: whether windows of the coupled model follow every half window, each filling its middle; False: side by side.
        extrapolation: "flag" values outside the observed time span (a warning, and `Imputation.extrapolated`), or "refuse".
        seed: for the values that are hidden to weigh the models and to calibrate.
        progress: False, True (lines on the standard output), or a function of one `flm.Progress` event, whose `share` of
            the work and `stage` say how far a fit or an imputation is.

    Attributes:
        calibrations_: factors on the error bars of other tables and weights of their tails, by kind of hole, from hidden
            values. (The table that was fitted has its own: see `fitted` of `impute`.)
        model_: the fitted models of standardized tables, and `products` of their errors,
            (kinds of holes, channels, models, models).

    Arrays of three axes are samples, times, channels: each sample is filled from its own values.
    If you fit on one table and fill another, only the spectrum is learned from the first; the filled values come from the second's
    own observed values. A table without missing values comes back as it is.

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
        units, listen = Units.of(table), self._listener()
        with one_thread():
            model = Mixture.learn(*units.standardized(table), self, listen)
        self._state = ImputerState(units, model)
        listen(Progress("fitted", share=1.0))
        return self

    def partial_fit(self, X: TableLike, y: object = None) -> FLMImputer:
        """Learn more from a table that has grown, given its new rows; the first call is a fit. `y` is ignored.

        The models are averaged with what the new rows say, by the number of rows; units, weights and error bars stay.
        """
        if not hasattr(self, "_state"):
            return self.fit(X)
        table, state, listen = self._read(X, reset=False), self._state, self._listener()
        with one_thread():
            model = state.model.grown(*state.units.standardized(table), self, listen)
        self._state = replace(state, model=model)
        listen(Progress("fitted", share=1.0))
        return self

    def fit_transform(self, X: TableLike, y: object = None) -> Container:
        """Learn from a table and fill it; `y` is ignored."""
        return self.fit(X, y).impute(X, fitted=True).values

    def transform(self, X: TableLike) -> Container:
        """X with its missing values filled; numpy or pandas as it came, index and columns kept, polars and xarray as pandas."""
        return self.impute(X).values

    def impute(self, X: TableLike, fitted: bool = False) -> Imputation:
        """The filled table with standard deviations, which also unpacks: `values, std = imputer.impute(X)`.

        Args:
            X: the table to fill.
            fitted: whether X is the table that was fitted. A model fits the windows that it learned from more closely
                than others, so that these have error bars of their own; the values are the same.

        Example:
            >>> import numpy as np, flm
            >>> X = np.sin(0.3 * np.arange(200.0))[:, None]
            >>> X[50:55] = np.nan
            >>> found = flm.FLMImputer().fit(X).impute(X, fitted=True)
            >>> bool((found.std[50:55] > 0).all())
            True
        """
        model, X = self._fitted.model, _plain(X)
        table = self._read(X, reset=False)
        units = self._fitted.units.suited(table)
        steps, values = units.standardized(table)
        missing = np.isnan(values)
        calibrations = model.own_calibrations if fitted else model.calibrations
        mean, std, kinds = values, np.zeros(values.shape), kinds_of(missing, steps)
        if missing.any():
            with one_thread():
                mean, deviation = model.fill(steps, values, kinds, self, self._listener())
            std = np.where(missing, np.array([found.factor for found in calibrations])[kinds] * deviation, 0.0)
        holes, outside = table.placed(missing), table.placed(self._outside(missing))
        if outside.any():
            self._report(int(outside.sum()))
        filled = np.where(holes, table.placed(units.back(mean)), table.everything)
        own = np.where(missing, units.back(mean + std) - units.back(mean - std), 0.0) / 2
        together = np.eye(holes.shape[1])
        together[np.ix_(table.columns, table.columns)] = model.together
        shape = X.shape if isinstance(X, np.ndarray) else holes.shape
        return Imputation(
            dressed(X, filled.reshape(shape), np.flatnonzero(holes.any(axis=0))),
            dressed(X, table.placed(own).reshape(shape), table.columns),
            holes.reshape(shape),
            outside.reshape(shape),
            table.times,
            table.placed(kinds).reshape(shape),
            calibrations,
            model.persistence,
            together,
            table.clock,
            Standardized(units, table.columns, table.placed(mean), table.placed(std)),
        )

    calibrations_ = property(attrgetter("_fitted.model.calibrations"), doc="Of other tables, by kind of hole.")
    model_ = property(attrgetter("_fitted.model"), doc="The fitted models of standardized tables.")

    def _check_options(self) -> None:
        methods = ("auto", *NAMES[:2])
        if self.method not in methods:
            raise InputError(f"`method` must be one of {', '.join(map(repr, methods))}; got {self.method!r}.")
        if self.extrapolation not in ("flag", "refuse"):
            raise InputError(f"`extrapolation` must be 'flag' or 'refuse'; got {self.extrapolation!r}.")
        if self.window is not None:
            check_count("window", self.window, 4)

    def _read(self, X: TableLike, *, reset: bool) -> Table:
        X = _plain(X)
        frame, samples = X.to_frame() if isinstance(X, pd.Series) else X, 1
        if isinstance(X, np.ndarray) and X.ndim == 3:
            samples, frame = len(X), X.reshape(-1, X.shape[2])
        numeric = numeric_copy(frame, self.time)
        if is_frame(numeric):
            _refuse_other_columns(numeric)
        values = self._numbers(numeric, reset=reset, allow_nan=True)
        check_size("X", values)
        table = read_table(frame, values, self.time)
        if samples == 1:
            return table
        # Samples are so far apart on the clock that no window or lag reaches from one to the next.
        length = len(values) // samples
        width = min(self.window or length, length)
        apart = width * (2 + length // width + _APART // width)
        rows = np.arange(len(values))
        return replace(table, times=table.times + (rows // length) * (apart - length))

    def _outside(self, missing: np.ndarray) -> np.ndarray:
        """Missing values before the first or after the last observation: that of any channel when channels are coupled."""
        seen = ~missing
        if self._fitted.model.coupled is not None:
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


def _plain(X: TableLike) -> TableLike:
    """Tables of polars and xarray as data frames; everything else unchanged."""
    try:
        return as_frame(X)  # pyright: ignore[reportReturnType]
    except ValueError:  # of xarray
        got = f"one of dimensions {tuple(X.sizes)}"  # pyright: ignore[reportAttributeAccessIssue]
        raise InputError(
            f"`X` must be a table of rows and columns; got {got}. Give `X.to_dataframe()` or a part."
        ) from None


def _refuse_other_columns(frame: pd.DataFrame) -> None:
    """Refuse columns of dates and texts in a data frame, with a message that names a way out."""
    for name, column in frame.items():
        if isinstance(column.dtype, pd.PeriodDtype | pd.DatetimeTZDtype) or column.dtype.kind in "mM":
            way_out = f"Give time={name!r} if it is the clock, else leave it out."
            raise InputError(
                f"`X` must have columns of numbers and one clock, `time`; got dates or durations in {name!r}. {way_out}"
            )
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        try:
            np.asarray(column.astype(object).dropna(), float)
        except ValueError as error:  # could not convert string to float: 'text'
            got = f"{str(error).partition(': ')[2]} in {name!r}"
            raise InputError(f"`X` must have columns of numbers; got {got}. Leave that column out.") from None
        except TypeError:  # objects, which scikit-learn refuses
            continue
