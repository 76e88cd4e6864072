"""The damped Newton loop: from a damped and from an undamped start, order of convergence, what it refuses to accept."""

from dataclasses import dataclass

import numpy as np
import pytest

from flm.numerics.newton import Nielsen, Step, Trial, minimize

RULES = [Nielsen(), Nielsen(0.0, least=1e-4)]


@dataclass
class Squares:
    """|r(x)|² near x, by Gauss–Newton; `calls` counts linearizations, and `seen` the values at accepted points."""

    residual: object
    jacobian: object
    seen: list

    def __call__(self, x):
        r, J = self.residual(x), self.jacobian(x)
        self.seen.append(float(r @ r))
        return Local(self, x, r, J)


@dataclass
class Local:
    problem: Squares
    x: np.ndarray
    r: np.ndarray
    J: np.ndarray

    @property
    def value(self):
        return self.r @ self.r

    def step(self, damping):
        H, g = self.J.T @ self.J, self.J.T @ self.r
        s = -np.linalg.solve(H + damping * np.eye(len(g)), g)
        return Step(s, -g @ s + damping * (s @ s))

    def take(self, move):
        r = self.problem.residual(self.x + move)
        return Trial(self.x + move, r @ r)


ROSENBROCK = (
    lambda x: np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]),
    lambda x: np.array([[-20 * x[0], 10.0], [-1.0, 0.0]]),
)


@pytest.mark.parametrize("rule", RULES)
def test_rosenbrock_converges_and_never_rises(rule):
    seen = []
    found = minimize(np.array([-1.2, 1.0]), Squares(*ROSENBROCK, seen), rule, max_steps=100, step_tol=1e-28)
    np.testing.assert_allclose(found.point, [1.0, 1.0], atol=1e-10)
    assert found.value < 1e-20
    assert found.steps <= 60
    assert np.all(np.diff(seen) < 0)
    assert len(seen) <= found.steps + 1  # derivatives once per accepted step


@pytest.mark.parametrize("rule", RULES)
def test_rank_deficient_least_squares(rule):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 5))  # rank 2: the undamped equations have no solution
    b = rng.normal(size=12)
    best = np.sum((A @ np.linalg.lstsq(A, b, rcond=None)[0] - b) ** 2)
    model = Squares(lambda x: A @ x - b, lambda x: A, [])
    found = minimize(np.zeros(5), model, rule, max_steps=60, step_tol=1e-14)
    assert found.converged
    assert found.value == pytest.approx(best, rel=1e-12)


def test_quadratic_order_once_the_damping_is_gone():
    # F = Σ (e^x − 1 − x) has its minimum at 0; Newton's errors satisfy e' ≈ e²/2.
    errors = []

    class Exponential:
        def __init__(self, x):
            errors.append(float(np.abs(x).max()))
            self.x = x
            self.value = float(np.sum(np.exp(x) - 1 - x))

        def step(self, damping):
            g, h = np.exp(self.x) - 1, np.exp(self.x)
            return Step(-g / (h + damping), 0.5 * np.sum(g**2 / (h + damping)))

        def take(self, move):
            return Trial(self.x + move, float(np.sum(np.exp(self.x + move) - 1 - self.x - move)))

    found = minimize(np.array([0.5, 0.3]), Exponential, Nielsen(0.0), max_steps=20, step_tol=1e-12)
    order = [np.log(b / a) / np.log(a / o) for o, a, b in zip(errors, errors[1:], errors[2:], strict=False) if b > 1e-9]
    assert order[-1] == pytest.approx(2.0, abs=0.1)
    assert found.steps < 7


@pytest.mark.parametrize("rule", RULES)
def test_steps_to_nan_or_infinity_are_refused(rule):
    # The full step from x = 0.1 is below zero, where the logarithm is not a number.
    model = Squares(
        lambda x: np.log(x, where=x > 0, out=np.full(1, np.nan)) ** 3, lambda x: (3 * np.log(x) ** 2 / x)[None], []
    )
    found = minimize(np.array([30.0]), model, rule, max_steps=200, step_tol=1e-24)
    assert np.isfinite(found.value)
    np.testing.assert_allclose(found.point, 1.0, atol=1e-3)


def test_a_start_without_a_value_is_returned_as_it_is():
    model = Squares(lambda x: np.full(1, np.nan), lambda x: np.full((1, 1), np.nan), [])
    found = minimize(np.array([2.0]), model, Nielsen(), max_steps=5)
    assert (found.point == 2.0).all()
    assert (found.steps, found.converged) == (0, False)


def test_equations_that_never_have_a_solution_end_the_search():
    class Singular(Local):
        def step(self, damping):
            raise np.linalg.LinAlgError

    problem = Squares(*ROSENBROCK, [])
    start = np.array([3.0, 3.0])
    found = minimize(
        start, lambda x: Singular(problem, x, problem.residual(x), problem.jacobian(x)), Nielsen(), max_steps=5
    )
    assert (found.point == start).all()
    assert not found.converged


def test_many_problems_at_once_keep_their_own_damping():
    # One row is one Rosenbrock valley; a third start has no value and stays.
    def objective(x):
        return 100 * (x[:, 1] - x[:, 0] ** 2) ** 2 + (1 - x[:, 0]) ** 2

    class Valleys:
        def __init__(self, x):
            self.x, self.value = x, objective(x)

        def step(self, damping):
            r = np.stack([10 * (self.x[:, 1] - self.x[:, 0] ** 2), 1 - self.x[:, 0]], axis=1)
            J = np.zeros((len(self.x), 2, 2))
            J[:, 0, 0], J[:, 0, 1], J[:, 1, 0] = -20 * self.x[:, 0], 10.0, -1.0
            H = np.swapaxes(J, 1, 2) @ J + damping[:, None, None] * np.eye(2)
            g = np.einsum("pij,pi->pj", J, r)
            good = np.isfinite(H).all(axis=(1, 2))
            s = -np.linalg.solve(np.where(good[:, None, None], H, np.eye(2)), np.nan_to_num(g)[..., None])[..., 0]
            return Step(s, -np.sum(g * s, axis=1) + damping * np.sum(s * s, axis=1))

        def take(self, move):
            return Trial(self.x + move, objective(self.x + move))

    start = np.array([[-1.2, 1.0], [1.1, 1.2], [np.nan, 0.0]])
    mix = lambda old, new, accepted: np.where(accepted[:, None], new, old)
    found = minimize(start, Valleys, Nielsen(), max_steps=200, step_tol=1e-24, mix=mix)
    np.testing.assert_allclose(found.point[:2], 1.0, atol=1e-8)
    assert np.isnan(found.point[2, 0])
    assert not found.converged
    assert minimize(start[:2], Valleys, Nielsen(), max_steps=200, step_tol=1e-24, mix=mix).converged


def test_no_steps_allowed():
    found = minimize(np.array([-1.2, 1.0]), Squares(*ROSENBROCK, []), Nielsen(), max_steps=0)
    assert (found.steps, found.converged) == (0, False)
