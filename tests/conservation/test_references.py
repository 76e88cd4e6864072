"""Godunov's method and the exact entropy solution, against characteristics and against each other."""

import jax.numpy as jnp
import numpy as np
import pytest

from flm.conservation.law import derivative, turning_points
from flm.references import EntropySolution, godunov


def paper_start(x):
    return 1 + 0.35 * np.sin(2 * np.pi * x)


def square(x):
    return np.where((x > 0.25) & (x < 0.75), 1.0, 0.0)


def burgers(u):
    return 0.5 * u**2


def buckley_leverett(u):
    return u**2 / (u**2 + 0.5 * (1 - u) ** 2)


PAPER = EntropySolution(paper_start)


def grid(t, count=400):
    x = (np.arange(count) + 0.5) / count
    return np.stack([x, np.full(count, t)], axis=1)


@pytest.mark.parametrize("t", [0.0, 0.1, 0.3, 0.45])
def test_entropy_solution_follows_characteristics_before_the_shock(t):
    y = np.linspace(0, 1, 1001)
    x = y + t * paper_start(y)
    np.testing.assert_allclose(PAPER(np.stack([x, np.full_like(x, t)], axis=1)), paper_start(y), atol=2e-12)


@pytest.mark.slow
def test_shock_of_the_paper_problem():
    assert PAPER.breaking_time == pytest.approx(1 / (0.7 * np.pi), rel=1e-10)
    assert len(PAPER.shocks(0.4)) == 0
    for t in (0.5, 0.93):
        (position,) = PAPER.shocks(t)
        assert abs((position - 0.5 - t + 0.5) % 1.0 - 0.5) < 1e-12
    # Rankine–Hugoniot and Lax: the limits average to the speed 1, and the left one is larger.
    left, right = PAPER(np.array([[0.25 - 1e-9, 0.75], [0.25 + 1e-9, 0.75]]))
    assert left + right == pytest.approx(2.0, abs=1e-6)
    assert left - right > 0.5


def test_entropy_solution_solves_the_equation_after_the_shock():
    """u is constant along its characteristic: u0(x − t f′(u)) = u, away from the shock."""
    points = grid(0.8)
    u = PAPER(points)
    off = np.abs((points[:, 0] - 0.3 + 0.5) % 1.0 - 0.5) > 1e-6
    np.testing.assert_allclose(paper_start(points[:, 0] - 0.8 * u)[off], u[off], atol=1e-13)
    # mass is conserved to the resolution of the sum at a jump
    assert u.mean() == pytest.approx(1.0, abs=1e-3)


def test_rarefaction_fan():
    exact = EntropySolution(square)
    x = np.linspace(0.26, 0.54, 50)
    np.testing.assert_allclose(exact(np.stack([x, np.full_like(x, 0.3)], axis=1)), (x - 0.25) / 0.3, atol=1e-12)
    assert exact.shocks(0.3) == pytest.approx([0.9], abs=1e-10)


def test_entropy_solution_of_another_convex_flux():
    exact = EntropySolution(paper_start, lambda u: jnp.exp(u))
    y = np.linspace(0, 1, 500)
    t = 0.9 * exact.breaking_time
    x = y + t * np.exp(paper_start(y))
    np.testing.assert_allclose(exact(np.stack([x, np.full_like(x, t)], axis=1)), paper_start(y), atol=1e-11)


def test_entropy_solution_on_another_period():
    """A Galilean change of variables: stretch x by 10, shift it by −3, and u by 10."""
    exact = EntropySolution(lambda x: 10 * paper_start((x + 3) / 10), period=(-3.0, 7.0))
    points = grid(0.8) * [10, 1] - [3, 0]
    np.testing.assert_allclose(exact(points), 10 * PAPER(grid(0.8)), rtol=1e-10)


def test_entropy_solution_refuses():
    with pytest.raises(ValueError, match="`flux` must be convex on the range of the initial state"):
        EntropySolution(lambda x: 0.5 + 0.4 * np.sin(2 * np.pi * x), buckley_leverett)
    with pytest.raises(ValueError, match="`points` must have t >= 0"):
        PAPER(np.array([[0.0, -1.0]]))


@pytest.mark.parametrize("t", [0.1, 0.3])
def test_godunov_is_of_first_order_before_the_shock(t):
    errors = []
    for cells in (200, 400, 800):
        volumes = godunov(burgers, paper_start, times=[t], cells=cells)
        errors.append(np.abs(volumes(grid(t, cells)) - PAPER(grid(t, cells))).mean())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 1.0, atol=0.08)


@pytest.mark.slow
@pytest.mark.parametrize(("start", "t"), [(paper_start, 0.8), (square, 0.3)])
def test_godunov_finds_the_entropy_solution_after_the_shock(start, t):
    exact = EntropySolution(start)
    errors = []
    for cells in (400, 1600):
        volumes = godunov(burgers, start, times=[t], cells=cells)
        errors.append(np.abs(volumes(grid(t, cells)) - exact(grid(t, cells))).mean())
    assert errors[1] < 2e-3
    assert errors[1] < 0.45 * errors[0]


def test_godunov_conserves_mass_and_never_overshoots():
    for flux, start in ((burgers, square), (buckley_leverett, lambda x: 0.5 + 0.4 * np.sin(2 * np.pi * x))):
        volumes = godunov(flux, start, times=1.0, cells=200)
        assert len(volumes.times) == 101
        mass = volumes.values.mean(axis=1)
        np.testing.assert_allclose(mass, mass[0], rtol=1e-13)
        assert volumes.values.min() >= volumes.values[0].min() - 1e-14
        assert volumes.values.max() <= volumes.values[0].max() + 1e-14


def test_godunov_with_a_nonconvex_flux_makes_the_compound_wave():
    """Buckley–Leverett from a step: a shock to u* with f′(u*) = f(u*)/u*, then a fan, by hand (Welge's tangent)."""
    volumes = godunov(buckley_leverett, lambda x: np.where(x < 0.5, 1.0, 0.0), times=[0.1], cells=4000)
    star = 1 / np.sqrt(3)  # root of f′(u) u = f(u) for f = u²/(u² + (1 − u)²/2)
    speed = derivative(buckley_leverett, 0, 1)(np.array([star]))[0]
    assert buckley_leverett(star) / star == pytest.approx(speed, rel=1e-12)
    u = np.linspace(star + 0.02, 0.98, 40)
    fan = 0.5 + 0.1 * derivative(buckley_leverett, 0, 1)(u)
    np.testing.assert_allclose(volumes(np.stack([fan, np.full_like(fan, 0.1)], axis=1)), u, atol=0.01)
    ahead = np.array([[0.5 + 0.1 * speed + 0.01, 0.1]])
    assert volumes(ahead)[0] < 1e-3


def test_godunov_sonic_points():
    """A transonic fan: the Riemann flux must take f at its minimum, or an expansion shock stays."""
    volumes = godunov(burgers, lambda x: np.where((x > 0.25) & (x < 0.75), 1.0, -1.0), times=[0.1], cells=2000)
    x = np.linspace(0.16, 0.34, 30)
    np.testing.assert_allclose(volumes(np.stack([x, np.full_like(x, 0.1)], axis=1)), (x - 0.25) / 0.1, atol=0.02)


def test_finite_volumes_between_times():
    volumes = godunov(lambda u: 0 * u, np.sin, times=[0.0, 2.0], period=(0.0, 2 * np.pi), cells=400)
    points = np.stack([np.linspace(-10, 10, 50), np.full(50, 0.7)], axis=1)
    np.testing.assert_allclose(volumes(points), np.sin(points[:, 0]), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"times": [0.5, 0.1]}, "`times` must be increasing"),
        ({"times": 1.0, "cells": 1}, "`cells` must be at least 3; got 1"),
    ],
)
def test_godunov_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        godunov(burgers, paper_start, **options)


def test_flux_derivatives_and_turning_points():
    u = np.linspace(0, 1, 20)
    exact = (u * (1 - u)) / (u**2 + 0.5 * (1 - u) ** 2) ** 2
    np.testing.assert_allclose(derivative(buckley_leverett, 0, 1)(u), exact, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(
        derivative(lambda u: jnp.where(u < 5, u**3, u), 0, 1)(u), 3 * u**2, rtol=1e-13, atol=1e-15
    )
    np.testing.assert_allclose(derivative(lambda u: 3.0 + 0 * u, 0, 1)(u), 0.0)
    with pytest.raises(ValueError, match="`flux` must be smooth"):
        derivative(lambda u: np.abs(u - 0.5), 0, 1)
    np.testing.assert_allclose(turning_points(jnp.sin, 0.0, 10.0), np.pi * np.array([0.5, 1.5, 2.5]), atol=1e-7)
