"""Fourier series networks with fixed integer frequencies: only output weights are trained, by linear least squares."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from flm.domains import AbstractDomain
from flm.models.base import AbstractOutputWeights, InputMap, Key, input_map
from flm.series import PhaseSeries, SeparableSeries, lattice, sign_matrix, sincos
from flm.series.arrays import upper_half
from flm.series.waves import Orders, quarter_turn, wave_columns
from flm.wording import InputError, check_count


def wave_vectors(m: int, count: int) -> np.ndarray:
    """The first `count` nonzero integer wave vectors, one of each pair k, -k: lattice points with all their signs."""
    size = 2 * check_count("num_terms", count, 1)
    while True:
        every = (lattice(m, size)[:, None, :] * sign_matrix(m)).reshape(-1, m)
        every = every * np.where(upper_half(every), 1.0, -1.0)[:, None]
        found = [k for k in dict.fromkeys(map(tuple, every)) if any(k)]
        if len(found) >= count:
            return np.array(found[:count]) + 0.0  # no negative zeros
        size *= 2


class FourierSeriesNetwork(AbstractOutputWeights):
    """The Fourier series network ZP95: product nodes over fixed integer frequencies, a linear output layer.

    f(x) = sum_n sum_k a_nk prod_p c_kp(n_p z_p),  c_kp = cos or sin,  n in {0, ..., order}^m,  z in [-pi, pi]^m:

    the classical Fourier series in separable form. Training is linear least squares (`flm.models.least_squares`); on a full
    grid the weights are a discrete Fourier transform (H08, `from_grid`).

    Args:
        num_inputs: m, or a domain, whose extent is mapped to [-pi, pi]^m.
        order: the highest frequency along each axis.
        key: accepted for a uniform call; the start is zero.
        num_outputs: K.

    Example:
        >>> import flm
        >>> model = flm.models.FourierSeriesNetwork(flm.Box(x=(0, 1), y=(0, 1)), 2)
        >>> model.num_parameters  # 3 x 3 frequencies, four products each
        36
    """

    frequencies: Float[Array, "N m"]
    weights: Float[Array, "N 2**m *K"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, num_inputs: int | AbstractDomain, order: int, *, key: Key | None = None, num_outputs: int = 1):
        self.map = input_map(num_inputs, 2 * np.pi)
        m = len(self.map.center)
        check_count("order", order)
        size = (int(order) + 1) ** m * 2**m
        if size > 200_000:
            raise InputError(f"`order` must leave at most 200,000 product nodes; got {size} for {m} inputs.")
        dtype = jnp.result_type(float)
        grids = np.meshgrid(*[np.arange(order + 1)] * m, indexing="ij")
        self.frequencies = jnp.asarray(np.stack([g.ravel() for g in grids], axis=1), dtype)
        shape = (len(self.frequencies), 2**m)
        self.weights = jnp.zeros(shape if num_outputs == 1 else (*shape, num_outputs), dtype)
        self.num_outputs = int(num_outputs)

    def basis(self, points: npt.ArrayLike, orders: Orders) -> Float[Array, "A P columns"]:
        """The product nodes and their derivatives, of frequency n and product k, k fastest; bit 1 is a sine."""
        z = self.map(self._checked(points))  # (P, m)
        n = self.frequencies.astype(z.dtype)
        sine, cosine = sincos(z[:, None, :] * n)  # (P, N, m)
        blocks = []
        for alpha in self._orders(orders):
            product = jnp.ones((*sine.shape[:2], 1), z.dtype)
            for p, order in enumerate(alpha):
                (cc, cs), (sc, ss) = quarter_turn(1.0, 0.0, order), quarter_turn(0.0, 1.0, order)
                factor = (n[:, p] * self.map.scale[p]) ** order
                c, s = cosine[..., p], sine[..., p]
                pair = jnp.stack([cc * c + cs * s, sc * c + ss * s], axis=-1) * factor[:, None]  # (P, N, 2)
                product = (product[..., :, None] * pair[..., None, :]).reshape(*sine.shape[:2], -1)
            blocks.append(product.reshape(len(z), -1))
        return jnp.stack(blocks)

    @classmethod
    def from_grid(cls, values: npt.ArrayLike) -> FourierSeriesNetwork:
        """The network whose weights are the discrete Fourier transform of values on a full periodic grid (H08).

        The values are (n, ..., n) with n odd, at z_i = -pi + 2 pi i / n along each axis (the last point is not repeated).
        """
        transform = np.asarray(values, float)
        m, n = transform.ndim, transform.shape[0] if transform.ndim else 0
        if m < 1 or len(set(transform.shape)) != 1 or n % 2 == 0:
            raise InputError(
                f"`values` must be a full grid with an equal, odd number of points per axis; got {transform.shape}."
            )
        order = (n - 1) // 2
        network = cls(m, order)
        for axis in range(m):  # f = sum_n a_n cos(n z) + b_n sin(n z) along one axis; the pair becomes a last axis
            spectrum = np.fft.rfft(transform, axis=axis) / n
            k = np.arange(order + 1).reshape(-1, *(1,) * (spectrum.ndim - axis - 1))
            spectrum = spectrum * np.where(k == 0, 1, 2) * (-1.0) ** k  # z starts at -pi
            transform = np.stack([spectrum.real, -spectrum.imag], axis=-1)
        return network.with_coefficients(transform.reshape(len(network.frequencies), -1))

    @property
    def series(self) -> PhaseSeries:
        """The same function as a series in physical units."""
        mapped = SeparableSeries(self.frequencies, self.weights, self.map.axes)
        return mapped.phase().rescale(self.map.scale).shift(self.map.center)


class SharedBasisNetwork(AbstractOutputWeights):
    """The network YDS03: one input, many outputs, each its own finite Fourier series over the same basis.

    f_k(x) = a_0k + sum_(n=1..order) a_nk cos(n z) + b_nk sin(n z),  z in [-pi, pi].

    Args:
        num_inputs: 1, or a domain with one axis.
        order: the highest frequency.
        key: accepted for a uniform call; the start is zero.
        num_outputs: K.

    Example:
        >>> import flm
        >>> model = flm.models.SharedBasisNetwork(flm.Box(x=(0, 1)), 5, num_outputs=3)
        >>> model.num_parameters, model([0.5]).shape
        (33, (1, 3))
    """

    weights: Float[Array, "2*order+1 *K"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, num_inputs: int | AbstractDomain, order: int, *, key: Key | None = None, num_outputs: int = 1):
        self.map = input_map(num_inputs, 2 * np.pi)
        if len(self.map.center) != 1:
            raise InputError(
                f"`num_inputs` of SharedBasisNetwork must be 1, by its construction; got {self.num_inputs}."
            )
        check_count("order", order)
        shape = (2 * int(order) + 1,)
        self.weights = jnp.zeros(shape if num_outputs == 1 else (*shape, num_outputs), jnp.result_type(float))
        self.num_outputs = int(num_outputs)

    def basis(self, points: npt.ArrayLike, orders: Orders) -> Float[Array, "A P columns"]:
        """1, cos z, ..., cos(order z), sin z, ..., sin(order z) and their derivatives."""
        z, last = self.map(self._checked(points)), len(self.weights) // 2
        k = jnp.arange(last + 1, dtype=z.dtype)[:, None]
        columns = wave_columns(k, z, np.asarray(self.map.scale, z.dtype), self._orders(orders))
        return jnp.delete(columns, last + 1, axis=2)  # sin 0
