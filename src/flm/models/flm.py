"""The Fourier Learning Machine (paper, Definition 3)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, PyTree

from flm.models.base import AbstractLinearModel, InputMap, Inputs, Key, input_map, random_key
from flm.series import PhaseSeries, lattice
from flm.series.arrays import as_floats, device, drawn, host
from flm.series.forms import MAX_INPUTS, phase_waves
from flm.series.waves import Orders
from flm.wording import InputError, check_count


class FLM(AbstractLinearModel):
    """A sum of N sub-networks, each 2^(m-1) phase-shifted cosines that share one frequency vector up to signs.

    f(x) = sum_n sum_i A_i cos((e_i * n) . z - phi_i),  z = 2 pi (x - center) / period  (paper, Section 4).

    It starts as in the paper: frequencies at the first N points of the integer lattice by Euclidean norm, phases normal
    with standard deviation pi/3, amplitudes zero. The jets come from one sine-cosine table in closed form.

    Args:
        num_inputs: m, or a domain, whose axes and extent then set the input map.
        num_subnets: N.
        key: an integer or a JAX key, for the phases.
        period: the length after which the frequency-1 wave repeats, per axis. Default: the domain's widths (the paper's map to
            [-pi, pi]); with a plain number of inputs, no map.
        num_outputs: K outputs share the frequencies; amplitudes and phases are then (N, l, K).
        frequencies: a start other than the paper's, (N, m), on the mapped inputs.
        train_frequencies: False keeps the frequencies fixed; with integers, this is the classical Fourier series.

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
        num_inputs: Inputs,
        num_subnets: int,
        *,
        key: Key,
        period: npt.ArrayLike | None = None,
        num_outputs: int = 1,
        frequencies: npt.ArrayLike | None = None,
        train_frequencies: bool = True,
    ):
        self.map = input_map(num_inputs, 2 * np.pi, period)
        m, n = len(self.map.center), check_count("num_subnets", num_subnets, 1)
        self.num_outputs = check_count("num_outputs", num_outputs, 1)
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
        self.amplitudes = device(np.zeros(self._shape, dtype))
        self.phases = device(drawn(jax.random.normal, random_key(key), self._shape) * (np.pi / 3))
        self.train_frequencies = bool(train_frequencies)

    def __check_init__(self):
        if self.frequencies.shape[1] != self.num_inputs:
            raise InputError(f"`frequencies` must have {self.num_inputs} columns; got {self.frequencies.shape}.")
        if self.amplitudes.shape != self._shape or self.phases.shape != self._shape:
            shapes = f"{self.amplitudes.shape} and {self.phases.shape}"
            raise InputError(f"`amplitudes` and `phases` must have shape {self._shape}; got {shapes}.")

    @property
    def _shape(self) -> tuple[int, ...]:
        """(N, l), or (N, l, K) for several outputs."""
        n, m = self.frequencies.shape
        return (n, 2 ** (m - 1), self.num_outputs)[: 2 + (self.num_outputs > 1)]

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Values and derivatives from one table: (A, P) or (A, P, K). See `AbstractModel.jets`."""
        return self._wave_jets(phase_waves(self.frequencies, self.amplitudes, self.phases), points, orders)

    def basis(self, points: npt.ArrayLike, orders: Orders) -> Float[Array, "A P columns"]:
        """Columns cos(k . z) then sin(k . z) of all M = N l waves, and their derivatives."""
        k = phase_waves(self.frequencies, self.amplitudes, self.phases).k
        return self._wave_columns(k, points, orders)

    @property
    def coefficients(self) -> Float[Array, "2M *K"]:
        """C of every wave, then S."""
        xp, parts = host(*phase_waves(self.frequencies, self.amplitudes, self.phases)[1:])
        return device(xp.concatenate(parts))

    def with_coefficients(self, coefficients: npt.ArrayLike) -> FLM:
        """The model with A = |C + iS| and phi = arg(C + iS), frequencies kept."""
        xp, (values,) = host(coefficients)
        shape = self.amplitudes.shape
        if values.shape != (expected := (2 * shape[0] * shape[1], *shape[2:])):
            raise InputError(f"`coefficients` must have shape {expected}; got {values.shape}.")
        C, S = (v.reshape(shape) for v in xp.split(values.astype(self.amplitudes.dtype), 2))
        return eqx.tree_at(lambda f: (f.amplitudes, f.phases), self, (device(xp.hypot(C, S)), device(xp.arctan2(S, C))))

    def trainable(self) -> PyTree[bool]:
        """Everything, or everything except the frequencies when those are fixed."""
        return eqx.tree_at(lambda f: f.frequencies, super().trainable(), self.train_frequencies)

    @property
    def num_subnets(self) -> int:
        """N, the number of sub-networks."""
        return self.frequencies.shape[0]

    @property
    def series(self) -> PhaseSeries:
        """The same function as a series in physical units."""
        return self.map.series(self.frequencies, self.amplitudes, self.phases)
