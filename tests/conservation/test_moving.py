import jax
import numpy as np
import pytest

import flm
from flm.conservation.moving import MovingFLM
from flm.models.base import InputMap


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    inner = flm.FLM(2, 4, key=0, frequencies=rng.uniform(0.1, 5, (4, 2)))
    inner = inner.with_coefficients(rng.normal(size=16))
    return MovingFLM(inner, 1.3, InputMap((0.2, -0.5), (1.0, 1.0), ("x", "t")))


def points(count=20):
    return np.random.default_rng(1).uniform(-2, 2, (count, 2))


def test_values_are_those_of_the_sheared_inputs(model):
    x, t = points().T
    sheared = np.stack([x - 0.2 - 1.3 * (t + 0.5), t + 0.5], axis=1)
    np.testing.assert_allclose(model(points()), model.inner(sheared), rtol=1e-13)


def test_jets_equal_autodiff(model):
    orders = ((0, 0), (0, 1), (1, 1))
    jets = np.asarray(model.jets(points(), orders))

    def along(function, axis):
        tangent = np.zeros((20, 2))
        tangent[:, axis] = 1.0
        return lambda p: jax.jvp(function, (p,), (tangent,))[1]

    for row, (a, b) in zip(jets, orders, strict=True):
        derivative = model
        for axis in [0] * a + [1] * b:
            derivative = along(derivative, axis)
        np.testing.assert_allclose(row, derivative(points()), rtol=1e-10, atol=1e-9)


def test_series_is_the_same_function(model):
    series = model.series
    assert series.axes == ("x", "t")
    assert len(series.frequencies) <= 2 * model.num_subnets
    np.testing.assert_allclose(series(points()), model(points()), atol=1e-12)


def test_file_round_trip(model, tmp_path):
    flm.save(model, tmp_path / "m.safetensors")
    back = flm.load(tmp_path / "m.safetensors")
    for got, want in zip(jax.tree.leaves(back), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(back(points()), model(points()), rtol=1e-13, atol=1e-14)


def test_refuses_other_inner_models():
    with pytest.raises(ValueError, match="`inner` must have two inputs"):
        MovingFLM(flm.FLM(1, 2, key=0), 1.0, InputMap((0.0, 0.0), (1.0, 1.0), None))
