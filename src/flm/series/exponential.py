"""The exponential form of a nonharmonic Fourier series, its merging of equal waves, and numpy's FFT."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Complex, Float

from flm.series.arrays import (
    Along,
    Scalar,
    as_box,
    as_floats,
    axis_indices,
    device,
    host,
    joined,
    per_row,
    upper_half,
)
from flm.series.calculus import AbstractSeries, Waves
from flm.series.forms import PhaseSeries, SeparableSeries, check_inputs
from flm.wording import InputError, check_count


class ExponentialSeries(AbstractSeries):
    """The complex exponential form: sum_k c_k exp(i k . x) (paper, Eq. 4).

    A series whose coefficients come in conjugate pairs is real, and so are its values.

    Args:
        frequencies: one row of m components per term, in radians per unit of x.
        coefficients: complex; a last axis holds several outputs.
        axes: names of the inputs.
        is_real: whether the coefficients come in conjugate pairs; found out when not given (inside `jit`, give it).

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
        if len(self.frequencies) != len(self.coefficients):
            raise InputError(
                f"`coefficients` must have one row per frequency; got {self.coefficients.shape} for frequencies of "
                f"shape {self.frequencies.shape}."
            )
        self.axes = self._checked_axes(axes)
        if is_real is None:
            is_real = _is_real(np.asarray(self.frequencies), np.asarray(self.coefficients))
        self.is_real = is_real

    def _waves(self) -> Waves:
        xp, (k, c) = host(self.frequencies, self.coefficients)
        if self.is_real:  # the pairs' imaginary parts cancel: Re[c exp(i theta)] = Re c cos theta - Im c sin theta
            return Waves(k, xp.real(c), -xp.imag(c))
        return Waves(k, c, 1j * c)

    @property
    def _outputs(self) -> tuple[int, ...]:
        return self.coefficients.shape[1:]

    def _constant(self, value: Scalar) -> ExponentialSeries:
        xp, (value,) = host(value)
        c = xp.full((1, *self._outputs), value, self.coefficients.dtype)
        zero = np.zeros((1, self.num_inputs), self.frequencies.dtype)
        return ExponentialSeries(zero, c, self.axes, is_real=not np.iscomplexobj(value))

    def merged(self) -> ExponentialSeries:
        """The same function with equal frequency vectors merged, sorted, zeros kept."""
        k, c = _merge(np.asarray(self.frequencies), np.asarray(self.coefficients))
        return ExponentialSeries(k, c, self.axes)

    def nonzero(self) -> ExponentialSeries:
        """The same function without the waves whose coefficients vanish."""
        k, c = np.asarray(self.frequencies), np.asarray(self.coefficients)
        rows = (c.reshape(len(c), -1) != 0).any(axis=1)
        return ExponentialSeries(k[rows], c[rows], self.axes, is_real=self.is_real)

    def phase(self) -> PhaseSeries:
        """The same (real) function as phase-shifted cosines, one sub-network per vector of absolute frequencies."""
        m = self.num_inputs
        check_inputs(m)
        if not self.is_real:
            raise InputError("the series must be real to have a phase form: c(-k) = conj c(k); got one that is not.")
        k, c = _merge(np.asarray(self.frequencies), np.asarray(self.coefficients))
        rows = upper_half(k)
        k, c = k[rows], c[rows]
        n, group = np.unique(np.abs(k), axis=0, return_inverse=True)
        # Row of the sign matrix with e * n = k: here k_1 >= 0, and a zero component leaves its sign free: +1.
        row = (k[:, 1:] < 0) @ 2 ** np.arange(m - 1)[::-1]
        double = per_row(np.where((k == 0).all(axis=1), 1, 2), c)
        C = np.zeros((len(n), 2 ** (m - 1), *c.shape[1:]), np.finfo(c.dtype).dtype)
        S = np.zeros_like(C)
        C[group.ravel(), row] = double * np.real(c)
        S[group.ravel(), row] = -double * np.imag(c)
        return PhaseSeries.from_linear(n, C, S, self.axes)

    def separable(self) -> SeparableSeries:
        """The same (real) function in products of sines and cosines."""
        return self.phase().separable()

    def exponential(self) -> ExponentialSeries:
        """This series."""
        return self

    def d(self, axes: Along) -> ExponentialSeries:
        """The partial derivative along the given axes: `.d("xx")`, `.d((0, 0))`."""
        _, (k, c) = host(self.frequencies, self.coefficients)
        for j in axis_indices(axes, self.axes, self.num_inputs):
            c = c * per_row(1j * k[:, j], c)
        return ExponentialSeries(self.frequencies, c, self.axes, is_real=self.is_real)

    def _scaled(self, factor: Scalar) -> ExponentialSeries:
        _, (c, factor) = host(self.coefficients, factor)
        real = self.is_real and not np.iscomplexobj(factor)
        return ExponentialSeries(self.frequencies, c * factor.astype(c.dtype), self.axes, is_real=real)

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
        return ExponentialSeries(self.frequencies, c * per_row(turn, c), self.axes, is_real=self.is_real)

    def truncate(self, n: int) -> ExponentialSeries:
        """The n largest waves; of a real series n cosines, each a pair of conjugate waves."""
        check_count("n", n)
        k, c = _merge(np.asarray(self.frequencies), np.asarray(self.coefficients))
        if self.is_real:
            rows = upper_half(k)
            k, c = k[rows], c[rows]
        weight = np.abs(c).reshape(len(c), -1).max(axis=1) * np.where((k == 0).all(axis=1), 0.5, 1.0)
        rows = np.argsort(-weight, kind="stable")[:n]
        k, c = k[rows], c[rows]
        if self.is_real:
            pair = (k != 0).any(axis=1)
            k, c = np.concatenate([k, -k[pair]]), np.concatenate([c, c[pair].conj()])
        return ExponentialSeries(k, c, self.axes)

    @classmethod
    def from_fft(
        cls, coefficients: npt.ArrayLike, bounds: npt.ArrayLike, axes: Sequence[str] | None = None
    ) -> ExponentialSeries:
        """The trigonometric interpolant whose samples have the given `numpy.fft.fftn`.

        Sample j of an axis with n points on (lower, upper) stands at lower + (upper - lower) j / n. The Nyquist term of
        an even n is shared by +n/2 and -n/2, so that the interpolant of real samples is real.
        """
        c = np.asarray(coefficients, complex)
        box = as_box(bounds, c.ndim, "bounds")
        c = c / c.size
        k = []
        for axis, ((lower, upper), n) in enumerate(zip(box, c.shape, strict=True)):
            c = np.fft.fftshift(c, axes=axis)
            if n % 2 == 0:
                nyquist = np.take(c, [0], axis=axis) / 2
                rest = np.take(c, np.arange(1, n), axis=axis)
                c = np.concatenate([nyquist, rest, nyquist], axis=axis)
            integers = np.arange(c.shape[axis]) - n // 2
            k.append(2 * np.pi / (upper - lower) * integers)
            turn = np.exp(-1j * k[-1] * lower)
            c = c * turn.reshape([-1 if a == axis else 1 for a in range(c.ndim)])
        frequencies = np.stack([g.ravel() for g in np.meshgrid(*k, indexing="ij")], axis=1)
        return cls(frequencies, c.ravel(), axes)

    def to_fft(self, shape: int | Sequence[int], bounds: npt.ArrayLike) -> np.ndarray:
        """`numpy.fft.fftn` of the samples of this harmonic series on the grid of `from_fft`."""
        if self._outputs:
            raise InputError(f"`to_fft` needs a series with one output; got {self._outputs[0]}.")
        counts = tuple(int(n) for n in np.atleast_1d(shape))
        if len(counts) != self.num_inputs:
            raise InputError(f"`shape` must give a number of points for {self.num_inputs} axes; got {shape!r}.")
        box = as_box(bounds, self.num_inputs, "bounds")
        k = np.asarray(self.frequencies) * (box[:, 1] - box[:, 0]) / (2 * np.pi)
        integers = np.rint(k)
        if np.abs(k - integers).max(initial=0) > 1e-9 * max(1.0, np.abs(k).max(initial=0)):
            raise InputError(
                "the series must be harmonic on `bounds`: its frequencies are not multiples of 2 pi / width."
            )
        highest = np.abs(integers).max(axis=0, initial=0).astype(int)
        if (2 * highest > np.array(counts)).any():
            raise InputError(f"`shape` must hold twice the highest harmonic; got {counts} for {highest}.")
        turned = np.asarray(self.coefficients) * np.exp(1j * np.asarray(self.frequencies) @ box[:, 0])
        out = np.zeros(counts, complex)
        np.add.at(out, tuple(integers.astype(int).T), turned * out.size)
        return out


def _merge(k: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equal frequency vectors added up; rows sorted lexicographically."""
    unique, group = np.unique(k + 0.0, axis=0, return_inverse=True)  # + 0.0: no negative zeros
    total = np.zeros((len(unique), *c.shape[1:]), c.dtype)
    np.add.at(total, group.ravel(), c)
    return unique, total


def _is_real(k: np.ndarray, c: np.ndarray) -> bool:
    """Whether c(-k) is the conjugate of c(k) to rounding."""
    _, difference = _merge(np.concatenate([k, -k]), np.concatenate([c, -c.conj()]))
    return bool((np.abs(difference) <= 100 * np.finfo(c.dtype).eps * np.abs(c).max(initial=0)).all())
