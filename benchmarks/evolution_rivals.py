"""exponax and py-pde beside the march, at equal error and in one run: `python benchmarks/evolution.py --rivals`.

exponax (compiled Fourier steppers, ETDRK of order 4, fixed steps) and py-pde (second-order differences, adaptive
Runge–Kutta) have no estimate: their sizes are chosen here by the true error at t = 1, the cheapest that reaches the march's own
error and the cheapest that reaches the tolerance. Their seconds are those of the last run alone, without compilation
and without the search; they hold values at the end alone, the march a function of time with an estimate.

exponax 0.2.0 takes the real part of its weights, which is right where the linear part is real and costs Korteweg–de Vries all
but the first order. "mended" is exponax with the same contour means in complex numbers.
"""

import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import flm

PI = np.pi
PATIENCE = 20  # CPU seconds of one run after which a rival's search ends


class Law(NamedTuple):
    """u_t + a/2 (u²)_x = Σ c_j ∂^j u / ∂x^j + b u³: the start, a, (c_0, c_1, ...) and b."""

    start: object
    convection: float
    linear: tuple[float, ...]
    cubic: float = 0.0


LAWS = {
    "kdv": Law(lambda x: np.cos(PI * x), 1.0, (0.0, 0.0, 0.0, -0.0025)),
    "ks": Law(lambda x: np.cos(x) * (1 + np.sin(x)), 100 / 16, (0.0, 0.0, -100 / 16**2, 0.0, -100 / 16**4)),
    "burgers": Law(lambda x: -np.sin(PI * x), 1.0, (0.0, 0.0, 0.01 / PI)),
    "allen_cahn": Law(lambda x: x**2 * np.cos(PI * x), 0.0, (5.0, 0.0, 1e-4), -5.0),
}


class Attempt(NamedTuple):
    """A rival's run: its error at t = 1, CPU seconds, points, and steps or a tolerance."""

    error: float
    seconds: float
    points: int
    steps: float


def timed(march):
    """What a second call gives, and its CPU seconds."""
    march()
    cpu = time.process_time()
    return march(), time.process_time() - cpu


def exponax_run(law, x, length, steps, mended):
    import exponax
    import jax

    generic, common = exponax.stepper.generic, (1, length, len(x), 1.0 / steps)
    if law.cubic:
        stepper = generic.GeneralPolynomialStepper(
            *common, linear_coefficients=law.linear, polynomial_coefficients=(0.0, 0.0, 0.0, law.cubic), order=4
        )
    else:
        stepper = generic.GeneralConvectionStepper(
            *common, linear_coefficients=law.linear, convection_scale=law.convection, order=4
        )
    stepper = with_complex_weights(stepper, law, len(x), length, 1.0 / steps) if mended else stepper
    march, start = jax.jit(exponax.repeat(stepper, steps)), law.start(x)[None]
    found, seconds = timed(lambda: march(start).block_until_ready())
    return np.asarray(found)[0], seconds


def with_complex_weights(stepper, law, n, length, h):
    """The stepper with Kassam and Trefethen's means over a circle, complex as the linear part is."""
    import equinox

    k = 2j * PI / length * np.arange(n // 2 + 1)
    z = h * sum(c * k**j for j, c in enumerate(law.linear)) + np.exp(1j * PI * (np.arange(32) + 0.5) / 16)[:, None]
    e, mean = np.exp(z), lambda f: h * f.mean(axis=0)[None]
    half = mean((np.exp(z / 2) - 1) / z)
    first = mean((-4 - z + e * (4 - 3 * z + z**2)) / z**3)
    middle = mean((2 + z + e * (z - 2)) / z**3)
    last = mean((-4 - 3 * z - z**2 + e * (4 - z)) / z**3)
    where = lambda s: [getattr(s._integrator, f"_coef_{i}") for i in range(1, 7)]
    return equinox.tree_at(where, stepper, [half, half, half, first, middle, last])


def py_pde_run(law, x, length, tolerance):
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
    import pde  # the library; a file of this folder has its name

    powers = ("u", "d_dx(u)", "laplace(u)", "d_dx(laplace(u))", "laplace(laplace(u))")
    terms = [f"{c!r} * {power}" for c, power in zip(law.linear, powers, strict=False) if c]
    terms += [f"{-law.convection / 2!r} * d_dx(u**2)"] if law.convection else []
    terms += [f"{law.cubic!r} * u**3"] if law.cubic else []
    equation = pde.PDE({"u": " + ".join(terms)})
    field = pde.ScalarField(pde.CartesianGrid([[0, length]], len(x), periodic=True), law.start(x))
    solver = pde.RungeKuttaSolver(equation, adaptive=True, tolerance=tolerance, backend="numba")
    march = solver.make_stepper(field, dt=1e-6)
    march(field.copy(), 0.0, 1e-6)  # compiles
    cpu, found = time.process_time(), field.copy()
    march(found, 0.0, 1.0)
    return found.data, time.process_time() - cpu


def attempts(run, law, bounds, truth, aim, sizes, steps, is_explicit):
    """Runs of growing sizes, each with finer steps, until the aim is reached, more does not help or takes too long."""
    (low, high), done, best = bounds, [], np.inf
    for n in sizes:
        x, last, seconds = low + (high - low) * (np.arange(n) + is_explicit / 2) / n, np.inf, 0.0  # py-pde: cells
        wanted = truth(x)
        for step in steps:
            try:
                values, seconds = run(law, x, high - low, step)
            except RuntimeError:  # py-pde: its step fell below 1e-10
                break
            error = float(np.linalg.norm(values - wanted) / np.linalg.norm(wanted))
            done += [Attempt(error, seconds, n, step)] if np.isfinite(error) else []
            if error <= aim or seconds > PATIENCE or error > 0.7 * last:  # the last: what is left is the error in space
                break
            last = min(last, error) if np.isfinite(error) else np.inf
        least = min((a.error for a in done), default=np.inf)
        # Twice the points take twice the time, explicit steps of an equation of order q 2^(q + 1) times.
        if (
            least <= aim / 10
            or seconds * (2 ** len(law.linear) if is_explicit else 2) > PATIENCE
            or least > 0.7 * best < 1
        ):
            break
        best = least
    return done


STEPS = [2**i for i in range(8, 17)]
RIVALS = {  # how to run it, points, steps or tolerances, whether its steps are explicit
    "exponax": (partial(exponax_run, mended=False), (128, 256, 512, 1024, 2048), STEPS, False),
    "exponax, mended": (partial(exponax_run, mended=True), (128, 256, 512), STEPS, False),
    "py-pde": (py_pde_run, (128, 256, 512, 1024, 2048), (1e-5,), True),
}


def told(found):
    return f"{found.error:.1e} in {found.seconds:.2f} s ({found.points:,} points, {found.steps:g})"


def compare(name, problem, tol):
    """One row for each rival that is installed."""
    law, bounds = LAWS[name], np.asarray(problem.domain.bounds, float)[0]
    flm.solve(problem, 10 * tol, method="march")
    cpu = time.process_time()
    solution = flm.solve(problem, tol, method="march")
    cpu = time.process_time() - cpu
    finer = flm.solve(problem, tol / (10 if law.cubic else 1000), method="march")  # a kink's waves fall slowly
    truth = lambda x: np.asarray(finer(x=x, t=1.0))
    if problem.exact is not None:
        truth = lambda x: np.asarray(problem.exact_values(np.stack([x, np.ones_like(x)], axis=1))).ravel()
    x = np.linspace(*bounds, 512, endpoint=False)
    own = float(np.linalg.norm(solution(x=x, t=1.0) - truth(x)) / np.linalg.norm(truth(x)))
    for rival, (run, sizes, steps, is_explicit) in RIVALS.items():
        if rival.endswith("mended") and not any(law.linear[1::2]):
            continue
        try:
            done = attempts(run, law, bounds, truth, own, sizes, steps, is_explicit)
        except ImportError:
            continue
        cells = []
        for aim in (tol, own):
            good = [a for a in done if a.error <= aim]
            best = min(done, key=lambda a: a.error, default=None)
            found = min(good, key=lambda a: a.seconds, default=None)
            cells.append(told(found) if found else f"not reached: {told(best)}" if best else "not reached")
        print(f"| {name} | {tol:.0e} | {own:.1e} in {cpu:.2f} s | {rival} | {cells[0]} | {cells[1]} |", flush=True)
