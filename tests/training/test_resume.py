"""Checkpoints of `flm.train`: a resumed run is the run, bit for bit."""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import jax
import numpy as np
import optax
import pytest

import flm
from flm.numerics import descent


def decay(rate=1.0):
    return flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t, k: u_t + k * u, [flm.initial(1.0)], parameters={"k": rate})


DECAY = decay()  # an equation whose programs compile quickly
POINTS = {"equation": 40, "initial": 5}
# Stages, with a schedule, with keys in the state of the first and a line search in the second.
RATE = optax.scale_by_schedule(optax.cosine_decay_schedule(-1e-2, 30))
SEARCH = optax.chain(optax.sgd(1e-2), optax.scale_by_backtracking_linesearch(4, store_grad=True))
STAGES = [(optax.chain(optax.scale_by_adam(), optax.add_noise(1e-3, 0.5, 7), RATE), 20), (SEARCH, 10)]


def small(key, size=6):
    """A model with few trained arrays: less for the compiler to do."""
    return flm.models.named_model("zp95", DECAY.domain, size, key=key)


def bits(solution):
    losses = {name: values for name, values in solution.history.items() if name != "seconds"}
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((solution.model, losses))]


def stop_at(epoch):
    def press(progress):
        if progress.extras["epoch"] >= epoch:
            raise KeyboardInterrupt

    return press


@pytest.mark.slow
def test_an_interrupted_run_resumes_bit_for_bit(tmp_path, monkeypatch):
    path = tmp_path / "run.safetensors"
    run = partial(flm.train, DECAY, small, STAGES, points=POINTS, seed=4)
    whole = run()
    monkeypatch.setattr(descent, "SECONDS_PER_CALL", 1e-6)  # one epoch per call, unlike the whole run's
    for stop in (7, 24):
        part = run(checkpoint=path, progress=stop_at(stop))
        assert part.status.word == "interrupted"
        assert len(part.history["loss"]) < 30
    resumed = run(checkpoint=path)
    assert bits(resumed) == bits(whole)
    assert resumed.status == whole.status


@pytest.mark.slow
def test_more_epochs_continue_a_finished_run(tmp_path):
    path = tmp_path / "run.safetensors"
    flm.train(DECAY, small, optax.adam(1e-2), 40, points=POINTS, checkpoint=path)
    more = flm.train(DECAY, small, optax.adam(1e-2), 100, points=POINTS, checkpoint=path)
    finished = flm.train(DECAY, small, optax.adam(1e-2), 100, points=POINTS, checkpoint=path)
    assert bits(more) == bits(finished) == bits(flm.train(DECAY, small, optax.adam(1e-2), 100, points=POINTS))


SCRIPT = """
import sys, flm, optax
from flm.numerics import descent
from flm.training import run
run.SECONDS_PER_CHECKPOINT = 0.0
descent.SECONDS_PER_CALL = 0.01
problem = flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t, k: u_t + k * u, [flm.initial(1.0)], parameters={"k": 1.0})
make = lambda key: flm.models.named_model("zp95", problem.domain, 6, key=key)
points = {"equation": 40, "initial": 5}
flm.train(problem, make, optax.adam(1e-2), 10**8, points=points, seed=1, checkpoint=sys.argv[1])
"""


@pytest.mark.slow
def test_a_killed_process_resumes_bit_for_bit(tmp_path):
    path = tmp_path / "run.safetensors"
    # This process need not compile what that one did.
    kept = {"JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir}
    kept |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.02", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    victim = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], env=os.environ | kept)
    deadline = time.monotonic() + 300  # on a busy machine the import alone takes a minute
    while not path.exists() and victim.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(np.random.default_rng(time.time_ns()).uniform(0.0, 0.2))
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert path.exists()
    train = partial(flm.train, DECAY, small, optax.adam(1e-2), points=POINTS, seed=1)
    heard = []

    def listen(progress):
        heard.append(progress.extras["epoch"])
        if heard[-1] > heard[0] + 500:
            raise KeyboardInterrupt

    resumed = train(epochs=10**8, checkpoint=path, progress=listen)  # in another process
    assert heard[0] > 1, "it began anew"
    assert len(resumed.history["loss"]) == heard[-1] > heard[0] + 500
    assert bits(resumed) == bits(train(epochs=heard[-1]))


OTHER = {
    "another problem": {"problem": decay(0.2)},
    "another model": {"model": partial(small, size=7)},
    "another start": {"model": jax.tree.map(lambda leaf: leaf + 0.1, small(0))},
    "another rate": {"optimizer": optax.adam(2e-2)},
    "another seed": {"seed": 1},
    "other points": {"points": POINTS | {"equation": 41}},
    "other weights": {"weights": {"initial": 2.0}},
}


CALL = {"problem": DECAY, "model": small, "optimizer": optax.adam(1e-2), "epochs": 5, "points": POINTS}


def run(call, path):
    options = {name: value for name, value in call.items() if name not in ("problem", "model")}
    return flm.train(call["problem"], call["model"], **options, checkpoint=path)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A checkpoint of one run, which refused runs leave as it is."""
    path = tmp_path_factory.mktemp("stored") / "run.safetensors"
    run(CALL, path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER)
def test_a_checkpoint_of_another_run_is_refused(name, stored):
    before = stored.read_bytes()
    with pytest.raises(ValueError, match="`checkpoint` must belong to this run"):
        run(CALL | OTHER[name], stored)
    assert stored.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x08" + bytes(40)])
def test_a_damaged_checkpoint_is_refused(content, tmp_path):
    path = tmp_path / "run.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="`checkpoint` must be an undamaged checkpoint"):
        flm.train(DECAY, small, optax.adam(1e-2), 5, points=POINTS, checkpoint=path)


def test_a_saved_model_is_not_a_checkpoint(tmp_path):
    path = tmp_path / "model.safetensors"
    flm.save(small(0), path)
    with pytest.raises(ValueError, match="undamaged checkpoint"):
        flm.train(DECAY, small, optax.adam(1e-2), 5, points=POINTS, checkpoint=path)
