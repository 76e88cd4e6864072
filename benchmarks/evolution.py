"""Evolution problems by `method="march"`: CPU seconds of a warm process, both runs of the estimate included, and true errors.

    python benchmarks/evolution.py              all but the long ones
    python benchmarks/evolution.py --long       Gray–Scott and Burgers at 0.001/π too; some minutes
    python benchmarks/evolution.py kdv ks       some
    python benchmarks/evolution.py --rivals     instead: exponax and py-pde on four problems in one space variable, where installed

Each problem is solved once at ten times its tolerance to warm up, then timed. Errors are against Cole–Hopf, exact solutions,
an independent ETDRK4, or the same march at a thousandth of the tolerance ("finer"), relative L2 over space and time, worst unknown.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from functools import partial

import evolution_rivals
import jax.numpy as jnp
import numpy as np
import references
import strangers

import flm

PI = np.pi


def burgers(nu=0.01 / PI):
    return flm.PDE(
        flm.Box(x=(-1, 1), t=(0, 1)),
        lambda u, u_t, u_x, u_xx: u_t + u * u_x - nu * u_xx,
        [flm.initial(lambda x: -jnp.sin(PI * x)), flm.dirichlet("x=-1"), flm.dirichlet("x=1")],
        exact=partial(references.burgers, nu=nu),
    )


def flow(start_u, start_v, nu, end, exact=None):
    return flm.PDE(
        flm.Box(x=(0, 2 * PI), y=(0, 2 * PI), t=(0, end)),
        [
            lambda u, v, u_t, u_x, u_y, u_xx, u_yy, p_x: u_t + u * u_x + v * u_y + p_x - nu * (u_xx + u_yy),
            lambda u, v, v_t, v_x, v_y, v_xx, v_yy, p_y: v_t + u * v_x + v * v_y + p_y - nu * (v_xx + v_yy),
            lambda u_x, v_y: u_x + v_y,
        ],
        [flm.initial(start_u), flm.initial(start_v, unknown="v"), flm.periodic("x"), flm.periodic("y")],
        unknowns=("u", "v", "p"),
        exact=exact,
    )


def taylor_green():
    fall = lambda t: jnp.exp(-0.02 * t)
    return flow(
        lambda x, y: jnp.cos(x) * jnp.sin(y),
        lambda x, y: -jnp.sin(x) * jnp.cos(y),
        0.01,
        1.0,
        exact={
            "u": lambda x, y, t: jnp.cos(x) * jnp.sin(y) * fall(t),
            "v": lambda x, y, t: -jnp.sin(x) * jnp.cos(y) * fall(t),
            "p": lambda x, y, t: -0.25 * (jnp.cos(2 * x) + jnp.cos(2 * y)) * fall(t) ** 2,
        },
    )


def decaying_flow():
    return flow(
        lambda x, y: jnp.cos(x) * jnp.sin(y) + 0.5 * jnp.sin(2 * y) + 0.3 * jnp.cos(3 * y),
        lambda x, y: -jnp.sin(x) * jnp.cos(y) + 0.4 * jnp.cos(2 * x),
        0.01,
        1.0,
    )


def cube(second):
    """Heat or waves on a cube with values at its sides, from random sines whose exact solution is known."""
    rng, terms = np.random.default_rng(7), 6
    k, a = rng.integers(1, 5, (terms, 3)), rng.normal(size=terms)
    rates = PI**2 * np.sum(k**2, axis=1)
    shape = lambda x, y, z, i: jnp.sin(k[i, 0] * PI * x) * jnp.sin(k[i, 1] * PI * y) * jnp.sin(k[i, 2] * PI * z)
    move = lambda i, t: jnp.cos(np.sqrt(rates[i]) * t) if second else jnp.exp(-rates[i] * t)
    equation = (
        (lambda u_tt, u_xx, u_yy, u_zz: u_tt - u_xx - u_yy - u_zz)
        if second
        else (lambda u_t, u_xx, u_yy, u_zz: u_t - u_xx - u_yy - u_zz)
    )
    start = lambda x, y, z: sum(a[i] * shape(x, y, z, i) for i in range(terms))
    return flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1), z=(0, 1), t=(0, 1.0 if second else 0.05)),
        equation,
        [
            flm.initial(start, velocity=0.0 if second else None),
            *(flm.dirichlet(f"{axis}={end}") for axis in "xyz" for end in ("min", "max")),
        ],
        exact=lambda x, y, z, t: sum(a[i] * shape(x, y, z, i) * move(i, t) for i in range(terms)),
    )


# name: problem, tolerance, the aim in CPU seconds, whether it takes long
PROBLEMS = {
    "kdv": (flm.problems.korteweg_de_vries, 1e-8, 0.3, False),
    "ks": (flm.problems.kuramoto_sivashinsky, 1e-6, 3, False),
    "allen_cahn": (flm.problems.allen_cahn_periodic, 1e-4, 3, False),
    "schroedinger": (flm.problems.schroedinger, 1e-4, 3, False),
    "burgers": (burgers, 1e-6, 3, False),
    "burgers_001": (lambda: burgers(0.001 / PI), 1e-4, 30, True),
    "taylor_green": (taylor_green, 1e-6, 15, False),
    "decaying_flow": (decaying_flow, 1e-6, 15, False),
    "gray_scott": (flm.problems.gray_scott, 1e-2, 120, True),
    "heat_cube": (lambda: cube(False), 1e-8, 10, False),
    "wave_cube": (lambda: cube(True), 1e-8, 10, False),
}


# ETDRK4 at two resolutions, the finer one compared; their difference is printed beside the error.
REFERENCES = {
    "kdv": strangers.korteweg_de_vries,
    "ks": strangers.kuramoto_sivashinsky,
    "allen_cahn": strangers.allen_cahn,
    "schroedinger": strangers.schroedinger,
    "gray_scott": strangers.gray_scott,
}


def true_error(name, solution, problem, tol):
    """The error, relative L2 over space and time, worst unknown, and what it is against."""
    if solution.exact is not None:
        points = solution.test_points()
        points = points[points[:, list(solution.axes).index("t")] > 0]  # Cole–Hopf has no t = 0
        truth, own = np.asarray(solution.exact(points)).reshape(len(points), -1), "exact"
    elif name in REFERENCES:
        found = REFERENCES[name]()
        points, truth, own = found.points, found.values, f"ETDRK4, {found.error:.0e}"
    else:
        points, own = solution.test_points(), "finer"
        truth = np.asarray(flm.solve(problem, max(tol / 1000, 1e-11), method="march")(points))
    return strangers.apart(np.asarray(solution(points)).reshape(truth.shape), truth), own


def run(name):
    make, tol, aim, long = PROBLEMS[name]
    problem = make()
    if not long:
        flm.solve(problem, 10 * tol, method="march")
    cpu = time.process_time()
    solution = flm.solve(problem, tol, method="march")
    cpu = time.process_time() - cpu
    error, against = true_error(name, solution, problem, tol)
    print(
        f"| {name} | {tol:.0e} | {solution.status.word} | {solution.error_estimate:.1e} | {error:.1e} ({against}) | {cpu:.2f} "
        f"| {aim} | {solution.model.num_pieces} | {solution.num_columns:,} |",
        flush=True,
    )


def rivals(names):
    print(
        "| problem | tolerance | flm: error at t = 1 | rival | cheapest within the tolerance | cheapest within our error |"
    )
    print("|---|---|---|---|---|---|")
    for name in evolution_rivals.LAWS:
        if not names or name in names:
            make, tol, *_ = PROBLEMS[name]
            evolution_rivals.compare(name, make(), tol)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--rivals", action="store_true")
    options = parser.parse_args()
    if options.rivals:
        rivals(options.names)
        return
    print("| problem | tolerance | status | estimate | true error | CPU s | aim | windows | columns |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.names or [n for n, row in PROBLEMS.items() if options.long or not row[3]]:
        run(name)


if __name__ == "__main__":
    main()
