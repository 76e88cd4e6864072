"""The networks that the paper compares with, against plain numpy; and the rules that every model keeps."""

import equinox as eqx
import jax
import numpy as np
import pytest
from series_cases import points

import flm

ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
}
BOX = flm.Box(x=(0, 2), t=(-1, 2))
MAPPED = lambda x: (x - [1.0, 0.5]) * [1.0, 2 / 3]

# The paper's table of sizes: hidden neurons -> trainable parameters, two inputs and one output.
SIREN_1 = {6: 25, 24: 97, 37: 149, 73: 293, 93: 373}
SIREN_2 = {3: 25, 8: 105, 10: 151, 15: 301, 17: 375}
THREE_LAYERS = {2: 21, 6: 109, 7: 141, 11: 309, 12: 361}

MODELS = {
    "FLM": lambda inputs, outputs: flm.FLM(inputs, 3, key=0, num_outputs=outputs),
    "FLM hardwired": lambda inputs, outputs: flm.FLM(inputs, 3, key=0, num_outputs=outputs, train_frequencies=False),
    "MLP tanh": lambda inputs, outputs: flm.MLP(inputs, 4, 2, key=0, num_outputs=outputs),
    "MLP relu": lambda inputs, outputs: flm.MLP(inputs, 4, 1, key=0, num_outputs=outputs, activation="relu"),
    "MLP leaky": lambda inputs, outputs: flm.MLP(inputs, 4, 2, key=0, num_outputs=outputs, activation="leaky_relu"),
    "SIREN-1": lambda inputs, outputs: flm.Siren(inputs, 4, 1, key=0, num_outputs=outputs),
    "SIREN-2": lambda inputs, outputs: flm.Siren(inputs, 4, 2, key=0, num_outputs=outputs, omega=3.0),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("depth", [1, 3])
def test_mlp_equals_numpy(activation, depth):
    model = flm.MLP(BOX, 5, depth, key=0, activation=activation, num_outputs=2)
    x = points(2)
    y = MAPPED(x)
    for i, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
        y = y @ np.asarray(weight).T + np.asarray(bias)
        if i < depth:
            y = ACTIVATIONS[activation](y)
    np.testing.assert_allclose(model(x), y, rtol=0, atol=1e-14)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_siren_equals_numpy(depth):
    """The factor omega is on the first layer's weighted sum; its bias stays outside."""
    model = flm.Siren(BOX, 5, depth, key=0, omega=30.0)
    x = points(2)
    weights, biases = ([np.asarray(v) for v in values] for values in (model.weights, model.biases))
    y = np.sin(30.0 * (MAPPED(x) @ weights[0].T) + biases[0])
    for weight, bias in zip(weights[1:-1], biases[1:-1], strict=True):
        y = np.sin(y @ weight.T + bias)
    np.testing.assert_allclose(model(x), (y @ weights[-1].T + biases[-1])[:, 0], rtol=0, atol=1e-13)


def test_published_starts():
    wide = flm.Siren(2, 500, 2, key=0)
    for weight, bound in zip(wide.weights, (1 / 2, np.sqrt(6 / 500), np.sqrt(6 / 500)), strict=True):
        assert 0.95 * bound < np.abs(np.asarray(weight)).max() <= bound
    for bias, fan_in in zip(wide.biases[:-1], (2, 500), strict=True):
        assert 0.95 / np.sqrt(fan_in) < np.abs(np.asarray(bias)).max() <= 1 / np.sqrt(fan_in)
    plain = flm.MLP(2, 500, 2, key=0)
    for weight, fan_in in zip(plain.weights, (2, 500, 500), strict=True):
        assert 0.95 / np.sqrt(fan_in) < np.abs(np.asarray(weight)).max() <= 1 / np.sqrt(fan_in)
    # SIREN's first pre-activations are uniform and its hidden ones have unit variance (Sitzmann et al., Theorem 1.8)
    x = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    hidden = np.sin(x @ np.asarray(wide.weights[0]).T * 30.0)
    before = hidden @ np.asarray(wide.weights[1]).T
    assert 0.8 < before.std() < 1.2


def size(make):
    """Numbers in a model's arrays, from their shapes alone: nothing is compiled."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter_eval_shape(make)))


@pytest.mark.parametrize(
    ("depth", "sizes", "formula"),
    [
        (1, SIREN_1, lambda n: 4 * n + 1),
        (2, SIREN_2, lambda n: n**2 + 5 * n + 1),
        (3, THREE_LAYERS, lambda n: 2 * n**2 + 6 * n + 1),
    ],
)
def test_the_papers_sizes(depth, sizes, formula):
    for width, count in sizes.items():
        assert count == formula(width)
        assert size(lambda width=width: flm.Siren(2, width, depth, key=0)) == count
        if depth == 3:
            for activation in ACTIVATIONS:
                assert size(lambda w=width, a=activation: flm.MLP(2, w, 3, key=0, activation=a)) == count
    width = min(sizes)
    assert flm.Siren(2, width, depth, key=0).num_parameters == sizes[width]
    assert flm.MLP(2, width, depth, key=0).num_parameters == sizes[width]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "outputs"),
    [("FLM hardwired", 1), ("FLM", 3), ("MLP relu", 1), ("MLP tanh", 3), ("SIREN-1", 3), ("SIREN-2", 1)],
)
def test_every_model_keeps_the_interface(name, outputs):
    model = MODELS[name](BOX, outputs)
    x = points(2)
    shape = (7,) if outputs == 1 else (7, outputs)
    assert model(x).shape == shape
    assert model.jets(x, ((0, 0), (1, 0), (0, 2))).shape == (3, *shape)
    np.testing.assert_allclose(model.jets(x, ((0, 0),))[0], model(x), rtol=0, atol=1e-14)
    assert (model.num_inputs, model.num_outputs) == (2, outputs)
    trainable = jax.tree.leaves(eqx.filter(model, model.trainable()))
    assert model.num_parameters == sum(leaf.size for leaf in trainable) > 0
    np.testing.assert_allclose(jax.jit(lambda x: model(x))(x), model(x), rtol=0, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if "FLM" not in name])
def test_jets_of_networks_equal_reverse_mode(name):
    model = MODELS[name](BOX, 1)
    x = points(2)
    scalar = lambda p: model.values(p[None])[0]
    first, second = jax.jit(jax.vmap(lambda p: (jax.grad(scalar)(p), jax.hessian(scalar)(p))))(x)
    jets = model.jets(x, ((1, 0), (1, 1), (0, 2)))
    np.testing.assert_allclose(jets, [first[:, 0], second[:, 0, 1], second[:, 1, 1]], rtol=0, atol=1e-12)


def test_keys_decide():
    x = points(2)
    for make in (lambda key: flm.MLP(2, 4, key=key), lambda key: flm.Siren(2, 4, key=key)):
        np.testing.assert_array_equal(make(3)(x), make(jax.random.key(3))(x))
        assert (make(3)(x) != make(4)(x)).all()
