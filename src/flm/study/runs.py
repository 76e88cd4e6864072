"""One run of a study, as a worker does it: from its definition to its scores."""

from __future__ import annotations

import importlib
import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flm._version import __version__
from flm.study.store import DIVERGED, DONE, FAILED, Definition, Record
from flm.wording import InputError

if TYPE_CHECKING:
    import optax
    from jaxtyping import PRNGKeyArray

    from flm.models import AbstractModel
    from flm.pde.problem import PDE
    from flm.results import Solution


def run_one(definition: Definition) -> tuple[str, Record]:
    """The status of one run and its outcome. A run that raises an exception is "failed", and the reason is kept."""
    began, worked = time.perf_counter(), time.process_time()
    try:
        outcome = dict(named_object(definition["runner"])(definition))
        status = outcome.pop("status", DONE)
        if status not in (DONE, DIVERGED, FAILED):
            raise InputError(f"`status` must be one of {DONE}, {DIVERGED}, {FAILED}; got {status!r}.")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
        status, outcome = FAILED, {"reason": reason[:2000]}
    times = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - worked}
    return status, outcome | times | {"version": __version__}


def train(definition: Definition) -> Record:
    """Train a model on a problem as the definition says, and measure its errors: the default runner."""
    return train_solution(definition)[1]


def train_solution(definition: Definition) -> tuple[Solution, Record]:
    """The trained solution and its scores; each leg starts from the best parameters of the one before, with a fresh optimizer."""
    import numpy as np

    from flm.pde.problem import strong_form
    from flm.training.run import train as train_model

    problem, wanted = named_problem(definition["problem"]), definition["training"]
    model = lambda key: build_model(definition["model"], strong_form(problem), definition["size"], key)
    options, solutions = {"points": wanted["points"], "seed": definition["seed"]}, []
    for epochs, loss_tol in wanted["legs"]:
        optimizer = _build_optimizer(definition["optimizer"])
        solutions.append(train_model(problem, model, optimizer, epochs, loss_tol=loss_tol, **options))
        model = solutions[-1].model
    solution, errors = solutions[-1], solutions[-1].errors()
    loss = np.concatenate([leg.history["loss"] for leg in solutions])
    sound = math.isfinite(errors.mse + errors.mae + errors.max_error) and solution.status.word != "diverged"
    return solution, {
        "status": DONE if sound else DIVERGED,
        "reason": solution.status.word,
        **asdict(errors),
        "epochs": len(loss),
        "loss": float(np.nanmin(loss, initial=np.inf)),
        "parameters": int(solution.model.num_parameters),
        "training_seconds": float(sum(leg.seconds for leg in solutions)),
    }


@lru_cache(maxsize=64)
def named_problem(name: str) -> Any:
    """A problem of the catalogue, of a file, or the one that "module:function" returns."""
    if name.endswith(".toml"):
        from flm.problems.text import read_problem

        return read_problem(name)
    if ":" in name:
        return named_object(name)()
    from flm.problems import catalogue

    return catalogue()[name]()


def build_model(name: str, problem: PDE, size: int, key: PRNGKeyArray) -> AbstractModel:
    """A model by name, or what "module:function" returns for (domain, size, key=...), with one output per unknown."""
    if ":" in name:
        return named_object(name)(problem.domain, size, key=key)
    from flm.models.classic import named_model

    return named_model(name, problem.domain, size, key=key, num_outputs=len(problem.unknowns))


def _build_optimizer(settings: Mapping[str, Any]) -> optax.GradientTransformation:
    """The optax optimizer of a specification's settings (flm.study.spec.OPTIMIZERS)."""
    import optax

    options = {k: v for k, v in settings.items() if k != "name"}
    if settings["name"] == "lbfgs":
        return optax.lbfgs(memory_size=int(options.get("memory", 10)))
    return getattr(optax, settings["name"])(options.pop("rate"), **options)


def named_object(name: str) -> Callable[..., Any]:
    """The function called "module:function"."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"`{name}` must name a function, 'module:function', of a module that Python can import ({error}). "
            "Set PYTHONPATH to the folder of the module, or install it."
        ) from None
