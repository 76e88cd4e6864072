"""Sparse sets: four to eight variables, balls, nonlinear equations, and sets that follow the answer."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.pde.sparse import even_axes, next_set, sparse_columns, total_degree
from flm.pde.waves.fit import Fitter


def square(x):
    return sum(v**2 for v in x)


def names(m):
    return tuple(f"x{j + 1}" for j in range(m))


def second(axes):
    return tuple(f"u_{a}{a}" for a in axes)


def heat_in_a_ball():
    """PINNacle's heat equation in a ball of five variables, u = exp(|x|^2 / 2 + t)."""
    axes = names(5)
    truth = flm.Named(lambda *v: jnp.exp(square(v[:5]) / 2 + v[5]), (*axes, "t"))
    source = lambda x, t: -square(x) / 5 * jnp.exp(square(x) / 2 + t)
    equation = flm.Named(
        lambda rate, *v: rate - sum(v[:5]) / 5 - source(v[5:10], v[10]), ("u_t", *second(axes), *axes, "t")
    )
    ball = flm.Ball(**dict.fromkeys(axes, 0.0), radius=1)
    start = flm.Named(lambda *x: jnp.exp(square(x) / 2), axes)
    return flm.PDE(ball * flm.Box(t=(0, 1)), equation, [flm.initial(start), flm.neumann(ball, truth)], exact=truth)


@pytest.mark.slow
def test_heat_in_a_ball_of_five_variables():
    solution = flm.solve(heat_in_a_ball(), 1e-3)
    error = solution.errors().relative_l2
    assert solution.converged
    assert error <= 2 * solution.error_estimate <= 2e-3


def nonlinear(m, shift):
    """-Lap u + u^3 = f on a box, u = 1 / (6 + |x - shift|^2): its data are no short sum of products."""
    axes = names(m)
    below = lambda x: 6 + square([v - shift for v in x])
    laplacian = lambda x: -2 * m / below(x) ** 2 + 8 * (below(x) - 6) / below(x) ** 3
    equation = flm.Named(
        lambda u, *v: -sum(v[:m]) + u**3 + laplacian(v[m:]) - below(v[m:]) ** -3, ("u", *second(axes), *axes)
    )
    exact = flm.Named(lambda *x: 1 / below(x), axes)
    return flm.PDE(flm.Box(**dict.fromkeys(axes, (-1, 1))), equation, [flm.dirichlet("boundary", exact)], exact=exact)


@pytest.mark.slow
def test_a_nonlinear_equation_in_four_variables():
    solution = flm.solve(nonlinear(4, 0.2), 1e-3)
    assert solution.converged
    assert solution.errors().relative_l2 <= 2 * solution.error_estimate
    assert isinstance(solution.series, flm.ProductSeries)
    points = np.random.default_rng(0).uniform(-0.9, 0.9, (20, 4))
    assert np.allclose(solution.series(points), solution(points), atol=1e-4)  # a share of the tolerance


def test_without_a_source_and_data_zero_is_the_answer():
    box = flm.Box(x=(0, 1), y=(0, 1))
    solution = flm.solve(flm.PDE(box, lambda u_xx, u_yy: u_xx + u_yy, [flm.dirichlet("boundary")]), method="sparse")
    assert solution.status.word == "trivial"
    assert solution.error_estimate == 0.0
    assert solution(x=0.3, y=0.4) == 0.0


def test_mirrored_problems_are_recognized_and_others_are_not():
    even = lambda p: even_axes(p, Fitter(p).held).tolist()
    assert even(heat_in_a_ball()) == [True] * 5 + [False]
    box = flm.Box(x=(0, 1), y=(0, 1))
    tilted = [flm.dirichlet("x=0"), flm.dirichlet("x=1", 1.0), flm.dirichlet("y=0"), flm.dirichlet("y=1")]
    assert even(flm.PDE(box, lambda u_xx, u_yy: u_xx + u_yy + 1, tilted)) == [False, True]
    assert even(flm.PDE(box, lambda x, u_xx, u_yy: u_xx + u_yy + x, [flm.dirichlet("boundary")])) == [False, True]
    assert even(flm.PDE(box, lambda u_x, u_xx, u_yy: u_x + u_xx + u_yy + 1, [flm.dirichlet("boundary")])) == [
        False,
        True,
    ]


def test_sets_are_downward_closed_and_follow_the_decay():
    one = np.ones(3, int)
    degrees = total_degree(one, 60)
    sizes = np.exp(-degrees @ np.array([0.5, 2.0, 2.0]))
    grown = next_set(degrees, sizes[:, None], one, 120)
    assert {tuple(k) for k in degrees} <= {tuple(k) for k in grown}
    for k in grown:
        for j in np.flatnonzero(k):
            assert tuple(k - np.eye(3, dtype=int)[j]) in {tuple(g) for g in grown}
    assert grown[:, 0].max() > 2 * grown[:, 1].max()
    assert (total_degree(np.array([2, 1, 2]), 30)[:, [0, 2]] % 2 == 0).all()


@pytest.mark.parametrize("alpha", [(0, 0, 0), (1, 0, 2), (0, 3, 0)])
def test_the_basis_equals_its_model(alpha):
    box, rng = flm.Box(x=(0, 2), y=(-1, 1), z=(1, 4)), np.random.default_rng(0)
    basis = sparse_columns(box, total_degree(np.ones(3, int), 40))
    coefficients, points = rng.normal(size=(40, 2)), box.interior(30, seed=0)
    out = np.empty((40, 30))
    basis.combine(points, {alpha: np.ones(30)}, out)
    jets = np.asarray(basis.model(coefficients).jets(points, (alpha,)))[0]
    assert np.allclose(out.T @ coefficients, jets, rtol=1e-10, atol=1e-8)
    assert np.allclose(basis.evaluate(points, coefficients, (alpha,))[0], jets, rtol=1e-10, atol=1e-8)


def test_waves_to_a_tolerance_are_sparse_sets_now():
    with pytest.raises(ValueError, match="`num_subnets` must be given with `method` 'waves'"):
        flm.solve(flm.problems.heat(), method="waves")


@pytest.mark.parametrize(("height", "found"), [(1e4, True), (1e-2, False)])
@pytest.mark.parametrize("on_face", [False, True])
def test_a_spike_between_all_points_is_told_where_it_matters(height, found, on_face):
    axes, center = ("x1", "x2", "x3", "x4"), (0.413, 0.377, 0.631, 0.552)
    spike = lambda *x: height * jnp.exp(-sum((a - c) ** 2 for a, c in zip(x[-3:], center[-3:], strict=True)) / 0.02**2)
    smooth = lambda a, b, c, d: a * (1 - a) * (1 + b * c) + d**2 * b
    source = lambda a, b, c, d: 2 * b - 2 * (1 + b * c) - smooth(a, b, c, d) ** 3
    here = 0.0 if on_face else 1.0
    inside = lambda *v: here * spike(*v[:4]) * jnp.exp(-(((v[0] - center[0]) / 0.02) ** 2))
    equation = lambda *v: sum(v[5:]) - v[4] ** 3 - source(*v[:4]) - inside(*v)
    face = lambda *x: smooth(*x) + jnp.where(x[0] == 0.0, (1 - here) * 1e-2 * spike(*x), 0.0)
    problem = flm.PDE(
        flm.Box(**dict.fromkeys(axes, (0, 1))),
        flm.Named(equation, (*axes, "u", *(f"u_{a}{a}" for a in axes))),
        [flm.dirichlet("boundary", flm.Named(face, axes))],
    )
    solution = flm.solve(problem, 1e-3)
    assert solution.converged != found
    assert not found or (solution.error_estimate == np.inf and "too narrow" in solution.status.sentence)
