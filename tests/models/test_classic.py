"""The older Fourier networks: what the paper says of each, and that each fits what it can represent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import flm
from flm.models.classic.cosine_squasher import cosine_squasher
from flm.models.classic.fixed_lattice import wave_vectors

SQUARE = flm.Box(x=(-1, 2), y=(0, 1))
LINE = flm.Box(x=(-1, 2))


def build(name, key, one=False):
    return flm.models.named_model(name, LINE if one else SQUARE, 3, key=key)


CLASSIC = [("gw88", False), ("zp95", False), ("s99", False), ("yds03", True), ("l13", False), ("nm21", True)]
CLASSIC += [("tsm20", False), ("myl22", False)]


def scrambled(model, key, size=1.0):
    """The model with its trainable leaves moved by normal numbers."""
    free, fixed = eqx.partition(model, model.trainable())
    leaves, tree = jax.tree.flatten(free)
    keys = jax.random.split(jax.random.key(key), len(leaves))
    moved = [leaf + size * jax.random.normal(k, leaf.shape) for leaf, k in zip(leaves, keys, strict=True)]
    return eqx.combine(jax.tree.unflatten(tree, moved), fixed)


def inside(n, one=False, seed=0):
    return (LINE if one else SQUARE).interior(n, seed=seed, warp=False)


@pytest.mark.parametrize(("name", "one"), [c for c in CLASSIC if c[0] not in ("tsm20", "yds03", "l13")])
def test_values_and_derivatives_are_those_of_the_series(name, one):
    model, points = scrambled(build(name, 1, one), 2), inside(40, one)
    orders = ((0,), (1,), (2,)) if one else ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1))
    along = [tuple(j for j, order in enumerate(alpha) for _ in range(order)) for alpha in orders]
    expected = [model.series(points) if not axes else model.series.d(axes)(points) for axes in along]
    np.testing.assert_allclose(model.jets(points, orders), np.stack(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "one"), [("yds03", True), ("tsm20", False)])
def test_derivatives_are_limits_of_differences(name, one):
    model, points = scrambled(build(name, 1, one), 2, 0.3), inside(20, one)
    step = np.array([[1e-5]]) if one else np.array([[1e-5, 0.0]])
    first, second = ((1,), (2,)) if one else ((1, 0), (2, 0))
    near = [model(points + k * step) for k in (-1, 0, 1)]
    slope, curve = model.jets(points, (first, second))
    np.testing.assert_allclose(slope, (near[2] - near[0]) / 2e-5, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(curve, (near[2] - 2 * near[1] + near[0]) / 1e-10, atol=2e-3 * np.abs(curve).max())


@pytest.mark.parametrize(("name", "one"), CLASSIC)
def test_files_keep_the_network(name, one, tmp_path):
    model, points = scrambled(build(name, 1, one), 2), inside(5, one)
    flm.save(model, tmp_path / "model.safetensors")
    again = flm.load(tmp_path / "model.safetensors")
    for got, want in zip(jax.tree.leaves(again), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(again(points), model(points), rtol=1e-13, atol=1e-14)
    assert again.num_parameters == model.num_parameters


@pytest.mark.parametrize(("name", "one"), CLASSIC)
def test_points_of_other_dimensions_are_refused(name, one):
    model, shape = build(name, 1, one), r"\(P, 1\)" if one else r"\(P, 2\)"
    with pytest.raises(ValueError, match=rf"`points` must have shape {shape}; got \(4, 3\)"):
        model(np.zeros((4, 3)))


LINEAR = [c for c in CLASSIC if c[0] in ("zp95", "yds03", "myl22")]


@pytest.mark.parametrize(("name", "one"), LINEAR)
def test_linear_networks_fit_their_own_span_by_least_squares(name, one):
    target, points = scrambled(build(name, 1, one), 2), inside(400, one)
    fitted = flm.models.least_squares(build(name, 1, one), points, target(points))
    check = inside(100, one, seed=5)
    assert np.max(np.abs(fitted(check) - target(check))) < 1e-8


@pytest.mark.parametrize(("name", "one"), [c for c in CLASSIC if c not in LINEAR])
def test_trained_networks_fit_their_own_span(name, one):
    """A network of the same kind, started near: L-BFGS on the values finds the function to 1e-8."""
    first = flm.models.RandomFourierFeatures(SQUARE, 3, 1, key=1) if name == "tsm20" else build(name, 1, one)
    target = scrambled(first, 2, 0.3)
    domain = LINE if one else SQUARE
    problem = flm.PDE(domain, _equals(target, one))
    start = scrambled(target, 3, 0.01)
    solution = flm.train(problem, start, optax.lbfgs(memory_size=30), 1500, points={"equation": 150}, loss_tol=1e-20)
    check = inside(100, one, seed=5)
    assert np.max(np.abs(solution.model(check) - target(check))) < 1e-8


def _equals(target, one):
    if one:
        return lambda x, u: u - target(jnp.stack([x], axis=1))
    return lambda x, y, u: u - target(jnp.stack([x, y], axis=1))


# --- GW88 --------------------------------------------------------------------------------------------------------------


def test_the_squasher_is_monotone_from_zero_to_one():
    net = jnp.linspace(-4, 4, 1001)
    values = np.asarray(cosine_squasher(net))
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose(values[net <= -np.pi / 2], 0, atol=1e-15)
    np.testing.assert_allclose(values[net >= np.pi / 2], 1, atol=1e-15)
    inner = np.abs(net) < np.pi / 2
    np.testing.assert_allclose(values[inner], (np.cos(net[inner] + 1.5 * np.pi) + 1) / 2, atol=1e-15)


def test_clumps_are_cosines_where_covered_and_say_so_where_not():
    model = scrambled(flm.models.GallantWhite(SQUARE, 6), 4)
    points = inside(200)
    assert model.covered(points).all()
    net = model.pre_activations(points)
    np.testing.assert_allclose(model(points), model.constant + jnp.cos(net) @ model.thetas, atol=1e-12)
    far = np.array([[0.5, 0.5], [40.0, 60.0]])
    assert model.covered(far).tolist() == [True, False]
    with pytest.raises(
        ValueError, match="`points` must keep every pre-activation in the range that its M_i covers; got 1"
    ):
        model(far)
    loose = eqx.tree_at(lambda f: f.thetas, flm.models.GallantWhite(SQUARE, 6, check=False), model.thetas)
    np.testing.assert_allclose(loose(far[1:]), jnp.sum(model.thetas), atol=1e-12)  # every clump saturated: cos = 1


def test_higher_frequencies_need_more_neurons_per_clump():
    reach = flm.models.GallantWhite(2, 12).reach
    size = np.abs(wave_vectors(2, 12)).sum(axis=1)
    by_size = {s: max(np.array(reach)[::2][size == s]) for s in set(size)}
    assert list(by_size.values()) == sorted(by_size.values())
    assert max(reach) > min(reach)


def test_undoing_the_hardwiring_ends_the_correspondence():
    model = flm.models.GallantWhite(SQUARE, 3, train_frequencies=True)
    moved = eqx.tree_at(lambda f: f.frequencies, model, 3.0 * model.frequencies)
    assert not moved.covered(inside(200)).all()
    assert model.num_parameters == 6 * 4 + 1


# --- ZP95 and H08 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 3])
def test_on_a_full_grid_least_squares_equals_the_transform(m):
    n = {1: 11, 2: 7, 3: 5}[m]
    line = -np.pi + 2 * np.pi * np.arange(n) / n
    points = np.stack([g.ravel() for g in np.meshgrid(*[line] * m, indexing="ij")], axis=1)
    values = np.random.default_rng(0).normal(size=(n,) * m)
    transform = flm.models.FourierSeriesNetwork.from_grid(values)
    fitted = flm.models.least_squares(flm.models.FourierSeriesNetwork(m, (n - 1) // 2), points, values.ravel())
    np.testing.assert_allclose(transform.weights, fitted.weights, atol=1e-12)
    np.testing.assert_allclose(transform(points), values.ravel(), atol=1e-12)


def test_even_grids_are_refused():
    with pytest.raises(ValueError, match="equal, odd number of points per axis; got \\(4, 4\\)"):
        flm.models.FourierSeriesNetwork.from_grid(np.zeros((4, 4)))


def test_solving_a_pde_is_one_least_squares():
    problem = flm.problems.poisson()
    # waves of twice the square's width, so that sin(pi x) sin(pi y) is in the span
    network = flm.models.FourierSeriesNetwork(flm.Box(x=(-0.5, 1.5), y=(-0.5, 1.5)), 2)
    solution = flm.solve(problem, method=network)
    assert solution.errors().relative_l2 < 1e-12
    assert solution.status.word == "solved"  # not converged: nothing was grown
    with pytest.raises(ValueError, match=r"^`model` must have 2 inputs and 1 outputs for this problem; got 1 and 1"):
        flm.solve(problem, method=flm.models.FourierSeriesNetwork(1, 3))
    with pytest.raises(ValueError, match=r"^`num_subnets` must be left out with a model as `method`; got 4"):
        flm.solve(problem, method=network, num_subnets=4)
    with pytest.raises(TypeError, match=r"^`method` must be a name, a model that is linear in its amplitudes or None"):
        flm.solve(problem, method=flm.Siren(2, 3, key=0))


# --- S99, YDS03, L13, NM21 ---------------------------------------------------------------------------------------------


def test_silvescu_without_phases_is_even_in_every_input():
    model = scrambled(flm.models.Silvescu(2, 5, key=0), 1)
    even = eqx.tree_at(lambda f: f.phases, model, jnp.zeros_like(model.phases))
    p = np.random.default_rng(0).normal(size=(20, 2))
    np.testing.assert_allclose(even(p * [1, -1]), even(p), atol=1e-13)
    assert np.max(np.abs(model(p * [1, -1]) - model(p))) > 1e-3


def test_silvescu_squeezes_through_a_sigmoid():
    model = scrambled(flm.models.Silvescu(2, 5, key=0, sigmoid=True), 1, 5.0)
    values = np.asarray(model(np.random.default_rng(0).normal(size=(200, 2))))
    assert (values > 0).all()
    assert (values < 1).all()
    with pytest.raises(AttributeError, match="with a sigmoid is not a Fourier series"):
        _ = model.series


def test_many_outputs_share_one_basis():
    x = np.linspace(-1, 2, 60)
    values = np.stack([np.cos(2 * np.pi * (x - 0.5) / 3), 1 + np.sin(4 * np.pi * (x - 0.5) / 3)], axis=1)
    model = flm.models.least_squares(flm.models.SharedBasisNetwork(LINE, 2, num_outputs=2), x, values)
    np.testing.assert_allclose(model.weights, [[0, 1], [1, 0], [0, 0], [0, 0], [0, 1]], atol=1e-12)


@pytest.mark.parametrize("name", ["yds03", "nm21"])
def test_networks_of_one_variable_refuse_more(name):
    with pytest.raises(ValueError, match="must be 1, by its construction; got 2"):
        build(name, 0)


def test_siren_1_is_a_liu_network_with_equal_frequencies():
    siren = flm.Siren(SQUARE, 9, 1, key=3)
    liu = flm.models.LiuNetwork.from_siren(siren)
    points = inside(100)
    orders = ((0, 0), (1, 0), (0, 2))
    np.testing.assert_allclose(liu.jets(points, orders), siren.jets(points, orders), atol=1e-12)
    np.testing.assert_allclose(liu.series(points), siren(points), atol=1e-12)
    with pytest.raises(AttributeError, match="only when its sine and cosine frequencies are equal"):
        _ = scrambled(liu, 0).series
    with pytest.raises(ValueError, match="`siren` must have one hidden layer and one output; got 2 layers"):
        flm.models.LiuNetwork.from_siren(flm.Siren(SQUARE, 9, 2, key=3))


# --- TSM20 and MYL22 ---------------------------------------------------------------------------------------------------


def test_random_features_are_not_trained():
    model = flm.models.RandomFourierFeatures(SQUARE, 6, key=0)
    assert model.num_parameters == model.mlp.num_parameters == 12 * 6 + 6 + 42 + 7
    assert flm.models.RandomFourierFeatures(SQUARE, 6, key=0, scale=50.0).projections.std() > 25


@pytest.mark.parametrize(("name", "bound"), [("heat", 1e-7), ("black_scholes", 1e-6)])
def test_the_extreme_learning_machine_chooses_scale_and_size(name, bound):
    from flm.pde.waves.linear_models import solve_extreme

    problem = getattr(flm.problems, name)()
    solution = solve_extreme(problem, tol=bound / 3)
    assert solution.converged
    assert solution.errors().relative_l2 < bound
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
    (lambda: flm.models.GallantWhite(2, 0), "`num_terms` must be an integer of at least 1; got 0."),
    (lambda: flm.models.FourierSeriesNetwork(2, -1), "`order` must be an integer of at least 0; got -1."),
    (lambda: flm.models.FourierSeriesNetwork(6, 9), "at most 200,000 product nodes; got 64000000 for 6 inputs"),
    (
        lambda: flm.models.FourierSeriesNetwork.from_grid(np.zeros((4, 4))),
        "`values` must be a full grid with an equal, odd number of points per axis; got (4, 4).",
    ),
    (lambda: flm.models.LiuNetwork(2, 1.5, key=0), "`num_terms` must be an integer of at least 1; got 1.5."),
    (lambda: flm.models.FourierELM(2, 5, key=0, scale=-1), "`scale` must be a positive number; got -1."),
    (lambda: flm.models.named_model("silvesku", 2, 5, key=0), "`name` must be one of flm, siren-1"),
    (lambda: flm.models.named_model("l13", 2, 5, key=0, num_outputs=2), "`num_outputs` of l13 must be 1"),
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
