"""Older Fourier networks whose frequencies are trained: products of cosines, separate sines and cosines, one input."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from flm.domains import AbstractDomain
from flm.models.base import AbstractModel, InputMap, Key, input_map, random_key
from flm.models.networks import Siren
from flm.series import PhaseSeries, lattice, sign_matrix, sincos
from flm.series.waves import Orders, wave_jets
from flm.wording import InputError, NoSeriesError, check_count


class Silvescu(AbstractModel):
    """The Fourier neural network S99: products of phase-shifted cosines, optionally squeezed through a sigmoid.

    f(x) = sigma( sum_i c_i prod_j cos(w_ij z_j + phi_ij) ),  z in [-pi, pi]^m.

    A classical Fourier series when w is integer and each phi is 0 or -pi/2; with all phi = 0 it is even in every input.

    Args:
        num_inputs: m, or a domain, whose extent is mapped to [-pi, pi]^m.
        num_terms: how many products.
        key: for the phases, normal with standard deviation pi/3, and the weights, normal with 1/sqrt(num_terms).
        sigmoid: whether the sum is squeezed into (0, 1).

    Example:
        >>> import flm
        >>> flm.models.Silvescu(flm.Box(x=(0, 1)), 3, key=0).num_parameters
        9
    """

    frequencies: Float[Array, "terms m"]
    phases: Float[Array, "terms m"]
    weights: Float[Array, "terms"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)
    sigmoid: bool = eqx.field(static=True)

    def __init__(self, num_inputs: int | AbstractDomain, num_terms: int, *, key: Key, sigmoid: bool = False):
        self.map = input_map(num_inputs, 2 * np.pi)
        m, n = len(self.map.center), check_count("num_terms", num_terms, 1)
        dtype = jnp.result_type(float)
        first, second = jax.random.split(random_key(key))
        self.frequencies = jnp.asarray(lattice(m, n), dtype)
        self.phases = jax.random.normal(first, (n, m), dtype) * (np.pi / 3)
        self.weights = jax.random.normal(second, (n,), dtype) / np.sqrt(n)
        self.num_outputs = 1
        self.sigmoid = bool(sigmoid)

    def values(self, points: Float[Array, "P m"]) -> Float[Array, "P *K"]:
        """The sum of products, squeezed or not."""
        z = self.map(points)
        product = jnp.ones((len(z), len(self.weights)), z.dtype)
        for j in range(self.num_inputs):
            product = product * sincos(z[:, j, None] * self.frequencies[:, j] + self.phases[:, j])[1]
        total = product @ self.weights
        return jax.nn.sigmoid(total) if self.sigmoid else total

    @property
    def series(self) -> PhaseSeries:
        """The same function as a series: a product of cosines is a sub-network with 2^(1-m) c_i in every cosine."""
        if self.sigmoid:
            raise NoSeriesError(
                "a Silvescu network with a sigmoid is not a Fourier series; distill it with flm.distill."
            )
        signs = jnp.asarray(sign_matrix(self.num_inputs), self.phases.dtype)
        amplitudes = jnp.outer(self.weights, jnp.ones(len(signs))) / len(signs)
        return self.map.series(self.frequencies, amplitudes, -self.phases @ signs.T)


class LiuNetwork(AbstractModel):
    """The Fourier neural network L13: sines and cosines, each with frequencies of its own.

    f(x) = sum_i a_i sin(c_i . z) + b_i cos(d_i . z),  z in [-1, 1]^m as for a SIREN.

    With c_i = d_i it is SIREN-1 with omega = 1, since v sin(w . z + b) = v cos b sin(w . z) + v sin b cos(w . z); otherwise
    it is a trigonometric expansion, but not a nonharmonic Fourier series.

    Args:
        num_inputs: m, or a domain, whose extent is mapped to [-1, 1]^m.
        num_terms: N.
        key: frequencies start uniform in +-pi per component, amplitudes normal with standard deviation 1/sqrt(N).

    Example:
        >>> import flm
        >>> flm.models.LiuNetwork(flm.Box(x=(0, 1)), 5, key=0).num_parameters
        20
    """

    sine_frequencies: Float[Array, "N m"]
    cosine_frequencies: Float[Array, "N m"]
    sine_amplitudes: Float[Array, "N"]
    cosine_amplitudes: Float[Array, "N"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, num_inputs: int | AbstractDomain, num_terms: int, *, key: Key):
        self.map = input_map(num_inputs, 2.0)
        m, n = len(self.map.center), check_count("num_terms", num_terms, 1)
        dtype = jnp.result_type(float)
        keys = jax.random.split(random_key(key), 4)
        self.sine_frequencies = jax.random.uniform(keys[0], (n, m), dtype, -np.pi, np.pi)
        self.cosine_frequencies = jax.random.uniform(keys[1], (n, m), dtype, -np.pi, np.pi)
        self.sine_amplitudes = jax.random.normal(keys[2], (n,), dtype) / np.sqrt(n)
        self.cosine_amplitudes = jax.random.normal(keys[3], (n,), dtype) / np.sqrt(n)
        self.num_outputs = 1

    @classmethod
    def from_siren(cls, siren: Siren) -> LiuNetwork:
        """The same function as a SIREN-1: equal frequencies, and one constant term for the output bias."""
        if len(siren.weights) != 2 or siren.num_outputs != 1:
            raise InputError(
                f"`siren` must have one hidden layer and one output; got {len(siren.weights) - 1} layers and "
                f"{siren.num_outputs} outputs."
            )
        w, v = siren.omega * siren.weights[0], siren.weights[1][0]
        sine, cosine = sincos(siren.biases[0])
        zero = jnp.zeros(1, w.dtype)
        frequencies = jnp.concatenate([w, jnp.zeros((1, w.shape[1]), w.dtype)])
        made = cls(siren.num_inputs, len(frequencies), key=0)
        return eqx.tree_at(
            lambda f: (f.map, f.sine_frequencies, f.cosine_frequencies, f.sine_amplitudes, f.cosine_amplitudes),
            made,
            (
                siren.map,
                frequencies,
                frequencies,
                jnp.concatenate([v * cosine, zero]),
                jnp.concatenate([v * sine, siren.biases[1]]),
            ),
            is_leaf=lambda leaf: isinstance(leaf, InputMap),
        )

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Values and derivatives in closed form; see `AbstractModel.jets`."""
        z, scale = self.map(self._checked(points)), np.asarray(self.map.scale, self.sine_frequencies.dtype)
        k = jnp.concatenate([self.sine_frequencies, self.cosine_frequencies])
        none = jnp.zeros_like(self.sine_amplitudes)
        C = jnp.concatenate([none, self.cosine_amplitudes])
        S = jnp.concatenate([self.sine_amplitudes, none])
        return wave_jets(k, z, scale, C, S, self._orders(orders))

    @property
    def series(self) -> PhaseSeries:
        """The nonharmonic series, when the frequencies of sines and cosines coincide."""
        if not np.array_equal(self.sine_frequencies, self.cosine_frequencies):
            raise NoSeriesError(
                "a LiuNetwork is a Fourier series only when its sine and cosine frequencies are equal; they differ."
            )
        amplitudes = jnp.hypot(self.sine_amplitudes, self.cosine_amplitudes)
        phases = jnp.arctan2(self.sine_amplitudes, self.cosine_amplitudes)
        return self.map.cosines(self.sine_frequencies, amplitudes, phases)


class NonharmonicNetwork(AbstractModel):
    """The network NM21: a nonharmonic Fourier series of one variable, frequencies trained.

    f(x) = a_0 + sum_i a_i cos(w_i z + phi_i),  z in [-pi, pi].

    Args:
        num_inputs: 1, or a domain with one axis.
        num_terms: N; frequencies start at 1, ..., N, phases normal with standard deviation pi/3, amplitudes zero.
        key: for the phases.

    Example:
        >>> import flm
        >>> model = flm.models.NonharmonicNetwork(flm.Box(x=(0, 1)), 3, key=0)
        >>> model.frequencies, model.num_parameters
        (Array([1., 2., 3.], dtype=float64), 10)
    """

    frequencies: Float[Array, "N"]
    phases: Float[Array, "N"]
    amplitudes: Float[Array, "N"]
    constant: Float[Array, ""]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, num_inputs: int | AbstractDomain, num_terms: int, *, key: Key):
        self.map = input_map(num_inputs, 2 * np.pi)
        if len(self.map.center) != 1:
            raise InputError(
                f"`num_inputs` of NonharmonicNetwork must be 1, by its construction; got {len(self.map.center)}. "
                "flm.FLM is its extension to several inputs."
            )
        n, dtype = check_count("num_terms", num_terms, 1), jnp.result_type(float)
        self.frequencies = jnp.arange(1, n + 1, dtype=dtype)
        self.phases = jax.random.normal(random_key(key), (n,), dtype) * (np.pi / 3)
        self.amplitudes, self.constant = jnp.zeros(n, dtype), jnp.zeros((), dtype)
        self.num_outputs = 1

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Values and derivatives in closed form; see `AbstractModel.jets`."""
        turn, hold = sincos(self.phases)  # A cos(theta + phi) = A cos phi cos theta - A sin phi sin theta
        C = jnp.concatenate([self.constant[None], self.amplitudes * hold])
        S = jnp.concatenate([jnp.zeros(1, C.dtype), -self.amplitudes * turn])
        z, scale = self.map(self._checked(points)), np.asarray(self.map.scale, C.dtype)
        return wave_jets(self._waves(), z, scale, C, S, self._orders(orders))

    @property
    def series(self) -> PhaseSeries:
        """The same function as a series in physical units."""
        amplitudes = jnp.concatenate([self.constant[None], self.amplitudes])
        return self.map.cosines(self._waves(), amplitudes, jnp.concatenate([jnp.zeros(1), -self.phases]))

    def _waves(self) -> Float[Array, "N+1 1"]:
        """The frequencies after that of the constant."""
        return jnp.concatenate([jnp.zeros(1, self.frequencies.dtype), self.frequencies])[:, None]
