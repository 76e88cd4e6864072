"""Are standard errors honest? Inverse problems with known parameters through `flm.solve`, each with several draws of the noise.

`honesty.py` runs them; its table ends with how many parameters lie within two standard errors.

Readings come from closed forms or from SciPy, never from the solver. For each draw: |found - true| / standard error of every
parameter (functions: root mean square over a grid), and the true error of the answer *at the parameters found*, against
the same closed form or SciPy, over the solver's estimate. The last problems are not determined by their readings.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from scipy.integrate import cumulative_trapezoid, solve_bvp, solve_ivp

import flm

DRAWS = 5
PI = np.pi
UNIT = flm.Box(x=(0, 1))
SQUARE = flm.Box(x=(0, 1), y=(0, 1))
STRIP = flm.Box(x=(0, 1), t=(0, 1))
ZEROS = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]


@dataclass(frozen=True)
class Case:
    """An inverse problem whose parameters are known.

    Args:
        domain: of the readings.
        equation: likewise for the conditions and names of unknowns: what `flm.PDE` takes.
        learn: where the parameters start.
        truth: their true values; functions of one array for unknown functions.
        reference: (parameters, points) -> unknowns (P,) or (P, K); None where it is not known for others than the true ones.
        observed: the same for what was measured; the first unknown by default.
        observe: what `flm.data` is told.
        noise: standard deviation, of the largest reading.
        told: whether the solver is told the noise.
    """

    domain: flm.Box
    equation: object
    conditions: list
    learn: dict
    truth: dict
    reference: Callable
    unknowns: tuple = ("u",)
    observed: Callable | None = None
    observe: Callable | None = None
    count: int = 100
    noise: float = 0.01
    told: bool = True
    tol: float = 1e-6
    determined: bool = True
    same_elsewhere: bool = True  # whether the reference holds at other parameters than the true ones
    fixed: dict = field(default_factory=dict)


def marched(rates: Callable, start: list, span: float) -> Callable:
    """A reference by SciPy: (parameters, points) -> states."""

    def reference(p: dict, points: np.ndarray) -> np.ndarray:
        found = solve_ivp(
            lambda t, y: rates(y, p), (0, span), start, method="DOP853", rtol=1e-12, atol=1e-13, dense_output=True
        )
        values = found.sol(points[:, 0]).T
        return values[:, 0] if values.shape[1] == 1 else values

    return reference


def bratu(p: dict, points: np.ndarray) -> np.ndarray:
    x = np.linspace(0, 1, 101)
    found = solve_bvp(
        lambda x, y: np.array([y[1], -p["k"] * np.exp(y[0])]),
        lambda a, b: np.array([a[0], b[0]]),
        x,
        np.zeros((2, 101)),
        tol=1e-10,
        max_nodes=20000,
    )
    return found.sol(points[:, 0])[0]


def rod(a: Callable) -> Callable:
    """-(a u')' = 1 between cold ends: a u' = c - x."""
    x = np.linspace(0, 1, 40001)
    one, two = (cumulative_trapezoid(f / a(x), x, initial=0) for f in (np.ones_like(x), x))
    u = two[-1] / one[-1] * one - two
    return lambda _, points: np.interp(points[:, 0], x, u)


def forced(q: Callable) -> Callable:
    """u' = q(t) - u from 1."""
    found = solve_ivp(lambda t, y: q(t) - y, (0, 4), [1.0], method="DOP853", rtol=1e-12, atol=1e-13, dense_output=True)
    return lambda _, points: found.sol(points[:, 0])[0]


def cases() -> dict[str, Case]:
    """All problems by name, listed before any of them was run."""
    sine = flm.initial(lambda x: jnp.sin(PI * x))
    line = lambda end: flm.Box(t=(0, end))
    heat = lambda p, z: np.sin(PI * z[:, 0]) * np.exp(-p["k"] * PI**2 * z[:, 1])
    hare = marched(
        lambda y, p: [p["a"] * y[0] - p["b"] * y[0] * y[1], p["d"] * y[0] * y[1] - p["c"] * y[1]], [1.0, 0.8], 10
    )
    sick = marched(lambda y, p: [-p["b"] * y[0] * y[1], p["b"] * y[0] * y[1] - p["g"] * y[1]], [0.99, 0.01], 20)
    lorenz = marched(
        lambda y, p: [p["s"] * (y[1] - y[0]), y[0] * (p["r"] - y[2]) - y[1], y[0] * y[1] - p["b"] * y[2]],
        [1.0, 1.0, 1.0],
        1.5,
    )
    flow = lambda p, z: np.exp(-p["n"] * 4 * PI**2 * z[:, 1]) * np.sin(2 * PI * (z[:, 0] - p["c"] * z[:, 1]))
    front = lambda n, x, t, tanh: 0.5 * (1 - tanh((x - 0.5 * t - 0.3) / (4 * n)))
    fisher = lambda r, x, t, exp: (1 + exp(jnp.sqrt(r / 6) * x - 5 / 6 * r * t)) ** -2
    wavy = lambda x: 1 + 0.5 * np.sin(2 * PI * x)
    hill = lambda x: 1 + 2 * np.exp(-20 * (x - 0.4) ** 2)
    pulse = lambda t: 1 + np.sin(2 * t)
    start = lambda x: np.sin(PI * x) + 0.4 * np.sin(2 * PI * x)
    cold = [*ZEROS, flm.dirichlet("y=0"), flm.dirichlet("y=1")]
    box = flm.Box(x=(0, 1), y=(0, 1), z=(0, 1))
    shape = lambda z: np.prod(np.sin(PI * z), axis=1)
    lump = lambda x, y: jnp.sin(PI * x) * jnp.sin(PI * y)
    return {
        "heat": Case(
            STRIP,
            lambda u_t, u_xx, k: u_t - k * u_xx,
            [sine, *ZEROS],
            {"k": flm.Learn(0.5, lower=0)},
            {"k": 0.1},
            heat,
            count=200,
        ),
        "heat, noise not told": Case(
            STRIP,
            lambda u_t, u_xx, k: u_t - k * u_xx,
            [sine, *ZEROS],
            {"k": flm.Learn(0.5, lower=0)},
            {"k": 0.1},
            heat,
            told=False,
        ),
        "heat, precise readings": Case(
            STRIP,
            lambda u_t, u_xx, k: u_t - k * u_xx,
            [sine, *ZEROS],
            {"k": flm.Learn(0.02, lower=0)},
            {"k": 0.1},
            heat,
            noise=1e-6,
            tol=1e-3,
        ),
        "decay": Case(
            line(3),
            lambda u, u_t, k: u_t + k * u,
            [flm.initial(1.0)],
            {"k": flm.Learn(0.1)},
            {"k": 1.7},
            lambda p, z: np.exp(-p["k"] * z[:, 0]),
            count=20,
        ),
        "logistic growth": Case(
            line(8),
            lambda u, u_t, r, c: u_t - r * u * (1 - u / c),
            [flm.initial(0.1)],
            {"r": flm.Learn(0.5, lower=0), "c": flm.Learn(1.0, lower=0.1)},
            {"r": 1.2, "c": 3.0},
            lambda p, z: p["c"] / (1 + (p["c"] / 0.1 - 1) * np.exp(-p["r"] * z[:, 0])),
            count=40,
            noise=0.03,
        ),
        "oscillator from its speed": Case(
            line(6),
            lambda u, u_t, u_tt, d, k: u_tt + d * u_t + k * u,
            [flm.initial(1.0, velocity=0.0)],
            {"d": flm.Learn(1.0, lower=0), "k": flm.Learn(1.0, lower=0)},
            {"d": 0.4, "k": 2.3},
            marched(lambda y, p: [y[1], -p["d"] * y[1] - p["k"] * y[0]], [1.0, 0.0], 6),
            observed=lambda p, z: marched(lambda y, q: [y[1], -q["d"] * y[1] - q["k"] * y[0]], [1.0, 0.0], 6)(p, z)[
                :, 1
            ],
            observe=lambda u_t: u_t,
            count=80,
            noise=0.02,
        ),
        "pendulum": Case(
            line(10),
            lambda u, u_tt, g: u_tt + g * jnp.sin(u),
            [flm.initial(2.0, velocity=0.0)],
            {"g": flm.Learn(0.8, lower=0)},
            {"g": 1.0},
            marched(lambda y, p: [y[1], -p["g"] * np.sin(y[0])], [2.0, 0.0], 10),
            count=60,
            noise=0.05,
        ),
        "Lotka-Volterra": Case(
            line(10),
            [lambda u, v, u_t, a, b: u_t - a * u + b * u * v, lambda u, v, v_t, c, d: v_t - d * u * v + c * v],
            [flm.initial(1.0), flm.initial(0.8, unknown="v")],
            {n: flm.Learn(1.0, lower=0) for n in "abcd"},
            {"a": 1.1, "b": 0.9, "c": 1.2, "d": 0.8},
            hare,
            ("u", "v"),
            observed=lambda p, z: hare(p, z)[:, 0],
            observe=lambda u: u,
            count=100,
            noise=0.03,
        ),
        "epidemic": Case(
            line(20),
            [lambda u, v, u_t, b: u_t + b * u * v, lambda u, v, v_t, b, g: v_t - b * u * v + g * v],
            [flm.initial(0.99), flm.initial(0.01, unknown="v")],
            {"b": flm.Learn(0.8, lower=0), "g": flm.Learn(0.5, lower=0)},
            {"b": 1.0, "g": 0.3},
            sick,
            ("u", "v"),
            observed=lambda p, z: sick(p, z)[:, 1],
            observe=lambda v: v,
            count=60,
            noise=0.02,
        ),
        "enzyme": Case(
            line(6),
            lambda u, u_t, v, m: u_t + v * u / (m + u),
            [flm.initial(2.0)],
            {"v": flm.Learn(0.5, lower=0), "m": flm.Learn(1.0, lower=0.01)},
            {"v": 0.9, "m": 0.4},
            marched(lambda y, p: [-p["v"] * y[0] / (p["m"] + y[0])], [2.0], 6),
            count=60,
        ),
        "van der Pol": Case(
            line(10),
            lambda u, u_t, u_tt, m: u_tt - m * (1 - u**2) * u_t + u,
            [flm.initial(2.0, velocity=0.0)],
            {"m": flm.Learn(1.5, lower=0)},
            {"m": 2.0},
            marched(lambda y, p: [y[1], p["m"] * (1 - y[0] ** 2) * y[1] - y[0]], [2.0, 0.0], 10),
            count=80,
            noise=0.05,
        ),
        "Lorenz, briefly": Case(
            line(1.5),
            [
                lambda u, v, u_t, s: u_t - s * (v - u),
                lambda u, v, w, v_t, r: v_t - u * (r - w) + v,
                lambda u, v, w, w_t, b: w_t - u * v + b * w,
            ],
            [flm.initial(1.0), flm.initial(1.0, unknown="v"), flm.initial(1.0, unknown="w")],
            {"s": flm.Learn(9.0), "r": flm.Learn(27.0), "b": flm.Learn(2.5)},
            {"s": 10.0, "r": 28.0, "b": 8 / 3},
            lorenz,
            ("u", "v", "w"),
            observed=lambda p, z: lorenz(p, z)[:, 0],
            observe=lambda u: u,
            count=60,
        ),
        "two compartments": Case(
            line(8),
            [lambda u, v, u_t, a, b, e: u_t + (a + e) * u - b * v, lambda u, v, v_t, a, b: v_t - a * u + b * v],
            [flm.initial(1.0), flm.initial(0.0, unknown="v")],
            {n: flm.Learn(0.5, lower=0) for n in "abe"},
            {"a": 0.7, "b": 0.4, "e": 0.3},
            marched(
                lambda y, p: [-(p["a"] + p["e"]) * y[0] + p["b"] * y[1], p["a"] * y[0] - p["b"] * y[1]], [1.0, 0.0], 8
            ),
            ("u", "v"),
            observed=lambda p, z: marched(
                lambda y, q: [-(q["a"] + q["e"]) * y[0] + q["b"] * y[1], q["a"] * y[0] - q["b"] * y[1]], [1.0, 0.0], 8
            )(p, z)[:, 0],
            observe=lambda u: u,
            count=80,
        ),
        "source strength": Case(
            SQUARE,
            lambda x, y, u_xx, u_yy, q: u_xx + u_yy + q * lump(x, y),
            cold,
            {"q": flm.Learn(0.0)},
            {"q": 3.0},
            lambda p, z: p["q"] * shape(z) / (2 * PI**2),
            count=30,
            noise=0.05,
        ),
        "reaction on a line": Case(
            UNIT,
            lambda u, u_xx, k: u_xx - k * u,
            [flm.dirichlet("x=0", 1.0), flm.dirichlet("x=1", 1.0)],
            {"k": flm.Learn(1.0, lower=0)},
            {"k": 20.0},
            lambda p, z: np.cosh(np.sqrt(p["k"]) * (z[:, 0] - 0.5)) / np.cosh(np.sqrt(p["k"]) / 2),
            count=50,
        ),
        "transport": Case(
            STRIP,
            lambda u_t, u_x, c: u_t + c * u_x,
            [flm.initial(lambda x: jnp.sin(2 * PI * x)), flm.periodic("x")],
            {"c": flm.Learn(0.6)},
            {"c": 0.8},
            lambda p, z: np.sin(2 * PI * (z[:, 0] - p["c"] * z[:, 1])),
            noise=0.05,
        ),
        "transport and diffusion": Case(
            STRIP,
            lambda u_t, u_x, u_xx, c, n: u_t + c * u_x - n * u_xx,
            [flm.initial(lambda x: jnp.sin(2 * PI * x)), flm.periodic("x")],
            {"c": flm.Learn(0.3), "n": flm.Learn(0.1, lower=0)},
            {"c": 0.6, "n": 0.02},
            flow,
            count=150,
            noise=0.02,
        ),
        "speed of sound": Case(
            STRIP,
            lambda u_tt, u_xx, c: u_tt - c**2 * u_xx,
            [flm.initial(lambda x: jnp.sin(PI * x), velocity=0.0), *ZEROS],
            {"c": flm.Learn(0.8, lower=0)},
            {"c": 1.1},
            lambda p, z: np.sin(PI * z[:, 0]) * np.cos(PI * p["c"] * z[:, 1]),
            noise=0.05,
        ),
        "loss at an end": Case(
            UNIT,
            lambda u, u_xx: u_xx - u,
            [flm.dirichlet("x=0", 1.0), flm.on("x=1", lambda u, u_n, h: u_n + h * u)],
            {"h": flm.Learn(1.0, lower=0)},
            {"h": 3.0},
            lambda p, z: (
                (np.cosh(1 - z[:, 0]) + p["h"] * np.sinh(1 - z[:, 0])) / (np.cosh(1.0) + p["h"] * np.sinh(1.0))
            ),
            count=60,
        ),
        "Bratu": Case(
            UNIT,
            lambda u, u_xx, k: u_xx + k * jnp.exp(u),
            ZEROS,
            {"k": flm.Learn(1.0, lower=0, upper=3.4)},
            {"k": 2.0},
            bratu,
            count=50,
            noise=0.02,
        ),
        "Burgers": Case(
            STRIP,
            lambda u, u_t, u_x, u_xx, n: u_t + u * u_x - n * u_xx,
            [
                flm.initial(lambda x, n: front(n, x, 0.0, jnp.tanh)),
                *(flm.dirichlet(f"x={e}", lambda t, n, e=float(e): front(n, e, t, jnp.tanh)) for e in (0, 1)),
            ],
            {"n": flm.Learn(0.1, lower=0.01)},
            {"n": 0.05},
            lambda p, z: front(p["n"], z[:, 0], z[:, 1], np.tanh),
            noise=0.02,
        ),
        "Fisher": Case(
            flm.Box(x=(-5, 5), t=(0, 1)),
            lambda u, u_t, u_xx, r: u_t - u_xx - r * u * (1 - u),
            [
                flm.initial(lambda x, r: fisher(r, x, 0.0, jnp.exp)),
                *(flm.dirichlet(f"x={e}", lambda t, r, e=float(e): fisher(r, e, t, jnp.exp)) for e in (-5, 5)),
            ],
            {"r": flm.Learn(1.0, lower=0.1)},
            {"r": 2.0},
            lambda p, z: np.asarray(fisher(p["r"], z[:, 0], z[:, 1], np.exp)),
            noise=0.02,
        ),
        "two amplitudes at the start": Case(
            STRIP,
            lambda u_t, u_xx: u_t - 0.1 * u_xx,
            [flm.initial(lambda x, a, b: a * jnp.sin(PI * x) + b * jnp.sin(2 * PI * x)), *ZEROS],
            {"a": flm.Learn(0.0), "b": flm.Learn(0.0)},
            {"a": 1.0, "b": -0.5},
            lambda p, z: (
                p["a"] * heat({"k": 0.1}, z) + p["b"] * np.sin(2 * PI * z[:, 0]) * np.exp(-0.4 * PI**2 * z[:, 1])
            ),
            noise=0.05,
        ),
        "anisotropy": Case(
            SQUARE,
            lambda x, y, u_xx, u_yy, a: a * u_xx + u_yy + PI**2 * 3 * lump(x, y),
            cold,
            {"a": flm.Learn(1.0, lower=0)},
            {"a": 2.0},
            lambda p, z: 3 * shape(z) / (1 + p["a"]),
            noise=0.02,
        ),
        "absorption in a cube": Case(
            box,
            lambda x, y, z, u, u_xx, u_yy, u_zz, k: u_xx + u_yy + u_zz - k * u + 40 * lump(x, y) * jnp.sin(PI * z),
            [flm.dirichlet("boundary")],
            {"k": flm.Learn(1.0, lower=0)},
            {"k": 10.0},
            lambda p, z: 40 * shape(z) / (3 * PI**2 + p["k"]),
            tol=1e-4,
        ),
        "a(x) of a rod": Case(
            UNIT,
            lambda a, a_x, u_x, u_xx: a_x * u_x + a * u_xx + 1,
            ZEROS,
            {"a": flm.Learn(1.0, lower=0, axes=("x",))},
            {"a": wavy},
            rod(wavy),
            count=200,
            same_elsewhere=False,
        ),
        "a(x) of a rod, noise not told": Case(
            UNIT,
            lambda a, a_x, u_x, u_xx: a_x * u_x + a * u_xx + 1,
            ZEROS,
            {"a": flm.Learn(1.0, lower=0, axes=("x",))},
            {"a": hill},
            rod(hill),
            count=200,
            told=False,
            same_elsewhere=False,
        ),
        "a source f(x)": Case(
            UNIT,
            lambda u_xx, f: u_xx + f,
            ZEROS,
            {"f": flm.Learn(0.0, axes=("x",))},
            {"f": lambda x: PI**2 * np.sin(PI * x) + np.sin(3 * PI * x)},
            lambda _, z: np.sin(PI * z[:, 0]) + np.sin(3 * PI * z[:, 0]) / (9 * PI**2),
            count=200,
            same_elsewhere=False,
        ),
        "the start g(x) of a rod": Case(
            STRIP,
            lambda u_t, u_xx: u_t - 0.02 * u_xx,
            [flm.on("t=0", lambda u, g: u - g), *ZEROS],
            {"g": flm.Learn(0.0, axes=("x",))},
            {"g": start},
            lambda _, z: (
                np.sin(PI * z[:, 0]) * np.exp(-0.02 * PI**2 * z[:, 1])
                + 0.4 * np.sin(2 * PI * z[:, 0]) * np.exp(-0.08 * PI**2 * z[:, 1])
            ),
            count=200,
            tol=1e-3,  # g need not vanish at the cold ends: such corners are dear
            same_elsewhere=False,
        ),
        "a drive q(t)": Case(
            line(4),
            lambda u, u_t, q: u_t + u - q,
            [flm.initial(1.0)],
            {"q": flm.Learn(1.0, axes=("t",))},
            {"q": pulse},
            forced(pulse),
            count=200,
            same_elsewhere=False,
        ),
        "a product alone": Case(
            line(3),
            lambda u, u_t, a, b: u_t + a * b * u,
            [flm.initial(1.0)],
            {"a": flm.Learn(1.0), "b": flm.Learn(1.0)},
            {"a": 1.0, "b": 1.0},
            lambda p, z: np.exp(-p["a"] * p["b"] * z[:, 0]),
            count=40,
            determined=False,
        ),
        "one that nothing sees": Case(
            line(3),
            [lambda u, u_t: u_t + u, lambda v, v_t, k: v_t + k * v],
            [flm.initial(1.0), flm.initial(1.0, unknown="v")],
            {"k": flm.Learn(1.0)},
            {"k": 2.0},
            lambda p, z: np.exp(-np.stack([z[:, 0], p["k"] * z[:, 0]], axis=1)),
            ("u", "v"),
            observed=lambda p, z: np.exp(-z[:, 0]),
            observe=lambda u: u,
            count=40,
            determined=False,
        ),
        "fewer readings than parameters": Case(
            line(8),
            lambda u, u_t, r, c: u_t - r * u * (1 - u / c),
            [flm.initial(0.1)],
            {"r": flm.Learn(0.5, lower=0), "c": flm.Learn(1.0, lower=0.1)},
            {"r": 1.2, "c": 3.0},
            lambda p, z: p["c"] / (1 + (p["c"] / 0.1 - 1) * np.exp(-p["r"] * z[:, 0])),
            count=1,
            determined=False,
        ),
    }


def answer(case: Case, parameters: dict, points: np.ndarray) -> np.ndarray:
    """The unknowns of the problem; a state of SciPy's may hold velocities beside them."""
    values = np.asarray(case.reference(parameters, points))
    return values[:, 0] if len(case.unknowns) == 1 and values.ndim == 2 else values


def problem(case: Case, draw: int) -> flm.PDE:
    """The problem with readings of one draw."""
    rng = np.random.default_rng([14, draw])
    low, high = np.asarray(case.domain.bounds, float).T
    points = low + (high - low) * rng.uniform(size=(case.count, len(low)))
    clean = answer(case, case.truth, points) if case.observed is None else case.observed(case.truth, points)
    sigma = case.noise * np.abs(clean).max()
    values = clean + sigma * rng.normal(size=case.count)
    readings = flm.data(points, values, sigma=sigma if case.told else None, observe=case.observe)
    return flm.PDE(
        case.domain, case.equation, [*case.conditions, readings], unknowns=case.unknowns, parameters=case.learn
    )


NUM_CASES = len(cases())


def run(index: int) -> dict:
    """Solve one draw of one problem, all problems before a second draw; a record of how it went."""
    draw, place = divmod(index, NUM_CASES)
    name, case = list(cases().items())[place]
    made = problem(case, draw)
    cpu = time.process_time()
    solution = flm.solve(made, case.tol)
    cpu = time.process_time() - cpu
    ratios, values = {}, {}
    for key, parameter in solution.parameters.items():
        if callable(case.truth[key]):
            grid = np.linspace(*parameter.bounds[0], 101)
            wrong, error = np.abs(parameter.value(grid) - case.truth[key](grid)), parameter.standard_error(grid)
            ratios[key] = float(np.sqrt(np.mean((wrong / error) ** 2)))
            values[f"{key}, covered"] = float(np.mean(wrong <= 1.96 * error))
        else:
            values[key] = parameter.value
            ratios[key] = abs(parameter.value - case.truth[key]) / parameter.standard_error
    error = None
    if case.determined and case.same_elsewhere:
        error = solution.errors(lambda points: answer(case, values, points)).relative_l2
    return {
        "family": "inverse" if case.determined else "inconsistent, inverse",
        "name": name,
        "draw": draw,
        "tol": case.tol,
        "status": solution.status.word,
        "determined": case.determined,
        "ratios": ratios,
        "values": values,
        "estimate": solution.error_estimate,
        "error": error,
        "columns": solution.num_columns,
        "cpu": round(cpu, 2),
    }


def parameters_table(records: list[dict]) -> str:
    """How far parameters are from the true ones, in standard errors."""
    known = [r for r in records if r.get("determined")]
    numbers = [v for r in known for k, v in r["ratios"].items() if f"{k}, covered" not in r["values"]]
    covered = [v for r in known for k, v in r["values"].items() if k.endswith("covered")]
    if not numbers:
        return ""
    within = float(np.mean(np.array(numbers) <= 2))
    text = f"Within two standard errors: {within:.1%} of {len(numbers)} numbers, largest ratio {max(numbers):.2f}."
    return text + (f" 95 % bands of functions cover {np.mean(covered):.1%}." if covered else "")
