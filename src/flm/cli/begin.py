"""`flm problems`, `new`, `studio`, `demo`, `doctor`, `show`: the commands to begin with, and to look at what there is."""

from __future__ import annotations

import inspect
import time
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from flm.cli.output import conclude, folder, say, table, watching
from flm.wording import ExtraMissingError, InputError

WORDS = {
    "pde": "PDEs",
    "conservation": "conservation laws",
    "control": "optimal control",
    "ordinary": "ordinary differential equations",
    "strangers": "problems that others posed",
}
PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib")
STARTS = Path(__file__).parent / "starts"  # what `flm new` writes
EXTRAS = ("dask", "torch", "casadi", "xarray")
Start = StrEnum("Start", ["pde", "ode", "control", "inverse"])  # the kinds of files that `flm new` writes


def problems() -> None:
    """List the catalogue of problems, and what --set changes.

    Example: flm problems
    """
    from flm.problems import KINDS, catalogue

    record, parts = {}, []
    for kind in KINDS:
        rows = []
        for name, make in catalogue((kind,)).items():
            first, settings = (inspect.getdoc(make) or "").splitlines()[0], list(inspect.signature(make).parameters)
            record[name] = {"kind": kind, "what": first, "set": settings}
            rows.append([name, first, ", ".join(settings)])
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
        texts[path.with_suffix(".csv")] = (STARTS / "inverse.csv").read_text(encoding="utf-8")
    for there in filter(Path.exists, texts):
        raise InputError(f"`FILE` must be a new name; got {str(there)!r}, which is there already.")
    for there, text in texts.items():
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text, encoding="utf-8")
    conclude({"written": list(texts)}, f"Written: {', '.join(map(str, texts))}. Solve it with: flm solve {path} --open")


def studio(
    place: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of texts, tables, answers.")] = Path("flm-studio"),
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
        how = 'pip install "fourier-learning-machines[studio]"'
        raise ExtraMissingError(f"The studio is not installed. Run: {how}") from None

    def ready(address: str) -> None:
        say(f"flm studio keeps its files in {place.resolve()}. Open {address}")
        if browser:
            webbrowser.open(address)

    serve(place, port, limit, ready)


def start_text(kind: Start, name: str) -> str:
    """The text of a new file of this kind and name."""
    return (STARTS / f"{kind}.toml").read_text(encoding="utf-8").replace("KIND", name)


def show(
    model: Annotated[Path, typer.Argument(help="A file written by flm.", metavar="MODEL.safetensors")],
    terms: Annotated[int, typer.Option(help="How many of the largest terms.", min=1)] = 10,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write spectrum.png and spectrum.svg here.")] = None,
) -> None:
    """List the largest terms of a saved file, draw its spectrum.

    The file has a series, model, solution or estimator; frequencies are given as periods too.

    Example: flm show heat/model.safetensors --terms 5
    """
    import flm
    from flm.report.facts import labeled_series

    found = flm.load(model)
    series, kind = labeled_series(found), type(found).__name__
    if out is not None and not series:
        raise InputError(f"`--out` must be left out for a {kind}, which is not a plain Fourier series.")
    lines = [f"{model.name}: {kind}", *([repr(found)] if hasattr(found, "status") else [])]
    lines += [f"\n{one.label}\n{one.series.describe(terms)}" for one in series]
    spectrum = getattr(found, "spectrum_", None)  # of a fit, without importing the estimators
    if spectrum is not None:
        lines.append(f"\n{spectrum}")
    if not series:
        lines.append("  not a plain Fourier series: no terms to list.")
    if out is not None:
        from flm.report.figures.fields import plot_amplitudes
        from flm.report.files import write_figures

        write_figures(folder(out), {"spectrum": plot_amplitudes(found)})
        lines.append(f"\nWritten to {out}")
    listed = {one.label: [t._asdict() for t in one.series.terms(terms)] for one in series}
    conclude({"kind": kind, "terms": listed}, "\n".join(lines))


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the page and the record go.")] = Path("flm-demo"),
) -> None:
    """Take the tour: the paper's problems beside its numbers.

    They are solved and compared, and a page is written; about a minute on two cores.

    Example: flm demo --out flm-demo
    """
    from flm.files import to_json, write_atomic
    from flm.report.pages.demo import HEADERS, demo_page, run_demo

    path, began = folder(out), time.perf_counter()
    with watching("the tour", every=0.0) as report:
        stops = run_demo(report)
    record = {"seconds": time.perf_counter() - began, "stops": [stop.record() for stop in stops]}
    write_atomic(path / "demo.json", to_json(record).encode())
    page = demo_page(stops, record["seconds"]).write(path / "index.html")
    shown = table(HEADERS, [stop.row() for stop in stops], left=2)
    said = f"{shown}\n\n{record['seconds']:.0f} s in all. The page: {page}"
    conclude(record, said, good=all(stop.found.converged for stop in stops))


def doctor(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the report, doctor.json, here.")] = None,
) -> None:
    """Report versions, device and precision, run a self-test.

    Example: flm doctor
    """
    from importlib.metadata import distributions

    import jax
    from threadpoolctl import threadpool_info

    import flm
    from flm.files import to_json, write_atomic

    installed = {d.name.lower(): d.version for d in distributions()}
    packages, extras = ({name: installed.get(name) for name in names} for names in (PACKAGES, EXTRAS))
    found: dict[str, Any] = {"flm": flm.__version__, "packages": packages, "extras": extras}
    found["devices"] = [str(device) for device in jax.devices()]
    found["precision"] = "float64" if jax.config.read("jax_enable_x64") else "float32"
    began = time.perf_counter()
    try:
        failure = _self_test(1e-8 if found["precision"] == "float64" else 1e-4)
    except Exception as error:
        failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
    found["self_test"] = {"passed": not failure, "failure": failure, "seconds": time.perf_counter() - began}
    found["blas"] = [f"{i['internal_api']} {i.get('version')}, {i['num_threads']} threads" for i in threadpool_info()]
    if out is not None:
        write_atomic(folder(out) / "doctor.json", to_json(found).encode())
    lines = [
        f"flm {found['flm']}",
        ", ".join(f"{k} {v}" for k, v in packages.items()),
        "extras: " + ", ".join(f"{k} {v or '(not installed)'}" for k, v in extras.items()),
        f"devices: {', '.join(found['devices'])}; precision: {found['precision']}",
        f"BLAS: {'; '.join(found['blas'])}",
        f"self-test: {'FAILED, ' + failure if failure else 'ok'}",
    ]
    conclude(found, "\n  ".join(lines), good=not failure)


def _self_test(tol: float) -> str:
    """What went wrong in solving, saving and loading a small problem; empty where nothing did."""
    import tempfile

    import numpy as np

    import flm

    solution = flm.solve(flm.problems.oscillator(), tol)
    with tempfile.TemporaryDirectory() as directory:
        solution.save(Path(directory) / "a.safetensors")
        again = flm.load(Path(directory) / "a.safetensors")
    error, times = solution.errors().relative_l2, np.linspace(solution.bounds[0, 0], solution.bounds[0, 1], 9)
    if not error < 10 * tol:
        return f"an oscillator was solved to {error:.1e} instead of {tol:.0e}"
    return "" if np.allclose(again(times), solution(times), rtol=1e-6) else "a loaded solution has other values"
