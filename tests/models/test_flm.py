"""The FLM: closed-form jets, its basis, its units, its start and its size."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_cases import parts, phase_sum, points, signs

import flm

CLOSE = {"rtol": 0, "atol": 1e-12}


def filled(model, seed=0):
    """The model with parameters that are nowhere special."""
    rng = np.random.default_rng(seed)
    shape = model.amplitudes.shape
    frequencies = rng.normal(size=model.frequencies.shape) * 1.5
    where = lambda f: (f.frequencies, f.amplitudes, f.phases)
    return eqx.tree_at(
        where, model, tuple(map(jnp.asarray, (frequencies, rng.normal(size=shape), rng.normal(size=shape))))
    )


def multi_indices(m, highest):
    return tuple(a for a in itertools.product(range(highest + 1), repeat=m) if sum(a) <= highest)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "outputs"), [(1, 1), (2, 3), (3, 1)])
def test_jets_equal_autodiff(m, outputs):
    box = flm.Box(**{a: (-1.0, 1.0 + j) for j, a in enumerate("xyzt"[:m])})
    model = filled(flm.FLM(box, 3, key=0, num_outputs=outputs, period=[3.0 + j for j in range(m)]))
    x = points(m, 4)
    orders = multi_indices(m, 3)
    jets = np.asarray(model.jets(x, orders))
    center, period = np.array([0.5 * j for j in range(m)]), np.array([3.0 + j for j in range(m)])

    def plain(p):  # the paper's definition in jnp.cos alone
        k = (model.frequencies[:, None, :] * signs(m)).reshape(-1, m)
        A, phi = (v.reshape(len(k), -1) for v in (model.amplitudes, model.phases))
        values = (A * jnp.cos((k @ (2 * np.pi * (p - center) / period))[:, None] - phi)).sum(axis=0)
        return values[0] if outputs == 1 else values

    functions = [plain]
    for _ in range(3):
        functions.append(jax.jacfwd(functions[-1]))
    tensors = [np.asarray(t) for t in jax.jit(jax.vmap(lambda p: [function(p) for function in functions]))(x)]
    for alpha, got in zip(orders, jets, strict=True):
        axes = [j for j, order in enumerate(alpha) for _ in range(order)]
        want = tensors[len(axes)][(..., *axes)]
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10 * max(1, np.abs(want).max()), err_msg=str(alpha))


@pytest.mark.parametrize("outputs", [1, 2])
def test_basis_times_coefficients_are_the_jets(outputs):
    model = filled(flm.FLM(flm.Box(x=(0, 1), t=(0, 2)), 4, key=0, num_outputs=outputs))
    x = points(2)
    orders = multi_indices(2, 2)
    columns = model.basis(x, orders)
    assert columns.shape == (len(orders), len(x), 16)
    jets = np.asarray(model.jets(x, orders))
    assert model.coefficients.shape == ((16,) if outputs == 1 else (16, 2))
    np.testing.assert_allclose(columns @ model.coefficients, jets, rtol=1e-12, atol=1e-12 * np.abs(jets).max())
    other = np.random.default_rng(1).normal(size=model.coefficients.shape)
    changed = model.with_coefficients(other)
    np.testing.assert_allclose(changed.coefficients, other, **CLOSE)
    assert float(changed.amplitudes.min()) >= 0
    np.testing.assert_array_equal(changed.frequencies, model.frequencies)
    np.testing.assert_allclose(changed(x), columns[0] @ other, **CLOSE)


@given(st.integers(1, 4), st.integers(0, 99))
def test_series_in_physical_units(m, seed):
    rng = np.random.default_rng(seed)
    lower = rng.uniform(-5, 5, m)
    width = rng.uniform(0.5, 5, m)
    period = rng.uniform(1, 8, m)
    box = flm.Box(**{a: (lo, lo + w) for a, lo, w in zip("xyzt", lower, width, strict=False)})
    model = filled(flm.FLM(box, 2, key=0, period=period), seed)
    series = model.series
    assert series.axes == tuple("xyzt"[:m])
    x = lower + width * rng.random((7, m))
    z = 2 * np.pi * (x - lower - width / 2) / period
    want = phase_sum(*(np.asarray(v) for v in (model.frequencies, model.amplitudes, model.phases)), z)
    np.testing.assert_allclose(model(x), want, rtol=0, atol=1e-11)
    np.testing.assert_allclose(series(x), want, rtol=0, atol=1e-11)
    np.testing.assert_allclose(series.frequencies, model.frequencies * (2 * np.pi / period), rtol=1e-14)


def test_units():
    box = flm.Box(x=(0, 4), t=(1, 2))
    assert flm.FLM(box, 1, key=0).series.rescale(1.0).frequencies.shape == (1, 2)
    one = filled(flm.FLM(box, 3, key=0))
    # the paper's map: the domain becomes [-pi, pi], so that frequency 1 repeats after its width
    np.testing.assert_allclose(one.map(jnp.array([[0.0, 1.0], [4.0, 2.0]])), [[-np.pi] * 2, [np.pi] * 2], **CLOSE)
    np.testing.assert_allclose(flm.FLM(2, 3, key=0).map(jnp.array([[0.3, 5.0]])), [[0.3, 5.0]], **CLOSE)
    np.testing.assert_allclose(flm.FLM(2, 3, key=0, period=4).map(jnp.array([[4.0, 8.0]])), [[2 * np.pi, 4 * np.pi]])
    np.testing.assert_allclose(flm.FLM(box, 3, key=0, period=(8, 2)).map(jnp.array([[4.0, 2.0]])), [[np.pi / 2] * 2])


def test_the_papers_start():
    model = flm.FLM(2, 400, key=1)
    np.testing.assert_array_equal(model.frequencies, flm.lattice(2, 400))
    assert not model.amplitudes.any()
    np.testing.assert_array_equal(model(points(2)), np.zeros(7))
    phases = np.asarray(model.phases)
    assert phases.shape == (400, 2)
    assert abs(phases.mean()) < 4 * (np.pi / 3) / np.sqrt(phases.size)
    assert phases.std() == pytest.approx(np.pi / 3, rel=4 / np.sqrt(2 * phases.size))
    np.testing.assert_array_equal(flm.FLM(2, 400, key=jax.random.key(1)).phases, phases)
    np.testing.assert_array_equal(flm.FLM(2, 400, key=jax.random.PRNGKey(1)).phases, phases)
    assert (flm.FLM(2, 400, key=2).phases != phases).any()
    start = [[0.5, 1.5], [2.5, 0.5]]
    np.testing.assert_array_equal(flm.FLM(2, 2, key=0, frequencies=start).frequencies, start)


@pytest.mark.parametrize(("subnets", "count"), [(4, 24), (16, 96), (25, 150), (49, 294), (64, 384)])
def test_the_papers_sizes(subnets, count):
    assert flm.FLM(2, subnets, key=0).num_parameters == count


@pytest.mark.parametrize(("m", "n", "outputs"), [(1, 2, 1), (3, 5, 1), (2, 3, 4), (6, 1, 2)])
def test_sizes(m, n, outputs):
    model = flm.FLM(m, n, key=0, num_outputs=outputs)
    assert model.num_parameters == n * (m + outputs * 2**m)
    assert flm.FLM(m, n, key=0, num_outputs=outputs, train_frequencies=False).num_parameters == n * outputs * 2**m
    assert (model.num_subnets, model.num_inputs, model.num_outputs) == (n, m, outputs)


def test_hardwired_frequencies_are_not_trainable():
    model = filled(flm.FLM(1, 3, key=0, train_frequencies=False))
    free, fixed = eqx.partition(model, model.trainable())
    gradient = jax.jit(jax.grad(lambda free: jnp.sum(eqx.combine(free, fixed)(points(1)) ** 2)))(free)
    assert gradient.frequencies is None
    assert gradient.amplitudes.any()
    assert gradient.phases.any()


def test_gradients_equal_finite_differences():
    model = filled(flm.FLM(2, 2, key=0))
    x = points(2)
    loss = lambda model: jnp.sum(model.jets(x, ((0, 0), (2, 0), (0, 1))) ** 2)
    gradient = eqx.filter_jit(jax.grad(loss))(model)
    step = 1e-6
    for leaf in ("frequencies", "amplitudes", "phases"):
        where = lambda model, leaf=leaf: getattr(model, leaf)
        bump = step * np.array([[0.0, 0.0], [0.0, 1.0]])
        ends = [loss(eqx.tree_at(where, model, jnp.asarray(where(model) + s * bump))) for s in (1, -1)]
        assert float(getattr(gradient, leaf)[1, 1]) == pytest.approx(float(ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_models_stack_under_vmap():
    keys = jax.random.split(jax.random.key(0), 3)
    stack = eqx.filter_jit(eqx.filter_vmap(lambda key: flm.FLM(2, 2, key=key)))(keys)
    assert stack.phases.shape == (3, 2, 2)
    values = eqx.filter_jit(eqx.filter_vmap(lambda model: model(points(2)) + model.phases.sum()))(stack)
    for i, key in enumerate(keys):
        one = flm.FLM(2, 2, key=key)
        np.testing.assert_allclose(values[i], one(points(2)) + one.phases.sum(), **CLOSE)


def test_float32_models_stay_float32():
    model = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), filled(flm.FLM(flm.Box(x=(0, 1), t=(0, 2)), 3, key=0)))
    x = points(2).astype(np.float32)
    orders = ((0, 0), (2, 0), (0, 1))
    assert model.jets(x, orders).dtype == model.basis(x, orders).dtype == model.coefficients.dtype == jnp.float32
    double = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), model)
    want = np.asarray(double.jets(x.astype(float), orders))
    np.testing.assert_allclose(model.jets(x, orders), want, rtol=0, atol=2e-4 * np.abs(want).max())


def test_one_input_takes_flat_points():
    model = filled(flm.FLM(1, 3, key=0))
    x = points(1)
    np.testing.assert_array_equal(model(x[:, 0]), model(x))
    assert model([0, 1]).dtype == jnp.float64


def test_a_sub_network_is_the_papers():
    n, A, phi = parts(2, 1, zeros=False)
    model = eqx.tree_at(
        lambda f: (f.frequencies, f.amplitudes, f.phases), flm.FLM(2, 1, key=0), tuple(map(jnp.asarray, (n, A, phi)))
    )
    x = points(2)
    want = A[0, 0] * np.cos(x @ n[0] - phi[0, 0]) + A[0, 1] * np.cos(x @ (n[0] * [1, -1]) - phi[0, 1])
    np.testing.assert_allclose(model(x), want, **CLOSE)


def test_calls_compile_once_per_shape():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if "backend_compile" in event else None
    )
    model = filled(flm.FLM(2, 7, key=0))
    x = points(2, 23)
    model(x)
    first = len(compiled)
    filled(model, 1)(x + 1)
    assert len(compiled) == first


def test_a_start_is_what_its_key_draws():
    """Numbers are drawn in few lengths, of which a model takes the first: they are those of its own shape."""
    own = jax.random.normal(jax.random.key(7), (300, 2)) * (np.pi / 3)
    np.testing.assert_allclose(flm.FLM(2, 300, key=7).phases, own, rtol=1e-13)
