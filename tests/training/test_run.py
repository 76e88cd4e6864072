"""`flm.train`: what it minimizes, what it keeps, and how it ends."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import flm
from flm.numerics import descent
from flm.training.loss import TrainingLoss, draw

POINTS = {"equation": 120, "initial": 30, "boundary": 40}
HEAT = flm.problems.heat()
ADAM = optax.adam(1e-2)
SGD = optax.sgd(1e-3)  # for tests of what is trained, not of how: its programs compile in less time than Adam's


def decay(rate=1.0):
    """u' = -k u, u(0) = 1: an equation whose programs compile quickly."""
    conditions, exact = [flm.initial(1.0)], lambda t: jnp.exp(-rate * t)
    return flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t, k: u_t + k * u, conditions, parameters={"k": rate}, exact=exact)


DECAY = decay()


def small(key):
    return flm.FLM(DECAY.domain, 5, key=key, period=4.0)


def plain(problem, size=4):
    """A model whose amplitudes alone are trained: its programs compile in less time than an FLM's."""
    return flm.models.named_model("zp95", problem.domain, size, key=0)


def busy(problem, key=3, period=None):
    """An FLM whose amplitudes are not zero."""
    model = flm.FLM(problem.domain, 5, key=key, num_outputs=len(problem.unknowns), period=period)
    return eqx.tree_at(lambda f: f.amplitudes, model, jax.random.normal(jax.random.key(key), model.amplitudes.shape))


def loss_of(problem, counts=POINTS, seed=0, **weights):
    return TrainingLoss(draw(problem, counts, seed), weights, jnp.float64)


def terms(loss, model, parameter):
    """The terms of a loss, compiled at once: one operation after the other takes much longer."""
    return eqx.filter_jit(loss.by_term)(model, jnp.array([parameter]))


def terms_of_decay(problem, model, rate, seed=0):
    """The terms of u' = -k u, of the initial value 1 and of exp(-k t) at a later time if there is one, by NumPy alone."""
    waves, values = model.series, {}
    k, amplitudes, phases = (np.ravel(part) for part in (waves.frequencies, waves.amplitudes, waves.phases))
    for s in draw(problem, POINTS, seed):
        angle = s.points * k - phases
        u, u_t = np.cos(angle) @ amplitudes, -np.sin(angle) @ (k * amplitudes)
        values[s.term] = u_t + rate * u if s.term == "equation" else u - np.exp(-rate * s.points[:, 0])
    return np.array([np.mean(np.square(value)) for value in values.values()])


def test_loss_is_the_sum_of_mean_squares_of_the_paper():
    model, sets = busy(HEAT), draw(HEAT, POINTS, 0)
    found = terms(loss_of(HEAT), model, 0.1)
    by_hand = {"equation": [], "initial": [], "boundary": []}
    waves = model.series
    k = np.asarray(waves.frequencies)[:, None] * np.array([[1, 1], [1, -1]])  # (N, l, axes x and t)
    for s in sets:
        angle = np.einsum("pj,nlj->pnl", s.points, k) - np.asarray(waves.phases)
        cosine, sine = np.asarray(waves.amplitudes) * np.cos(angle), np.asarray(waves.amplitudes) * np.sin(angle)
        if s.term == "equation":  # u_t - 0.1 u_xx
            values = -k[..., 1] * sine + 0.1 * k[..., 0] ** 2 * cosine
            by_hand[s.term] += list(values.sum(axis=(1, 2)))
        else:
            start = np.sin(np.pi * s.points[:, 0]) * (s.term == "initial")
            by_hand[s.term] += list(cosine.sum(axis=(1, 2)) - start)
    expected = [np.mean(np.square(v)) for v in by_hand.values()]
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    assert {k: len(v) for k, v in by_hand.items()} == POINTS


def test_points_are_uniform_random_in_place_and_shared_among_faces():
    counts = {"equation": 4000, "initial": 500, "boundary": 301}
    inside, start, left, right = draw(HEAT, counts, 7)
    assert [len(s.points) for s in (inside, start, left, right)] == [4000, 500, 151, 150]
    assert (start.points[:, 1] == 0).all()
    assert (left.points[:, 0] == 0).all()
    assert (right.points[:, 0] == 1).all()
    counts_in_cells = np.histogramdd(inside.points, bins=(10, 10))[0]
    # random, not even: the chi-square of 100 cells is near 99, far from the 0 of a grid
    assert 50 < np.sum((counts_in_cells - 40) ** 2 / 40) < 160
    again, other = draw(HEAT, counts, 7), draw(HEAT, counts, 8)
    assert np.array_equal(again[0].points, inside.points)
    assert not np.array_equal(other[0].points, inside.points)


def test_conditions_at_one_place_share_their_points():
    wave = flm.problems.wave()
    sets = draw(wave, POINTS, 0)
    assert [(s.term, len(s.blocks), len(s.points)) for s in sets] == [
        ("equation", 1, 120),
        ("initial", 2, 30),  # value and velocity
        ("boundary", 1, 20),
        ("boundary", 1, 20),
    ]


def test_periodic_pairs_compare_opposite_points():
    problem = flm.problems.advection()
    (pair,) = [s for s in draw(problem, POINTS, 0) if s.partner is not None]
    np.testing.assert_array_equal(pair.points[:, 1], pair.partner[:, 1])
    assert (pair.points[:, 0] == 0).all()
    assert (pair.partner[:, 0] == 1).all()
    exactly = eqx.tree_at(lambda f: f.amplitudes, busy(problem), jnp.ones((5, 2)))  # integer waves are periodic
    assert terms(loss_of(problem), exactly, 1.0)[2] < 1e-25


@pytest.mark.slow
def test_a_conservation_law_trains_on_its_strong_form():
    """It has a periodic pair, too."""
    problem = flm.problems.burgers()
    solution = flm.train(problem, plain(problem), SGD, 30, points=POINTS)
    losses = solution.history["loss"]
    assert losses[-1] < losses[0]
    assert solution.errors().mse < 1e3


@pytest.mark.slow
def test_history_has_every_term_and_the_best_parameters_are_kept():
    rate = optax.piecewise_constant_schedule(0.03, {140: 60.0})  # the last epochs spoil what the others found
    conditions = [flm.initial(1.0), flm.dirichlet("t=1", np.exp(-1.0))]
    problem = flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t: u_t + u, conditions)
    solution = flm.train(problem, small, optax.adam(rate), 150, points=POINTS, weights={"boundary": 3.0}, seed=2)
    history = solution.history
    assert list(history)[:4] == ["columns", "estimate", "error_estimate", "seconds"]  # as every history
    assert list(history)[4:] == ["loss", "equation", "initial", "boundary"]
    np.testing.assert_array_equal(history["estimate"], history["loss"])
    assert np.all(np.diff(history["seconds"], prepend=0.0) > 0)
    assert history["seconds"][-1] <= solution.seconds
    assert all(len(v) == 150 for v in history.values())
    np.testing.assert_allclose(
        history["loss"], history["equation"] + history["initial"] + 3 * history["boundary"], rtol=1e-12
    )
    lowest = np.argmin(history["loss"])
    assert lowest < 149, "choose a rate at which the last epoch is not the best"
    kept = terms_of_decay(problem, solution.model, 1.0, seed=2) @ [1.0, 1.0, 3.0]
    np.testing.assert_allclose(kept, history["loss"][lowest], rtol=1e-9)
    assert f"epoch {lowest + 1:,}" in str(solution.status)


@pytest.fixture(scope="module")
def trained():
    """The decay after a hundred epochs of Adam."""
    return flm.train(DECAY, small, ADAM, 100, points=POINTS)


@pytest.mark.slow
def test_stops_at_the_first_loss_within_the_tolerance(trained):
    tolerance = trained.history["loss"][80]
    short = flm.train(DECAY, small, ADAM, 100, points=POINTS, loss_tol=tolerance)
    first = np.argmax(trained.history["loss"] <= tolerance)
    assert short.converged
    assert len(short.history["loss"]) == first + 1
    np.testing.assert_array_equal(short.history["loss"], trained.history["loss"][: first + 1])


def test_a_diverged_run_ends_with_a_status_and_finite_parameters():
    explode = flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t: u_t - jnp.exp(u * 50), [flm.initial(1.0)])
    counts = {"equation": 20, "initial": 1}
    solution = flm.train(explode, plain(explode), optax.sgd(10.0), 400, points=counts)
    assert solution.status.word == "diverged"
    assert "no longer finite" in str(solution.status)
    assert len(solution.history["loss"]) < 400
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(solution.model))


@pytest.mark.slow
def test_ctrl_c_returns_the_best_so_far():
    calls = []

    def press(progress):
        calls.append(progress)
        if progress.extras["epoch"] >= 9:
            raise KeyboardInterrupt

    solution = flm.train(DECAY, small, ADAM, 10**6, points=POINTS, progress=press)
    assert solution.status.word == "interrupted"
    last = calls[-1]
    assert len(solution.history["loss"]) == last.extras["epoch"] >= 9
    assert last.extras["epochs"] == 10**6
    assert last.share == last.extras["epoch"] / 10**6
    assert last.seconds_left > 0
    assert last.extras["best_loss"] == solution.history["loss"].min()


def test_lines_show_epochs_and_losses(capsys):
    solution = flm.train(DECAY, small, ADAM, 30, points=POINTS, progress=True)
    last = capsys.readouterr().out.splitlines()[-1]
    assert "100% training" in last
    assert "epoch 30, epochs 30" in last
    assert f"best_loss {solution.history['loss'].min():.4g}" in last


def test_one_compiled_program_per_run():
    traces = []
    counted = lambda u, u_t, k: traces.append(1) or (u_t + k * u)  # one entry per trace of the equation
    problem = flm.PDE(DECAY.domain, counted, [flm.initial(1.0)], parameters={"k": 1.0})
    before = len(traces)
    flm.train(problem, small, ADAM, 500, points=POINTS)
    assert len(traces) - before <= 2, "the loss was traced again for another number of epochs"


@pytest.mark.slow
def test_seeds_share_machine_code_and_nothing_else():
    descent.machine_code.cache_clear()
    model = busy(DECAY, period=4.0)  # its program is that of the other tests
    for problem, rate, seed in ((DECAY, 1.0, 0), (DECAY, 1.0, 1), (decay(0.3), 0.3, 0)):
        loss = flm.train(problem, model, ADAM, 3, points=POINTS, seed=seed).history["loss"]
        expected = terms_of_decay(problem, model, rate, seed).sum()
        np.testing.assert_allclose(loss[0], expected, rtol=1e-12)
    assert descent.machine_code.cache_info().misses == 1


@pytest.mark.slow
def test_stages_run_in_turn_from_the_best_parameters(trained):
    stages = [(ADAM, 100), (optax.lbfgs(memory_size=8), 100)]
    both = flm.train(DECAY, small, stages, points=POINTS)
    assert len(both.history["loss"]) == 200
    np.testing.assert_array_equal(both.history["loss"][:100], trained.history["loss"])
    assert both.history["loss"][100] == pytest.approx(trained.history["loss"].min(), rel=1e-12)  # two programs
    assert both.history["loss"][-1] < trained.history["loss"].min() / 20
    assert both.errors().mse < 1e-6


@pytest.mark.slow
def test_float32_models_train_in_float32(trained):
    cast = lambda key: jax.tree.map(lambda leaf: leaf.astype(jnp.float32), small(key))
    single = flm.train(DECAY, cast, ADAM, 100, points=POINTS)
    assert {leaf.dtype for leaf in jax.tree.leaves(single.model)} == {np.dtype("float32")}
    assert single.history["loss"].dtype == np.float32
    np.testing.assert_allclose(single.history["loss"], trained.history["loss"], rtol=2e-3)


FIT = flm.PDE(DECAY.domain, lambda t, u: u - jnp.exp(-t), [], exact=lambda t: jnp.exp(-t))  # no derivatives to compile


@pytest.mark.slow
@pytest.mark.parametrize("name", ["siren-2", "leaky-relu", "zp95", "s99", "tsm20"])  # one of each class
def test_every_class_of_models_trains(name):
    model = lambda key: flm.models.named_model(name, FIT.domain, 4, key=key)
    solution = flm.train(FIT, model, SGD, 40, points={"equation": 60})
    assert solution.history["loss"][-1] < solution.history["loss"][0]
    assert np.isfinite(solution.errors().mse)


SYSTEM = flm.PDE(
    flm.Box(t=(0, 1)),
    [lambda u_t, v: u_t - v, lambda v_t, u: v_t + u],
    [flm.initial(1.0), flm.initial(0.0, unknown="v")],
    unknowns=("u", "v"),
)
OF_A_SYSTEM = {
    "one model": lambda key: flm.FLM(SYSTEM.domain, 6, key=key, num_outputs=2),
    "one per unknown": {"u": lambda key: flm.FLM(SYSTEM.domain, 6, key=key), "v": plain(SYSTEM)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_A_SYSTEM)
def test_systems_train(name):
    solution = flm.train(SYSTEM, OF_A_SYSTEM[name], SGD, 40, points=POINTS)
    assert solution.history["loss"][-1] < solution.history["loss"][0]
    assert solution(t=0.3).shape == (2,)
    assert solution["v"](t=0.3).shape == ()


@pytest.mark.slow
def test_learned_parameters_stay_within_their_bounds_and_are_found():
    t = np.linspace(0, 1, 30)
    problem = flm.PDE(
        flm.Box(t=(0, 1)),
        lambda u, u_t, k: u_t + k * u,
        [flm.initial(1.0), flm.data(t, np.exp(-1.7 * t))],
        parameters={"k": flm.Learn(0.5, lower=0.0, upper=4.0)},
    )
    model = lambda key: flm.FLM(problem.domain, 4, key=key, period=4.0)
    rate = optax.cosine_decay_schedule(0.05, 5000)
    solution = flm.train(problem, model, optax.adam(rate), 5000, points={"equation": 40, "initial": 5})
    assert abs(solution.parameters["k"].value - 1.7) < 5e-3
    assert "data" in solution.history


@pytest.mark.slow
def test_numpy_on_coordinates_works():
    problem = flm.PDE(flm.Box(x=(0, 1)), lambda x, u_x: u_x - np.cos(x), [flm.dirichlet("x=0")])
    solution = flm.train(problem, plain(problem), SGD, 30, points=POINTS)
    assert solution.history["loss"][-1] < solution.history["loss"][0]


def test_a_trained_solution_survives_its_file(trained, tmp_path):
    trained.save(tmp_path / "decay.safetensors")
    again = flm.load(tmp_path / "decay.safetensors")
    np.testing.assert_allclose(again(t=0.4), trained(t=0.4), rtol=1e-12)
    np.testing.assert_array_equal(again.history["loss"], trained.history["loss"])


def of_heat(key):
    return flm.FLM(HEAT.domain, 9, key=key)


BAD = [
    ({"points": {"equation": 10, "initial": 5}}, "got no count for boundary"),
    ({"points": {"equation": 10, "initial": 5, "boundry": 5}}, "got 'boundry'. Did you mean 'boundary'?"),
    (
        {"points": {"equation": 0, "initial": 5, "boundary": 5}},
        "`points['equation']` must be an integer from 1 to",
    ),
    ({"points": 100}, "`points` must be a dict"),
    ({"optimizer": "adam"}, "`optimizer` must be an optax optimizer"),
    ({"epochs": 0}, "`epochs` must be an integer of at least 1; got 0."),
    ({"optimizer": [(ADAM, 5)]}, "`epochs` must not be given with stages"),
    ({"optimizer": [(ADAM, 5.5)], "epochs": None}, "`epochs` must be an integer of at least 1; got 5.5."),
    ({"weights": {"inital": 2.0}}, "got 'inital'. Did you mean 'initial'?"),
    ({"weights": {"initial": -1.0}}, "`weights['initial']` must be a number of at least 0; got -1.0."),
    ({"loss_tol": -1.0}, "`loss_tol` must be a number of at least 0; got -1.0."),
    ({"seed": -3}, "`seed` must be an integer of at least 0; got -3."),
    (
        {"model": lambda key: flm.FLM(1, 3, key=key)},
        "`model` must have 2 inputs (x, t) and 1 outputs (u); got 1 and 1.",
    ),
    ({"model": {"v": of_heat}}, "`model` must have one entry per unknown (u); got v."),
    ({"model": lambda key: 3}, "`model` must be a model, a function key -> model, or a dict of these; got 3."),
    ({"model": lambda key: flm.FLM(flm.Box(x=(0, 1), y=(0, 1)), 3, key=key)}, "built on the problem's axes (x, t)"),
    ({"problem": 3}, "`problem` must be a flm.PDE or offer its strong residual; got int."),
]


@pytest.mark.parametrize(("change", "sentence"), BAD)
def test_bad_calls_are_refused_in_a_sentence(change, sentence):
    call = {"problem": HEAT, "model": of_heat, "optimizer": ADAM, "epochs": 5, "points": POINTS} | change
    with pytest.raises((ValueError, TypeError)) as caught:
        flm.train(call.pop("problem"), call.pop("model"), call.pop("optimizer"), call.pop("epochs"), **call)
    assert sentence in str(caught.value)


def test_seconds_per_call_bounds_the_wait(monkeypatch):
    monkeypatch.setattr(descent, "SECONDS_PER_CALL", 0.005)
    sizes = []
    flm.train(DECAY, small, ADAM, 1000, points=POINTS, progress=lambda p: sizes.append(p.extras["epoch"]))
    assert len(sizes) > 5
    assert sizes[-1] == 1000
