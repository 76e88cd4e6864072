"""Problems that others posed: ten tasks of the PINNacle benchmark, three classics of its literature, and eight ODEs.

Their equations are facts of the literature; none has an exact solution here but those that are known in closed form.
`benchmarks/strangers.py` has independent references for the rest.
"""

import jax.numpy as jnp
import numpy as np

from flm.domains import Box, Disk
from flm.pde.conditions import dirichlet, initial, on, periodic
from flm.pde.problem import PDE
from flm.problems.text import parse_problem

sin, cos, exp, pi = jnp.sin, jnp.cos, jnp.exp, np.pi


def _start(**values: float) -> list:
    return [initial(value, unknown=name) for name, value in values.items()]


def allen_cahn_periodic(diffusivity: float = 1e-4) -> PDE:
    """Allen and Cahn's u_t = d u_xx + 5 u - 5 u^3 on a ring, from x^2 cos(pi x), which has a kink at x = 1.

    Example:
        >>> allen_cahn_periodic().parameters
        {'d': 0.0001}
    """
    return PDE(
        Box(x=(-1, 1), t=(0, 1)),
        lambda u, u_t, u_xx, d: u_t - d * u_xx + 5 * u**3 - 5 * u,
        [initial(lambda x: x**2 * cos(pi * x)), periodic("x")],
        parameters={"d": diffusivity},
    )


def korteweg_de_vries(dispersion: float = 0.0025) -> PDE:
    """Korteweg and de Vries' u_t + u u_x + d u_xxx = 0 on a ring, from cos(pi x): the start of Zabusky and Kruskal.

    Example:
        >>> korteweg_de_vries().axes
        ('x', 't')
    """
    return PDE(
        Box(x=(-1, 1), t=(0, 1)),
        lambda u, u_t, u_x, u_xxx, d: u_t + u * u_x + d * u_xxx,
        [initial(lambda x: cos(pi * x)), periodic("x")],
        parameters={"d": dispersion},
    )


def schroedinger() -> PDE:
    """Schrödinger's nonlinear i h_t + h_xx / 2 + |h|^2 h = 0 on a ring, from 2 / cosh x.

    Example:
        >>> schroedinger().unknowns
        ('h_re', 'h_im')
    """
    return PDE(
        Box(x=(-5, 5), t=(0, pi / 2)),
        lambda h, h_t, h_xx: 1j * h_t + 0.5 * h_xx + abs(h) ** 2 * h,
        [initial(lambda x: 2 / jnp.cosh(x), unknown="h"), periodic("x")],
        unknowns=("h",),
        complex_unknowns=("h",),
    )


def kuramoto_sivashinsky() -> PDE:
    """Kuramoto and Sivashinsky's equation on a ring, as PINNacle scales it; two nearby starts part exponentially.

    Example:
        >>> kuramoto_sivashinsky().periodic_axes
        (True, False)
    """
    return PDE(
        Box(x=(0, 2 * pi), t=(0, 1)),
        lambda u, u_t, u_x, u_xx, u_xxxx: u_t + 100 / 16 * u * u_x + 100 / 16**2 * u_xx + 100 / 16**4 * u_xxxx,
        [initial(lambda x: cos(x) * (1 + sin(x))), periodic("x")],
    )


def gray_scott(end: float = 200.0) -> PDE:
    """Gray and Scott's reaction of two substances on a periodic square; PINNacle states no sides.

    Example:
        >>> gray_scott(end=10.0).unknowns
        ('u', 'v')
    """
    return PDE(
        Box(x=(-1, 1), y=(-1, 1), t=(0, end)),
        [
            lambda u, v, u_t, u_xx, u_yy: u_t - 1e-5 * (u_xx + u_yy) - 0.04 * (1 - u) + u * v**2,
            lambda u, v, v_t, v_xx, v_yy: v_t - 5e-6 * (v_xx + v_yy) + 0.1 * v - u * v**2,
        ],
        [
            initial(lambda x, y: 1 - exp(-80 * ((x + 0.05) ** 2 + (y + 0.02) ** 2))),
            initial(lambda x, y: exp(-80 * ((x - 0.05) ** 2 + (y - 0.02) ** 2)), unknown="v"),
            periodic("x"),
            periodic("y"),
        ],
        unknowns=("u", "v"),
    )


def burgers_2d(viscosity: float = 1e-3, end: float = 1.0) -> PDE:
    """Two coupled Burgers equations on a periodic square from a random Fourier field.

    Each start is a sum of a_kl cos(k X + l Y) + b_kl sin(k X + l Y), X = pi x / 2, with k = 0..4 and l = -4..4, normal
    amplitudes, divided by its largest value on a grid of 64 x 64, plus a normal constant. The draw, seeds 0 and 1 rounded
    to three digits, is ours: that of PINNacle's file is not known.

    Example:
        >>> burgers_2d().parameters
        {'nu': 0.001}
    """
    return PDE(
        Box(x=(0, 4), y=(0, 4), t=(0, end)),
        [
            lambda u, v, u_t, u_x, u_y, u_xx, u_yy, nu: u_t + u * u_x + v * u_y - nu * (u_xx + u_yy),
            lambda u, v, v_t, v_x, v_y, v_xx, v_yy, nu: v_t + u * v_x + v * v_y - nu * (v_xx + v_yy),
        ],
        [initial(random_field(0)), initial(random_field(1), unknown="v"), periodic("x"), periodic("y")],
        unknowns=("u", "v"),
        parameters={"nu": viscosity},
    )


def random_field(seed: int):
    """The start of `burgers_2d` with a seed, as a function of x and y."""
    draw = np.random.default_rng(seed)
    k, l = (n.ravel() for n in np.meshgrid(np.arange(5), np.arange(-4, 5), indexing="ij"))
    a, b = draw.normal(size=(2, k.size))

    def waves(x, y, size=1.0):
        return sum(
            ra * cos(pi / 2 * (i * x + j * y)) + rb * sin(pi / 2 * (i * x + j * y))
            for i, j, ra, rb in zip(k, l, (a / size).round(3), (b / size).round(3), strict=True)
        )

    grid = np.meshgrid(*2 * [np.arange(64) / 16])
    size, constant = float(np.abs(waves(*grid)).max()), round(draw.normal(), 3)
    return lambda x, y: constant + waves(x, y, size)


def poisson_holes() -> PDE:
    """Laplace's equation on a square with four round holes: 1 on the square's sides, 0 on the holes' (PINNacle's 2d-C).

    Example:
        >>> poisson_holes().axes
        ('x', 'y')
    """
    domain = Box(x=(-0.5, 0.5), y=(-0.5, 0.5))
    for x, y in ((-0.3, -0.3), (-0.3, 0.3), (0.3, -0.3), (0.3, 0.3)):
        domain = domain - Disk(x=x, y=y, radius=0.1)
    outside = lambda x, y: jnp.where(jnp.maximum(abs(x), abs(y)) > 0.45, 1.0, 0.0)
    return PDE(domain, lambda u_xx, u_yy: u_xx + u_yy, [dirichlet("boundary", outside)])


def poisson_boltzmann() -> PDE:
    """-Δu + 64 u = 10 (17 + x^2 + y^2) sin(pi x) sin(4 pi y) on a square with four round holes (PINNacle's 2d-CG).

    Example:
        >>> poisson_boltzmann().unknowns
        ('u',)
    """
    domain = Box(x=(-1, 1), y=(-1, 1))
    for x, y, radius in ((0.5, 0.5, 0.2), (0.4, -0.4, 0.4), (-0.2, -0.7, 0.1), (-0.6, 0.5, 0.3)):
        domain = domain - Disk(x=x, y=y, radius=radius)
    outside = lambda x, y: jnp.where(jnp.maximum(abs(x), abs(y)) > 0.95, 0.2, 1.0)
    load = lambda x, y: 10 * (17 + x**2 + y**2) * sin(pi * x) * sin(4 * pi * y)
    return PDE(
        domain,
        lambda x, y, u, u_xx, u_yy: -u_xx - u_yy + 64 * u - load(x, y),
        [dirichlet("boundary", outside)],
    )


def heat_long_time(end: float = 100.0) -> PDE:
    """Heat with a source that depends on the temperature and beats in time, over many beats (PINNacle's 2d-LT).

    Example:
        >>> heat_long_time(end=4.0).axes
        ('x', 'y', 't')
    """
    source = lambda x, y, t, u: 5 * sin(u**2) * (1 + 2 * sin(pi * t / 4)) * sin(4 * pi * x) * sin(2 * pi * y)
    return PDE(
        Box(x=(0, 1), y=(0, 1), t=(0, end)),
        lambda x, y, t, u, u_t, u_xx, u_yy: u_t - 1e-3 * (u_xx + u_yy) - source(x, y, t, u),
        [
            initial(lambda x, y: sin(4 * pi * x) * sin(3 * pi * y)),
            *(dirichlet(side) for side in ("x=0", "x=1", "y=0", "y=1")),
        ],
    )


def cavity(reynolds: float = 100.0) -> PDE:
    """Steady flow in a unit square that a lid drives with the speed 4 x (1 - x); the pressure is zero in a corner.

    Example:
        >>> cavity(reynolds=10.0).parameters
        {'Re': 10.0}
    """
    return PDE(
        Box(x=(0, 1), y=(0, 1)),
        [
            lambda u, v, u_x, u_y, u_xx, u_yy, p_x, Re: u * u_x + v * u_y + p_x - (u_xx + u_yy) / Re,
            lambda u, v, v_x, v_y, v_xx, v_yy, p_y, Re: u * v_x + v * v_y + p_y - (v_xx + v_yy) / Re,
            lambda u_x, v_y: u_x + v_y,
        ],
        [
            dirichlet("y=1", lambda x: 4 * x * (1 - x)),
            *(dirichlet(side) for side in ("x=0", "x=1", "y=0")),
            dirichlet("boundary", unknown="v"),
            on("x=0, y=0", lambda p: p),
        ],
        unknowns=("u", "v", "p"),
        parameters={"Re": reynolds},
    )


def poisson_sines() -> PDE:
    """Poisson's equation in the five-dimensional unit cube with the solution Σ sin(pi x_i / 2) (PINNacle's PNd).

    Example:
        >>> poisson_sines().exact_values(np.array([[1.0, 1.0, 1.0, 1.0, 0.0]]))
        array([4.])
    """
    truth = lambda a, b, c, d, e: sum(sin(pi / 2 * x) for x in (a, b, c, d, e))
    return PDE(
        Box(a=(0, 1), b=(0, 1), c=(0, 1), d=(0, 1), e=(0, 1)),
        lambda a, b, c, d, e, u_aa, u_bb, u_cc, u_dd, u_ee: (
            u_aa + u_bb + u_cc + u_dd + u_ee + pi**2 / 4 * truth(a, b, c, d, e)
        ),
        [dirichlet("boundary", truth)],
        exact=truth,
    )


def lotka_volterra(end: float = 50.0) -> PDE:
    """Hares and lynxes of Lotka and Volterra: x' = 1.5 x - x y, y' = x y - 3 y from (1, 1).

    Example:
        >>> lotka_volterra().unknowns
        ('x', 'y')
    """
    equations = [lambda x, y, x_t: x_t - 1.5 * x + x * y, lambda x, y, y_t: y_t - x * y + 3 * y]
    return PDE(Box(t=(0, end)), equations, _start(x=1.0, y=1.0), unknowns=("x", "y"))


def lorenz(end: float = 10.0) -> PDE:
    """Lorenz's chaotic system (10, 28, 8/3) from (1, 1, 1): errors grow tenfold every 2.5.

    Example:
        >>> lorenz().unknowns
        ('x', 'y', 'z')
    """
    equations = [
        lambda x, y, x_t: x_t - 10 * (y - x),
        lambda x, y, z, y_t: y_t - x * (28 - z) + y,
        lambda x, y, z, z_t: z_t - x * y + 8 / 3 * z,
    ]
    return PDE(Box(t=(0, end)), equations, _start(x=1.0, y=1.0, z=1.0), unknowns=("x", "y", "z"))


def van_der_pol_oscillator(mu: float = 100.0, end: float = 200.0) -> PDE:
    """Van der Pol's oscillator u'' = mu (1 - u^2) u' - u from (2, 0): slow stretches and sudden leaps.

    Example:
        >>> van_der_pol_oscillator(mu=5.0).parameters
        {'mu': 5.0}
    """
    return PDE(
        Box(t=(0, end)),
        lambda u, u_t, u_tt, mu: u_tt - mu * (1 - u**2) * u_t + u,
        [initial(2.0, velocity=0.0)],
        parameters={"mu": mu},
    )


def robertson(end: float = 1e5) -> PDE:
    """Robertson's three reactions, whose rates differ by nine orders of ten.

    Example:
        >>> robertson().unknowns
        ('a', 'b', 'c')
    """
    equations = [
        lambda a, b, c, a_t: a_t + 0.04 * a - 1e4 * b * c,
        lambda a, b, c, b_t: b_t - 0.04 * a + 1e4 * b * c + 3e7 * b**2,
        lambda b, c_t: c_t - 3e7 * b**2,
    ]
    return PDE(Box(t=(0, end)), equations, _start(a=1.0, b=0.0, c=0.0), unknowns=("a", "b", "c"))


def brusselator(end: float = 20.0) -> PDE:
    """The Brusselator x' = 1 + x^2 y - 4 x, y' = 3 x - x^2 y from (1.5, 3) (Hairer and Wanner).

    Example:
        >>> brusselator().unknowns
        ('x', 'y')
    """
    equations = [lambda x, y, x_t: x_t - 1 - x**2 * y + 4 * x, lambda x, y, y_t: y_t - 3 * x + x**2 * y]
    return PDE(Box(t=(0, end)), equations, _start(x=1.5, y=3.0), unknowns=("x", "y"))


def oregonator(end: float = 360.0) -> PDE:
    """Belousov and Zhabotinsky's reaction in three variables of five orders of ten (Hairer and Wanner).

    Example:
        >>> oregonator().unknowns
        ('x', 'y', 'z')
    """
    equations = [
        lambda x, y, x_t: x_t - 77.27 * (y + x * (1 - 8.375e-6 * x - y)),
        lambda x, y, z, y_t: y_t - (z - (1 + x) * y) / 77.27,
        lambda x, z, z_t: z_t - 0.161 * (x - z),
    ]
    return PDE(Box(t=(0, end)), equations, _start(x=1.0, y=2.0, z=3.0), unknowns=("x", "y", "z"))


def hires(end: float = 321.8122) -> PDE:
    """Eight reactants of a plant's response to light, stiff (Hairer and Wanner).

    Example:
        >>> hires().unknowns
        ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')
    """
    equations = [
        lambda a, b, c, a_t: a_t + 1.71 * a - 0.43 * b - 8.32 * c - 0.0007,
        lambda a, b, b_t: b_t - 1.71 * a + 8.75 * b,
        lambda c, d, e, c_t: c_t + 10.03 * c - 0.43 * d - 0.035 * e,
        lambda b, c, d, d_t: d_t - 8.32 * b - 1.71 * c + 1.12 * d,
        lambda e, f, g, e_t: e_t + 1.745 * e - 0.43 * f - 0.43 * g,
        lambda d, e, f, g, h, f_t: f_t + 280 * f * h - 0.69 * d - 1.71 * e + 0.43 * f - 0.69 * g,
        lambda f, g, h, g_t: g_t - 280 * f * h + 1.81 * g,
        lambda f, g, h, h_t: h_t + 280 * f * h - 1.81 * g,
    ]
    start = dict.fromkeys("abcdefgh", 0.0) | {"a": 1.0, "h": 0.0057}
    return PDE(Box(t=(0, end)), equations, _start(**start), unknowns=tuple("abcdefgh"))


def three_body(end: float = 17.0652165601579625588917206249) -> PDE:
    """Arenstorf's closed orbit of a small body about the earth and the moon, once around.

    Example:
        >>> three_body().unknowns
        ('x', 'y')
    """
    moon, earth = 0.012277471, 1 - 0.012277471

    def pulls(x, y):
        return ((x + moon) ** 2 + y**2) ** 1.5, ((x - earth) ** 2 + y**2) ** 1.5

    def across(x, y, x_tt, y_t):
        near, far = pulls(x, y)
        return x_tt - x - 2 * y_t + earth * (x + moon) / near + moon * (x - earth) / far

    def along(x, y, x_t, y_tt):
        near, far = pulls(x, y)
        return y_tt - y + 2 * x_t + earth * y / near + moon * y / far

    return PDE(
        Box(t=(0, end)),
        [across, along],
        [initial(0.994, velocity=0.0, unknown="x"), initial(0.0, velocity=-2.00158510637908252, unknown="y")],
        unknowns=("x", "y"),
    )


def pleiades(end: float = 3.0) -> PDE:
    """Seven stars of masses 1 to 7 in a plane, several of which nearly collide (Hairer, Nørsett and Wanner).

    Example:
        >>> len(pleiades().unknowns)
        14
    """
    places = {"x": (3, 3, -1, -3, 2, -2, 2), "y": (3, -3, 2, 0, 0, -4, 4)}
    speeds = {"x": (0, 0, 0, 0, 0, 1.75, -1.5), "y": (0, 0, 0, -1.25, 1, 0, 0)}
    stars, equations, starts = range(1, 8), [], []
    for axis in "xy":
        for i in stars:
            pulls = (
                f"{j} * ({axis}{j} - {axis}{i}) / ((x{j} - x{i})**2 + (y{j} - y{i})**2)**1.5" for j in stars if j != i
            )
            equations.append(f'{axis}{i} = "{axis}{i}_tt = {" + ".join(pulls)}"')
            starts += [f'"{axis}{i} = {places[axis][i - 1]}"', f'"{axis}{i}_t = {speeds[axis][i - 1]}"']
    lines = [
        f"unknowns = {[f'{axis}{i}' for axis in 'xy' for i in stars]}",
        f"[domain]\nt = [0, {end}]\n[equation]",
        *equations,
        f'[conditions]\n"t=0" = [{", ".join(starts)}]',
    ]
    problem = parse_problem("\n".join(lines))
    assert isinstance(problem, PDE)
    return problem
