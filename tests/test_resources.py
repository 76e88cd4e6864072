"""Memory is asked for first, threads follow the environment, Ctrl-C keeps what was found, processes share files."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import flm
from flm.pde import sparse as growth
from flm.pde.waves import distillation, sampling

needs_signals = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs signals and /proc")


def test_a_size_that_memory_does_not_hold_is_refused(monkeypatch):
    monkeypatch.setattr(distillation, "columns_in_memory", lambda: 1000)
    with pytest.raises(
        ValueError, match=r"`num_subnets` must be at most 250, .* got 100,000, .* up to 400,000 columns"
    ):
        flm.solve(flm.problems.heat(), num_subnets=100_000, max_columns=10**9)


def test_growth_stops_where_memory_does(monkeypatch):
    monkeypatch.setattr(growth, "columns_in_memory", lambda: 60)
    solution = flm.solve(flm.problems.helmholtz(), 1e-10, max_columns=10**9, method="sparse")
    assert solution.status.word == "size"
    assert "limit of the free memory, at a size of 60 columns" in solution.status.sentence
    assert solution.num_columns <= 60


def test_free_memory_bounds_the_columns():
    most = growth.columns_in_memory()
    assert 100 < most <= 1 << 30
    if most < 1 << 30:  # rows and columns of the largest problem, twice, in half of the memory
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert 2 * 8 * (sampling.ROWS_PER_COLUMN + 1) * most**2 <= pages


THREADS = """
import json, flm
from threadpoolctl import threadpool_info
flm.solve(flm.problems.poisson(), 1e-6)
print(json.dumps([p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]))
"""


@pytest.mark.soak
@pytest.mark.parametrize("count", ["1", "2"])
def test_threads_follow_the_environment(count):
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, count)
    done = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, check=True)
    threads = json.loads(done.stdout)
    assert threads
    assert all(n <= int(count) for n in threads)


SOLVE = """
import json, flm
def tell(step): print("step", flush=True)
s = flm.solve(flm.problems.convection_diffusion(0.003), 1e-12, progress=tell, method="sparse")
print(json.dumps([s.status.word, s.error_estimate, bool(s(x=0.5, y=0.5) == s(x=0.5, y=0.5))]))
"""
SLABS = """
import json, flm
def tell(step): step.stage == "slab" and print("step", flush=True)
s = flm.solve(flm.problems.viscous_burgers(viscosity=0.003), 1e-10, progress=tell, method="pieces")
print(json.dumps([s.status.word, s.estimate_until, s.trusted_until < 1 and bool(s(x=0.5, t=0.99 * s.trusted_until) < 9)]))
"""
TRAIN = """
import json, optax, flm
p = flm.problems.heat()
def tell(step): print("step", flush=True)
s = flm.train(p, lambda key: flm.FLM(p.domain, 6, key=key), optax.adam(1e-3), 10**8,
              points={"equation": 100, "initial": 20, "boundary": 20}, progress=tell)
print(json.dumps([s.status.word, len(s.history["loss"]), True]))
"""
FIT = """
import json, threading, numpy as np, flm
rng = np.random.default_rng(0)
x = rng.uniform(size=(300, 1)); y = np.sin(9 * x[:, 0])
model = flm.FLMRegressor(6).fit(x, y)
before = model.predict(x)
def chunks():
    while True:
        print("step", flush=True)
        yield x, y
try:
    flm.FLMRegressor(64, frequencies="lattice", bounds=[[0, 1]]).fit(chunks())
except KeyboardInterrupt:
    print(json.dumps(["interrupted", 0, bool((model.predict(x) == before).all())]))
"""


def interrupt(script, seconds=90, steps=2, delay=0.0):
    """Press Ctrl-C in a process that has said "step" so often: what it printed last, and the processor time that it went on."""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    guard = threading.Timer(seconds, child.kill)
    guard.start()
    try:
        for _ in range(steps):
            assert child.stdout.readline() == "step\n"
        time.sleep(delay)
        # What it has used so far, and in the end: on a busy machine the clock on the wall says nothing.
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        before = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        others = resource.getrusage(resource.RUSAGE_CHILDREN)
        child.send_signal(signal.SIGINT)
        rest, errors = child.communicate()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - others.ru_utime - others.ru_stime
        return rest.splitlines()[-1:], errors, child.returncode, used - before
    finally:
        guard.cancel()


@pytest.mark.slow
@needs_signals
@pytest.mark.parametrize(
    "script",
    [SOLVE, *(pytest.param(s, marks=pytest.mark.soak) for s in (SLABS, TRAIN, FIT))],
    ids=["solve", "slabs", "train", "fit"],
)
def test_control_c_ends_with_what_was_found(script):
    last, errors, code, used = interrupt(script)
    assert code == 0, errors
    word, _, intact = json.loads(last[0])
    assert word == ("stopped" if script is SLABS else "interrupted")
    assert intact
    assert used < 10  # a second or two on a free core


@needs_signals
@pytest.mark.soak
@pytest.mark.parametrize("delay", [0.5, 1.5, 3.0])
def test_control_c_waits_for_a_few_seconds_at_the_largest_size(delay):
    """The step from 1,369 to 2,809 columns takes several seconds."""
    last, errors, code, used = interrupt(SOLVE, seconds=400, steps=5, delay=delay)
    assert code == 0, errors
    assert json.loads(last[0])[0] == "interrupted"
    assert used < 10  # 4 at most on a free core


@needs_signals
@pytest.mark.soak
def test_control_c_on_the_command_line_writes_the_answer_and_exits_with_one():
    command = """
import sys
from flm.cli import solve
from contextlib import contextmanager
@contextmanager
def tell(*_, **__):
    yield lambda step: print("step", flush=True)
solve.watching = tell
from flm.cli.run import run
sys.exit(run(["solve", "convection_diffusion", "--set", "epsilon=0.003", "--tol", "1e-12", "--method", "sparse", "--json"]))
"""
    last, errors, code, _ = interrupt(command)
    assert code == 1, errors
    assert last == ["}"]


WRITER = """
import sys, numpy as np, flm
from flm.files import load, save
rng = np.random.default_rng(int(sys.argv[2]))
model = flm.FLM(2, 40, key=int(sys.argv[2]))
for _ in range(150):
    save(model, sys.argv[1])
    assert load(sys.argv[1]).num_subnets == 40
"""


@pytest.mark.soak
def test_two_processes_on_one_file_leave_it_whole(tmp_path):
    path = tmp_path / "model.safetensors"
    both = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(i)]) for i in range(2)]
    assert [child.wait() for child in both] == [0, 0]
    found = np.asarray(flm.load(path).phases)
    assert any((found == np.asarray(flm.FLM(2, 40, key=i).phases)).all() for i in range(2))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_two_writers_on_one_store_are_refused(tmp_path):
    from flm.study.store import Store

    with Store(tmp_path / "runs.sqlite", write=True), pytest.raises(Exception, match=r"writ|lock|use") as caught:
        Store(tmp_path / "runs.sqlite", write=True).__enter__()
    assert len(str(caught.value)) > 20
