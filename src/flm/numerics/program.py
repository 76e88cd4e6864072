"""Traced functions as machine code that runs of one process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import jax
import numpy as np
from jax.core import eval_jaxpr
from jax.stages import Compiled, Lowered
from jaxtyping import PyTree


class Program:
    """A traced function whose constants are inputs of the machine code, so that runs that differ only in them share it.

    Points and fixed frequencies are constants of a run, and differ from seed to seed. A residual may compute with
    coordinates in NumPy, so they cannot be arguments of what is traced; they become arguments of what was traced. The
    `args` have the shapes that the function of pytrees will be called with.
    """

    def __init__(self, function: Callable[..., PyTree], *args: PyTree):
        # The program with its constants.
        self.jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        self._constants = [jax.device_put(np.asarray(c)) for c in self.jaxpr.consts]
        self._flat, self._outputs = jax.tree.leaves(args), jax.tree.structure(shape)

    def compile(self) -> Callable[..., PyTree]:
        """The function as machine code: from an earlier run of this process with an equal program, if there was one."""
        bare = self.jaxpr.jaxpr
        lowered = jax.jit(lambda constants, *flat: eval_jaxpr(bare, constants, *flat)).lower(
            self._constants, *self._flat
        )
        run = machine_code(_Text(lowered.as_text(), lowered))
        return lambda *args: jax.tree.unflatten(self._outputs, run(self._constants, *jax.tree.leaves(args)))


@dataclass(frozen=True)
class _Text:
    """A lowered program, equal to another when their texts are."""

    text: str
    lowered: Lowered = field(compare=False)


@lru_cache(maxsize=16)
def machine_code(program: _Text) -> Compiled:
    """A lowered program, compiled once per process."""
    return program.lowered.compile()
