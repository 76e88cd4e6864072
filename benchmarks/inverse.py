"""A function from readings: a(x) in -(a u_x)_x = 1 between cold ends, 200 readings with 1 % noise, seed by seed.

    python benchmarks/inverse.py [--seeds 20] [--unknown-noise]

Readings come from the closed form a u_x = c - x by quadrature, never from the solver. Printed for each seed: the relative L2
error of a, the share of x at which its 95 % band holds the true value, and CPU seconds of a warm process.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import argparse
import time

import numpy as np
from scipy.integrate import cumulative_trapezoid

import flm

COUNT, NOISE, TOL = 200, 0.01, 1e-6
GRID = np.linspace(0, 1, 101)


def conductivity(x):
    """The true a."""
    return 1 + 0.5 * np.sin(2 * np.pi * x)


def temperature():
    """x and u(x) on a fine grid."""
    x = np.linspace(0, 1, 40001)
    one, two = (cumulative_trapezoid(f / conductivity(x), x, initial=0) for f in (np.ones_like(x), x))
    return x, two[-1] / one[-1] * one - two


def problem(seed: int, told: bool) -> flm.PDE:
    """The rod with the readings of one seed."""
    x, u = temperature()
    rng = np.random.default_rng(seed)
    points, sigma = rng.uniform(size=COUNT), NOISE * u.max()
    values = np.interp(points, x, u) + sigma * rng.normal(size=COUNT)
    return flm.PDE(
        flm.Box(x=(0, 1)),
        lambda a, a_x, u_x, u_xx: -(a_x * u_x + a * u_xx) - 1.0,
        [flm.dirichlet("x=0"), flm.dirichlet("x=1"), flm.data(points, values, sigma=sigma if told else None)],
        parameters={"a": flm.Learn(1.0, lower=0, axes=("x",))},
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--unknown-noise", action="store_true")
    options = parser.parse_args()
    errors, covered, seconds = [], [], []
    for seed in range(options.seeds):
        made, cpu = problem(seed, not options.unknown_noise), time.process_time()
        solution = flm.solve(made, TOL)
        seconds.append(time.process_time() - cpu)
        a = solution.parameters["a"]
        wrong = a.value(GRID) - conductivity(GRID)
        errors.append(np.sqrt(np.mean(wrong**2) / np.mean(conductivity(GRID) ** 2)))
        covered.append(np.mean(np.abs(wrong) <= 1.96 * a.standard_error(GRID)))
        word = solution.status.word
        print(f"{seed:3d}  {word}  error {errors[-1]:.3f}  covered {covered[-1]:.2f}  {seconds[-1]:.1f} s", flush=True)
    print(
        f"error {np.mean(errors):.3f} on average, {np.max(errors):.3f} at the most; the band covers {np.mean(covered):.1%}; "
        f"{np.median(seconds):.1f} CPU s"
    )


if __name__ == "__main__":
    main()
