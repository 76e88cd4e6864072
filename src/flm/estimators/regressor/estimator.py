"""FLMRegressor: fits a Fourier series with error bars to a table (scikit-learn)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, validate_data

from flm.estimators.base import AbstractEstimator
from flm.estimators.regressor.cluster import fit_blocks, is_dask
from flm.estimators.regressor.search import first_fit
from flm.estimators.regressor.settings import (
    Settings,
    as_chunks,
    as_features,
    as_outputs,
    clock_step,
    mean_repeats,
    refuse_holes,
)
from flm.estimators.regressor.wave_fit import Spectrum, WaveFit
from flm.estimators.table import Feature, check_size, encoded, features_of, is_frame
from flm.numerics.least_squares import one_thread
from flm.results.progress import Progress
from flm.wording import InputError, check_count

if TYPE_CHECKING:
    import pandas as pd

    from flm.series import ExponentialSeries, PhaseSeries

Table = npt.ArrayLike  # or a data frame
Chunks = Iterable[tuple[Table, ...]]  # (X, y) or (X, y, sample_weight)


@dataclass(frozen=True, eq=False)
class RegressorState:
    """What was learned from the rows so far."""

    fit: WaveFit
    repeats: float  # weight per distinct row, by which weights are divided
    is_flat: bool  # whether outputs have one axis
    features: tuple[Feature, ...] = ()  # how columns that are not numbers become numbers
    target: str = ""  # the name of the output, where it has one
    step: float = 1.0  # of the clock of a series
    last: float | None = None  # of the rows of one feature; older files: the end of the fitted extent
    targets: tuple[str, ...] = ()  # the names of the outputs, where they are columns of a data frame

    def shaped(self, by_output: np.ndarray) -> np.ndarray:
        """An array with the outputs on its last axis, in the shape in which the outputs came."""
        return by_output[..., 0] if self.is_flat else by_output


@dataclass(eq=False, repr=False)
class FLMRegressor(MultiOutputMixin, RegressorMixin, AbstractEstimator[RegressorState]):
    """Regression by a finite nonharmonic Fourier series with a Gaussian posterior.

    f(x) = sum_n sum_i A_i cos((e_i * n) . x - phi_i): frequencies from a periodogram refined by variable projection
    ("lines"), or from a lattice over the data's extent ("lattice", a sparse-spectrum Gaussian process); amplitudes and
    phases by regularized least squares, ridge and noise by marginal likelihood, the number of frequencies by evidence.

    Args:
        num_subnets: number of frequency vectors N, the constant included; None chooses by evidence.
        frequencies: "auto" (one feature: lines or lattice, whichever has the larger evidence; more: lattice), "lines",
            "lattice", or an array (N, m) in radians per unit of X.
        interactions: largest number of nonzero components of a frequency vector; None: all for up to six features, else two.
        period: length after which the lattice repeats, in units of X, one number or one per feature (None where free). For a
            feature that is an angle or a time of day, its true period.
        bounds: the extent of X, (m, 2), where the first rows of a stream do not show it; None takes that of the data.
        ridge: penalty on the sum of squared coefficients of standardized outputs; None: by marginal likelihood.
        noise: standard deviation of the noise, in units of y, one number or one per output; None: by marginal likelihood.
            Or what kind of noise: "white", "ar1" (correlated from tick to tick of a clock; lines of one feature), "student"
            (heavy-tailed: outliers count less) or "growing" (its deviation changes with the features and the level). None: the
            kind of largest evidence.
        trend: "linear" or "quadratic" polynomials of every feature beside the waves, None, or "auto": by evidence with one
            feature, none with more.
        max_columns: largest number of columns of the least-squares problem.
        progress: False, True (lines on the standard output), or a function of one `flm.Progress` event, whose `share` of
            the work and `stage` say how far a fit is.

    Attributes:
        frequencies_: the frequency vectors in radians per unit of X, (N, m).
        noise_: standard deviation of the noise, per output.
        correlation_: correlation of the noise from one tick of the clock to the next.
        log_evidence_: log marginal likelihood of the standardized outputs.
        kind_: "lines", "lattice", "both" (lines and a lattice in one model) or "given".
        noise_kind_: "white", "ar1", "student" or "growing".
        trend_: coefficients of the trend in powers of X, for one feature.
        series_: the fitted function, without the powers of a trend, as a `PhaseSeries`, beyond six features as an
            `ExponentialSeries`.
        spectrum_: the lines with frequency, period, amplitude, phase and standard errors.

    Sample weights act as repeats: a row of weight two counts as two equal rows. Where equal X always come with equal y,
    repeats say nothing about the noise, and weights (and repeats) are taken as relative: otherwise a resampled or a
    weighted table would look free of noise. Memory is bounded by `max_columns`,
    not by the number of rows: rows are absorbed into a triangular factor in blocks, through `fit`, `partial_fit`, or
    `fit` on an iterable of (X, y) or (X, y, sample_weight) chunks, whose first chunk fixes the frequencies.

    Example:
        >>> import numpy as np, flm
        >>> X = np.linspace(0, 10, 200)[:, None]
        >>> model = flm.FLMRegressor().fit(X, np.sin(3 * X[:, 0]))
        >>> round(float(model.spectrum_.frequency[0, 0]), 6)
        3.0
    """

    num_subnets: int | None = None
    _: KW_ONLY
    frequencies: str | npt.ArrayLike = "auto"
    interactions: int | None = None
    period: float | Sequence[float | None] | None = None
    bounds: npt.ArrayLike | None = None
    ridge: float | None = None
    noise: float | str | npt.ArrayLike | None = None
    trend: str | None = "auto"
    max_columns: int = 512
    progress: bool | Callable[[Progress], object] = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self, X: Table | Chunks, y: npt.ArrayLike | None = None, sample_weight: npt.ArrayLike | None = None
    ) -> FLMRegressor:
        """Fit to a table, or to an iterable of (X, y) or (X, y, sample_weight) chunks given as `X` alone.

        Arrays and data frames of Dask are fitted block by block where they lie, without weights.
        """
        if is_dask(X):
            if sample_weight is not None:
                raise InputError("`sample_weight` must be None for tables of Dask; got weights.")
            self._state = fit_blocks(self, X, y)
            return self
        chunks = as_chunks(X) if y is None and sample_weight is None else None
        if chunks is None:
            self._absorb(X, y, sample_weight, first=True, streaming=False)
            return self
        index = -1
        for index, chunk in enumerate(chunks):
            if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
                raise InputError(
                    "`X` without `y` must be an iterable of (X, y) or (X, y, sample_weight) tuples; got "
                    f"{type(chunk).__name__} as item {index}."
                )
            self._absorb(*chunk, first=index == 0)
        if index < 0:
            raise InputError("`X` must hold at least one (X, y) chunk; got an empty iterable.")
        return self

    def partial_fit(self, X: Table, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> FLMRegressor:
        """Absorb more rows; the first call fixes the scaling and the frequencies."""
        self._absorb(X, y, sample_weight, first=not hasattr(self, "_state"))
        return self

    def _absorb(
        self, X: object, y: object, given: npt.ArrayLike | None = None, *, first: bool, streaming: bool = True
    ) -> None:
        """Absorb checked rows; the first ones fix the frequencies."""
        X, y = as_features(X), as_outputs(y)
        features = features_of(X) if first else self._state.features
        target, targets = str(getattr(y, "name", None) or ""), tuple(map(str, y.columns)) if is_frame(y) else ()
        X = encoded(X, features)
        refuse_holes(X)
        refuse_holes(y, "y")
        rules = {"reset": first, "dtype": np.float64, "multi_output": True, "y_numeric": True}
        X, y = map(np.asarray, validate_data(self, X, y, **rules))  # pyright: ignore[reportArgumentType]
        check_size("X", X)
        check_size("y", y)
        weights = _check_sample_weight(given, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():  # scikit-learn 1.6 lets such weights pass
            raise InputError("`sample_weight` must have at least one non-zero entry; got zeros only.")
        some = weights > 0  # a row of weight zero is no row
        X, outputs, weights = X[some], y.reshape(len(y), -1).astype(np.float64)[some], weights[some]
        if first and len(X) < 2:
            raise InputError(
                "`X` must have at least two rows, as one says nothing about errors; got 1 sample. Add rows."
            )
        with one_thread():
            if not first:
                self._state = self._continued(X, outputs, weights)
                return
            asked, repeats = Settings.of(self, X.shape[1], outputs.shape[1]), mean_repeats(X, outputs, weights)
            listen = self._listener()
            fit = first_fit(X, outputs, weights / repeats, asked, streaming=streaming, listen=listen)
            listen(Progress("fitted", share=1.0))
            clock = clock_step(X), float(X[:, 0].max())
            self._state = RegressorState(fit, repeats, y.ndim == 1, features, target, *clock, targets)

    def _continued(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> RegressorState:
        state, model = self._state, self._state.fit.model
        if y.shape[1] != model.data.num_outputs:
            raise InputError(f"`y` must have {model.data.num_outputs} outputs, as before; got {y.shape[1]}.")
        state.fit.refuse_beyond(X.min(axis=0), X.max(axis=0))
        sample = state.fit.sample(X, y, weights / state.repeats)
        factor = sample.factor(model.waves.blocks(), model.waves.num_columns, model.data.factor)
        data = replace(model.data, factor=factor, count=model.data.count + sample.count)
        last = None if state.last is None else max(state.last, float(X[:, 0].max()))
        return replace(state, fit=replace(state.fit, model=model.with_rows(data)), last=last)

    @overload
    def predict(self, X: Table, return_std: Literal[False] = False) -> np.ndarray: ...
    @overload
    def predict(self, X: Table, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...
    def predict(self, X: Table, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Values, and with `return_std` the standard deviations of a new observation at X (noise included)."""
        state = self._fitted
        table = self.numbers(X)
        with one_thread():
            mean = state.shaped(state.fit.mean(table))
            return (mean, state.shaped(state.fit.std(table))) if return_std else mean

    def forecast(self, horizon: int | None = None, *, until: object = None, level: float = 0.95) -> pd.DataFrame:
        """Forecasts for the steps of the clock after the last row: means, standard deviations and a band.

        Args:
            horizon: how many steps.
            until: the time of the last step, instead of `horizon`: a date for a clock of dates, else a number.
            level: the level of the band between `lower` and `upper`.

        Returns:
            A data frame by time; columns of several outputs carry their name or number.

        Example:
            >>> import numpy as np, pandas as pd, flm
            >>> days = pd.date_range("2024-01-01", periods=120)
            >>> y = 5 + np.sin(np.arange(120) * 2 * np.pi / 7) + 0.1 * np.random.default_rng(0).normal(size=120)
            >>> ahead = flm.FLMRegressor().fit(days, y).forecast(until="2024-05-07")
            >>> str(ahead.index[-1].date()), list(ahead.columns)
            ('2024-05-07', ['mean', 'std', 'lower', 'upper'])
        """
        import pandas as pd
        from scipy.special import ndtri

        state = self._fitted
        if self.n_features_in_ != 1:
            raise InputError(f"`forecast` must have one feature, the clock; got {self.n_features_in_}. Use `predict`.")
        if not 0 < level < 1 or (horizon is None) == (until is None):
            raise InputError("`forecast` must get `horizon` or `until`, and a `level` between 0 and 1.")
        clock = state.features[0] if state.features else Feature(self._names[0])
        last = float((state.fit.inputs.center + state.fit.inputs.halfwidth)[0]) if state.last is None else state.last
        if horizon is None:
            try:
                end = pd.Series([until])
                at = clock.numbers(pd.Series(pd.to_datetime(end)) if clock.kind == "date" else end)[0, 0]
            except (ValueError, TypeError) as error:
                if isinstance(error, InputError):
                    raise InputError(str(error).replace("`X`", "`until`")) from None
                wanted = {"date": "a date", "duration": "a duration"}.get(clock.kind, "a number")
                raise InputError(f"`until` must be {wanted}, as the clock is; got {until!r}.") from None
            most = max(int((at - last) / state.step), 0) + 2
            times = clock.ahead(last, state.step, most + most // 12)
            times = times[times <= at + 1e-6 * state.step]
            if not len(times):
                end = clock.back(np.array([last]))[0]
                raise InputError(f"`until` must be after the last row, {end}; got {until!r}.")
        else:
            times = clock.ahead(last, state.step, check_count("horizon", horizon, 1))
        with one_thread():
            mean, std = state.fit.mean(times[:, None]), state.fit.std(times[:, None])
        half = float(ndtri((1 + level) / 2)) * std
        parts = {"mean": mean, "std": std, "lower": mean - half, "upper": mean + half}
        label = lambda name, k: name if state.is_flat else f"{name}[{state.targets[k] if state.targets else k}]"
        columns = {label(name, k): column for name, part in parts.items() for k, column in enumerate(part.T)}
        return pd.DataFrame(columns, index=clock.back(times).rename(clock.name))

    def numbers(self, X: object) -> np.ndarray:
        """The table as it is fitted, (n, m): clocks in units from their first row, categories as columns of zeros and ones."""
        table = encoded(as_features(X), self._fitted.features)
        refuse_holes(table)
        return self._numbers(table, reset=False)

    @property
    def input_names_(self) -> tuple[str, ...]:
        """Names of the columns that `fit` was given."""
        return tuple(feature.name for feature in self._fitted.features) or self._names

    @property
    def spectrum_(self) -> Spectrum:
        """The lines with standard errors, strongest first."""
        units = tuple(feature.unit for feature in self._fitted.features for _ in feature.names)
        return self._fitted.fit.spectrum(self._names, units)

    @property
    def series_(self) -> PhaseSeries | ExponentialSeries:
        """The fitted function as a series in units of X and y."""
        names = self._names  # used as axes where they can be
        valid = all(name.isidentifier() for name in names) and len(set(names)) == len(names)
        return self._fitted.fit.series(names if valid else None, phase_form=self.n_features_in_ <= 6)

    frequencies_ = property(attrgetter("_fitted.fit.frequencies"), doc="Radians per unit of X, (N, m).")
    kind_ = property(attrgetter("_fitted.fit.model.kind"), doc="Where the frequencies came from.")
    correlation_ = property(attrgetter("_fitted.fit.model.noise.rho"), doc="Of the noise from tick to tick.")
    noise_kind_ = property(attrgetter("_fitted.fit.model.noise.kind"), doc="What the noise is.")
    log_evidence_ = property(attrgetter("_fitted.fit.model.evidence"), doc="Of the rows that fixed the frequencies.")

    @property
    def noise_(self) -> float | np.ndarray:
        """Standard deviation of the noise in units of y: a number, or one per output."""
        fit = self._fitted.fit
        noise = self._fitted.shaped(fit.outputs.halfwidth * np.sqrt(fit.model.noise_variance))
        return float(noise) if self._fitted.is_flat else noise

    @property
    def trend_(self) -> np.ndarray:
        """Coefficients of the trend in powers of X, from the constant on: (degree + 1,), (…, K) for several outputs.

        There must be one feature. The fitted function is the sum of `series_` and these powers.
        """
        if self.n_features_in_ != 1:
            raise InputError(f"`trend_` must have one feature; got {self.n_features_in_}. Use `predict`.")
        return self._fitted.shaped(self._fitted.fit.trend())

    def plot(self, X: Table | None = None, y: npt.ArrayLike | None = None, *, feature: int | str = 0, output: int = 0):
        """A figure of the fitted curve over one feature with its 68 % and 95 % bands; with data, also these and their residuals.

        Args:
            X: data to draw; other features are held at their medians, without data at the middle of the fitted range.
            y: the outputs of X.
            feature: the feature on the axis, position or name.
            output: which of several outputs.
        """
        from flm.report.figures.data import plot_fit

        return plot_fit(self, X, y, feature=feature, output=output)
