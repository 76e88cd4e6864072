"""`flm train`: the paper's recipe, a model of a given size and Adam."""

from __future__ import annotations

from typing import Annotated

import typer

from flm.cli.output import say, say_json, say_written, watching
from flm.cli.solve import Json, Name, Out, Setting, find_problem, keep, print_solution
from flm.wording import InputError


def train(
    problem: Name,
    model: Annotated[
        str,
        typer.Option(
            help="flm, siren-1, siren-2, siren-3, tanh, relu, leaky-relu, sigmoid, or an older Fourier network: gw88, zp95, …."
        ),
    ] = "flm",
    size: Annotated[int, typer.Option(help="Sub-networks, terms or neurons per layer.")] = 25,
    epochs: Annotated[int, typer.Option(help="Most epochs of Adam.")] = 10_000,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    loss_tol: Annotated[float, typer.Option(help="Stop at this training loss.")] = 1e-4,
    seed: Annotated[int, typer.Option(help="Fixes points and start.")] = 0,
    settings: Setting = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Train a model on a PDE as the paper does: random points, Adam, the lowest training loss kept.

    Example: flm train heat --model flm --size 25 --epochs 2000
    """
    import optax

    import flm
    from flm.models.named import named_model
    from flm.paper.protocol import POINTS
    from flm.pde.problem import strong_form
    from flm.training.loss import TERMS

    asked = find_problem(problem, settings)
    strong = strong_form(asked.problem)
    outputs = len(strong.unknowns)
    terms = {TERMS[block.kind] for block in strong.blocks}
    if not rate > 0:
        raise InputError(f"`--rate` must be positive; got {rate:g}.")
    name = {"siren": "siren-1", "mlp": "tanh"}.get(model, model)
    with watching(asked.name) as report:
        solution = flm.train(
            asked.problem,
            lambda key: named_model(name, strong.domain, size, key=key, num_outputs=outputs),
            optax.adam(rate),
            epochs,
            points={k: v for k, v in POINTS.items() if k in terms},
            loss_tol=loss_tol,
            seed=seed,
            progress=report,
        )
    loss, spent = float(min(solution.history["loss"])), len(solution.history["loss"])
    found = keep(solution, asked, out) | {"model": name, "loss": loss}
    if json:
        say_json(found)
    else:
        print_solution(found)
        say(f"  training loss   {loss:.3e} after {spent:,} epochs")
        say_written(out)
    if solution.status.word == "diverged":
        raise typer.Exit(1)
