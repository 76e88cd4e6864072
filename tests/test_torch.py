"""The torch module is the same function as `flm.FLM`, both ways."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from series_cases import points

import flm

torch = pytest.importorskip("torch")
import flm.torch  # noqa: E402

BOX = flm.Box(x=(0, 1), t=(1, 3))
CASES = {
    "box": lambda cls: cls(BOX, 3, key=0),
    "period": lambda cls: cls(BOX, 3, key=0, period=(2.0, 5.0)),
    "outputs": lambda cls: cls(3, 2, key=1, num_outputs=2),
    "one output axis": lambda cls: cls(1, 4, key=2, frequencies=[[0.5], [1.0], [2.0], [3.5]]),
    "hardwired": lambda cls: cls(2, 3, key=0, train_frequencies=False),
}


def filled(model):
    rng = np.random.default_rng(0)
    random = lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype)
    return eqx.tree_at(
        lambda f: (f.frequencies, f.amplitudes), model, (random(model.frequencies), random(model.amplitudes))
    )


@pytest.mark.parametrize("name", CASES)
def test_same_function_both_ways(name):
    model = filled(CASES[name](flm.FLM))
    module = flm.torch.FLM.from_flm(model)
    x = points(model.num_inputs)
    values = module(torch.tensor(x)).detach().numpy()
    assert values.shape == model(x).shape
    np.testing.assert_allclose(values, model(x), rtol=0, atol=1e-13)
    back = module.to_flm()
    assert jax.tree.structure(back) == jax.tree.structure(model)
    for got, want in zip(jax.tree.leaves(back), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(got, want)
    assert module.num_parameters == model.num_parameters


@pytest.mark.parametrize("name", CASES)
def test_same_start(name):
    module, model = CASES[name](flm.torch.FLM), CASES[name](flm.FLM)
    assert module.phases.dtype == torch.get_default_dtype()
    for leaf in ("frequencies", "amplitudes", "phases"):
        np.testing.assert_allclose(getattr(module, leaf).detach().numpy(), getattr(model, leaf), rtol=1e-6)
    assert module.frequencies.requires_grad == model.train_frequencies


def test_derivatives_of_derivatives():
    model = filled(CASES["period"](flm.FLM))
    module = flm.torch.FLM.from_flm(model)
    x = points(2)
    inputs = torch.tensor(x, requires_grad=True)
    u = module(inputs)
    gradient = torch.autograd.grad(u.sum(), inputs, create_graph=True)[0]
    u_xx = torch.autograd.grad(gradient[:, 0].sum(), inputs, create_graph=True)[0][:, 0]
    want = model.jets(x, ((1, 0), (0, 1), (2, 0)))
    np.testing.assert_allclose(gradient.detach().numpy().T, want[:2], rtol=0, atol=1e-11)
    np.testing.assert_allclose(u_xx.detach().numpy(), want[2], rtol=0, atol=1e-10)
    # the gradient of a loss of second derivatives, the step of physics-informed training
    (u_xx**2).sum().backward()
    slope = jax.grad(lambda model: jnp.sum(model.jets(x, ((2, 0),)) ** 2))(model)
    for leaf in ("frequencies", "amplitudes", "phases"):
        want = np.asarray(getattr(slope, leaf))
        np.testing.assert_allclose(getattr(module, leaf).grad.numpy(), want, rtol=1e-9, atol=1e-9 * np.abs(want).max())


def test_weights_travel_by_state_dict(tmp_path):
    one, other = CASES["box"](flm.torch.FLM), flm.torch.FLM(2, 3, key=9)
    torch.nn.init.normal_(one.amplitudes)
    torch.save(one.state_dict(), tmp_path / "weights.pt")
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    x = torch.rand(5, 2)
    assert torch.equal(one(x), other(x))
    np.testing.assert_allclose(other.to_flm()(x.numpy()), one.to_flm()(x.numpy()), rtol=0, atol=1e-6)
    assert other.to_flm().map.center == (0.5, 2.0)  # the map came with the weights
    assert one.to_flm().map == flm.FLM(BOX, 3, key=0).map
    assert set(one.state_dict()) == {"frequencies", "amplitudes", "phases", "center", "scale"}


def test_precision_and_training():
    torch.manual_seed(0)
    module = flm.torch.FLM(1, 4, key=0, dtype=torch.float64, train_frequencies=False)
    x = torch.linspace(-3, 3, 50, dtype=torch.float64)
    target = 1 + torch.cos(x) - 0.5 * torch.sin(2 * x)
    optimizer = torch.optim.Adam([p for p in module.parameters() if p.requires_grad], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        loss = ((module(x) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-4
    np.testing.assert_allclose(module.to_flm()(x.numpy()), module(x).detach().numpy(), rtol=0, atol=1e-13)
    single = flm.torch.FLM.from_flm(module.to_flm(), dtype=torch.float32)
    assert single(x.float()).dtype == torch.float32
    assert single.to_flm().phases.dtype == jnp.float32
    assert "num_inputs=1, num_subnets=4, num_outputs=1" in repr(module)


def test_functional_transforms():
    model = filled(CASES["box"](flm.FLM))
    module = flm.torch.FLM.from_flm(model)
    x = torch.tensor(points(2))
    hessian = torch.vmap(torch.func.hessian(module))(x)
    np.testing.assert_allclose(
        hessian[:, 0, 1].detach().numpy(), model.jets(x.numpy(), ((1, 1),))[0], rtol=0, atol=1e-10
    )


def test_bad_calls():
    module = CASES["box"](flm.torch.FLM)
    with pytest.raises(ValueError, match=r"^`points` must have shape \(P, 2\); got \(4, 3\)\.$"):
        module(torch.ones(4, 3))
    with pytest.raises(TypeError, match=r"^`model` must be an flm\.FLM; got MLP\.$"):
        flm.torch.FLM.from_flm(flm.MLP(2, 3, key=0))


def test_without_torch_the_extra_is_named():
    code = "import sys; sys.modules['torch'] = None; import flm; flm.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == (
        "ImportError: flm.torch must have torch 2.13.0; got none. Install it with pip install "
        "'fourier-learning-machines[torch]'."
    )
