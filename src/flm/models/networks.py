"""The networks that the paper compares with: plain multilayer perceptrons and SIREN."""

import abc
import itertools
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy.typing as npt
from jaxtyping import Array, Float

from flm.models.base import AbstractModel, InputMap, Inputs, Key, input_map, random_key
from flm.series import sincos
from flm.series.arrays import device, drawn, host
from flm.series.waves import Orders, Waves
from flm.wording import InputError, check_count, check_positive

_ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "leaky_relu": jax.nn.leaky_relu, "sigmoid": jax.nn.sigmoid}


Bound = Callable[[int, int], float]  # of a layer's weights, from its fan-in and its place


class AbstractLayers(AbstractModel):
    """Hidden layers of equal width and a linear output; weights and biases layer by layer."""

    weights: tuple[Float[Array, "out in"], ...]
    biases: tuple[Float[Array, "out"], ...]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def _draw(self, num_inputs: Inputs, width: int, depth: int, key: Key, num_outputs: int, bound: Bound) -> None:
        """Weights uniform in +-bound(fan-in, layer), and biases uniform in +-1/sqrt(fan-in)."""
        self.map = input_map(num_inputs, 2.0)
        self.num_outputs = check_count("num_outputs", num_outputs, 1)
        hidden = [check_count("width", width, 1)] * check_count("depth", depth, 1)
        pairs = list(itertools.pairwise([self.num_inputs, *hidden, self.num_outputs]))
        keys = jax.random.split(random_key(key), 2 * len(pairs))
        draw = lambda key, shape, bound: device(drawn(jax.random.uniform, key, shape, -bound, bound))
        each = list(zip(keys[::2], keys[1::2], pairs, strict=True))
        self.weights = tuple(draw(k, (o, i), bound(i, layer)) for layer, (k, _, (i, o)) in enumerate(each))
        self.biases = tuple(draw(k, (o,), 1 / math.sqrt(i)) for _, k, (i, o) in each)

    def __check_init__(self):
        # Layers that do not fit together can come from a damaged file.
        sizes = [self.num_inputs, *(weight.shape[0] for weight in self.weights)]
        shapes = [(*weight.shape, *bias.shape) for weight, bias in zip(self.weights, self.biases, strict=False)]
        if shapes != [(o, i, o) for i, o in itertools.pairwise(sizes)] or sizes[-1] != self.num_outputs or not shapes:
            raise InputError(f"`weights` must lead from {self.num_inputs} inputs to {self.num_outputs}; got {shapes}.")

    @abc.abstractmethod
    def _activated(self, layer: int, sums: Array, bias: Array) -> Array:
        """The outputs of a layer's neurons, given their weighted sums (neurons, P)."""

    def values(self, points: Float[Array, "P m"]) -> Float[Array, "P *K"]:
        """The layers, one after the other."""
        y = self.map(points).T  # (neurons, P): the long side is contiguous
        for layer, (weight, bias) in enumerate(zip(self.weights[:-1], self.biases[:-1], strict=True)):
            y = self._activated(layer, weight @ y, bias[:, None])
        y = self.weights[-1] @ y + self.biases[-1][:, None]
        return y[0] if self.num_outputs == 1 else y.T


class MLP(AbstractLayers):
    """A feedforward network: depth hidden layers of `width` neurons and a linear output (paper, Table 1).

    Weights and biases start uniform in +-1/sqrt(fan-in), the default of PyTorch, which the paper used.

    Args:
        num_inputs: m, or a domain, whose extent is then mapped to [-1, 1].
        width: neurons per hidden layer.
        depth: number of hidden layers.
        key: an integer or a JAX key.
        activation: "tanh", "relu", "leaky_relu" or "sigmoid".
        num_outputs: K.

    Example:
        >>> import flm
        >>> flm.MLP(flm.Box(x=(0, 1), t=(0, 1)), 37, 1, key=0, activation="tanh").num_parameters
        149
    """

    activation: str = eqx.field(static=True)

    def __init__(
        self,
        num_inputs: Inputs,
        width: int,
        depth: int = 3,
        *,
        key: Key,
        activation: str = "tanh",
        num_outputs: int = 1,
    ):
        self._draw(num_inputs, width, depth, key, num_outputs, lambda fan_in, layer: 1 / math.sqrt(fan_in))
        self.activation = activation

    def __check_init__(self):
        if self.activation not in _ACTIVATIONS:
            raise InputError(
                f"`activation` must be one of {', '.join(map(repr, _ACTIVATIONS))}; got {self.activation!r}."
            )

    def _activated(self, layer: int, sums: Array, bias: Array) -> Array:
        return _ACTIVATIONS[self.activation](sums + bias)


class Siren(AbstractLayers):
    """A sinusoidal representation network: sin(omega W x + b), then sin(W y + b) per further layer, then linear.

    As in the paper's review, omega multiplies the weighted sum of the first layer and leaves its bias untouched.
    First-layer weights start uniform in +-1/m, the others in +-sqrt(6/fan-in), biases in +-1/sqrt(fan-in)
    (Sitzmann et al. 2020, Section 3.2 and supplement).

    Args:
        num_inputs: m, or a domain, whose extent is then mapped to [-1, 1].
        width: neurons per hidden layer.
        depth: number of hidden layers (SIREN-1, -2, -3 of the paper).
        key: an integer or a JAX key.
        omega: the first layer's factor, 1 in the paper's comparisons.
        num_outputs: K.

    Example:
        >>> import flm
        >>> flm.Siren(flm.Box(x=(0, 1), t=(0, 1)), 37, key=0).num_parameters
        149
    """

    omega: float = eqx.field(static=True)

    def __init__(
        self, num_inputs: Inputs, width: int, depth: int = 1, *, key: Key, omega: float = 1.0, num_outputs: int = 1
    ):
        first_or_later = lambda fan_in, layer: math.sqrt(6 / fan_in) if layer else 1 / fan_in
        self._draw(num_inputs, width, depth, key, num_outputs, first_or_later)
        self.omega = float(omega)

    def __check_init__(self):
        check_positive("omega", self.omega)

    def _activated(self, layer: int, sums: Array, bias: Array) -> Array:
        return sincos((sums if layer else self.omega * sums) + bias)[0]

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Values and derivatives, in closed form for one hidden layer; see `AbstractModel.jets`."""
        if len(self.weights) != 2:
            return super().jets(points, orders)
        # v sin(theta + b) = v sin b cos theta + v cos b sin theta,  theta = omega w . z; the output's bias has theta = 0
        xp, (w, v, b, bias) = host(*self.weights, *self.biases)
        v, b = v.T, b[:, None]  # (N, K), (N, 1)
        k = xp.concatenate([self.omega * w, xp.zeros_like(w[:1])])
        C = xp.concatenate([xp.sin(b) * v, bias[None]])
        S = xp.concatenate([xp.cos(b) * v, xp.zeros_like(C[:1])])
        values = self._wave_jets(Waves(k, C, S), points, orders)
        return values[..., 0] if self.num_outputs == 1 else values
