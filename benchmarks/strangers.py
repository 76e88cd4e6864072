"""Problems that others posed, solved blind: error, estimate, seconds, pieces, beside independent references.

    python benchmarks/strangers.py                   all rows; what benchmarks/results/strangers.jsonl holds is not run again
    python benchmarks/strangers.py kdv cavity        rows whose names contain one of these words, again
    python benchmarks/strangers.py --odes            ODEs beside scipy's DOP853, Radau and LSODA at equal error
    python benchmarks/strangers.py --table           the tables as Markdown, from what was run
    python benchmarks/strangers.py --pictures FILE   a picture with a panel for each solution, or for those with one of the words

Error: relative L2 over space and time, worst unknown, against a reference whose own error (its two finest resolutions
compared) is printed. Seconds: CPU time of one solve in a fresh process, compilation included ("cold"), and of a second
("warm") where the first took less than a minute. `FLM_PINNACLE` is the folder with the benchmark's own files, if any.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import references
from scipy.integrate import solve_ivp

import flm

PI = np.pi
RESULTS = Path(__file__).parent / "results"
TIMES = 10  # a march is compared at so many even times after the start


@dataclass(frozen=True)
class Reference:
    """Values (P, K) at points (P, m), and their own relative error."""

    points: np.ndarray
    values: np.ndarray
    error: float


@dataclass(frozen=True)
class Row:
    """A problem, its tolerance, the seconds that are aimed at, and its reference."""

    name: str
    make: Callable[[], flm.PDE]
    tol: float
    seconds: float
    reference: Callable[[], Reference]
    until: float | None = None  # the reference ends here


def apart(found, wanted):
    """The relative L2 distance, worst unknown."""
    return float(np.max(np.sqrt(np.mean((found - wanted) ** 2, axis=0) / np.mean(wanted**2, axis=0))))


def exact(make, count=20000):
    """A reference from the problem's own exact solution."""
    problem = make()
    points = np.random.default_rng(0).uniform(*problem.domain.bounds.T, (count, len(problem.axes)))
    return Reference(points, problem.exact_values(points).reshape(count, -1), 0.0)


def on_ring(lengths, low, end, march, sizes):
    """A periodic reference from `march(ring, n)`, values (times, K, n, ...), at two sizes of grid."""
    few, many = (march(references.Ring(lengths, n), n) for n in sizes)
    step = sizes[1] // sizes[0]
    same = many[(..., *(len(lengths) * [slice(None, None, step)]))]
    axes = [a + length * np.arange(sizes[0]) / sizes[0] for a, length in zip(low, lengths, strict=True)]
    times = np.linspace(0, end, TIMES + 1)
    grid = np.meshgrid(times, *axes, indexing="ij")
    points = np.stack([g.ravel() for g in (*grid[1:], grid[0])], axis=1)
    flat = lambda values: np.moveaxis(values, 1, -1).reshape(len(points), -1)
    return Reference(points, flat(same), apart(flat(few), flat(same)))


def scalar(symbol, source, start, end, steps, low=-1.0):
    """A march of one unknown on a ring with the real symbol and source; steps for the two sizes of grid."""

    def march(ring, n):
        count = steps[0] if n == min(march.sizes) else steps[1]
        u = ring.march(symbol(ring.k[0]), source, start(ring.grid[0] + low).astype(complex), end, count, TIMES)
        parts = (u.real, u.imag) if np.iscomplexobj(start(ring.grid[0])) else (u.real,)
        return np.stack(parts, axis=1)

    return march


def one_dimension(length, low, end, symbol, source, start, sizes, steps):
    """A reference on a ring of one dimension."""
    march = scalar(symbol, source, start, end, steps, low)
    march.sizes = sizes
    return on_ring((length,), (low,), end, march, sizes)


def kuramoto_sivashinsky(end=1.0, sizes=(256, 512), steps=(8000, 16000)):
    return one_dimension(
        2 * PI, 0.0, end, lambda k: 100 / 16**2 * k**2 - 100 / 16**4 * k**4,
        lambda u, d: -100 / 16 * u.real * d(0).real, lambda x: np.cos(x) * (1 + np.sin(x)), sizes, steps,
    )  # fmt: skip


def korteweg_de_vries(end=1.0, sizes=(256, 512), steps=(10000, 20000)):
    return one_dimension(
        2.0, -1.0, end, lambda k: 0.0025j * k**3, lambda u, d: -u.real * d(0).real,
        lambda x: np.cos(PI * x), sizes, steps,
    )  # fmt: skip


def allen_cahn(sizes=(1024, 2048), steps=(1000, 2000)):
    return one_dimension(
        2.0, -1.0, 1.0, lambda k: 5 - 1e-4 * k**2, lambda u, d: -5 * u.real**3,
        lambda x: x**2 * np.cos(PI * x), sizes, steps,
    )  # fmt: skip


def schroedinger(end=PI / 2, sizes=(512, 1024), steps=(8000, 16000)):
    return one_dimension(
        10.0, -5.0, end, lambda k: -0.5j * k**2, lambda u, d: 1j * np.abs(u) ** 2 * u,
        lambda x: 2 / np.cosh(x) + 0j, sizes, steps,
    )  # fmt: skip


def gray_scott(end=200.0, sizes=(256, 512), steps=(200, 400)):
    def march(ring, n):
        x, y = (g - 1 for g in ring.grid)
        square = ring.k[0] ** 2 + ring.k[1] ** 2
        start = [
            1 - np.exp(-80 * ((x + 0.05) ** 2 + (y + 0.02) ** 2)),
            np.exp(-80 * ((x - 0.05) ** 2 + (y - 0.02) ** 2)),
        ]

        def source(w, d):
            u, v = w.real
            return np.stack([0.04 - u * v**2, u * v**2])

        symbol = np.stack([-1e-5 * square - 0.04, -5e-6 * square - 0.1])
        return ring.march(symbol, source, np.array(start), end, steps[n == sizes[1]], TIMES).real

    return on_ring((2.0, 2.0), (-1.0, -1.0), end, march, sizes)


def burgers_2d(end=0.1, sizes=(256, 512), steps=(50, 100), nu=1e-3):
    def march(ring, n):
        square = ring.k[0] ** 2 + ring.k[1] ** 2
        starts = [np.asarray(flm.problems.strangers.random_field(seed)(*ring.grid)) for seed in (0, 1)]

        def source(w, d):
            u, v = w.real
            return -u * d(0).real - v * d(1).real

        return ring.march(np.stack([-nu * square] * 2), source, np.array(starts), end, steps[n == sizes[1]], TIMES).real

    return on_ring((4.0, 4.0), (0.0, 0.0), end, march, sizes)


def heat_long_time(end=100.0, sizes=(96, 192), steps=(2500, 5000)):
    few, many = (references.heat_long_time(n, end, s, TIMES) for n, s in zip(sizes, steps, strict=True))
    same = many[:, 1::2, 1::2]
    axis = np.arange(1, sizes[0]) / sizes[0]
    t, x, y = np.meshgrid(np.linspace(0, end, TIMES + 1), axis, axis, indexing="ij")
    points = np.stack([x.ravel(), y.ravel(), t.ravel()], axis=1)
    return Reference(points, same.reshape(-1, 1), apart(few.reshape(-1, 1), same.reshape(-1, 1)))


def burgers_1d(nu=0.01 / PI, count=20000):
    points = np.random.default_rng(0).uniform((-1, 0.001), (1, 1), (count, 2))
    values = [references.burgers(*points.T, nu, nodes) for nodes in (8001, 16001)]
    return Reference(points, values[1][:, None], apart(values[0][:, None], values[1][:, None]))


def inside(problem, count=4000):
    """Random points of a region."""
    points = np.random.default_rng(0).uniform(*problem.domain.bounds.T, (2 * count, len(problem.axes)))
    return points[problem.domain.contains(points)][:count]


def poisson_holes():
    points = inside(flm.problems.poisson_holes())
    few, many = (references.holes(n)[0](*points.T)[:, None] for n in (18, 24))
    return Reference(points, many, apart(few, many))


def poisson_boltzmann(sizes=((600, 36), (1200, 44)), count=4000):
    points = inside(flm.problems.poisson_boltzmann(), count)
    few, many = (references.boltzmann(m, n)(*points.T)[:, None] for m, n in sizes)
    return Reference(points, many, apart(few, many))


def cavity(reynolds=100.0, sizes=(80, 160, 320)):
    """Values of u and v at the inner points of the coarsest grid, extrapolated twice; p is not compared."""
    found = []
    for n in sizes:
        step = n // sizes[0]
        u, v = references.cavity(n, reynolds)
        found.append(np.stack([w[step - 1 :: step, step - 1 :: step].ravel() for w in (u, v)], axis=1))
    first, second = ((4 * b - a) / 3 for a, b in pairwise(found))
    axis = np.arange(1, sizes[0]) / sizes[0]
    x, y = np.meshgrid(axis, axis, indexing="ij")
    return Reference(np.stack([x.ravel(), y.ravel()], axis=1), second, apart(first, second))


P = flm.problems
ROWS = [
    Row("Burgers 1d-C", lambda: P.viscous_burgers(viscosity=0.01 / PI), 1e-6, 5, burgers_1d),
    Row("Burgers 2d-C", P.burgers_2d, 2e-3, 600, burgers_2d, until=0.1),
    Row("Poisson 2d-C", P.poisson_holes, 1e-5, 15, poisson_holes),
    Row("Poisson 2d-CG", P.poisson_boltzmann, 1e-5, 15, poisson_boltzmann),
    Row("Heat 2d-LT", P.heat_long_time, 1e-2, 60, heat_long_time),
    Row("Wave 1d-C", lambda: P.wave(speed=2.0), 1e-10, 1, lambda: exact(lambda: P.wave(speed=2.0))),
    Row("PNd", P.poisson_sines, 1e-10, 5, lambda: exact(P.poisson_sines)),
    Row("cavity flow", P.cavity, 1e-4, 10, cavity),
    Row("Kuramoto–Sivashinsky", P.kuramoto_sivashinsky, 1e-6, 5, kuramoto_sivashinsky),
    Row("Gray–Scott", P.gray_scott, 1e-2, 300, gray_scott),
    Row("Allen–Cahn", P.allen_cahn_periodic, 1e-4, 5, allen_cahn),
    Row("Korteweg–de Vries", P.korteweg_de_vries, 1e-8, 1, korteweg_de_vries),
    Row("Schrödinger", P.schroedinger, 1e-4, 5, schroedinger),
]


def measure(row: Row, limit: float) -> dict:
    """Solve one row blind, and compare."""
    problem, began = row.make(), time.process_time()
    solution = flm.solve(problem, row.tol)
    cold, warm = time.process_time() - began, None
    if cold < limit:
        began = time.process_time()
        solution = flm.solve(row.make(), row.tol)
        warm = time.process_time() - began
    reference = row.reference()
    end = min(x for x in (solution.trusted_until, row.until, np.inf) if x is not None)
    keep = np.ones(len(reference.points), bool) if np.isinf(end) else reference.points[:, -1] <= end
    found = np.asarray(solution(reference.points[keep])).reshape(keep.sum(), -1)[:, : reference.values.shape[1]]
    estimate = solution.error_estimate if solution.trusted_until is None else solution.estimate_until
    return {
        "row": row.name, "tol": row.tol, "aim": row.seconds, "status": str(solution.status.word),
        "error": apart(found, reference.values[keep]), "estimate": float(estimate), "reference": reference.error,
        "until": None if np.isinf(end) else end, "stopped": solution.trusted_until, "cold": cold, "warm": warm,
        "columns": solution.num_columns,
        "pieces": len(solution.pieces) if hasattr(solution.model, "boxes") else 1,
    }  # fmt: skip


# --- ODEs beside scipy -------------------------------------------------------------------------------------------------

STIFF = {"van_der_pol_oscillator", "robertson", "oregonator", "hires"}
ODES = ("lotka_volterra", "lorenz", "van_der_pol_oscillator", "robertson", "brusselator", "oregonator", "hires",
        "three_body", "pleiades")  # fmt: skip


def first_order(problem):
    """y' = f(t, y) of a problem that is explicit in its highest derivatives, its start, and which states are unknowns."""
    import jax
    import jax.numpy as jnp

    orders = [
        max(a[0] for e in problem.equations for j, a in e.residual.jets if j == k) for k in range(len(problem.unknowns))
    ]
    states = [(k, o) for k, p in enumerate(orders) for o in range(p)]
    place = {state: i for i, state in enumerate(states)}
    tops = {(k, p): i for i, (k, p) in enumerate(enumerate(orders))}
    q = jnp.asarray(problem.parameter_start)

    def residual(t, y, top):
        pick = lambda k, o: y[place[k, o]] if (k, o) in place else top[tops[k, o]]
        rows = []
        for block in problem.equations:
            jets = jnp.stack([pick(k, a[0]) for k, a in block.residual.jets])[:, None]
            rows.append(block.residual(jnp.full((1, 1), t), jets, q)[0])
        return jnp.stack(rows)

    @jax.jit
    def slope(t, y):
        zero = jnp.zeros(len(orders))
        mass = jax.jacfwd(residual, argnums=2)(t, y, zero)
        top = -jnp.linalg.solve(mass, residual(t, y, zero))
        return jnp.stack([y[place[k, o + 1]] if (k, o + 1) in place else top[k] for k, o in states])

    slopes = jax.jit(jax.jacfwd(slope, argnums=1))
    start = np.zeros(len(states))
    low = jnp.full((1, 1), float(problem.domain.bounds[0, 0]))
    for block in problem.conditions:
        ((k, alpha),) = block.residual.jets
        start[place[k, alpha[0]]] = -float(block.residual(low, jnp.zeros((1, 1)), q)[0])
    return (
        lambda t, y: np.asarray(slope(t, y)),
        lambda t, y: np.asarray(slopes(t, y)),
        start,
        [place[k, 0] for k in range(len(orders))],
    )


def ode_row(name: str, tol: float = 1e-6) -> dict:
    """Ours at a tolerance, then each of scipy's at the loosest power of ten whose error is no larger than ours."""
    problem = getattr(P, name)()
    began = time.process_time()
    flm.solve(problem, tol)
    cold, began = time.process_time() - began, time.process_time()
    solution = flm.solve(problem, tol)
    ours = time.process_time() - began
    slope, slopes, start, shown = first_order(problem)
    low, high = problem.domain.bounds[0]
    times = np.linspace(low, high, 2001)
    at = lambda method, rtol: solve_ivp(
        slope, (low, high), start, method, times, rtol=rtol, atol=rtol * 1e-4 * np.maximum(1e-4, np.abs(start)),
        **({} if method == "DOP853" else {"jac": slopes}),
    ).y[shown].T  # fmt: skip
    fine = "Radau" if name in STIFF else "DOP853"
    truth, check = at(fine, 1e-12), at(fine, 1e-11)
    error = apart(np.asarray(solution(times[:, None])).reshape(len(times), -1), truth)
    row = {"ode": name, "tol": tol, "error": error, "estimate": solution.error_estimate, "reference": apart(check, truth),
           "warm": ours, "cold": cold, "rivals": {}}  # fmt: skip
    for method in ("DOP853", "Radau", "LSODA"):
        if method == "DOP853" and name in STIFF:
            continue
        for power in range(4, 12):
            began = time.process_time()
            found = at(method, 10.0**-power)
            spent = time.process_time() - began
            if apart(found, truth) <= max(error, tol / 10) or power == 11:
                row["rivals"][method] = {"seconds": spent, "error": apart(found, truth)}
                break
    return row


# --- running and printing ------------------------------------------------------------------------------------------------


def kept() -> list[dict]:
    """What has been run, the last of each row."""
    path = RESULTS / "strangers.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return list({row.get("row", row.get("ode")): row for row in rows}.values())


def keep(row: dict) -> None:
    """Append one result."""
    with (RESULTS / "strangers.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(row, flush=True)


def tables() -> None:
    """Both tables as Markdown."""
    print(
        "| row | tolerance | error | estimate | reference's own error | CPU s cold, warm | status |\n|---|---|---|---|---|---|---|"
    )
    found = {row.get("row"): row for row in kept()}
    for row in (found[r.name] for r in ROWS if r.name in found):
        until = f" to t = {row['until']:.3g}" if row["until"] else ""
        warm = "" if row["warm"] is None else f", {row['warm']:.2g}"
        status = row["status"] + (f" at t = {row['stopped']:.3g}" if row.get("stopped") else "")
        print(
            f"| {row['row']} | {row['tol']:.0e} | {row['error']:.1e}{until} | {row['estimate']:.1e} | {row['reference']:.0e} | "
            f"{row['cold']:.3g}{warm} (aim {row['aim']}) | {status} |"
        )
    print("\n| ODE | error | estimate | seconds | DOP853 | Radau | LSODA |\n|---|---|---|---|---|---|---|")
    for row in (r for r in kept() if "ode" in r):
        rivals = " | ".join(
            f"{r['seconds']:.2g} ({r['error']:.0e})" if (r := row["rivals"].get(m)) else "–"
            for m in ("DOP853", "Radau", "LSODA")
        )
        print(f"| {row['ode']} | {row['error']:.1e} | {row['estimate']:.1e} | {row['warm']:.2g} | {rivals} |")


def pictures(path: Path, words: list[str], folder: Path | None) -> None:
    """One picture with a panel for each solution, at a looser tolerance or, where `folder` has one, a saved answer.

    Of answers with time and a plane the last trusted time is shown, of other variables the middle; of several unknowns their size.
    """
    import matplotlib.pyplot as plt

    rows = [row for row in ROWS if not words or any(w.lower() in row.name.lower() for w in words)]
    across = min(len(rows), 4)
    size = (3.4 * across, 2.9 * -(-len(rows) // across))
    figure, panels = plt.subplots(-(-len(rows) // across), across, figsize=size, layout="constrained", squeeze=False)
    for row, panel in zip(rows, panels.flat, strict=False):
        saved = None if folder is None else folder / f"{row.name}.safetensors"
        solution = flm.load(saved) if saved and saved.exists() else flm.solve(row.make(), max(row.tol, 1e-3))
        reach = dict(zip(solution.axes, solution.reach, strict=True))
        lines = {a: np.linspace(*reach[a], 201) for a in solution.axes[:2]}
        fixed = {a: reach[a][1] if a == "t" else np.mean(reach[a]) for a in solution.axes[2:]}
        (first, x), (second, y) = lines.items()
        values = np.asarray(solution(**{first: x[:, None], second: y}, **fixed))
        field = values if values.ndim == 2 else np.hypot(values[..., 0], values[..., 1])
        flip = second == "t"
        mesh = panel.pcolormesh(*((y, x, field) if flip else (x, y, field.T)), shading="auto", rasterized=True)
        figure.colorbar(mesh, ax=panel)
        at = f", t = {fixed['t']:.3g}" if "t" in fixed else ""
        names = (second, first) if flip else (first, second)
        panel.set(title=row.name + at, xlabel=names[0], ylabel=names[1], aspect="auto" if flip else "equal")
    for panel in panels.flat[len(rows) :]:
        panel.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=70)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--odes", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--saved", type=Path, help="a folder of answers, ROW.safetensors, for the pictures")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    if options.table:
        tables()
        return
    if options.pictures:
        pictures(options.pictures, options.words, options.saved)
        return
    if options.one:
        named = {row.name: row for row in ROWS}
        keep(measure(named[options.one], 60.0) if options.one in named else ode_row(options.one))
        return
    names = ODES if options.odes else [row.name for row in ROWS]
    done = {row.get("row", row.get("ode")) for row in kept()}
    for name in names:
        if any(w.lower() in name.lower() for w in options.words) if options.words else name not in done:
            subprocess.run([sys.executable, __file__, "--one", name], check=False)


if __name__ == "__main__":
    main()
