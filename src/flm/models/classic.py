"""The older Fourier networks that the paper reviews, by its citation keys.

GW88, ZP95, L13 and MYL22 are sums of cosines and differ in where the frequencies start and whether they are trained:
one class, a constructor for each. S99 has products of cosines, TSM20 an MLP after random waves. YDS03 is ZP95 with one
input and several outputs; NM21 is `flm.FLM` with one input. All models by name, as comparisons, specifications and the
command line call them, come last.
"""

from collections.abc import Callable
from functools import partial
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, PyTree

from flm.models.base import AbstractModel, AbstractOutputWeights, InputMap, Inputs, Key, input_map, random_key
from flm.models.flm import FLM
from flm.models.networks import MLP, Siren
from flm.series import PhaseSeries, lattice, sign_matrix, sincos
from flm.series.arrays import Numbers, device, drawn, host, joined, per_row, upper_half
from flm.series.waves import Orders
from flm.wording import InputError, check_count, check_positive, did_you_mean


class FourierNetwork(AbstractOutputWeights):
    """One hidden layer of cosines, one frequency vector per neuron: f(x) = sum_i w_i cos(k_i . z + b_i).

    The biases are never trained, the frequencies where `train_frequencies` says so. Each constructor is called with `inputs`,
    m or a domain, whose extent is mapped to a period or to [-1, 1]^m; a size; a `key`, not used where the start is zero; and
    K as `num_outputs`.

    Example:
        >>> import flm
        >>> model = flm.models.FourierNetwork.zp95(flm.Box(x=(0, 1), y=(0, 1)), 2)
        >>> model.num_parameters  # the waves with frequencies -2 ... 2 along each axis
        25
    """

    frequencies: Float[Array, "M m"]
    biases: Float[Array, "M"]
    weights: Float[Array, "M *K"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)
    train_frequencies: bool = eqx.field(static=True)

    def __check_init__(self):
        M, m = self.frequencies.shape
        if m != self.num_inputs or self.biases.shape != (M,) or self.weights.shape != _shape(M, self.num_outputs):
            shapes = [value.shape for value in (self.frequencies, self.biases, self.weights)]
            raise InputError(f"`frequencies`, `biases` and `weights` must have one row per neuron; got {shapes}.")

    @classmethod
    def _of(
        cls, k: npt.ArrayLike, b: npt.ArrayLike, w: Numbers, map: InputMap, train_frequencies: bool = False
    ) -> Self:
        k, b, w = (device(value) for value in (jnp.asarray(k, w.dtype), jnp.asarray(b, w.dtype), w))
        outputs = 1 if w.ndim == 1 else w.shape[1]
        return cls(
            frequencies=k, biases=b, weights=w, map=map, num_outputs=outputs, train_frequencies=train_frequencies
        )

    @classmethod
    def _of_pairs(cls, map: InputMap, waves: np.ndarray, num_outputs: int) -> Self:
        """Zero weights on the cosine and the sine of every wave vector, and on the constant."""
        k = np.concatenate([np.zeros((1, len(map.center))), np.repeat(waves, 2, axis=0)])
        b = np.append(0.0, np.tile([0.0, -np.pi / 2], len(waves)))
        return cls._of(k, b, np.zeros(_shape(len(k), num_outputs)), map)

    @classmethod
    def gw88(cls, inputs: Inputs, num_terms: int, *, key: Key | None = None, num_outputs: int = 1) -> Self:
        """Gallant and White (1988): the cosines and sines of the first wave vectors of the integer lattice.

        Theirs are clumps of squashing neurons, which equal these cosines where the inputs stay in a cube of one period.
        """
        map = input_map(inputs, 2 * np.pi)
        m = len(map.center)
        # One of each pair k, -k; every lattice point but the origin has at least one wave of its own.
        every = (lattice(m, 1 + check_count("num_terms", num_terms, 1))[:, None, :] * sign_matrix(m)).reshape(-1, m)
        every = every * np.where(upper_half(every), 1.0, -1.0)[:, None] + 0.0  # no negative zeros
        waves = [k for k in dict.fromkeys(tuple(k) for k in every) if any(k)][:num_terms]
        return cls._of_pairs(map, np.array(waves), num_outputs)

    @classmethod
    def zp95(cls, inputs: Inputs, order: int, *, key: Key | None = None, num_outputs: int = 1) -> Self:
        """The Fourier series network ZP95: the classical series with frequencies up to `order` along each axis."""
        map, side = input_map(inputs, 2 * np.pi), 2 * check_count("order", order) + 1
        m = len(map.center)
        if side**m > 200_000:
            raise InputError(f"`order` must leave at most 200,000 waves; got {side**m} for {m} inputs.")
        grid = np.stack(np.meshgrid(*[np.arange(side) - order] * m, indexing="ij"), axis=-1).reshape(-1, m)
        return cls._of_pairs(map, grid[upper_half(grid) & grid.any(axis=1)], num_outputs)

    @classmethod
    def l13(cls, inputs: Inputs, num_terms: int, *, key: Key, num_outputs: int = 1) -> Self:
        """The network L13: sum_i a_i sin(c_i . z) + b_i cos(d_i . z), all trained, z in [-1, 1]^m as for a SIREN.

        With c_i = d_i it is SIREN-1 with omega = 1, since v sin(w . z + b) = v cos b sin(w . z) + v sin b cos(w . z). The
        frequencies start uniform in +-pi per component, the weights normal with standard deviation 1/sqrt(num_terms).
        """
        map, n = input_map(inputs, 2.0), check_count("num_terms", num_terms, 1)
        keys, shape = jax.random.split(random_key(key), 4), (n, len(map.center))
        k = [drawn(jax.random.uniform, one, shape, -np.pi, np.pi) for one in keys[:2]]
        w = [drawn(jax.random.normal, one, _shape(n, num_outputs)) / np.sqrt(n) for one in keys[2:]]
        return cls._of(joined(*k), np.repeat([-np.pi / 2, 0.0], n), joined(*w), map, True)

    @classmethod
    def myl22(cls, inputs: Inputs, num_neurons: int, *, key: Key, scale: float = np.pi, num_outputs: int = 1) -> Self:
        """The Fourier extreme learning machine MYL22: random waves, output weights by least squares.

        Frequencies are uniform in +-scale per component (radians per unit of z), biases uniform in [0, 2 pi].
        `flm.pde.waves.linear_models.solve_extreme` chooses scale and number of neurons by itself.
        """
        map, n = input_map(inputs, 2.0), check_count("num_neurons", num_neurons, 1)
        first, second = jax.random.split(random_key(key))
        k = drawn(jax.random.uniform, first, (n, len(map.center)), -1.0, 1.0) * check_positive("scale", scale)
        b = drawn(jax.random.uniform, second, (n,), 0.0, 2 * np.pi)
        return cls._of(k, b, np.zeros(_shape(n, num_outputs)), map)

    def basis(self, points: npt.ArrayLike, orders: Orders) -> Float[Array, "A P columns"]:
        """The hidden layer and its derivatives: cos(theta + b) = cos b cos theta - sin b sin theta."""
        xp, (columns, b) = host(self._wave_columns(self.frequencies, points, orders), self.biases)
        cosines, sines = xp.split(columns, 2, axis=2)
        return device(xp.cos(b) * cosines - xp.sin(b) * sines)

    def trainable(self) -> PyTree[bool]:
        """The output weights, and the frequencies where they are trained."""
        return eqx.tree_at(lambda f: f.frequencies, super().trainable(), self.train_frequencies)

    @property
    def series(self) -> PhaseSeries:
        """The same function as a series in physical units, one cosine per neuron."""
        shape = (len(self.frequencies), 2 ** (self.num_inputs - 1), *self.weights.shape[1:])
        columns = (self.weights, -per_row(self.biases, self.weights))
        wide = (jnp.zeros(shape, self.weights.dtype).at[:, 0].set(column) for column in columns)
        return self.map.series(self.frequencies, *wide)


def _shape(count: int, num_outputs: int) -> tuple[int, ...]:
    return (count,) if check_count("num_outputs", num_outputs, 1) == 1 else (count, num_outputs)


class Silvescu(AbstractModel):
    """The Fourier neural network S99: products of phase-shifted cosines.

    f(x) = sum_i c_i prod_j cos(w_ij z_j + phi_ij),  z in [-pi, pi]^m.

    It is a classical Fourier series when w is integer and each phi is 0 or -pi/2; with all phi = 0 it is even in every input.

    Args:
        num_inputs: m, or a domain, whose extent is mapped to [-pi, pi]^m.
        num_terms: how many products.
        key: for the phases, normal with standard deviation pi/3, and the weights, normal with 1/sqrt(num_terms).
        num_outputs: K.

    Example:
        >>> import flm
        >>> flm.models.Silvescu(flm.Box(x=(0, 1)), 3, key=0).num_parameters
        9
    """

    frequencies: Float[Array, "terms m"]
    phases: Float[Array, "terms m"]
    weights: Float[Array, "terms *K"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, num_inputs: Inputs, num_terms: int, *, key: Key, num_outputs: int = 1):
        self.map = input_map(num_inputs, 2 * np.pi)
        m, n = len(self.map.center), check_count("num_terms", num_terms, 1)
        dtype = jnp.result_type(float)
        first, second = jax.random.split(random_key(key))
        self.frequencies = jnp.asarray(lattice(m, n), dtype)
        self.phases = device(drawn(jax.random.normal, first, (n, m)) * (np.pi / 3))
        self.weights = device(drawn(jax.random.normal, second, _shape(n, num_outputs)) / np.sqrt(n))
        self.num_outputs = int(num_outputs)

    def values(self, points: Float[Array, "P m"]) -> Float[Array, "P *K"]:
        """The sum of products."""
        angles = self.map(points)[:, None, :] * self.frequencies + self.phases
        return jnp.prod(sincos(angles)[1], axis=2) @ self.weights

    @property
    def series(self) -> PhaseSeries:
        """The same function as a series: a product of cosines is a sub-network with 2^(1-m) c_i in every cosine."""
        signs = jnp.asarray(sign_matrix(self.num_inputs), self.phases.dtype)
        shape = (len(self.frequencies), len(signs), *self.weights.shape[1:])
        amplitudes = jnp.broadcast_to(self.weights[:, None], shape) / len(signs)
        phases = (-self.phases @ signs.T).reshape(shape[:2] + (1,) * (len(shape) - 2))
        return self.map.series(self.frequencies, amplitudes, jnp.broadcast_to(phases, shape))


class RandomFourierFeatures(AbstractModel):
    """Random Fourier features TSM20: an MLP after x -> (cos B z, sin B z), B random and fixed, z in [-1, 1]^m.

    Args:
        num_inputs: m, or a domain, whose extent is mapped to [-1, 1]^m.
        width: neurons per hidden layer of the MLP, and rows of B: the MLP has twice as many inputs.
        depth: number of hidden layers of the MLP.
        key: for B and the MLP.
        scale: standard deviation of the entries of B, in radians per unit of z.
        num_outputs: K.

    Example:
        >>> import flm
        >>> model = flm.models.RandomFourierFeatures(1, 5, 1, key=0)
        >>> model.projections.shape, model.num_parameters
        ((5, 1), 61)
    """

    projections: Float[Array, "features m"]
    mlp: MLP
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(
        self, num_inputs: Inputs, width: int, depth: int = 2, *, key: Key, scale: float = np.pi, num_outputs: int = 1
    ):
        self.map = input_map(num_inputs, 2.0)
        first, second = jax.random.split(random_key(key))
        shape = (check_count("width", width, 1), len(self.map.center))
        self.projections = device(drawn(jax.random.normal, first, shape) * check_positive("scale", scale))
        self.mlp = MLP(2 * shape[0], width, depth, key=second, num_outputs=num_outputs)
        self.num_outputs = int(num_outputs)

    def values(self, points: Float[Array, "P m"]) -> Float[Array, "P *K"]:
        """The MLP of the features."""
        sine, cosine = sincos(self.map(points) @ self.projections.T)
        return self.mlp.values(jnp.concatenate([cosine, sine], axis=1))

    def trainable(self) -> PyTree[bool]:
        """The MLP; the projections stay fixed."""
        return eqx.tree_at(lambda f: f.projections, super().trainable(), False)


# Each model is called with a domain or a number of inputs, a size (the number of sub-networks, terms, or neurons per hidden
# layer), and a key. First the paper's own comparison (its Table 1).
NAMED: dict[str, Callable[..., AbstractModel]] = {
    "flm": FLM,
    "siren-1": partial(Siren, depth=1),
    "siren-2": partial(Siren, depth=2),
    "siren-3": partial(Siren, depth=3),
    "relu": partial(MLP, activation="relu"),
    "leaky-relu": partial(MLP, activation="leaky_relu"),
    "tanh": partial(MLP, activation="tanh"),
    "sigmoid": partial(MLP, activation="sigmoid"),
    # The older Fourier networks of its review, by its citation keys.
    "gw88": FourierNetwork.gw88,
    "zp95": FourierNetwork.zp95,
    "s99": Silvescu,
    "l13": FourierNetwork.l13,
    "tsm20": RandomFourierFeatures,
    "myl22": FourierNetwork.myl22,
}


def named_model(name: str, inputs: Inputs, size: int, *, key: Key, num_outputs: int = 1) -> AbstractModel:
    """The model called `name`; `size` counts sub-networks (FLM), terms (Fourier networks) or neurons per hidden layer.

    Example:
        >>> import flm
        >>> flm.models.named_model("siren-1", 2, 37, key=0).num_parameters
        149
    """
    if name not in NAMED:
        raise InputError(
            f"`name` must be one of {', '.join(NAMED)}; got {name!r}.{did_you_mean(str(name), list(NAMED))}"
        )
    return NAMED[name](inputs, size, key=key, num_outputs=num_outputs)
