"""Inverse problems with known parameters for `honesty.py`: are standard errors honest?

Readings come from closed forms or from SciPy, never from the solver. Recorded are |found - true| / standard error of every
parameter (functions: root mean square over a grid), and the true error of the answer *at the parameters found*, against the
same closed form or SciPy. The last problems are not determined by their readings.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from scipy.integrate import cumulative_trapezoid, solve_bvp, solve_ivp

import flm
from flm.language.arguments import Named

PI = np.pi
UNIT, SQUARE, STRIP = flm.Box(x=(0, 1)), flm.Box(x=(0, 1), y=(0, 1)), flm.Box(x=(0, 1), t=(0, 1))
ZEROS = [flm.dirichlet("x=0"), flm.dirichlet("x=1")]
COLD = [*ZEROS, flm.dirichlet("y=0"), flm.dirichlet("y=1")]
DRAWS = 2  # of the noise


@dataclass(frozen=True)
class Case:
    """An inverse problem whose parameters are known.

    Args:
        learn: where the parameters start.
        truth: their true values; functions of one array for unknown functions.
        reference: (parameters, points) -> unknowns (P, K).
        reading: the number of the unknown that is read.
        noise: standard deviation, of the largest reading; `told` says whether the solver is told it.
        anywhere: whether the reference holds at other parameters than the true ones.
    """

    domain: flm.Box
    equation: object
    conditions: list
    learn: dict
    truth: dict
    reference: Callable
    unknowns: tuple = ("u",)
    reading: int = 0
    count: int = 100
    noise: float = 0.01
    told: bool = True
    tol: float = 1e-6
    anywhere: bool = True

    def problem(self, draw: int) -> flm.PDE:
        """The problem with readings of one draw."""
        rng = np.random.default_rng([14, draw])
        low, high = np.asarray(self.domain.bounds, float).T
        points = low + (high - low) * rng.uniform(size=(self.count, len(low)))
        clean = self.reference(self.truth, points)[:, self.reading]
        sigma = self.noise * np.abs(clean).max()
        values = clean + sigma * rng.normal(size=self.count)
        observe = Named(lambda value: value, (self.unknowns[self.reading],))
        readings = flm.data(points, values, sigma=sigma if self.told else None, observe=observe)
        conditions = [*self.conditions, readings]
        return flm.PDE(self.domain, self.equation, conditions, unknowns=self.unknowns, parameters=self.learn)


def formula(f: Callable) -> Callable:
    """A reference with one unknown from a closed form of the parameters and of each axis."""
    return lambda p, points: np.asarray(f(p, *points.T))[:, None]


def states(rates: Callable, start: tuple, end: float, learn: dict, truth: dict, **options) -> Case:
    """y' = rates(y, p) from its start; SciPy is the reference."""
    unknowns, names = tuple("uvw"[: len(start)]), tuple(learn)

    def equation(i: int) -> Named:
        def residual(rate, *values):
            return rate - rates(values[: len(start)], dict(zip(names, values[len(start) :], strict=True)))[i]

        return Named(residual, (f"{unknowns[i]}_t", *unknowns, *names))

    def reference(p: dict, points: np.ndarray) -> np.ndarray:
        right = lambda _, y: np.array(rates(y, p), float)
        found = solve_ivp(right, (0, end), start, "DOP853", rtol=1e-12, atol=1e-13, dense_output=True)
        return found.sol(points[:, 0]).T

    conditions = [flm.initial(value, unknown=name) for name, value in zip(unknowns, start, strict=True)]
    equations, domain = [equation(i) for i in range(len(start))], flm.Box(t=(0, end))
    return Case(domain, equations, conditions, learn, truth, reference, unknowns, **options)


def bratu(p: dict, points: np.ndarray) -> np.ndarray:
    right, x = lambda x, y: np.array([y[1], -p["k"] * np.exp(y[0])]), np.linspace(0, 1, 101)
    ends = lambda a, b: np.array([a[0], b[0]])
    found = solve_bvp(right, ends, x, np.zeros((2, 101)), tol=1e-10, max_nodes=20000)
    return found.sol(points[:, 0])[:1].T


def rod(a: Callable) -> Callable:
    """-(a u')' = 1 between cold ends: a u' = c - x."""
    x = np.linspace(0, 1, 40001)
    one, two = (cumulative_trapezoid(f / a(x), x, initial=0) for f in (np.ones_like(x), x))
    u = two[-1] / one[-1] * one - two
    return lambda _, points: np.interp(points[:, 0], x, u)[:, None]


def up(start: float, **more) -> flm.Learn:
    """A positive parameter."""
    return flm.Learn(start, lower=0, **more)


def numbers() -> dict[str, Case]:
    """Problems with unknown numbers."""
    lump = lambda x, y: jnp.sin(PI * x) * jnp.sin(PI * y)
    shape = lambda *x: np.prod(np.sin(PI * np.stack(x)), axis=0)
    sine = flm.initial(lambda x: jnp.sin(PI * x))
    around = [flm.initial(lambda x: jnp.sin(2 * PI * x)), flm.periodic("x")]
    front = lambda n, x, t, tanh: 0.5 * (1 - tanh((x - 0.5 * t - 0.3) / (4 * n)))
    moving = [flm.dirichlet(f"x={e}", lambda t, n, e=float(e): front(n, e, t, jnp.tanh)) for e in (0, 1)]
    heat = Case(
        STRIP, lambda u_t, u_xx, k: u_t - k * u_xx, [sine, *ZEROS], {"k": up(0.5)}, {"k": 0.1},
        formula(lambda p, x, t: np.sin(PI * x) * np.exp(-p["k"] * PI**2 * t)),
    )  # fmt: skip
    return {
        "heat, noise not told": replace(heat, told=False),
        "heat, precise readings": replace(heat, learn={"k": up(0.02)}, noise=1e-6, tol=1e-3),
        "decay": states(lambda y, p: [-p["k"] * y[0]], (1.0,), 3, {"k": flm.Learn(0.1)}, {"k": 1.7}, count=20),
        "logistic growth": states(
            lambda y, p: [p["r"] * y[0] * (1 - y[0] / p["c"])], (0.1,), 8, {"r": up(0.5), "c": flm.Learn(1.0, lower=0.1)},
            {"r": 1.2, "c": 3.0}, count=40, noise=0.03,
        ),
        "oscillator from its speed": states(
            lambda y, p: [y[1], -p["d"] * y[1] - p["k"] * y[0]], (1.0, 0.0), 6, {"d": up(1.0), "k": up(1.0)},
            {"d": 0.4, "k": 2.3}, reading=1, noise=0.02,
        ),
        "Lotka-Volterra": states(
            lambda y, p: [p["a"] * y[0] - p["b"] * y[0] * y[1], p["d"] * y[0] * y[1] - p["c"] * y[1]], (1.0, 0.8), 10,
            {name: up(1.0) for name in "abcd"}, {"a": 1.1, "b": 0.9, "c": 1.2, "d": 0.8}, noise=0.03,
        ),
        "epidemic": states(
            lambda y, p: [-p["b"] * y[0] * y[1], p["b"] * y[0] * y[1] - p["g"] * y[1]], (0.99, 0.01), 20,
            {"b": up(0.8), "g": up(0.5)}, {"b": 1.0, "g": 0.3}, reading=1, count=60, noise=0.02,
        ),
        "enzyme": states(
            lambda y, p: [-p["v"] * y[0] / (p["m"] + y[0])], (2.0,), 6, {"v": up(0.5), "m": flm.Learn(1.0, lower=0.01)},
            {"v": 0.9, "m": 0.4}, count=60,
        ),
        "van der Pol": states(
            lambda y, p: [y[1], p["m"] * (1 - y[0] ** 2) * y[1] - y[0]], (2.0, 0.0), 10, {"m": up(1.5)}, {"m": 2.0},
            count=80, noise=0.05,
        ),
        "Lorenz, briefly": states(
            lambda y, p: [p["s"] * (y[1] - y[0]), y[0] * (p["r"] - y[2]) - y[1], y[0] * y[1] - p["b"] * y[2]],
            (1.0, 1.0, 1.0), 1.5, {"s": flm.Learn(9.0), "r": flm.Learn(27.0), "b": flm.Learn(2.5)},
            {"s": 10.0, "r": 28.0, "b": 8 / 3}, count=60,
        ),
        "source strength": Case(
            SQUARE, lambda x, y, u_xx, u_yy, q: u_xx + u_yy + q * lump(x, y), COLD, {"q": flm.Learn(0.0)}, {"q": 3.0},
            formula(lambda p, x, y: p["q"] * shape(x, y) / (2 * PI**2)), count=30, noise=0.05,
        ),
        "transport and diffusion": Case(
            STRIP, lambda u_t, u_x, u_xx, c, n: u_t + c * u_x - n * u_xx, around, {"c": flm.Learn(0.3), "n": up(0.1)},
            {"c": 0.6, "n": 0.02},
            formula(lambda p, x, t: np.exp(-p["n"] * 4 * PI**2 * t) * np.sin(2 * PI * (x - p["c"] * t))), noise=0.02,
        ),
        "speed of sound": Case(
            STRIP, lambda u_tt, u_xx, c: u_tt - c**2 * u_xx,
            [flm.initial(lambda x: jnp.sin(PI * x), velocity=0.0), *ZEROS], {"c": up(0.8)}, {"c": 1.1},
            formula(lambda p, x, t: np.sin(PI * x) * np.cos(PI * p["c"] * t)), noise=0.05,
        ),
        "loss at an end": Case(
            UNIT, lambda u, u_xx: u_xx - u, [flm.dirichlet("x=0", 1.0), flm.on("x=1", lambda u, u_n, h: u_n + h * u)],
            {"h": up(1.0)}, {"h": 3.0},
            formula(lambda p, x: (
                (np.cosh(1 - x) + p["h"] * np.sinh(1 - x)) / (np.cosh(1.0) + p["h"] * np.sinh(1.0))
            )), count=60,
        ),
        "Bratu": Case(
            UNIT, lambda u, u_xx, k: u_xx + k * jnp.exp(u), ZEROS, {"k": up(1.0, upper=3.4)}, {"k": 2.0}, bratu,
            count=50, noise=0.02,
        ),
        "Burgers": Case(
            STRIP, lambda u, u_t, u_x, u_xx, n: u_t + u * u_x - n * u_xx,
            [flm.initial(lambda x, n: front(n, x, 0.0, jnp.tanh)), *moving],
            {"n": flm.Learn(0.1, lower=0.01)}, {"n": 0.05},
            formula(lambda p, x, t: front(p["n"], x, t, np.tanh)), noise=0.02,
        ),
        "absorption in a cube": Case(
            flm.Box(x=(0, 1), y=(0, 1), z=(0, 1)),
            lambda x, y, z, u, u_xx, u_yy, u_zz, k: u_xx + u_yy + u_zz - k * u + 40 * lump(x, y) * jnp.sin(PI * z),
            [flm.dirichlet("boundary")], {"k": up(1.0)}, {"k": 10.0},
            formula(lambda p, *x: 40 * shape(*x) / (3 * PI**2 + p["k"])), tol=1e-4,
        ),
    }  # fmt: skip


def functions() -> dict[str, Case]:
    """Problems with an unknown function; their references hold at the true one."""
    wavy, hill = lambda x: 1 + 0.5 * np.sin(2 * PI * x), lambda x: 1 + 2 * np.exp(-20 * (x - 0.4) ** 2)
    field = {"count": 200, "anywhere": False}
    along = Case(
        UNIT, lambda a, a_x, u_x, u_xx: a_x * u_x + a * u_xx + 1, ZEROS, {"a": up(1.0, axes=("x",))}, {"a": wavy},
        rod(wavy), **field,
    )  # fmt: skip
    return {
        "a(x) of a rod": along,
        "a(x) of a rod, noise not told": replace(along, truth={"a": hill}, reference=rod(hill), told=False),
        "a source f(x)": Case(
            UNIT, lambda u_xx, f: u_xx + f, ZEROS, {"f": flm.Learn(0.0, axes=("x",))},
            {"f": lambda x: PI**2 * np.sin(PI * x) + np.sin(3 * PI * x)},
            formula(lambda _, x: np.sin(PI * x) + np.sin(3 * PI * x) / (9 * PI**2)), **field,
        ),
        "a drive q(t)": Case(
            flm.Box(t=(0, 4)), lambda u, u_t, q: u_t + u - q, [flm.initial(1.0)], {"q": flm.Learn(1.0, axes=("t",))},
            {"q": lambda t: 1 + np.sin(2 * t)},
            formula(lambda _, t: 1 + (np.sin(2 * t) - 2 * np.cos(2 * t) + 2 * np.exp(-t)) / 5), **field,
        ),
    }  # fmt: skip


def undetermined() -> dict[str, Case]:
    """Problems whose readings leave their parameters open."""
    return {
        "a product alone": states(
            lambda y, p: [-p["a"] * p["b"] * y[0]], (1.0,), 3, {"a": flm.Learn(1.0), "b": flm.Learn(1.0)},
            {"a": 1.0, "b": 1.0}, count=40,
        ),
        "one that nothing sees": states(
            lambda y, p: [-y[0], -p["k"] * y[1]], (1.0, 1.0), 3, {"k": flm.Learn(1.0)}, {"k": 2.0}, count=40
        ),
        "fewer readings than parameters": replace(numbers()["logistic growth"], count=1),
    }  # fmt: skip


KNOWN, OPEN = {**numbers(), **functions()}, undetermined()
COUNTS = {"inverse": DRAWS * len(KNOWN), "inverse, undetermined": len(OPEN)}


def run(family: str, number: int) -> dict:
    """Solve one draw of one problem, all problems before a second draw; a record of how it went."""
    cases = KNOWN if family == "inverse" else OPEN
    draw, place = divmod(number, len(cases))
    name, case = list(cases.items())[place]
    made = case.problem(draw)
    cpu = time.process_time()
    solution = flm.solve(made, case.tol)
    cpu = time.process_time() - cpu
    ratios, values, error = {}, {}, None
    for key, parameter in solution.parameters.items():
        if callable(case.truth[key]):
            grid = np.linspace(*parameter.bounds[0], 101)
            wrong, deviation = np.abs(parameter.value(grid) - case.truth[key](grid)), parameter.standard_error(grid)
            ratios[key] = float(np.sqrt(np.mean((wrong / deviation) ** 2)))
            values[f"{key}, covered"] = float(np.mean(wrong <= 1.96 * deviation))
        else:
            values[key] = parameter.value
            ratios[key] = abs(parameter.value - case.truth[key]) / parameter.standard_error
    if family == "inverse" and case.anywhere:
        reference = lambda points: np.squeeze(case.reference(values, points))
        error = solution.errors(reference).relative_l2
    return {
        "family": family,
        "number": number,
        "list": 2025,
        "name": name,
        "tol": case.tol,
        "status": solution.status.word,
        "ratios": ratios,
        "values": values,
        "estimate": solution.error_estimate,
        "error": error,
        "unknown": 1e-10,  # the reference is good to this
        "columns": solution.num_columns,
        "cpu": round(cpu, 2),
    }


def parameters_table(records: list[dict]) -> str:
    """How far parameters are from the true ones, in standard errors."""
    known = [r for r in records if r["family"] == "inverse"]
    ratios = [v for r in known for k, v in r["ratios"].items() if f"{k}, covered" not in r["values"]]
    covered = [v for r in known for k, v in r["values"].items() if k.endswith("covered")]
    if not ratios:
        return ""
    within = float(np.mean(np.array(ratios) <= 2))
    text = f"Within two standard errors: {within:.1%} of {len(ratios)} numbers, largest ratio {max(ratios):.2f}."
    return text + (f" 95 % bands of functions cover {np.mean(covered):.1%}." if covered else "")
