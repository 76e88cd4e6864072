"""Problems that need trees of pieces, for `honesty.py`: layers, corners, interfaces, fronts, several solutions, none.

The list was written before its first run. True errors are relative L2 at random points.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import flm

SQUARE = flm.Box(x=(0, 1), y=(0, 1))


@dataclass(frozen=True)
class Tree:
    """One problem of the list: its family, maker and tolerance, and whether it has one solution."""

    family: str
    name: str
    make: Callable[[], flm.PDE]
    tol: float
    solvable: bool = True


def _sides(exact, *places):
    return [flm.on(place, lambda u, x, y: u - exact(x, y)) for place in places]


def _polar(x, y):
    return jnp.sqrt(x * x + y * y + 1e-300), jnp.mod(jnp.arctan2(y, x), 2 * jnp.pi)


def checkerboard(ratio: float) -> flm.PDE:
    """Kellogg's r^g m(theta), g = (4/pi) arctan ratio^(-1/2): a = ratio in two opposite quadrants, 1 in the others."""
    g = 4 / np.pi * np.arctan(1 / np.sqrt(ratio))
    b = 1 / np.tan(g * np.pi / 4)
    quarter = jnp.pi / 4

    def exact(x, y):
        r, angle = _polar(x, y)
        parts = [
            jnp.cos(g * (angle - quarter)),
            -b * jnp.sin(g * (angle - 3 * quarter)),
            -jnp.cos(g * (angle - 5 * quarter)),
            b * jnp.sin(g * (angle - 7 * quarter)),
        ]
        return r**g * jnp.choose(jnp.clip(jnp.floor(angle / (2 * quarter)).astype(int), 0, 3), parts, mode="clip")

    a = flm.Piecewise(1.0, {flm.Box(x=(0, 1), y=(0, 1)): ratio, flm.Box(x=(-1, 0), y=(-1, 0)): ratio})
    return flm.PDE(
        flm.Box(x=(-1, 1), y=(-1, 1)),
        lambda a, u_xx, u_yy: a * (u_xx + u_yy),
        _sides(exact, "boundary"),
        parameters={"a": a},
        flux=lambda a, u_n: a * u_n,
        exact=exact,
    )


def interface(ratio: float, at: float = 0.5) -> flm.PDE:
    """A straight interface: u = f(x) cos 2y, f = exp(x - s) to its left and 1 + sin(x - s)/ratio to its right."""
    shape = lambda x: jnp.where(x < at, jnp.exp(x - at), 1 + jnp.sin(x - at) / ratio)
    exact = lambda x, y: shape(x) * jnp.cos(2 * y)

    def source(x, y):
        left = -3 * jnp.exp(x - at)
        right = -jnp.sin(x - at) - 4 * ratio * (1 + jnp.sin(x - at) / ratio)
        return jnp.where(x < at, left, right) * jnp.cos(2 * y)

    return flm.PDE(
        SQUARE,
        lambda a, u_xx, u_yy, x, y: a * (u_xx + u_yy) - source(x, y),
        _sides(exact, "boundary"),
        parameters={"a": flm.Piecewise(1.0, {flm.Box(x=(at, 1)): ratio})},
        flux=lambda a, u_n: a * u_n,
        exact=exact,
    )


def mixed(at: float) -> flm.PDE:
    """r^(1/2) sin(theta/2): zero to the right of x = at on the lower side, insulated to its left."""

    def exact(x, y):
        r, angle = _polar(x - at, y)
        return jnp.sqrt(r) * jnp.sin(angle / 2)

    low = [flm.dirichlet("y=0", where=lambda x: x >= at), flm.neumann("y=0", where=lambda x: x < at)]
    domain = flm.Box(x=(-1, 1), y=(0, 1))
    laplace = lambda u_xx, u_yy: u_xx + u_yy
    return flm.PDE(domain, laplace, [*low, *_sides(exact, "x=-1", "x=1", "y=1")], exact=exact)


def power(g: float) -> flm.PDE:
    """r^g sin(g theta) on a square: not smooth at its corner, where the left side carries the values."""

    def exact(x, y):
        r, angle = _polar(x, y)
        return r**g * jnp.sin(g * angle)

    return flm.PDE(SQUARE, lambda u_xx, u_yy: u_xx + u_yy, _sides(exact, "boundary"), exact=exact)


def meeting_values() -> flm.PDE:
    """Values 0 and 1 meet in a corner: u = 2 theta/pi."""
    exact = lambda x, y: 2 / jnp.pi * jnp.arctan2(y, x)
    fixed = [flm.dirichlet("y=0", 0.0), flm.dirichlet("x=0", 1.0)]
    return flm.PDE(SQUARE, lambda u_xx, u_yy: u_xx + u_yy, [*fixed, *_sides(exact, "x=1", "y=1")], exact=exact)


def l_shape() -> flm.PDE:
    """r^(2/3) sin(2 theta/3) on three quarters of a square."""

    def exact(x, y):
        r, angle = _polar(x, y)
        return r ** (2 / 3) * jnp.sin(2 * angle / 3)

    domain = flm.Box(x=(-1, 1), y=(-1, 1)) - flm.Box(x=(0, 1), y=(-1, 0))
    return flm.PDE(domain, lambda u_xx, u_yy: u_xx + u_yy, _sides(exact, "boundary"), exact=exact)


def _manufactured(exact) -> flm.PDE:
    second = lambda i: jax.vmap(jax.grad(jax.grad(exact, i), i))
    source = lambda x, y: second(0)(x, y) + second(1)(x, y)
    return flm.PDE(SQUARE, lambda u_xx, u_yy, x, y: u_xx + u_yy - source(x, y), _sides(exact, "boundary"), exact=exact)


def front(width: float, slope: float = 1.0) -> flm.PDE:
    """tanh((slope x + y - 1)/width), a front that follows no axis."""
    return _manufactured(lambda x, y: jnp.tanh((slope * x + y - 1) / width))


def circle(width: float) -> flm.PDE:
    """A circular front."""
    return _manufactured(lambda x, y: jnp.tanh((jnp.sqrt((x + 0.1) ** 2 + (y + 0.1) ** 2) - 0.7) / width))


def _line(equation, ends, exact=None, **options) -> flm.PDE:
    return flm.PDE(flm.Box(x=(0, 1)), equation, ends, exact=exact, **options)


def turning(epsilon: float) -> flm.PDE:
    """-eps u'' + u = 0 from 1 to 1: layers at both ends."""
    e = np.sqrt(epsilon)
    exact = lambda x: (jnp.exp(-x / e) + jnp.exp((x - 1) / e)) / (1 + np.exp(-1 / e))
    ends = [flm.dirichlet("x=0", 1.0), flm.dirichlet("x=1", 1.0)]
    return _line(lambda u, u_xx: u - epsilon * u_xx, ends, exact)


def root(g: float) -> flm.PDE:
    """x^g on a line: its second derivative is not bounded."""
    ends = [flm.dirichlet("x=0"), flm.dirichlet("x=1", 1.0)]
    return _line(lambda u_xx, x: u_xx - g * (g - 1) * x ** (g - 2), ends, lambda x: x**g)


def slabs(ratio: float) -> flm.PDE:
    """-(a u')' = 1 over three materials."""
    cuts, values = (0.0, 0.3, 0.7, 1.0), (1.0, ratio, 1.0)
    whole = [(b - a) / v for a, b, v in zip(cuts, cuts[1:], values, strict=False)]
    first = [(b * b - a * a) / 2 / v for a, b, v in zip(cuts, cuts[1:], values, strict=False)]
    c = sum(first) / sum(whole)

    def exact(x):
        total = 0.0
        for a, b, v in zip(cuts, cuts[1:], values, strict=False):
            to = jnp.clip(x, a, b)
            total = total + (c * (to - a) - (to**2 - a**2) / 2) / v
        return total

    a = flm.Piecewise(1.0, {flm.Box(x=(0.3, 0.7)): ratio})
    ends = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]
    return _line(lambda a, u_xx: a * u_xx + 1, ends, exact, parameters={"a": a}, flux=lambda a, u_n: a * u_n)


def bratu(strength: float) -> flm.PDE:
    """u'' + strength e^u = 0: two solutions below 3.51, none above."""
    return _line(lambda u, u_xx: u_xx + strength * jnp.exp(u), [flm.dirichlet("x=0"), flm.dirichlet("x=1")])


def double_well(epsilon: float) -> flm.PDE:
    """eps u'' = u^3 - u from -1 to 1: u = tanh((x - 1/2)/sqrt(2 eps)) nearly, with its own values at the ends."""
    exact = lambda x: jnp.tanh((x - 0.5) / np.sqrt(2 * epsilon))
    ends = [flm.dirichlet("x=0", float(exact(0.0))), flm.dirichlet("x=1", float(exact(1.0)))]
    return _line(lambda u, u_xx: epsilon * u_xx - u**3 + u, ends, exact)


def two_values() -> flm.PDE:
    """Two values on one side."""
    sides = [flm.dirichlet(s) for s in ("x=0", "x=1", "y=0", "y=1")]
    return flm.PDE(SQUARE, lambda u_xx, u_yy: u_xx + u_yy + 1, [*sides, flm.dirichlet("x=0", 1.0)])


def unbalanced() -> flm.PDE:
    """A source inside insulated walls."""
    sides = [flm.neumann(s) for s in ("x=0", "x=1", "y=0", "y=1")]
    return flm.PDE(SQUARE, lambda u_xx, u_yy: u_xx + u_yy + 1, sides)


def one_too_many() -> flm.PDE:
    """Two equations for one unknown."""
    sides = [flm.dirichlet(s) for s in ("x=0", "x=1", "y=0", "y=1")]
    return flm.PDE(SQUARE, [lambda u_xx, u_yy: u_xx + u_yy + 1, lambda u_x, u_y: u_x - u_y - 1], sides)


LAYER = flm.problems.convection_diffusion
LIST = (
    *(Tree("layers", f"layer {e:g}", partial(LAYER, epsilon=e), t) for e in (0.05, 5e-3, 5e-4) for t in (1e-4, 1e-9)),
    *(Tree("layers", f"two layers {e:g}", partial(turning, e), t) for e in (1e-3, 1e-6) for t in (1e-5, 1e-10)),
    *(Tree("corners", f"r^{g:g}", partial(power, g), t) for g in (0.3, 0.6, 0.9, 1.5) for t in (1e-3, 1e-5)),
    *(Tree("corners", f"mixed at {at:g}", partial(mixed, at), t) for at in (0.0, 1 / 3) for t in (1e-3, 1e-5)),
    *(Tree("corners", "meeting values", meeting_values, t) for t in (1e-3, 1e-6)),
    *(Tree("corners", f"x^{g:g}", partial(root, g), 1e-4) for g in (0.7, 1.3, 2.5)),
    *(Tree("interfaces", f"interface {r:g}", partial(interface, r, 1 / 3), 1e-7) for r in (0.01, 3.0, 1e4)),
    *(Tree("interfaces", f"three materials {r:g}", partial(slabs, r), 1e-8) for r in (1e-3, 1e3)),
    *(Tree("interfaces", f"checkerboard {r:g}", partial(checkerboard, r), t)
      for r, t in ((1.1, 1e-5), (3.0, 1e-3), (3.0, 1e-5), (20.0, 1e-3), (50.0, 1e-2))),
    *(Tree("fronts", f"front {w:g}", partial(front, w, s), 1e-5) for w in (0.2, 0.06) for s in (1.0, 0.4)),
    *(Tree("fronts", f"circle {w:g}", partial(circle, w), 1e-5) for w in (0.2, 0.06)),
    *(Tree("nonlinear", f"double well {e:g}", partial(double_well, e), 1e-6) for e in (0.01, 1e-3)),
    *(Tree("no solution", f"Bratu {s:g}", partial(bratu, s), 1e-6, False) for s in (4.0, 8.0)),
    *(Tree("no solution", make.__name__.replace("_", " "), make, 1e-5, False)
      for make in (two_values, unbalanced, one_too_many)),
)  # fmt: skip


def run(index: int) -> dict:
    """Solve one problem; a record of how it went."""
    case = LIST[index]
    problem = case.make()
    cpu = time.process_time()
    solution = flm.solve(problem, case.tol, method="pieces")
    cpu = time.process_time() - cpu
    error = None
    if case.solvable:
        points = problem.domain.interior(20_000, seed=3, warp=False)
        exact = problem.exact_values(points)
        error = float(np.linalg.norm(np.asarray(solution.model(points)) - exact) / np.linalg.norm(exact))
    return {
        "family": f"tree: {case.family}",
        "name": case.name,
        "tol": case.tol,
        "status": solution.status.word,
        "estimate": solution.error_estimate,
        "error": error,
        "columns": solution.num_columns,
        "cpu": round(cpu, 2),
    }
