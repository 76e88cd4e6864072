"""The phase and separable forms of a nonharmonic Fourier series: sub-networks that share a frequency vector.

Conventions (N sub-networks, m inputs, l = 2^(m-1) cosines per sub-network, K outputs when there is a last axis):

    phase        sum_n sum_i A_i cos((e_i * n) . x - phi_i),  e_i the rows of the sign matrix S(m)
    linear       A cos(theta - phi) = C cos theta + S sin theta,  C = A cos phi,  S = A sin phi
    separable    sum_n sum_k a_k prod_{p not in I_k} cos(n_p x_p) prod_{q in I_k} sin(n_q x_q);
                 k - 1 in m bits, leftmost bit = input 1, bit 1 = sine
    exponential  sum_k c_k exp(i k . x),  real when c_{-k} is the conjugate of c_k  (flm.series.exponential)
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from flm.series.arrays import Along, Numbers, Scalar, as_floats, axis_indices, host, per_row
from flm.series.calculus import AbstractSeries
from flm.series.lattices import sign_matrix
from flm.series.waves import Waves
from flm.wording import InputError

MAX_INPUTS = 12  # a sub-network of m inputs has 2^(m-1) cosines


def check_inputs(m: int) -> None:
    """Refuse forms whose size, exponential in m, is out of reach."""
    if m > MAX_INPUTS:
        raise InputError(
            f"the phase and separable forms must have at most {MAX_INPUTS} inputs; got m={m}, where one sub-network "
            f"has 2^{m - 1} = {2 ** (m - 1)} cosines. Use an ExponentialSeries."
        )


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

    def __init__(
        self,
        frequencies: npt.ArrayLike,
        amplitudes: npt.ArrayLike,
        phases: npt.ArrayLike,
        axes: Sequence[str] | None = None,
    ):
        self.frequencies = as_floats("frequencies", frequencies, (2,))
        self.amplitudes = as_floats("amplitudes", amplitudes, (2, 3))
        self.phases = as_floats("phases", phases, (2, 3))
        n, m = self.frequencies.shape
        check_inputs(m)
        l = 2 ** (m - 1)
        for name, value in (("amplitudes", self.amplitudes), ("phases", self.phases)):
            if value.shape[:2] != (n, l):
                raise InputError(
                    f"`{name}` must have shape ({n}, {l}) or ({n}, {l}, K) to match frequencies of shape ({n}, {m}); "
                    f"got {value.shape}."
                )
        if self.amplitudes.shape != self.phases.shape:
            raise InputError(
                f"`phases` must have the shape of `amplitudes`; got {self.phases.shape} and {self.amplitudes.shape}."
            )
        self.axes = self._checked_axes(axes)

    @classmethod
    def from_linear(
        cls, frequencies: npt.ArrayLike, C: npt.ArrayLike, S: npt.ArrayLike, axes: Sequence[str] | None = None
    ) -> PhaseSeries:
        """The series sum C cos theta + S sin theta; amplitudes come out nonnegative, phases in (-pi, pi]."""
        xp, (C, S) = host(C, S)
        return cls(frequencies, xp.hypot(C, S), xp.arctan2(S, C), axes)

    def linear(self) -> tuple[Numbers, Numbers]:
        """(C, S) with A cos(theta - phi) = C cos theta + S sin theta."""
        xp, (A, phi) = host(self.amplitudes, self.phases)
        return A * xp.cos(phi), A * xp.sin(phi)

    def _signs(self) -> np.ndarray:
        return sign_matrix(self.num_inputs).astype(self.frequencies.dtype)

    def _waves(self) -> Waves:
        return phase_waves(self.frequencies, self.amplitudes, self.phases)

    @property
    def _outputs(self) -> tuple[int, ...]:
        return self.amplitudes.shape[2:]

    def _constant(self, value: Scalar) -> PhaseSeries:
        _, (value,) = host(as_floats("constant", value, (0,)))
        amplitudes = value.astype(self.amplitudes.dtype) * _first(self.amplitudes)
        zero = np.zeros((1, self.num_inputs), self.frequencies.dtype)
        return PhaseSeries(zero, amplitudes, np.zeros_like(_first(self.amplitudes)), self.axes)

    def normalized(self) -> PhaseSeries:
        """The same function with amplitudes >= 0 and phases in (-pi, pi]."""
        return PhaseSeries.from_linear(self.frequencies, *self.linear(), self.axes)

    def phase(self) -> PhaseSeries:
        """This series."""
        return self

    def d(self, axes: Along) -> PhaseSeries:
        """The partial derivative along the given axes: `.d("xx")`, `.d((0, 0))`."""
        _, (n, A, phi) = host(self.frequencies, self.amplitudes, self.phases)
        for j in axis_indices(axes, self.axes, self.num_inputs):
            # d/dx_j A cos(theta - phi) = A k_j cos(theta - phi + pi/2)
            k = n[:, j, None] * self._signs()[:, j]  # (N, l)
            A = A * per_row(k, A)
            phi = phi - np.pi / 2
        return self._with(amplitudes=A, phases=phi)

    def _scaled(self, factor: Scalar) -> PhaseSeries:
        _, (A, factor) = host(self.amplitudes, as_floats("factor", factor, (0,)))
        return self._with(amplitudes=A * factor.astype(A.dtype))

    def _like(self, other: AbstractSeries) -> PhaseSeries:
        return other.phase()

    def shift(self, offset: npt.ArrayLike) -> PhaseSeries:
        """The function x -> f(x - offset)."""
        _, (n, phi, offset) = host(self.frequencies, self.phases, offset)
        turn = (n * offset.astype(n.dtype)) @ self._signs().T  # (N, l): k . offset
        return self._with(phases=phi + per_row(turn, phi))


def phase_waves(n: npt.ArrayLike, A: npt.ArrayLike, phi: npt.ArrayLike) -> Waves:
    """The plane waves of sub-networks with frequencies (N, m), amplitudes and phases (N, l, ...): k = e_i * n."""
    xp, (n, A, phi) = host(n, A, phi)
    k = (n[:, None, :] * sign_matrix(n.shape[1]).astype(n.dtype)).reshape(-1, n.shape[1])
    C, S = ((A * part).reshape(len(k), *A.shape[2:]) for part in (xp.cos(phi), xp.sin(phi)))
    return Waves(k, C, S)


def _first(like: Array) -> np.ndarray:
    """One row shaped like those of an array, 1 in its first place (per output) and 0 in the others."""
    row = np.zeros((1, *like.shape[1:]), like.dtype)
    row[:, 0] = 1
    return row


class SeparableSeries(AbstractSeries):
    """The separable form: sum_n sum_k a_k prod cos(n_p x_p) prod sin(n_q x_q) (paper, Eq. 5).

    Args:
        frequencies: one row of m components per sub-network, in radians per unit of x.
        coefficients: 2^m per sub-network; k - 1 in m bits, leftmost bit = input 1, bit 1 = sine. A last axis holds
            several outputs.
        axes: names of the inputs.

    Example:
        >>> wave = SeparableSeries([[1.0, 2.0]], [[0.0, 0.0, 0.0, 1.0]], axes=("x", "y"))  # sin x sin 2y
        >>> round(float(wave(x=np.pi / 2, y=np.pi / 4)), 12)
        1.0
        >>> wave.phase().amplitudes
        Array([[0.5, 0.5]], dtype=float64)
    """

    frequencies: Float[Array, "N m"]
    coefficients: Float[Array, "N 2^m *K"]
    axes: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, frequencies: npt.ArrayLike, coefficients: npt.ArrayLike, axes: Sequence[str] | None = None):
        self.frequencies = as_floats("frequencies", frequencies, (2,))
        self.coefficients = as_floats("coefficients", coefficients, (2, 3))
        n, m = self.frequencies.shape
        check_inputs(m)
        if self.coefficients.shape[:2] != (n, 2**m):
            raise InputError(
                f"`coefficients` must have shape ({n}, {2**m}) or ({n}, {2**m}, K) to match frequencies of shape "
                f"({n}, {m}); got {self.coefficients.shape}."
            )
        self.axes = self._checked_axes(axes)

    def _waves(self) -> Waves:
        return self.phase()._waves()

    @property
    def _outputs(self) -> tuple[int, ...]:
        return self.coefficients.shape[2:]

    def _constant(self, value: Scalar) -> SeparableSeries:
        _, (value,) = host(as_floats("constant", value, (0,)))
        a = value.astype(self.coefficients.dtype) * _first(self.coefficients)
        return SeparableSeries(np.zeros((1, self.num_inputs), self.frequencies.dtype), a, self.axes)

    def phase(self) -> PhaseSeries:
        """The same function as phase-shifted cosines."""
        return PhaseSeries.from_linear(self.frequencies, *linear_from_separable(self.coefficients), self.axes)

    def separable(self) -> SeparableSeries:
        """This series."""
        return self

    def _scaled(self, factor: Scalar) -> SeparableSeries:
        _, (a, factor) = host(self.coefficients, as_floats("factor", factor, (0,)))
        return self._with(coefficients=a * factor.astype(a.dtype))

    def _like(self, other: AbstractSeries) -> SeparableSeries:
        return other.separable()


# The exact map between the linear and the separable coefficients of a sub-network. Expanding
# exp(i theta_i) = prod_j (cos n_j x_j + i e_ij sin n_j x_j) gives the paper's relation
# a_k = Re[i^|I_k| sum_i s_ik (C_i - i S_i)], s_ik = prod_{j in I_k} e_ij: a signed Walsh-Hadamard transform, O(m 2^m).


def _hadamard(values: Float[Numbers, "N l *K"]) -> Float[Numbers, "N l *K"]:
    """Sum_i s_ib values_i for every subset b of inputs 2..m (bit 1 = in the subset): its own inverse times l."""
    xp, (values,) = host(values)
    shape = values.shape
    depth = shape[1].bit_length() - 1
    values = values.reshape(shape[0], *(2,) * depth, *shape[2:])
    for axis in range(1, depth + 1):
        plus, minus = xp.split(values, 2, axis=axis)
        values = xp.concatenate([plus + minus, plus - minus], axis=axis)
    return values.reshape(shape)


def _turns(m: int, like: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """|I_k| of every k, and the sign of a_k by |I_k| mod 4 (+, +, -, -), shaped to multiply arrays (N, 2^m, ...)."""
    counts = np.array([k.bit_count() for k in range(2**m)])
    sign = np.where(counts % 4 < 2, 1, -1).astype(like.dtype)
    return counts, sign.reshape(-1, *(1,) * (like.ndim - 2))


def separable_from_linear(C: Float[Numbers, "N l *K"], S: Float[Numbers, "N l *K"]) -> Float[Numbers, "N 2l *K"]:
    """Coefficients a_k of products of sines and cosines from those of cos theta_i and sin theta_i."""
    xp, (C, S) = host(C, S)
    counts, sign = _turns(C.shape[1].bit_length(), C)
    hat = xp.stack([_hadamard(C), _hadamard(S)])  # (2, N, l, ...)
    subset = np.arange(len(counts)) % C.shape[1]  # the bits of inputs 2..m
    return xp.moveaxis(hat[counts % 2, :, subset], 0, 1) * sign


def linear_from_separable(a: Float[Numbers, "N 2l *K"]) -> tuple[Float[Numbers, "N l *K"], Float[Numbers, "N l *K"]]:
    """The inverse of `separable_from_linear`: (C, S)."""
    xp, (a,) = host(a)
    l = a.shape[1] // 2
    counts, sign = _turns(l.bit_length(), a)
    signed = (sign * a).reshape(a.shape[0], 2, l, *a.shape[2:])  # (N, bit of input 1, subset, ...)
    even = (counts[:l] % 2 == 0).reshape(-1, *(1,) * (a.ndim - 2))
    C = xp.where(even, signed[:, 0], signed[:, 1])
    S = xp.where(even, signed[:, 1], signed[:, 0])
    return _hadamard(C) / l, _hadamard(S) / l
