"""Compiled gradient descent: many epochs per call, every loss recorded, the best parameters kept.

One epoch evaluates the loss at the current parameters, keeps them if it is the lowest so far, and updates them. A call
runs as many epochs as it is told without recompiling, and stops by itself at the tolerance or when the loss is no
longer finite. How epochs are cut into calls changes no bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import eval_jaxpr
from jaxtyping import Array

MAX_EPOCHS_PER_CALL = 4096  # rows of the history buffer


class TrainingState(NamedTuple):
    """Everything that the next epoch depends on.

    Attributes:
        free: the pytree that is trained.
        optimizer: the optax state.
        best: `free` at the lowest loss so far.
        best_loss: that loss.
        best_epoch: when, counted over all stages; 0 is the start.
        epoch: epochs done, over all stages.
        loss: of the last epoch; infinite before the first.
    """

    free: Any
    optimizer: Any
    best: Any
    best_loss: Array
    best_epoch: Array
    epoch: Array
    loss: Array


class Stage(NamedTuple):
    """An optimizer and how many epochs it runs."""

    optimizer: optax.GradientTransformationExtraArgs
    epochs: int


def initial_state(free: Any, dtype: Any) -> TrainingState:
    """The state before the first epoch; `enter_stage` gives it an optimizer state."""
    infinite, zero = jnp.asarray(np.inf, dtype), jnp.zeros((), jnp.int32)
    return _settled(TrainingState(free, (), free, infinite, zero, zero, infinite))


def enter_stage(state: TrainingState, stage: Stage) -> TrainingState:
    """The state at the start of a stage: a fresh optimizer at the best parameters so far."""
    return _settled(state._replace(free=state.best, optimizer=stage.optimizer.init(state.best)))


def build_chunk(terms: Callable[[Any], Array], weights: np.ndarray, stage: Stage) -> Callable[..., Any]:
    """The function (state, epochs, tolerance) -> (state, history, epochs done) of one call, to be compiled.

    A row of the history is the loss and its unweighted terms.

    Args:
        terms: the unweighted loss terms (T,) of a pytree of free parameters.
        weights: (T,).
        stage: the optimizer.
    """

    def loss(free):
        values = terms(free)
        return jnp.sum(values * weights), values

    total = lambda free: loss(free)[0]

    def gradient(state: TrainingState):
        # A line search (L-BFGS) leaves value and gradient of its last point in its state: the gradient is reused.
        stored = _stored_gradient(state.optimizer)
        if stored is None:
            return jax.value_and_grad(loss, has_aux=True)(state.free)
        values = loss(state.free)
        known, slope = stored
        usable = jnp.isfinite(known)
        return values, jax.lax.cond(usable, lambda free: slope, jax.grad(total), state.free)

    def epoch(state: TrainingState) -> tuple[TrainingState, Array]:
        (value, values), slope = gradient(state)
        better = value < state.best_loss
        keep = lambda new, old: jnp.where(better, new, old)
        update, optimizer = stage.optimizer.update(
            slope, state.optimizer, state.free, value=value, grad=slope, value_fn=total
        )
        new = TrainingState(
            optax.apply_updates(state.free, update),
            optimizer,
            jax.tree.map(keep, state.free, state.best),
            keep(value, state.best_loss),
            keep(state.epoch, state.best_epoch),
            state.epoch + 1,
            value,
        )
        return new, jnp.concatenate([value[None], values])

    def chunk(state: TrainingState, epochs: Array, tolerance: Array):
        history = jnp.zeros((MAX_EPOCHS_PER_CALL, 1 + len(weights)), weights.dtype)

        def running(carry):
            state, _, done = carry
            fresh = state.epoch == 0
            return (done < epochs) & (fresh | (jnp.isfinite(state.loss) & (state.loss > tolerance)))

        def step(carry):
            state, history, done = carry
            state, values = epoch(state)
            return state, history.at[done].set(values), done + 1

        state, history, done = jax.lax.while_loop(running, step, (state, history, jnp.zeros((), jnp.int32)))
        return state, history, done

    return chunk


class Program:
    """A traced function whose constants are inputs of the machine code, so that runs that differ only in them share it.

    Points and fixed frequencies are constants of a run, and differ from seed to seed. A residual may compute with
    coordinates in NumPy, so they cannot be arguments of what is traced; they become arguments of what was traced.

    Attributes:
        jaxpr: the program with its constants.
    """

    def __init__(self, function: Callable[..., Any], *args: Any):
        self.jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        self._constants = [jax.device_put(np.asarray(c)) for c in self.jaxpr.consts]
        self._flat, self._outputs = jax.tree.leaves(args), jax.tree.structure(shape)

    def compile(self) -> Callable[..., Any]:
        """The function as machine code: from an earlier run of this process with an equal program, if there was one."""
        bare = self.jaxpr.jaxpr
        lowered = jax.jit(lambda constants, *flat: eval_jaxpr(bare, constants, *flat)).lower(
            self._constants, *self._flat
        )
        run = _machine_code(_Lowered(lowered.as_text(), lowered))
        return lambda *args: jax.tree.unflatten(self._outputs, run(self._constants, *jax.tree.leaves(args)))


@dataclass(frozen=True)
class _Lowered:
    """A lowered program, equal to another when their texts are."""

    text: str
    lowered: Any = field(compare=False)


@lru_cache(maxsize=16)
def _machine_code(program: _Lowered) -> Any:
    return program.lowered.compile()


def _stored_gradient(optimizer_state: Any) -> tuple[Array, Any] | None:
    found = [
        s
        for s in jax.tree.leaves(optimizer_state, is_leaf=lambda s: hasattr(s, "value") and hasattr(s, "grad"))
        if hasattr(s, "value") and hasattr(s, "grad")
    ]
    return (found[0].value, found[0].grad) if len(found) == 1 else None


def _settled(tree: Any) -> Any:
    """Leaves as plain device arrays without weak types, so that a restored state equals a fresh one to the compiler."""
    return jax.tree.map(
        lambda leaf: leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else jax.device_put(np.asarray(leaf)),
        jax.tree.map(jnp.asarray, tree),
    )
