"""Bands of unknown functions: the posterior that they are made from."""

import numpy as np
from scipy.stats import multivariate_normal

import flm
from flm.pde.pieces.bands import Linear
from flm.pde.pieces.fields import FieldFunctions


def test_evidence_and_posterior_are_those_of_a_normal_distribution():
    rng, learn = np.random.default_rng(0), flm.Learn(1.5, axes="x")
    field = FieldFunctions("a", (0,), np.array([[0.0, 1.0]]), learn, slice(0, 24))
    J, b = rng.normal(size=(40, 24)), rng.normal(size=40)
    linear, found, exact = Linear(J, b, (field,)), [], []
    for prior in [(0.2, 0.5), (1.0, 2.0)]:
        C = field.halves(*prior) @ field.halves(*prior).T
        np.testing.assert_allclose(C, field.whitening(*prior) @ field.whitening(*prior).T, rtol=1e-9, atol=1e-8)
        all_readings = np.eye(40) + J @ C @ J.T
        posterior = linear.posterior((prior,))
        mean = C @ J.T @ np.linalg.solve(all_readings, b)
        np.testing.assert_allclose(posterior.mean(linear.y)[:, 0], mean, rtol=1e-6, atol=1e-7)
        found.append(posterior.evidence(linear.y)[0])
        exact.append(2 * multivariate_normal(cov=all_readings).logpdf(b))
    np.testing.assert_allclose(found[1] - found[0], exact[1] - exact[0], rtol=1e-6)
