"""The exponential form of a nonharmonic Fourier series, and the merging of equal waves."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Complex, Float

from flm.series.arrays import Along, Scalar, as_floats, axis_indices, device, host, joined, per_row, upper_half
from flm.series.calculus import AbstractSeries, Waves
from flm.series.forms import PhaseSeries, check_inputs
from flm.wording import InputError, check_count


class ExponentialSeries(AbstractSeries):
    """The complex exponential form: sum_k c_k exp(i k . x) (paper, Eq. 4).

    A series whose coefficients come in conjugate pairs is real, and so are its values.

    Args:
        frequencies: one row of m components per term, in radians per unit of x.
        coefficients: complex; a last axis holds several outputs.
        axes: names of the inputs.
        is_real: whether the coefficients come in conjugate pairs; determined from them when not given (inside `jit`, give it).

    Example:
        >>> cosine = ExponentialSeries([[3.0], [-3.0]], [0.5, 0.5], axes="x")
        >>> cosine.is_real, float(cosine(0.0))
        (True, 1.0)
        >>> float(cosine.d("xx")(0.0))
        -9.0
    """

    frequencies: Float[Array, "T m"]
    coefficients: Complex[Array, "T *K"]
    axes: tuple[str, ...] | None = eqx.field(static=True)
    is_real: bool = eqx.field(static=True)

    def __init__(
        self,
        frequencies: npt.ArrayLike,
        coefficients: npt.ArrayLike,
        axes: Sequence[str] | None = None,
        *,
        is_real: bool | None = None,
    ):
        self.frequencies = as_floats("frequencies", frequencies, (2,))
        _, (c,) = host(as_floats("coefficients", coefficients, (1, 2), may_be_complex=True))
        self.coefficients = device(c.astype(jnp.result_type(c.dtype, jnp.complex64)))
        if len(self.frequencies) != len(c):
            raise InputError(
                f"`coefficients` must have one row per frequency; got {c.shape} for frequencies of shape "
                f"{self.frequencies.shape}."
            )
        self.axes = self._checked_axes(axes)
        if is_real is None:  # whether c(-k) is the conjugate of c(k) to rounding
            k, c = np.asarray(self.frequencies), np.asarray(self.coefficients)
            _, difference = _merge(np.concatenate([k, -k]), np.concatenate([c, -c.conj()]))
            is_real = bool((np.abs(difference) <= 100 * np.finfo(c.dtype).eps * np.abs(c).max(initial=0)).all())
        self.is_real = is_real

    @classmethod
    def of_cosines(cls, k: np.ndarray, c: np.ndarray, axes: Sequence[str] | None = None) -> ExponentialSeries:
        """The real series Re sum_k c_k exp(i k . x), whose cosines have amplitude |c_k|."""
        return cls(np.concatenate([k, -k]), np.concatenate([c, c.conj()]) / 2, axes).merged()

    def _waves(self) -> Waves:
        xp, (k, c) = host(self.frequencies, self.coefficients)
        if self.is_real:  # the pairs' imaginary parts cancel: Re[c exp(i theta)] = Re c cos theta - Im c sin theta
            return Waves(k, xp.real(c), -xp.imag(c))
        return Waves(k, c, 1j * c)

    @property
    def _outputs(self) -> tuple[int, ...]:
        return self.coefficients.shape[1:]

    def merged(self) -> ExponentialSeries:
        """The same function with equal frequency vectors merged, sorted, zeros kept."""
        k, c = _merge(np.asarray(self.frequencies), np.asarray(self.coefficients))
        return ExponentialSeries(k, c, self.axes)

    def nonzero(self) -> ExponentialSeries:
        """The same function without the waves whose coefficients vanish."""
        k, c = np.asarray(self.frequencies), np.asarray(self.coefficients)
        rows = c.any(axis=tuple(range(1, c.ndim)))
        return self._with(frequencies=device(k[rows]), coefficients=device(c[rows]))

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        """Wave vectors and coefficients, equal waves merged, largest first; a real series has 2 c for each conjugate pair."""
        k, c = np.asarray(self.frequencies), np.asarray(self.coefficients)
        if self.is_real:  # c exp(i k . x) and conj c exp(-i k . x) have the same real part
            upper = upper_half(k)
            k, c = np.where(upper[:, None], k, -k), np.where(per_row(upper, c), c, c.conj())
        k, c = _merge(k, c)
        order = np.argsort(-np.abs(c).max(axis=tuple(range(1, c.ndim)), initial=0.0), kind="stable")
        return k[order], c[order]

    def phase(self) -> PhaseSeries:
        """The same (real) function as phase-shifted cosines, one sub-network per vector of absolute frequencies."""
        m = self.num_inputs
        check_inputs(m)
        if not self.is_real:
            raise InputError("the series must be real to have a phase form: c(-k) = conj c(k); got one that is not.")
        k, c = self.largest()
        n, group = np.unique(np.abs(k), axis=0, return_inverse=True)
        # The row of the sign matrix with e * n = k. Here k_1 >= 0; a zero component leaves its sign free, and +1 is taken.
        row = (k[:, 1:] < 0) @ 2 ** np.arange(m - 1)[::-1]
        C = np.zeros((len(n), 2 ** (m - 1), *c.shape[1:]), np.finfo(c.dtype).dtype)
        S = np.zeros_like(C)
        C[group.ravel(), row], S[group.ravel(), row] = np.real(c), -np.imag(c)
        return PhaseSeries.from_linear(n, C, S, self.axes)

    def exponential(self) -> ExponentialSeries:
        """This series."""
        return self

    def d(self, axes: Along) -> ExponentialSeries:
        """The partial derivative along the given axes: `.d("xx")`, `.d((0, 0))`."""
        _, (k, c) = host(self.frequencies, self.coefficients)
        for j in axis_indices(axes, self.axes, self.num_inputs):
            c = c * per_row(1j * k[:, j], c)
        return self._with(coefficients=c)

    def _scaled(self, factor: Scalar, name: str = "factor") -> ExponentialSeries:
        return super()._scaled(factor, name)._with(is_real=self.is_real and not np.iscomplexobj(factor))

    def _plus(self, other: AbstractSeries) -> ExponentialSeries:
        same = other.exponential()
        both = joined(self.frequencies, same.frequencies), joined(self.coefficients, same.coefficients)
        return ExponentialSeries(*both, self.axes, is_real=True if self.is_real and same.is_real else None)

    def _like(self, other: AbstractSeries) -> ExponentialSeries:
        return other.exponential()

    def shift(self, offset: npt.ArrayLike) -> ExponentialSeries:
        """The function x -> f(x - offset)."""
        xp, (k, c, offset) = host(self.frequencies, self.coefficients, offset)
        turn = xp.exp(-1j * (k * offset.astype(k.dtype)).sum(axis=1))
        return self._with(coefficients=c * per_row(turn, c))

    def truncate(self, n: int) -> ExponentialSeries:
        """The n largest waves; for a real series, n cosines, each a pair of conjugate waves."""
        check_count("n", n)
        k, c = (values[:n] for values in self.largest())
        if self.is_real:
            return ExponentialSeries.of_cosines(k, c, self.axes)
        return ExponentialSeries(k, c, self.axes)


def _merge(k: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equal frequency vectors added up; rows sorted lexicographically."""
    unique, group = np.unique(k + 0.0, axis=0, return_inverse=True)  # + 0.0: no negative zeros
    total = np.zeros((len(unique), *c.shape[1:]), c.dtype)
    np.add.at(total, group.ravel(), c)
    return unique, total
