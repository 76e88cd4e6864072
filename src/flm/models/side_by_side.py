"""One model per unknown, side by side, as a single model with several outputs."""

from __future__ import annotations

from collections.abc import Iterable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy.typing as npt
from jaxtyping import Array, PyTree

from flm.models.base import AbstractModel, InputMap
from flm.series.waves import Orders
from flm.wording import InputError


class SideBySide(AbstractModel):
    """Models of one output each, whose outputs are stacked last: f(x) = (f_1(x), ..., f_K(x)).

    Args:
        models: one per unknown, all with the same number of inputs.

    Example:
        >>> import flm
        >>> pair = flm.models.SideBySide([flm.FLM(1, 3, key=0), flm.FLM(1, 3, key=1)])
        >>> pair.num_outputs
        2
    """

    models: tuple[AbstractModel, ...]
    map: InputMap
    num_outputs: int = eqx.field(static=True)

    def __init__(self, models: Iterable[AbstractModel]):
        self.models = tuple(models)
        if not self.models or any(m.num_outputs != 1 for m in self.models):
            raise InputError(f"`models` must have one output each; got {[m.num_outputs for m in self.models]}.")
        if len({m.num_inputs for m in self.models}) > 1:
            raise InputError(f"`models` must have equal inputs; got {[m.num_inputs for m in self.models]}.")
        self.map = self.models[0].map
        self.num_outputs = len(self.models)

    def jets(self, points: npt.ArrayLike, orders: Orders) -> Array:
        """The jets of every model, (A, P, K); (A, P) for one."""
        columns = [model.jets(points, orders) for model in self.models]
        return columns[0] if len(columns) == 1 else jnp.stack(columns, axis=-1)

    def trainable(self) -> PyTree[bool]:
        """What each model may change."""
        spec = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(lambda s: s.models, spec, tuple(m.trainable() for m in self.models))
