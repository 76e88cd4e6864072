"""`flm train`: the paper's recipe, a model of a given size and Adam."""

from __future__ import annotations

from typing import Annotated

import typer

from flm.cli.output import QUIET, folder, progress_of, say, say_json
from flm.cli.solve import Json, Name, Out, Setting, print_solution, record, write_solution
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
    seed: Annotated[int, typer.Option(help="Governs points and start.")] = 0,
    settings: Setting = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Train a model on a PDE as the paper does: random points, Adam, the lowest training loss kept.

    Example: flm train heat --model flm --size 25 --epochs 2000
    """
    import sys

    import optax

    import flm
    from flm.cli.named import find_problem
    from flm.models.named import named_model
    from flm.paper.protocol import POINTS
    from flm.pde.problem import strong_form
    from flm.training.points import TERMS

    asked = find_problem(problem, settings)
    strong = strong_form(asked.problem)
    outputs = len(strong.unknowns)
    terms = {TERMS[block.kind] for block in strong.blocks}
    if not rate > 0:
        raise InputError(f"`--rate` must be positive; got {rate:g}.")
    name = {"siren": "siren-1", "mlp": "tanh"}.get(model, model)
    solution = flm.train(
        asked.problem,
        lambda key: named_model(name, strong.domain, size, key=key, num_outputs=outputs),
        optax.adam(rate),
        epochs,
        points={k: v for k, v in POINTS.items() if k in terms},
        loss_tol=loss_tol,
        seed=seed,
        progress=sys.stderr.isatty() and not QUIET.get(),
    )
    found = record(solution, asked.name) | {"model": name, "loss": min(solution.history["loss"])}
    if out is not None:
        with progress_of(asked.name) as tell:
            write_solution(solution, asked, found, folder(out), tell)
    if json:
        say_json(found)
    else:
        print_solution(solution, found)
        say(f"  training loss   {min(solution.history['loss']):.3e} after {len(solution.history['loss']):,} epochs")
        if out is not None:
            say(f"\nWritten to {out}")
    if solution.status.word == "diverged":
        raise typer.Exit(1)
