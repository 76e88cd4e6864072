"""Systems of ordinary differential equations that others posed: predators, chaos, stiff reactions, orbits."""

from flm.domains import Box
from flm.pde.conditions import initial
from flm.pde.problem import PDE
from flm.problems.text import parse_problem


def _start(**values: float) -> list:
    return [initial(value, unknown=name) for name, value in values.items()]


def lotka_volterra(end: float = 50.0) -> PDE:
    """Hares and lynxes of Lotka and Volterra: x' = 1.5 x - x y, y' = x y - 3 y from (1, 1)."""
    equations = [lambda x, y, x_t: x_t - 1.5 * x + x * y, lambda x, y, y_t: y_t - x * y + 3 * y]
    return PDE(Box(t=(0, end)), equations, _start(x=1.0, y=1.0), unknowns=("x", "y"))


def lorenz(end: float = 10.0) -> PDE:
    """Lorenz's chaotic system (10, 28, 8/3) from (1, 1, 1): errors grow tenfold every 2.5."""
    equations = [
        lambda x, y, x_t: x_t - 10 * (y - x),
        lambda x, y, z, y_t: y_t - x * (28 - z) + y,
        lambda x, y, z, z_t: z_t - x * y + 8 / 3 * z,
    ]
    return PDE(Box(t=(0, end)), equations, _start(x=1.0, y=1.0, z=1.0), unknowns=("x", "y", "z"))


def van_der_pol_oscillator(mu: float = 100.0, end: float = 200.0) -> PDE:
    """Van der Pol's oscillator u'' = mu (1 - u^2) u' - u from (2, 0): slow stretches and sudden leaps."""
    return PDE(
        Box(t=(0, end)),
        lambda u, u_t, u_tt, mu: u_tt - mu * (1 - u**2) * u_t + u,
        [initial(2.0, velocity=0.0)],
        parameters={"mu": mu},
    )


def robertson(end: float = 1e5) -> PDE:
    """Robertson's three reactions, whose rates differ by nine orders of magnitude."""
    equations = [
        lambda a, b, c, a_t: a_t + 0.04 * a - 1e4 * b * c,
        lambda a, b, c, b_t: b_t - 0.04 * a + 1e4 * b * c + 3e7 * b**2,
        lambda b, c_t: c_t - 3e7 * b**2,
    ]
    return PDE(Box(t=(0, end)), equations, _start(a=1.0, b=0.0, c=0.0), unknowns=("a", "b", "c"))


def brusselator(end: float = 20.0) -> PDE:
    """The Brusselator x' = 1 + x^2 y - 4 x, y' = 3 x - x^2 y from (1.5, 3) (Hairer and Wanner)."""
    equations = [lambda x, y, x_t: x_t - 1 - x**2 * y + 4 * x, lambda x, y, y_t: y_t - 3 * x + x**2 * y]
    return PDE(Box(t=(0, end)), equations, _start(x=1.5, y=3.0), unknowns=("x", "y"))


def oregonator(end: float = 360.0) -> PDE:
    """Belousov and Zhabotinsky's reaction in three variables that span five orders of magnitude (Hairer and Wanner)."""
    equations = [
        lambda x, y, x_t: x_t - 77.27 * (y + x * (1 - 8.375e-6 * x - y)),
        lambda x, y, z, y_t: y_t - (z - (1 + x) * y) / 77.27,
        lambda x, z, z_t: z_t - 0.161 * (x - z),
    ]
    return PDE(Box(t=(0, end)), equations, _start(x=1.0, y=2.0, z=3.0), unknowns=("x", "y", "z"))


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
    return PDE(Box(t=(0, end)), equations, _start(**start), unknowns=tuple("abcdefgh"))


def three_body(end: float = 17.0652165601579625588917206249) -> PDE:
    """Arenstorf's closed orbit of a small body about the earth and the moon, once around."""
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
    """Seven stars of masses 1 to 7 in a plane, several of which nearly collide (Hairer, Nørsett and Wanner)."""
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
