"""Problems as a stranger writes them, each listed with its numbers, for `honesty.py`: list 2028.

They were written without regard to how the solver works, and the solver was mended after they had been run: formulas that jump,
re-entrant corners between oblique sides. So they guard what was mended, and are no fresh test of it. Answers are formulas, or
Chebyshev lines in space with SciPy's Radau in time, which share no line with this library.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.integrate
import scipy.special
from scipy.optimize import brentq

import flm

PI = np.pi
SQUARE = flm.Box(x=(0, 1), y=(0, 1))


class Listed(NamedTuple):
    """A family whose problems are written down one by one, with their tolerances."""

    name: str
    problems: tuple[tuple[Callable[[], flm.PDE], float], ...]
    solvable: bool = True
    scattered: bool = False  # compared at random points: singular ones are no points of a grid
    year: int = 2028

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.problems)

    def problem(self, number: int) -> tuple[flm.PDE, float]:
        """The problem of that number and its tolerance."""
        make, tol = self.problems[number]
        return make(), tol


class Lines:
    """Chebyshev points in space and Radau's method in time.

    Args:
        ends: of space.
        end: of time.
        starts: of each unknown, functions of x.
        rates: of t, the unknowns (K, n), d(values, order) and x.
        sides: for each unknown that has any, (a, b, g) at the lower and at the upper end: a u + b u_x = g(t).
        n: points.
    """

    left = 1e-7  # how far it may be from the truth

    def __init__(self, ends, end, starts, rates, sides, n=80):
        self.starts, self.rates, self.sides, self.n, self.end = starts, rates, sides, n, end
        k = np.arange(n)
        z, c = np.cos(PI * k / (n - 1)), np.r_[2, np.ones(n - 2), 2] * (-1.0) ** k
        apart = z[:, None] - z + np.eye(n)
        D = np.outer(c, 1 / c) / apart
        self.x, self.D = (
            (sum(ends) + (ends[1] - ends[0]) * z) / 2,
            (D - np.diag(D.sum(axis=1))) * 2 / (ends[1] - ends[0]),
        )
        self.run = None

    def d(self, values, order):
        """A derivative by x."""
        return values if order == 0 else self.d(self.D @ values, order - 1)

    def whole(self, t, state):
        """All values, those at the ends from the conditions there."""
        full, at = np.zeros((len(self.starts), self.n)), 0
        for k in range(len(self.starts)):
            inner = slice(1, -1) if k in self.sides else slice(None)
            count = len(self.x[inner])
            full[k, inner], at = state[at : at + count], at + count
            if k in self.sides:
                matrix, right = np.zeros((2, 2)), np.zeros(2)
                for row, (place, (a, b, g)) in enumerate(zip((-1, 0), self.sides[k], strict=True)):
                    matrix[row] = b * self.D[place, [-1, 0]]
                    matrix[row, row] += a
                    right[row] = g(t) - b * self.D[place, 1:-1] @ full[k, 1:-1]
                full[k, [-1, 0]] = np.linalg.solve(matrix, right)
        return full

    def slopes(self, t, state):
        """What Radau's method integrates."""
        found = self.rates(t, self.whole(t, state), self.d, self.x)
        return np.concatenate([rate[1:-1] if k in self.sides else rate for k, rate in enumerate(found)])

    def __call__(self, unknown, x, t):
        """Values at scattered points, of which few have different times."""
        if self.run is None:
            first = [s(self.x) + 0 * self.x for s in self.starts]
            state = np.concatenate([v[1:-1] if k in self.sides else v for k, v in enumerate(first)])
            self.run = scipy.integrate.solve_ivp(
                self.slopes, (0.0, self.end), state, "Radau", rtol=1e-8, atol=1e-9, dense_output=True
            )
        x, t = np.asarray(x, float), np.asarray(t, float)
        out, weights = np.zeros(x.shape), (-1.0) ** np.arange(self.n)
        weights[[0, -1]] /= 2
        for time in np.unique(t):
            values, at = self.whole(time, self.run.sol(time))[unknown], t == time
            apart = x[at][:, None] - self.x
            hit = np.abs(apart) < 1e-14
            share = weights / np.where(hit, 1.0, apart)
            out[at] = np.where(hit.any(axis=1), values[hit.argmax(axis=1)], (share @ values) / share.sum(axis=1))
        return out


ZERO = (1.0, 0.0, lambda t: 0.0)
STILL = (0.0, 1.0, lambda t: 0.0)


def along(low, high, end, equation, start, sides, exact):
    """One unknown on a line in time; sides are conditions."""
    domain = flm.Box(x=(low, high), t=(0, end))
    return flm.PDE(domain, equation, [flm.initial(start), *sides], exact=exact)


def ends(low, high, make=flm.dirichlet, unknown="u"):
    """The same condition at both ends."""
    return [make(f"x={low}", unknown=unknown), make(f"x={high}", unknown=unknown)]


def burgers_wall():
    """A front that runs into a wall."""
    lines = Lines((0, 1), 1.0, [lambda x: np.sin(PI * x)],
                  lambda t, u, d, x: [0.01 * d(u[0], 2) - u[0] * d(u[0], 1)], {0: (ZERO, ZERO)}, 160)  # fmt: skip
    return along(0, 1, 1.0, lambda u, u_t, u_x, u_xx: u_t + u * u_x - 0.01 * u_xx, lambda x: jnp.sin(PI * x),
                 ends(0, 1), lambda x, t: lines(0, x, t))  # fmt: skip


def burgers_still():
    """Burgers' equation between sides without slope."""
    lines = Lines((0, 1), 1.0, [lambda x: 1 + np.cos(PI * x)],
                  lambda t, u, d, x: [0.05 * d(u[0], 2) - u[0] * d(u[0], 1)], {0: (STILL, STILL)})  # fmt: skip
    return along(0, 1, 1.0, lambda u, u_t, u_x, u_xx: u_t + u * u_x - 0.05 * u_xx, lambda x: 1 + jnp.cos(PI * x),
                 ends(0, 1, flm.neumann), lambda x, t: lines(0, x, t))  # fmt: skip


def burgers_travelling():
    """A front of width 0.02 that moves at speed 1/2."""
    u = lambda x, t: 0.5 * (1 - jnp.tanh((x - 0.3 - 0.5 * t) / 0.02))
    sides = [flm.dirichlet("x=0", lambda t: u(0.0, t)), flm.dirichlet("x=1", lambda t: u(1.0, t))]
    return along(0, 1, 1.0, lambda u, u_t, u_x, u_xx: u_t + u * u_x - 0.005 * u_xx, lambda x: u(x, 0.0), sides, u)


def robin_rod():
    """A rod that loses heat at both ends, from 1: cosines with m tan(m / 2) = 1."""
    root = lambda k: brentq(lambda m: m * np.sin(m / 2) - np.cos(m / 2), 2 * k * PI, (2 * k + 1) * PI)
    m = np.array([root(k) for k in range(400)])
    weights = 2 * np.sin(m / 2) / m / (0.5 + np.sin(m) / (2 * m))

    def exact(x, t):
        waves = np.cos(np.multiply.outer(np.asarray(x) - 0.5, m)) * np.exp(-np.multiply.outer(np.asarray(t), m**2))
        return np.where(np.asarray(t) > 0, waves @ weights, 1.0)  # four hundred waves miss the start at the ends

    sides = [flm.robin("x=0", 1.0, 1.0), flm.robin("x=1", 1.0, 1.0)]
    return along(0, 1, 1.0, lambda u_t, u_xx: u_t - u_xx, 1.0, sides, exact)


def heated_late():
    """A rod whose left end is heated from t = 1/2 on."""
    k = PI * np.arange(1, 1200)

    def exact(x, t):
        x, t = np.asarray(x), np.asarray(t)
        late = np.exp(-0.1 * np.multiply.outer(np.maximum(t - 0.5, 0), k**2))
        hot = np.where(t > 0.5, 1 - x - (np.sin(np.multiply.outer(x, k)) * late) @ (2 / k), 0.0)
        return np.sin(PI * x) * np.exp(-0.1 * PI**2 * t) + hot

    sides = [flm.dirichlet("x=0", lambda t: jnp.where(t > 0.5, 1.0, 0.0)), flm.dirichlet("x=1")]
    return along(0, 1, 1.0, lambda u_t, u_xx: u_t - 0.1 * u_xx, lambda x: jnp.sin(PI * x), sides, exact)


def switched_source():
    """u'' jumps where a formula says so."""
    at, slope = 0.3, -0.3 + 0.3**2 / 2
    exact = lambda x: jnp.where(x < at, x**2 / 2 + slope * x, at**2 / 2 + slope * at + (at + slope) * (x - at))
    equation = lambda x, u_xx: u_xx - jnp.where(x < at, 1.0, 0.0)
    return flm.PDE(flm.Box(x=(0, 1)), equation, [flm.dirichlet("boundary")], exact=exact)


def switched_force():
    """u' + u = 1 from t = 1 on."""
    exact = lambda t: jnp.where(t > 1, 1 - jnp.exp(1 - t), 0.0)
    equation = lambda t, u, u_t: u_t + u - jnp.where(t > 1, 1.0, 0.0)
    return flm.PDE(flm.Box(t=(0, 3)), equation, [flm.initial(0.0)], exact=exact)


def turning(epsilon):
    """A layer inside, where the wind changes its sign."""
    front = lambda x: scipy.special.erf(np.asarray(x) / np.sqrt(2 * epsilon))
    source = lambda x: epsilon * PI**2 * jnp.cos(PI * x) + PI * x * jnp.sin(PI * x)
    return flm.PDE(
        flm.Box(x=(-1, 1)),
        lambda x, u_x, u_xx: epsilon * u_xx + x * u_x + source(x),
        [flm.dirichlet("x=-1", -2.0), flm.dirichlet("x=1", 0.0)],
        exact=lambda x: np.cos(PI * np.asarray(x)) + front(x) / front(1.0),
    )


def bent(epsilon):
    """A layer inside the slope: |x| rounded."""

    def rounded(x):
        x = np.asarray(x)
        return x * scipy.special.erf(x / np.sqrt(2 * epsilon)) + np.sqrt(2 * epsilon / PI) * np.exp(
            -(x**2) / 2 / epsilon
        )

    return flm.PDE(
        flm.Box(x=(-1, 1)),
        lambda x, u, u_x, u_xx: epsilon * u_xx + x * u_x - u,
        [flm.dirichlet("x=-1", 1.0), flm.dirichlet("x=1", 2.0)],
        exact=lambda x: 0.5 * np.asarray(x) + 1.5 * rounded(x) / rounded(1.0),
    )


def two_parameters(e=1e-6, m=1e-2):
    """Two layers of different widths."""
    a, b = ((-m + s * np.sqrt(m * m + 4 * e)) / (2 * e) for s in (1, -1))
    A, B = np.linalg.solve([[np.exp(-a), 1.0], [1.0, np.exp(b)]], [-1, -1])
    exact = lambda x: 1 + A * jnp.exp(a * (x - 1)) + B * jnp.exp(b * x)
    equation = lambda u, u_x, u_xx: e * u_xx + m * u_x - u + 1
    return flm.PDE(flm.Box(x=(0, 1)), equation, [flm.dirichlet("boundary")], exact=exact)


def lane_emden():
    """A coefficient 2 / x that is singular where the star begins."""
    begin = [flm.on("x=0", lambda u: u - 1), flm.on("x=0", lambda u_x: u_x)]
    equation = lambda x, u, u_x, u_xx: u_xx + 2 / x * u_x + u**5
    return flm.PDE(flm.Box(x=(0, 5)), equation, begin, exact=lambda x: (1 + x**2 / 3) ** -0.5)


def bessel():
    """J_0 to x = 30 from its value and slope at 0."""
    begin = [flm.on("x=0", lambda u: u - 1), flm.on("x=0", lambda u_x: u_x)]
    equation = lambda x, u, u_x, u_xx: x * u_xx + u_x + x * u
    return flm.PDE(flm.Box(x=(0, 30)), equation, begin, exact=scipy.special.j0)


def wedge(turn, angle):
    """r^(pi/angle) in a polygon with a re-entrant corner between oblique sides."""
    rim = turn + np.linspace(0, angle, int(np.ceil(3 * angle / PI)) + 1)
    gap = 2 * PI - angle

    def exact(x, y):
        around = jnp.mod(jnp.arctan2(y, x) - turn + gap / 2, 2 * PI) - gap / 2
        return jnp.sqrt(x**2 + y**2 + 1e-300) ** (PI / angle) * jnp.sin(PI / angle * around)

    region = flm.Polygon(x=[0.0, *np.cos(rim)], y=[0.0, *np.sin(rim)])
    return flm.PDE(region, lambda u_xx, u_yy: u_xx + u_yy, [flm.dirichlet("boundary", exact)], exact=exact)


def absorbing(k=15.0, angle=0.7):
    """A plane wave through a square whose sides let it out."""
    kx, ky = k * np.cos(angle), k * np.sin(angle)
    wave = lambda x, y: jnp.exp(1j * (kx * x + ky * y))
    side = lambda x, y, nx, ny, h, h_n: h_n - 1j * k * h - 1j * (kx * nx + ky * ny - k) * wave(x, y)
    return flm.PDE(
        SQUARE, lambda h, h_xx, h_yy: h_xx + h_yy + k**2 * h, [flm.on("boundary", side)],
        unknowns=("h",), complex_unknowns=("h",), exact={"h": wave},
    )  # fmt: skip


def liouville():
    """Δu = e^u."""
    u = lambda x, y: jnp.log(8 / (1 - x**2 - y**2) ** 2)
    around, box = [flm.dirichlet("boundary", u)], flm.Box(x=(-0.5, 0.5), y=(-0.5, 0.5))
    return flm.PDE(box, lambda u, u_xx, u_yy: u_xx + u_yy - jnp.exp(u), around, exact=u)


def resonant():
    """A force at the frequency of a string with fixed ends."""
    return flm.PDE(flm.Box(x=(0, 1)), lambda u, u_xx: u_xx + PI**2 * u - 1, [flm.dirichlet("boundary")])


def bratu_beyond():
    """Bratu's equation beyond its turning point."""
    return flm.PDE(flm.Box(x=(0, 1)), lambda u, u_xx: u_xx + 4 * jnp.exp(u), [flm.dirichlet("boundary")])


def blow_up():
    """u' = u^2 past its pole."""
    return flm.PDE(flm.Box(t=(0, 2)), lambda u, u_t: u_t - u**2, [flm.initial(1.0)])


FAMILIES = (
    Listed("strangers' evolution", (
        (burgers_wall, 1e-5), (burgers_still, 1e-6), (burgers_travelling, 1e-6), (robin_rod, 1e-6),
    ), scattered=True),
    Listed("formulas that jump", ((switched_source, 1e-8), (switched_force, 1e-8), (heated_late, 1e-3))),
    Listed("strangers' layers", (
        (lambda: turning(1e-4), 1e-8), (lambda: turning(1e-7), 1e-6), (lambda: bent(1e-4), 1e-8),
        (lambda: bent(1e-6), 1e-6), (two_parameters, 1e-8), (lane_emden, 1e-8), (bessel, 1e-8),
    )),
    Listed("oblique corners", ((lambda: wedge(0.35, 1.5 * PI), 1e-3), (lambda: wedge(0.0, 1.25 * PI), 1e-4)), scattered=True),
    Listed("strangers' planes", ((absorbing, 1e-6), (liouville, 1e-8))),
    Listed("strangers' impossible", ((resonant, 1e-6), (bratu_beyond, 1e-6), (blow_up, 1e-6)), solvable=False),
)  # fmt: skip
