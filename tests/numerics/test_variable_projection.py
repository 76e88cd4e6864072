"""Variable projection: tones with known frequencies, Kaufman's slopes against differences, weights that follow the fit."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from flm.numerics.newton import Nielsen
from flm.numerics.variable_projection import Projected, project, trailing_block

TIMES = np.linspace(0.0, 3.0, 60)
TRUE = np.array([2.0, 5.5])
OUTPUTS = np.stack([np.cos(2.0 * TIMES) - 0.5 * np.sin(5.5 * TIMES), 0.3 * np.sin(2.0 * TIMES)], axis=1)


def columns(w):
    return np.hstack([np.cos(np.outer(TIMES, w)), np.sin(np.outer(TIMES, w))])


@dataclass
class Tones:
    """Σ c cos + s sin of frequencies w, several outputs, rows times `weight`; slopes from a factor or a projector."""

    w: np.ndarray
    weight: float = 1.0
    by_factor: bool = True

    def __post_init__(self):
        self.phi = self.weight * columns(self.w)
        self.c = np.linalg.lstsq(self.phi, self.weight * OUTPUTS, rcond=None)[0]
        self.r = self.weight * OUTPUTS - self.phi @ self.c
        self.value = float(np.sum(self.r**2))

    def moved(self, step):
        return replace(self, w=np.abs(self.w + step))

    def projected(self):
        n, t = len(self.w), TIMES[:, None] * self.weight
        slopes = [
            t * (np.cos(np.outer(TIMES, self.w)) * c[n:] - np.sin(np.outer(TIMES, self.w)) * c[:n]) for c in self.c.T
        ]
        if self.by_factor:
            factor = np.linalg.qr(np.hstack([self.phi, *slopes, self.r]), mode="r")
            return trailing_block(factor, 2 * n, self.r.shape[1])
        q = np.linalg.qr(self.phi)[0]
        J = np.stack([s - q @ (q.T @ s) for s in slopes], axis=1)
        return Projected(J.reshape(-1, n), self.r.ravel())


def test_frequencies_of_exact_tones_are_found():
    found = project(Tones(np.array([1.7, 5.1])), Nielsen(), max_steps=40, step_tol=1e-20)
    np.testing.assert_allclose(np.sort(found.point.w), TRUE, atol=1e-9)
    assert found.value < 1e-18


def test_the_trailing_block_is_the_projected_problem():
    start = np.array([1.7, 5.1])
    one, two = Tones(start).projected(), Tones(start, by_factor=False).projected()
    np.testing.assert_allclose(one.jacobian.T @ one.jacobian, two.jacobian.T @ two.jacobian, rtol=1e-10)
    np.testing.assert_allclose(one.jacobian.T @ one.residual, two.jacobian.T @ two.residual, rtol=1e-10)
    # Kaufman's gradient is exact: F(w + h) − F(w − h) = −4 h · Jᵀr
    for i, h in enumerate(1e-6 * np.eye(2)):
        slope = (Tones(start + h).value - Tones(start - h).value) / 2e-6
        assert slope == pytest.approx(-2 * (one.jacobian.T @ one.residual)[i], rel=1e-6)


def test_weights_that_follow_the_fit():
    """A fit whose unit is its own residual: only the refreshed weights make the predicted decrease one."""
    seen = []

    def reweighted(fit):
        plain = Tones(fit.w)
        seen.append(plain.value)
        return replace(fit, weight=1.0 / np.sqrt(max(plain.value, 1e-12)))

    found = project(Tones(np.array([1.7, 5.1])), Nielsen(), max_steps=40, step_tol=1e-6, refreshed=reweighted)
    assert found.converged
    assert found.point.weight == pytest.approx(1e6)
    np.testing.assert_allclose(np.sort(found.point.w), TRUE, atol=1e-6)
    assert np.all(np.diff(seen) <= 0)


def test_a_fit_without_slopes_is_done():
    @dataclass
    class Flat:
        value: float = 1.0

        def projected(self):
            return Projected(np.zeros((4, 2)), np.ones(4))

        def moved(self, step):
            raise AssertionError("nothing to try")

    found = project(Flat(), Nielsen(), max_steps=5)
    assert (found.steps, found.converged) == (0, True)
