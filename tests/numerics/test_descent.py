"""Gradient descent in compiled calls: what is kept, and by which loss. `flm.train` tests the rest of it."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from flm.numerics import descent
from flm.numerics.descent import Objective, descend

TARGET = np.array([1.0, -2.0])


def bowl(x):
    return jnp.sum((x["a"] - TARGET) ** 2)


START = {"a": jnp.zeros(2)}


@pytest.mark.slow
def test_the_minimum_is_found_in_calls_of_any_size(monkeypatch):
    heard = []
    found = descend(Objective.of(bowl), START, optax.adam(0.05), 400, told=heard.append)
    np.testing.assert_allclose(found.best["a"], TARGET, atol=1e-3)
    assert found.epoch == 400 == heard[-1].epoch
    assert found.best_loss == pytest.approx(float(bowl(found.best)), rel=1e-9)
    monkeypatch.setattr(descent, "SECONDS_PER_CALL", 1e-9)  # one epoch per call
    one_by_one = descend(Objective.of(bowl), START, optax.adam(0.05), 400)
    np.testing.assert_array_equal(one_by_one.best["a"], found.best["a"])


def test_parameters_are_kept_by_another_loss():
    held_out = lambda x: jnp.sum((x["a"] - 0.5 * TARGET) ** 2)  # least half of the way
    found = descend(Objective.of(bowl, kept_by=held_out), START, optax.sgd(0.01), 300)
    np.testing.assert_allclose(found.best["a"], 0.5 * TARGET, atol=0.02)
    assert 0 < found.best_epoch < 299
    assert found.loss < 0.01 * bowl(START)


@pytest.mark.filterwarnings("ignore:overflow")
def test_the_first_loss_that_is_not_finite_ends_it():
    found = descend(Objective.of(lambda x: jnp.sum(x["a"] ** 4)), {"a": jnp.full(2, 3.0)}, optax.sgd(1.0), 100)
    assert found.epoch < 100
    assert np.isfinite(found.best_loss)
    assert np.isfinite(found.best["a"]).all()
