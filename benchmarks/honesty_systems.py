"""Systems: ordinary equations, several unknowns, flows, a plane in time, boxes of three axes.

Every unknown is a random smooth function, and the equations get the sources that fit it; ordinary equations have SciPy beside them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from honesty_problems import Family, box, elementwise, smooth
from scipy.integrate import solve_ivp

import flm
from flm.language.arguments import Named


def jet(exact, name, axes):
    """The function that an argument such as "u_xx" stands for, of scalars."""
    unknown, _, suffix = name.partition("_")
    found = exact[unknown]
    for letter in suffix:
        found = jax.grad(found, axes.index(letter))
    return found


def fitted(names, operator, exact, axes):
    """The equation operator(jets) = source, with the source that the exact solution has."""
    parts = [jet(exact, name, axes) for name in names]
    source = elementwise(lambda *x: operator(*(part(*x) for part in parts)))
    return Named(lambda *values: operator(*values[: len(names)]) - source(*values[len(names) :]), (*names, *axes))


def asks(place, name, exact, axes):
    """A condition: an unknown or a derivative takes its exact value."""
    return flm.on(place, fitted((name,), lambda value: value, exact, axes))


def problem(domain, exact, equations, conditions, *more):
    """The problem of these equations (names, operator) and conditions (place, name), and of more conditions."""
    axes = domain.axes
    return flm.PDE(
        domain,
        [fitted(names, operator, exact, axes) for names, operator in equations],
        [*(asks(place, name, exact, axes) for place, name in conditions), *more],
        unknowns=tuple(exact),
        exact={name: Named(elementwise(f), axes) for name, f in exact.items()},
    )


def everywhere(unknowns, *axes):
    """Values of unknowns at both ends of axes."""
    return [(f"{axis}={end}", name) for axis in axes for end in ("min", "max") for name in unknowns]


def several(rng):
    """Two unknowns: acoustics, a Schrödinger pair, one that diffuses and one that does not, a flux pair, elasticity, reactions."""
    kind, a = rng.integers(6), rng.uniform(0.3, 2.0, 3)
    domain = box(rng, "x", "y" if kind > 3 else "t")
    exact = {name: smooth(rng, domain.axes, domain.bounds) for name in ("u", "v")}
    starts = [("t=min", "u"), ("t=min", "v")]
    if kind == 0:
        equations = [(("u_t", "v_x"), lambda ut, vx: ut + a[0] * vx), (("v_t", "u_x"), lambda vt, ux: vt + a[1] * ux)]
        return problem(domain, exact, equations, [("x=min", "u"), ("x=max", "v"), *starts])
    if kind == 1:
        equations = [
            (("u_t", "v_xx", "v"), lambda ut, vxx, v: ut + a[0] * vxx - a[1] * v),
            (("v_t", "u_xx", "u"), lambda vt, uxx, u: vt - a[0] * uxx + a[1] * u),
        ]
        return problem(domain, exact, equations, [*everywhere("uv", "x"), *starts])
    if kind == 2:
        equations = [
            (("u_t", "u_xx", "u", "v"), lambda ut, uxx, u, v: ut - a[0] * uxx + u**3 / 3 - u + v),
            (("v_t", "u", "v"), lambda vt, u, v: vt - a[1] * u + a[2] * v),
        ]
        return problem(domain, exact, equations, [*everywhere("u", "x"), *starts])
    if kind == 3:
        equations = [(("u_t", "v_x"), lambda ut, vx: ut - vx), (("v", "u_x"), lambda v, ux: v - a[0] * ux)]
        return problem(domain, exact, equations, [*everywhere("u", "x"), ("t=min", "u")])
    if kind == 4:
        equations = [
            (("u_xx", "u_yy", "v_xy"), lambda uxx, uyy, vxy: (1 + a[0]) * uxx + uyy + a[0] * vxy),
            (("v_xx", "v_yy", "u_xy"), lambda vxx, vyy, uxy: vxx + (1 + a[0]) * vyy + a[0] * uxy),
        ]
        return problem(domain, exact, equations, everywhere("uv", "x", "y"))
    equations = [
        (("u_xx", "u_yy", "u", "v"), lambda uxx, uyy, u, v: uxx + uyy - a[0] * u * v**2),
        (("v_xx", "v_yy", "u", "v"), lambda vxx, vyy, u, v: vxx + vyy - v - a[1] * u**2 * v),
    ]
    return problem(domain, exact, equations, everywhere("uv", "x", "y"))


def centered(p, bounds):
    """A function less its mean over a box."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    x, y = (low + (nodes + 1) / 2 * (high - low) for low, high in bounds)
    grid = np.stack([g.ravel() for g in np.meshgrid(x, y, indexing="ij")])
    mean = float(np.outer(weights, weights).ravel() / 4 @ np.asarray(jax.vmap(p)(*grid)))
    return lambda *z: p(*z) - mean


def momentum(nu, convection, in_time=False):
    """The equations of a flow of viscosity nu."""
    time = lambda name: (name,) if in_time else ()

    def balance(u, v, wx, wy, wxx, wyy, force, *wt):
        return sum(wt) + convection * (u * wx + v * wy) + force - nu * (wxx + wyy)

    return [
        (("u", "v", "u_x", "u_y", "u_xx", "u_yy", "p_x", *time("u_t")), balance),
        (("u", "v", "v_x", "v_y", "v_xx", "v_yy", "p_y", *time("v_t")), balance),
        (("u_x", "v_y"), lambda ux, vy: ux + vy),
    ]


def flow(rng):
    """A steady flow, Stokes or Navier-Stokes; the pressure's mean is zero, or its value in a corner is known."""
    domain = box(rng, "x", "y")
    stream = smooth(rng, domain.axes, domain.bounds)
    exact = {
        "u": jax.grad(stream, 1),
        "v": lambda x, y: -jax.grad(stream, 0)(x, y),
        "p": centered(smooth(rng, domain.axes, domain.bounds), domain.bounds),
    }
    equations = momentum(10.0 ** rng.uniform(-1.5, 0.5), float(rng.integers(2)))
    pin = [("x=min, y=min", "p")] if rng.integers(2) else []
    return problem(domain, exact, equations, [*everywhere("uv", "x", "y"), *pin])


def moving(rng, bounds):
    """A front or a bump that moves over a plane, and a wave."""
    low, width = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    angle, speed, sharp = rng.uniform(0, 6.28), rng.uniform(0.2, 0.6), rng.uniform(2, 8)
    wave, phase, kind = rng.uniform(0.5, 4, 3), rng.uniform(0, 6), rng.integers(2)

    def u(*x):
        z = jnp.stack([(v - a) / w for v, a, w in zip(x, low, width, strict=True)])
        along = jnp.cos(angle) * (z[0] - 0.5) + jnp.sin(angle) * (z[1] - 0.5) - speed * (z[2] - 0.5)
        across = jnp.sin(angle) * (z[0] - 0.5) - jnp.cos(angle) * (z[1] - 0.5)
        part = jnp.tanh(sharp * along) if kind else jnp.exp(-sharp * (along**2 + 2 * across**2))
        return part + 0.5 * jnp.sin(z @ wave + phase)

    return u


def plane(rng):
    """Heat, reaction and diffusion, drift, waves, two unknowns, or a flow over a plane in time."""
    kind, a = rng.integers(6), rng.uniform(0.05, 0.3, 3)
    domain = box(rng, "x", "y", "t")
    u, v = (moving(rng, domain.bounds) for _ in range(2))
    sides, start = everywhere("u", "x", "y"), [("t=min", "u")]
    if kind == 0:
        equations = [(("u_t", "u_xx", "u_yy"), lambda ut, uxx, uyy: ut - a[0] * (uxx + uyy))]
        return problem(domain, {"u": u}, equations, [*sides[1:], ("x=min", "u_x"), *start])
    if kind == 1:
        equations = [(("u_t", "u_xx", "u_yy", "u"), lambda ut, uxx, uyy, u: ut - a[0] * (uxx + uyy) - u * (1 - u**2))]
        return problem(domain, {"u": u}, equations, [*sides, *start])
    if kind == 2:
        equations = [
            (("u_t", "u_xx", "u_yy", "u_x", "u"), lambda ut, uxx, uyy, ux, u: ut - a[0] * uxx - a[1] * uyy + u * ux)
        ]
        return problem(domain, {"u": u}, equations, [*sides, *start])
    if kind == 3:
        equations = [(("u_tt", "u_xx", "u_yy"), lambda utt, uxx, uyy: utt - a[0] * uxx - a[1] * uyy)]
        return problem(domain, {"u": u}, equations, [*sides, *start, ("t=min", "u_t")])
    if kind == 4:
        equations = [
            (("u_t", "u_xx", "u_yy", "u", "v"), lambda ut, uxx, uyy, u, v: ut - a[0] * (uxx + uyy) + u - u**2 * v),
            (("v_t", "v_xx", "v_yy", "u", "v"), lambda vt, vxx, vyy, u, v: vt - a[1] * (vxx + vyy) + u**2 * v),
        ]
        conditions = [*everywhere("uv", "x", "y"), *start, ("t=min", "v")]
        return problem(domain, {"u": u, "v": v}, equations, conditions)
    bounds = np.asarray(domain.bounds)
    pressure = centered(smooth(rng, ("x", "y"), bounds[:2]), bounds[:2])
    exact = {
        "u": jax.grad(u, 1),
        "v": lambda x, y, t: -jax.grad(u, 0)(x, y, t),
        "p": lambda x, y, t: pressure(x, y) * (1 + 0.3 * jnp.sin(t)),
    }
    conditions = [*everywhere("uv", "x", "y"), *start, ("t=min", "v")]
    return problem(domain, exact, momentum(a[0], 1.0, in_time=True), conditions)


class March:
    """States by SciPy's DOP853 at 3e-14, read between its steps; `left` is what a tenfold tolerance changes, there too."""

    def __init__(self, rates, start, end):
        self.rates, self.start, self.end, self.known, self.left = rates, np.asarray(start, float), end, {}, 0.0

    def marched(self, times, rtol):
        right = lambda t, y: np.array(self.rates(t, *y))
        found = solve_ivp(right, (0.0, self.end), self.start, "DOP853", dense_output=True, rtol=rtol, atol=1e-18)
        return found.sol(times).T

    def __call__(self, component, t):
        times = np.unique(t)
        if not set(times) <= set(self.known):
            found, rough = self.marched(times, 3e-14), self.marched(times, 3e-13)
            self.left = float(np.max(np.linalg.norm(found - rough, axis=0) / np.linalg.norm(found, axis=0)))
            self.known.update(zip(times, found, strict=True))
        return np.array([self.known[time][component] for time in np.asarray(t)])


def marched_system(rates, start, end):
    """The problem y' = rates(t, *y) from its start; `rates` serves NumPy and JAX."""
    names, reference = "uvwpq"[: len(start)], March(rates, start, end)
    equation = lambda i: Named(lambda t, rate, *y: rate - rates(t, *y)[i], ("t", f"{names[i]}_t", *names))
    exact = lambda i: lambda t: reference(i, t)
    made = flm.PDE(
        flm.Box(t=(0, float(end))),
        [equation(i) for i in range(len(names))],
        [flm.initial(float(value), unknown=name) for name, value in zip(names, start, strict=True)],
        unknowns=tuple(names),
        exact={name: exact(i) for i, name in enumerate(names)},
    )
    made.reference = reference
    return made


def dynamics(rng):
    """A nonlinear system of ordinary equations: predators, pendula, oscillators, reactions, an epidemic, chaos for a while."""
    kind, a, T = rng.integers(10), rng.uniform(0.5, 1.5, 4), rng.uniform(0.5, 1.0)
    if kind == 0:  # Lotka and Volterra
        rates = lambda t, u, v: (1.5 * a[0] * u - a[1] * u * v, a[2] * u * v - 3 * a[3] * v)
        return marched_system(rates, (1.0, 1.0), 30 * T)
    if kind == 1:  # a driven pendulum
        like = lambda u: np if isinstance(u, float) else jnp
        push = lambda t: 0.3 * a[2] * like(t).cos(a[3] * t)
        rates = lambda t, u, v: (v, push(t) - a[0] * like(u).sin(u) - 0.1 * a[1] * v)
        return marched_system(rates, (1.5 * a[0], 0.0), 30 * T)
    if kind == 2:  # van der Pol
        mu = 10 ** rng.uniform(-0.5, 1.3)
        return marched_system(lambda t, u, v: (v, mu * (1 - u**2) * v - u), (2.0, 0.0), T * max(20, 3 * mu))
    if kind == 3:  # Brusselator
        rates = lambda t, u, v: (a[0] + u**2 * v - (2 + a[1]) * u, (1 + a[1]) * u - u**2 * v)
        return marched_system(rates, (1.0, 1.0), 20 * T)
    if kind == 4:  # FitzHugh and Nagumo
        rates = lambda t, u, v: (u - u**3 / 3 - v + 0.5 * a[0], 0.08 * a[1] * (u + 0.7 - 0.8 * v))
        return marched_system(rates, (-1.0, 1.0), 80 * T)
    if kind == 5:  # an epidemic
        rates = lambda t, u, v, w: (-2 * a[0] * u * v, 2 * a[0] * u * v - 0.5 * a[1] * v, 0.5 * a[1] * v)
        return marched_system(rates, (0.999, 0.001, 0.0), 30 * T)
    if kind == 6:  # Lorenz, before chaos eats the digits
        rates = lambda t, u, v, w: (10 * (v - u), u * (28 * a[0] - w) - v, u * v - 8 / 3 * w)
        return marched_system(rates, (1.0, 1.0, 1.0), 8 * T)
    if kind == 7:  # Robertson's reactions
        slow = lambda u, v, w: 0.04 * a[0] * u - 1e4 * v * w
        rates = lambda t, u, v, w: (-slow(u, v, w), slow(u, v, w) - 3e7 * a[1] * v**2, 3e7 * a[1] * v**2)
        return marched_system(rates, (1.0, 0.0, 0.0), 20 * T)
    if kind == 8:  # a body of three unequal axes, thrown
        rates = lambda t, u, v, w: (a[0] * v * w, -(a[0] + a[1]) * u * w, a[1] * u * v)
        return marched_system(rates, (0.05, 1.0, 0.1 * a[2]), 30 * T)
    square = lambda u, v: (u**2 + v**2) ** 1.5  # an orbit of two bodies
    rates = lambda t, u, v, w, p: (w, p, -u / square(u, v), -v / square(u, v))
    return marched_system(rates, (1.0, 0.0, 0.0, 0.5 + a[0] / 2), 20 * T)


def boxes(rng):
    """Three axes: drift and slopes on a face, a periodic axis, a layer, or two unknowns."""
    kind, a = rng.integers(4), rng.uniform(0.3, 1.5, 3)
    domain = box(rng, "x", "y", "z")
    low, width = domain.bounds[:, 0], domain.bounds[:, 1] - domain.bounds[:, 0]
    u, v = (smooth(rng, domain.axes, domain.bounds) for _ in range(2))
    second = lambda name: tuple(f"{name}_{axis}{axis}" for axis in "xyz")
    faces = everywhere("u", "x", "y", "z")
    if kind == 0:
        equations = [((*second("u"), "u_x", "u"), lambda ux, uy, uz, d, u: ux + a[0] * uy + uz + a[1] * d - a[2] * u)]
        return problem(domain, {"u": u}, equations, [*faces[:-1], ("z=max", "u_z")])
    if kind == 1:
        f, turn = smooth(rng, ("x", "y"), domain.bounds[:2]), 2 * np.pi / width[2]
        around = lambda x, y, z: f(x, y) * (1 + 0.5 * jnp.sin(turn * z + a[1])) + 0.3 * jnp.cos(turn * z)
        equations = [((*second("u"), "u"), lambda ux, uy, uz, u: ux + uy + a[0] * uz - u**3)]
        return problem(domain, {"u": around}, equations, faces[:4], flm.periodic("z"))
    if kind == 2:
        steep = lambda x, y, z: jnp.tanh(((x - low[0]) / width[0] - 0.5) / (0.1 * a[0] + 0.05)) * jnp.cos(y + a[1] * z)
        equations = [(second("u"), lambda ux, uy, uz: ux + uy + uz)]
        return problem(domain, {"u": steep}, equations, faces)
    equations = [
        ((*second("u"), "v"), lambda ux, uy, uz, v: ux + uy + uz - a[0] * v),
        ((*second("v"), "u", "v"), lambda vx, vy, vz, u, v: vx + vy + vz - v - a[1] * u * v),
    ]
    return problem(domain, {"u": u, "v": v}, equations, everywhere("uv", "x", "y", "z"))


FAMILIES = (
    Family("systems", 10, several, 2025, 200),
    Family("flows", 8, flow, 2025, 210),
    Family("planes in time", 9, plane, 2025, 218),
    Family("systems, again", 12, several, 2027, 300),
    Family("flows, again", 6, flow, 2027, 320),
    Family("planes in time, again", 6, plane, 2027, 330),
    Family("systems of ordinary equations", 24, dynamics, 2027, 400),
    Family("boxes, m = 3", 8, boxes, 2027, 430),
)
