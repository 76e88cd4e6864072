"""Problems on regions for `honesty.py`, with the exact answer or the certainty that there is none.

Half of the solutions extend smoothly beyond their region; the others are shaped by it: logarithms in holes, plane waves, steep
bumps next to a boundary. Regions are disks, rings, ellipses, polygons, curves, level sets, booleans and balls. Corners at loose
tolerances guard a repair: answers were taken for solved before their errors fell.
"""

import jax
import jax.numpy as jnp
import numpy as np
from honesty_problems import Family
from honesty_rough import between, checkerboard, l_shape, mixed

import flm


def region(rng):
    """A planar region of some kind, and the name of its kind."""
    kind, r, a = rng.integers(8), float(rng.uniform(0.5, 1.3)), float(rng.uniform(0.1, 0.35))
    disk = flm.Disk(x=float(rng.normal() / 4), y=float(rng.normal() / 4), radius=r)
    center = dict(zip("xy", disk.origin, strict=True))
    if kind == 0:
        return disk
    if kind == 1:
        return disk - flm.Disk(**center, radius=a * r)
    if kind == 2:
        return flm.Ellipse(**center, a=r, b=r * float(rng.uniform(0.4, 0.9)))
    if kind == 3:
        angles = np.sort(rng.uniform(0, 1, 4)) + np.arange(4) * 1.4
        return flm.Polygon(x=list(r * np.cos(angles)), y=list(r * np.sin(angles)))
    if kind == 4:
        waves = int(rng.integers(2, 6))
        radius = lambda s: r * (1 + a / 2 * jnp.cos(waves * s))
        return flm.Curve(lambda s: (radius(s) * jnp.cos(s), radius(s) * jnp.sin(s)))
    if kind == 5:
        level = lambda x, y: (x / r) ** 4 + (y / r) ** 2 + a * x * y / r**2 - 1
        return flm.Region(level, bounds=flm.Box(x=(-1.6 * r, 1.6 * r), y=(-1.6 * r, 1.6 * r)))
    if kind == 6:
        return flm.Box(x=(-r, r), y=(-1, 1)) - flm.Disk(x=r / 2, y=0.3, radius=a) - flm.Disk(x=-r / 2, y=-0.2, radius=a)
    return flm.Box(x=(-r, r), y=(-0.5, 0.5)) | flm.Disk(x=r, y=0, radius=0.4)


def planar(rng):
    """A second-order equation with a random solution on a random region."""
    domain, k, c = region(rng), rng.uniform(0.5, 4, 2), rng.normal(size=3)
    source = np.array(domain.bounds[:, 1]) + rng.uniform(0.3, 1.0, 2)  # outside, not far

    def u(x, y):
        away = (x - source[0]) ** 2 + (y - source[1]) ** 2
        return jnp.cos(k[0] * x + k[1] * y) + c[0] * x * y + c[1] * jnp.log(away)

    exact = u
    reaction, cubic = float(rng.uniform(-1, 3)), float(rng.integers(2))
    gradient = [jax.vmap(jax.grad(u, j)) for j in (0, 1)]
    second = [jax.vmap(jax.grad(jax.grad(u, j), j)) for j in (0, 1)]
    right = lambda x, y: second[0](x, y) + second[1](x, y) - reaction * exact(x, y) - cubic * exact(x, y) ** 3
    equation = lambda x, y, u, u_xx, u_yy: u_xx + u_yy - reaction * u - cubic * u**3 - right(x, y)
    if rng.integers(3) == 0:
        flow = lambda x, y, nx, ny: nx * gradient[0](x, y) + ny * gradient[1](x, y)
        ends = [flm.on("boundary", lambda x, y, nx, ny, u, u_n: u_n + 2 * u - flow(x, y, nx, ny) - 2 * exact(x, y))]
    else:
        ends = [flm.dirichlet("boundary", u)]
    return flm.PDE(domain, equation, ends, exact=u)


def ring(rng):
    """A logarithm and a dipole inside the hole: shaped by the region."""
    a, shift = float(rng.uniform(0.2, 0.45)), rng.uniform(-0.05, 0.05, 2)
    outer, hole = flm.Disk(x=0, y=0, radius=1), flm.Disk(x=float(shift[0]), y=float(shift[1]), radius=a)
    d = rng.normal(size=2) * a

    def u(x, y):
        square = (x - shift[0]) ** 2 + (y - shift[1]) ** 2
        return jnp.log(square) + (d[0] * (x - shift[0]) + d[1] * (y - shift[1])) / square

    return flm.PDE(outer - hole, lambda u_xx, u_yy: u_xx + u_yy, [flm.dirichlet("boundary", u)], exact=u)


def spatial(rng):
    """Poisson's equation in a ball, or in what a plane leaves of it."""
    k = rng.uniform(0.5, 1.5, 3)
    exact = lambda x, y, z: jnp.exp(k[0] * x) * jnp.sin(k[1] * y + 0.5) * jnp.cos(k[2] * z)
    factor = float(k[0] ** 2 - k[1] ** 2 - k[2] ** 2)
    ball = flm.Ball(x=0, y=0, z=0, radius=float(rng.uniform(0.6, 1.1)))
    domain = ball & flm.Box(x=(-2, 0.3), y=(-2, 2), z=(-2, 2)) if rng.integers(2) else ball
    equation = lambda x, y, z, u_xx, u_yy, u_zz: u_xx + u_yy + u_zz - factor * exact(x, y, z)
    return flm.PDE(domain, equation, [flm.dirichlet("boundary", exact)], exact=exact)


def unbalanced(rng, tol):
    """Data on a region that no function satisfies, by a thousand tolerances or more."""
    size, disk = 10.0 ** rng.uniform(np.log10(1000 * tol), 0.3), flm.Disk(x=0, y=0, radius=1)
    if rng.integers(2):
        return flm.PDE(disk, lambda u_xx, u_yy, x: u_xx + u_yy - size - x, [flm.neumann("boundary")])
    ends = [flm.dirichlet(disk, lambda x, y: x * y + size), flm.dirichlet(disk, lambda x, y: x * y)]
    return flm.PDE(disk, lambda u_xx, u_yy: u_xx + u_yy, ends)


def wedge(turns: float) -> flm.PDE:
    """r^g sin(g theta), g = 1/(2 turns), in a polygon with a re-entrant corner of so many turns."""
    g, angles = 0.5 / turns, np.linspace(0, 2 * np.pi * turns, 7)

    def u(x, y):
        angle = jnp.mod(jnp.arctan2(y, x) + 1e-9, 2 * jnp.pi) - 1e-9  # the first side is at angle zero
        return (x * x + y * y + 1e-300) ** (g / 2) * jnp.sin(g * angle)

    domain = flm.Polygon(x=[0, *np.cos(angles)], y=[0, *np.sin(angles)])
    return flm.PDE(domain, lambda u_xx, u_yy: u_xx + u_yy, [flm.dirichlet("boundary", u)], exact=u)


def loose(rng):
    """An L, a wedge, a side that changes its kind, or a checkerboard."""
    kind = rng.integers(4)
    if kind == 0:
        return l_shape(*map(float, rng.choice([1.0, rng.uniform(0.4, 1.6)], 2)))
    if kind == 1:
        return wedge(float(rng.uniform(0.51, 0.97)))
    return mixed(float(rng.uniform(-0.7, 0.7))) if kind == 2 else checkerboard(between(rng, 1.2, 30.0))


FAMILIES = (
    Family("regions", 18, planar, 2025, 227),
    Family("holes", 5, ring, 2025, 245),
    Family("balls", 4, spatial, 2025, 250),
    Family("inconsistent, regions", 4, unbalanced, 2025, 254, solvable=False),
    Family("regions, again", 8, planar, 2027, 200),
    Family("corners, loose tolerances", 16, loose, 2028, 700, (3e-2, 1e-2, 3e-3), scattered=True),
)
