"""Slabs over a plane: the rule in time, kept factors, orders of convergence, and honest answers of every kind of march."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import flm
from flm.pde.pieces.elimination import KeptFactors, eliminate, plan
from flm.pde.pieces.planes import PlaneSlabs, radau
from flm.pde.pieces.setup import set_up
from flm.pde.pieces.tree import Cut, Tree

SIDES = ("x=0", "x=1", "y=0", "y=1")
BOX = flm.Box(x=(0, 1), y=(0, 1), t=(0, 1))


def boundary(exact, *more):
    return [flm.initial(lambda x, y: exact(x, y, 0.0)), *(flm.dirichlet(side, exact) for side in SIDES), *more]


def fisher(width=0.2, box=BOX):
    """An oblique front of u_t = D Lap u + u (1 - u)."""
    rate = width**2 / 6
    speed = 5 * np.sqrt(rate / 6)
    exact = lambda x, y, t: (1 + jnp.exp(((x + y) / np.sqrt(2) - 0.5 - speed * t) / width)) ** -2
    return flm.PDE(
        box, lambda u, u_t, u_xx, u_yy: u_t - rate * (u_xx + u_yy) - u * (1 - u), boundary(exact), exact=exact
    )


def drifting():
    """A coefficient and a source that depend on time."""
    exact = lambda x, y, t: jnp.exp(-6 * ((x - 0.3 - 0.3 * t) ** 2 + (y - 0.5) ** 2))

    def source(x, y, t):
        a, b = x - 0.3 - 0.3 * t, y - 0.5
        laplacian = (144 * (a**2 + b**2) - 24) * exact(x, y, t)
        return 0.3 * 12 * a * exact(x, y, t) - 0.1 * (1 + t) * laplacian

    return flm.PDE(
        BOX,
        lambda u_t, u_xx, u_yy, x, y, t: u_t - 0.1 * (1 + t) * (u_xx + u_yy) - source(x, y, t),
        boundary(exact),
        exact=exact,
    )


def wave():
    exact = lambda x, y, t: jnp.cos(6 * x + 8 * y - 10 * t)
    start = flm.initial(lambda x, y: exact(x, y, 0.0), velocity=lambda x, y: 10 * jnp.sin(6 * x + 8 * y))
    sides = [flm.dirichlet(side, exact) for side in SIDES]
    return flm.PDE(BOX, lambda u_tt, u_xx, u_yy: u_tt - u_xx - u_yy, [start, *sides], exact=exact)


def vortices():
    """Taylor and Green's decaying flow, an exact solution of the Navier-Stokes equations."""
    nu, k = 0.05, np.pi
    decay = lambda t: jnp.exp(-2 * nu * k**2 * t)
    u = lambda x, y, t: jnp.sin(k * x + 0.4) * jnp.cos(k * y) * decay(t)
    v = lambda x, y, t: -jnp.cos(k * x + 0.4) * jnp.sin(k * y) * decay(t)
    mean = np.mean(np.cos(0.8 + 2 * np.pi * (np.arange(64) + 0.5) / 64)) / 4  # over whole periods
    p = lambda x, y, t: (jnp.cos(2 * (k * x + 0.4)) + jnp.cos(2 * k * y)) / 4 * decay(t) ** 2 - mean
    values = lambda name, f: [
        flm.initial(lambda x, y: f(x, y, 0.0), unknown=name),
        *(flm.dirichlet(side, f, unknown=name) for side in SIDES),
    ]
    return flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1), t=(0, 0.2)),
        [
            lambda u, v, u_t, u_x, u_y, u_xx, u_yy, p_x: u_t + u * u_x + v * u_y + p_x - nu * (u_xx + u_yy),
            lambda u, v, v_t, v_x, v_y, v_xx, v_yy, p_y: v_t + u * v_x + v * v_y + p_y - nu * (v_xx + v_yy),
            lambda u_x, v_y: u_x + v_y,
        ],
        [*values("u", u), *values("v", v)],
        unknowns=("u", "v", "p"),
        exact={"u": u, "v": v, "p": p},
    )


DISK, TIME = flm.Disk(x=0, y=0, radius=1), flm.Box(t=(0, 1))
RING = DISK - flm.Disk(x=0.2, y=0, radius=0.3)


def spreading():
    """A Gaussian that spreads on a disk, which several cut pieces resolve; the flux is given where y > 0."""
    spread = lambda t: 0.09 + 0.4 * t
    exact = lambda x, y, t: 0.09 / spread(t) * jnp.exp(-((x - 0.2) ** 2 + (y + 0.1) ** 2) / spread(t))
    out = lambda x, y, t, nx, ny: -2 * ((x - 0.2) * nx + (y + 0.1) * ny) / spread(t) * exact(x, y, t)
    return flm.PDE(
        DISK * TIME,
        lambda u_t, u_xx, u_yy: u_t - 0.1 * (u_xx + u_yy),
        [
            flm.initial(lambda x, y: exact(x, y, 0.0)),
            flm.on("boundary", lambda x, y, t, nx, ny, u_n: u_n - out(x, y, t, nx, ny), where=lambda y: y > 0),
            flm.dirichlet("boundary", exact, where=lambda y: y <= 0),
        ],
        exact=exact,
    )


def reacting(region=RING):
    """A nonlinear reaction on a region with a hole."""
    exact = lambda x, y, t: jnp.exp(-t) * jnp.cos(x + 2 * y)
    source = lambda x, y, t: -0.5 * exact(x, y, t) - exact(x, y, t) * (1 - exact(x, y, t))
    return flm.PDE(
        region * TIME,
        lambda x, y, t, u, u_t, u_xx, u_yy: u_t - 0.1 * (u_xx + u_yy) - u * (1 - u) - source(x, y, t),
        [flm.initial(lambda x, y: exact(x, y, 0.0)), flm.dirichlet("boundary", exact)],
        exact=exact,
    )


def boxes():
    """Boxes of which none is cut."""
    return reacting(flm.Box(x=(-1, 1), y=(-1, 1)) - flm.Box(x=(0, 1), y=(-1, 0)))


PROBLEMS = {
    "fisher": fisher,
    "drifting": drifting,
    "wave": wave,
    "vortices": vortices,
    "spreading": spreading,
    "reacting": reacting,
    "boxes": boxes,
}


@pytest.mark.parametrize("s", [3, 4, 6])
def test_radau_nodes_differentiate_and_decouple(s):
    rule = radau(s)
    assert rule.nodes[-1] == 1.0
    for power in range(1, s + 1):
        np.testing.assert_allclose(rule.slopes @ rule.nodes**power, power * rule.nodes ** (power - 1), atol=1e-10)
    values = np.cos(3 * rule.nodes)
    np.testing.assert_allclose((rule.vectors @ (rule.dual @ values)).real, values, atol=1e-12)
    polynomial = rule.to_legendre(1, 0.5) @ np.concatenate([[1.0], np.cos(rule.nodes * 0.5)])
    assert abs(polynomial[0] - np.sin(0.5) / 0.5) < 10.0 ** (1 - s)


def test_kept_factors_solve_as_the_elimination_does():
    problem = flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1)),
        lambda u_xx, u_yy, x, y: u_xx + u_yy - jnp.exp(x + y),
        [flm.dirichlet("boundary", lambda x, y: x * y)],
    )
    tree = Tree.whole(problem.domain.bounds, (False, False)).split({0: [Cut(0), Cut(1)]})[0]
    tree = tree.split({0: [Cut(0), Cut(1)]})[0]
    system = set_up(problem).system(tree, (5, 5))
    order = plan(system.members, system.sizes)
    rows = system.assemble(np.zeros((tree.num_leaves, system.functions.num_columns)))
    factors = KeptFactors(rows, system.sizes, order)
    for scale in (1.0, -3.0):
        found = factors.solve([scale * piece.right for piece in rows])
        expected = np.stack(eliminate(rows, system.sizes, order))
        np.testing.assert_allclose(np.stack(found), scale * expected, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "order"), [("wave", 3.5), ("drifting", 4.5)])
def test_slabs_converge_with_the_order_of_their_nodes(name, order):
    """Three Radau nodes are of order five at the end of a slab; a wave's velocity loses one where its sides move."""
    problem = PROBLEMS[name]()
    setup = set_up(problem)
    slabs = PlaneSlabs(setup, 1e-6, 10**9)
    slabs.nodes, slabs.local = (11, 11, 3), 1e-9
    tree = Tree.whole(setup.bounds[:-1], (False, False)).split({0: [Cut(0), Cut(1)]})[0]
    points = np.stack([*np.random.default_rng(0).uniform(0.05, 0.95, (2, 200)), np.full(200, 0.5)], axis=1)
    errors = []
    for count in (3, 6):
        before = None
        for i in range(count):
            before = slabs.solve(tree, 0, (0.5 * i / count, 0.5 * (i + 1) / count), before)
            assert before.settled
        errors.append(np.abs(before.evaluate(points)[:, 0] - problem.exact_values(points)).max())
    assert np.log2(errors[0] / errors[1]) > order - 1.5
    assert errors[1] < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_marches_over_a_plane_are_honest(name):
    tol = {"vortices": 3e-3, "spreading": 3e-3}.get(name, 1e-3)
    solution = flm.solve(PROBLEMS[name](), tol, method="pieces")
    assert solution.converged, solution.status
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate


@pytest.mark.slow
def test_a_narrow_front_is_cut_and_continuous():
    problem = fisher(0.08)
    solution = flm.solve(problem, 1e-3, method="pieces")
    assert solution.converged, solution.status
    assert len(solution.model.boxes) > 8
    times = sorted({box.bounds[2][1] for box in solution.model.boxes})[:-1]
    rng = np.random.default_rng(1)
    for t in times[:4]:
        x, y = rng.uniform(0, 1, (2, 40))
        gap = solution(x=x, y=y, t=np.full(40, t - 1e-9)) - solution(x=x, y=y, t=np.full(40, t + 1e-9))
        assert np.abs(gap).max() < 1e-4


@pytest.mark.slow
def test_time_may_be_any_axis():
    turned = flm.Box(t=(0, 1), x=(0, 1), y=(0, 1))
    one, other = (flm.solve(fisher(0.3, box), 1e-3, method="pieces") for box in (BOX, turned))
    assert other.axes == ("t", "x", "y")
    where = dict(zip("xyt", np.random.default_rng(2).uniform(0, 1, (3, 30)), strict=True))
    np.testing.assert_allclose(one(**where), other(**where), atol=1e-12)


def test_a_reaction_without_diffusion_follows_its_ode():
    """w has no derivative in space, and its equation is an ODE at every point."""
    problem = flm.PDE(
        BOX,
        [lambda u_t, u_xx, u_yy: u_t - 0.1 * (u_xx + u_yy), lambda w_t, w, x: w_t + (1 + x) * w**2],
        [
            flm.initial(lambda x, y: jnp.cos(2 * jnp.pi * x) * jnp.cos(jnp.pi * y), unknown="u"),
            flm.initial(lambda x, y: 1 + x * y, unknown="w"),
            *(flm.neumann(side, 0.0, unknown="u") for side in SIDES),
        ],
        unknowns=("u", "w"),
    )
    setup = set_up(problem)
    assert setup.orders == ((2, 2, 1), (0, 0, 1))
    slabs = PlaneSlabs(setup, 1e-6, 10**9)
    slabs.local = 1e-8
    slab = slabs.solve(Tree.whole(setup.bounds[:-1], (False, False)), 0, (0.0, 0.5), None)
    reference = solve_ivp(lambda t, w: -1.5 * w**2, (0, 0.5), [1.2], rtol=1e-10, atol=1e-12).y[0, -1]
    assert abs(slab.evaluate(np.array([[0.5, 0.4, 0.5]]))[0, 1] - reference) < 1e-5
