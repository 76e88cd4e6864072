"""FLMRegressor: a table in, a Fourier series with error bars out (scikit-learn)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from flm.estimators.evidence import compress
from flm.estimators.regressor.design import Design, fit_design
from flm.estimators.regressor.spectrum import Spectrum
from flm.estimators.regressor.wave_fit import WaveFit
from flm.estimators.table import check_size
from flm.numerics.least_squares import one_thread
from flm.wording import InputError


class FLMRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
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
        refine: variable projection of the frequencies; None: for lines only.
        ridge: penalty on the sum of squared coefficients of standardized outputs; None: by marginal likelihood.
        noise: standard deviation of the noise, in units of y, one number or one per output; None: by marginal likelihood.
        max_columns: most columns of the least-squares problem.

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

    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        num_subnets: int | None = None,
        *,
        frequencies: Any = "auto",
        interactions: int | None = None,
        period: Any = None,
        bounds: Any = None,
        refine: bool | None = None,
        ridge: float | None = None,
        noise: Any = None,
        max_columns: int = 512,
    ):
        self.num_subnets = num_subnets
        self.frequencies = frequencies
        self.interactions = interactions
        self.period = period
        self.bounds = bounds
        self.refine = refine
        self.ridge = ridge
        self.noise = noise
        self.max_columns = max_columns

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> FLMRegressor:
        """Fit to a table, or to an iterable of (X, y) or (X, y, sample_weight) chunks given as `X` alone."""
        if y is None and sample_weight is None:
            chunks = _as_chunks(X)
            if chunks is not None:
                return self._fit_chunks(chunks)
        X, y, weights = self._validated(X, y, sample_weight, reset=True)
        with one_thread():
            self._begin(X, y, weights, streaming=False)
            self._fit = self._design.solve(self._factor, self._count)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> FLMRegressor:
        """Absorb more rows; the first call fixes the scaling and the frequencies."""
        first = not hasattr(self, "_design")
        X, y, weights = self._validated(X, y, sample_weight, reset=first)
        with one_thread():
            if first:
                self._begin(X, y, weights, streaming=True)
            else:
                self._absorb(X, y, weights)
            self._fit = self._design.solve(self._factor, self._count)
        return self

    def _fit_chunks(self, chunks: Iterator[Any]) -> FLMRegressor:
        for attribute in ("_design", "_factor", "_count", "_fit"):
            self.__dict__.pop(attribute, None)
        for index, chunk in enumerate(chunks):
            if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
                raise InputError(
                    "`X` without `y` must be an iterable of (X, y) or (X, y, sample_weight) tuples; got "
                    f"{type(chunk).__name__} as item {index}."
                )
            X, y, weights = self._validated(*chunk, *([None] * (3 - len(chunk))), reset=index == 0)
            with one_thread():
                if index == 0:
                    self._begin(X, y, weights, streaming=True)
                else:
                    self._absorb(X, y, weights)
        if not hasattr(self, "_design"):
            raise InputError("`X` must hold at least one (X, y) chunk; got an empty iterable.")
        with one_thread():
            self._fit = self._design.solve(self._factor, self._count)
        return self

    def _validated(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        checked: Any = validate_data(self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True)
        X, y = checked
        check_size("X", X)
        check_size("y", y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():  # scikit-learn 1.6 lets them pass
            raise InputError("`sample_weight` must have at least one non-zero entry; got zeros only.")
        if reset:
            self._y_ndim = y.ndim
        y = y.reshape(len(y), -1).astype(np.float64)
        if not reset and y.shape[1] != len(self._design.gain):
            raise InputError(f"`y` must have {len(self._design.gain)} outputs, as before; got {y.shape[1]}.")
        # A row of weight zero is no row.
        if not weights.all():
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        return X, y, weights

    def _begin(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, *, streaming: bool) -> None:
        self._repeats = _mean_repeats(X, y, weights)
        weights = weights / self._repeats
        self._design, self._factor = fit_design(X, y, weights, self, streaming=streaming)
        self._count = float(weights.sum())

    def _absorb(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        design: Design = self._design
        weights = weights / self._repeats
        z = design.scale(X)
        beyond = (np.abs(z) > design.reach).any(axis=0)
        if beyond.any():
            j = int(np.argmax(beyond))
            low, high = design.scale.center - design.scale.halfwidth, design.scale.center + design.scale.halfwidth
            raise InputError(
                f"`X` must stay near the extent that fixed the frequencies, [{low[j]:.6g}, {high[j]:.6g}] for feature {j}; "
                f"got {X[:, j].min():.6g} to {X[:, j].max():.6g}. Give `bounds`, the extent of all rows to come."
            )
        # Frequencies are fixed from here on: what the first rows said of their errors no longer holds.
        self._design = replace(design, joint=None) if design.joint is not None else design
        values = (y - design.offset) / design.gain
        self._factor = compress(design.waves.columns, z, values, weights, design.waves.num_columns, self._factor)
        self._count += float(weights.sum())

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Values, and with `return_std` the standard deviations of a new observation at X (noise included)."""
        check_is_fitted(self, "_fit")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        fit: WaveFit = self._fit
        with one_thread():
            mean = self._shaped(fit.mean(X))
            return (mean, self._shaped(fit.std(X))) if return_std else mean

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self._y_ndim == 1 else values

    @property
    def _names(self) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        return tuple(names) if names is not None else tuple(f"x{j}" for j in range(self.n_features_in_))

    @property
    def spectrum_(self) -> Spectrum:
        """The lines, strongest first, with standard errors."""
        check_is_fitted(self, "_fit")
        return self._fit.spectrum(self._names)

    @property
    def series_(self) -> Any:
        """The fitted function as a series in units of X and y."""
        check_is_fitted(self, "_fit")
        return self._fit.series(_axes(self._names), phase_form=self.n_features_in_ <= 6)

    @property
    def frequencies_(self) -> np.ndarray:
        """Frequency vectors in radians per unit of X, (N, m)."""
        check_is_fitted(self, "_fit")
        return self._fit.frequencies

    @property
    def noise_(self) -> Any:
        """Standard deviation of the noise in units of y: a number, or one per output."""
        check_is_fitted(self, "_fit")
        noise = self._fit.gain * np.sqrt(self._fit.variance)
        return float(noise[0]) if self._y_ndim == 1 else noise

    @property
    def kind_(self) -> str:
        """Where the frequencies came from: "lines", "lattice" or "given"."""
        check_is_fitted(self, "_fit")
        return self._design.kind

    @property
    def log_evidence_(self) -> float:
        """Log marginal likelihood of the standardized outputs, of the rows that fixed the frequencies."""
        check_is_fitted(self, "_fit")
        return self._design.evidence

    def plot(self, X: Any = None, y: Any = None, **options: Any) -> Any:
        """The fit with its band over one feature; see `flm.report.figures.data.plot_fit`."""
        from flm.report.figures.data import plot_fit

        return plot_fit(self, X, y, **options)

    def _pack(self) -> dict[str, Any]:
        check_is_fitted(self, "_fit")
        names = getattr(self, "feature_names_in_", None)
        return {
            "parameters": self.get_params(deep=False),
            "num_features": int(self.n_features_in_),
            "names": None if names is None else [str(name) for name in names],
            "y_ndim": self._y_ndim,
            "design": self._design.pack(),
            "factor": self._factor,
            "count": self._count,
            "repeats": self._repeats,
            "fit": self._fit.pack(),
        }

    @classmethod
    def _unpack(cls, named: dict[str, Any]) -> FLMRegressor:
        self = cls(**named["parameters"])
        self.n_features_in_ = named["num_features"]
        if named["names"] is not None:
            self.feature_names_in_ = np.array(named["names"], dtype=object)
        self._y_ndim = named["y_ndim"]
        self._design = Design.unpack(named["design"])
        self._factor, self._count, self._repeats = named["factor"], named["count"], named["repeats"]
        self._fit = WaveFit.unpack(named["fit"])
        return self


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


def _axes(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Feature names as axis names where they can serve as such."""
    valid = all(name.isidentifier() for name in names) and len(set(names)) == len(names)
    return names if valid else None


def _as_chunks(X: Any) -> Iterator[Any] | None:
    """An iterator over chunks when X is not a table: an iterator, or a sequence of tuples that start with a matrix."""
    if (
        hasattr(X, "shape")
        or hasattr(X, "__array__")
        or hasattr(X, "__dataframe__")
        or isinstance(X, str | bytes | dict)
    ):
        return None
    if isinstance(X, Iterator):
        return X
    if not isinstance(X, Iterable):
        return None
    iterator = iter(X)
    first = next(iterator, None)
    if isinstance(first, tuple) and len(first) in (2, 3) and np.ndim(first[0]) == 2:
        return itertools.chain([first], iterator)
    return None
