"""Networks over random, untrained frequencies: Fourier features before an MLP, and the extreme learning machine."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, PyTree

from flm.domains import AbstractDomain
from flm.models.base import AbstractModel, AbstractOutputWeights, InputMap, Key, input_map, random_key
from flm.models.networks import MLP
from flm.series import PhaseSeries, sincos
from flm.series.waves import Orders, wave_columns
from flm.wording import check_count, check_positive


class RandomFourierFeatures(AbstractModel):
    """Random Fourier features TSM20: an MLP after x -> (cos B z, sin B z), B random and fixed, z in [-1, 1]^m.

    Args:
        num_inputs: m, or a domain, whose extent is mapped to [-1, 1]^m.
        width: neurons per hidden layer of the MLP, and rows of B: the MLP has twice as many inputs.
        depth: its hidden layers.
        key: for B and the MLP.
        scale: standard deviation of the entries of B, in radians per unit of z.
        activation: of the MLP.
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
        self,
        num_inputs: int | AbstractDomain,
        width: int,
        depth: int = 2,
        *,
        key: Key,
        scale: float = np.pi,
        activation: str = "tanh",
        num_outputs: int = 1,
    ):
        self.map = input_map(num_inputs, 2.0)
        features = check_count("width", width, 1)
        first, second = jax.random.split(random_key(key))
        shape = (features, len(self.map.center))
        self.projections = jax.random.normal(first, shape, jnp.result_type(float)) * check_positive("scale", scale)
        self.mlp = MLP(2 * features, width, depth, key=second, activation=activation, num_outputs=num_outputs)
        self.num_outputs = int(num_outputs)

    def values(self, points: Float[Array, "P m"]) -> Float[Array, "P *K"]:
        """The MLP of the features."""
        sine, cosine = sincos(self.map(points) @ self.projections.T)
        return self.mlp.values(jnp.concatenate([cosine, sine], axis=1))

    def trainable(self) -> PyTree[bool]:
        """The MLP; the projections stay."""
        spec = jax.tree.map(eqx.is_inexact_array, self)
        return eqx.tree_at(lambda f: f.projections, spec, False)


class FourierELM(AbstractOutputWeights):
    """The Fourier extreme learning machine MYL22: one hidden layer of random waves, output weights by least squares.

    f(x) = sum_i beta_i cos(w_i . z + b_i),  w_i uniform in [-scale, scale]^m, b_i uniform in [0, 2 pi], z in [-1, 1]^m.

    Only beta is trained. `flm.pde.waves.linear_models.solve_extreme` chooses scale and number of neurons by itself.

    Args:
        num_inputs: m, or a domain, whose extent is mapped to [-1, 1]^m.
        num_neurons: how many waves.
        key: for the hidden layer.
        scale: the largest frequency component, in radians per unit of z.
        num_outputs: K.

    Example:
        >>> import flm
        >>> flm.models.FourierELM(flm.Box(x=(0, 1)), 5, key=0).num_parameters
        5
    """

    frequencies: Float[Array, "N m"]
    biases: Float[Array, "N"]
    weights: Float[Array, "N *K"]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(
        self,
        num_inputs: int | AbstractDomain,
        num_neurons: int,
        *,
        key: Key,
        scale: float = np.pi,
        num_outputs: int = 1,
    ):
        self.map = input_map(num_inputs, 2.0)
        dtype, n = jnp.result_type(float), check_count("num_neurons", num_neurons, 1)
        first, second = jax.random.split(random_key(key))
        shape = (n, len(self.map.center))
        self.frequencies = jax.random.uniform(first, shape, dtype, -1.0, 1.0) * check_positive("scale", scale)
        self.biases = jax.random.uniform(second, (n,), dtype, 0.0, 2 * np.pi)
        self.weights = jnp.zeros((n,) if num_outputs == 1 else (n, num_outputs), dtype)
        self.num_outputs = int(num_outputs)

    def basis(self, points: npt.ArrayLike, orders: Orders) -> Float[Array, "A P columns"]:
        """The hidden layer and its derivatives: cos(theta + b) = cos b cos theta - sin b sin theta."""
        scale = np.asarray(self.map.scale, self.frequencies.dtype)
        columns = wave_columns(self.frequencies, self.map(self._checked(points)), scale, self._orders(orders))
        cosines, sines = jnp.split(columns, 2, axis=2)
        turn, hold = sincos(self.biases)
        return hold * cosines - turn * sines

    @property
    def series(self) -> PhaseSeries:
        """The same function as a series in physical units, one cosine per neuron."""
        bias = self.biases.reshape(-1, *(1,) * (self.weights.ndim - 1))
        return self.map.cosines(self.frequencies, self.weights, jnp.broadcast_to(-bias, self.weights.shape))
