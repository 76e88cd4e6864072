"""`flm.solve` beside FastLSQ, DeepXDE and Chebyshev collocation: error and seconds on problems that suit us and that do not.

    python benchmarks/pde.py                      the whole table (needs the extra `bench`; some 12 minutes of one core)
    python benchmarks/pde.py heat wave            some problems
    python benchmarks/pde.py --rivals chebyshev   some rivals
    python benchmarks/pde.py --speed              assembly, warm and cold times only (a minute)

Errors are relative L2 on one grid for all. Times are CPU seconds of this process (wall time in the JSON lines): they mean
something on a busy machine. Ours include the compilation of the residual; rivals run with it compiled. A rival that is
not installed is left out.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("DDE_BACKEND", "pytorch")

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from pde_rivals import chebyshev_solve, deepxde_solve, fastlsq_solve, is_linear

import flm
from flm.pde.waves.linear_models import model_columns

pi, P = np.pi, flm.problems


def gaussian_5d() -> flm.PDE:
    """Poisson's equation in five dimensions with solution exp(-|x - 0.4|^2): no short sum of sinusoids."""
    square = lambda *x: sum((v - 0.4) ** 2 for v in x)
    truth = lambda a, b, c, d, e: jnp.exp(-square(a, b, c, d, e))
    return flm.PDE(
        flm.Box(a=(0, 1), b=(0, 1), c=(0, 1), d=(0, 1), e=(0, 1)),
        lambda a, b, c, d, e, u_aa, u_bb, u_cc, u_dd, u_ee: (
            u_aa + u_bb + u_cc + u_dd + u_ee - (4 * square(a, b, c, d, e) - 10) * truth(a, b, c, d, e)
        ),
        [flm.dirichlet("boundary", truth)],
        exact=truth,
    )


def torch_black_scholes(x, d):
    import torch

    (x, t), exp = x, torch.exp
    e = exp(x)
    a = 0.08 * (2 + (1 - t) * torch.sin(e)) ** 2
    b = 0.06 * (1 + t * exp(-e)) - 0.02 * exp(-t - e) - a
    c = -0.06 * (1 + t * exp(-e))
    return d(1) - (a * d(0, 0) + b * d(0) + c * d() + 0.02 * exp(x - e - 2 * t) - exp(x - t))


def torch_layer(epsilon):
    def residual(x, d):
        import torch

        layer = x[0] - (torch.exp((x[0] - 1) / epsilon) - np.exp(-1 / epsilon)) / (1 - np.exp(-1 / epsilon))
        source = (1 + epsilon * pi**2 * layer) * torch.sin(pi * x[1])
        return -epsilon * (d(0, 0) + d(1, 1)) + d(0) - source

    return residual


def torch_poisson(source):
    def residual(x, d):
        import torch

        return sum(d(j, j) for j in range(len(x))) - source(torch, x)

    return residual


def torch_square(x):
    return sum((v - 0.4) ** 2 for v in x)


class Case(NamedTuple):
    problem: flm.PDE
    tol: float
    torch: object  # the equation for DeepXDE
    note: str


CASES = {
    "heat": lambda: Case(P.heat(), 1e-10, lambda x, d: d(1) - 0.1 * d(0, 0), "the paper's"),
    "poisson": lambda: Case(
        P.poisson(),
        1e-10,
        torch_poisson(lambda torch, x: -2 * pi**2 * torch.sin(pi * x[0]) * torch.sin(pi * x[1])),
        "the paper's; one sub-network",
    ),
    "black_scholes": lambda: Case(P.black_scholes(), 1e-10, torch_black_scholes, "the paper's; an exponential"),
    "wave": lambda: Case(P.wave(), 1e-10, lambda x, d: d(1, 1) - d(0, 0), "two standing waves"),
    "helmholtz": lambda: Case(P.helmholtz(), 1e-10, lambda x, d: d(0, 0) + d(1, 1) + 100 * d(), "a plane wave, k = 10"),
    "layer 0.05": lambda: Case(P.convection_diffusion(0.05), 1e-10, torch_layer(0.05), "boundary layer"),
    "layer 0.02": lambda: Case(P.convection_diffusion(0.02), 1e-8, torch_layer(0.02), "steeper"),
    "allen_cahn": lambda: Case(
        P.allen_cahn(), 1e-10, lambda x, d: d(1) - d(0, 0) - d() + d() ** 3, "nonlinear, smooth kink"
    ),
    "poisson_3d": lambda: Case(
        P.poisson_3d(),
        1e-8,
        torch_poisson(lambda torch, x: -4 * torch.exp(x[0]) * torch.sin(2 * x[1]) * torch.cos(x[2])),
        "smooth, not periodic: polynomials' home",
    ),
    "poisson_5d": lambda: Case(
        P.poisson_5d(),
        1e-10,
        torch_poisson(lambda torch, x: -5 * pi**2 * torch.prod(torch.sin(pi * torch.cat(x, 1)), 1, keepdim=True)),
        "a product of sines",
    ),
    "gaussian_5d": lambda: Case(
        gaussian_5d(),
        1e-6,
        torch_poisson(lambda torch, x: (4 * torch_square(x) - 10) * torch.exp(-torch_square(x))),
        "generic in five dimensions",
    ),
    "burgers 0.02": lambda: Case(
        P.viscous_burgers(0.02), 1e-4, lambda x, d: d(1) + d() * d(0) - 0.02 * d(0, 0), "steep viscous Burgers"
    ),
}


def clocked(call):
    wall, cpu = time.perf_counter(), time.process_time()
    found = call()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def compare(name, rivals, features):
    """One line of the table: {solver: (error, CPU seconds, wall seconds, note)}."""
    case = CASES[name]()
    problem = case.problem
    solution, cpu, wall = clocked(lambda: flm.solve(problem, case.tol))
    points = solution.test_points()
    truth = problem.exact_values(points)
    error = lambda f: float(np.linalg.norm(np.asarray(f(points)) - truth) / np.linalg.norm(truth))
    note = f"{solution.status.word}, {solution.num_columns} columns, estimate {solution.error_estimate:.1e}"
    found = {"flm": (error(solution), cpu, wall, note)}
    for rival in rivals:
        try:
            if rival == "chebyshev":
                (f, note), cpu, wall = clocked(lambda: chebyshev_solve(problem, case.tol))
                found["chebyshev"] = error(f), cpu, wall, note
            elif rival == "fastlsq":
                size = features if is_linear(problem) else min(features, 300)
                both, cpu, wall = clocked(lambda size=size: fastlsq_solve(problem, size))
                for rule, (f, note) in both.items():
                    found[f"fastlsq, {rule}"] = error(f), cpu, wall, f"{size} features, {note}"
            elif rival == "deepxde":
                (f, note), cpu, wall = clocked(lambda: deepxde_solve(problem, case.torch))
                found["deepxde"] = error(f), cpu, wall, note
        except ImportError as missing:
            print(f"{rival}: not installed ({missing.name})", file=sys.stderr)
    print(json.dumps({"problem": name, "tol": case.tol, "note": case.note} | found), flush=True)
    return found


COLUMNS = ("flm", "chebyshev", "fastlsq, exact", "fastlsq, blind", "deepxde")


def table(results):
    """Markdown: error and CPU seconds for each, the least error in bold."""
    lines = ["| problem | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, found in results.items():
        least = min(v[0] for v in found.values())
        cell = lambda v, least=least: (
            f"{'**' if v[0] <= 3 * least else ''}{v[0]:.1e}{'**' if v[0] <= 3 * least else ''}, {v[1]:.1f} s"
        )
        lines.append(f"| {name} | " + " | ".join(cell(found[c]) if c in found else "" for c in COLUMNS) + " |")
    return "\n".join(lines)


# --- speed -----------------------------------------------------------------------------------------------------------


def assembly(top=8, num_rows=1500, linear=True, rounds=9):
    """CPU seconds for the matrix of u_t + c u_x - 0.1 (u_xx + u_tt), c = 1/2 or u: our tables, and vmap(grad) per row.

    A linear problem's pointwise coefficients are computed once per solve and set of points, so they are not in the time;
    a nonlinear one's are, with the jets they depend on.
    """
    flux = (lambda u, u_t, u_x, u_xx, u_tt: u_t + 0.5 * u_x - 0.1 * (u_xx + u_tt) + 0 * u) if linear else None
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)), flux or (lambda u, u_t, u_x, u_xx, u_tt: u_t + u * u_x - 0.1 * (u_xx + u_tt))
    )
    residual = problem.equations[0].residual
    frequencies = flm.lattice(2, top**2, "box")
    basis = model_columns(flm.FLM(problem.domain, top**2, key=0, period=(2.0, 2.0), frequencies=frequencies))
    coefficients = np.random.default_rng(0).normal(size=(basis.num_columns, 1)) / basis.num_columns
    points = problem.domain.interior(num_rows, seed=0)
    alphas = tuple(alpha for _, alpha in residual.jets)
    out = np.empty((basis.num_columns, num_rows))

    def coefficient_rows():
        jets = basis.evaluate(points, coefficients, alphas)[:, :, 0]
        by_jet = residual.linearize(points, jets, problem.parameter_start).by_jet
        return {alpha: row for alpha, row in zip(alphas, by_jet, strict=True) if row.any()}

    fixed = coefficient_rows()

    def ours():
        basis.combine(points, fixed if linear else coefficient_rows(), out)
        return out

    series = basis.model(coefficients).series
    waves = jnp.asarray((np.asarray(series.frequencies)[:, None, :] * np.array(flm.sign_matrix(2))).reshape(-1, 2))
    amplitudes, phases = np.asarray(series.amplitudes).ravel(), np.asarray(series.phases).ravel()
    weights = jnp.asarray(np.concatenate([amplitudes * np.cos(phases), amplitudes * np.sin(phases)]))

    def value(weights, x):  # an FLM at one point: sums of cos(n.x) and sin(n.x)
        angle = waves @ x
        return weights @ jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])

    def at_point(weights, x):
        u = value(weights, x)
        (u_x, u_t), curve = jax.grad(value, 1)(weights, x), jax.hessian(value, 1)(weights, x)
        return u_t + (0.5 if linear else u) * u_x - 0.1 * (curve[0, 0] + curve[1, 1])

    by_row = jax.jit(jax.vmap(jax.grad(at_point), (None, 0)))
    theirs = lambda: np.asarray(by_row(weights, points))
    gap = np.abs(ours().T @ coefficients[:, 0] - theirs() @ np.asarray(weights)).max()
    best = [np.inf, np.inf]
    for _ in range(rounds):
        for i, call in enumerate((ours, theirs)):
            best[i] = min(best[i], clocked(call)[1])
    return {"rows": num_rows, "columns": basis.num_columns, "ours": best[0], "vmap(grad)": best[1], "difference": gap}


def warm(rounds=3):
    """Least CPU and wall seconds of a solve at 1e-10 in a process that has solved the problem before."""
    times = {}
    for name in ("heat", "poisson", "black_scholes"):
        problem = getattr(P, name)()
        flm.solve(problem, 1e-10)
        runs = [clocked(lambda problem=problem: flm.solve(problem, 1e-10)) for _ in range(rounds)]
        assert all(r[0].converged and r[0].errors().relative_l2 <= 1e-10 for r in runs)
        times[name] = min(r[1] for r in runs), min(r[2] for r in runs)
    return times


def cold(rounds=3):
    """Least CPU and wall seconds of the whole command from a shell."""
    runs = []
    for _ in range(rounds):
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-c", "import flm; flm.solve(flm.problems.heat(), 1e-10)"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        runs.append((cpu, time.perf_counter() - wall))
    return min(r[0] for r in runs), min(r[1] for r in runs)


def speed():
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for options in ({}, {"linear": False}, {"top": 16, "num_rows": 3000}):
        a = assembly(**options)
        ours, theirs = 1e3 * a["ours"], 1e3 * a["vmap(grad)"]
        kind = "linear" if options.get("linear", True) else "nonlinear"
        print(f"assembly, {kind}, {a['rows']} x {a['columns']}: {ours:.1f} ms, vmap(grad) {theirs:.0f} ms: ", end="")
        print(f"{theirs / ours:.0f}x (the two differ by {a['difference']:.0e})")
    for name, (cpu, wall) in warm().items():
        print(f"warm {name} at 1e-10: {cpu:.2f} s CPU, {wall:.2f} s wall")
    print("cold shell, heat at 1e-10: {:.2f} s CPU, {:.2f} s wall".format(*cold()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*CASES, []], help="problems; all by default")
    parser.add_argument("--rivals", default="chebyshev,fastlsq,deepxde")
    parser.add_argument(
        "--features", type=int, default=900, help="of FastLSQ; its default is 1500; 300 at most when nonlinear"
    )
    parser.add_argument("--speed", action="store_true", help="assembly, warm and cold times only")
    options = parser.parse_args()
    if options.speed:
        speed()
        return
    rivals = [r for r in options.rivals.split(",") if r]
    print(table({name: compare(name, rivals, options.features) for name in options.names or CASES}))


if __name__ == "__main__":
    main()
