"""Manufactured problems without a smooth solution: derivatives or values that do not match, and data that contradict.

Exact solutions are sine series summed far beyond the accuracy asked for.
"""

import jax.numpy as jnp
import numpy as np

import flm

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
