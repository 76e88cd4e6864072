"""Quick runners for the tests of studies, importable by spawned processes."""

import hashlib
import os
import signal
import time


def score(definition):
    """A score that depends on the run alone, and takes about as long as the study says."""
    time.sleep(definition["training"].get("sleep", 0.0))
    note = definition["training"].get("note")
    if note:
        with open(note, "a") as file:
            file.write(f"{definition['model']} {definition['size']} {definition['seed']}\n")
    noise = int(hashlib.sha256(repr(sorted(map(str, definition.items()))).encode()).hexdigest()[:8], 16) / 2**32
    mse = (1 + noise) / definition["size"]
    return {"mse": mse, "mae": mse**0.5, "max_error": 2 * mse**0.5, "epochs": 100 + definition["seed"]}


def busy(definition):
    """A score after a fixed amount of arithmetic on one core."""
    x = 0
    for i in range(int(definition["training"]["work"])):
        x = (x * 31 + i) % 1_000_003
    return {"mse": 1.0 + x, "mae": 1.0, "max_error": 1.0, "epochs": 1}


def troubled(definition):
    """Fails for seed 1, diverges for seed 2, ends its own worker for seed 3."""
    seed = definition["seed"]
    if seed == 1:
        raise MemoryError("no room")
    if seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return score(definition) | {"status": "diverged" if seed == 2 else "done"}


def threads(definition):
    """What the environment of a worker says about threads, and how it was started."""
    import multiprocessing

    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XLA_FLAGS")
    found = {name: os.environ.get(name) for name in names}
    return score(definition) | {"environment": found, "start": type(multiprocessing.current_process()).__name__}


def decay():
    """u' = -u, u(0) = 1: a problem whose training programs compile quickly."""
    import jax.numpy as jnp

    import flm

    return flm.PDE(flm.Box(t=(0, 1)), lambda u, u_t: u_t + u, [flm.initial(1.0)], exact=lambda t: jnp.exp(-t))


def definitions(count, runner="score", **training):
    """Runs of one of the runners above, a seed each."""
    return [
        {"runner": f"study_runners:{runner}", "problem": "p", "model": "m", "size": 1, "seed": i, "training": training}
        for i in range(count)
    ]
