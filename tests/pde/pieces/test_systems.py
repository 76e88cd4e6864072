"""Systems in pieces: the count of conditions, hanging faces, pressures, and Newton's method that needs help."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.pde.pieces.functions import Trace
from flm.pde.pieces.newton import solve_system
from flm.pde.pieces.setup import set_up
from flm.pde.pieces.tree import Cut, Tree

SIDES = ("x=0", "x=1", "y=0", "y=1")
SQUARE = flm.Box(x=(0, 1), y=(0, 1))
STRIP = flm.Box(x=(0, 1), t=(0, 1))


def values(unknown, exact, places):
    return [flm.dirichlet(place, exact, unknown=unknown) for place in places]


def starts(unknown, exact):
    """A value at t = 0."""
    return flm.initial(lambda x: exact(x, 0.0), unknown=unknown)


def acoustics():
    p = lambda x, t: jnp.sin(2 * x + 0.3) * jnp.cos(2 * t)
    v = lambda x, t: -jnp.cos(2 * x + 0.3) * jnp.sin(2 * t)
    return flm.PDE(
        STRIP,
        [lambda p_t, v_x: p_t + v_x, lambda v_t, p_x: v_t + p_x],
        [*values("p", p, ["x=0"]), *values("v", v, ["x=1"]), starts("p", p), starts("v", v)],
        unknowns=("p", "v"),
        exact={"p": p, "v": v},
    )


def schroedinger():
    a = lambda x, t: jnp.cos(2 * x - 2 * t) + jnp.cos(x - t / 2)
    b = lambda x, t: jnp.sin(2 * x - 2 * t) + jnp.sin(x - t / 2)
    return flm.PDE(
        STRIP,
        [lambda a_t, b_xx: a_t + b_xx / 2, lambda b_t, a_xx: b_t - a_xx / 2],
        [*values("a", a, ["x=0", "x=1"]), *values("b", b, ["x=0", "x=1"]), starts("a", a), starts("b", b)],
        unknowns=("a", "b"),
        exact={"a": a, "b": b},
    )


def recovery():
    """v diffuses, w stays where it is."""
    v = lambda x, t: jnp.sin(3 * x) * jnp.exp(-t)
    w = lambda x, t: (jnp.cos(x) + t * jnp.sin(3 * x)) * jnp.exp(-t)
    source = lambda x, t: 8 * v(x, t) + w(x, t)
    return flm.PDE(
        STRIP,
        [
            lambda v_t, v_xx, w, x, t: v_t - v_xx + w - source(x, t),
            lambda w_t, v, w: w_t - v + w,
        ],
        [*values("v", v, ["x=0", "x=1"]), starts("v", v), starts("w", w)],
        unknowns=("v", "w"),
        exact={"v": v, "w": w},
    )


def flux_pair():
    u = lambda x, t: jnp.sin(2 * x) * jnp.exp(-4 * t) + x
    s = lambda x, t: 2 * jnp.cos(2 * x) * jnp.exp(-4 * t) + 1
    return flm.PDE(
        STRIP,
        [lambda u_t, s_x: u_t - s_x, lambda s, u_x: s - u_x],
        [*values("u", u, ["x=0", "x=1"]), starts("u", u)],
        unknowns=("u", "s"),
        exact={"u": u, "s": s},
    )


def elasticity():
    """Plane strain with both Lamé constants one; the right side carries a traction."""
    u = lambda x, y: jnp.sin(x + 2 * y)
    v = lambda x, y: jnp.cos(2 * x - y)
    ux, vy = lambda x, y: jnp.cos(x + 2 * y), lambda x, y: jnp.sin(2 * x - y)
    uy, vx = lambda x, y: 2 * jnp.cos(x + 2 * y), lambda x, y: -2 * jnp.sin(2 * x - y)
    fu = lambda x, y: -3 * jnp.sin(x + 2 * y) - 4 * jnp.sin(x + 2 * y) + 2 * 2 * jnp.cos(2 * x - y)
    fv = lambda x, y: -3 * jnp.cos(2 * x - y) - 4 * jnp.cos(2 * x - y) - 2 * 2 * jnp.sin(x + 2 * y)
    return flm.PDE(
        SQUARE,
        [
            lambda u_xx, u_yy, v_xy, x, y: 3 * u_xx + u_yy + 2 * v_xy - fu(x, y),
            lambda v_xx, v_yy, u_xy, x, y: v_xx + 3 * v_yy + 2 * u_xy - fv(x, y),
        ],
        [
            *values("u", u, ["x=0", "y=0", "y=1"]),
            *values("v", v, ["x=0", "y=0", "y=1"]),
            flm.on("x=1", lambda u_x, v_y, x, y: 3 * u_x + v_y - 3 * ux(x, y) - vy(x, y)),
            flm.on("x=1", lambda u_y, v_x, x, y: u_y + v_x - uy(x, y) - vx(x, y)),
        ],
        unknowns=("u", "v"),
        exact={"u": u, "v": v},
    )


def reactions():
    """Two unknowns that react with each other."""
    u = lambda x, y: 1 + 0.5 * jnp.sin(2 * x + y)
    v = lambda x, y: 1 + 0.5 * jnp.cos(x - 2 * y)
    f = lambda x, y: -2.5 * jnp.sin(2 * x + y) - u(x, y) * v(x, y) ** 2
    g = lambda x, y: -2.5 * jnp.cos(x - 2 * y) + u(x, y) ** 2 * v(x, y)
    return flm.PDE(
        SQUARE,
        [
            lambda u_xx, u_yy, u, v, x, y: u_xx + u_yy - u * v**2 - f(x, y),
            lambda v_xx, v_yy, u, v, x, y: v_xx + v_yy + u**2 * v - g(x, y),
        ],
        [*values("u", u, SIDES), *values("v", v, SIDES)],
        unknowns=("u", "v"),
        exact={"u": u, "v": v},
    )


def flow(nu=1.0, convection=1.0, pinned=False):
    """The stream function sin(2x + y) + exp(x - 1/2) cos(2y) / 2, whose convective part is no gradient; p has mean zero."""
    cos, sin, e = (lambda x, y: jnp.cos(2 * x + y)), (lambda x, y: jnp.sin(2 * x + y)), lambda x: jnp.exp(x - 0.5)
    p = lambda x, y: jnp.cos(2 * x) * jnp.sin(y + 0.2) - (np.sin(2) / 2) * (np.cos(0.2) - np.cos(1.2))
    u = lambda x, y: cos(x, y) - e(x) * jnp.sin(2 * y)
    v = lambda x, y: -2 * cos(x, y) - 0.5 * e(x) * jnp.cos(2 * y)
    u_x = lambda x, y: -2 * sin(x, y) - e(x) * jnp.sin(2 * y)  # = -v_y
    u_y = lambda x, y: -sin(x, y) - 2 * e(x) * jnp.cos(2 * y)
    v_x = lambda x, y: 4 * sin(x, y) - 0.5 * e(x) * jnp.cos(2 * y)
    push = lambda x, y, w_x, w_y: convection * (u(x, y) * w_x(x, y) + v(x, y) * w_y(x, y))
    minus = lambda x, y: -u_x(x, y)
    fu = lambda x, y: (
        push(x, y, u_x, u_y) - 2 * jnp.sin(2 * x) * jnp.sin(y + 0.2) + nu * (5 * cos(x, y) - 3 * e(x) * jnp.sin(2 * y))
    )
    fv = lambda x, y: (
        push(x, y, v_x, minus) + jnp.cos(2 * x) * jnp.cos(y + 0.2) - nu * (10 * cos(x, y) + 1.5 * e(x) * jnp.cos(2 * y))
    )
    corner = float(p(0.0, 0.0))
    pin = [flm.on("x=0, y=0", lambda p: p - corner)] if pinned else []
    return flm.PDE(
        SQUARE,
        [
            lambda u, v, u_x, u_y, u_xx, u_yy, p_x, x, y: (
                convection * (u * u_x + v * u_y) + p_x - nu * (u_xx + u_yy) - fu(x, y)
            ),
            lambda u, v, v_x, v_y, v_xx, v_yy, p_y, x, y: (
                convection * (u * v_x + v * v_y) + p_y - nu * (v_xx + v_yy) - fv(x, y)
            ),
            lambda u_x, v_y: u_x + v_y,
        ],
        [*values("u", u, SIDES), *values("v", v, SIDES), *pin],
        unknowns=("u", "v", "p"),
        exact={"u": u, "v": v, "p": p},
    )


def trees(problem):
    """One piece, seven with hanging faces across both axes and both ways, and cuts that had to be mended."""
    whole = Tree.whole(problem.domain.bounds, problem.periodic_axes)
    four = whole.split({0: [Cut(0), Cut(1)]})[0]
    return {
        "one": whole,
        "early": four.split({0: [Cut(0), Cut(1)]})[0],
        "late": four.split({3: [Cut(0), Cut(1)]})[0],
    }


def errors(problem, answer):
    points = problem.domain.grid(31)
    exact = problem.exact_values(points).reshape(len(points), -1)
    return np.sqrt(np.mean((answer.evaluate(points) - exact) ** 2, axis=0) / np.mean(exact**2, axis=0))


SYSTEMS = {
    "acoustics": (acoustics, ((1, 1), (1, 1))),
    "schroedinger": (schroedinger, ((2, 1), (2, 1))),
    "recovery": (recovery, ((2, 1), (0, 1))),
    "flux pair": (flux_pair, ((1, 1), (1, 0))),
    "elasticity": (elasticity, ((2, 2), (2, 2))),
    "reactions": (reactions, ((2, 2), (2, 2))),
    "stokes": (lambda: flow(convection=0.0), ((2, 2), (2, 2), (0, 0))),
    "navier-stokes": (lambda: flow(nu=0.1), ((2, 2), (2, 2), (0, 0))),
    "pinned": (lambda: flow(convection=0.0, pinned=True), ((2, 2), (2, 2), (0, 0))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_count_and_convergence_on_trees_with_hanging_faces(name):
    make, orders = SYSTEMS[name]
    problem = make()
    setup = set_up(problem)
    assert setup.orders == orders
    found = trees(problem)
    if name in ("reactions", "elasticity", "navier-stokes", "pinned"):  # their orders are those of others
        del found["early"]
    for tree in found.values():
        first, second = (solve_system(setup.system(tree, (q, q)), None, setup.is_linear) for q in (6, 10))
        assert first.settled
        assert second.settled
        # redundant rows agree: what is left is the error of the functions, not of the count
        assert second.residual < 1e-6
        assert errors(problem, second).max() < 2e-6
        assert errors(problem, second).max() < errors(problem, first).max() / 100
        assert second.pivot > 1e-9


def test_the_flux_of_a_flow_holds_its_pressure():
    ties = set_up(flow(nu=0.1)).ties
    assert Trace(0, 1, ((2, pytest.approx(-10.0)),)) in ties[0].traces
    assert Trace(1, 1) in ties[0].traces
    assert Trace(1, 1, ((2, pytest.approx(-10.0)),)) in ties[1].traces
