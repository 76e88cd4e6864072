"""Models by name, as comparisons, specifications and the command line call them."""

from __future__ import annotations

from collections.abc import Callable

from flm.domains import AbstractDomain
from flm.models.base import AbstractModel, Key
from flm.models.classic.cosine_squasher import GallantWhite
from flm.models.classic.fixed_lattice import FourierSeriesNetwork, SharedBasisNetwork
from flm.models.classic.random_waves import FourierELM, RandomFourierFeatures
from flm.models.classic.trained_waves import LiuNetwork, NonharmonicNetwork, Silvescu
from flm.models.flm import FLM
from flm.models.networks import MLP, Siren
from flm.wording import InputError, did_you_mean

# name -> (domain or number of inputs, size, key, number of outputs) -> model; `size` is the number of sub-networks,
# of terms, or of neurons per hidden layer.
Build = Callable[[int | AbstractDomain, int, Key, int], AbstractModel]


def _siren(depth: int) -> Build:
    return lambda inputs, size, key, outputs: Siren(inputs, size, depth, key=key, num_outputs=outputs)


def _mlp(activation: str) -> Build:
    return lambda inputs, size, key, outputs: MLP(inputs, size, 3, key=key, activation=activation, num_outputs=outputs)


def _one(name: str, outputs: int, model: AbstractModel) -> AbstractModel:
    if outputs != 1:
        raise InputError(f"`num_outputs` of {name} must be 1, by its construction; got {outputs}. Use one per unknown.")
    return model


# First the paper's own comparison (its Table 1).
NAMED: dict[str, Build] = {
    "flm": lambda inputs, size, key, outputs: FLM(inputs, size, key=key, num_outputs=outputs),
    "siren-1": _siren(1),
    "siren-2": _siren(2),
    "siren-3": _siren(3),
    "relu": _mlp("relu"),
    "leaky-relu": _mlp("leaky_relu"),
    "tanh": _mlp("tanh"),
    "sigmoid": _mlp("sigmoid"),
    # The older Fourier networks of its review, by its citation keys.
    "gw88": lambda inputs, size, key, outputs: _one("gw88", outputs, GallantWhite(inputs, size, key=key)),
    "zp95": lambda inputs, size, key, outputs: FourierSeriesNetwork(inputs, size, key=key, num_outputs=outputs),
    "s99": lambda inputs, size, key, outputs: _one("s99", outputs, Silvescu(inputs, size, key=key)),
    "yds03": lambda inputs, size, key, outputs: SharedBasisNetwork(inputs, size, key=key, num_outputs=outputs),
    "l13": lambda inputs, size, key, outputs: _one("l13", outputs, LiuNetwork(inputs, size, key=key)),
    "nm21": lambda inputs, size, key, outputs: _one("nm21", outputs, NonharmonicNetwork(inputs, size, key=key)),
    "tsm20": lambda inputs, size, key, outputs: RandomFourierFeatures(inputs, size, key=key, num_outputs=outputs),
    "myl22": lambda inputs, size, key, outputs: FourierELM(inputs, size, key=key, num_outputs=outputs),
}


def named_model(name: str, inputs: int | AbstractDomain, size: int, *, key: Key, num_outputs: int = 1) -> AbstractModel:
    """The model called `name`.

    Args:
        name: one of `NAMED`.
        inputs: the number of inputs, or a domain.
        size: sub-networks (FLM), terms (Fourier networks) or neurons per hidden layer (the others).
        key: an integer or a JAX key.
        num_outputs: K.

    Example:
        >>> import flm
        >>> flm.models.named_model("siren-1", 2, 37, key=0).num_parameters
        149
    """
    if name not in NAMED:
        raise InputError(
            f"`name` must be one of {', '.join(NAMED)}; got {name!r}.{did_you_mean(str(name), list(NAMED))}"
        )
    return NAMED[name](inputs, size, key, num_outputs)
