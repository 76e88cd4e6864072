"""Problems that others posed: ten tasks of the PINNacle benchmark and three classics of its literature.

Their equations are taken from the literature. Only problems with a closed-form solution have an exact solution here;
`benchmarks/strangers.py` has independent references for the rest.
"""

import jax.numpy as jnp
import numpy as np

from flm.domains import AbstractDomain, Box, Disk
from flm.pde.conditions import dirichlet, initial, on, periodic
from flm.pde.problem import PDE

sin, cos, exp, pi = jnp.sin, jnp.cos, jnp.exp, np.pi
SIDES = ("x=0", "x=1", "y=0", "y=1")  # of the unit square


def allen_cahn_periodic(diffusivity: float = 1e-4) -> PDE:
    """Allen and Cahn's equation u_t = d u_xx + 5 u - 5 u^3 on a ring, from x^2 cos(pi x), which has a kink at x = 1."""
    equation = lambda u, u_t, u_xx, d: u_t - d * u_xx + 5 * u**3 - 5 * u
    conditions = [initial(lambda x: x**2 * cos(pi * x)), periodic("x")]
    return PDE(Box(x=(-1, 1), t=(0, 1)), equation, conditions, parameters={"d": diffusivity})


def korteweg_de_vries(dispersion: float = 0.0025, end: float = 1.0) -> PDE:
    """Korteweg and de Vries' equation u_t + u u_x + d u_xxx = 0 on a ring, from cos(pi x): the start of Zabusky and Kruskal."""
    equation = lambda u, u_t, u_x, u_xxx, d: u_t + u * u_x + d * u_xxx
    conditions = [initial(lambda x: cos(pi * x)), periodic("x")]
    return PDE(Box(x=(-1, 1), t=(0, end)), equation, conditions, parameters={"d": dispersion})


def schroedinger(end: float = pi / 2) -> PDE:
    """Schrödinger's nonlinear equation i h_t + h_xx / 2 + |h|^2 h = 0 on a ring, from 2 / cosh x."""
    equation = lambda h, h_t, h_xx: 1j * h_t + 0.5 * h_xx + abs(h) ** 2 * h
    conditions = [initial(lambda x: 2 / jnp.cosh(x), unknown="h"), periodic("x")]
    return PDE(Box(x=(-5, 5), t=(0, end)), equation, conditions, unknowns=("h",), complex_unknowns=("h",))


def kuramoto_sivashinsky(end: float = 1.0) -> PDE:
    """Kuramoto and Sivashinsky's equation on a ring, as PINNacle scales it; two nearby starts part exponentially."""
    a, b, c = 100 / 16, 100 / 16**2, 100 / 16**4
    equation = lambda u, u_t, u_x, u_xx, u_xxxx: u_t + a * u * u_x + b * u_xx + c * u_xxxx
    conditions = [initial(lambda x: cos(x) * (1 + sin(x))), periodic("x")]
    return PDE(Box(x=(0, 2 * pi), t=(0, end)), equation, conditions)


def gray_scott(end: float = 200.0) -> PDE:
    """Gray and Scott's reaction of two substances on a periodic square; PINNacle states no sides."""
    equations = [
        lambda u, v, u_t, u_xx, u_yy: u_t - 1e-5 * (u_xx + u_yy) - 0.04 * (1 - u) + u * v**2,
        lambda u, v, v_t, v_xx, v_yy: v_t - 5e-6 * (v_xx + v_yy) + 0.1 * v - u * v**2,
    ]
    first = initial(lambda x, y: 1 - exp(-80 * ((x + 0.05) ** 2 + (y + 0.02) ** 2)))
    second = initial(lambda x, y: exp(-80 * ((x - 0.05) ** 2 + (y - 0.02) ** 2)), unknown="v")
    box = Box(x=(-1, 1), y=(-1, 1), t=(0, end))
    return PDE(box, equations, [first, second, periodic("x"), periodic("y")], unknowns=("u", "v"))


def burgers_2d(viscosity: float = 1e-3, end: float = 1.0) -> PDE:
    """Two coupled Burgers equations on a periodic square from a random Fourier field.

    Each start is a sum of a_kl cos(k X + l Y) + b_kl sin(k X + l Y), X = pi x / 2, with k = 0..4 and l = -4..4, normal
    amplitudes, divided by its largest value on a grid of 64 x 64, plus a normal constant. The draw, seeds 0 and 1 rounded
    to three digits, is ours: that of PINNacle's file is not known."""
    equations = [
        lambda u, v, u_t, u_x, u_y, u_xx, u_yy, nu: u_t + u * u_x + v * u_y - nu * (u_xx + u_yy),
        lambda u, v, v_t, v_x, v_y, v_xx, v_yy, nu: v_t + u * v_x + v * v_y - nu * (v_xx + v_yy),
    ]
    conditions = [initial(random_field(0)), initial(random_field(1), unknown="v"), periodic("x"), periodic("y")]
    box = Box(x=(0, 4), y=(0, 4), t=(0, end))
    return PDE(box, equations, conditions, unknowns=("u", "v"), parameters={"nu": viscosity})


def random_field(seed: int):
    """The start of `burgers_2d` with a seed, as a function of x and y."""
    draw = np.random.default_rng(seed)
    k, l = (n.ravel() for n in np.meshgrid(np.arange(5), np.arange(-4, 5), indexing="ij"))
    a, b = draw.normal(size=(2, k.size))

    def waves(x, y, size=1.0):
        angles = (pi / 2 * (i * x + j * y) for i, j in zip(k, l, strict=True))
        amplitudes = zip(np.round(a / size, 3), np.round(b / size, 3), strict=True)
        return sum(ra * cos(at) + rb * sin(at) for at, (ra, rb) in zip(angles, amplitudes, strict=True))

    x, y = np.meshgrid(np.arange(64) / 16, np.arange(64) / 16)
    size, constant = float(np.abs(waves(x, y)).max()), round(draw.normal(), 3)
    return lambda x, y: constant + waves(x, y, size)


def poisson_holes() -> PDE:
    """Laplace's equation on a square with four round holes: 1 on the square's sides, 0 on the holes' (PINNacle's 2d-C)."""
    domain = _holed(0.5, ((-0.3, -0.3, 0.1), (-0.3, 0.3, 0.1), (0.3, -0.3, 0.1), (0.3, 0.3, 0.1)))
    outside = lambda x, y: jnp.where(jnp.maximum(abs(x), abs(y)) > 0.45, 1.0, 0.0)
    return PDE(domain, lambda u_xx, u_yy: u_xx + u_yy, [dirichlet("boundary", outside)])


def poisson_boltzmann() -> PDE:
    """-Δu + 64 u = 10 (17 + x^2 + y^2) sin(pi x) sin(4 pi y) on a square with four round holes (PINNacle's 2d-CG)."""
    domain = _holed(1.0, ((0.5, 0.5, 0.2), (0.4, -0.4, 0.4), (-0.2, -0.7, 0.1), (-0.6, 0.5, 0.3)))
    outside = lambda x, y: jnp.where(jnp.maximum(abs(x), abs(y)) > 0.95, 0.2, 1.0)
    load = lambda x, y: 10 * (17 + x**2 + y**2) * sin(pi * x) * sin(4 * pi * y)
    equation = lambda x, y, u, u_xx, u_yy: -u_xx - u_yy + 64 * u - load(x, y)
    return PDE(domain, equation, [dirichlet("boundary", outside)])


def _holed(half: float, holes: tuple[tuple[float, float, float], ...]) -> AbstractDomain:
    """A square about the origin without some disks, each by its center and its radius."""
    domain = Box(x=(-half, half), y=(-half, half))
    for x, y, radius in holes:
        domain = domain - Disk(x=x, y=y, radius=radius)
    return domain


def heat_long_time(end: float = 100.0) -> PDE:
    """Heat with a source that depends on the temperature and beats in time, over many beats (PINNacle's 2d-LT)."""
    source = lambda x, y, t, u: 5 * sin(u**2) * (1 + 2 * sin(pi * t / 4)) * sin(4 * pi * x) * sin(2 * pi * y)
    equation = lambda x, y, t, u, u_t, u_xx, u_yy: u_t - 1e-3 * (u_xx + u_yy) - source(x, y, t, u)
    conditions = [initial(lambda x, y: sin(4 * pi * x) * sin(3 * pi * y)), *map(dirichlet, SIDES)]
    return PDE(Box(x=(0, 1), y=(0, 1), t=(0, end)), equation, conditions)


def cavity(reynolds: float = 100.0) -> PDE:
    """Steady flow in a unit square that a lid drives with the speed 4 x (1 - x); the pressure is zero in a corner."""
    equations = [
        lambda u, v, u_x, u_y, u_xx, u_yy, p_x, Re: u * u_x + v * u_y + p_x - (u_xx + u_yy) / Re,
        lambda u, v, v_x, v_y, v_xx, v_yy, p_y, Re: u * v_x + v * v_y + p_y - (v_xx + v_yy) / Re,
        lambda u_x, v_y: u_x + v_y,
    ]
    conditions = [dirichlet("y=1", lambda x: 4 * x * (1 - x)), *map(dirichlet, SIDES[:3])]
    conditions += [dirichlet("boundary", unknown="v"), on("x=0, y=0", lambda p: p)]
    square, unknowns = Box(x=(0, 1), y=(0, 1)), ("u", "v", "p")
    return PDE(square, equations, conditions, unknowns=unknowns, parameters={"Re": reynolds})


def poisson_sines() -> PDE:
    """Poisson's equation in the five-dimensional unit cube with the solution Σ sin(pi x_i / 2) (PINNacle's PNd)."""
    truth = lambda a, b, c, d, e: sum(sin(pi / 2 * x) for x in (a, b, c, d, e))
    equation = lambda a, b, c, d, e, u_aa, u_bb, u_cc, u_dd, u_ee: (
        u_aa + u_bb + u_cc + u_dd + u_ee + pi**2 / 4 * truth(a, b, c, d, e)
    )
    box = Box(a=(0, 1), b=(0, 1), c=(0, 1), d=(0, 1), e=(0, 1))
    return PDE(box, equation, [dirichlet("boundary", truth)], exact=truth)
