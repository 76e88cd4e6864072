"""FLMRegressor: a table in, a Fourier series with error bars out (scikit-learn)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, validate_data

from flm.estimators.base import AbstractEstimator
from flm.estimators.evidence import Compressed
from flm.estimators.regressor.design import Design, Settings, fit_design
from flm.estimators.regressor.wave_fit import Spectrum, WaveFit
from flm.estimators.table import check_size
from flm.estimators.waves import Scale, Waves
from flm.numerics.least_squares import one_thread
from flm.results.progress import Progress
from flm.wording import InputError

if TYPE_CHECKING:
    from flm.series import ExponentialSeries, PhaseSeries

Table = npt.ArrayLike  # or a data frame
Chunks = Iterable[tuple[Table, ...]]  # (X, y) or (X, y, sample_weight)


@dataclass(frozen=True, eq=False)
class RegressorState:
    """What was learned from the rows so far."""

    design: Design  # what the first rows fixed
    data: Compressed  # all that is kept of the rows
    repeats: float  # weight per distinct row, by which weights are divided
    is_flat: bool  # whether outputs have one axis

    @cached_property
    def fit(self) -> WaveFit:
        """The function fitted, found when it is first asked for: a stream need not wait for it after every chunk."""
        with one_thread():
            return WaveFit.of(self.design, self.data)


@dataclass(eq=False, repr=False)
class FLMRegressor(MultiOutputMixin, RegressorMixin, AbstractEstimator[RegressorState]):
    """Regression by a finite nonharmonic Fourier series with a Gaussian posterior.

    f(x) = sum_n sum_i A_i cos((e_i * n) . x - phi_i): frequencies from a periodogram refined by variable projection
    ("lines"), or from a lattice over the data's extent ("lattice", a sparse-spectrum Gaussian process); amplitudes and
    phases by regularized least squares, ridge and noise by marginal likelihood, the number of frequencies by evidence.

    Args:
        num_subnets: number of frequency vectors N, the constant included; None: by evidence.
        frequencies: "auto" (one feature: lines or lattice, whichever has the larger evidence; more: lattice), "lines",
            "lattice", or an array (N, m) in radians per unit of X.
        interactions: most nonzero components of a frequency vector; None: all for up to six features, two beyond.
        period: after which the lattice repeats, in units of X, one number or one per feature (None where free). For a
            feature that is an angle or a time of day, its true period.
        bounds: the extent of X, (m, 2), where the first rows of a stream do not show it; None: that of the data.
        ridge: penalty on the sum of squared coefficients of standardized outputs; None: by marginal likelihood.
        noise: standard deviation of the noise, in units of y, one number or one per output; None: by marginal likelihood.
        max_columns: most columns of the least-squares problem.
        progress: False, True (lines on the standard output), or a function of one `flm.Progress` event, whose `share` of
            the work and `stage` say how far a fit is.

    Attributes:
        frequencies_: the frequency vectors in radians per unit of X, (N, m).
        noise_: standard deviation of the noise, per output.
        log_evidence_: log marginal likelihood of the standardized outputs.
        kind_: "lines", "lattice" or "given".
        series_: the fitted function as a `PhaseSeries`, beyond six features as an `ExponentialSeries`.
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
    noise: float | npt.ArrayLike | None = None
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
        """Fit to a table, or to an iterable of (X, y) or (X, y, sample_weight) chunks given as `X` alone."""
        chunks = _as_chunks(X) if y is None and sample_weight is None else None
        if chunks is None:
            self._absorb(X, y, sample_weight, first=True, streaming=False)
            return self
        first = True
        for index, chunk in enumerate(chunks):
            if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
                raise InputError(
                    "`X` without `y` must be an iterable of (X, y) or (X, y, sample_weight) tuples; got "
                    f"{type(chunk).__name__} as item {index}."
                )
            self._absorb(*chunk, first=first)
            first = False
        if first:
            raise InputError("`X` must hold at least one (X, y) chunk; got an empty iterable.")
        return self

    def partial_fit(self, X: Table, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> FLMRegressor:
        """Absorb more rows; the first call fixes the scaling and the frequencies."""
        self._absorb(X, y, sample_weight, first=not hasattr(self, "_state"))
        return self

    def _absorb(
        self,
        X: object,
        y: object,
        sample_weight: npt.ArrayLike | None = None,
        *,
        first: bool,
        streaming: bool = True,
    ) -> None:
        """Take in checked rows: the first ones fix the design."""
        rules = {"reset": first, "dtype": np.float64, "multi_output": True, "y_numeric": True}
        X, y = map(np.asarray, validate_data(self, X, y, **rules))  # pyright: ignore[reportArgumentType]
        check_size("X", X)
        check_size("y", y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():  # scikit-learn 1.6 lets them pass
            raise InputError("`sample_weight` must have at least one non-zero entry; got zeros only.")
        some = weights > 0  # a row of weight zero is no row
        X, outputs, weights = X[some], y.reshape(len(y), -1).astype(np.float64)[some], weights[some]
        with one_thread():
            if first:
                asked, repeats = Settings.of(self, X.shape[1], outputs.shape[1]), _mean_repeats(X, outputs, weights)
                listen = self._listener()
                design, data = fit_design(X, outputs, weights / repeats, asked, streaming=streaming, listen=listen)
                listen(Progress("fitted", share=1.0))
                self._state = RegressorState(design, data, repeats, y.ndim == 1)
            else:
                self._state = self._continued(X, outputs, weights)

    def _continued(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> RegressorState:
        state = self._state
        if y.shape[1] != state.data.num_outputs:
            raise InputError(f"`y` must have {state.data.num_outputs} outputs, as before; got {y.shape[1]}.")
        # Frequencies are fixed from here on: what the first rows said of their errors no longer holds.
        design = replace(state.design, joint=None)
        sample = design.sample(X, y, weights / state.repeats)
        beyond = (np.abs(sample.z) > design.reach).any(axis=0)
        if beyond.any():
            j = int(np.argmax(beyond))
            low, high = design.scale.center - design.scale.halfwidth, design.scale.center + design.scale.halfwidth
            raise InputError(
                f"`X` must stay near the extent that fixed the frequencies, [{low[j]:.6g}, {high[j]:.6g}] for feature {j}; "
                f"got {X[:, j].min():.6g} to {X[:, j].max():.6g}. Give `bounds`, the extent of all rows to come."
            )
        factor = sample.factor(design.waves.columns, design.waves.num_columns, state.data.factor)
        data = replace(state.data, factor=factor, count=state.data.count + sample.count)
        return replace(state, design=design, data=data)

    @overload
    def predict(self, X: Table, return_std: Literal[False] = False) -> np.ndarray: ...
    @overload
    def predict(self, X: Table, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...
    def predict(self, X: Table, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Values, and with `return_std` the standard deviations of a new observation at X (noise included)."""
        state = self._fitted
        table = self._numbers(X, reset=False)
        shaped = (lambda values: values[:, 0]) if state.is_flat else (lambda values: values)
        with one_thread():
            mean = shaped(state.fit.mean(table))
            return (mean, shaped(state.fit.std(table))) if return_std else mean

    @property
    def spectrum_(self) -> Spectrum:
        """The lines, strongest first, with standard errors."""
        return self._fitted.fit.spectrum(self._names)

    @property
    def series_(self) -> PhaseSeries | ExponentialSeries:
        """The fitted function as a series in units of X and y."""
        names = self._names  # axes where they can serve as such
        valid = all(name.isidentifier() for name in names) and len(set(names)) == len(names)
        return self._fitted.fit.series(names if valid else None, phase_form=self.n_features_in_ <= 6)

    @property
    def frequencies_(self) -> np.ndarray:
        """Frequency vectors in radians per unit of X, (N, m)."""
        return self._fitted.fit.frequencies

    @property
    def noise_(self) -> float | np.ndarray:
        """Standard deviation of the noise in units of y: a number, or one per output."""
        noise = self._fitted.design.gain * np.sqrt(self._fitted.fit.variance)
        return float(noise[0]) if self._fitted.is_flat else noise

    @property
    def kind_(self) -> str:
        """Where the frequencies came from: "lines", "lattice" or "given"."""
        return self._fitted.design.kind

    @property
    def log_evidence_(self) -> float:
        """Log marginal likelihood of the standardized outputs, of the rows that fixed the frequencies."""
        return self._fitted.design.evidence

    def plot(self, X: Table | None = None, y: npt.ArrayLike | None = None, *, feature: int | str = 0, output: int = 0):
        """The fitted curve over one feature with its 68 % and 95 % bands; with data, these and their residuals.

        Args:
            X: data to draw, and whose medians the other features are held at; else the middle of the fitted range.
            y: their outputs.
            feature: the feature on the axis, position or name.
            output: which of several outputs.
        """
        from flm.report.figures.data import plot_fit

        return plot_fit(self, X, y, feature=feature, output=output)

    @classmethod
    def _state_of_format_1(cls, named: dict) -> RegressorState:
        old = named["design"]
        waves = Waves(**{f.name: old[f"waves_{f.name}"] for f in fields(Waves)})
        plain = {f.name: old[f.name] for f in fields(Design) if f.name in old}
        design = Design(scale=Scale(old["center"], old["halfwidth"]), waves=waves, **plain)
        data = Compressed(named["factor"], len(design.gain), named["count"], old["known_noise"])
        return RegressorState(design, data, named["repeats"], named["y_ndim"] == 1)


def _mean_repeats(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Weight per distinct row of X where repeats carry no noise: equal X with equal y throughout; else one.

    Equal rows are found by one number each, a projection on a fixed direction with no rational relations.
    """
    direction = np.sqrt(np.arange(X.shape[1]) + 2.0) % 1 + 0.5
    spread = np.ptp(X, axis=0)
    key = ((X - X.min(axis=0)) / np.where(spread > 0, spread, 1.0)) @ direction
    order = np.argsort(key, kind="stable")
    same = np.diff(key[order]) == 0
    if same.any() and (np.diff(y[order], axis=0)[same] != 0).any():
        return 1.0
    return float(weights.sum() / (len(key) - same.sum()))


def _as_chunks(X: object) -> Iterator[object] | None:
    """An iterator over chunks when X is not a table: an iterator, or a sequence of tuples that start with a matrix."""
    if isinstance(X, Iterator):
        return X
    is_table = any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__"))
    if is_table or not isinstance(X, Iterable) or isinstance(X, str | bytes | dict):
        return None
    iterator = iter(X)
    first = next(iterator, None)
    if isinstance(first, tuple) and len(first) in (2, 3) and np.ndim(first[0]) == 2:
        return itertools.chain([first], iterator)
    return None
