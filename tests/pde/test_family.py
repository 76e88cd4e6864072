"""Families: a parameter that is a range becomes an axis, with an estimate that is true over it."""

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.pde.problem import strong_form


@pytest.fixture(scope="module")
def heat():
    return flm.solve(flm.problems.heat(alpha=flm.Range(0.05, 0.3)), 1e-5)


@pytest.mark.slow
def test_one_solve_serves_every_value(heat):
    assert heat.axes == ("x", "t", "alpha")
    assert heat.converged
    points = heat.domain.interior(500, seed=4)
    exact = heat.exact(points)
    error = np.linalg.norm(np.asarray(heat(points)) - exact) / np.linalg.norm(exact)
    assert error <= 1e-5
    assert error <= 2 * heat.error_estimate
    slope = heat.d((2,))(x=0.5, t=1.0, alpha=0.1)
    np.testing.assert_allclose(slope, -(np.pi**2) * np.exp(-(np.pi**2) / 10), rtol=1e-3)


@pytest.mark.slow
def test_a_member_is_a_solution_of_the_other_axes(heat, tmp_path):
    one = heat.at(alpha=0.1)
    assert one.axes == ("x", "t")
    points = one.domain.interior(50, seed=1)
    exact = np.sin(np.pi * points[:, 0]) * np.exp(-0.1 * np.pi**2 * points[:, 1])
    np.testing.assert_allclose(one(points), exact, atol=1e-5)
    np.testing.assert_allclose(one.series(points), exact, atol=1e-5)  # the solves share their box
    heat.save(tmp_path / "family.safetensors")
    loaded = flm.load(tmp_path / "family.safetensors")
    np.testing.assert_allclose(loaded.at(alpha=0.1)(points), one(points), rtol=1e-12)


@pytest.mark.slow
def test_two_ranges_and_a_system():
    problem = flm.PDE(
        flm.Box(t=(0, 1)),
        [lambda u, u_t, a: u_t + a * u, lambda u, v, v_t, b: v_t - b * u],
        [flm.initial(1.0), flm.initial(0.0, unknown="v")],
        unknowns=("u", "v"),
        parameters={"a": flm.Range(0.5, 2.0), "b": flm.Range(1.0, 2.0)},
        exact={"u": lambda t, a: jnp.exp(-a * t), "v": lambda t, a, b: b / a * (1 - jnp.exp(-a * t))},
    )
    solution = flm.solve(problem, 1e-4)
    assert solution.converged
    assert solution.errors().relative_l2 <= min(1e-4, 2 * solution.error_estimate)
    for fixed, rest in (({"a": 1.0}, {"b": 1.5}), ({"b": 1.5}, {"a": 1.0})):
        np.testing.assert_allclose(solution.at(**fixed)(t=0.7, **rest), solution(t=0.7, a=1.0, b=1.5), rtol=1e-12)


@pytest.mark.slow
def test_a_family_without_an_answer_at_one_value_has_none():
    problem = flm.PDE(
        flm.Box(t=(0, 1)), lambda u, u_t, a: u_t - a * u**2, [flm.initial(1.0)], parameters={"a": flm.Range(0.5, 3.0)}
    )  # it blows up at t = 1 / a
    solution = flm.solve(problem, 1e-4)
    assert not solution.converged
    assert solution.error_estimate == np.inf
    assert "a = " in solution.status.sentence


def test_the_same_as_text():
    text = '[domain]\nt = [0, 1]\n[parameters]\na = {range = [0.5, 2]}\n[equation]\node = "u_t = -a * u"\n'
    text += '[conditions]\n"t=0" = "u = 1"\n'
    assert flm.problems.parse_problem(text).parameters == {"a": flm.Range(0.5, 2.0)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flm.Range(2.0, 1.0), "`low` must be a finite number below `high`"),
        (lambda: flm.solve(flm.problems.heat(), 1e-4).at(alpha=0.1), "`at` must be called on a family"),
        (
            lambda: strong_form(flm.problems.heat(alpha=flm.Range(0.1, 0.2))),
            "`parameters` must be numbers",
        ),
        (
            lambda: flm.solve(flm.problems.heat(alpha=flm.Range(0.1, 0.2)), num_subnets=4),
            "must be solved to a tolerance",
        ),
    ],
)
def test_what_a_family_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_value_outside_of_the_range_is_refused(heat):
    with pytest.raises(ValueError, match="within their ranges"):
        heat.at(alpha=0.5)
