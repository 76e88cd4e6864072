"""What every form of a series can do: be called, added, multiplied, integrated over boxes, and read.

Every form is a sum of plane waves C cos(k . x) + S sin(k . x); integrals are closed form wave by wave:
the mean of exp(i k . x) over a box with middle c and half-widths h is exp(i k . c) prod_j sinc(k_j h_j).
"""

from __future__ import annotations

import abc
import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeGuard, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from flm.series.arrays import Along, Numbers, Scalar, as_floats, as_points, device, host, joined, per_row
from flm.series.waves import Waves, sincos
from flm.wording import InputError, check_count, counted

if TYPE_CHECKING:
    from flm.series.exponential import ExponentialSeries
    from flm.series.forms import PhaseSeries, SeparableSeries

Bounds = npt.ArrayLike | Mapping[str, tuple[float, float]]  # of a box: pairs in order, or by axis name
FEW = 2**16  # products of waves and coordinates: below this, compiling takes longer than NumPy's sines


@runtime_checkable
class HasBounds(Protocol):
    """A domain, as far as an integral over its box goes."""

    @property
    def bounds(self) -> np.ndarray:
        """(lower, upper) of every axis, (m, 2)."""
        ...


class Term(NamedTuple):
    """One cosine of a series: amplitude * cos(frequency . x - phase); period = 2 pi / |frequency| per axis.

    Example:
        >>> from flm.series import PhaseSeries
        >>> term = PhaseSeries([[2.0]], [[3.0]], [[0.5]]).terms()[0]
        >>> term.amplitude, term.phase, term.period.round(6)
        (3.0, 0.5, array([3.141593]))
    """

    amplitude: float
    phase: float
    frequency: np.ndarray
    period: np.ndarray


class AbstractSeries(eqx.Module):
    """A finite sum of plane waves in m inputs, as a function.

    Example:
        >>> from flm.series import PhaseSeries
        >>> cosine = PhaseSeries([[1.0]], [[1.0]], [[0.0]], axes="x")
        >>> sum_of_both = 2 * cosine * cosine - 1  # cos 2x
        >>> round(float(sum_of_both(np.pi / 2)), 12)
        -1.0
        >>> round(float(sum_of_both.integrate((0, np.pi / 4))), 12)
        0.5
    """

    frequencies: eqx.AbstractVar[Float[Array, "N m"]]
    axes: eqx.AbstractVar[tuple[str, ...] | None]

    __array_ufunc__ = None  # numpy scalars and arrays leave + - * / to the series

    _linear: ClassVar[str] = "coefficients"  # the field that a factor multiplies

    # Each form gives its waves and what depends on how it stores them.
    @abc.abstractmethod
    def _waves(self) -> Waves: ...

    @abc.abstractmethod
    def _like(self, other: AbstractSeries) -> Self:
        """The other series in this one's form."""

    @property
    def _outputs(self) -> tuple[int, ...]:
        return getattr(self, self._linear).shape[2:]

    @abc.abstractmethod
    def phase(self) -> PhaseSeries:
        """The phase form of the same function."""

    def d(self, axes: Along) -> Self:
        """The partial derivative along the given axes: `.d("xx")`, `.d((0, 0))`."""
        return self._like(self.phase().d(axes))

    def shift(self, offset: npt.ArrayLike) -> Self:
        """The function x -> f(x - offset)."""
        return self._like(self.phase().shift(offset))

    def separable(self) -> SeparableSeries:
        """The same (real) function in products of sines and cosines."""
        from flm.series.forms import SeparableSeries, separable_from_linear

        phase = self.phase()
        return SeparableSeries(phase.frequencies, separable_from_linear(*phase.linear()), self.axes)

    def exponential(self) -> ExponentialSeries:
        """The same function in complex exponentials, equal frequency vectors merged (not inside `jit`)."""
        from flm.series.exponential import ExponentialSeries

        k, C, S = (np.asarray(v) for v in self._waves())
        return ExponentialSeries.of_cosines(k, C - 1j * S, self.axes)

    @classmethod
    def _unpack(cls, fields: dict) -> Self:
        """A series from the fields of a saved file, which are checked like any other arguments."""
        return cls(**fields)

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs."""
        return self.frequencies.shape[1]

    def _checked_axes(self, axes: Sequence[str] | None) -> tuple[str, ...] | None:
        if axes is None:
            return None
        names = tuple(axes) if isinstance(axes, str | tuple | list) else ()
        if len(names) != self.num_inputs or len({a for a in names if isinstance(a, str)}) != len(names):
            raise InputError(f"`axes` must be {self.num_inputs} different names, one per input; got {axes!r}.")
        return names

    def _points(self, points: npt.ArrayLike | None, named: Mapping[str, npt.ArrayLike]) -> Numbers:
        """Points (..., m), from one array or from one array per named axis, at least as precise as the frequencies."""
        array = as_points(points, named, self.axes, self.num_inputs)
        dtype = self.frequencies.dtype
        return array.astype(np.promote_types(array.dtype, dtype) if array.dtype.kind in "fc" else dtype)

    def __call__(self, points: npt.ArrayLike | None = None, /, **named: npt.ArrayLike) -> Array:
        """Values at points (..., m) (m = 1: also (...,)), or at named coordinates that broadcast together."""
        xp, (here, k, C, S) = host(self._points(points, named), *self._waves())
        if xp is jnp or len(k) * here.size > FEW:
            return _evaluate(here, k, C, S)
        angle = here @ k.T
        return device(np.cos(angle) @ C + np.sin(angle) @ S)

    # --- algebra ---------------------------------------------------------------------------------------------------

    def _match(self, other: AbstractSeries) -> AbstractSeries:
        if other.num_inputs != self.num_inputs or (self.axes and other.axes and self.axes != other.axes):
            inputs, others = (f"{series.num_inputs} {series.axes or ''}" for series in (self, other))
            raise InputError(f"series must share their inputs; got {inputs} and {others}.")
        if other._outputs != self._outputs:
            count, others = (series._outputs[0] if series._outputs else "one" for series in (self, other))
            raise InputError(f"series must have equally many outputs; got {count} and {others}.")
        return other

    def __add__(self, other: AbstractSeries | Scalar) -> Self:
        if isinstance(other, AbstractSeries):
            return self._plus(self._match(other))
        if _is_scalar(other):
            return self._plus(self._constant(other))
        return NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Self:
        return self._scaled(-1.0)

    def __sub__(self, other: AbstractSeries | Scalar) -> Self:
        return self + (-other)

    def __rsub__(self, other: Scalar) -> Self:
        return (-self) + other

    def __mul__(self, other: AbstractSeries | Scalar) -> Self:
        """A scalar multiple, or the product of two series: exp(i p.x) exp(i q.x) = exp(i (p + q).x), always closed."""
        if _is_scalar(other):
            return self._scaled(other)
        if not isinstance(other, AbstractSeries):
            return NotImplemented
        left, right = self.exponential().nonzero(), self._match(other).exponential().nonzero()
        k = np.asarray(left.frequencies)[:, None, :] + np.asarray(right.frequencies)
        c = np.asarray(left.coefficients)[:, None] * np.asarray(right.coefficients)
        product = type(left)(k.reshape(-1, self.num_inputs), c.reshape(-1, *c.shape[2:]), self.axes).merged()
        return self._like(product)

    __rmul__ = __mul__

    def _scaled(self, factor: Scalar, name: str = "factor") -> Self:
        array = getattr(self, self._linear)
        number = as_floats(name, factor, (0,), may_be_complex=np.iscomplexobj(array))
        _, (array, number) = host(array, number)
        return self._with(**{self._linear: array * number.astype(array.dtype)})

    def _constant(self, value: Scalar) -> Self:
        """The wave of frequency zero with this amplitude."""
        likes = {name: getattr(self, name) for name in self._arrays()}
        rows = {name: np.zeros((1, *like.shape[1:]), like.dtype) for name, like in likes.items()}
        rows[self._linear].reshape(-1, *self._outputs)[0] = 1
        return self._with(**rows)._scaled(value, "constant")

    def _arrays(self) -> list[str]:
        """The names of the fields that have a row for each term."""
        return [field.name for field in dataclasses.fields(self) if not field.metadata.get("static")]

    def _with(self, **changed: Numbers | bool | None) -> Self:
        """The series with some of its fields replaced."""
        fields: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields.update(changed)
        return type(self)(**fields)

    def _plus(self, other: AbstractSeries) -> Self:
        same = self._like(other)
        return self._with(**{name: joined(getattr(self, name), getattr(same, name)) for name in self._arrays()})

    def __truediv__(self, other: Scalar) -> Self:
        if _is_scalar(other):
            return self._scaled(1 / other)
        return NotImplemented

    def rescale(self, factors: npt.ArrayLike) -> Self:
        """The function x -> f(factors * x), one factor per axis or one for all."""
        _, (k, factors) = host(self.frequencies, factors)
        return self._with(frequencies=k * factors.astype(k.dtype))

    def truncate(self, n: int) -> Self:
        """The n largest cosines, equal waves merged; for a complex series, the n largest waves."""
        return self._like(self.exponential().truncate(n))

    # --- integrals -------------------------------------------------------------------------------------------------

    def _box(self, box: Bounds | HasBounds) -> np.ndarray:
        """Bounds (m, 2) from a domain, a mapping by axis name, or pairs in order; m = 1 also one pair."""
        bounds = box.bounds if isinstance(box, HasBounds) else box
        if isinstance(bounds, Mapping):
            if self.axes is None or set(bounds) != set(self.axes):
                raise InputError(f"`box` must name the axes {self.axes}; got {sorted(bounds)}.")
            bounds = [bounds[a] for a in self.axes]
        try:
            array = np.asarray(bounds, float)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.size != 2 * self.num_inputs or not np.isfinite(array).all():
            raise InputError(f"`box` must give finite (lower, upper) for {self.num_inputs} axes; got {bounds!r}.")
        return array.reshape(self.num_inputs, 2)

    def _centered(self, center: np.ndarray) -> Waves:
        """The waves of y -> f(center + y)."""
        xp, (k, C, S) = host(*self._waves())
        turn = k @ center.astype(k.dtype)
        sine, cosine = per_row(xp.sin(turn), C), per_row(xp.cos(turn), C)
        return Waves(k, C * cosine + S * sine, S * cosine - C * sine)

    def integrate(self, box: Bounds | HasBounds) -> Array:
        """The definite integral over a box."""
        bounds = self._box(box)
        k, C, _ = self._centered(bounds.mean(axis=1))
        return device(_box_integral(k, bounds[:, 1] - bounds[:, 0]) @ C)

    def inner(self, other: AbstractSeries, box: Bounds | HasBounds) -> Array:
        """The inner product over a box: the integral of f times the conjugate of g, output by output."""
        bounds = self._box(box)
        center, width = bounds.mean(axis=1), bounds[:, 1] - bounds[:, 0]
        k, C, S = self._centered(center)
        q, D, T = self._match(other)._centered(center)
        # 2 cos a cos b = cos(a - b) + cos(a + b), 2 sin a sin b = cos(a - b) - cos(a + b); odd products integrate to 0
        minus = _box_integral(k[:, None] - q[None, :], width)
        plus = _box_integral(k[:, None] + q[None, :], width)
        pair = lambda left, gram, right: (left * (gram @ right.conj())).sum(axis=0)
        return device((pair(C, minus + plus, D) + pair(S, minus - plus, T)) / 2)

    def norm(self, box: Bounds | HasBounds) -> Array:
        """The L2 norm over a box."""
        xp, (square,) = host(self.inner(self, box))
        return device(xp.sqrt(xp.maximum(xp.real(square), 0.0)))

    # --- reading ---------------------------------------------------------------------------------------------------

    def terms(self, n: int | None = None) -> list[Term]:
        """The n largest cosines (all by default) of a real series with one output, equal waves merged."""
        if n is not None:
            check_count("n", n)
        series = self.exponential()
        if not series.is_real or series.coefficients.ndim > 1:
            raise InputError("`terms` needs a real series with one output; take one output or the real part first.")
        k, c = (values[:n] for values in series.largest())
        amplitude = np.abs(c)
        with np.errstate(divide="ignore"):
            periods = 2 * np.pi / np.abs(k)
        phase = np.arctan2(0.0 - np.imag(c), np.real(c))  # 0.0 - 0.0 is +0.0: a negative constant has phase +pi
        return [Term(float(amplitude[i]), float(phase[i]), k[i], periods[i]) for i in np.flatnonzero(c)]

    def describe(self, n: int = 5) -> str:
        """The n largest cosines as a table: amplitude, phase, frequency and period along each axis."""
        names = self.axes or [f"x{j + 1}" for j in range(self.num_inputs)]
        title = f"{type(self).__name__} of ({', '.join(names)}), {len(self.frequencies)} frequency vectors"
        series = self.exponential()
        if not series.is_real or series.coefficients.ndim > 1:
            return title
        terms = series.terms()
        lines = [
            title,
            f"{'amplitude':>12} {'phase':>9}" + "".join(f"{'freq ' + a:>13}{'period ' + a:>13}" for a in names),
        ]
        for amplitude, phase, frequency, period in terms[:n]:
            along = "".join(f"{f:13.6g}{p:13.6g}" for f, p in zip(frequency, period, strict=True))
            lines.append(f"{amplitude:12.5g} {phase:9.4f}{along}")
        return "\n".join([*lines, f"  … and {counted(len(terms) - n, 'smaller one')}"] if len(terms) > n else lines)

    def __str__(self) -> str:
        return self.describe()


@jax.jit
def _evaluate(points: Array, k: Array, C: Array, S: Array) -> Array:
    sine, cosine = sincos(points @ k.T)
    return cosine @ C + sine @ S


def _is_scalar(value: object) -> TypeGuard[Scalar]:
    return isinstance(value, numbers.Number) or getattr(value, "ndim", None) == 0


def _box_integral(k: Float[Numbers, "*M m"], width: Float[np.ndarray, "m"]) -> Float[Numbers, "*M"]:
    """The integral of cos(k . y) over the box of those widths around 0: prod_j w_j sinc(k_j w_j / 2)."""
    xp, (k,) = host(k)
    sinc = xp.sinc(k * (width / (2 * np.pi)).astype(k.dtype))  # numpy's sinc: sin(pi x) / (pi x)
    return float(np.prod(width)) * xp.prod(sinc, axis=-1)
