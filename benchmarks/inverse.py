"""A function from readings: a(x) in -(a u_x)_x = f between cold ends, 200 readings with 1 % noise, seed by seed.

    python benchmarks/inverse.py [rod|dip|kink] [--seeds 20] [--unknown-noise]

Readings come from the closed form a u_x = c - F by quadrature, never from the solver. Printed for each seed: the relative L2
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


# The true a, and the source f.
RODS = {
    "rod": (lambda x: 1 + 0.5 * np.sin(2 * np.pi * x), lambda x: 1.0 + 0 * x),
    "dip": (lambda x: 1.5 - 0.8 * np.exp(-(((x - 0.35) / 0.15) ** 2)), lambda x: 6 * x),
    "kink": (lambda x: 1 + 1.2 * np.abs(x - 0.4), lambda x: 1.0 + 0 * x),
}


def temperature(conductivity, source):
    """x and u(x) on a fine grid."""
    x = np.linspace(0, 1, 40001)
    total = cumulative_trapezoid(source(x), x, initial=0)
    one, two = (cumulative_trapezoid(f / conductivity(x), x, initial=0) for f in (np.ones_like(x), total))
    return x, two[-1] / one[-1] * one - two


def problem(name: str, seed: int, told: bool) -> flm.PDE:
    """A rod with the readings of one seed."""
    x, u = temperature(*RODS[name])
    source = RODS[name][1]
    rng = np.random.default_rng(seed)
    points, sigma = rng.uniform(size=COUNT), NOISE * u.max()
    values = np.interp(points, x, u) + sigma * rng.normal(size=COUNT)
    return flm.PDE(
        flm.Box(x=(0, 1)),
        lambda x, a, a_x, u_x, u_xx: -(a_x * u_x + a * u_xx) - source(x),
        [flm.dirichlet("x=0"), flm.dirichlet("x=1"), flm.data(points, values, sigma=sigma if told else None)],
        parameters={"a": flm.Learn(1.0, lower=0, axes=("x",))},
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=RODS, default="rod")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--unknown-noise", action="store_true")
    options = parser.parse_args()
    conductivity, errors, covered, seconds = RODS[options.name][0], [], [], []
    for seed in range(options.seeds):
        made, cpu = problem(options.name, seed, not options.unknown_noise), time.process_time()
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
