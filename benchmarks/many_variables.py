"""Many variables: sums of products, sparse sets, a random-feature solver and a trained network beside them in one run.

    python benchmarks/many_variables.py            all rows; some minutes of one core with FastLSQ 0.7.1 and DeepXDE 1.15.0, which
                                                   are left out where they are not installed
    python benchmarks/many_variables.py Gaussian   rows whose names contain one of these words

Errors are relative L2, of products at points drawn where the answer is. CPU seconds of a warm process: each problem is solved
twice and the second run counts; making the problem is part of it.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import jax.numpy as jnp
import numpy as np
from scipy.special import erf

import flm
from flm.models.products import ProductFLM
from flm.pde.products.sample import draw


def names(m):
    """x1 ... xm."""
    return tuple(f"x{j + 1}" for j in range(m))


def second(axes):
    """The second derivatives along the axes."""
    return tuple(f"u_{a}{a}" for a in axes)


def poisson(m, source, boundary=0.0):
    """-Lap u = source on [-1, 1]^m with values on all faces."""
    axes = names(m)
    equation = flm.Named(lambda *v: -sum(v[:m]) - source(*v[m:]), second(axes) + axes)
    value = flm.Named(boundary, axes) if callable(boundary) else boundary
    return flm.PDE(flm.Box(**dict.fromkeys(axes, (-1.0, 1.0))), equation, [flm.dirichlet("boundary", value)])


def error(solution, exact, count=300):
    """Relative L2 error over box and time, at points drawn where the answer is."""
    model = solution.model
    if not isinstance(model, ProductFLM):
        points = solution.test_points()
        return float(np.linalg.norm(solution(points) - exact(points)) / np.linalg.norm(exact(points)))
    low, high = (0.0, 0.0) if model.time is None else solution.bounds[model.time]
    squares, sizes = 0.0, 0.0
    for t in np.linspace(low, high, 1 if low == high else 7):
        points, weights = draw(model, float(t), count, seed=77)
        truth = exact(points)
        squares += weights @ (np.asarray(model(points)) - truth) ** 2
        sizes += weights @ truth**2
    return float(np.sqrt(squares / sizes))


def heat_kernel(X):
    """-Lap u = 1 with zero sides on [-1, 1]^m: the integral over time of products of one-dimensional heat solutions."""
    s = np.arange(-24, 5, 0.08)
    t, n = np.exp(s), (2 * np.arange(40) + 1) * np.pi / 2
    image = lambda x, k: (erf((x - 2 * k + 1) / (2 * np.sqrt(t))) - erf((x - 2 * k - 1) / (2 * np.sqrt(t)))) / 2
    total = np.ones((len(X), len(t)))
    for x in X.T:
        early = sum((-1) ** k * image(x[:, None], k) for k in range(-3, 4))
        late = (2 * (-1.0) ** np.arange(40) / n * np.cos(np.outer(x, n))) @ np.exp(-np.outer(n**2, t))
        total *= np.where(t < 0.2, early, late)
    return total @ (0.08 * t)


def sines(m):
    """A product of sines."""
    source = lambda *x: m * jnp.pi**2 * jnp.prod(jnp.stack([jnp.sin(jnp.pi * v) for v in x]), axis=0)
    return poisson(m, source), lambda X: np.prod(np.sin(np.pi * X), axis=1)


def gaussian(m):
    """exp(-|x - 0.4|^2) on [0, 1]^m, as in the table of rivals, its values on all faces."""
    axes = names(m)
    square = lambda x: sum((v - 0.4) ** 2 for v in x)
    bell = lambda *x: jnp.exp(-square(x))
    equation = flm.Named(lambda *v: -sum(v[:m]) - (2 * m - 4 * square(v[m:])) * bell(*v[m:]), second(axes) + axes)
    problem = flm.PDE(
        flm.Box(**dict.fromkeys(axes, (0.0, 1.0))), equation, [flm.dirichlet("boundary", flm.Named(bell, axes))]
    )
    return problem, lambda X: np.exp(-((X - 0.4) ** 2).sum(axis=1))


def heat_in_a_ball():
    """PINNacle's heat equation in a ball of five variables, u = exp(|x|^2 / 2 + t)."""
    axes, square = names(5), lambda x: sum(v**2 for v in x)
    truth = flm.Named(lambda *v: jnp.exp(square(v[:5]) / 2 + v[5]), (*axes, "t"))
    source = lambda x, t: -square(x) / 5 * jnp.exp(square(x) / 2 + t)
    equation = flm.Named(
        lambda rate, *v: rate - sum(v[:5]) / 5 - source(v[5:10], v[10]), ("u_t", *second(axes), *axes, "t")
    )
    ball = flm.Ball(**dict.fromkeys(axes, 0.0), radius=1)
    start = flm.Named(lambda *x: jnp.exp(square(x) / 2), axes)
    problem = flm.PDE(ball * flm.Box(t=(0, 1)), equation, [flm.initial(start), flm.neumann(ball, truth)])
    return problem, lambda P: np.exp((P[:, :5] ** 2).sum(axis=1) / 2 + P[:, 5])


def bell_in_torch(x, d):
    """The equation of the Gaussian, for DeepXDE."""
    import torch

    square = sum((v - 0.4) ** 2 for v in x)
    return -sum(d(j, j) for j in range(len(x))) - (2 * len(x) - 4 * square) * torch.exp(-square)


ROWS = (
    ("product of sines, m = 5", lambda: sines(5), 1e-12, True),
    ("product of sines, m = 10", lambda: sines(10), 1e-12, True),
    ("product of sines, m = 100", lambda: sines(100), 1e-12, False),
    ("Gaussian, m = 5", lambda: gaussian(5), 1e-6, True),
    ("Gaussian, m = 5, a sparse set", lambda: gaussian(5), 1e-6, False),
    ("Gaussian, m = 100", lambda: gaussian(100), 1e-6, False),
    ("-Lap u = 1, m = 10", lambda: (poisson(10, lambda *x: 1.0), heat_kernel), 1e-6, False),
    ("-Lap u = 1, m = 100", lambda: (poisson(100, lambda *x: 1.0), heat_kernel), 1e-4, False),
    ("heat in a ball, m = 5 and t", heat_in_a_ball, 1e-4, False),
)


def ours(make, tol, method=None):
    """Tolerance in, one line of figures out."""
    for _ in range(2):
        began = time.process_time()
        problem, exact = make()
        built = time.process_time() - began
        solution = flm.solve(problem, tol, method=method)
        cpu = time.process_time() - began - built
    return f"{error(solution, exact):.1e} | {solution.error_estimate:.1e} | {cpu:.2f} (+ {built:.2f}) | {solution.status.word}"


def fastlsq(make):
    """FastLSQ with 1,500 features on the same problem, its scale picked by the exact error; empty where it is not installed."""
    from pde_rivals import fastlsq_solve

    problem, exact = make()
    problem.exact_values = exact
    began = time.process_time()
    try:
        function, note = fastlsq_solve(problem, features=1500, rules=("exact",))["exact"]
    except ImportError:
        return ""
    cpu = time.process_time() - began
    points = problem.domain.interior(2000, seed=5, warp=False)
    wrong = np.linalg.norm(function(points) - exact(points)) / np.linalg.norm(exact(points))
    return f"{wrong:.1e}, {note}, {cpu:.0f} s for nine scales"


def deepxde(make, residual):
    """DeepXDE's trained network on the same problem, 1,000 steps of Adam and 250 of L-BFGS; empty where it is not installed."""
    from pde_rivals import deepxde_solve

    problem, exact = make()
    began = time.process_time()
    try:
        function, note = deepxde_solve(problem, residual)
    except ImportError:
        return ""
    cpu = time.process_time() - began
    points = problem.domain.interior(2000, seed=5, warp=False)
    wrong = np.linalg.norm(function(points) - exact(points)) / np.linalg.norm(exact(points))
    return f"{wrong:.1e}, {note}, {cpu:.0f} s"


def main():
    """Print the table."""
    titles = "problem | tolerance | error | estimate | CPU s (+ making the problem) | ended | FastLSQ | DeepXDE"
    print(f"| {titles} |\n" + "|---" * 8 + "|")
    for name, make, tol, compared in ROWS:
        if len(sys.argv) > 1 and not any(word in name for word in sys.argv[1:]):
            continue
        own = ours(make, tol, "sparse" if "sparse" in name else None)
        rival = fastlsq(make) if compared else ""
        trained = deepxde(make, bell_in_torch) if name == "Gaussian, m = 5" else ""
        print(f"| {name} | {tol:g} | {own} | {rival} | {trained} |", flush=True)


if __name__ == "__main__":
    main()
