"""`flm.train`: the paper's recipe, a model of a given size fitted by gradient descent on random points.

A run is compiled calls, a history, a checkpoint and a sentence about how it ended. A checkpoint is everything that the next
epoch depends on, in one file that is complete at any moment. It belongs to one run: the same program (equation, model,
optimizer), start and points. A fingerprint of these is stored with it, and the checkpoint of another run is refused.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.extend.core import ClosedJaxpr
from jaxtyping import PRNGKeyArray, PyTree

from flm.conservation.law import ConservationLaw
from flm.files import load, save
from flm.models import AbstractModel
from flm.models.base import SideBySide
from flm.numerics.descent import Objective, Stage, State, calls, enter_stage, initial_state, program_of, running
from flm.pde.problem import PDE, HasStrongForm, strong_form
from flm.results import Ending, Listener, Parameter, Progress, Solution, Word, listener
from flm.training.loss import TrainingLoss, Unknowns, by_term, checked_counts, draw, terms_of
from flm.wording import InputError, InputTypeError, check_count, short, with_article

SECONDS_PER_CHECKPOINT = 10.0
Leaf = np.ndarray | jax.Array
Start = AbstractModel | Callable[[PRNGKeyArray], AbstractModel]  # a model, or what makes one from a key
Stages = Sequence[tuple[optax.GradientTransformation, int]]


def train(
    problem: PDE | HasStrongForm,
    model: Start | Mapping[str, Start],
    optimizer: optax.GradientTransformation | Stages,
    epochs: int | None = None,
    *,
    points: Mapping[str, int],
    loss_tol: float = 0.0,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | Listener = False,
) -> Solution:
    """Fit a model to a problem by gradient descent on random points (paper, Section 5.1).

    The loss is the sum of the mean squares of the residuals over equation, initial and boundary points. All faces but the
    initial one share one mean. The parameters that are returned are those of the lowest training loss.

    Args:
        problem: a `PDE`, or a problem with a method `strong()` that returns one, such as a `ConservationLaw`.
        model: a model; a function `key -> model`, called with a key made from `seed`; or a dict of these by unknown.
        optimizer: any optax optimizer, L-BFGS included, or stages `[(optimizer, epochs), ...]`, each of which starts
            from the best parameters of those before.
        epochs: how many epochs; stages have their own numbers, and then this is left out.
        points: how many points each set has, `{"equation": 1000, "initial": 200, "boundary": 200}`.
        loss_tol: stop as soon as the loss is at or below this.
        weights: factors of the loss terms by name (`equation`, `initial`, `boundary`, `data`); 1 where not given.
        seed: fixes the points and, for `key -> model`, the start.
        checkpoint: a path. The run is saved there every few seconds, and continued from there when the file exists:
            bit for bit as if it had not been interrupted. More epochs or a smaller `loss_tol` continue a finished run.
        progress: True for a line per second, or a function that is called with a `flm.Progress` a few times per second; its
            extras are epoch, epochs and best_loss, its estimate is the latest training loss.

    Returns:
        A `Solution`. Its status is "converged" (`loss_tol` reached), "epochs" (all of them run), "diverged" or
        "interrupted" (Ctrl-C); its history has the time, the loss and its terms of every epoch, and the best parameters
        are kept in each case. Its error estimate is NaN: a training loss bounds no error.

    Example:
        >>> import flm, optax
        >>> heat = flm.problems.heat()
        >>> points = {"equation": 100, "initial": 20, "boundary": 20}
        >>> solution = flm.train(heat, lambda key: flm.FLM(heat.domain, 4, key=key), optax.adam(1e-2), 50, points=points)
        >>> len(solution.history["loss"])
        50
    """
    error_points = problem.test_points() if isinstance(problem, ConservationLaw) else None
    problem = strong_form(problem)
    if problem.has_fields:
        raise InputError(
            "`parameters` with functions, flm.Learn(start, axes=...), are for flm.solve, not for training."
        )
    stages = _stages(optimizer, epochs)
    counts = checked_counts(points, problem)
    check_count("seed", seed)
    if not (isinstance(loss_tol, int | float | np.number) and loss_tol >= 0):
        raise InputError(f"`loss_tol` must be a number of at least 0; got {loss_tol!r}.")
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise InputError(f"`checkpoint` must be a path; got {checkpoint!r}.")
    start = _model(model, problem, int(seed))
    free, fixed = eqx.partition(start, start.trainable())
    if not jax.tree.leaves(free):
        raise InputError(f"`model` must have trainable parameters; got {with_article(type(start).__name__)} with none.")
    dtype = jnp.result_type(*jax.tree.leaves(free))
    is_weight = lambda value: np.isfinite(value) and value >= 0
    factors = by_term("weights", weights or {}, terms_of(problem), "a number of at least 0", is_weight)
    loss = TrainingLoss(draw(problem, counts, int(seed)), factors, dtype)
    unknowns = Unknowns(problem, dtype)

    def terms(free, epoch):
        return loss.by_term(eqx.combine(free["model"], fixed), unknowns.all(free["parameters"]))

    ending, found = execute(
        Objective(terms, loss.weights),
        {"model": free, "parameters": unknowns.start()},
        stages,
        float(loss_tol),
        constants=[*loss.constants(), *jax.tree.leaves(eqx.filter(fixed, eqx.is_array))],
        path=checkpoint,
        listen=listener(progress),
    )
    values = np.asarray(unknowns.all(found.state.best["parameters"]))
    names = list(problem.parameters)
    return Solution(
        model=eqx.combine(found.state.best["model"], fixed),
        ending=ending,
        error_estimate=float("nan"),
        tolerance=float(loss_tol),
        parameters={names[i]: Parameter(float(values[i]), float("nan")) for i in unknowns.learned},
        history=_history(found, ("loss", *loss.terms)),
        seconds=found.seconds,
        error_points=error_points,
        **problem.frame,
    )


def _history(found: Checkpoint, names: Sequence[str]) -> dict[str, np.ndarray]:
    """One row for each epoch, as every run has them (`flm.results.progress`): the estimate is the loss, and bounds no error."""
    losses, none = found.history, np.full(len(found.history), np.nan)
    house = {"columns": np.zeros(len(losses), int), "estimate": losses[:, 0], "error_estimate": none}
    return house | {"seconds": found.times} | dict(zip(names, losses.T, strict=True))


def _stages(optimizer: optax.GradientTransformation | Stages, epochs: int | None) -> list[Stage]:
    alone = isinstance(optimizer, optax.GradientTransformation)
    pairs = [(optimizer, epochs)] if alone else list(optimizer) if isinstance(optimizer, list | tuple) else []
    if not pairs or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], optax.GradientTransformation)
        for pair in pairs
    ):
        raise InputError(
            "`optimizer` must be an optax optimizer such as optax.adam(1e-3), or stages [(optimizer, epochs), ...]; "
            f"got {optimizer!r}."
        )
    if not alone and epochs is not None:
        raise InputError(f"`epochs` must not be given with stages, which have their own; got {epochs!r}.")
    return [Stage(optax.with_extra_args_support(o), check_count("epochs", n, 1)) for o, n in pairs]


def _model(model: Start | Mapping[str, Start], problem: PDE, seed: int) -> AbstractModel:
    """The model to start from, checked against the problem."""
    if isinstance(model, Mapping):
        if set(model) != set(problem.unknowns):
            raise InputError(
                f"`model` must have one entry per unknown ({', '.join(problem.unknowns)}); got "
                f"{', '.join(map(str, model)) or 'none'}."
            )
        keys = jax.random.split(jax.random.key(seed), len(model))
        made = [_made(model[u], key) for u, key in zip(problem.unknowns, keys, strict=True)]
        made = made[0] if len(made) == 1 else SideBySide(made)
    else:
        made = _made(model, jax.random.key(seed))
    if made.num_inputs != len(problem.axes) or made.num_outputs != len(problem.unknowns):
        raise InputError(
            f"`model` must have {len(problem.axes)} inputs ({', '.join(problem.axes)}) and {len(problem.unknowns)} "
            f"outputs ({', '.join(problem.unknowns)}); got {made.num_inputs} and {made.num_outputs}."
        )
    if made.map.axes is not None and made.map.axes != tuple(problem.axes):
        raise InputError(
            f"`model` must be built on the problem's axes ({', '.join(problem.axes)}); got {', '.join(made.map.axes)}."
        )
    return made


def _made(model: Start, key: PRNGKeyArray) -> AbstractModel:
    if callable(model) and not isinstance(model, AbstractModel):
        try:
            inspect.signature(model).bind(key)
        except TypeError:
            name, remedy = getattr(model, "__name__", short(model)), "lambda key: flm.FLM(problem.domain, 9, key=key)"
            rule = f"a model, or a function of a key alone that makes one, such as {remedy}"
            raise InputTypeError(f"`model` must be {rule}; got {name}, which needs other arguments.") from None
        except ValueError:  # without a signature: called as it is
            pass
        model = model(key)
    if not isinstance(model, AbstractModel):
        raise InputTypeError(f"`model` must be a model, a function key -> model, or a dict of these; got {model!r}.")
    return model


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The fingerprint of the run, its stage, its state, the losses (E, T) and times (E,) of all epochs so far, the time spent."""

    run: str
    stage: int
    state: State  # stored in a file as its leaves
    history: np.ndarray
    times: np.ndarray
    seconds: float


def execute(
    objective: Objective,
    free: PyTree,
    stages: Sequence[Stage],
    tolerance: float,
    *,
    constants: Sequence[Leaf],
    path: str | os.PathLike[str] | None,
    listen: Listener,
) -> tuple[Ending, Checkpoint]:
    """Train `free` by the optimizers in turn, to the end, the tolerance, a divergence or Ctrl-C.

    A run is continued from the checkpoint at `path`; `constants`, like its programs, distinguish it from other runs.
    """
    dtype = objective.weights.dtype
    least, ends = np.asarray(tolerance, dtype), np.cumsum([stage.epochs for stage in stages])
    fresh = [enter_stage(initial_state(free, dtype), stage) for stage in stages]
    programs = [program_of(objective, *pair) for pair in zip(stages, fresh, strict=True)]
    saved, name = None, ""
    if path is not None:
        held, earlier = [*constants, *jax.tree.leaves(free)], [stage.epochs for stage in stages[:-1]]
        name = _fingerprint((program.jaxpr for program in programs), held, earlier)
        saved = _read_checkpoint(path, name, fresh)
    nothing = np.zeros((0, 1 + len(objective.weights)), dtype)
    here = saved or Checkpoint(name, 0, fresh[0], nothing, np.zeros(0), 0.0)
    stage, state, history, times = here.stage, here.state, [here.history], [here.times]
    began = written = time.monotonic()
    spent = lambda: here.seconds + time.monotonic() - began
    interrupted = False

    def write() -> Checkpoint:
        content = Checkpoint(name, stage, state, np.concatenate(history), np.concatenate(times), spent())
        if path is not None:
            save(replace(content, state=tuple(map(_plain, jax.tree.leaves(state)))), path)
        return content

    try:
        for stage in range(here.stage, len(stages)):
            if stage > here.stage:
                state = enter_stage(state, stages[stage])
            for call in calls(programs[stage], state, int(ends[stage]), least):
                state, history = call.state, [*history, call.history]
                times.append(spent() - call.seconds_per_epoch * np.arange(len(call.history))[::-1])
                epoch, total = int(state.epoch), int(ends[-1])
                left = call.seconds_per_epoch * max(total - epoch, 0)
                extras = {"epoch": epoch, "epochs": total, "best_loss": float(state.best_loss)}
                listen(Progress("training", 0, float(state.loss), np.nan, spent(), epoch / total, left, extras))
                if time.monotonic() - written > SECONDS_PER_CHECKPOINT:
                    write()
                    written = time.monotonic()
    except KeyboardInterrupt:
        interrupted = True
    return _ending(state, least, interrupted), write()


def _ending(state: State, tolerance: np.ndarray, interrupted: bool) -> Ending:
    epoch, best = int(state.epoch), float(state.best_loss)
    kept = f"the lowest training loss, {best:.2e} at epoch {int(state.best_epoch) + 1:,}"
    if epoch and not np.isfinite(state.loss):
        kept = f"the parameters of {kept}, are kept" if np.isfinite(best) else "the start is kept"
        return Ending(Word.DIVERGED, f"the loss was no longer finite at epoch {epoch:,}", f"{kept}: lower the rate")
    if not running(state, tolerance):
        return Ending(Word.CONVERGED, f"the training loss reached {best:.2e} after {epoch:,} epochs")
    if interrupted:
        kept = f"the parameters are those of {kept}" if epoch else "the parameters are those of the start"
        return Ending(Word.INTERRUPTED, f"interrupted after {epoch:,} epochs", kept)
    return Ending(Word.EPOCHS, f"all {epoch:,} epochs were run", f"the parameters are those of {kept}")


def _fingerprint(programs: Iterable[ClosedJaxpr], constants: Iterable[Leaf], numbers: Iterable[int]) -> str:
    """A digest of traced programs (jaxprs with their constants), arrays and numbers."""
    digest = hashlib.sha256()

    def add(arrays: Iterable[Leaf]) -> None:
        for array in map(_plain, arrays):
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())

    for program in programs:
        digest.update(re.sub(r"0x[0-9a-f]+", "", str(program)).encode())  # addresses differ between processes
        add(program.consts)
    add(constants)
    digest.update(json.dumps([jax.__version__, *numbers]).encode())
    return digest.hexdigest()


def _read_checkpoint(path: str | os.PathLike[str], run: str, states: Sequence[State]) -> Checkpoint | None:
    """The checkpoint at `path`, or None when there is none yet; `states` have the right structure for each stage.

    A file that is damaged or belongs to a run of another fingerprint is refused.
    """
    if not Path(path).exists():
        return None
    try:
        found = load(path)
    except (InputError, OSError):
        found = None
    if not isinstance(found, Checkpoint):
        raise InputError(f"`checkpoint` must be an undamaged checkpoint of flm.train or a new path; got {str(path)!r}.")
    if found.run != run or not 0 <= found.stage < len(states):
        raise InputError(
            f"`checkpoint` must belong to this run; got {str(path)!r}, which was written for another problem, model, "
            "optimizer, seed or set of points. Choose a new path, or call train as it was called then."
        )
    old, structure = jax.tree.flatten(states[found.stage])
    restored = [_like(new, leaf) for new, leaf in zip(jax.tree.leaves(found.state), old, strict=True)]
    return replace(found, state=jax.tree.unflatten(structure, restored))


def _is_key(leaf: Leaf) -> TypeGuard[jax.Array]:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Leaf) -> np.ndarray:
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    return np.ascontiguousarray(array).reshape(array.shape)


def _like(array: np.ndarray, leaf: Leaf) -> jax.Array:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(leaf))
    return jax.device_put(array)
