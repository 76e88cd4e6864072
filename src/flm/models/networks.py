"""The networks that the paper compares with: plain multilayer perceptrons and SIREN."""

from __future__ import annotations

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from flm.domains import AbstractDomain
from flm.models.base import AbstractModel, InputMap, Key, input_map, random_key
from flm.series import sincos
from flm.series.waves import Orders, wave_jets
from flm.wording import InputError, check_count, check_positive

_ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "leaky_relu": jax.nn.leaky_relu, "sigmoid": jax.nn.sigmoid}


def _sizes(m: int, width: int, depth: int, num_outputs: int) -> list[int]:
    hidden = [check_count("width", width, 1)] * check_count("depth", depth, 1)
    return [m, *hidden, check_count("num_outputs", num_outputs, 1)]


def _layers(key: Key, sizes: list[int], bounds: list[float]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Weights uniform in +-bounds, and biases uniform in +-1/sqrt(fan-in), layer by layer."""
    keys = jax.random.split(random_key(key), 2 * len(bounds))
    draw = lambda key, shape, bound: jax.random.uniform(key, shape, jnp.result_type(float), -bound, bound)
    pairs = list(itertools.pairwise(sizes))
    weights = (draw(k, (o, i), bound) for k, (i, o), bound in zip(keys[::2], pairs, bounds, strict=True))
    biases = (draw(k, (o,), 1 / math.sqrt(i)) for k, (i, o) in zip(keys[1::2], pairs, strict=True))
    return tuple(weights), tuple(biases)


def _check_layers(model: MLP | Siren) -> None:
    """Refuse layers that do not fit together (a damaged file could hold such)."""
    sizes = [model.num_inputs, *(weight.shape[0] for weight in model.weights)]
    fits = len(model.weights) == len(model.biases) > 0 and sizes[-1] == model.num_outputs
    for i, o, weight, bias in zip(sizes[:-1], sizes[1:], model.weights, model.biases, strict=fits):
        fits = fits and weight.shape == (o, i) and bias.shape == (o,)
    if not fits:
        shapes = [weight.shape for weight in model.weights]
        raise InputError(f"`weights` must lead from {model.num_inputs} inputs to {model.num_outputs}; got {shapes}.")


def _outputs(model: MLP | Siren, hidden: Array) -> Array:
    """The linear output layer of hidden values (neurons, P): (P,) or (P, K)."""
    y = model.weights[-1] @ hidden + model.biases[-1][:, None]
    return y[0] if model.num_outputs == 1 else y.T


class MLP(AbstractModel):
    """A feedforward network: depth hidden layers of `width` neurons and a linear output (paper, Table 1).

    Weights and biases start uniform in +-1/sqrt(fan-in), the default of PyTorch, in which the paper's ran.

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

    weights: tuple[Float[Array, "out in"], ...]
    biases: tuple[Float[Array, "out"], ...]
    map: InputMap
    num_outputs: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        num_inputs: int | AbstractDomain,
        width: int,
        depth: int = 3,
        *,
        key: Key,
        activation: str = "tanh",
        num_outputs: int = 1,
    ):
        self.map = input_map(num_inputs, 2.0)
        sizes = _sizes(len(self.map.center), width, depth, num_outputs)
        self.weights, self.biases = _layers(key, sizes, [1 / math.sqrt(i) for i in sizes[:-1]])
        self.num_outputs = int(num_outputs)
        self.activation = activation

    def __check_init__(self):
        _check_layers(self)
        if self.activation not in _ACTIVATIONS:
            raise InputError(
                f"`activation` must be one of {', '.join(map(repr, _ACTIVATIONS))}; got {self.activation!r}."
            )

    def values(self, points: Float[Array, "P m"]) -> Float[Array, "P *K"]:
        """The layers, one after the other."""
        y = self.map(points).T  # (neurons, P): the long side is contiguous
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            y = _ACTIVATIONS[self.activation](weight @ y + bias[:, None])
        return _outputs(self, y)


class Siren(AbstractModel):
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

    weights: tuple[Float[Array, "out in"], ...]
    biases: tuple[Float[Array, "out"], ...]
    map: InputMap
    num_outputs: int = eqx.field(static=True)
    omega: float = eqx.field(static=True)

    def __init__(
        self,
        num_inputs: int | AbstractDomain,
        width: int,
        depth: int = 1,
        *,
        key: Key,
        omega: float = 1.0,
        num_outputs: int = 1,
    ):
        self.map = input_map(num_inputs, 2.0)
        sizes = _sizes(len(self.map.center), width, depth, num_outputs)
        self.weights, self.biases = _layers(key, sizes, [1 / sizes[0], *(math.sqrt(6 / i) for i in sizes[1:-1])])
        self.num_outputs = int(num_outputs)
        self.omega = float(omega)

    def __check_init__(self):
        _check_layers(self)
        check_positive("omega", self.omega)

    def values(self, points: Float[Array, "P m"]) -> Float[Array, "P *K"]:
        """The layers of sines, one after the other."""
        y = sincos(self.omega * (self.weights[0] @ self.map(points).T) + self.biases[0][:, None])[0]
        for weight, bias in zip(self.weights[1:-1], self.biases[1:-1], strict=True):
            y = sincos(weight @ y + bias[:, None])[0]
        return _outputs(self, y)

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """Values and derivatives, in closed form for one hidden layer; see `AbstractModel.jets`."""
        if len(self.weights) != 2:
            return super().jets(points, orders)
        # v sin(theta + b) = v sin b cos theta + v cos b sin theta,  theta = omega w . z; the output's bias has theta = 0
        v = self.weights[1].T  # (N, K)
        turn, hold = sincos(self.biases[0])
        k = jnp.concatenate([self.omega * self.weights[0], jnp.zeros((1, self.num_inputs), v.dtype)])
        C = jnp.concatenate([turn[:, None] * v, self.biases[1][None]])
        S = jnp.concatenate([hold[:, None] * v, jnp.zeros_like(C[:1])])
        z, scale = self.map(self._checked(points)), np.asarray(self.map.scale, k.dtype)
        values = wave_jets(k, z, scale, C, S, self._orders(orders))
        return values[..., 0] if self.num_outputs == 1 else values
