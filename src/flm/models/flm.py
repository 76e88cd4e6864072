"""The Fourier Learning Machine (paper, Definition 3)."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flm.domains import AbstractDomain
from flm.models.base import AbstractLinearModel, InputMap, input_map, random_key
from flm.series import PhaseSeries, lattice, sign_matrix, sincos
from flm.series.arrays import as_floats, device, host
from flm.series.forms import MAX_INPUTS
from flm.series.waves import Orders, monomial, quarter_turn, turned_coefficients
from flm.wording import InputError


class FLM(AbstractLinearModel):
    """A sum of N sub-networks, each 2^(m-1) phase-shifted cosines that share one frequency vector up to signs.

    f(x) = sum_n sum_i A_i cos((e_i * n) . z - phi_i),  z = 2 pi (x - center) / period  (paper, Section 4).

    Starts as the paper does: frequencies at the first N points of the integer lattice by Euclidean norm, phases normal
    with standard deviation pi/3, amplitudes zero. The jets come from one sine-cosine table in closed form.

    Args:
        num_inputs: m, or a domain, whose axes and extent then set the input map.
        num_subnets: N.
        key: an integer or a JAX key, for the phases.
        period: after which the frequency-1 wave repeats, per axis. Default: the domain's widths (the paper's map to
            [-pi, pi]); with a plain number of inputs, no map.
        num_outputs: K outputs share the frequencies; amplitudes and phases are then (N, l, K).
        frequencies: a start other than the paper's, (N, m), on the mapped inputs.
        train_frequencies: False hardwires them: with integers, the classical Fourier series.

    Example:
        >>> import flm
        >>> model = flm.FLM(flm.Box(x=(0, 1), t=(0, 1)), 25, key=0)
        >>> model.num_parameters
        150
    """

    frequencies: Float[Array, "N m"]
    amplitudes: Float[Array, "N l *K"]
    phases: Float[Array, "N l *K"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)
    train_frequencies: bool = eqx.field(static=True)

    def __init__(
        self,
        num_inputs: int | AbstractDomain,
        num_subnets: int,
        *,
        key: Any,
        period: Any = None,
        num_outputs: int = 1,
        frequencies: Any = None,
        train_frequencies: bool = True,
    ):
        self.map = input_map(num_inputs, 2 * np.pi, period)
        m, n = len(self.map.center), num_subnets
        for name, value in (("num_subnets", n), ("num_outputs", num_outputs)):
            if not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"`{name}` must be an integer of at least 1; got {value!r}.")
        if m > MAX_INPUTS:
            raise InputError(
                f"`num_inputs` must be at most {MAX_INPUTS}; got {m}: {n} sub-networks would have "
                f"{n * (m + num_outputs * 2**m)} parameters, 2^{m} per sub-network and output."
            )
        dtype = jnp.result_type(float)
        start = lattice(m, n) if frequencies is None else frequencies
        self.frequencies = as_floats("frequencies", start, (2,)).astype(dtype)
        if self.frequencies.shape != (n, m):
            raise InputError(f"`frequencies` must have shape ({n}, {m}); got {self.frequencies.shape}.")
        if not isinstance(start, jax.core.Tracer) and not np.isfinite(np.asarray(start, float)).all():  # type: ignore[attr-defined]
            raise InputError("`frequencies` must be finite; got values that are not.")
        shape = (n, 2 ** (m - 1)) if num_outputs == 1 else (n, 2 ** (m - 1), num_outputs)
        self.amplitudes = device(np.zeros(shape, dtype))
        self.phases = jax.random.normal(random_key(key), shape, dtype) * (np.pi / 3)
        self.num_outputs = int(num_outputs)
        self.train_frequencies = bool(train_frequencies)

    def __check_init__(self):
        n, m = self.frequencies.shape
        if len(self.map.center) != m:
            raise InputError(f"`frequencies` must have {len(self.map.center)} columns, one per input; got {m}.")
        shape = (n, 2 ** (m - 1)) if self.num_outputs == 1 else (n, 2 ** (m - 1), self.num_outputs)
        if self.amplitudes.shape != shape or self.phases.shape != shape:
            raise InputError(
                f"`amplitudes` and `phases` must have shape {shape}; got {self.amplitudes.shape} and "
                f"{self.phases.shape}."
            )

    def jets(self, points: Any, orders: Orders) -> Array:
        """Values and derivatives from one table: (A, P) or (A, P, K). See `AbstractModel.jets`."""
        return _jets(*self._arrays(), self._checked(points), self._orders(orders))

    def basis(self, points: Any, orders: Orders) -> Float[Array, "A P columns"]:
        """Columns cos(k . z) then sin(k . z) of all M = N l waves, and their derivatives."""
        n, _, _, *mapping = self._arrays()
        return _basis(n, *mapping, self._checked(points), self._orders(orders))

    def _arrays(self) -> tuple[Any, ...]:
        """Parameters and input map: all arguments of the compiled programs, so that another domain compiles nothing."""
        center, scale = (np.asarray(v, self.frequencies.dtype) for v in (self.map.center, self.map.scale))
        return self.frequencies, self.amplitudes, self.phases, center, scale

    @property
    def coefficients(self) -> Float[Array, "2M *K"]:
        """C of every wave, then S."""
        xp, (A, phi) = host(self.amplitudes, self.phases)
        C, S = A * xp.cos(phi), A * xp.sin(phi)
        return device(xp.concatenate([C.reshape(-1, *C.shape[2:]), S.reshape(-1, *S.shape[2:])]))

    def with_coefficients(self, coefficients: Any) -> FLM:
        """The model with A = |C + iS| and phi = arg(C + iS), frequencies kept."""
        xp, (values,) = host(coefficients)
        shape = self.amplitudes.shape
        if values.shape != (expected := (2 * shape[0] * shape[1], *shape[2:])):
            raise InputError(f"`coefficients` must have shape {expected}; got {values.shape}.")
        C, S = (v.reshape(shape) for v in xp.split(values.astype(self.amplitudes.dtype), 2))
        return eqx.tree_at(lambda f: (f.amplitudes, f.phases), self, (device(xp.hypot(C, S)), device(xp.arctan2(S, C))))

    def trainable(self) -> Any:
        """Everything, or all but the frequencies when they are hardwired."""
        spec = jax.tree.map(eqx.is_inexact_array, self)
        return eqx.tree_at(lambda f: f.frequencies, spec, self.train_frequencies)

    @property
    def num_subnets(self) -> int:
        """N, the number of sub-networks."""
        return self.frequencies.shape[0]

    @property
    def series(self) -> PhaseSeries:
        """The same function as a series in physical units."""
        mapped = PhaseSeries(self.frequencies, self.amplitudes, self.phases, self.map.axes)
        return mapped.rescale(self.map.scale).shift(self.map.center)


def _table(n: Array, center: Array, scale: Array, points: Array) -> tuple[Array, Array, Array]:
    """Physical wave vectors k (M, m), and sin and cos of their angles, neuron-major (M, P): XLA's fastest layout."""
    signs = sign_matrix(n.shape[1]).astype(n.dtype)
    k = (n[:, None, :] * signs).reshape(-1, n.shape[1])
    z = (points - center.astype(points.dtype)) * scale.astype(points.dtype)
    sine, cosine = sincos(k @ z.T)
    return k * scale, sine, cosine


@partial(jax.jit, static_argnames="orders")  # called outside of a larger program, compile once per shape
def _jets(n: Array, A: Array, phi: Array, center: Array, scale: Array, points: Array, orders: Orders) -> Array:
    k, sine, cosine = _table(n, center, scale, points)
    sin_phi, cos_phi = sincos(phi)
    C, S = ((A * v).reshape(len(k), *A.shape[2:]) for v in (cos_phi, sin_phi))
    C, S = turned_coefficients(k, C, S, orders)
    return jnp.einsum("am...,mp->ap...", C, cosine) + jnp.einsum("am...,mp->ap...", S, sine)


@partial(jax.jit, static_argnames="orders")
def _basis(n: Array, center: Array, scale: Array, points: Array, orders: Orders) -> Array:
    k, sine, cosine = _table(n, center, scale, points)
    blocks = []
    for alpha in orders:
        factor = jnp.reshape(monomial(k, alpha) * jnp.ones(len(k), k.dtype), (-1, 1))
        # of C cos + S sin, the column of C is its derivative at C = 1, S = 0, and likewise for S
        (cc, cs), (sc, ss) = quarter_turn(1.0, 0.0, sum(alpha)), quarter_turn(0.0, 1.0, sum(alpha))
        of_C, of_S = cc * cosine + cs * sine, sc * cosine + ss * sine
        blocks.append(jnp.concatenate([factor * of_C, factor * of_S]))
    return jnp.swapaxes(jnp.stack(blocks), 1, 2)
