"""Manufactured systems, flows and problems over a plane in time, made from seeds like those of `honesty_problems`.

Every unknown is a random smooth function; the equations get the sources that fit them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from honesty_problems import box, elementwise, smooth

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


def problem(domain, exact, equations, conditions):
    """The problem of these equations (names, operator) and conditions (place, name)."""
    axes = domain.axes
    return flm.PDE(
        domain,
        [fitted(names, operator, exact, axes) for names, operator in equations],
        [asks(place, name, exact, axes) for place, name in conditions],
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


FAMILIES = {"systems": (10, several), "flows": (8, flow), "planes in time": (9, plane)}
