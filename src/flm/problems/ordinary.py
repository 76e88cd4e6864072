"""Systems of ordinary differential equations that others posed: predators, chaos, stiff reactions, orbits."""

from collections.abc import Callable

from flm.domains import Box
from flm.pde.conditions import initial
from flm.pde.problem import PDE
from flm.problems.text import parse_problem


def _system(end: float, equations: list[Callable[..., object]], **start: float) -> PDE:
    """A system of first-order equations, one for each unknown in order, from its starting values."""
    conditions = [initial(value, unknown=name) for name, value in start.items()]
    return PDE(Box(t=(0, end)), equations, conditions, unknowns=tuple(start))


def lotka_volterra(end: float = 50.0) -> PDE:
    """Hares and lynxes of Lotka and Volterra: x' = 1.5 x - x y, y' = x y - 3 y from (1, 1)."""
    equations = [lambda x, y, x_t: x_t - 1.5 * x + x * y, lambda x, y, y_t: y_t - x * y + 3 * y]
    return _system(end, equations, x=1.0, y=1.0)


def lorenz(end: float = 10.0) -> PDE:
    """Lorenz's chaotic system (10, 28, 8/3) from (1, 1, 1): errors grow tenfold every 2.5."""
    equations = [
        lambda x, y, x_t: x_t - 10 * (y - x),
        lambda x, y, z, y_t: y_t - x * (28 - z) + y,
        lambda x, y, z, z_t: z_t - x * y + 8 / 3 * z,
    ]
    return _system(end, equations, x=1.0, y=1.0, z=1.0)


def van_der_pol_oscillator(mu: float = 100.0, end: float = 200.0) -> PDE:
    """Van der Pol's oscillator u'' = mu (1 - u^2) u' - u from (2, 0): slow stretches and sudden leaps."""
    equation = lambda u, u_t, u_tt, mu: u_tt - mu * (1 - u**2) * u_t + u
    return PDE(Box(t=(0, end)), equation, [initial(2.0, velocity=0.0)], parameters={"mu": mu})


def robertson(end: float = 1e5) -> PDE:
    """Robertson's three reactions, whose rates differ by nine orders of magnitude."""
    equations = [
        lambda a, b, c, a_t: a_t + 0.04 * a - 1e4 * b * c,
        lambda a, b, c, b_t: b_t - 0.04 * a + 1e4 * b * c + 3e7 * b**2,
        lambda b, c_t: c_t - 3e7 * b**2,
    ]
    return _system(end, equations, a=1.0, b=0.0, c=0.0)


def brusselator(end: float = 20.0) -> PDE:
    """The Brusselator x' = 1 + x^2 y - 4 x, y' = 3 x - x^2 y from (1.5, 3) (Hairer and Wanner)."""
    equations = [lambda x, y, x_t: x_t - 1 - x**2 * y + 4 * x, lambda x, y, y_t: y_t - 3 * x + x**2 * y]
    return _system(end, equations, x=1.5, y=3.0)


def oregonator(end: float = 360.0) -> PDE:
    """Belousov and Zhabotinsky's reaction in three variables that span five orders of magnitude (Hairer and Wanner)."""
    equations = [
        lambda x, y, x_t: x_t - 77.27 * (y + x * (1 - 8.375e-6 * x - y)),
        lambda x, y, z, y_t: y_t - (z - (1 + x) * y) / 77.27,
        lambda x, z, z_t: z_t - 0.161 * (x - z),
    ]
    return _system(end, equations, x=1.0, y=2.0, z=3.0)


def hires(end: float = 321.8122) -> PDE:
    """Eight reactants of a plant's response to light, stiff (Hairer and Wanner)."""
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
    return _system(end, equations, **start)


def three_body(end: float = 17.0652165601579625588917206249) -> PDE:
    """Arenstorf's closed orbit of a small body about the earth and the moon, once around."""
    moon, earth = 0.012277471, 1 - 0.012277471

    near, far = lambda x, y: ((x + moon) ** 2 + y**2) ** 1.5, lambda x, y: ((x - earth) ** 2 + y**2) ** 1.5
    across = lambda x, y: earth * (x + moon) / near(x, y) + moon * (x - earth) / far(x, y)
    along = lambda x, y: earth * y / near(x, y) + moon * y / far(x, y)
    equations = [
        lambda x, y, x_tt, y_t: x_tt - x - 2 * y_t + across(x, y),
        lambda x, y, x_t, y_tt: y_tt - y + 2 * x_t + along(x, y),
    ]
    conditions = [initial(0.994, velocity=0.0, unknown="x"), initial(0.0, velocity=-2.00158510637908252, unknown="y")]
    return PDE(Box(t=(0, end)), equations, conditions, unknowns=("x", "y"))


def pleiades(end: float = 3.0) -> PDE:
    """Seven stars of masses 1 to 7 in a plane, several of which nearly collide (Hairer, Nørsett and Wanner)."""
    places = {"x": (3, 3, -1, -3, 2, -2, 2), "y": (3, -3, 2, 0, 0, -4, 4)}
    speeds = {"x": (0, 0, 0, 0, 0, 1.75, -1.5), "y": (0, 0, 0, -1.25, 1, 0, 0)}
    names = [f"{axis}{i}" for axis in "xy" for i in range(1, 8)]
    lines, starts = [f"unknowns = {names}\n[domain]\nt = [0, {end}]\n[equation]"], []
    for axis, i in names:
        others = [j for j in "1234567" if j != i]
        pulls = (f"{j} * ({axis}{j} - {axis}{i}) / ((x{j} - x{i})**2 + (y{j} - y{i})**2)**1.5" for j in others)
        lines.append(f'{axis}{i} = "{axis}{i}_tt = {" + ".join(pulls)}"')
        starts += [f"{axis}{i} = {places[axis][int(i) - 1]}", f"{axis}{i}_t = {speeds[axis][int(i) - 1]}"]
    problem = parse_problem("\n".join([*lines, f'[conditions]\n"t=0" = {starts}']))
    assert isinstance(problem, PDE)
    return problem
