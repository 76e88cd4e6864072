"""What every form of a series can do: be called, added, multiplied, integrated over boxes, and read.

Every form is a sum of plane waves C cos(k . x) + S sin(k . x); integrals are closed form wave by wave:
the mean of exp(i k . x) over a box with middle c and half-widths h is exp(i k . c) prod_j sinc(k_j h_j).
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flm.series.arrays import as_numbers, device, host, per_row
from flm.series.sine_cosine import sincos
from flm.wording import InputError, check_count


class Term(NamedTuple):
    """One cosine of a series: amplitude * cos(frequency . x - phase); period = 2 pi / |frequency| per axis."""

    amplitude: float
    phase: float
    frequency: np.ndarray
    period: np.ndarray


class AbstractSeries(eqx.Module):
    """A finite sum of plane waves in m inputs, as a function."""

    frequencies: eqx.AbstractVar[Float[Array, "N m"]]
    axes: eqx.AbstractVar[tuple[str, ...] | None]

    __array_ufunc__ = None  # numpy scalars and arrays leave + - * / to the series

    # Each form gives its waves (k (M, m), C (M, ...), S (M, ...)) and what depends on how it stores them.
    def _waves(self) -> tuple[Array, Array, Array]:
        raise NotImplementedError

    def _scaled(self, factor: Any) -> Any:
        raise NotImplementedError

    def _plus(self, other: Any) -> Any:
        raise NotImplementedError

    def _constant(self, value: Any) -> Any:
        raise NotImplementedError

    @property
    def _outputs(self) -> tuple[int, ...]:
        raise NotImplementedError

    def phase(self) -> Any:
        """The phase form of the same function."""
        raise NotImplementedError

    def separable(self) -> Any:
        """The separable form of the same function."""
        raise NotImplementedError

    def exponential(self) -> Any:
        """The exponential form of the same function."""
        raise NotImplementedError

    @classmethod
    def _unpack(cls, fields: dict[str, Any]) -> Any:
        """From the fields of a saved file, checked as any other arguments are."""
        return cls(**fields)

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs."""
        return self.frequencies.shape[1]

    def _checked_axes(self, axes: Any) -> tuple[str, ...] | None:
        if axes is None:
            return None
        axes = tuple(axes) if isinstance(axes, str | tuple | list) else (axes,)
        if not all(isinstance(a, str) for a in axes) or len(axes) != self.num_inputs or len(set(axes)) != len(axes):
            raise InputError(f"`axes` must be {self.num_inputs} different names, one per input; got {axes!r}.")
        return axes

    def _points(self, points: Any, named: dict[str, Any]) -> Array:
        """Points (..., m), from one array or from one array per named axis."""
        m = self.num_inputs
        if named:
            if points is not None or self.axes is None or set(named) != set(self.axes):
                known = "no names: it was built without `axes`" if self.axes is None else ", ".join(self.axes)
                raise InputError(
                    f"call with points (..., {m}) or with every axis by name ({known}); got {sorted(named)}."
                )
            xp, *columns = as_numbers("points", *(named[a] for a in self.axes))
            return xp.stack(xp.broadcast_arrays(*columns), axis=-1).astype(jnp.result_type(float))
        if points is None:
            raise InputError(f"call with points (..., {m}) or with every axis by name; got nothing.")
        _, points = as_numbers("points", points)
        if m == 1 and (points.ndim == 0 or points.shape[-1] != 1):
            points = points[..., None]
        if points.ndim == 0 or points.shape[-1] != m:
            raise InputError(f"`points` must have {m} columns, one per input; got shape {points.shape}.")
        dtype = self.frequencies.dtype
        return points.astype(np.promote_types(points.dtype, dtype) if points.dtype.kind in "fc" else dtype)

    def __call__(self, points: Any = None, /, **named: Any) -> Array:
        """Values at points (..., m) (m = 1: also (...,)), or at named coordinates that broadcast together."""
        return _evaluate(self._points(points, named), *self._waves())

    # --- algebra ---------------------------------------------------------------------------------------------------

    def _match(self, other: AbstractSeries) -> AbstractSeries:
        if other.num_inputs != self.num_inputs or (self.axes and other.axes and self.axes != other.axes):
            raise InputError(
                f"series must share their inputs; got {self.num_inputs} {self.axes or ''} and "
                f"{other.num_inputs} {other.axes or ''}."
            )
        if other._outputs != self._outputs:
            count = lambda series: series._outputs[0] if series._outputs else "one"
            raise InputError(f"series must have equally many outputs; got {count(self)} and {count(other)}.")
        return other

    def __add__(self, other: Any) -> Any:
        if isinstance(other, AbstractSeries):
            return self._plus(self._match(other))
        if _is_scalar(other):
            return self._plus(self._constant(other))
        return NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self._scaled(-1.0)

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __mul__(self, other: Any) -> Any:
        """A scalar multiple, or the product of two series: exp(i p.x) exp(i q.x) = exp(i (p + q).x), always closed."""
        if _is_scalar(other):
            return self._scaled(other)
        if not isinstance(other, AbstractSeries):
            return NotImplemented
        left, right = self.exponential().nonzero(), self._match(other).exponential().nonzero()
        k = np.asarray(left.frequencies)[:, None, :] + np.asarray(right.frequencies)[None, :, :]
        c = np.asarray(left.coefficients)[:, None] * np.asarray(right.coefficients)[None, :]
        product = type(left)(k.reshape(-1, self.num_inputs), c.reshape(-1, *c.shape[2:]), self.axes).merged()
        return self._like(product)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._scaled(1 / other) if _is_scalar(other) else NotImplemented

    def _like(self, exponential: AbstractSeries) -> Any:
        """That series in this one's form."""
        return {"PhaseSeries": exponential.phase, "SeparableSeries": exponential.separable}.get(
            type(self).__name__, exponential.exponential
        )()

    # --- integrals -------------------------------------------------------------------------------------------------

    def _box(self, box: Any) -> np.ndarray:
        """Bounds (m, 2) from a domain, a mapping by axis name, or pairs in order; m = 1 also one pair."""
        box = getattr(box, "bounds", box)
        if isinstance(box, Mapping):
            if self.axes is None or set(box) != set(self.axes):
                raise InputError(f"`box` must name the axes {self.axes}; got {sorted(box)}.")
            box = [box[a] for a in self.axes]
        return as_box(box, self.num_inputs, "box")

    def _centered(self, center: np.ndarray) -> tuple[Array, Array, Array]:
        """The waves of y -> f(center + y)."""
        xp, k, C, S = host(*self._waves())
        turn = k @ center.astype(k.dtype)
        sine, cosine = per_row(xp.sin(turn), C), per_row(xp.cos(turn), C)
        return k, C * cosine + S * sine, S * cosine - C * sine

    def integrate(self, box: Any) -> Array:
        """The definite integral over a box."""
        bounds = self._box(box)
        k, C, _ = self._centered(bounds.mean(axis=1))
        return device(_box_integral(k, bounds[:, 1] - bounds[:, 0]) @ C)

    def inner(self, other: AbstractSeries, box: Any) -> Array:
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

    def norm(self, box: Any) -> Array:
        """The L2 norm over a box."""
        xp, square = host(self.inner(self, box))
        return device(xp.sqrt(xp.maximum(xp.real(square), 0.0)))

    # --- reading ---------------------------------------------------------------------------------------------------

    def terms(self, n: int | None = None) -> list[Term]:
        """The n largest cosines (all by default) of a real series with one output, equal waves merged."""
        if n is not None:
            check_count("n", n)
        series = self.exponential().merged()
        if not series.is_real or series.coefficients.ndim > 1:
            raise InputError("`terms` needs a real series with one output; take one output or the real part first.")
        rows = upper_half(np.asarray(series.frequencies))
        k, c = np.asarray(series.frequencies)[rows], np.asarray(series.coefficients)[rows]
        amplitude = np.abs(c) * np.where((k != 0).any(axis=1), 2.0, 1.0)
        order = [i for i in np.argsort(-amplitude, kind="stable")[:n] if amplitude[i] > 0]
        with np.errstate(divide="ignore"):
            periods = 2 * np.pi / np.abs(k)
        phase = np.arctan2(0.0 - np.imag(c), np.real(c))  # 0.0 - 0.0 is +0.0: a negative constant has phase +pi
        return [Term(float(amplitude[i]), float(phase[i]), k[i], periods[i]) for i in order]

    def describe(self, n: int = 5) -> str:
        """The n largest cosines as a table: amplitude, phase, frequency and period along each axis."""
        names = self.axes or [f"x{j + 1}" for j in range(self.num_inputs)]
        title = f"{type(self).__name__} of ({', '.join(names)}), {len(self.frequencies)} frequency vectors"
        series = self.exponential()
        if not series.is_real or series.coefficients.ndim > 1:
            return title
        terms = self.terms()
        head = f"{'amplitude':>12} {'phase':>9}" + "".join(f"{'freq ' + a:>13}{'period ' + a:>13}" for a in names)
        rows = [
            f"{t.amplitude:12.5g} {t.phase:9.4f}"
            + "".join(f"{f:13.6g}{p:13.6g}" for f, p in zip(t[2], t[3], strict=True))
            for t in terms[:n]
        ]
        rest = [f"  … and {len(terms) - n} smaller ones"] if len(terms) > n else []
        return "\n".join([title, head, *rows, *rest])

    def __str__(self) -> str:
        return self.describe()


@jax.jit
def _evaluate(points: Array, k: Array, C: Array, S: Array) -> Array:
    sine, cosine = sincos(points @ k.T)
    return cosine @ C + sine @ S


def _is_scalar(value: Any) -> bool:
    return isinstance(value, numbers.Number) or (hasattr(value, "ndim") and value.ndim == 0)


def _box_integral(k: Float[Array, "... m"], width: np.ndarray) -> Float[Array, "..."]:
    """The integral of cos(k . y) over the box of those widths around 0: prod_j w_j sinc(k_j w_j / 2)."""
    xp, k = host(k)
    value: Any = float(np.prod(width))
    for j, w in enumerate(width):
        value = value * xp.sinc(k[..., j] * float(w / (2 * np.pi)))  # numpy's sinc: sin(pi x) / (pi x)
    return value


def as_box(box: Any, m: int, name: str) -> np.ndarray:
    """Bounds (m, 2) from that argument."""
    try:
        bounds = np.asarray(box, float)
    except (TypeError, ValueError):
        bounds = np.empty(0)
    if bounds.size != 2 * m or not np.isfinite(bounds).all():
        raise InputError(f"`{name}` must give finite (lower, upper) for {m} axes; got {box!r}.")
    return bounds.reshape(m, 2)


def upper_half(k: np.ndarray) -> np.ndarray:
    """One of each pair (k, -k): the rows that are zero or whose first nonzero component is positive."""
    if not len(k):
        return np.zeros(0, bool)
    return k[np.arange(len(k)), (k != 0).argmax(axis=1)] >= 0


def axis_indices(series: AbstractSeries, axes: Any) -> tuple[int, ...]:
    """Axis numbers of a derivative given as "xx" (one-letter names), as names, or as numbers."""
    if isinstance(axes, str | int | np.integer):
        axes = tuple(axes) if isinstance(axes, str) and axes not in (series.axes or ()) else (axes,)
    if not isinstance(axes, tuple | list):
        raise InputError(f'`d` must name axes, as in "xx" or (0, 0); got {axes!r}.')
    out = []
    for axis in axes:
        if isinstance(axis, str):
            if series.axes is None or axis not in series.axes:
                raise InputError(f"`d` must name axes among {series.axes}; got {axis!r}.")
            axis = series.axes.index(axis)
        if not isinstance(axis, int | np.integer) or not 0 <= axis < series.num_inputs:
            raise InputError(f"`d` must number axes from 0 to {series.num_inputs - 1}; got {axis!r}.")
        out.append(int(axis))
    return tuple(out)
