"""`flm.train`: the paper's recipe, a model of a given size fitted by gradient descent on random points."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from flm.models import AbstractModel
from flm.models.side_by_side import SideBySide
from flm.pde.problem import PDE, strong_form
from flm.results import Ending, Listener, Parameter, Progress, Solution, Word, listener
from flm.training import checkpoint as checkpoints
from flm.training.loop import MAX_EPOCHS_PER_CALL, Program, Stage, build_chunk, enter_stage, initial_state
from flm.training.loss import TrainingLoss, Unknowns
from flm.training.points import TERMS, checked_counts, draw
from flm.wording import InputError, InputTypeError, check_count, did_you_mean

SECONDS_PER_CALL = 0.25  # how long Ctrl-C and the progress bar may have to wait
SECONDS_PER_CHECKPOINT = 10.0


def train(
    problem: Any,
    model: Any,
    optimizer: Any,
    epochs: int | None = None,
    *,
    points: Mapping[str, int],
    loss_tol: float = 0.0,
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
    checkpoint: Any = None,
    progress: bool | Listener = False,
) -> Solution:
    """Fit a model to a problem by gradient descent on random points (paper, Section 5.1).

    The loss is the sum of the mean squares of the residuals over equation, initial and boundary points. Faces other
    than the initial one pool into one mean. The parameters kept are those of the lowest training loss.

    Args:
        problem: a `PDE`, or another problem that offers its strong residual.
        model: a model; a function `key -> model`, called with a key made from `seed`; or a dict of these by unknown.
        optimizer: any optax optimizer, L-BFGS included, or stages `[(optimizer, epochs), ...]`, each of which starts
            from the best parameters of those before.
        epochs: how many; not given with stages.
        points: how many in each set, `{"equation": 1000, "initial": 200, "boundary": 200}`.
        loss_tol: stop as soon as the loss is at or below this.
        weights: factors of the loss terms by name (`equation`, `initial`, `boundary`, `data`); 1 where not given.
        seed: governs the points and, for `key -> model`, the start.
        checkpoint: a path. The run is saved there every few seconds, and continued from there when the file exists:
            bit for bit as if it had not been interrupted. More epochs or a smaller `loss_tol` continue a finished run.
        progress: True for a line per second, or a function that is called with a `flm.Progress` a few times per second; its
            extras are epoch, epochs and best_loss, its estimate is the latest training loss.

    Returns:
        A `Solution`. Its status is "converged" (`loss_tol` reached), "epochs" (all of them run), "diverged" or
        "interrupted" (Ctrl-C); its history has every loss term of every epoch, and the best parameters are kept in
        each case. Its error estimate is NaN: a training loss bounds no error.

    Example:
        >>> import flm, optax
        >>> heat = flm.problems.heat()
        >>> points = {"equation": 100, "initial": 20, "boundary": 20}
        >>> solution = flm.train(heat, lambda key: flm.FLM(heat.domain, 4, key=key), optax.adam(1e-2), 50, points=points)
        >>> len(solution.history["loss"])
        50
    """
    error_points = problem.test_points() if hasattr(problem, "test_points") else None
    problem = strong_form(problem)
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
        raise InputError(f"`model` must have trainable parameters; got a {type(start).__name__} with none.")
    dtype = jnp.result_type(*jax.tree.leaves(free))
    loss = TrainingLoss(problem, draw(problem, counts, int(seed)), _weights(weights, problem), dtype)
    unknowns = Unknowns(problem, dtype)

    def terms(free):
        return loss.by_term(eqx.combine(free["model"], fixed), unknowns.all(free["parameters"]))

    run = _Run(terms, loss, {"model": free, "parameters": unknowns.start()}, fixed, stages, float(loss_tol), dtype)
    ending, state, history, seconds = run.execute(checkpoint, progress)
    best = eqx.combine(state.best["model"], fixed)
    values = np.asarray(unknowns.all(state.best["parameters"]))
    names = list(problem.parameters)
    return Solution(
        model=best,
        axes=problem.axes,
        unknowns=problem.unknowns,
        bounds=np.asarray(problem.domain.bounds),
        ending=ending,
        error_estimate=float("nan"),
        tolerance=float(loss_tol),
        parameters={names[i]: Parameter(float(values[i]), float("nan")) for i in unknowns.learned},
        history={name: history[:, i] for i, name in enumerate(("loss", *loss.terms))},
        seconds=seconds,
        domain=problem.domain,
        exact=None if problem.exact is None else problem.exact_values,
        error_points=error_points,
    )


class _Run:
    """One training run: compiled calls, a history, a checkpoint."""

    def __init__(self, terms, loss, free, fixed, stages, tolerance, dtype):
        self.stages, self.tolerance, self.dtype = stages, np.asarray(tolerance, dtype), dtype
        self.terms = len(loss.terms)
        self.fresh = [enter_stage(initial_state(free, dtype), stage) for stage in stages]
        zero = jnp.zeros((), jnp.int32)
        self.programs = [
            Program(build_chunk(terms, loss.weights, stage), state, zero, self.tolerance)
            for stage, state in zip(stages, self.fresh, strict=True)
        ]
        self.constants = [*loss.constants(), *jax.tree.leaves(eqx.filter((free, fixed), eqx.is_array))]
        self.ends = np.cumsum([stage.epochs for stage in stages])

    def execute(self, path: Any, progress: bool | Listener) -> tuple[Ending, Any, np.ndarray, float]:
        """Run to the end, the tolerance, a divergence or Ctrl-C."""
        saved, run = None, ""
        if path is not None:
            earlier = [stage.epochs for stage in self.stages[:-1]]
            run = checkpoints.fingerprint((p.jaxpr for p in self.programs), self.constants, earlier)
            saved = checkpoints.read(path, run, self.fresh)
        first, state = (0, self.fresh[0]) if saved is None else (saved.stage, saved.state)
        blocks = [] if saved is None else [saved.history]
        before, began = 0.0 if saved is None else saved.seconds, time.monotonic()
        spent = lambda: before + time.monotonic() - began
        stage, interrupted, written = first, False, time.monotonic()

        def write():
            if path is not None:
                checkpoints.write(path, run, checkpoints.Restored(stage, state, self._joined(blocks), spent()))

        tell = listener(progress)
        try:
            for stage in range(first, len(self.stages)):
                if stage > first:
                    state = enter_stage(state, self.stages[stage])
                chunk, size = None, 1
                while int(state.epoch) < self.ends[stage] and self._going(state):
                    chunk = chunk or self.programs[stage].compile()
                    tick, size = time.monotonic(), min(size, self.ends[stage] - int(state.epoch))
                    new, losses, done = chunk(state, jnp.asarray(size, jnp.int32), self.tolerance)
                    losses = np.asarray(losses)[: int(done)]
                    state, blocks = new, [*blocks, losses]
                    took = max(time.monotonic() - tick, 1e-6)
                    tell(self._progress(state, spent(), took / size))
                    size = int(np.clip(size * SECONDS_PER_CALL / took, 1, min(8 * size, MAX_EPOCHS_PER_CALL)))
                    if time.monotonic() - written > SECONDS_PER_CHECKPOINT:
                        write()
                        written = time.monotonic()
        except KeyboardInterrupt:
            interrupted = True
        write()
        return self._ending(state, interrupted), state, self._joined(blocks), spent()

    def _going(self, state: Any) -> bool:
        return int(state.epoch) == 0 or bool(np.isfinite(state.loss) and state.loss > self.tolerance)

    def _joined(self, blocks: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(blocks) if blocks else np.zeros((0, 1 + self.terms), self.dtype)

    def _progress(self, state: Any, seconds: float, per_epoch: float) -> Progress:
        epoch, total = int(state.epoch), int(self.ends[-1])
        return Progress(
            "training",
            estimate=float(state.loss),
            seconds=seconds,
            share=epoch / total,
            seconds_left=per_epoch * max(total - epoch, 0),
            extras={"epoch": epoch, "epochs": total, "best_loss": float(state.best_loss)},
        )

    def _ending(self, state: Any, interrupted: bool) -> Ending:
        epoch, best = int(state.epoch), float(state.best_loss)
        kept = f"the lowest training loss, {best:.2e} at epoch {int(state.best_epoch) + 1:,}"
        if epoch and not np.isfinite(state.loss):
            kept = f"the parameters of {kept}, are kept" if np.isfinite(best) else "the start is kept"
            return Ending(Word.DIVERGED, f"the loss was no longer finite at epoch {epoch:,}", f"{kept}: lower the rate")
        if epoch and state.loss <= self.tolerance:
            return Ending(Word.CONVERGED, f"the training loss reached {best:.2e} after {epoch:,} epochs")
        if interrupted:
            kept = f"the parameters are those of {kept}" if epoch else "the parameters are those of the start"
            return Ending(Word.INTERRUPTED, f"interrupted after {epoch:,} epochs", kept)
        return Ending(Word.EPOCHS, f"all {epoch:,} epochs were run", f"the parameters are those of {kept}")


def _stages(optimizer: Any, epochs: Any) -> list[Stage]:
    if isinstance(optimizer, optax.GradientTransformation):
        pairs = [(optimizer, epochs)]
    elif isinstance(optimizer, list | tuple) and optimizer and all(isinstance(p, list | tuple) for p in optimizer):
        if epochs is not None:
            raise InputError(f"`epochs` must not be given with stages, which have their own; got {epochs!r}.")
        pairs = list(optimizer)
    else:
        raise InputError(
            "`optimizer` must be an optax optimizer such as optax.adam(1e-3), or stages [(optimizer, epochs), ...]; "
            f"got {optimizer!r}."
        )
    for pair in pairs:
        if len(pair) != 2 or not isinstance(pair[0], optax.GradientTransformation):
            raise InputError(f"`optimizer` must have stages (optax optimizer, epochs); got {pair!r}.")
        check_count("epochs", pair[1], 1)
    return [Stage(optax.with_extra_args_support(o), int(n)) for o, n in pairs]


def _weights(weights: Any, problem: PDE) -> dict[str, float]:
    terms = list(dict.fromkeys(TERMS[block.kind] for block in problem.blocks))
    if not isinstance(weights, Mapping | None):
        raise InputError(f"`weights` must be a dict by term ({', '.join(terms)}); got {weights!r}.")
    for name, value in dict(weights or {}).items():
        if name not in terms:
            raise InputError(
                f"`weights` must name loss terms of the problem ({', '.join(terms)}); got {name!r}."
                f"{did_you_mean(str(name), terms)}"
            )
        if not (isinstance(value, int | float | np.number) and np.isfinite(value) and value >= 0):
            raise InputError(f"`weights[{name!r}]` must be a number of at least 0; got {value!r}.")
    return {name: float(value) for name, value in dict(weights or {}).items()}


def _model(model: Any, problem: PDE, seed: int) -> AbstractModel:
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


def _made(model: Any, key: Any) -> AbstractModel:
    made = model if isinstance(model, AbstractModel) else model(key) if callable(model) else model
    if not isinstance(made, AbstractModel):
        raise InputTypeError(f"`model` must be a model, a function key -> model, or a dict of these; got {made!r}.")
    return made
