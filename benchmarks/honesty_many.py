"""Problems of four to a hundred variables, for `honesty.py`: 36 seeded cases, listed before the first run.

    python benchmarks/honesty.py many:

True errors are relative L2: of sums of products at points drawn where the answer is, of sparse sets at Sobol points.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from many_variables import error, heat_kernel, names, poisson, second

import flm

YEAR = 2031  # of the list
DIMENSIONS = (5, 20, 100, 10, 50, 12)
TOLERANCES = (1e-6, 1e-9, 1e-4)


def mixed(rng, m):
    """A sum of products of cosines, with its values on all faces."""
    count = int(rng.integers(1, 5))
    n, psi, c = rng.uniform(0.3, 3, (count, m)), rng.uniform(-1.5, 1.5, (count, m)), rng.normal(size=count)
    terms = lambda x: [
        c[i] * jnp.prod(jnp.stack([jnp.cos(n[i, j] * v - psi[i, j]) for j, v in enumerate(x)]), axis=0)
        for i in range(count)
    ]
    source = lambda *x: sum((n[i] ** 2).sum() * term for i, term in enumerate(terms(x)))
    exact = lambda X: np.cos(X[:, None] * n - psi).prod(axis=2) @ c
    return poisson(m, source, lambda *x: sum(terms(x))), exact


def shaped(rng, m):
    """A function of |x - c|^2 or of one affine form, by a fit in one dimension."""
    c, k = rng.uniform(-0.4, 0.4, m), rng.normal(size=m) / np.sqrt(m)
    if rng.integers(2):
        s = 0.3 * m * rng.uniform(0.7, 1.5)
        square = lambda x: sum((v - c[j]) ** 2 for j, v in enumerate(x)) / s  # u = 1 / (1 + q), q = |x - c|^2 / s
        u = lambda *x: 1 / (1 + square(x))
        source = lambda *x: 2 * m / s * (1 + square(x)) ** -2 - 8 / s * square(x) * (1 + square(x)) ** -3
        return poisson(m, source, u), lambda X: 1 / (1 + ((X - c) ** 2).sum(axis=1) / s)
    line = lambda x: sum(k[j] * v for j, v in enumerate(x))
    u = lambda *x: jnp.tanh(line(x))
    source = lambda *x: 2 * (k @ k) * jnp.tanh(line(x)) / jnp.cosh(line(x)) ** 2
    return poisson(m, source, u), lambda X: np.tanh(X @ k)


def unit_source(rng, m):
    """-Lap u = 1 with zero sides."""
    return poisson(m, lambda *x: 1.0), heat_kernel


def heat(rng, m):
    """Products of cosines that decay between insulated faces."""
    axes, k, rate = names(m), rng.integers(0, 4, (3, m)), float(rng.uniform(0.02, 0.2))
    c = rng.normal(size=3)
    start = lambda *x: sum(
        c[i] * jnp.prod(jnp.stack([jnp.cos(jnp.pi * k[i, j] * v) for j, v in enumerate(x)]), axis=0) for i in range(3)
    )
    equation = flm.Named(lambda speed, *v: speed - rate * sum(v), ("u_t", *second(axes)))
    sides = [flm.neumann(f"{a}={end}") for a in axes for end in ("min", "max")]
    domain = flm.Box(**dict.fromkeys(axes, (0.0, 1.0)), t=(0.0, 1.0))
    decay = lambda P: np.exp(-rate * np.pi**2 * np.outer(P[:, -1], (k**2).sum(axis=1)))
    exact = lambda P: (np.cos(np.pi * P[:, None, :-1] * k).prod(axis=2) * decay(P)) @ c
    return flm.PDE(domain, equation, [flm.initial(flm.Named(start, axes)), *sides]), exact


def coupled(rng, m):
    """-Lap u + q u = f in a box or a ball, with data that are no sum of products; half of them with u^3 in place of u."""
    axes, a, b = names(m), rng.uniform(0.2, 0.6, m), rng.uniform(-0.4, 0.4, m)
    u = lambda *x: (
        jnp.exp(sum(a[j] * v for j, v in enumerate(x)) / 2)
        * jnp.cos(x[0] * x[1] + sum(b[j] * v**2 for j, v in enumerate(x)))
    )
    power = 3 if rng.integers(2) else 1

    def laplacian(*x):
        flat = jnp.stack(jnp.broadcast_arrays(*x), axis=-1)
        one = lambda p: jnp.trace(jax.hessian(lambda q: u(*q))(p))
        return jax.vmap(one)(flat.reshape(-1, m)).reshape(flat.shape[:-1])

    equation = flm.Named(
        lambda value, *v: -sum(v[:m]) + value**power + laplacian(*v[m:]) - u(*v[m:]) ** power,
        ("u", *second(axes), *axes),
    )
    ball = flm.Ball(**dict.fromkeys(axes, 0.0), radius=1.0)
    domain = ball if rng.integers(2) else flm.Box(**dict.fromkeys(axes, (-1.0, 1.0)))
    exact = flm.Named(u, axes)
    return flm.PDE(domain, equation, [flm.dirichlet("boundary", exact)], exact=exact), None


def unbalanced(rng, m):
    """Neumann data that no function satisfies."""
    axes = names(m)
    ball = flm.Ball(**dict.fromkeys(axes, 0.0), radius=1.0)
    return flm.PDE(ball, flm.Named(lambda *v: sum(v) - 1.0, second(axes)), [flm.neumann("boundary")]), None


# (how many, family, maker, tolerance or None for each in turn, numbers of variables)
LIST = (
    (12, "many: products", mixed, None, DIMENSIONS),
    (6, "many: one form", shaped, None, (5, 12, 30)),
    (4, "many: unit source", unit_source, 1e-4, (5, 10, 30, 100)),
    (5, "many: heat", heat, None, (4, 6, 20)),
    (7, "many: sparse sets", coupled, 1e-3, (4, 5)),
    (2, "many: inconsistent", unbalanced, 1e-3, (4, 5)),
)
COUNTS = {family: count for count, family, *_ in LIST}


def run(family: str, number: int) -> dict:
    """Solve the problem of that number in its family; a record of how it went."""
    place = [row[1] for row in LIST].index(family)
    _, _, make, tol, dimensions = LIST[place]
    index = sum(row[0] for row in LIST[:place]) + number
    rng, m = np.random.default_rng([YEAR, index]), dimensions[number % len(dimensions)]
    tol = TOLERANCES[index % 3] if tol is None else tol
    problem, exact = make(rng, m)
    cpu = time.process_time()
    solution = flm.solve(problem, tol)
    cpu = time.process_time() - cpu
    wrong = None
    if make is not unbalanced:
        wrong = solution.errors().relative_l2 if exact is None else error(solution, exact)
    return {
        "family": family, "number": number, "list": YEAR, "tol": tol, "status": solution.status.word, "several": False,
        "estimate": solution.error_estimate, "error": wrong, "columns": solution.num_columns, "cpu": round(cpu, 2),
        "against": "exact", "unknown": 1e-14 * np.sqrt(m), "m": m,
    }  # fmt: skip
