"""Problems whose solutions are not smooth, and data that no function satisfies, for `honesty.py` and `pieces.py`.

Layers, corners, interfaces and fronts have closed forms; rough starts are sine series summed far beyond the accuracy asked for.
"""

import jax
import jax.numpy as jnp
import numpy as np
from honesty_problems import Family

import flm

SQUARE = flm.Box(x=(0, 1), y=(0, 1))
TERMS = np.arange(1, 1200)


def sine_heat(coefficients, rate):
    """sum_n b_n sin(n pi x) exp(-rate (n pi)^2 t)."""
    n = jnp.asarray(TERMS * np.pi)
    return lambda x, t: jnp.sum(
        coefficients[:, None] * jnp.sin(n[:, None] * x) * jnp.exp(-rate * n[:, None] ** 2 * t), axis=0
    )


def rough(rng):
    """A kink at the start, ends that should be still while the rod heats, a square's corners, or a small jump."""
    kind, rate = rng.integers(4), rng.uniform(0.05, 0.5)
    n = TERMS * np.pi
    if kind == 0:  # a triangle with its top at c
        c = rng.uniform(0.3, 0.7)
        exact = sine_heat(2 * np.sin(n * c) / (n**2 * c * (1 - c)), rate)
        return heat(rate, lambda x: jnp.where(x < c, x / c, (1 - x) / (1 - c)), 0.0, exact)
    if kind == 1:  # u = steady - what decays
        decaying = sine_heat(2 * (1 - np.cos(n)) / (n**3 * rate), rate)
        exact = lambda x, t: x * (1 - x) / (2 * rate) - decaying(x, t)
        return heat(rate, 0.0, 1.0, exact)
    if kind == 2:  # -Laplacian u = 1 on the unit square
        odd = TERMS[::2] * np.pi
        odd = odd[odd < 700]  # cosh overflows beyond
        weight = jnp.asarray(4 / odd**3 / np.cosh(odd / 2))[:, None]
        part = lambda x, y: jnp.sum(weight * jnp.sin(odd[:, None] * x) * jnp.cosh(odd[:, None] * (y - 0.5)), axis=0)
        exact = lambda x, y: x * (1 - x) / 2 - part(x, y)
        return flm.PDE(
            flm.Box(x=(0, 1), y=(0, 1)),
            lambda u_xx, u_yy: u_xx + u_yy + 1.0,
            [flm.dirichlet("boundary")],
            exact=exact,
        )
    jump = 10.0 ** -rng.uniform(1, 5)  # a step of this size at x = 0, t = 0
    small = sine_heat(jump * 2 / n, rate)  # from 1 - x
    exact = lambda x, t: jnp.sin(jnp.pi * x) * jnp.exp(-rate * jnp.pi**2 * t) + small(x, t)
    return heat(rate, lambda x: jnp.sin(jnp.pi * x) + jump * (1 - x), 0.0, exact)


def heat(rate, start, source, exact):
    """u_t = rate u_xx + source from `start`, zero at both ends."""
    return flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda u_t, u_xx: u_t - rate * u_xx - source,
        [flm.initial(start), flm.dirichlet("x=0"), flm.dirichlet("x=1")],
        exact=exact,
    )


def inconsistent(rng, tol):
    """Data that no function satisfies, by at least a thousand tolerances."""
    kind, size = rng.integers(5), 10.0 ** rng.uniform(np.log10(1000 * tol), 0.3)
    k = rng.uniform(1, 5, 2)
    square = flm.Box(x=(0, 1), y=(0, 1))
    u = lambda x, y: jnp.sin(k[0] * x) * jnp.cosh(k[0] * y) + jnp.exp(k[1] * x / 5) * jnp.cos(k[1] * y / 5)  # harmonic
    laplace = lambda u_xx, u_yy: u_xx + u_yy
    if kind == 0:  # one side that is asked for two values
        off = lambda x, y: u(x, y) + size * (1 + x)
        sides = [flm.dirichlet(f"{a}={v}", u) for a in "xy" for v in (0, 1)]
        return flm.PDE(square, laplace, [*sides, flm.dirichlet("y=1", off)])
    if kind == 1:  # sources inside and outflow that do not balance
        return flm.PDE(
            square, lambda x, y, u_xx, u_yy: u_xx + u_yy + size + jnp.cos(jnp.pi * x), [flm.neumann("boundary")]
        )
    if kind == 2:  # a slope beside values everywhere
        slope = lambda x: size * jnp.cos(x) - k[0] * jnp.sin(k[0] * x)
        sides = [flm.dirichlet(f"{a}={v}", u) for a in "xy" for v in (0, 1)]
        return flm.PDE(square, laplace, [*sides, flm.on("y=0", lambda x, u_y: u_y - slope(x))])
    if kind == 3:  # two initial values
        starts = [flm.initial(lambda x, more=more: jnp.sin(jnp.pi * x) * (1 + more)) for more in (0.0, size)]
        return flm.PDE(
            flm.Box(x=(0, 1), t=(0, 1)),
            lambda u_t, u_xx: u_t - 0.2 * u_xx,
            [*starts, flm.dirichlet("x=0"), flm.dirichlet("x=1")],
        )
    return flm.PDE(  # one equation too many
        square,
        [laplace, lambda x, y, u_x: u_x - k[0] * jnp.cos(k[0] * x) * jnp.cosh(k[0] * y) - size * y],
        [flm.dirichlet("boundary", u)],
    )


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


def meeting_values(low: float) -> flm.PDE:
    """Values `low` and 1 meet in a corner: u = low + (1 - low) 2 theta/pi."""
    exact = lambda x, y: low + (1 - low) * 2 / jnp.pi * jnp.arctan2(y, x)
    fixed = [flm.dirichlet("y=0", low), flm.dirichlet("x=0", 1.0)]
    return flm.PDE(SQUARE, lambda u_xx, u_yy: u_xx + u_yy, [*fixed, *_sides(exact, "x=1", "y=1")], exact=exact)


def l_shape(wide: float = 1.0, tall: float = 1.0) -> flm.PDE:
    """r^(2/3) sin(2 theta/3) on what a quarter leaves of a rectangle."""

    def exact(x, y):
        r, angle = _polar(x, y)
        return r ** (2 / 3) * jnp.sin(2 * angle / 3)

    domain = flm.Box(x=(-1, wide), y=(-1, tall)) - flm.Box(x=(0, wide), y=(-1, 0))
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


def between(rng, low: float, high: float) -> float:
    """A number whose logarithm is even."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def thin(rng) -> flm.PDE:
    """A layer of convection or reaction, down to a thousandth of the domain, or an interior one."""
    kind = rng.integers(3)
    if kind == 0:
        return flm.problems.convection_diffusion(epsilon=between(rng, 1e-4, 0.1))
    return turning(between(rng, 1e-6, 1e-2)) if kind == 1 else double_well(between(rng, 3e-4, 0.02))


def corner(rng) -> flm.PDE:
    """A power of the distance to a corner, a side that changes its kind, values that meet, an L, a root on a line."""
    kind, shape = rng.integers(5), rng.uniform(0.4, 1.5, 2)
    if kind == 0:
        return power(float(rng.uniform(0.3, 1.9)))
    if kind == 1:
        return mixed(float(rng.uniform(-0.6, 0.6)))
    if kind == 2:
        return meeting_values(float(rng.uniform(-1, 0.9)))
    return l_shape(*map(float, shape)) if kind == 3 else root(float(rng.uniform(0.6, 2.8)))


def material(rng) -> flm.PDE:
    """A coefficient that jumps: across a line, twice, or in a checkerboard."""
    kind = rng.integers(3)
    if kind == 0:
        return interface(between(rng, 1e-3, 1e4), float(rng.uniform(0.2, 0.8)))
    return slabs(between(rng, 1e-4, 1e4)) if kind == 1 else checkerboard(between(rng, 1.1, 20.0))


def oblique(rng) -> flm.PDE:
    """A front that follows no axis."""
    width = between(rng, 0.05, 0.3)
    return circle(width) if rng.integers(2) else front(width, float(rng.uniform(0.2, 2.0)))


SINGULAR = (1e-3, 1e-4, 1e-5)
FAMILIES = (
    Family("not smooth", 12, rough, 2025, 175, scattered=True),  # a jump at a corner is no area of a grid
    Family("inconsistent", 13, inconsistent, 2025, 187, solvable=False),
    Family("thin layers", 14, thin, 2027, 600, scattered=True),
    Family("corners", 20, corner, 2027, 620, SINGULAR, scattered=True),
    Family("interfaces", 12, material, 2027, 640, SINGULAR, scattered=True),
    Family("fronts", 6, oblique, 2027, 660, (1e-4, 1e-6), scattered=True),
    Family("inconsistent, again", 12, inconsistent, 2027, 670, solvable=False),
    Family("no solution", 3, lambda rng, _: bratu(float(rng.uniform(3.6, 9))), 2027, 690, solvable=False),
)
