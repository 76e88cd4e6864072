"""`flm doctor`: what is installed, what it runs on, and whether it works."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from flm.cli.output import Json, folder, say, say_json

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "scikit-learn", "matplotlib", "safetensors")
EXTRAS = ("dask", "torch", "casadi", "pandas", "xarray", "finufft")


def doctor(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the report, doctor.json, here.")] = None,
    json: Json = False,
) -> None:
    """Report versions, device, precision and BLAS threads, and run a self-test.

    Example: flm doctor
    """
    import jax
    import numpy as np
    from threadpoolctl import threadpool_info

    import flm

    found: dict[str, Any] = {"flm": flm.__version__, "packages": _versions(PACKAGES), "extras": _versions(EXTRAS)}
    found["devices"] = [str(device) for device in jax.devices()]
    found["precision"] = "float64" if jax.config.read("jax_enable_x64") else "float32"
    np.linalg.svd(np.eye(2))  # loads the BLAS that is asked about
    found["blas"] = [f"{i['internal_api']} {i.get('version')}, {i['num_threads']} threads" for i in threadpool_info()]
    began = time.perf_counter()
    tests = {name: _try(test) for name, test in _TESTS.items()}
    found["self_test"] = {"passed": not any(tests.values()), "failures": {k: v for k, v in tests.items() if v}}
    found["seconds"] = time.perf_counter() - began
    if out is not None:
        from flm.files import to_json, write_atomic

        write_atomic(folder(out) / "doctor.json", to_json(found).encode())
    if json:
        say_json(found)
    else:
        say(f"flm {found['flm']}", style="bold")
        say("  " + ", ".join(f"{k} {v}" for k, v in found["packages"].items()))
        say("  extras: " + ", ".join(f"{k} {v or '(not installed)'}" for k, v in found["extras"].items()))
        say(f"  devices: {', '.join(found['devices'])}; precision: {found['precision']}")
        say(f"  BLAS: {'; '.join(found['blas']) or 'unknown'}")
        for name, failure in tests.items():
            say(
                f"  {'FAILED' if failure else 'ok'}  {name}{': ' + failure if failure else ''}",
                style="red" if failure else None,
            )
        say(f"  self-test took {found['seconds']:.1f} s")
    if any(tests.values()):
        raise typer.Exit(1)


def _versions(names: tuple[str, ...]) -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _try(test: Callable[[], None]) -> str:
    try:
        test()
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ""


def _solve() -> None:
    import jax

    import flm

    tol = 1e-8 if jax.config.read("jax_enable_x64") else 1e-4
    error = flm.solve(flm.problems.oscillator(), tol).errors().relative_l2
    if not error < 10 * tol:
        raise ArithmeticError(f"an oscillator solved to {error:.1e} instead of {tol:.0e}")


def _round_trip() -> None:
    import tempfile

    import numpy as np

    import flm

    series = flm.PhaseSeries([[1.0, 2.0]], [[0.5, 0.25]], [[0.1, 0.2]])
    points = np.array([[0.3, 0.7]])
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "series.safetensors"
        flm.save(series.separable(), path)
        again = flm.load(path)
    if not np.allclose(again(points), series(points), rtol=1e-6):
        raise ArithmeticError("a saved series has other values")


_TESTS = {"solve an ODE to a tolerance": _solve, "convert, save and load a series": _round_trip}
