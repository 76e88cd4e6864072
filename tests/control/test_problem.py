"""Optimal control problems by argument name: what is accepted, what is refused and how, starts and symmetries."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flm
from flm.control.starts import make_group, make_starts, plane_basis
from flm.problems import double_integrator

PLAIN = {
    "dynamics": lambda x, v, u: (v, -x + u),
    "running_cost": lambda x, u: x**2 + u**2,
    "horizon": 1.0,
    "states": ("x", "v"),
    "controls": ("u",),
    "initial": (1.0, 0.0),
}
GAME = {
    "dynamics": lambda a, b, c, u: (u * a * b, -u * a * b, 0.0 * c),
    "running_cost": lambda a, u: a**2 + u**2,
    "horizon": 1.0,
    "states": ("a", "b", "c"),
    "controls": ("u",),
    "initial": (0.2, 0.3, 0.5),
    "on_simplex": True,
}


def problem(**changes):
    return flm.OptimalControl(**(PLAIN | changes))


def game(**changes):
    return flm.OptimalControl(**(GAME | changes))


REFUSED = [
    (
        lambda: problem(dynamics=lambda x, w, u: (w, u)),
        ValueError,
        "`dynamics` must only use the names t, x, v, u; got 'w'.",
    ),
    (
        lambda: problem(running_cost=lambda x, u, gain: gain * x, parameters={"gains": 1.0}),
        ValueError,
        "`running_cost` must only use the names t, x, v, u, gains; got 'gain'. Did you mean 'gains'?",
    ),
    (
        lambda: problem(terminal_cost=lambda x, u: x),
        ValueError,
        "`terminal_cost` must only use the names t, x, v; got 'u'.",
    ),
    (
        lambda: problem(dynamics=lambda x, u: (u,)),
        ValueError,
        "`dynamics` must return one value for each state x, v; got 1 value for 2 states.",
    ),
    (lambda: problem(running_cost=lambda x: (x, x)), ValueError, "`running_cost` must return one value; got 2."),
    (
        lambda: problem(running_cost=lambda x: np.sin(x)),
        TypeError,
        "`running_cost` must use jax.numpy, not numpy: jnp.sin(x), not np.sin(x), so that it can be differentiated.",
    ),
    (
        lambda: problem(running_cost=lambda x: x if x > 0 else -x),
        TypeError,
        "`running_cost` must use jax.numpy, not `if`: jnp.where(a, b, c), so that it can be differentiated.",
    ),
    (
        lambda: problem(running_cost=lambda x, u: jnp.array([x, u])),
        ValueError,
        "`running_cost` must return one value, elementwise; got shapes [(2,)] for scalar arguments.",
    ),
    (
        lambda: problem(running_cost=3.0),
        TypeError,
        "`running_cost` must be a function of named arguments, such as `lambda u, u_x: ...`; got 3.0.",
    ),
    (
        lambda: problem(states=("x", "t")),
        ValueError,
        "`states` must have names of their own; got 't', which is the time.",
    ),
    (
        lambda: problem(controls=("x",)),
        ValueError,
        "`controls` must have names of their own; got 'x', which is used twice.",
    ),
    (lambda: problem(states=()), ValueError, '`states` must be names like ("x1", "x2"); got ().'),
    (lambda: problem(parameters={"k": "a"}), ValueError, "`parameters` must be finite numbers; got k='a'."),
    (lambda: problem(horizon=0.0), ValueError, "`horizon` must be a positive time, or flm.Free(guess); got 0.0."),
    (lambda: flm.Free(-1.0), ValueError, "`guess` must be a positive time; got -1.0."),
    (
        lambda: problem(bounds={"w": (0, 1)}),
        ValueError,
        "`bounds` must be for the controls u; got 'w'.",
    ),
    (lambda: problem(bounds=(1, 0)), ValueError, "`bounds` must be intervals with lower < upper; got (1, 0) for 'u'."),
    (lambda: problem(bounds=3), ValueError, "`bounds` must be intervals (lower, upper); got 3 for 'u'."),
    (
        lambda: problem(initial=(1.0,)),
        ValueError,
        "`initial` must have one number for each state x, v, shape (2,) or (P, 2); got shape (1,).",
    ),
    (lambda: problem(initial=(1.0, np.nan)), ValueError, "`initial` must be finite; got [1.0, nan]."),
    (
        lambda: problem(initial=[(1.0, 0.0), (2.0, 0.0)]),
        ValueError,
        "`initial` must be one state, an flm.Ball or an flm.Box; got 2 states.",
    ),
    (
        lambda: problem(initial=flm.Box(x=(0, 1), w=(0, 1))),
        ValueError,
        "`initial` must be a box over x, v; got the axis 'w'.",
    ),
    (
        lambda: problem(initial=flm.Box(x=(0, 1))),
        ValueError,
        "`initial` must be a box over x, v; got no interval for 'v'.",
    ),
    (
        lambda: game(initial=flm.Box(a=(0.1, 0.2), b=(0.1, 0.2), c=(0.6, 0.8))),
        ValueError,
        "`initial` must be a box over a, b; got the axis 'c'. On the simplex the last state's start is implied.",
    ),
    (
        lambda: game(initial=(0.2, 0.3, 0.6)),
        ValueError,
        "`initial` must sum to one on the simplex; got [0.2, 0.3, 0.6].",
    ),
    (
        lambda: game(initial=flm.Ball((0.2, 0.3, 0.5), 0.3)),
        ValueError,
        "`initial` must be inside the simplex; got the center [0.2, 0.3, 0.5], from which it reaches 0.245 in each state.",
    ),
    (
        lambda: game(dynamics=lambda a, b, c, u: (u * a, 0.0 * b, 0.0 * c)),
        ValueError,
        "`dynamics` must keep the states on the simplex, their derivatives summing to zero; got a sum of ",
    ),
    (
        lambda: game(symmetries="cyclic"),
        ValueError,
        "`symmetries` must leave the problem unchanged; got 'cyclic', which the dynamics do not have.",
    ),
    (
        lambda: problem(symmetries=(("-x", "-v"),)),
        ValueError,
        "`symmetries` must leave the problem unchanged; got (('-x', '-v'),), which the dynamics do not have.",
    ),
    (
        lambda: problem(symmetries="cyclical"),
        ValueError,
        "`symmetries` must be 'cyclic' or arrangements of the names x, v; got 'cyclical'. Did you mean 'cyclic'?",
    ),
    (
        lambda: problem(symmetries=(("x", "x"),)),
        ValueError,
        "`symmetries` must be arrangements of all the names x, v; got ('x', 'x').",
    ),
    (
        lambda: problem(bounds=(-1, 2), symmetries=((("-x", "-v"), ("-u",)),)),
        ValueError,
        "`symmetries` must leave the problem unchanged; got ((('-x', '-v'), ('-u',)),), which the bounds do not have.",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "message"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_refused_with_a_sentence(call, kind, message):
    end = "" if message.endswith(" ") else "$"
    with pytest.raises(kind, match=f"^{re.escape(message)}{end}"):
        call()


def test_names_pick_arguments_in_any_order_and_defaults_are_left_alone():
    built = problem(
        dynamics=lambda u, v, x, k, scale=2.0: (v, -k * x + scale * u),
        running_cost=lambda t, x: t + x**2,
        parameters={"k": 3.0},
    )
    point = 0.5, np.array([0.1, 0.2]), np.array([0.7]), built.numbers
    np.testing.assert_allclose(built.equations.along(*point).rates, [0.2, -0.3 + 1.4], atol=1e-15)
    np.testing.assert_allclose(built.equations.along(*point).running, 0.5 + 0.01, atol=1e-15)


def test_states_as_a_string_and_bounds_with_an_open_end():
    built = problem(states="x, v", controls="u", bounds={"u": (None, 2.0)})
    assert built.states == ("x", "v")
    assert built.lower[0] == -np.inf
    assert built.upper[0] == 2.0


@given(seed=st.integers(0, 100), n=st.integers(2, 6), radius=st.floats(1e-3, 0.05))
def test_a_ball_on_the_simplex_is_a_disk_in_its_plane(seed, n, radius):
    center = np.full(n, 1 / n)
    names = tuple(f"u{i}" for i in range(n))
    ball = make_starts(flm.Ball(center, radius), names, True, make_group((), names, ("g",)))
    for x in (ball.lift(ball.sample(40, seed=seed)), ball.lift(ball.spread(40, seed=seed))):
        np.testing.assert_allclose(x.sum(axis=1), 1.0, atol=1e-14)
        assert np.linalg.norm(x - center, axis=1).max() <= radius * (1 + 1e-12)
        assert ball.contains(x[:, :-1]).all()
        assert np.abs(ball.normalize(x[:, :-1])).max() <= 1 + 1e-12
    basis = plane_basis(n)
    np.testing.assert_allclose(basis.T @ basis, np.eye(n - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-14)


def test_uniform_samples_fill_the_disk_evenly():
    built = flm.problems.rock_paper_scissors(flm.Ball((0.2, 0.2, 0.6), 0.15))
    radius = np.linalg.norm(built.sample(4000, seed=0) - [0.2, 0.2, 0.6], axis=1)
    # Area inside radius r of a uniform disk: (r / 0.15)^2.
    np.testing.assert_allclose(np.mean((radius / 0.15) ** 2), 0.5, atol=0.03)


def test_cyclic_images_are_found_and_strangers_refused():
    built = flm.problems.rock_paper_scissors(flm.Ball((0.2, 0.2, 0.6), 0.15))
    assert len(built.starts.group) == 3
    for image in range(3):
        x = built.sample(10, seed=3, image=image)
        inside, which = built.starts.locate(x)
        assert built.starts.contains(inside).all()
        for start, found, index in zip(x, inside, which, strict=True):
            np.testing.assert_allclose((built.starts.group[index].states @ start)[:2], found, atol=1e-15)
    centers = {tuple(np.round(built.sample(200, seed=0, image=i).mean(axis=0), 1)) for i in range(3)}
    assert centers == {(0.2, 0.2, 0.6), (0.2, 0.6, 0.2), (0.6, 0.2, 0.2)}
    with pytest.raises(
        ValueError, match=r"^`x0` must be in the ball of radius 0.15 around \[0.2, 0.2, 0.6\] or one of its"
    ):
        built.starts.locate((0.4, 0.4, 0.2))


def test_a_group_is_closed():
    built = flm.problems.rpssl(flm.Ball((0.11, 0.11, 0.11, 0.11, 0.56), 0.045))
    group = [member.states for member in built.starts.group]
    assert len(group) == 5
    for a in group:
        for b in group:
            assert any(np.array_equal(a @ b, c) for c in group)


def test_the_catalogue_reads_as_the_paper():
    """Replicator dynamics u_i ((e_i - u)' (L + gamma M) u) with the paper's matrices."""
    L5 = np.array([[0, -1, 1, -1, 1], [1, 0, -1, 1, -1], [-1, 1, 0, -1, 1], [1, -1, 1, 0, -1], [-1, 1, -1, 1, 0]])
    M5 = np.array([[0, 0, 1, 0, 1], [1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [1, 0, 1, 0, 0], [0, 1, 0, 1, 0]])
    L3, M3 = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]), np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    rng = np.random.default_rng(0)
    for built, L, M in ((flm.problems.rock_paper_scissors(), L3, M3), (flm.problems.rpssl(), L5, M5)):
        n = len(L)
        u, gamma = rng.dirichlet(np.ones(n)), 0.7
        payoff = (L + gamma * M) @ u
        point = 0.0, u[:-1], np.array([gamma]), built.numbers
        expected = 6.0 * (u * (payoff - u @ payoff))[:-1]
        np.testing.assert_allclose(built.equations.along(*point).rates, expected, atol=1e-14)
        cost = 0.5 * np.sum((u - 1 / n) ** 2) + 0.1 * gamma**2
        np.testing.assert_allclose(built.equations.along(*point).running, 6.0 * cost, atol=1e-14)


def test_what_is_printed():
    """The names in its functions, its horizon, states, bounded controls, initial set and constraints."""
    said = repr(double_integrator())
    assert said == (
        "OptimalControl(dynamics(v, u); running_cost(u); terminal(x, v); horizon 2; states x, v; "
        "controls -1.25 <= u <= 1.25; from the initial state [1.0, 0.0])"
    )
    said = repr(problem(terminal_cost=lambda x: x, path=[lambda v: v], bounds=(None, 2), horizon=flm.Free(3)))
    for part in ("terminal_cost(x)", "path(v)", "horizon Free(3)", "controls u <= 2;"):
        assert part in said
    assert "states a, b, c on the simplex" in repr(game())
