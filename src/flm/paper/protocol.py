"""The paper's training protocol: what it says, and in one place what it leaves open (docs/paper.md).

Said: 10,000 epochs of Adam to a training loss of 1e-4 for the selection, 30,000 additional epochs to 1e-8 for the chosen
configuration, 10 seeds, the sizes of the appendix's table of parameters, losses averaged over random initial, boundary
and interior points.

Left open, chosen here: how many points, which rates were tried, and from what the additional epochs start.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import optax

from flm.models.named import named_model
from flm.pde.problem import strong_form
from flm.results import Solution
from flm.training.run import train


class Leg(NamedTuple):
    """A part of a run: at most so many epochs, ended by a loss."""

    epochs: int
    loss_tol: float


# Said by the paper ---------------------------------------------------------------------------------------------------
SELECTION = Leg(10_000, 1e-4)
FINAL = Leg(30_000, 1e-8)
SEEDS = tuple(range(10))
THREE_LAYERS = (2, 6, 7, 11, 12)
SIZES = {
    "flm": (4, 16, 25, 49, 64),
    "siren-1": (6, 24, 37, 73, 93),
    "siren-2": (3, 8, 10, 15, 17),
    "siren-3": THREE_LAYERS,
    "relu": THREE_LAYERS,
    "leaky-relu": THREE_LAYERS,
    "tanh": THREE_LAYERS,
}

# Left open by the paper ----------------------------------------------------------------------------------------------
POINTS = {"equation": 1000, "initial": 200, "boundary": 200}
RATES = (
    1e-3,
    5e-3,
    1e-2,
)  # 1e-3 is PyTorch's default, named in a caption of the appendix; the other rates were not given


def optimizer(rate: float) -> optax.GradientTransformation:
    """Adam with the default momenta, 0.9 and 0.999, and a constant rate."""
    return optax.adam(rate)


def select_run(
    problem: Any, name: str, size: int, rate: float, *, seed: int, leg: Leg = SELECTION, progress: Any = False
) -> Solution:
    """One run of the selection: a named model from its own start, 10,000 epochs to 1e-4 unless `leg` is shorter."""
    domain = strong_form(problem).domain
    model = lambda key: named_model(name, domain, size, key=key)
    return train(
        problem,
        model,
        optimizer(rate),
        leg.epochs,
        points=POINTS,
        loss_tol=leg.loss_tol,
        seed=seed,
        progress=progress,
    )


def final_run(problem: Any, name: str, size: int, rate: float, *, seed: int, progress: Any = False) -> Solution:
    """The chosen configuration: the selection's run, then 30,000 epochs more to 1e-8 from its best parameters.

    The additional epochs use the same points and a fresh optimizer.
    """
    first = select_run(problem, name, size, rate, seed=seed, progress=progress)
    return train(
        problem,
        first.model,
        optimizer(rate),
        FINAL.epochs,
        points=POINTS,
        loss_tol=FINAL.loss_tol,
        seed=seed,
        progress=progress,
    )
