"""Columns of a model as rows of a problem, and the errors of parameters that are learned."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import flm
from flm.pde.sparse import sparse_columns, total_degree
from flm.pde.waves.fit import Fitter
from flm.pde.waves.linear_models import model_columns


def test_columns_combine_to_the_jets_of_the_model():
    rng, box = np.random.default_rng(2), flm.Box(x=(0, 1), y=(-1, 2))
    columns = model_columns(flm.FLM(box, 5, key=0, num_outputs=2, period=(2.0, 3.9)))
    coefficients = rng.normal(size=(columns.num_columns, 2))
    points, orders = box.interior(20, seed=0), ((0, 0), (1, 0), (0, 2), (1, 1))
    jets = np.asarray(columns.model(coefficients).jets(points, orders))
    np.testing.assert_allclose(columns.evaluate(points, coefficients, orders), jets, rtol=1e-10, atol=1e-10)
    weights = {alpha: rng.normal(size=20) for alpha in orders}
    out = np.empty((columns.num_columns, 20))
    columns.combine(points, weights, out)
    expected = sum(weights[a][:, None] * jets[i] for i, a in enumerate(orders))
    np.testing.assert_allclose(out.T @ coefficients, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


def readings(seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(200, 2))
    clean = np.sin(np.pi * points[:, 0]) * np.exp(-0.1 * np.pi**2 * points[:, 1])
    return flm.data(points, clean + 0.01 * rng.normal(size=200))


@pytest.mark.slow
def test_two_standard_errors_cover_the_diffusivity():
    problem = flm.PDE(
        flm.Box(x=(0, 1), t=(0, 1)),
        lambda u_t, u_xx, alpha: u_t - alpha * u_xx,
        [flm.initial(lambda x: jnp.sin(jnp.pi * x)), flm.dirichlet("boundary"), readings(0)],
        parameters={"alpha": flm.Learn(0.5, lower=0.0)},
    )
    *others, block = problem.conditions  # one problem, so that its residuals compile once; the readings are exchanged
    functions = lambda count: sparse_columns(problem.domain, total_degree(np.ones(2, int), count))
    start = Fitter(problem).fit(functions(190))
    errors, standard_errors = [], []
    for seed in range(20):
        problem.conditions = (*others, replace(block, data=readings(seed)))
        fit = Fitter(problem).fit(functions(91), start)
        errors.append(abs(fit.parameters[0] - 0.1))
        standard_errors.append(np.sqrt(fit.covariance[0, 0]))
    assert np.mean(np.array(errors) <= 2 * np.array(standard_errors)) >= 0.9
    assert np.mean(np.array(errors) <= 0.001) >= 0.95  # within 1 % of 0.1
