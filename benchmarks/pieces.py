"""What the pieces must reach: each problem of the table with its error, estimate, seconds, pieces and columns.

    python benchmarks/pieces.py                    all rows, about ten minutes
    python benchmarks/pieces.py layer checkerboard rows whose names contain one of these words
    python benchmarks/pieces.py --growth           seconds against pieces on uniform and on graded trees

Error: relative L2 at 40,000 random points of the domain (an even grid would put a point on the singularity). Seconds: CPU
time of the second solve in the process, with estimate and well-posedness check, without the waves.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from honesty_trees import checkerboard, front, interface, l_shape, mixed

import flm
from flm.pde.pieces.newton import solve_system
from flm.pde.pieces.setup import set_up
from flm.pde.pieces.tree import Cut, Tree


@dataclass(frozen=True)
class Row:
    """A row of the table: what to solve, to which tolerance, in how many seconds."""

    name: str
    make: Callable[[], flm.PDE]
    tol: float
    seconds: float


def _triangle(x):
    return jnp.where(x < 0.5, 2 * x, 2 - 2 * x)


def rough_heat(step: bool) -> flm.PDE:
    """u_t = 0.1 u_xx with zero ends from 1 (a step against them) or from a triangle; the exact sum has 2,000 terms."""
    k = np.arange(1, 4001, 2)
    b = 4 / (np.pi * k) if step else 8 / (np.pi * k) ** 2 * (-1.0) ** ((k - 1) // 2)

    def exact(x, t):
        x, t = np.asarray(x), np.asarray(t)
        total = np.zeros_like(x)
        for kk, bb in zip(k, b, strict=True):
            total += bb * np.sin(kk * np.pi * x) * np.exp(-0.1 * (kk * np.pi) ** 2 * t)
        return total

    start = flm.initial(1.0) if step else flm.initial(_triangle)
    ends = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]
    domain = flm.Box(x=(0, 1), t=(0, 1))
    return flm.PDE(domain, lambda u_t, u_xx: u_t - 0.1 * u_xx, [*start, *ends], exact=exact)


ROWS = (
    Row("heat", flm.problems.heat, 1e-10, 0.05),
    Row("Poisson", flm.problems.poisson, 1e-10, 0.05),
    Row("Black-Scholes", flm.problems.black_scholes, 1e-10, 0.05),
    Row("Helmholtz k = 10", lambda: flm.problems.helmholtz(wavenumber=10.0), 1e-8, 0.05),
    Row("Helmholtz k = 50", lambda: flm.problems.helmholtz(wavenumber=50.0), 1e-8, 2),
    Row("Helmholtz k = 100", lambda: flm.problems.helmholtz(wavenumber=100.0), 1e-8, 12),
    Row("layer 0.02", lambda: flm.problems.convection_diffusion(epsilon=0.02), 1e-10, 0.3),
    Row("layer 1e-3", lambda: flm.problems.convection_diffusion(epsilon=1e-3), 1e-10, 1),
    Row("layer 1e-4", lambda: flm.problems.convection_diffusion(epsilon=1e-4), 1e-10, 2),
    Row("L-shape r^(2/3)", l_shape, 1e-6, 20),
    Row("Dirichlet meets Neumann, r^(1/2)", lambda: mixed(0.3), 1e-6, 20),
    Row("interface 1 : 100", lambda: interface(100.0), 1e-8, 0.1),
    Row("checkerboard 1 : 10", lambda: checkerboard(10.0), 1e-4, 45),
    Row("checkerboard 1 : 100", lambda: checkerboard(100.0), 1e-3, 60),
    Row("oblique front 0.03", lambda: front(0.03), 1e-6, 5),
    Row("heat from a step", lambda: rough_heat(True), 1e-6, 15),
    Row("heat from a triangle", lambda: rough_heat(False), 1e-6, 3),
    Row("viscous Burgers 0.02", lambda: flm.problems.viscous_burgers(viscosity=0.02), 1e-8, 2),
    Row("viscous Burgers 0.01/pi", lambda: flm.problems.viscous_burgers(viscosity=0.01 / np.pi), 1e-8, 5),
    Row("wave", flm.problems.wave, 1e-8, 1),
    Row("Poisson 3-D", flm.problems.poisson_3d, 1e-8, 0.6),
)


def true_error(solution: flm.Solution, problem: flm.PDE) -> float:
    """The relative L2 error at random points."""
    points = problem.domain.interior(40_000, seed=11, warp=False)
    exact = problem.exact_values(points)
    return float(np.linalg.norm(np.asarray(solution.model(points)) - exact) / np.linalg.norm(exact))


def run(row: Row) -> str:
    """One line of the table."""
    problem = row.make()
    try:
        flm.solve(problem, row.tol, method="pieces")
    except flm.FLMError as refused:
        return f"| {row.name} | {row.tol:.0e} | not served yet: {str(refused)[:60]} | | | | | |"
    cpu = time.process_time()
    solution = flm.solve(problem, row.tol, method="pieces")
    cpu = time.process_time() - cpu
    error = true_error(solution, problem) if problem.exact is not None else np.nan
    pieces = solution.model.num_pieces
    return (
        f"| {row.name} | {row.tol:.0e} | {error:.1e} | {solution.error_estimate:.1e} | {cpu:.2f} | {row.seconds:g} "
        f"| {pieces} | {solution.num_columns} | {solution.status.word} |"
    )


def growth() -> None:
    """Seconds of one solve against pieces: uniform trees, and trees graded to a corner."""
    setup = set_up(flm.problems.poisson())
    nodes = (11, 11)
    everything = [Cut(0), Cut(1)]
    for name in ("uniform", "graded"):
        tree, before = Tree.whole(setup.bounds, setup.periodic), None
        for _ in range(5 if name == "uniform" else 40):
            if name == "uniform":
                tree, _ = tree.split(dict.fromkeys(range(tree.num_leaves), everything))
            else:
                tree, _ = tree.split({int(np.argmin(tree.shares)): [Cut(0, 0.5), Cut(1, 0.5)]})
                if tree.num_leaves not in (16, 31, 61, 121):
                    continue
            cpu = time.process_time()
            solve_system(setup.system(tree, nodes), None, True)
            cpu = time.process_time() - cpu
            order = (
                "" if before is None else f", order {np.log(cpu / before[1]) / np.log(tree.num_leaves / before[0]):.2f}"
            )
            print(f"{name}: {tree.num_leaves} pieces {cpu:.2f} s{order}", flush=True)
            before = (tree.num_leaves, cpu)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--growth", action="store_true")
    asked = parser.parse_args()
    if asked.growth:
        return growth()
    print("| problem | tol | error | estimate | CPU s | aim | pieces | columns | status |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in ROWS:
        if not asked.words or any(word.lower() in row.name.lower() for word in asked.words):
            print(run(row), flush=True)
    return None


if __name__ == "__main__":
    main()
