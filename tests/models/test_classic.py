"""The older Fourier networks: what the paper says of each, and that each fits what it can represent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import least_squares

import flm
from flm.models import FourierNetwork

SQUARE = flm.Box(x=(-1, 2), y=(0, 1))
CLASSIC = ["gw88", "zp95", "s99", "l13", "tsm20", "myl22"]
ORDERS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1))


def build(name, key=1, num_outputs=1):
    return flm.models.named_model(name, SQUARE, 3, key=key, num_outputs=num_outputs)


def scrambled(model, key, size=1.0):
    """The model with its trainable leaves moved by normal numbers."""
    free, fixed = eqx.partition(model, model.trainable())
    leaves, tree = jax.tree.flatten(free)
    rng = np.random.default_rng(key)
    moved = [leaf + size * rng.normal(size=leaf.shape) for leaf in leaves]
    return eqx.combine(jax.tree.unflatten(tree, moved), fixed)


def inside(n, seed=0):
    return SQUARE.interior(n, seed=seed, warp=False)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_outputs"), [("gw88", 1), ("zp95", 2), ("s99", 2), ("l13", 2), ("myl22", 1)])
def test_values_and_derivatives_are_those_of_the_series(name, num_outputs):
    model, points = scrambled(build(name, 1, num_outputs), 2), inside(40)
    along = [tuple(j for j, order in enumerate(alpha) for _ in range(order)) for alpha in ORDERS]
    expected = [model.series(points) if not axes else model.series.d(axes)(points) for axes in along]
    np.testing.assert_allclose(model.jets(points, ORDERS), np.stack(expected), rtol=1e-9, atol=1e-9)


def test_derivatives_of_random_features_are_limits_of_differences():
    model, points, step = scrambled(build("tsm20"), 2, 0.3), inside(20), np.array([[1e-5, 0.0]])
    jets = [np.asarray(model.jets(points + k * step, ((0, 0), (1, 0), (2, 0)))) for k in (-1, 0, 1)]
    near, (_, slope, curve) = [values for values, *_ in jets], jets[1]
    np.testing.assert_allclose(slope, (near[2] - near[0]) / 2e-5, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(curve, (near[2] - 2 * near[1] + near[0]) / 1e-10, atol=2e-3 * np.abs(curve).max())


@pytest.mark.parametrize("name", CLASSIC)
def test_files_keep_the_network(name, tmp_path):
    model = scrambled(build(name), 2)
    flm.save(model, tmp_path / "model.safetensors")
    again = flm.load(tmp_path / "model.safetensors")
    for got, want in zip(jax.tree.leaves(again), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(got, want)
    assert jax.tree.structure(again) == jax.tree.structure(model)  # the map and all that is not an array
    assert again.num_parameters == model.num_parameters


def test_points_of_other_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"`points` must have shape \(P, 2\); got \(4, 3\)"):
        build("gw88")(np.zeros((4, 3)))


@pytest.mark.parametrize("name", ["gw88", "zp95", "myl22"])
def test_linear_networks_fit_their_own_span_by_least_squares(name):
    target, points = scrambled(build(name, 1, 2), 2), inside(200)
    fitted = flm.models.least_squares(build(name, 1, 2), points, target(points))
    check = inside(100, seed=5)
    assert np.max(np.abs(fitted(check) - target(check))) < 1e-8


@pytest.mark.slow
def test_a_trained_network_fits_its_own_span():
    """A network of the same kind, started near: least squares in all that is trained finds the function to 1e-8."""
    target, points = scrambled(build("l13"), 2, 0.3), inside(150)
    start = scrambled(target, 3, 0.01)
    free, fixed = eqx.partition(start, start.trainable())
    flat, restore = ravel_pytree(free)
    model, wanted = lambda v: eqx.combine(restore(v), fixed), target(points)
    residual = jax.jit(lambda v: model(v)(points) - wanted)
    found = least_squares(residual, flat, jac=jax.jit(jax.jacfwd(residual)), xtol=1e-15, ftol=1e-15, gtol=1e-15)
    check = inside(100, seed=5)
    assert np.max(np.abs(model(found.x)(check) - target(check))) < 1e-8


def test_gw88_is_a_sum_of_clumps_of_cosine_squashers():
    """Two neurons for each period that a pre-activation may cross make a cosine (GW88, in the paper's review)."""
    model = scrambled(FourierNetwork.gw88(2, 6), 4)
    z = np.random.default_rng(0).uniform(0, 2 * np.pi, (50, 2))
    net = z @ model.frequencies.T + model.biases
    squasher = lambda v: (np.sin(np.clip(v, -np.pi / 2, np.pi / 2)) + 1) / 2
    reach = 4  # |w . z| <= 2 pi * 4 for the first six wave vectors
    clumps = 1.0 - 2 * (2 * reach + 1) + 0 * net
    for turn in 2 * np.pi * np.arange(-reach, reach + 1):
        clumps += 2 * (squasher(-net + np.pi / 2 - turn) + squasher(net - 3 * np.pi / 2 + turn))
    np.testing.assert_allclose(clumps @ model.weights, model(z), atol=1e-12)


def test_the_first_wave_vectors_are_one_of_each_pair():
    k = np.asarray(FourierNetwork.gw88(2, 12).frequencies)[1::2]
    assert len(np.unique(np.concatenate([k, -k]), axis=0)) == 24
    assert (np.diff((k**2).sum(axis=1)) >= 0).all()
    assert k[:4].tolist() == [[0, 1], [1, 0], [1, 1], [1, -1]]


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 3])
def test_on_a_full_grid_least_squares_is_the_discrete_fourier_transform(m):
    """H08: the weights of ZP95 on a full periodic grid."""
    n = {1: 11, 2: 7, 3: 5}[m]
    line = 2 * np.pi * np.arange(n) / n
    points = np.stack([g.ravel() for g in np.meshgrid(*[line] * m, indexing="ij")], axis=1)
    values = np.random.default_rng(0).normal(size=(n,) * m)
    fitted = flm.models.least_squares(FourierNetwork.zp95(m, n // 2), points, values.ravel())
    transform = np.fft.fftn(values)[tuple(np.asarray(fitted.frequencies[1::2]).astype(int).T)] / n**m
    np.testing.assert_allclose(fitted.weights[0], values.mean(), atol=1e-12)
    np.testing.assert_allclose(fitted.weights[1::2], 2 * transform.real, atol=1e-12)
    np.testing.assert_allclose(fitted.weights[2::2], -2 * transform.imag, atol=1e-12)


def test_solving_a_pde_is_one_least_squares():
    problem = flm.problems.poisson()
    # waves of twice the square's width, so that sin(pi x) sin(pi y) is in the span
    network = FourierNetwork.zp95(flm.Box(x=(-0.5, 1.5), y=(-0.5, 1.5)), 2)
    solution = flm.solve(problem, method=network)
    assert solution.errors().relative_l2 < 1e-12
    assert solution.status.word == "solved"  # not converged: nothing was grown
    with pytest.raises(ValueError, match=r"^`model` must have 2 inputs and 1 outputs for this problem; got 1 and 1"):
        flm.solve(problem, method=FourierNetwork.zp95(1, 3))
    with pytest.raises(ValueError, match=r"^`num_subnets` must be left out with a model as `method`; got 4"):
        flm.solve(problem, method=network, num_subnets=4)
    with pytest.raises(TypeError, match=r"^`method` must be a name, a model that is linear in its amplitudes or None"):
        flm.solve(problem, method=flm.Siren(2, 3, key=0))


def test_silvescu_without_phases_is_even_in_every_input():
    model = scrambled(flm.models.Silvescu(2, 5, key=0), 1)
    even = eqx.tree_at(lambda f: f.phases, model, jnp.zeros_like(model.phases))
    p = np.random.default_rng(0).normal(size=(20, 2))
    np.testing.assert_allclose(even(p * [1, -1]), even(p), atol=1e-13)
    assert np.max(np.abs(model(p * [1, -1]) - model(p))) > 1e-3
    np.testing.assert_allclose(model.series(p), model(p), atol=1e-12)


def test_siren_1_is_a_liu_network_with_equal_frequencies():
    siren = flm.Siren(SQUARE, 9, 1, key=3)
    w, v = siren.weights[0], siren.weights[1][0]
    b, zero = siren.biases[0], jnp.zeros(1)
    k = jnp.concatenate([w, w, jnp.zeros((1, 2))])
    biases = jnp.concatenate([jnp.full(9, -jnp.pi / 2), jnp.zeros(9), zero])
    weights = jnp.concatenate([v * jnp.cos(b), v * jnp.sin(b), siren.biases[1]])
    liu = FourierNetwork._of(k, biases, weights, siren.map)
    points = inside(100)
    np.testing.assert_allclose(liu.jets(points, ORDERS), siren.jets(points, ORDERS), atol=1e-12)


def test_random_features_are_not_trained():
    model = flm.models.RandomFourierFeatures(SQUARE, 6, key=0)
    assert model.num_parameters == model.mlp.num_parameters == 12 * 6 + 6 + 42 + 7
    assert flm.models.RandomFourierFeatures(SQUARE, 6, key=0, scale=50.0).projections.std() > 25


@pytest.mark.slow
def test_the_extreme_learning_machine_chooses_scale_and_size():
    from flm.pde.waves.linear_models import solve_extreme

    solution = solve_extreme(flm.problems.black_scholes(), tol=1e-4)
    assert solution.converged
    assert solution.errors().relative_l2 < 1e-6
    assert len(set(solution.history["scale"])) == 5
    assert solution.num_columns > 50, "the least size was enough: nothing was chosen"


def test_the_extreme_learning_machine_says_when_it_falls_short():
    from flm.pde.waves.linear_models import solve_extreme

    solution = solve_extreme(flm.problems.helmholtz(wavenumber=60.0), tol=1e-8, max_neurons=50)
    assert not solution.converged
    assert solution.status.word == "size"
    assert "neurons; the error estimate is" in str(solution.status)


def test_the_ready_comparison_is_between_networks_of_one_size():
    from flm.paper.protocol import read_protocol

    models = dict(read_protocol("uztack20").models)
    assert set(models) == {"gw88", "s99", "l13", "sigmoid"}
    sizes = [flm.models.named_model(name, 2, n, key=0).num_parameters for name, (n,) in models.items()]
    assert max(sizes) < 1.2 * min(sizes)


BAD = [
    (lambda: FourierNetwork.gw88(2, 0), "`num_terms` must be an integer of at least 1; got 0."),
    (lambda: FourierNetwork.zp95(2, -1), "`order` must be an integer of at least 0; got -1."),
    (lambda: FourierNetwork.zp95(6, 9), "at most 200,000 waves; got 47045881 for 6 inputs"),
    (lambda: FourierNetwork.l13(2, 1.5, key=0), "`num_terms` must be an integer of at least 1; got 1.5."),
    (lambda: FourierNetwork.myl22(2, 5, key=0, scale=-1), "`scale` must be a positive number; got -1."),
    (
        lambda: FourierNetwork._of(np.ones((3, 2)), np.ones(2), np.ones(3), build("gw88").map),
        "must have one row per neuron; got [(3, 2), (2,), (3,)].",
    ),
    (lambda: flm.models.named_model("silvesku", 2, 5, key=0), "`name` must be one of flm, siren-1"),
    (
        lambda: flm.models.least_squares(flm.Siren(2, 3, key=0), np.zeros((2, 2)), np.zeros(2)),
        "linear in its amplitudes",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), BAD)
def test_bad_arguments_are_refused_in_a_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert sentence in str(caught.value)
