"""Same seed, same machine, same threads: the same bits, in one process or several."""

import json
import os
import subprocess
import sys

import pytest

DIGEST = """
import hashlib, json, sys
import jax, numpy as np, optax, flm
from flm.study import Store, execute, local

def digest(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()

def solve(problem, tol, **options):
    s = flm.solve(problem, tol, seed=3, **options)
    return digest(*jax.tree.leaves(s.model), s.error_estimate, s.history["estimate"])

def train():
    p = flm.problems.heat()
    s = flm.train(p, lambda key: flm.FLM(p.domain, 4, key=key), optax.adam(1e-2), 200, seed=3,
                  points={"equation": 64, "initial": 16, "boundary": 16})
    return digest(*jax.tree.leaves(s.model), s.history["loss"])

rng = np.random.default_rng(0)
x, t = rng.uniform(size=(400, 2)), np.arange(300.0)
y = np.sin(9 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=400)
table = np.stack([np.sin(t / 4), np.cos(t / 4)], 1) + 0.1 * rng.normal(size=(300, 2))
table[40:55, 0] = table[170:172] = np.nan

def study(folder):
    runs = [{"runner": "study_runners:score", "problem": "p", "model": "m", "size": 1, "seed": i, "training": {}}
            for i in range(8)]
    with Store(folder + "/runs.sqlite", write=True) as store:
        execute(runs, store, workers=local(2))
        return digest(*(row.outcome["mse"] for row in sorted(store.rows(), key=lambda r: r.definition["seed"])))

if __name__ == "__main__":
    print(json.dumps({
        "solve, linear": solve(flm.problems.heat(), 1e-8),
        "solve, learned frequencies": solve(flm.problems.helmholtz(), 1e-8),
        "solve, nonlinear": solve(flm.problems.klein_gordon(), 1e-6),
        "solve, N given": solve(flm.problems.poisson(), 1e-6, num_subnets=4),
        "train": train(),
        "fit": digest(*flm.FLMRegressor(8).fit(x, y).predict(x, return_std=True)),
        "impute": digest(*flm.FLMImputer().fit(table).impute(table)),
        "study": study(sys.argv[1]),
    }))
"""


@pytest.mark.soak
def test_two_processes_find_the_same_bits(tmp_path):
    script, found = tmp_path / "digests.py", []
    script.write_text(DIGEST)
    for i in range(2):
        folder = tmp_path / str(i)
        folder.mkdir()
        environment = os.environ | {"PYTHONHASHSEED": str(i), "PYTHONPATH": os.path.dirname(__file__)}
        done = subprocess.run(
            [sys.executable, str(script), str(folder)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    assert len(found[0]) == 8
