"""`flm show`: what is in a saved file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flm.cli.output import folder, say, say_json
from flm.wording import InputError


def show(
    model: Annotated[Path, typer.Argument(help="A file written by flm.", metavar="MODEL.safetensors")],
    terms: Annotated[int, typer.Option(help="How many of the largest terms.", min=1)] = 10,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write spectrum.png and spectrum.svg here.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a saved series, model, solution or estimator: its largest terms, frequencies as periods, its spectrum.

    Example: flm show heat/model.safetensors --terms 5
    """
    import flm

    found = flm.load(model)
    listed = {label: series.terms(terms) for label, series in _series(found)}
    if json:
        say_json({"kind": type(found).__name__, "terms": {k: [t._asdict() for t in v] for k, v in listed.items()}})
    else:
        say(f"{model.name}: {type(found).__name__}", style="bold")
        if type(found).__repr__ is not object.__repr__ and hasattr(found, "status"):
            say(repr(found))
        for label, series in _series(found):
            say(f"\n{label}")
            say(series.describe(terms))
        if not listed:
            say("  not a plain Fourier series: no terms to list.")
    if out is not None:
        _pictures(found, folder(out))
        if not json:
            say(f"\nWritten to {out}")


def _series(found: Any) -> list[tuple[str, Any]]:
    """Every series with one output inside, with a label."""
    import flm

    if isinstance(found, flm.Solution):
        pairs = []
        for unknown in found.unknowns:
            one = found[unknown] if len(found.unknowns) > 1 else found
            try:
                pieces = one.pieces
            except AttributeError:
                return []
            for (low, high), series in pieces:
                window = f", {found.axes[found.window_axis]} from {low:.4g} to {high:.4g}" if found.windows else ""
                pairs.append((f"{unknown}{window}", series))
        return pairs
    series = found if hasattr(found, "terms") else getattr(found, "series_", None) or getattr(found, "series", None)
    if series is None or not hasattr(series, "terms") or len(getattr(series, "_outputs", ())) > 0:
        return []
    return [("series", series)]


def _pictures(found: Any, path: Path) -> None:
    import flm
    from flm.files import write_atomic
    from flm.report.figures.fields import plot_series, plot_spectrum
    from flm.report.figures.style import to_png, to_svg

    series = _series(found)
    if not series:
        raise InputError(f"`--out` must be left out for a {type(found).__name__}, which is no plain Fourier series.")
    figure = plot_spectrum(found) if isinstance(found, flm.Solution) else plot_series(series)
    write_atomic(path / "spectrum.png", to_png(figure))
    write_atomic(path / "spectrum.svg", to_svg(figure).encode())
