"""Named differential equations with their exact solutions: the paper's and those that users meet first."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from flm.domains import Box
from flm.pde.cole_hopf import viscous_burgers as cole_hopf
from flm.pde.conditions import Condition, dirichlet, initial, neumann, periodic
from flm.pde.problem import PDE

sin, cos, exp, tanh, sqrt, pi = jnp.sin, jnp.cos, jnp.exp, jnp.tanh, jnp.sqrt, np.pi
UNIT_LINE, UNIT_SQUARE = Box(x=(0, 1), t=(0, 1)), Box(x=(0, 1), y=(0, 1))  # the line in time
FIXED_ENDS = [dirichlet("x=0"), dirichlet("x=1")]


def heat(alpha: float = 0.1) -> PDE:
    """The heat equation of the paper: u_t = alpha u_xx on the unit square, u(x, 0) = sin(pi x), zero at both ends."""
    equation = lambda u_t, u_xx, alpha: u_t - alpha * u_xx
    exact = lambda x, t, alpha: sin(pi * x) * exp(-alpha * pi**2 * t)
    conditions = [initial(lambda x: sin(pi * x)), *FIXED_ENDS]
    return PDE(UNIT_LINE, equation, conditions, parameters={"alpha": alpha}, exact=exact)


def poisson() -> PDE:
    """Poisson's equation of the paper: u_xx + u_yy = -2 pi^2 sin(pi x) sin(pi y), zero on the unit square's boundary."""
    exact = lambda x, y: sin(pi * x) * sin(pi * y)
    equation = lambda x, y, u_xx, u_yy: u_xx + u_yy + 2 * pi**2 * sin(pi * x) * sin(pi * y)
    return PDE(UNIT_SQUARE, equation, [dirichlet("boundary")], exact=exact)


def black_scholes() -> PDE:
    """The generalized Black-Scholes equation of the paper, with solution exp(x - t) on [-2, 2] x [0, 1]."""

    def equation(x, t, u, u_t, u_x, u_xx):
        e = exp(x)
        a = 0.08 * (2 + (1 - t) * sin(e)) ** 2
        b = 0.06 * (1 + t * exp(-e)) - 0.02 * exp(-t - e) - a
        c = -0.06 * (1 + t * exp(-e))
        d = 0.02 * exp(x - e - 2 * t) - exp(x - t)
        return u_t - (a * u_xx + b * u_x + c * u + d)

    return _moving(2, equation, lambda x, t: exp(x - t), initial(lambda x: exp(x)))


def advection(speed: float = 1.0) -> PDE:
    """Linear advection u_t + c u_x = 0 of exp(sin 2 pi x) around a periodic unit interval."""
    equation, exact = lambda u_t, u_x, c: u_t + c * u_x, lambda x, t, c: exp(sin(2 * pi * (x - c * t)))
    conditions = [initial(lambda x: exp(sin(2 * pi * x))), periodic("x")]
    return PDE(UNIT_LINE, equation, conditions, parameters={"c": speed}, exact=exact)


def wave(speed: float = 1.0) -> PDE:
    """A vibrating string: u_tt = c^2 u_xx with fixed ends, plucked in its first and fourth modes."""
    equation = lambda u_tt, u_xx, c: u_tt - c**2 * u_xx
    exact = lambda x, t, c: sin(pi * x) * cos(pi * c * t) + 0.5 * sin(4 * pi * x) * cos(4 * pi * c * t)
    conditions = [initial(lambda x: sin(pi * x) + 0.5 * sin(4 * pi * x), velocity=0.0), *FIXED_ENDS]
    return PDE(UNIT_LINE, equation, conditions, parameters={"c": speed}, exact=exact)


def helmholtz(wavenumber: float = 10.0, angle: float = 0.6) -> PDE:
    """Helmholtz's equation u_xx + u_yy + k^2 u = 0 on the unit square, whose solution is a plane wave at an angle."""
    kx, ky = wavenumber * np.cos(angle), wavenumber * np.sin(angle)
    plane = lambda x, y: sin(kx * x + ky * y)
    equation = lambda u, u_xx, u_yy, k: u_xx + u_yy + k**2 * u
    return PDE(UNIT_SQUARE, equation, [dirichlet("boundary", plane)], parameters={"k": wavenumber}, exact=plane)


def convection_diffusion(epsilon: float = 0.05) -> PDE:
    """Convection and diffusion -eps (u_xx + u_yy) + u_x = f with a boundary layer of width eps at x = 1."""
    layer = lambda x, e: x - (exp((x - 1) / e) - exp(-1 / e)) / (1 - exp(-1 / e))  # -e v'' + v' = 1
    load = lambda x, y, e: (1 + e * pi**2 * layer(x, e)) * sin(pi * y)
    equation = lambda x, y, u_x, u_xx, u_yy, e: -e * (u_xx + u_yy) + u_x - load(x, y, e)
    exact = lambda x, y, e: layer(x, e) * sin(pi * y)
    return PDE(UNIT_SQUARE, equation, [dirichlet("boundary")], parameters={"e": epsilon}, exact=exact)


def reaction_diffusion() -> PDE:
    """Fisher's equation u_t = u_xx + u (1 - u) with its traveling front of speed 5 / sqrt 6."""
    front = lambda x, t: (1 + exp((x - 5 * t / sqrt(6.0)) / sqrt(6.0))) ** -2
    return _moving(5, lambda u, u_t, u_xx: u_t - u_xx - u * (1 - u), front, initial(lambda x: front(x, 0.0)))


def klein_gordon() -> PDE:
    """A nonlinear Klein-Gordon equation u_tt - u_xx + u + u^3 = f with solution x cos 2t."""
    truth = lambda x, t: x * cos(2 * t)
    equation = lambda x, t, u, u_tt, u_xx: u_tt - u_xx + u + u**3 + 3 * truth(x, t) - truth(x, t) ** 3
    return _moving(1, equation, truth, initial(lambda x: x, velocity=0.0))


def allen_cahn() -> PDE:
    """The Allen-Cahn equation u_t = u_xx + u - u^3 with its traveling kink."""
    kink = lambda x, t: 0.5 * (1 + tanh(x / (2 * sqrt(2.0)) + 0.75 * t))
    return _moving(5, lambda u, u_t, u_xx: u_t - u_xx - u + u**3, kink, initial(lambda x: kink(x, 0.0)))


def _moving(end: int, equation: Callable[..., object], exact: Callable[..., object], start: list[Condition]) -> PDE:
    """A problem with a known solution on [-end, end] over a unit of time, given its start and its values at both ends."""
    ends = [dirichlet(f"x={x}", exact) for x in (-end, end)]
    return PDE(Box(x=(-end, end), t=(0, 1)), equation, [start, *ends], exact=exact)


def viscous_burgers(viscosity: float = 0.1) -> PDE:
    """Burgers' equation u_t + u u_x = nu u_xx from -sin(pi x); exact by the Cole-Hopf transform."""
    equation = lambda u, u_t, u_x, u_xx, nu: u_t + u * u_x - nu * u_xx
    exact = lambda x, t, nu: cole_hopf(x, t, viscosity)
    conditions = [initial(lambda x: -sin(pi * x)), dirichlet("x=-1"), dirichlet("x=1")]
    return PDE(Box(x=(-1, 1), t=(0, 1)), equation, conditions, parameters={"nu": viscosity}, exact=exact)


def biharmonic() -> PDE:
    """A clamped square plate: the squared Laplacian of u is a load, u = u_n = 0; solution sin^2(pi x) sin^2(pi y)."""

    def equation(x, y, u_xxxx, u_xxyy, u_yyyy):
        a, b = cos(2 * pi * x), cos(2 * pi * y)  # sin^2(pi x) = (1 - a) / 2
        return u_xxxx + 2 * u_xxyy + u_yyyy - 4 * pi**4 * (4 * a * b - a - b)

    exact = lambda x, y: sin(pi * x) ** 2 * sin(pi * y) ** 2
    return PDE(UNIT_SQUARE, equation, [dirichlet("boundary"), neumann("boundary")], exact=exact)


def acoustics() -> PDE:
    """A linear system: pressure and velocity of sound, u_t + v_x = 0 and v_t + u_x = 0, in a closed tube."""
    start = lambda x: exp(cos(pi * x))
    # d'Alembert, because the start is even and has period 2
    pressure = lambda x, t: (start(x - t) + start(x + t)) / 2
    velocity = lambda x, t: (start(x - t) - start(x + t)) / 2
    equations = [lambda u_t, v_x: u_t + v_x, lambda v_t, u_x: v_t + u_x]
    closed = [dirichlet("x=0", unknown="v"), dirichlet("x=1", unknown="v")]
    conditions, exact = [initial(start), initial(0.0, unknown="v"), *closed], {"u": pressure, "v": velocity}
    return PDE(UNIT_LINE, equations, conditions, unknowns=("u", "v"), exact=exact)


def poisson_3d() -> PDE:
    """Poisson's equation in the unit cube with solution exp(x) sin(2y) cos z."""
    truth = lambda x, y, z: exp(x) * sin(2 * y) * cos(z)
    equation = lambda x, y, z, u_xx, u_yy, u_zz: u_xx + u_yy + u_zz + 4 * truth(x, y, z)
    return PDE(Box(x=(0, 1), y=(0, 1), z=(0, 1)), equation, [dirichlet("boundary", truth)], exact=truth)


def poisson_5d() -> PDE:
    """Poisson's equation in the five-dimensional unit cube with solution prod sin(pi x_i)."""
    truth = lambda a, b, c, d, e: sin(pi * a) * sin(pi * b) * sin(pi * c) * sin(pi * d) * sin(pi * e)
    equation = lambda a, b, c, d, e, u_aa, u_bb, u_cc, u_dd, u_ee: (
        u_aa + u_bb + u_cc + u_dd + u_ee + 5 * pi**2 * truth(a, b, c, d, e)
    )
    box = Box(a=(0, 1), b=(0, 1), c=(0, 1), d=(0, 1), e=(0, 1))
    return PDE(box, equation, [dirichlet("boundary")], exact=truth)


def oscillator(frequency: float = 5.0, damping: float = 0.1) -> PDE:
    """A damped harmonic oscillator u'' + 2 d w u' + w^2 u = 0, u(0) = 1, u'(0) = 0, over [0, 6]."""
    fast = frequency * np.sqrt(1 - damping**2)
    equation = lambda u, u_t, u_tt, w, d: u_tt + 2 * d * w * u_t + w**2 * u
    exact = lambda t, w, d: exp(-d * w * t) * (cos(fast * t) + d * w / fast * sin(fast * t))
    parameters = {"w": frequency, "d": damping}
    return PDE(Box(t=(0, 6)), equation, [initial(1.0, velocity=0.0)], parameters=parameters, exact=exact)


def stiff(rate: float = 1000.0) -> PDE:
    """A stiff ODE, u' = -k (u - cos t) - sin t with u(0) = 1, whose smooth solution is cos t (Prothero and Robinson)."""
    equation = lambda t, u, u_t, k: u_t + k * (u - cos(t)) + sin(t)
    return PDE(Box(t=(0, 10)), equation, [initial(1.0)], parameters={"k": rate}, exact=lambda t: cos(t))
