"""Series of products: sums of terms that are products of one-dimensional series, for any number of inputs.

Conventions (R terms, m inputs, F waves per factor):

    Re sum_r prod_j sum_f [C_rjf cos(n_rjf x_j) + S_rjf sin(n_rjf x_j)]

With F = 1 and real numbers a term is a rank-one sub-network c prod_j cos(n_j x_j - psi_j), 2m + 1 numbers instead of m + 2^m.
Complex factors make a plane wave one term: cos(k . x) = Re prod_j exp(i k_j x_j). Every integral over a box is a product of
integrals along its axes, so norms and inner products are exact even where sample points would miss the function.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Inexact

from flm.series.arrays import Along, Numbers, Scalar, as_floats, axis_indices, device, host
from flm.series.calculus import AbstractSeries, Bounds, HasBounds, Waves
from flm.series.exponential import ExponentialSeries
from flm.series.forms import PhaseSeries, SeparableSeries
from flm.wording import InputError, check_count

MOST_WAVES = 200_000  # plane waves into which products are multiplied out
BLOCK = 1 << 22  # product of waves and points that is evaluated at once


class ProductSeries(AbstractSeries):
    """A sum of products of one-dimensional series: Re sum_r prod_j sum_f C cos(n x_j) + S sin(n x_j).

    Args:
        frequencies: n, in radians per unit of x, (R, m, F).
        cosines: C, real or complex, (R, m, F).
        sines: S, likewise.
        axes: names of the inputs.

    Example:
        >>> import flm
        >>> names = [f"x{j}" for j in range(1, 101)]
        >>> wave = flm.ProductSeries.from_phases(np.full((1, 100), np.pi), np.full((1, 100), np.pi / 2), [1.0], names)
        >>> round(float(wave.norm([(0, 1)] * 100)) * 2**50, 12)  # prod_j sin(pi x_j)
        1.0
    """

    frequencies: Inexact[Array, "R m F"]
    cosines: Inexact[Array, "R m F"]
    sines: Inexact[Array, "R m F"]
    axes: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        frequencies: npt.ArrayLike,
        cosines: npt.ArrayLike,
        sines: npt.ArrayLike,
        axes: Sequence[str] | None = None,
    ):
        self.frequencies = as_floats("frequencies", frequencies, (3,))
        self.cosines = as_floats("cosines", cosines, (3,), may_be_complex=True)
        self.sines = as_floats("sines", sines, (3,), may_be_complex=True)
        for name, value in (("cosines", self.cosines), ("sines", self.sines)):
            if value.shape != self.frequencies.shape:
                raise InputError(
                    f"`{name}` must have the shape of `frequencies`, {self.frequencies.shape}; got {value.shape}."
                )
        if self.frequencies.shape[1] == 0:
            raise InputError("`frequencies` must have at least one input; got none.")
        self.axes = self._checked_axes(axes)

    @classmethod
    def from_phases(
        cls,
        frequencies: npt.ArrayLike,
        phases: npt.ArrayLike,
        coefficients: npt.ArrayLike,
        axes: Sequence[str] | None = None,
    ) -> ProductSeries:
        """The series sum_r c_r prod_j cos(n_rj x_j - psi_rj), from n and psi (R, m) and c (R,)."""
        n, psi = (as_floats(name, v, (2,)) for name, v in (("frequencies", frequencies), ("phases", phases)))
        c = as_floats("coefficients", coefficients, (1,))
        if psi.shape != n.shape or len(c) != len(n):
            raise InputError(
                f"`phases` must be (R, m) as `frequencies` and `coefficients` (R,); got {n.shape}, {psi.shape}, {c.shape}."
            )
        xp, (n, psi, c) = host(n, psi, c)
        return cls(n[..., None], xp.cos(psi)[..., None], xp.sin(psi)[..., None], axes)._times(c)

    # --- what every form can do --------------------------------------------------------------------------------------

    @property
    def _outputs(self) -> tuple[int, ...]:
        return ()

    def _waves(self) -> Waves:
        return self.exponential()._waves()

    def _times(self, factors: Numbers) -> ProductSeries:
        """The series with every term multiplied by its own factor (R,), or all by one."""
        xp, (C, S, factors) = host(self.cosines, self.sines, factors)
        first = xp.arange(C.shape[1])[:, None] == 0
        scale = xp.where(first, factors[..., None, None], 1.0)
        return self._with(cosines=C * scale, sines=S * scale)

    def _scaled(self, factor: Scalar) -> ProductSeries:
        return self._times(as_floats("factor", factor, (0,)))

    def _constant(self, value: Scalar) -> ProductSeries:
        one = np.ones((1, self.num_inputs, 1))
        return ProductSeries(0 * one, one, 0 * one, self.axes)._scaled(value)

    def _like(self, other: AbstractSeries) -> ProductSeries:
        return to_products(other)

    def _plus(self, other: AbstractSeries) -> ProductSeries:
        both = (self, to_products(other))
        width = max(series.frequencies.shape[2] for series in both)
        xp, arrays = host(*(a for s in both for a in (s.frequencies, s.cosines, s.sines)))
        padded = [xp.pad(a, ((0, 0), (0, 0), (0, width - a.shape[2]))) for a in arrays]
        n, C, S = (xp.concatenate([padded[i], padded[i + 3]]) for i in range(3))
        return ProductSeries(n, C, S, self.axes)

    @property
    def is_short(self) -> bool:
        """Whether the products are few enough to be multiplied out, and so to be read term by term."""
        R, m, F = self.frequencies.shape
        return R * (2 * F) ** m <= MOST_WAVES

    def exponential(self) -> ExponentialSeries:
        """All products multiplied out into plane waves, equal ones merged; refused where there are too many waves."""
        n, C, S = (np.asarray(v) for v in (self.frequencies, self.cosines, self.sines))
        R, m, F = n.shape
        if not self.is_short:
            raise InputError(
                f"a series of products must have at most {MOST_WAVES:,} plane waves to be multiplied out; got {R} terms of "
                f"{m} factors with up to {2 * F} waves each. Call, integrate and differentiate it as it is."
            )
        own = np.concatenate([n, -n], axis=2)  # the waves of each factor, (R, m, 2F)
        value = np.concatenate([C - 1j * S, C + 1j * S], axis=2) / 2
        factor, choice = np.arange(m)[:, None], np.indices((2 * F,) * m).reshape(m, -1)  # a wave of each factor
        k = np.swapaxes(own[:, factor, choice], 1, 2).reshape(-1, m)
        return ExponentialSeries.of_cosines(k, value[:, factor, choice].prod(axis=1).ravel(), self.axes)

    def phase(self) -> PhaseSeries:
        """The products multiplied out into cosines with phases; only for few inputs."""
        return self.exponential().phase()

    def __call__(self, points: npt.ArrayLike | None = None, /, **named: npt.ArrayLike) -> Array:
        """Values at points (..., m) (m = 1: also (...,)), or at named coordinates that broadcast together."""
        here = self._points(points, named)
        xp, (here, n, C, S) = host(here, self.frequencies, self.cosines, self.sines)

        def values(rows: Numbers) -> Numbers:
            total = 1.0
            for j in range(self.num_inputs):
                angle = rows[:, j, None, None] * n[:, j]  # (P, R, F)
                total = total * (xp.cos(angle) * C[:, j] + xp.sin(angle) * S[:, j]).sum(axis=-1)
            return xp.real(xp.asarray(total).sum(axis=-1))

        flat = here.reshape(-1, self.num_inputs)
        step = max(1, BLOCK // max(n.shape[0] * n.shape[2], 1))
        parts = [values(flat[i : i + step]) for i in range(0, len(flat), step)] or [xp.zeros(0)]
        return device(xp.concatenate(parts).reshape(here.shape[:-1]))

    def d(self, axes: Along) -> ProductSeries:
        """The partial derivative along the given axes: `.d("xx")`, `.d((0, 0))`."""
        xp, (n, C, S) = host(self.frequencies, self.cosines, self.sines)
        for axis in axis_indices(axes, self.axes, self.num_inputs):
            own = (xp.arange(self.num_inputs) == axis)[:, None]
            C, S = xp.where(own, n * S, C), xp.where(own, -n * C, S)
        return self._with(cosines=C, sines=S)

    def shift(self, offset: npt.ArrayLike) -> ProductSeries:
        """The function x -> f(x - offset)."""
        xp, (n, C, S, offset) = host(self.frequencies, self.cosines, self.sines, offset)
        turn = n * xp.broadcast_to(offset, (self.num_inputs,))[:, None]
        sine, cosine = xp.sin(turn), xp.cos(turn)
        return self._with(cosines=C * cosine - S * sine, sines=C * sine + S * cosine)

    def rescale(self, factors: npt.ArrayLike) -> ProductSeries:
        """The function x -> f(factors * x), one factor per axis or one for all."""
        xp, (n, factors) = host(self.frequencies, factors)
        return self._with(frequencies=n * xp.broadcast_to(factors, (self.num_inputs,))[:, None])

    def truncate(self, n: int) -> ProductSeries:
        """The n terms of largest amplitude."""
        check_count("n", n)
        C, S = (np.asarray(v) for v in (self.cosines, self.sines))
        size = np.prod(np.sqrt((np.abs(C) ** 2 + np.abs(S) ** 2).sum(axis=2)), axis=1)
        kept = np.argsort(-size, kind="stable")[:n]
        return self._with(frequencies=np.asarray(self.frequencies)[kept], cosines=C[kept], sines=S[kept])

    # --- integrals: a product of integrals along the axes ------------------------------------------------------------

    def integrate(self, box: Bounds | HasBounds) -> Array:
        """The definite integral over a box."""
        center, half = _middles(self._box(box))
        xp, (n, C) = host(self.frequencies, self.shift(-center).cosines)
        along = (C * 2 * half[:, None] * xp.sinc(n * half[:, None] / np.pi)).sum(axis=2)  # (R, m)
        return device(xp.real(xp.prod(along, axis=1).sum()))

    def inner(self, other: AbstractSeries, box: Bounds | HasBounds) -> Array:
        """The inner product over a box: the integral of f g (not inside `jit`)."""
        bounds = self._box(box)
        center, half = _middles(bounds)
        left, right = self.shift(-center), to_products(self._match(other)).shift(-center)
        straight, turned = 1.0, 1.0  # prod_j <A, B>, prod_j <A, conj B>: Re A Re B = Re (A B + A conj B) / 2
        is_real = not (np.iscomplexobj(left.cosines) and np.iscomplexobj(right.cosines))
        for j in range(self.num_inputs):
            n, C, S = left._along(j)
            q, D, T = right._along(j)
            minus, plus = (np.sinc(np.subtract.outer(n, s * q) * half[j] / np.pi) * half[j] for s in (1, -1))
            straight = straight * (C @ (minus + plus) @ D.T + S @ (minus - plus) @ T.T)
            if not is_real:
                turned = turned * (C @ (minus + plus) @ D.conj().T + S @ (minus - plus) @ T.conj().T)
        both = straight if is_real else (np.asarray(straight) + turned) / 2
        return device(np.real(np.sum(both)))

    def _along(self, j: int) -> Waves:
        """The distinct frequencies along axis j, (U,), and the factors of all terms in these waves, (R, U)."""
        n, C, S = (np.asarray(v)[:, j] for v in (self.frequencies, self.cosines, self.sines))
        distinct, place = np.unique(n, return_inverse=True)
        out = np.zeros((2, len(n), len(distinct)), np.result_type(C, S))
        rows = np.arange(len(n))[:, None]
        np.add.at(out[0], (rows, place.reshape(n.shape)), C)
        np.add.at(out[1], (rows, place.reshape(n.shape)), S)
        return Waves(distinct, out[0], out[1])

    def describe(self, n: int = 5) -> str:
        """How many terms, factors and waves there are and, where the products can be multiplied out, the n largest cosines."""
        R, m, F = self.frequencies.shape
        names = self.axes or tuple(f"x{j + 1}" for j in range(m))
        shown = ", ".join(names if m <= 8 else (*names[:2], "…", names[-1]))
        title = f"ProductSeries of ({shown}), {R} terms of {m} factors with {F} wave{'s' * (F > 1)} each"
        return f"{title}\n{self.exponential().describe(n)}" if self.is_short else title


def _middles(bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half-width of each axis."""
    return bounds.mean(axis=1), np.ptp(bounds, axis=1) / 2


def to_products(series: AbstractSeries) -> ProductSeries:
    """A series in another form as products: of real factors from the separable form, else one complex term per wave.

    Example:
        >>> import flm
        >>> wave = flm.SeparableSeries([[1.0, 2.0]], [[0.0, 0.0, 0.0, 1.0]], axes=("x", "y"))  # sin x sin 2y
        >>> flm.series.to_products(wave).sines[..., 0]
        Array([[1., 1.]], dtype=float64)
    """
    if isinstance(series, ProductSeries):
        return series
    if series._outputs:
        raise InputError(f"a series of products must have one output; got {series._outputs[0]}. Take one of them.")
    if isinstance(series, ExponentialSeries) and not series.is_real:
        raise InputError("a series of products must be real; got complex values. Take the real part first.")
    if isinstance(series, SeparableSeries):
        a, m = np.asarray(series.coefficients), series.num_inputs
        term, k = np.nonzero(a)
        is_sine = (k[:, None] >> np.arange(m - 1, -1, -1)) & 1
        n, sines = np.asarray(series.frequencies)[term][..., None], is_sine[..., None].astype(float)
        return ProductSeries(n, 1 - sines, sines, series.axes)._times(a[term, k])
    k, C, S = (np.asarray(v) for v in series._waves())
    one = np.ones((*k.shape, 1), complex)
    return ProductSeries(k[..., None], one, 1j * one, series.axes)._times(C - 1j * S)
