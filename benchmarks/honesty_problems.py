"""Smooth manufactured problems from seeds, and what a family of problems is.

Solutions are random smooth functions; equations are made to fit them. The families differ in what makes an error estimate
hard: many axes, nonlinearity, layers, operators close to a resonance.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import flm

TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-9)


class Family(NamedTuple):
    """Problems that are alike, each made from a seed of its own; `solvable` says whether anything satisfies their data.

    The list of 2025 has the problems of the first versions, on which rules of the solver were changed. Those of 2026 (evolution)
    and 2027 were written before any of their problems was run.
    """

    name: str
    count: int
    make: Callable[..., flm.PDE]  # of a random generator, and of the tolerance where nothing satisfies the data
    year: int  # of the list
    first: int  # the seeds are (year, first), (year, first + 1), ...
    tolerances: tuple[float, ...] = TOLERANCES
    solvable: bool = True
    scattered: bool = False  # compared at random points: singular ones are no points of a grid

    def problem(self, number: int) -> tuple[flm.PDE, float]:
        """The problem of that number, the same every time, and its tolerance."""
        seed = self.first + number
        rng, tol = np.random.default_rng([self.year, seed]), self.tolerances[seed % len(self.tolerances)]
        return (self.make(rng) if self.solvable else self.make(rng, tol)), tol


def smooth(rng, axes, bounds):
    """A random smooth function of the axes with features a fraction of the domain wide."""
    m, low, width = len(axes), bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    reach = {1: 9.0, 2: 7.0, 3: 2.5}[m]
    wave, tilt = rng.uniform(0.5, reach, (2, m)), rng.normal(size=m)
    amplitude, phase, center = rng.normal(size=3), rng.uniform(0, 6, 2), rng.uniform(0.2, 0.8, m)
    kind = rng.integers(6)

    def u(*x):
        z = jnp.stack([(v - a) / w for v, a, w in zip(x, low, width, strict=True)])
        if kind == 0:
            bump = jnp.exp(-reach / 2 * jnp.sum((z - center) ** 2))
            return jnp.sin(z @ wave[0] + phase[0]) + amplitude[0] * bump
        if kind == 1:
            return 1 / (1 + jnp.sum(wave[0] * (z - center) ** 2)) + amplitude[0] * jnp.prod(z)
        if kind == 2:
            return jnp.exp(z @ tilt) * jnp.cos(wave[0, 0] * jnp.prod(z) + phase[0])
        if kind == 3:
            return jnp.tanh(z @ tilt + wave[0, 0] * (z[0] - 0.5)) + amplitude[0]
        if kind == 4:
            return jnp.sqrt(1.2 + z[0] + z[-1] ** 2) * jnp.sin(wave[0, 0] * z[0]) + jnp.cos(wave[1, -1] * z[-1])
        return jnp.sum(jnp.sin(wave[0] * z + phase[0])) + amplitude[1] * jnp.prod(jnp.cos(wave[1] * z + phase[1]))

    return u


def box(rng, *axes):
    """A box somewhere, of some size."""
    return flm.Box(**{a: (low, low + rng.uniform(0.5, 2.0)) for a, low in zip(axes, rng.normal(size=9), strict=False)})


def elementwise(f):
    """A function of scalars as a function of arrays."""
    return lambda *x: jax.vmap(f)(*x)


def derivative(u, *orders):
    """The derivative of a function of scalars, one axis number per order."""
    for axis in orders:
        u = jax.grad(u, axis)
    return elementwise(u)


# A condition's arguments name what it needs.
NAMED = {
    ("x",): lambda f: lambda x: f(x),
    ("x", "y"): lambda f: lambda x, y: f(x, y),
    ("x", "t"): lambda f: lambda x, t: f(x, t),
}


def mixed(rng, domain, u, axes, faces):
    """A value, slope or mixture of both on each face; a value on the first one."""
    conditions = []
    bounds = dict(zip(domain.axes, domain.bounds, strict=True))
    for i, (axis, side) in enumerate((a, s) for a in faces for s in (0, 1)):
        j, sign, value = axes.index(axis), 2 * side - 1, elementwise(u)
        slope = lambda *x, j=j, sign=sign: sign * derivative(u, j)(*x)
        kind = 0 if i == 0 else rng.integers(3)
        place = f"{axis}={float(bounds[axis][side])!r}"
        of = NAMED[axes]
        if kind == 0:
            conditions.append(flm.dirichlet(place, of(value)))
        elif kind == 1:
            conditions.append(flm.neumann(place, of(slope)))
        else:
            both = lambda *x, slope=slope, value=value: value(*x) + 0.5 * slope(*x)
            conditions.append(flm.robin(place, 1.0, 0.5, of(both)))
    return conditions


def ordinary(rng):
    """m = 1: (1 + c x) u'' + a u' + b u, or with u^2 or u u' too."""
    domain = box(rng, "x")
    u = smooth(rng, ("x",), domain.bounds)
    a, b, c = rng.normal(size=3)
    low = float(domain.bounds[0, 0])
    bend = (0.0, 1.0, 0.0)[rng.integers(3)]
    F = lambda x, u, u_x, u_xx: (1 + c**2 * (x - low)) * u_xx + a * u_x + b * u + bend * u * (u_x - u)
    rhs = lambda x: F(x, elementwise(u)(x), derivative(u, 0)(x), derivative(u, 0, 0)(x))
    conditions = mixed(rng, domain, u, ("x",), ("x",))
    return flm.PDE(
        domain,
        lambda x, u, u_x, u_xx: F(x, u, u_x, u_xx) - rhs(x),
        conditions,
        exact=lambda x: elementwise(u)(x),
    )


def elliptic(rng, nonlinear=False, helmholtz=None):
    """m = 2: variable coefficients, convection and reaction; -u^3, u u_x or sin u where nonlinear."""
    domain = box(rng, "x", "y")
    u = smooth(rng, ("x", "y"), domain.bounds)
    a, b, c, d = rng.normal(size=4)
    low = float(domain.bounds[0, 0])
    kind = rng.integers(3) if nonlinear else 3

    def F(x, y, u, u_x, u_y, u_xx, u_yy):
        if helmholtz is not None:
            return u_xx + u_yy + helmholtz * u
        plain = (1 + a**2 * (x - low)) * u_xx + (0.3 + b**2) * u_yy + c * u_x + d * u_y
        return plain + (-(u**3), 2 * u * u_x, 3 * jnp.sin(u), -(d**2) * u)[kind]

    v = lambda *orders: derivative(u, *orders)
    rhs = lambda x, y: F(x, y, *(v(*o)(x, y) for o in ((), (0,), (1,), (0, 0), (1, 1))))
    conditions = (
        [flm.dirichlet("boundary", lambda x, y: elementwise(u)(x, y))]
        if rng.random() < 0.5
        else mixed(rng, domain, u, ("x", "y"), ("x", "y"))
    )
    return flm.PDE(
        domain,
        lambda x, y, u, u_x, u_y, u_xx, u_yy: F(x, y, u, u_x, u_y, u_xx, u_yy) - rhs(x, y),
        conditions,
        exact=lambda x, y: elementwise(u)(x, y),
    )


def evolution(rng, nonlinear=False):
    """x and t: diffusion with drift, transport, or waves; u u_x or u - u^3 where nonlinear."""
    domain = box(rng, "x", "t")
    u = smooth(rng, ("x", "t"), domain.bounds)
    nu, speed, rate = rng.uniform(0.05, 1.0), rng.normal(), rng.normal()
    kind, start = rng.integers(3), float(domain.bounds[1, 0])

    def F(u, u_t, u_x, u_xx, u_tt):
        more = (u * u_x, u**3 - u)[kind % 2] if nonlinear else rate * u
        if kind == 0:
            return u_t - nu * u_xx + speed * u_x + more
        if kind == 1:
            return u_tt - (0.3 + nu) * u_xx + more
        return u_t - nu * u_xx + more

    v = lambda *orders: derivative(u, *orders)
    rhs = lambda x, t: F(*(v(*o)(x, t) for o in ((), (1,), (0,), (0, 0), (1, 1))))
    at_start = lambda f: lambda x: f(x, jnp.full_like(x, start))
    velocity = at_start(v(1)) if kind == 1 else None
    conditions = [flm.initial(at_start(v()), velocity=velocity), *mixed(rng, domain, u, ("x", "t"), ("x",))]
    if kind == 1:
        equation = lambda x, t, u, u_t, u_x, u_xx, u_tt: F(u, u_t, u_x, u_xx, u_tt) - rhs(x, t)
    else:
        equation = lambda x, t, u, u_t, u_x, u_xx: F(u, u_t, u_x, u_xx, 0.0) - rhs(x, t)
    return flm.PDE(domain, equation, conditions, exact=lambda x, t: v()(x, t))


def spatial(rng):
    """m = 3: elliptic, or heat in a rectangle; with -u^3 in a third of the cases."""
    time, cubic = rng.random() < 0.5, rng.random() < 0.33
    axes = ("x", "y", "t") if time else ("x", "y", "z")
    domain = box(rng, *axes)
    u = smooth(rng, axes, domain.bounds)
    nu, rate, start = rng.uniform(0.2, 1.0), rng.normal(), float(domain.bounds[2, 0])

    def F(u, u_x, last, u_xx, u_yy):
        more = -(u**3) if cubic else rate * u
        return (last - nu * (u_xx + u_yy) + u_x - more) if time else (nu * u_xx + u_yy + last + u_x + more)

    v = lambda *orders: derivative(u, *orders)
    jets = ((), (0,), (2,) if time else (2, 2), (0, 0), (1, 1))
    rhs = lambda *x: F(*(v(*o)(*x) for o in jets))
    exact = (lambda x, y, t: v()(x, y, t)) if time else (lambda x, y, z: v()(x, y, z))
    if not time:
        equation = lambda x, y, z, u, u_x, u_zz, u_xx, u_yy: F(u, u_x, u_zz, u_xx, u_yy) - rhs(x, y, z)
        return flm.PDE(domain, equation, [flm.dirichlet("boundary", exact)], exact=exact)
    equation = lambda x, y, t, u, u_x, u_t, u_xx, u_yy: F(u, u_x, u_t, u_xx, u_yy) - rhs(x, y, t)
    sides = [flm.dirichlet(f"{a}={s}", exact) for a in "xy" for s in ("min", "max")]
    first = flm.initial(lambda x, y: v()(x, y, jnp.full_like(x, start)))
    return flm.PDE(domain, equation, [first, *sides], exact=exact)


def layer(rng):
    """A boundary layer of convection, of reaction, or an interior one, between 1/30 and 1/5 of the domain wide."""
    width, kind, plane = np.exp(rng.uniform(np.log(0.03), np.log(0.2))), rng.integers(3), rng.random() < 0.5
    if kind == 0:  # -e u'' + u' = 0
        profile = lambda x: jnp.expm1((x - 1) / width) / jnp.expm1(-1 / width)
        F = lambda u, u_x, u_xx: -width * u_xx + u_x
    elif kind == 1:  # e^2 u'' = u
        profile = lambda x: jnp.exp(-x / width) + 0.5 * jnp.exp((x - 1) / width)
        F = lambda u, u_x, u_xx: width**2 * u_xx - u
    else:
        profile = lambda x: jnp.tanh((x - 0.4) / width)
        F = lambda u, u_x, u_xx: width * u_xx + 2 * u * u_x
    across = lambda y: jnp.cos(1.3 * y) + 0.2 * y
    u = (lambda x, y: profile(x) * across(y)) if plane else profile
    v = lambda *orders: derivative(u, *orders)
    if not plane:
        rhs = lambda x: F(v()(x), v(0)(x), v(0, 0)(x))
        return flm.PDE(
            flm.Box(x=(0, 1)),
            lambda x, u, u_x, u_xx: F(u, u_x, u_xx) - rhs(x),
            [flm.dirichlet("boundary", lambda x: v()(x))],
            exact=lambda x: v()(x),
        )
    rhs = lambda x, y: F(v()(x, y), v(0)(x, y), v(0, 0)(x, y)) + width * v(1, 1)(x, y)
    return flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1)),
        lambda x, y, u, u_x, u_xx, u_yy: F(u, u_x, u_xx) + width * u_yy - rhs(x, y),
        [flm.dirichlet("boundary", lambda x, y: v()(x, y))],
        exact=lambda x, y: v()(x, y),
    )


def resonance(rng):
    """Helmholtz' equation whose k^2 is between a tenth and a millionth away from an eigenvalue."""
    p, q = rng.integers(1, 5, 2)
    off = 1 + rng.choice([-1, 1]) * 10.0 ** -rng.uniform(1, 6)
    a, wave, tilt = rng.normal(size=2), rng.uniform(1, 6, 2), rng.normal(size=2)
    if rng.random() < 0.4:
        k2 = (np.pi * p) ** 2 * off
        u = lambda x: jnp.exp(tilt[0] * x) * jnp.cos(wave[0] * x + a[0])
        rhs = lambda x: derivative(u, 0, 0)(x) + k2 * elementwise(u)(x)
        return flm.PDE(
            flm.Box(x=(0, 1)),
            lambda x, u, u_xx: u_xx + k2 * u - rhs(x),
            [flm.dirichlet("boundary", lambda x: elementwise(u)(x))],
            exact=lambda x: elementwise(u)(x),
        )
    k2 = np.pi**2 * float(p**2 + q**2) * off
    u = lambda x, y: jnp.exp(tilt[0] * x + tilt[1] * y) + a[0] * jnp.sin(wave[0] * x + wave[1] * y + a[1])
    rhs = lambda x, y: derivative(u, 0, 0)(x, y) + derivative(u, 1, 1)(x, y) + k2 * elementwise(u)(x, y)
    return flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1)),
        lambda x, y, u, u_xx, u_yy: u_xx + u_yy + k2 * u - rhs(x, y),
        [flm.dirichlet("boundary", lambda x, y: elementwise(u)(x, y))],
        exact=lambda x, y: elementwise(u)(x, y),
    )


nonlinear_elliptic = lambda rng: elliptic(rng, nonlinear=True)
FAMILIES = (
    Family("ordinary, m = 1", 25, ordinary, 2025, 0),
    Family("elliptic, m = 2", 30, elliptic, 2025, 25),
    Family("nonlinear elliptic", 25, nonlinear_elliptic, 2025, 55),
    Family("evolution", 25, evolution, 2025, 80),
    Family("nonlinear evolution", 15, lambda rng: evolution(rng, nonlinear=True), 2025, 105),
    Family("m = 3", 15, spatial, 2025, 120),
    Family("layers", 20, layer, 2025, 135),
    Family("near resonance", 20, resonance, 2025, 155),
    Family("ordinary, again", 15, ordinary, 2027, 0),
    Family("nonlinear elliptic, again", 10, nonlinear_elliptic, 2027, 100),
)
