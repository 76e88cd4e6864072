"""kill -9 at random moments: every file is absent, old or complete, and what is resumed continues exactly."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree
from pathlib import Path

import jax
import numpy as np
import pytest

import flm

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills are sent by signal")
LIMIT = 120  # seconds until a child has started to write


def start(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_after(child, happened, delay):
    """Kill a child some time after something happened; False when it ended by itself before."""
    deadline = time.monotonic() + LIMIT
    while not happened() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(delay)
    alive = child.poll() is None
    child.kill()
    _, errors = child.communicate()
    assert alive or child.returncode == 0, errors
    return alive


def leaves(solution):
    losses = {name: values for name, values in solution.history.items() if name != "seconds"}
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((solution.model, losses))]


TRAIN = """
import sys, flm, optax
from flm.numerics import descent
from flm.training import run
run.SECONDS_PER_CHECKPOINT = 0.0
descent.SECONDS_PER_CALL = 0.01
heat = flm.problems.heat()
make = lambda key: flm.FLM(heat.domain, 6, key=key)
points = {"equation": 120, "initial": 30, "boundary": 40}
s = flm.train(heat, make, optax.adam(1e-2), int(sys.argv[3]), points=points, seed=1, checkpoint=sys.argv[1])
s.save(sys.argv[2])
"""


def epochs_in(path):
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return len(file.get_tensor("root.history"))


def kill_training(folder, kills, epochs, seed):
    """Kill one training run again and again; in the end it must be the run that nobody killed."""
    rng, checkpoint, end = random.Random(seed), folder / "run.safetensors", folder / "end.safetensors"
    done, killed = 0, 0
    for _ in range(kills):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
        fresh = lambda before=before: checkpoint.exists() and checkpoint.stat().st_mtime_ns != before
        killed += kill_after(start(TRAIN, checkpoint, end, epochs), fresh, rng.uniform(0.0, 0.3))
        assert epochs_in(checkpoint) >= done, "a checkpoint went back"
        done = epochs_in(checkpoint)
        if end.exists():
            break
    for files in ((checkpoint, end), (folder / "other.safetensors", folder / "straight.safetensors")):
        subprocess.run([sys.executable, "-c", TRAIN, *map(str, files), str(epochs)], check=True)
    assert leaves(flm.load(end)) == leaves(flm.load(folder / "straight.safetensors"))
    return killed


ABSORB = """
import sys
from pathlib import Path
import numpy as np, flm
path, count = Path(sys.argv[1]), int(sys.argv[2])
done = 0
model = flm.FLMRegressor(32, frequencies="lattice", bounds=[[0, 1]])
if path.exists():
    model = flm.load(path)
    done = round(model._state.fit.model.data.count / 500)
for chunk in range(done, count):
    rng = np.random.default_rng(chunk)
    x = rng.uniform(size=(500, 1))
    model.partial_fit(x, np.sin(9 * x[:, 0]) + 0.1 * rng.normal(size=500))
    flm.save(model, path)
    print(chunk, flush=True)
"""


def kill_absorbing(folder, kills, chunks, seed, monkeypatch):
    """Kill a fit that saves after each chunk of rows; in the end it must have seen every chunk once."""
    rng, path, killed = random.Random(seed), folder / "fit.safetensors", 0
    for _ in range(kills):
        before = path.stat().st_mtime_ns if path.exists() else None
        fresh = lambda before=before: path.exists() and path.stat().st_mtime_ns != before
        killed += kill_after(start(ABSORB, path, chunks), fresh, rng.uniform(0.0, 0.15))
        flm.load(path)
    for file in (path, folder / "straight fit.safetensors"):  # in this process, which has read nothing but the file
        monkeypatch.setattr(sys, "argv", ["", str(file), str(chunks)])
        exec(compile(ABSORB, "absorb", "exec"), {})
    found, straight = flm.load(path), flm.load(folder / "straight fit.safetensors")
    grid = np.linspace(0, 1, 200)[:, None]
    assert found._state.fit.model.data.count == straight._state.fit.model.data.count == 500 * chunks
    for one, other in zip(found.predict(grid, return_std=True), straight.predict(grid, return_std=True), strict=True):
        assert one.tobytes() == other.tobytes()
    return killed


WRITE = """
import sys
from flm.cli.run import run
sys.exit(run(["solve", sys.argv[3], "--tol", sys.argv[2], "--out", sys.argv[1]]))
"""


def complete(path):
    """Whether one file of `--out` is whole."""
    text = lambda: path.read_text()
    kinds = {
        ".safetensors": lambda: flm.load(path),
        ".json": lambda: json.loads(text()),
        ".csv": lambda: np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2),
        ".png": lambda: path.read_bytes().endswith(b"IEND\xaeB`\x82") or 1 / 0,
        ".svg": lambda: xml.etree.ElementTree.fromstring(text()),
        ".html": lambda: text().rstrip().endswith("</html>") or 1 / 0,
    }
    found = kinds[path.suffix]()
    return len(found) == 101 * 101 if path.suffix == ".csv" else True


def visible(folder):
    return sorted(p for p in folder.glob("*") if not p.name.startswith(".")) if folder.exists() else []


def kill_writing(folder, kills, seed, problem):
    """Kill `flm solve --out` while it writes, over the files of earlier kills; nothing that can be seen is in pieces."""
    rng, out, killed = random.Random(seed), folder / "out", 0
    for i in range(kills):
        mark = time.time()
        wrote = lambda mark=mark: any(p.stat().st_mtime > mark for p in out.glob("*")) if out.exists() else False
        killed += kill_after(start(WRITE, out, 10.0 ** -(4 + i % 5), problem), wrote, rng.uniform(0.0, 1.2))
        assert all(complete(path) for path in visible(out))
    subprocess.run([sys.executable, "-c", WRITE, str(out), "1e-6", problem], check=True, stdout=subprocess.DEVNULL)
    names = {p.suffix for p in visible(out)}
    assert names >= {".safetensors", ".json", ".csv", ".html"}
    assert all(complete(path) for path in visible(out))
    return killed


@pytest.mark.slow
def test_an_out_of_core_fit_survives_a_kill(tmp_path, monkeypatch):
    assert kill_absorbing(tmp_path, 1, 80, 0, monkeypatch) == 1


@pytest.mark.soak
def test_training_survives_thirty_kills(tmp_path, tally):
    killed = kill_training(tmp_path, 30, 60_000, seed=0)
    tally("kills of training with checkpoints", killed)
    assert killed >= 27


@pytest.mark.soak
def test_an_out_of_core_fit_survives_thirty_kills(tmp_path, tally, monkeypatch):
    killed = kill_absorbing(tmp_path, 30, 1000, 1, monkeypatch)
    tally("kills of out-of-core fits", killed)
    assert killed >= 27


@pytest.mark.soak
@pytest.mark.parametrize("problem", ["heat", "viscous_burgers"])  # one piece, and slabs
def test_files_of_the_command_line_survive_twenty_kills(tmp_path, tally, problem):
    killed = kill_writing(tmp_path, 20, 2, problem)
    tally("kills of writing with --out", killed)
    assert killed >= 14


@pytest.mark.parametrize("moment", ["open", "write", "fsync", "replace"])
def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path, monkeypatch, moment):
    path = tmp_path / "model.safetensors"
    old, new = flm.FLM(2, 3, key=0), flm.FLM(2, 30, key=1)
    flm.save(old, path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    class Full:
        def __init__(self, handle):
            self.handle = handle

        def __enter__(self):
            return self

        def __exit__(self, *_):
            os.close(self.handle)

        write = full

    from flm import files

    if moment == "open":
        monkeypatch.setattr(files.tempfile, "mkstemp", full)
    elif moment == "write":
        monkeypatch.setattr(files.os, "fdopen", lambda handle, mode: Full(handle))
    else:
        monkeypatch.setattr(files.os, moment, full)
    with pytest.raises(OSError, match="No space left"):
        flm.save(new, path)
    assert path.read_bytes() == before
    assert [p.name for p in Path(tmp_path).iterdir()] == [path.name]
