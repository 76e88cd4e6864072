"""`flm show`, `flm demo`, `flm doctor`: what is in a saved file, what the library can do, and whether it works here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from flm.cli.output import conclude, folder, table, watching
from flm.wording import InputError

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib")
PACKAGES += ("safetensors",)
EXTRAS = ("dask", "torch", "casadi", "xarray")


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
    from flm.report.figures.fields import labeled_series, plot_spectrum
    from flm.report.files import write_figures

    found = flm.load(model)
    series, kind = labeled_series(found), type(found).__name__
    if out is not None and not series:
        raise InputError(f"`--out` must be left out for a {kind}, which is not a plain Fourier series.")
    lines = [f"{model.name}: {kind}", *([repr(found)] if hasattr(found, "status") else [])]
    lines += [f"\n{label}\n{one.describe(terms)}" for label, one in series]
    lines += [] if series else ["  not a plain Fourier series: no terms to list."]
    if out is not None:
        write_figures(folder(out), {"spectrum": plot_spectrum(found)})
        lines.append(f"\nWritten to {out}")
    listed = {label: [t._asdict() for t in one.terms(terms)] for label, one in series}
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
    """What went wrong in solving, saving and loading something small; empty where nothing did."""
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
