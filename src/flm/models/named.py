"""Models by name, as comparisons, specifications and the command line call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flm.models.base import AbstractModel, Inputs, Key
from flm.models.classic import FourierNetwork, RandomFourierFeatures, Silvescu
from flm.models.flm import FLM
from flm.models.networks import MLP, Siren
from flm.wording import InputError, did_you_mean

# Each is called with a domain or a number of inputs, a size (the number of sub-networks, of terms, or of neurons per hidden
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
    """The model called `name`, of so many sub-networks (FLM), terms (Fourier networks) or neurons per hidden layer.

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
