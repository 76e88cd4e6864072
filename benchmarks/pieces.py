"""What the pieces must reach: each problem of the table with its error, estimate, seconds, pieces and columns.

    python benchmarks/pieces.py                    all rows, some fifteen minutes
    python benchmarks/pieces.py layer checkerboard rows whose names contain one of these words
    python benchmarks/pieces.py --growth           seconds against pieces on uniform and on graded trees

Error: relative L2 at 40,000 random points of the domain (an even grid would put a point on the singularity), or against a
reference by another method at its points. Seconds: CPU time of the second solve in the process, with estimate and
well-posedness check, without the waves.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np
import strangers
from honesty_rough import checkerboard, front, interface, l_shape, mixed
from scipy.integrate import solve_ivp

import flm
from flm.pde.pieces.newton import solve_system
from flm.pde.pieces.setup import set_up
from flm.pde.pieces.tree import Cut, Tree


@dataclass(frozen=True)
class Row:
    """A row of the table: what to solve, to which tolerance, in how many seconds, and points with what is true there."""

    name: str
    make: Callable[[], flm.PDE]
    tol: float
    seconds: float
    truth: Callable[[flm.PDE], tuple[np.ndarray, np.ndarray]] | None = None  # the exact solution where there is none


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


def smooth(x, y):
    """A function that no region shapes, with Δu = -3u."""
    return jnp.exp(x) * jnp.sin(2 * y + 0.3)


def on_region(region) -> flm.PDE:
    """Δu = -3u with the values of a smooth solution around a region."""
    equation = lambda u, u_xx, u_yy: u_xx + u_yy + 3 * u
    return flm.PDE(region, equation, [flm.dirichlet("boundary", smooth)], exact=smooth)


def four_holes():
    """A square less four disks."""
    domain = flm.Box(x=(-1, 1), y=(-1, 1))
    for x, y in ((-0.5, -0.5), (-0.5, 0.5), (0.5, -0.5), (0.5, 0.5)):
        domain = domain - flm.Disk(x=x, y=y, radius=0.25)
    return domain


def ball() -> flm.PDE:
    """Poisson's equation in the unit ball."""
    u = lambda x, y, z: jnp.exp(x) * jnp.sin(2 * y) * jnp.cos(z)
    equation = lambda x, y, z, u_xx, u_yy, u_zz: u_xx + u_yy + u_zz + 4 * u(x, y, z)
    return flm.PDE(flm.Ball(x=0, y=0, z=0, radius=1), equation, [flm.dirichlet("boundary", u)], exact=u)


def spreading(region, width: float) -> flm.PDE:
    """A Gaussian that spreads by the heat equation, as it does without a boundary."""
    wide = lambda t: width**2 + 0.04 * t
    u = lambda x, y, t: width**2 / wide(t) * jnp.exp(-((x - 0.1) ** 2 + y**2) / wide(t))
    conditions = [flm.initial(lambda x, y: u(x, y, 0.0)), flm.dirichlet("boundary", u)]
    equation = lambda u_t, u_xx, u_yy: u_t - 0.01 * (u_xx + u_yy)
    return flm.PDE(region * flm.Box(t=(0, 1)), equation, conditions, exact=u)


def fisher_front() -> flm.PDE:
    """u_t = D Δu + r u (1 - u): an oblique front (1 + e^z)^-2 of width w that keeps its shape where r = 6 D / w²."""
    width, D = 0.2, 0.02
    rate = 6 * D / width**2
    u = lambda x, y, t: (1 + jnp.exp(((x + y - 0.6) / np.sqrt(2) - 5 * D / width * t) / width)) ** -2
    equation = lambda u, u_t, u_xx, u_yy: u_t - D * (u_xx + u_yy) - rate * u * (1 - u)
    conditions = [flm.initial(lambda x, y: u(x, y, 0.0)), flm.dirichlet("boundary", u)]
    return flm.PDE(flm.Box(x=(0, 1), y=(0, 1), t=(0, 1)), equation, conditions, exact=u)


def wave(end: float) -> flm.PDE:
    """Two standing waves on a string."""
    u = lambda x, t: jnp.sin(np.pi * x) * jnp.cos(np.pi * t) + 0.5 * jnp.sin(3 * np.pi * x) * jnp.cos(3 * np.pi * t)
    ends = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]
    start = flm.initial(lambda x: u(x, 0.0), velocity=0.0)
    return flm.PDE(flm.Box(x=(0, 1), t=(0, end)), lambda u_tt, u_xx: u_tt - u_xx, [*start, *ends], exact=u)


def transport(end: float) -> flm.PDE:
    """exp(sin) that travels around a ring."""
    u = lambda x, t: jnp.exp(jnp.sin(2 * np.pi * (x - t)))
    conditions = [*flm.initial(lambda x: u(x, 0.0)), flm.periodic("x")]
    return flm.PDE(flm.Box(x=(0, 1), t=(0, end)), lambda u_t, u_x: u_t + u_x, conditions, exact=u)


def ordinary(problem: flm.PDE, stiff: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Values by SciPy at a thousand times, to 1e-12, or to 1e-10 where stiff."""
    slope, slopes, start, shown = strangers.first_order(problem)
    low, high = problem.domain.bounds[0]
    times, rtol = np.linspace(low, high, 1001), 1e-10 if stiff else 1e-12
    options = {"method": "Radau", "jac": slopes} if stiff else {"method": "DOP853"}
    found = solve_ivp(slope, (low, high), start, t_eval=times, rtol=rtol, atol=1e-3 * rtol, **options)
    return times[:, None], found.y[shown].T


def from_strangers(make: Callable[[], strangers.Reference]) -> Callable[[flm.PDE], tuple[np.ndarray, np.ndarray]]:
    """Points and values of a reference that `strangers.py` computes."""

    def truth(_: flm.PDE) -> tuple[np.ndarray, np.ndarray]:
        found = make()
        return found.points, found.values

    return truth


def fine_allen_cahn() -> strangers.Reference:
    """ETDRK4 at sizes that a start with a kink asks for; without the first time, when its waves follow the kink worst."""
    found = strangers.allen_cahn(sizes=(4096, 8192), steps=(2000, 4000))
    later = found.points[:, 1] > 0
    return strangers.Reference(found.points[later], found.values[later], found.error)


P = flm.problems
DISK = flm.Disk(x=0, y=0, radius=1)
ROWS = (
    Row("heat", P.heat, 1e-10, 0.05),
    Row("Poisson", P.poisson, 1e-10, 0.05),
    Row("Black-Scholes", P.black_scholes, 1e-10, 0.05),
    Row("heat", P.heat, 1e-13, 0.05),
    Row("Poisson", P.poisson, 1e-13, 0.05),
    Row("Black-Scholes", P.black_scholes, 1e-13, 0.05),
    Row("Helmholtz k = 10", lambda: P.helmholtz(wavenumber=10.0), 1e-8, 0.05),
    Row("Helmholtz k = 50", lambda: P.helmholtz(wavenumber=50.0), 1e-8, 2),
    Row("Helmholtz k = 100", lambda: P.helmholtz(wavenumber=100.0), 1e-8, 12),
    Row("layer 0.02", lambda: P.convection_diffusion(epsilon=0.02), 1e-10, 0.3),
    Row("layer 1e-3", lambda: P.convection_diffusion(epsilon=1e-3), 1e-10, 1),
    Row("layer 1e-4", lambda: P.convection_diffusion(epsilon=1e-4), 1e-10, 2),
    Row("L-shape r^(2/3)", l_shape, 1e-6, 20),
    Row("Dirichlet meets Neumann, r^(1/2)", lambda: mixed(0.3), 1e-6, 20),
    Row("interface 1 : 100", lambda: interface(100.0), 1e-8, 0.1),
    Row("checkerboard 1 : 10", lambda: checkerboard(10.0), 1e-4, 45),
    Row("checkerboard 1 : 100", lambda: checkerboard(100.0), 1e-3, 60),
    Row("oblique front 0.03", lambda: front(0.03), 1e-6, 5),
    Row("heat from a step", lambda: rough_heat(True), 1e-6, 15),
    Row("heat from a triangle", lambda: rough_heat(False), 1e-6, 3),
    Row("viscous Burgers 0.02", lambda: P.viscous_burgers(viscosity=0.02), 1e-8, 2),
    Row("viscous Burgers 0.01/pi", lambda: P.viscous_burgers(viscosity=0.01 / np.pi), 1e-8, 5),
    Row("Allen-Cahn 1e-4", P.allen_cahn_periodic, 1e-6, 5, from_strangers(fine_allen_cahn)),
    Row("wave to T = 6", lambda: wave(6.0), 1e-8, 1),
    Row("wave to T = 20", lambda: wave(20.0), 1e-8, 4),
    Row("transport to T = 6", lambda: transport(6.0), 1e-8, 1),
    Row("transport to T = 20", lambda: transport(20.0), 1e-8, 4),
    Row("disk", lambda: on_region(DISK), 1e-8, 1),
    Row("annulus", lambda: on_region(DISK - flm.Disk(x=0, y=0, radius=0.4)), 1e-8, 1),
    Row("square with four holes", lambda: on_region(four_holes()), 1e-8, 5),
    Row("Poisson 3-D, box", P.poisson_3d, 1e-8, 0.6),
    Row("Poisson 3-D, ball", ball, 1e-8, 2),
    Row("heat on disk x time", lambda: spreading(DISK, 0.4), 1e-6, 10),
    Row("Fisher front, square x time", fisher_front, 1e-6, 20),
    Row("cavity flow Re 100", P.cavity, 1e-4, 5, from_strangers(strangers.cavity)),
    Row("cavity flow Re 1000", lambda: P.cavity(1000.0), 1e-4, 30, from_strangers(lambda: strangers.cavity(1000.0))),
    Row("Lotka-Volterra to T = 50", P.lotka_volterra, 1e-8, 0.3, ordinary),
    Row("Lorenz to T = 10", P.lorenz, 1e-6, 0.3, ordinary),
    Row("van der Pol 100 to T = 200", P.van_der_pol_oscillator, 1e-6, 0.3, partial(ordinary, stiff=True)),
    Row("Robertson to 1e5", P.robertson, 1e-6, 0.3, partial(ordinary, stiff=True)),
)


def true_error(solution: flm.Solution, problem: flm.PDE, row: Row | None = None) -> float:
    """The relative L2 error at random points or at those of the reference, worst unknown that the reference has."""
    if row is not None and row.truth is not None:
        points, exact = row.truth(problem)
    else:
        points = problem.domain.interior(40_000, seed=11, warp=False)
        exact = problem.exact_values(points)
    exact = exact.reshape(len(points), -1)
    found = np.asarray(solution.model(points)).reshape(len(points), -1)[:, : exact.shape[1]]
    return float(np.max(np.linalg.norm(found - exact, axis=0) / np.linalg.norm(exact, axis=0)))


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
    error = true_error(solution, problem, row)
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
