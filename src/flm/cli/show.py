"""`flm show`: what is in a saved file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flm.cli.output import Json, folder, say, say_json, say_written
from flm.wording import InputError


def show(
    model: Annotated[Path, typer.Argument(help="A file written by flm.", metavar="MODEL.safetensors")],
    terms: Annotated[int, typer.Option(help="How many of the largest terms.", min=1)] = 10,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write spectrum.png and spectrum.svg here.")] = None,
    json: Json = False,
) -> None:
    """Show a saved series, model, solution or estimator: its largest terms, frequencies as periods, its spectrum.

    Example: flm show heat/model.safetensors --terms 5
    """
    import flm
    from flm.report.figures.fields import labeled_series, plot_spectrum
    from flm.report.files import write_figures

    found = flm.load(model)
    series = labeled_series(found)
    if out is not None and not series:
        raise InputError(f"`--out` must be left out for a {type(found).__name__}, which is no plain Fourier series.")
    listed = {label: one.terms(terms) for label, one in series}
    if json:
        say_json({"kind": type(found).__name__, "terms": {k: [t._asdict() for t in v] for k, v in listed.items()}})
    else:
        say(f"{model.name}: {type(found).__name__}", style="bold")
        if type(found).__repr__ is not object.__repr__ and hasattr(found, "status"):
            say(repr(found))
        for label, one in series:
            say(f"\n{label}")
            say(one.describe(terms))
        if not listed:
            say("  not a plain Fourier series: no terms to list.")
    if out is not None:
        write_figures(folder(out), {"spectrum": plot_spectrum(found)})
        if not json:
            say_written(out)
