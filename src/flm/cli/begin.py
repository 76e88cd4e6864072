"""`flm problems`, `flm new`, `flm studio`: what can be solved by name, a file of one's own, and a workbench for both."""

from __future__ import annotations

import inspect
import webbrowser
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from flm.cli.output import conclude, say, table
from flm.wording import ExtraMissingError, InputError

WORDS = {
    "pde": "PDEs",
    "conservation": "conservation laws",
    "control": "optimal control",
    "ordinary": "ordinary differential equations",
    "strangers": "problems that others posed",
}


Start = StrEnum("Start", ["pde", "ode", "control", "inverse"])  # the kinds of files that `flm new` writes


def problems() -> None:
    """List the catalogue of problems, and what --set changes.

    Example: flm problems
    """
    from flm.problems import KINDS, catalogue

    record, parts = {}, []
    for kind in KINDS:
        makers = catalogue((kind,))
        first = {name: (inspect.getdoc(make) or "").splitlines()[0] for name, make in makers.items()}
        settings = {name: list(inspect.signature(make).parameters) for name, make in makers.items()}
        record |= {name: {"kind": kind, "what": first[name], "set": settings[name]} for name in makers}
        rows = [[name, first[name], ", ".join(settings[name])] for name in makers]
        parts.append(f"{WORDS[kind]}\n{table(['name', 'what', '--set'], rows, left=3)}\n")
    conclude(record, "\n".join([*parts, "Solve one with: flm solve NAME. Begin a file of your own with: flm new pde"]))


def new(
    kind: Annotated[Start, typer.Argument(help="What kind of problem.")],
    file: Annotated[Path | None, typer.Argument(metavar="[FILE.toml]", help="Default: KIND.toml here.")] = None,
) -> None:
    """Write a commented problem file to begin with.

    Nothing is overwritten.

    Example: flm new pde rod.toml
    """
    path = Path(f"{kind}.toml") if file is None else file
    if path.suffix != ".toml":
        raise InputError(f"`FILE` must end in .toml; got {str(path)!r}.")
    texts = {path: start_text(kind, path.stem)}
    if kind is Start.inverse:
        texts[path.with_suffix(".csv")] = start_readings()
    for there in filter(Path.exists, texts):
        raise InputError(f"`FILE` must be a new name; got {str(there)!r}, which is there already.")
    for there, text in texts.items():
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text, encoding="utf-8")
    conclude({"written": list(texts)}, f"Written: {', '.join(map(str, texts))}. Solve it with: flm solve {path} --open")


def studio(
    folder: Annotated[Path, typer.Argument(help="Where texts, tables and answers are kept.")] = Path("flm-studio"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 0,
    limit: Annotated[float, typer.Option(min=1.0, help="Seconds that one solve may take.")] = 600.0,
    browser: Annotated[bool, typer.Option(help="Show it in a browser.")] = True,
) -> None:
    """Open the workbench in the browser: write, solve, look.

    It is on this machine alone; Ctrl-C ends it.

    Example: flm studio my-problems
    """
    try:
        from flm.studio.server import serve
    except ImportError:
        raise ExtraMissingError(
            'The studio is not installed. Run: pip install "fourier-learning-machines[studio]"'
        ) from None

    def ready(address: str) -> None:
        say(f"flm studio keeps its files in {folder}. Open {address}")
        if browser:
            webbrowser.open(address)

    serve(folder, port, limit, ready)


def start_text(kind: Start, name: str) -> str:
    """The text that a file of this name begins with."""
    text = (resources.files("flm.cli") / "starts" / f"{kind}.toml").read_text(encoding="utf-8")
    return text.replace("KIND", name)


def start_readings() -> str:
    """Sixty readings of a rod that cools with diffusivity 0.1, with noise of standard deviation 0.01, as CSV."""
    import numpy as np

    rng = np.random.default_rng(0)
    x, t, noise = *rng.uniform(size=(2, 60)), rng.normal(scale=0.01, size=60)
    u = np.sin(np.pi * x) * np.exp(-0.1 * np.pi**2 * t) + noise
    return "x,t,u\n" + "".join(f"{a:.4f},{b:.4f},{c:.4f}\n" for a, b, c in zip(x, t, u, strict=True))
