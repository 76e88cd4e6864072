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

from flm.series.arrays import Along, Numbers, as_floats, axis_indices, host, per_row
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


def _per_subnet(name: str, value: npt.ArrayLike, frequencies: Array, count: int) -> Array:
    """The argument `name`, refused unless each sub-network has `count` numbers, or (count, K)."""
    array, n = as_floats(name, value, (2, 3)), len(frequencies)
    if array.shape[:2] != (n, count):
        raise InputError(
            f"`{name}` must have shape ({n}, {count}) or ({n}, {count}, K) to match frequencies of shape "
            f"{frequencies.shape}; got {array.shape}."
        )
    return array


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

    _linear = "amplitudes"

    def __init__(
        self,
        frequencies: npt.ArrayLike,
        amplitudes: npt.ArrayLike,
        phases: npt.ArrayLike,
        axes: Sequence[str] | None = None,
    ):
        self.frequencies = as_floats("frequencies", frequencies, (2,))
        check_inputs(self.num_inputs)
        l = 2 ** (self.num_inputs - 1)
        self.amplitudes = _per_subnet("amplitudes", amplitudes, self.frequencies, l)
        self.phases = _per_subnet("phases", phases, self.frequencies, l)
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
        _, C, S = self._waves()
        return C.reshape(self.amplitudes.shape), S.reshape(self.amplitudes.shape)

    def _waves(self) -> Waves:
        return phase_waves(self.frequencies, self.amplitudes, self.phases)

    def normalized(self) -> PhaseSeries:
        """The same function with amplitudes >= 0 and phases in (-pi, pi]."""
        return PhaseSeries.from_linear(self.frequencies, *self.linear(), self.axes)

    def phase(self) -> PhaseSeries:
        """This series."""
        return self

    def d(self, axes: Along) -> PhaseSeries:
        """The partial derivative along the given axes: `.d("xx")`, `.d((0, 0))`."""
        _, (A, phi) = host(self.amplitudes, self.phases)
        k = self._waves().k.reshape(*A.shape[:2], -1)  # (N, l, m)
        for j in axis_indices(axes, self.axes, self.num_inputs):
            # d/dx_j A cos(theta - phi) = A k_j cos(theta - phi + pi/2)
            A, phi = A * per_row(k[..., j], A), phi - np.pi / 2
        return self._with(amplitudes=A, phases=phi)

    def _like(self, other: AbstractSeries) -> PhaseSeries:
        return other.phase()

    def shift(self, offset: npt.ArrayLike) -> PhaseSeries:
        """The function x -> f(x - offset)."""
        k = self._waves().k.reshape(*self.phases.shape[:2], -1)  # (N, l, m)
        _, (k, phi, offset) = host(k, self.phases, offset)
        return self._with(phases=phi + per_row((k * offset.astype(k.dtype)).sum(axis=-1), phi))


def phase_waves(n: npt.ArrayLike, A: npt.ArrayLike, phi: npt.ArrayLike) -> Waves:
    """The plane waves of sub-networks with frequencies (N, m), amplitudes and phases (N, l, ...): k = e_i * n."""
    xp, (n, A, phi) = host(n, A, phi)
    k = (n[:, None, :] * sign_matrix(n.shape[1]).astype(n.dtype)).reshape(-1, n.shape[1])
    C, S = ((A * part).reshape(len(k), *A.shape[2:]) for part in (xp.cos(phi), xp.sin(phi)))
    return Waves(k, C, S)


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
        check_inputs(self.num_inputs)
        self.coefficients = _per_subnet("coefficients", coefficients, self.frequencies, 2**self.num_inputs)
        self.axes = self._checked_axes(axes)

    def _waves(self) -> Waves:
        return self.phase()._waves()

    def phase(self) -> PhaseSeries:
        """The same function as phase-shifted cosines."""
        return PhaseSeries.from_linear(self.frequencies, *linear_from_separable(self.coefficients), self.axes)

    def separable(self) -> SeparableSeries:
        """This series."""
        return self

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
    C, S = (xp.where(even, signed[:, i], signed[:, 1 - i]) for i in (0, 1))
    return _hadamard(C) / l, _hadamard(S) / l
