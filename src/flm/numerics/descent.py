"""Gradient descent by any optax optimizer: many epochs per compiled call, every loss recorded, the best parameters kept.

Conventions. One epoch evaluates the loss at the current parameters, keeps them if it is the lowest so far, and updates
them. The loss is a weighted sum of terms. A call runs as many epochs as it is told without recompiling, and stops by
itself at a tolerance or when the loss is no longer finite. How epochs are cut into calls changes no bit of the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import eval_jaxpr
from jax.stages import Compiled, Lowered
from jaxtyping import Array, PyTree

MAX_EPOCHS_PER_CALL = 4096  # rows of the history buffer
SECONDS_PER_CALL = 0.25  # how long Ctrl-C and the progress bar may have to wait


class Objective(NamedTuple):
    """The loss that is lowered."""

    terms: Callable[[PyTree, Array], Array]  # of the loss (T,), a function of a pytree of parameters and of the epoch
    weights: np.ndarray  # of the terms, (T,), in the precision of the run
    # The loss by which the best parameters are chosen, if it is not the one that is lowered: that of held-out data.
    kept_by: Callable[[PyTree], Array] | None = None

    @classmethod
    def of(cls, loss: Callable[[PyTree], Array], kept_by: Callable[[PyTree], Array] | None = None) -> Objective:
        """The objective of a loss without named terms."""
        return cls(lambda parameters, epoch: loss(parameters)[None], np.ones(1), kept_by)


class Stage(NamedTuple):
    """An optimizer and how many epochs it runs."""

    optimizer: optax.GradientTransformationExtraArgs
    epochs: int


class State(NamedTuple):
    """Everything that the next epoch depends on."""

    free: PyTree  # the parameters that are trained
    optimizer: optax.OptState
    best: PyTree  # `free` at the lowest loss so far
    best_loss: Array
    best_epoch: Array  # counted over all stages; 0 is the start
    epoch: Array  # epochs done, over all stages
    loss: Array  # of the last epoch; infinite before the first


class Call(NamedTuple):
    """The result of one call: the state, the loss and its terms for each epoch (E, 1 + T), and the time of an epoch."""

    state: State
    history: np.ndarray
    seconds_per_epoch: float


def descend(
    objective: Objective,
    start: PyTree,
    optimizer: optax.GradientTransformation,
    epochs: int,
    *,
    told: Callable[[State], object] = lambda state: None,
) -> State:
    """The state after `epochs` epochs, or at the first loss that is not finite; `told` is called with it after each call."""
    stage, dtype = Stage(optax.with_extra_args_support(optimizer), epochs), objective.weights.dtype
    state = enter_stage(initial_state(start, dtype), stage)
    for call in calls(program_of(objective, stage, state), state, epochs, np.full((), -np.inf, dtype)):
        state = call.state
        told(state)
    return state


def initial_state(free: PyTree, dtype: np.dtype) -> State:
    """The state before the first epoch; `enter_stage` gives it an optimizer state."""
    infinite, zero = jnp.asarray(np.inf, dtype), jnp.zeros((), jnp.int32)
    return _settled(State(free, (), free, infinite, zero, zero, infinite))


def enter_stage(state: State, stage: Stage) -> State:
    """The state at the start of a stage: a fresh optimizer at the best parameters so far."""
    return _settled(state._replace(free=state.best, optimizer=stage.optimizer.init(state.best)))


def calls(program: Program, state: State, end: int, tolerance: np.ndarray) -> Iterator[Call]:
    """Call after call from a state, each of about a quarter of a second, until `end` epochs are done or one stops."""
    run, size = None, 1
    while int(state.epoch) < end and running(state, tolerance):
        run = run or program.compile()
        began, size = time.monotonic(), min(size, end - int(state.epoch))
        state, history, done = run(state, jnp.asarray(size, jnp.int32), tolerance)
        history = np.asarray(history)[: int(done)]
        took = max(time.monotonic() - began, 1e-6)
        yield Call(state, history, took / size)
        size = int(np.clip(size * SECONDS_PER_CALL / took, 1, min(8 * size, MAX_EPOCHS_PER_CALL)))


def running(state: State, tolerance: np.ndarray | Array) -> Array:
    """Whether to run another epoch: always at first, then while the loss is finite and above the tolerance."""
    return (state.epoch == 0) | (jnp.isfinite(state.loss) & (state.loss > tolerance))


def program_of(objective: Objective, stage: Stage, state: State) -> Program:
    """A stage's calls as a traced program: (state, epochs, tolerance) -> (state, history, done).

    A row of the history is the loss and its unweighted terms; the first `done` rows are filled.
    """
    weights, kept_by = objective.weights, objective.kept_by

    def epoch(state: State) -> tuple[State, Array]:
        def loss(free):
            values = objective.terms(free, state.epoch)
            return jnp.sum(values * weights), values

        total = lambda free: loss(free)[0]
        # A line search (L-BFGS) leaves value and gradient of its last point in its state: the gradient is reused.
        held = lambda node: hasattr(node, "value") and hasattr(node, "grad")
        stored = [node for node in jax.tree.leaves(state.optimizer, is_leaf=held) if held(node)]
        if len(stored) == 1:
            value, values = loss(state.free)
            known, last = stored[0].value, stored[0].grad
            slope = jax.lax.cond(jnp.isfinite(known), lambda free: last, jax.grad(total), state.free)
        else:
            (value, values), slope = jax.value_and_grad(loss, has_aux=True)(state.free)
        judged = value if kept_by is None else kept_by(state.free).astype(value.dtype)
        better = judged < state.best_loss
        keep = lambda new, old: jnp.where(better, new, old)
        update, optimizer = stage.optimizer.update(
            slope, state.optimizer, state.free, value=value, grad=slope, value_fn=total
        )
        new = State(
            optax.apply_updates(state.free, update),
            optimizer,
            jax.tree.map(keep, state.free, state.best),
            keep(judged, state.best_loss),
            keep(state.epoch, state.best_epoch),
            state.epoch + 1,
            value,
        )
        return new, jnp.concatenate([value[None], values])

    def call(state: State, epochs: Array, tolerance: Array) -> tuple[State, Array, Array]:
        def step(carried):
            state, history, done = carried
            state, values = epoch(state)
            return state, history.at[done].set(values), done + 1

        history = jnp.zeros((MAX_EPOCHS_PER_CALL, 1 + len(weights)), weights.dtype)
        going = lambda carried: (carried[2] < epochs) & running(carried[0], tolerance)
        return jax.lax.while_loop(going, step, (state, history, jnp.zeros((), jnp.int32)))

    return Program(call, state, jnp.zeros((), jnp.int32), np.zeros((), weights.dtype))


def _settled(tree: State) -> State:
    """The state with leaves as plain device arrays without weak types: a restored state then equals a fresh one to the compiler."""
    return jax.tree.map(
        lambda leaf: leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else jax.device_put(np.asarray(leaf)),
        jax.tree.map(jnp.asarray, tree),
    )


class Program:
    """A traced function whose constants are inputs of the machine code, so that runs that differ only in them share it.

    A residual may compute with its points in NumPy, so that they cannot be arguments of the function that is traced; they become
    arguments of its trace. The `args` have the shapes that the function of pytrees will be called with.
    """

    def __init__(self, function: Callable[..., PyTree], *args: PyTree):
        self.jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        self._constants = [jax.device_put(np.asarray(c)) for c in self.jaxpr.consts]
        self._flat, self._outputs = jax.tree.leaves(args), jax.tree.structure(shape)

    def compile(self) -> Callable[..., PyTree]:
        """The function as machine code: from an earlier run of this process with an equal program, if there was one."""
        evaluate = jax.jit(lambda constants, *flat: eval_jaxpr(self.jaxpr.jaxpr, constants, *flat))
        lowered = evaluate.lower(self._constants, *self._flat)
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
