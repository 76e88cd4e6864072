"""Random evolution problems for `honesty.py`: dissipative, dispersive, wave-like, coupled, planar, periodic reactions.

Their reference shares no line with the library: values on a periodic grid, derivatives by numpy's FFT, time by scipy's DOP853 at
1e-11. Sides with values or slopes are reflected to a periodic problem of twice the length. It is computed when somebody asks
for an error, on a grid that doubles until it resolves the solution; `left` is what it does not resolve.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.fft
import scipy.integrate
from honesty_problems import Family
from honesty_systems import everywhere, problem

import flm

MOST = {1: 320, 2: 384}  # points along each axis from which a reference no longer doubles


class Reference:
    """A periodic problem on a grid: rates(t, values, d, x) with d(values, orders) a derivative."""

    def __init__(self, lengths, sizes, low, end, starts, rates):
        self.lengths, self.low, self.end, self.starts, self.rates = lengths, low, end, starts, rates
        self.known, self.left = {}, 1e-10  # its tolerance in time, or the last waves that it has not resolved
        self.resize(sizes)

    def resize(self, sizes):
        self.sizes = sizes
        self.k = [2 * np.pi / a * np.fft.fftfreq(n, 1 / n) for a, n in zip(self.lengths, sizes, strict=True)]
        self.waves = np.meshgrid(*self.k, indexing="ij")
        self.x = np.meshgrid(
            *(b + a * np.arange(n) / n for a, b, n in zip(self.lengths, self.low, sizes, strict=True)), indexing="ij"
        )

    def tail(self, values):
        """The share of the last waves that the two-thirds rule keeps."""
        hat, worst = np.fft.fftn(values), 0.0
        for wave, a, n in zip(self.waves, self.lengths, self.sizes, strict=True):
            k = np.abs(wave) * a / (2 * np.pi)
            worst = max(worst, np.abs(hat[(k > 0.28 * n) & (k < n / 3)]).max() / np.abs(hat).max())
        return worst

    def d(self, values, orders):
        """A derivative by the FFT; the last third of the waves is dropped."""
        hat = np.fft.fftn(values)
        for wave, order, a, n in zip(self.waves, orders, self.lengths, self.sizes, strict=True):
            hat = hat * (1j * wave) ** order * (np.abs(wave) < 2 * np.pi / a * n / 3)
        return np.fft.ifftn(hat).real

    def solved(self, times, most):
        """Values at increasing times: each is the end of a run of its own, since dense output has a lower order.

        It ends at the first of every eighth of the times whose last waves exceed `most`."""
        shape = (len(self.starts), *self.sizes)
        state = np.stack([np.broadcast_to(s(*self.x), self.sizes) for s in self.starts]).ravel()
        right = lambda t, y: np.stack(self.rates(t, y.reshape(shape), self.d, self.x)).ravel()
        now, out, every = 0.0, [], max(len(times) // 8, 1)
        for i, time_ in enumerate(times):
            if time_ > now:
                run = scipy.integrate.solve_ivp(right, (now, time_), state, "DOP853", rtol=1e-11, atol=1e-12)
                state, now = run.y[:, -1], time_
            out.append(state.reshape(shape))
            if i % every == 0 and max(self.tail(v) for v in out[-1]) > most:
                break
        return out

    def at(self, times):
        """Values by time, computed for the times that are asked for together; the grid doubles until it resolves them."""
        if not set(times) <= set(self.known):
            found = []
            while len(found) < len(times):
                if found:
                    self.resize(tuple(2 * n for n in self.sizes))
                found = self.solved(times, 1e-10 if self.sizes[0] < MOST[len(self.sizes)] else np.inf)
            looked_at = found[:: max(len(found) // 8, 1)]
            self.left = max(self.left, *(self.tail(v) for values in looked_at for v in values))
            self.known.update(zip(times, found, strict=True))
        return self.known

    def __call__(self, component, t, *x, take=lambda values, component: values[component]):
        """One unknown at scattered points; `take` finds it among the values on the grid."""
        t, x = np.asarray(t, float), [np.asarray(xj, float) for xj in x]
        times, out = np.unique(t), np.zeros(t.shape)
        known = self.at(tuple(times))
        for time_ in times:
            at = t == time_
            hat = np.fft.fftn(take(known[time_], component), norm="forward")
            tables = [np.exp(1j * np.outer(xj[at] - low, k)) for xj, k, low in zip(x, self.k, self.low, strict=True)]
            path = "pi,i->p" if len(x) == 1 else "pi,pj,ij->p"
            out[at] = np.einsum(path, *tables, hat, optimize=True).real
        return out


def series(rng, kind, length, terms=4, size=1.0):
    """A random low series that fits the sides: periodic, sines or cosines; for NumPy and JAX."""
    k = np.arange(1, terms + 1)
    a, b = rng.normal(size=(2, terms)) / k * size
    w = (2 if kind == "periodic" else 1) * np.pi / length * k
    cos = kind != "sine"
    sin = kind != "cosine"

    def f(x, xp=jnp):
        return sum(cos * a[i] * xp.cos(w[i] * x) + sin * b[i] * xp.sin(w[i] * x) for i in range(terms))

    return f


def sides(kind, length, unknowns=("u",)):
    """Conditions along x."""
    if kind == "periodic":
        return [flm.periodic("x")]
    make = flm.dirichlet if kind == "sine" else flm.neumann
    return [make(end, unknown=u) for end in ("x=min", "x=max") for u in unknowns]


def line(rng, kinds, n):
    """Kind of sides, length, end of time and the reference's length and size."""
    kind, length = str(rng.choice(kinds)), float(rng.uniform(1.0, 4.0))
    return kind, length, (length if kind == "periodic" else 2 * length), n


def dissipative(rng):
    kind, length, period, n = line(rng, ("periodic", "sine", "cosine"), 160)
    end, nu = float(rng.uniform(0.5, 2.0)), float(rng.uniform(0.005, 0.05)) * length**2 / 4
    grow, bend, force = float(rng.uniform(-1, 2)), float(rng.uniform(0, 1)), float(rng.normal())
    steep = float(rng.uniform(0, 0.4)) if kind != "cosine" else 0.0
    start, source, rate = series(rng, kind, length), series(rng, kind, length), float(rng.uniform(1, 4))
    reference = Reference(
        (period,), (n,), (0.0,), end, [lambda x: start(x, np)],
        lambda t, y, d, x: [
            nu * d(y[0], (2,)) - steep * y[0] * d(y[0], (1,)) + grow * y[0] - bend * d(y[0], (0,)) ** 3
            + force * np.cos(rate * t) * source(x[0], np)
        ],
    )  # fmt: skip
    return judged(
        reference,
        flm.Box(x=(0, length), t=(0, end)),
        lambda x, t, u, u_t, u_x, u_xx: (
            u_t - nu * u_xx + steep * u * u_x - grow * u + bend * u**3 - force * jnp.cos(rate * t) * source(x)
        ),
        [flm.initial(lambda x: start(x)), *sides(kind, length)],
        exact=lambda x, t: reference(0, t, x),
    )


def dispersive(rng):
    length, end = float(rng.uniform(2.0, 4.0)), float(rng.uniform(0.3, 1.0))
    delta, speed = float(rng.uniform(0.001, 0.004)) * (length / 2) ** 3, float(rng.uniform(0.5, 1.5))
    start = series(rng, "periodic", length, 2, 0.7)
    if rng.integers(2):  # Korteweg and de Vries
        reference = Reference(
            (length,), (144,), (0.0,), end, [lambda x: start(x, np)],
            lambda t, y, d, x: [-speed * d(y[0], (0,)) * d(y[0], (1,)) - delta * d(y[0], (3,))],
        )  # fmt: skip
        return judged(
            reference,
            flm.Box(x=(0, length), t=(0, end)),
            lambda u, u_t, u_x, u_xxx: u_t + speed * u * u_x + delta * u_xxx,
            [flm.initial(lambda x: start(x)), flm.periodic("x")],
            exact=lambda x, t: reference(0, t, x),
        )
    half = 0.02 * length**2
    other, sign = series(rng, "periodic", length, 2, 0.7), float(rng.choice([-1.0, 1.0]))
    cubic = lambda a, b, d: sign * (d(a, (0,)) ** 2 + d(b, (0,)) ** 2)
    reference = Reference(
        (length,), (128,), (0.0,), end, [lambda x: 1 + start(x, np), lambda x: other(x, np)],
        lambda t, y, d, x: [
            -half * d(y[1], (2,)) - cubic(y[0], y[1], d) * y[1],
            half * d(y[0], (2,)) + cubic(y[0], y[1], d) * y[0],
        ],
    )  # fmt: skip
    return judged(
        reference,
        flm.Box(x=(0, length), t=(0, end)),
        lambda h, h_t, h_xx: 1j * h_t + half * h_xx + sign * abs(h) ** 2 * h,
        [flm.initial(lambda x: 1 + start(x) + 1j * other(x), unknown="h"), flm.periodic("x")],
        unknowns=("h",),
        complex_unknowns=("h",),
        exact={"h": lambda x, t: reference(0, t, x) + 1j * reference(1, t, x)},
    )


def wavelike(rng):
    kind, length, period, n = line(rng, ("periodic", "sine", "cosine"), 96)
    end, c, mass = float(rng.uniform(1, 3)), float(rng.uniform(0.5, 1.5)), float(rng.uniform(0, 4))
    cubic, damp = float(rng.uniform(-0.3, 1)), float(rng.uniform(0, 0.5))
    start, speed = series(rng, kind, length, 3), series(rng, kind, length, 3)
    reference = Reference(
        (period,), (n,), (0.0,), end, [lambda x: start(x, np), lambda x: speed(x, np)],
        lambda t, y, d, x: [
            y[1], c**2 * d(y[0], (2,)) - mass * y[0] - cubic * d(y[0], (0,)) ** 3 - damp * y[1]
        ],
    )  # fmt: skip
    return judged(
        reference,
        flm.Box(x=(0, length), t=(0, end)),
        lambda u, u_t, u_tt, u_xx: u_tt - c**2 * u_xx + mass * u + cubic * u**3 + damp * u_t,
        [flm.initial(lambda x: start(x), velocity=lambda x: speed(x)), *sides(kind, length)],
        exact=lambda x, t: reference(0, t, x),
    )


def coupled(rng):
    kind, length, period, n = line(rng, ("periodic", "cosine"), 96)
    end, a, b = float(rng.uniform(0.5, 3)), float(rng.uniform(0.05, 0.2)), float(rng.uniform(0.5, 1.0))
    slow, fast = float(rng.uniform(0.002, 0.01)) * length**2, float(rng.uniform(0.01, 0.05)) * length**2
    one, two = series(rng, kind, length, 3, 0.1), series(rng, kind, length, 3, 0.1)
    reference = Reference(
        (period,), (n,), (0.0,), end, [lambda x: a + b + one(x, np), lambda x: b / (a + b) ** 2 + two(x, np)],
        lambda t, y, d, x: [
            slow * d(y[0], (2,)) + a - y[0] + d(y[0], (0,)) ** 2 * y[1],
            fast * d(y[1], (2,)) + b - d(y[0], (0,)) ** 2 * y[1],
        ],
    )  # fmt: skip
    return judged(
        reference,
        flm.Box(x=(0, length), t=(0, end)),
        [
            lambda u, v, u_t, u_xx: u_t - slow * u_xx - a + u - u**2 * v,
            lambda u, v, v_t, v_xx: v_t - fast * v_xx - b + u**2 * v,
        ],
        [
            flm.initial(lambda x: a + b + one(x)),
            flm.initial(lambda x: b / (a + b) ** 2 + two(x), unknown="v"),
            *sides(kind, length, ("u", "v")),
        ],
        unknowns=("u", "v"),
        exact={"u": lambda x, t: reference(0, t, x), "v": lambda x, t: reference(1, t, x)},
    )


def planar(rng):
    end, nu = float(rng.uniform(0.5, 1.5)), float(rng.uniform(0.01, 0.05))
    f, g, size = series(rng, "periodic", 2 * np.pi, 2), series(rng, "periodic", 2 * np.pi, 2), 2 * np.pi
    start = lambda x, y, xp=jnp: 0.7 * f(x, xp) * g(y, xp) + 0.3 * f(x + y, xp)
    domain, around = flm.Box(x=(0, size), y=(0, size), t=(0, end)), [flm.periodic("x"), flm.periodic("y")]
    laplace = lambda y, d: d(y, (2, 0)) + d(y, (0, 2))
    back = lambda hat: scipy.fft.ifftn(hat).real

    def low_waves(values):
        """Coefficients without the last third of the waves, and |k|^2."""
        kx, ky = reference.waves
        return (np.maximum(abs(kx), abs(ky)) < reference.sizes[0] / 3) * scipy.fft.fftn(values), kx**2 + ky**2

    if rng.integers(2):  # reaction and transport
        grow, east, north = rng.normal(size=3)
        reference = Reference((size, size), (48, 48), (0.0, 0.0), end, [lambda x, y: start(x, y, np)], None)

        def reaction(t, y, d, x):
            """With one transform there and three back."""
            hat, square = low_waves(y[0])
            kx, ky = reference.waves
            linear = back((grow - nu * square - 1j * east * kx) * hat)
            return [linear - north * y[0] * back(1j * ky * hat) - back(hat) ** 3]

        reference.rates = reaction
        return judged(
            reference,
            domain,
            lambda u, u_t, u_x, u_y, u_xx, u_yy: (
                u_t - nu * (u_xx + u_yy) + east * u_x + north * u * u_y - grow * u + u**3
            ),
            [flm.initial(lambda x, y: start(x, y)), *around],
            exact=lambda x, y, t: reference(0, t, x, y),
        )
    # A flow: the reference follows the vorticity, the problem the velocities and the pressure.
    stream = lambda x, y, xp=np: start(x, y, xp)
    reference = Reference((size, size), (64, 64), (0.0, 0.0), end, [], None)

    def psi_of(w):
        square = reference.waves[0] ** 2 + reference.waves[1] ** 2
        return np.fft.ifftn(np.fft.fftn(w) * np.where(square > 0, 1 / np.where(square > 0, square, 1), 0.0)).real

    reference.starts = [lambda x, y: -laplace(stream(x, y), reference.d)]

    def vorticity(t, y, d, x):
        """With one transform there and five back."""
        w, square = low_waves(y[0])
        kx, ky = reference.waves
        psi = w / np.where(square > 0, square, np.inf)
        return [
            back(-nu * square * w) - back(1j * ky * psi) * back(1j * kx * w) + back(1j * kx * psi) * back(1j * ky * w)
        ]

    reference.rates = vorticity

    def take(values, component):
        psi, d = psi_of(values[0]), reference.d
        u, v = d(psi, (0, 1)), -d(psi, (1, 0))
        if component < 2:
            return (u, v)[component]
        return psi_of(d(u, (1, 0)) ** 2 + 2 * d(u, (0, 1)) * d(v, (1, 0)) + d(v, (0, 1)) ** 2)  # −Δp

    velocity = lambda component, t, x, y: reference(component, t, x, y, take=take)
    grad = lambda j: lambda x, y: jax.vmap(jax.grad(start, j))(x, y)
    return judged(
        reference,
        domain,
        [
            lambda u, v, u_t, u_x, u_y, u_xx, u_yy, p_x: u_t + u * u_x + v * u_y + p_x - nu * (u_xx + u_yy),
            lambda u, v, v_t, v_x, v_y, v_xx, v_yy, p_y: v_t + u * v_x + v * v_y + p_y - nu * (v_xx + v_yy),
            lambda u_x, v_y: u_x + v_y,
        ],
        [flm.initial(lambda x, y: grad(1)(x, y)), flm.initial(lambda x, y: -grad(0)(x, y), unknown="v"), *around],
        unknowns=("u", "v", "p"),
        exact={
            "u": lambda x, y, t: velocity(0, t, x, y),
            "v": lambda x, y, t: velocity(1, t, x, y),
            "p": lambda x, y, t: velocity(2, t, x, y),
        },
    )


def reactions(rng):
    """Reaction and diffusion around a ring: Allen and Cahn, FitzHugh and Nagumo, a rod of varying width, a steady state."""
    kind, a, length = rng.integers(4), rng.uniform(0.5, 1.5, 3), float(rng.uniform(1.0, 3.0))
    end, nu = float(rng.uniform(0.5, 2.0)), float(10 ** rng.uniform(-3.2, -2)) * length**2
    start, other = series(rng, "periodic", length, 3), series(rng, "periodic", length, 3)
    domain, begin = flm.Box(x=(0, length), t=(0, end)), flm.initial(lambda x: start(x))
    if kind == 0:
        grow = float(4 * a[0])
        rates = lambda t, y, d, x: [nu * d(y[0], (2,)) + grow * (y[0] - d(y[0], (0,)) ** 3)]
        reference = Reference((length,), (160,), (0.0,), end, [lambda x: start(x, np)], rates)
        equation = lambda u, u_t, u_xx: u_t - nu * u_xx - grow * (u - u**3)
        return judged(reference, domain, equation, [begin, flm.periodic("x")], exact=lambda x, t: reference(0, t, x))
    if kind == 1:
        rates = lambda t, y, d, x: [
            nu * d(y[0], (2,)) + 5 * (y[0] - d(y[0], (0,)) ** 3 / 3 - y[1]), a[0] * (y[0] + 0.7 - 0.8 * y[1])
        ]  # fmt: skip
        starts = [lambda x: start(x, np), lambda x: other(x, np)]
        reference = Reference((length,), (160,), (0.0,), end, starts, rates)
        equations = [
            lambda u, v, u_t, u_xx: u_t - nu * u_xx - 5 * (u - u**3 / 3 - v),
            lambda u, v, v_t: v_t - a[0] * (u + 0.7 - 0.8 * v),
        ]
        conditions = [begin, flm.initial(lambda x: other(x), unknown="v"), flm.periodic("x")]
        exact = {"u": lambda x, t: reference(0, t, x), "v": lambda x, t: reference(1, t, x)}
        return judged(reference, domain, equations, conditions, unknowns=("u", "v"), exact=exact)
    if kind == 2:
        wide = lambda x, xp: nu * (1 + 0.6 * xp.cos(2 * np.pi / length * x))
        rates = lambda t, y, d, x: [wide(x[0], np) * d(y[0], (2,)) + a[0] * y[0] - a[1] * d(y[0], (0,)) ** 2]
        reference = Reference((length,), (128,), (0.0,), end, [lambda x: 1 + start(x, np)], rates)
        equation = lambda x, u, u_t, u_xx: u_t - wide(x, jnp) * u_xx - a[0] * u + a[1] * u**2
        conditions = [flm.initial(lambda x: 1 + start(x)), flm.periodic("x")]
        return judged(reference, domain, equation, conditions, exact=lambda x, t: reference(0, t, x))
    exact = {"u": lambda x, y: start(x) * jnp.exp(a[0] * y) + other(x + y)}
    equations = [(("u_xx", "u_yy", "u"), lambda uxx, uyy, u: uxx + uyy - a[1] * u - u**3)]
    return problem(flm.Box(x=(0, length), y=(0, 1)), exact, equations, everywhere("u", "y"), flm.periodic("x"))


def judged(reference, *of, **options):
    """A problem that knows its reference."""
    made = flm.PDE(*of, **options)
    made.reference = reference
    return made


LOOSE = (1e-3, 1e-4, 1e-6, 1e-7)
FAMILIES = (
    Family("dissipative evolution", 12, dissipative, 2026, 0, LOOSE),
    Family("dispersive evolution", 8, dispersive, 2026, 12, LOOSE),
    Family("wave-like evolution", 8, wavelike, 2026, 20, LOOSE),
    Family("coupled evolution", 6, coupled, 2026, 28, LOOSE),
    Family("planar evolution", 6, planar, 2026, 34, LOOSE),
    Family("periodic reactions", 16, reactions, 2027, 500, LOOSE),
)
