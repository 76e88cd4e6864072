"""The three forms of a nonharmonic Fourier series, and the exact conversions between them.

Conventions (N sub-networks, m inputs, l = 2^(m-1) cosines per sub-network, K outputs when there is a last axis):

    phase        sum_n sum_i A_i cos((e_i * n) . x - phi_i),  e_i the rows of the sign matrix S(m)
    linear       A cos(theta - phi) = C cos theta + S sin theta,  C = A cos phi,  S = A sin phi
    separable    sum_n sum_k a_k prod_{p not in I_k} cos(n_p x_p) prod_{q in I_k} sin(n_q x_q);
                 k - 1 in m bits, leftmost bit = input 1, bit 1 = sine
    exponential  sum_k c_k exp(i k . x),  real when c_{-k} is the conjugate of c_k

Expanding exp(i theta_i) = prod_j (cos n_j x_j + i e_ij sin n_j x_j) gives the paper's relation
a_k = Re[i^|I_k| sum_i s_ik (C_i - i S_i)], s_ik = prod_{j in I_k} e_ij: a Walsh-Hadamard transform over i, O(m 2^m).
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from flm.series.calculus import AbstractSeries, axis_indices
from flm.series.signs import sign_matrix

MAX_INPUTS = 12  # a sub-network of m inputs has 2^(m-1) cosines


def _check_inputs(m: int) -> None:
    if m > MAX_INPUTS:
        raise ValueError(
            f"the phase and separable forms must have at most {MAX_INPUTS} inputs; got m={m}, where one sub-network has "
            f"2^{m - 1} = {2 ** (m - 1)} cosines. Use an ExponentialSeries."
        )


def _as_floats(name: str, value: Any, ndim: tuple[int, ...]) -> Array:
    value = jnp.asarray(value)
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        value = value.astype(jnp.result_type(float))
    if value.ndim not in ndim:
        raise ValueError(f"`{name}` must have {' or '.join(map(str, ndim))} axes; got shape {value.shape}.")
    return value


def _hadamard(values: Float[Array, "N l ..."]) -> Array:
    """Sum_i s_ib values_i for every subset b of inputs 2..m (bit 1 = in the subset): its own inverse times l."""
    shape = values.shape
    depth = shape[1].bit_length() - 1
    values = values.reshape(shape[0], *(2,) * depth, -1)
    for axis in range(1, depth + 1):
        plus, minus = jnp.split(values, 2, axis=axis)
        values = jnp.concatenate([plus + minus, plus - minus], axis=axis)
    return values.reshape(shape)


def _sine_counts(m: int) -> np.ndarray:
    return np.array([int(k).bit_count() for k in range(2**m)])


def separable_from_linear(C: Float[Array, "N l ..."], S: Float[Array, "N l ..."]) -> Float[Array, "N 2l ..."]:
    """Coefficients a_k of products of sines and cosines from those of cos theta_i and sin theta_i."""
    m = C.shape[1].bit_length()
    hat = jnp.stack([_hadamard(C), _hadamard(S)])  # (2, N, l, ...)
    counts = _sine_counts(m)
    sign = np.where(counts % 4 < 2, 1.0, -1.0).reshape(-1, *(1,) * (C.ndim - 2))
    subset = np.arange(2**m) % C.shape[1]  # the bits of inputs 2..m
    return sign * jnp.moveaxis(hat[counts % 2, :, subset], 0, 1)


def linear_from_separable(a: Float[Array, "N 2l ..."]) -> tuple[Array, Array]:
    """The inverse of `separable_from_linear`."""
    l = a.shape[1] // 2
    m = a.shape[1].bit_length() - 1
    counts = _sine_counts(m)
    sign = np.where(counts % 4 < 2, 1.0, -1.0).reshape(-1, *(1,) * (a.ndim - 2))
    signed = (sign * a).reshape(a.shape[0], 2, l, *a.shape[2:])  # (N, bit of input 1, subset, ...)
    even = (counts[:l] % 2 == 0).reshape(-1, *(1,) * (a.ndim - 2))
    C = jnp.where(even, signed[:, 0], signed[:, 1])
    S = jnp.where(even, signed[:, 1], signed[:, 0])
    return _hadamard(C) / l, _hadamard(S) / l


class PhaseSeries(AbstractSeries):
    """The cosine phase-shifted form: sum_n sum_i A_i cos((e_i * n) . x - phi_i) (paper, Eq. 9).

    Args:
        frequencies: one row of m components per sub-network, in radians per unit of x.
        amplitudes: one per cosine; a last axis holds several outputs.
        phases: like `amplitudes`.
        axes: names of the inputs, for `.d("xx")`, `series(x=..., t=...)` and printing.

    Example:
        >>> wave = PhaseSeries([[1.0, 2.0]], [[3.0, 0.0]], [[0.0, 0.0]], axes=("x", "t"))
        >>> float(wave(x=0.0, t=0.0))
        3.0
    """

    frequencies: Float[Array, "N m"]
    amplitudes: Float[Array, "N l *K"]
    phases: Float[Array, "N l *K"]
    axes: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, frequencies: Any, amplitudes: Any, phases: Any, axes: Any = None):
        self.frequencies = _as_floats("frequencies", frequencies, (2,))
        self.amplitudes = _as_floats("amplitudes", amplitudes, (2, 3))
        self.phases = _as_floats("phases", phases, (2, 3))
        n, m = self.frequencies.shape
        _check_inputs(m)
        for name, value in (("amplitudes", self.amplitudes), ("phases", self.phases)):
            if value.shape[:2] != (n, 2 ** (m - 1)):
                raise ValueError(
                    f"`{name}` must have shape ({n}, {2 ** (m - 1)}) or ({n}, {2 ** (m - 1)}, K) to match frequencies of "
                    f"shape ({n}, {m}); got {value.shape}."
                )
        if self.amplitudes.shape != self.phases.shape:
            raise ValueError(
                f"`phases` must have the shape of `amplitudes`; got {self.phases.shape} and {self.amplitudes.shape}."
            )
        self.axes = self._checked_axes(axes)

    @classmethod
    def from_linear(cls, frequencies: Any, C: Any, S: Any, axes: Any = None) -> PhaseSeries:
        """The series sum C cos theta + S sin theta; amplitudes come out nonnegative, phases in (-pi, pi]."""
        C, S = jnp.asarray(C), jnp.asarray(S)
        return cls(frequencies, jnp.hypot(C, S), jnp.arctan2(S, C), axes)

    def linear(self) -> tuple[Array, Array]:
        """(C, S) with A cos(theta - phi) = C cos theta + S sin theta."""
        return self.amplitudes * jnp.cos(self.phases), self.amplitudes * jnp.sin(self.phases)

    def _waves(self) -> tuple[Array, Array, Array]:
        signs = jnp.asarray(sign_matrix(self.num_inputs), self.frequencies.dtype)
        k = (self.frequencies[:, None, :] * signs).reshape(-1, self.num_inputs)
        C, S = self.linear()
        return k, C.reshape(len(k), *C.shape[2:]), S.reshape(len(k), *S.shape[2:])

    def normalized(self) -> PhaseSeries:
        """The same function with amplitudes >= 0 and phases in (-pi, pi]."""
        return PhaseSeries.from_linear(self.frequencies, *self.linear(), self.axes)

    def phase(self) -> PhaseSeries:
        """This series."""
        return self

    def separable(self) -> SeparableSeries:
        """The same function in products of sines and cosines."""
        return SeparableSeries(self.frequencies, separable_from_linear(*self.linear()), self.axes)

    def exponential(self) -> ExponentialSeries:
        """The same function in complex exponentials, equal frequency vectors merged."""
        k, C, S = (np.asarray(v) for v in self._waves())
        half = (C - 1j * S) / 2
        return ExponentialSeries(np.concatenate([k, -k]), np.concatenate([half, half.conj()]), self.axes).merged()

    def d(self, axes: Any) -> PhaseSeries:
        """The partial derivative along the given axes: `.d("xx")`, `.d((0, 0))`."""
        signs = jnp.asarray(sign_matrix(self.num_inputs), self.frequencies.dtype)
        amplitudes, phases = self.amplitudes, self.phases
        for j in axis_indices(self, axes):
            # d/dx_j A cos(theta - phi) = A k_j cos(theta - phi + pi/2)
            k = self.frequencies[:, j, None] * signs[:, j]  # (N, l)
            amplitudes = amplitudes * k.reshape(k.shape + (1,) * (amplitudes.ndim - 2))
            phases = phases - np.pi / 2
        return PhaseSeries(self.frequencies, amplitudes, phases, self.axes)

    def _scaled(self, factor: Any) -> PhaseSeries:
        return PhaseSeries(self.frequencies, self.amplitudes * factor, self.phases, self.axes)

    def _plus(self, other: AbstractSeries) -> PhaseSeries:
        other = other.phase()
        return PhaseSeries(
            jnp.concatenate([self.frequencies, other.frequencies]),
            jnp.concatenate([self.amplitudes, other.amplitudes]),
            jnp.concatenate([self.phases, other.phases]),
            self.axes,
        )

    def shift(self, offset: Any) -> PhaseSeries:
        """The function x -> f(x - offset)."""
        signs = jnp.asarray(sign_matrix(self.num_inputs), self.frequencies.dtype)
        turn = (self.frequencies * jnp.asarray(offset, self.frequencies.dtype)) @ signs.T  # (N, l): k . offset
        phases = self.phases + turn.reshape(turn.shape + (1,) * (self.phases.ndim - 2))
        return PhaseSeries(self.frequencies, self.amplitudes, phases, self.axes)

    def rescale(self, factors: Any) -> PhaseSeries:
        """The function x -> f(factors * x), one factor per axis or one for all."""
        return PhaseSeries(self.frequencies * jnp.asarray(factors), self.amplitudes, self.phases, self.axes)

    def truncate(self, n: int) -> PhaseSeries:
        """The n largest cosines; sub-networks that lose all of theirs are dropped."""
        size = np.abs(np.asarray(self.amplitudes)).reshape(*self.amplitudes.shape[:2], -1).max(axis=2)
        keep, rows = _largest(size, n)
        mask = keep[rows].reshape(keep[rows].shape + (1,) * (self.amplitudes.ndim - 2))
        return PhaseSeries(
            self.frequencies[rows], jnp.where(mask, self.amplitudes[rows], 0.0), self.phases[rows], self.axes
        )


def _largest(size: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Mask of the n largest nonzero entries of a matrix, and the rows that hold any of them."""
    keep = np.zeros(size.size, bool)
    keep[np.argsort(-size.ravel(), kind="stable")[: max(int(n), 0)]] = True
    keep = keep.reshape(size.shape) & (size > 0)
    return keep, np.flatnonzero(keep.any(axis=1))


class SeparableSeries(AbstractSeries):
    """The separable form: sum_n sum_k a_k prod cos(n_p x_p) prod sin(n_q x_q) (paper, Eq. 5).

    Args:
        frequencies: one row of m components per sub-network, in radians per unit of x.
        coefficients: 2^m per sub-network; k - 1 in m bits, leftmost bit = input 1, bit 1 = sine. A last axis holds
            several outputs.
        axes: names of the inputs.
    """

    frequencies: Float[Array, "N m"]
    coefficients: Float[Array, "N 2^m *K"]
    axes: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, frequencies: Any, coefficients: Any, axes: Any = None):
        self.frequencies = _as_floats("frequencies", frequencies, (2,))
        self.coefficients = _as_floats("coefficients", coefficients, (2, 3))
        n, m = self.frequencies.shape
        _check_inputs(m)
        if self.coefficients.shape[:2] != (n, 2**m):
            raise ValueError(
                f"`coefficients` must have shape ({n}, {2**m}) or ({n}, {2**m}, K) to match frequencies of shape "
                f"({n}, {m}); got {self.coefficients.shape}."
            )
        self.axes = self._checked_axes(axes)

    def _waves(self) -> tuple[Array, Array, Array]:
        return self.phase()._waves()

    def phase(self) -> PhaseSeries:
        """The same function as phase-shifted cosines."""
        return PhaseSeries.from_linear(self.frequencies, *linear_from_separable(self.coefficients), self.axes)

    def separable(self) -> SeparableSeries:
        """This series."""
        return self

    def exponential(self) -> ExponentialSeries:
        """The same function in complex exponentials, equal frequency vectors merged."""
        return self.phase().exponential()

    def d(self, axes: Any) -> SeparableSeries:
        """The partial derivative along the given axes: `.d("xx")`, `.d((0, 0))`."""
        m = self.num_inputs
        a = self.coefficients
        for j in axis_indices(self, axes):
            split = a.reshape(a.shape[0], *(2,) * m, -1)
            cosines, sines = jnp.split(split, 2, axis=j + 1)
            n = self.frequencies[:, j].reshape(-1, *(1,) * (m + 1))
            a = jnp.concatenate([n * sines, -n * cosines], axis=j + 1).reshape(a.shape)
        return SeparableSeries(self.frequencies, a, self.axes)

    def _scaled(self, factor: Any) -> SeparableSeries:
        return SeparableSeries(self.frequencies, self.coefficients * factor, self.axes)

    def _plus(self, other: AbstractSeries) -> SeparableSeries:
        other = other.separable()
        return SeparableSeries(
            jnp.concatenate([self.frequencies, other.frequencies]),
            jnp.concatenate([self.coefficients, other.coefficients]),
            self.axes,
        )

    def shift(self, offset: Any) -> SeparableSeries:
        """The function x -> f(x - offset)."""
        return self.phase().shift(offset).separable()

    def rescale(self, factors: Any) -> SeparableSeries:
        """The function x -> f(factors * x), one factor per axis or one for all."""
        return SeparableSeries(self.frequencies * jnp.asarray(factors), self.coefficients, self.axes)

    def truncate(self, n: int) -> SeparableSeries:
        """The n largest products; sub-networks that lose all of theirs are dropped."""
        size = np.abs(np.asarray(self.coefficients)).reshape(*self.coefficients.shape[:2], -1).max(axis=2)
        keep, rows = _largest(size, n)
        mask = keep[rows].reshape(keep[rows].shape + (1,) * (self.coefficients.ndim - 2))
        return SeparableSeries(self.frequencies[rows], jnp.where(mask, self.coefficients[rows], 0.0), self.axes)


class ExponentialSeries(AbstractSeries):
    """The complex exponential form: sum_k c_k exp(i k . x) (paper, Eq. 4).

    A series whose coefficients come in conjugate pairs is real, and so are its values.

    Args:
        frequencies: one row of m components per term, in radians per unit of x.
        coefficients: complex; a last axis holds several outputs.
        axes: names of the inputs.
        is_real: whether the coefficients come in conjugate pairs; found out when not given (inside `jit`, give it).
    """

    frequencies: Float[Array, "T m"]
    coefficients: Complex[Array, "T *K"]
    axes: tuple[str, ...] | None = eqx.field(static=True)
    is_real: bool = eqx.field(static=True)

    def __init__(self, frequencies: Any, coefficients: Any, axes: Any = None, *, is_real: bool | None = None):
        self.frequencies = _as_floats("frequencies", frequencies, (2,))
        coefficients = _as_floats("coefficients", coefficients, (1, 2))
        self.coefficients = coefficients.astype(jnp.result_type(coefficients.dtype, jnp.complex64))
        if len(self.frequencies) != len(self.coefficients):
            raise ValueError(
                f"`coefficients` must have one row per frequency; got {self.coefficients.shape} for frequencies of "
                f"shape {self.frequencies.shape}."
            )
        self.axes = self._checked_axes(axes)
        if is_real is None:
            is_real = _is_real(np.asarray(self.frequencies), np.asarray(self.coefficients))
        self.is_real = is_real

    def _waves(self) -> tuple[Array, Array, Array]:
        c = self.coefficients
        if self.is_real:  # the pairs' imaginary parts cancel: Re[c exp(i theta)] = Re c cos theta - Im c sin theta
            return self.frequencies, c.real, -c.imag
        return self.frequencies, c, 1j * c

    def merged(self) -> ExponentialSeries:
        """The same function with equal frequency vectors merged, sorted, zeros kept."""
        k, c = _merge(np.asarray(self.frequencies), np.asarray(self.coefficients))
        return ExponentialSeries(k, c, self.axes)

    def phase(self) -> PhaseSeries:
        """The same (real) function as phase-shifted cosines, one sub-network per vector of absolute frequencies."""
        m = self.num_inputs
        _check_inputs(m)
        if not self.is_real:
            raise ValueError("the series must be real to have a phase form: c(-k) = conj c(k); got one that is not.")
        k, c = _merge(np.asarray(self.frequencies), np.asarray(self.coefficients))
        rows = _upper_half(k)
        k, c = k[rows], c[rows]
        n, group = np.unique(np.abs(k), axis=0, return_inverse=True)
        # Row of the sign matrix with e * n = k: here k_1 >= 0, and a zero component leaves its sign free: +1.
        row = (k[:, 1:] < 0) @ 2 ** np.arange(m - 1)[::-1]
        double = np.where((k == 0).all(axis=1), 1.0, 2.0).reshape(-1, *(1,) * (c.ndim - 1))
        C = np.zeros((len(n), 2 ** (m - 1), *c.shape[1:]))
        S = np.zeros_like(C)
        C[group.ravel(), row] = double * c.real
        S[group.ravel(), row] = -double * c.imag
        return PhaseSeries.from_linear(n, C, S, self.axes)

    def separable(self) -> SeparableSeries:
        """The same (real) function in products of sines and cosines."""
        return self.phase().separable()

    def exponential(self) -> ExponentialSeries:
        """This series."""
        return self

    def d(self, axes: Any) -> ExponentialSeries:
        """The partial derivative along the given axes: `.d("xx")`, `.d((0, 0))`."""
        c = self.coefficients
        for j in axis_indices(self, axes):
            c = c * (1j * self.frequencies[:, j]).reshape(-1, *(1,) * (c.ndim - 1))
        return ExponentialSeries(self.frequencies, c, self.axes, is_real=self.is_real)

    def _scaled(self, factor: Any) -> ExponentialSeries:
        real = self.is_real and not jnp.iscomplexobj(factor)
        return ExponentialSeries(self.frequencies, self.coefficients * factor, self.axes, is_real=real)

    def _plus(self, other: AbstractSeries) -> ExponentialSeries:
        other = other.exponential()
        return ExponentialSeries(
            jnp.concatenate([self.frequencies, other.frequencies]),
            jnp.concatenate([self.coefficients, other.coefficients]),
            self.axes,
            is_real=True if self.is_real and other.is_real else None,
        )

    def shift(self, offset: Any) -> ExponentialSeries:
        """The function x -> f(x - offset)."""
        turn = jnp.exp(-1j * (self.frequencies @ jnp.broadcast_to(jnp.asarray(offset), (self.num_inputs,))))
        c = self.coefficients * turn.reshape(-1, *(1,) * (self.coefficients.ndim - 1))
        return ExponentialSeries(self.frequencies, c, self.axes, is_real=self.is_real)

    def rescale(self, factors: Any) -> ExponentialSeries:
        """The function x -> f(factors * x), one factor per axis or one for all."""
        k = self.frequencies * jnp.asarray(factors)
        return ExponentialSeries(k, self.coefficients, self.axes, is_real=self.is_real)

    def truncate(self, n: int) -> ExponentialSeries:
        """The n largest waves: of a real series, n conjugate pairs."""
        k, c = _merge(np.asarray(self.frequencies), np.asarray(self.coefficients))
        if self.is_real:
            rows = _upper_half(k)
            k, c = k[rows], c[rows]
        weight = np.abs(c).reshape(len(c), -1).max(axis=1) * np.where((k == 0).all(axis=1), 0.5, 1.0)
        rows = np.argsort(-weight, kind="stable")[: max(int(n), 0)]
        k, c = k[rows], c[rows]
        if self.is_real:
            pair = (k != 0).any(axis=1)
            k, c = np.concatenate([k, -k[pair]]), np.concatenate([c, c[pair].conj()])
        return ExponentialSeries(k, c, self.axes)

    @classmethod
    def from_fft(cls, coefficients: Any, bounds: Any, axes: Any = None) -> ExponentialSeries:
        """The trigonometric interpolant whose samples have the given `numpy.fft.fftn`.

        Sample j of an axis with n points on (lower, upper) stands at lower + (upper - lower) j / n. The Nyquist term of
        an even n is shared by +n/2 and -n/2, so that the interpolant of real samples is real.
        """
        c = np.asarray(coefficients, complex)
        bounds = np.asarray(bounds, float).reshape(c.ndim, 2)
        c = c / c.size
        k = []
        for axis, ((lower, upper), n) in enumerate(zip(bounds, c.shape, strict=True)):
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

    def to_fft(self, shape: Any, bounds: Any) -> np.ndarray:
        """`numpy.fft.fftn` of the samples of this harmonic series on the grid of `from_fft`."""
        shape = tuple(np.atleast_1d(shape).astype(int))
        bounds = np.asarray(bounds, float).reshape(self.num_inputs, 2)
        k = np.asarray(self.frequencies) * (bounds[:, 1] - bounds[:, 0]) / (2 * np.pi)
        integers = np.rint(k)
        if np.abs(k - integers).max(initial=0) > 1e-9 * max(1.0, np.abs(k).max(initial=0)):
            raise ValueError(
                "the series must be harmonic on `bounds`: its frequencies are not multiples of 2 pi / width."
            )
        if (2 * np.abs(integers) > np.array(shape)).any():
            raise ValueError(
                f"`shape` must hold twice the highest harmonic; got {shape} for {np.abs(integers).max(0)}."
            )
        turned = np.asarray(self.coefficients) * np.exp(1j * np.asarray(self.frequencies) @ bounds[:, 0])
        out = np.zeros(shape, complex)
        np.add.at(out, tuple(integers.astype(int).T), turned * out.size)
        return out


def _merge(k: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equal frequency vectors added up; rows sorted lexicographically."""
    unique, group = np.unique(k + 0.0, axis=0, return_inverse=True)  # + 0.0: no negative zeros
    total = np.zeros((len(unique), *c.shape[1:]), c.dtype)
    np.add.at(total, group.ravel(), c)
    return unique, total


def _upper_half(k: np.ndarray) -> np.ndarray:
    """One of each pair (k, -k): the rows that are zero or whose first nonzero component is positive."""
    if not len(k):
        return np.zeros(0, bool)
    lead = k[np.arange(len(k)), (k != 0).argmax(axis=1)]
    return lead >= 0


def _is_real(k: np.ndarray, c: np.ndarray) -> bool:
    """Whether c(-k) is the conjugate of c(k) to rounding."""
    _, difference = _merge(np.concatenate([k, -k]), np.concatenate([c, -c.conj()]))
    return bool((np.abs(difference) <= 100 * np.finfo(c.dtype).eps * np.abs(c).max(initial=0)).all())
