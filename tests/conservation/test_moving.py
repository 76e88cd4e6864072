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


def test_jets_are_those_of_the_plain_series(model):
    """The series has no frame: its derivatives by t know nothing of the chain rule."""
    series = model.series
    assert series.axes == ("x", "t")
    assert len(series.frequencies) <= 2 * model.num_subnets
    names = {(0, 0): "", (1, 0): "x", (0, 1): "t", (1, 1): "xt", (1, 2): "xtt"}
    for row, name in zip(model.jets(points(), tuple(names)), names.values(), strict=True):
        found = series.d(name) if name else series
        np.testing.assert_allclose(row, found(points()), rtol=1e-10, atol=1e-9)


def test_file_round_trip(model, tmp_path):
    flm.save(model, tmp_path / "m.safetensors")
    back = flm.load(tmp_path / "m.safetensors")
    for got, want in zip(jax.tree.leaves(back), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(back(points()), model(points()), rtol=1e-13, atol=1e-14)
