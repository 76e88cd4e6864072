"""Studies: what two workers gain over one, and what a run costs beyond its own computing.

    python benchmarks/study.py            (about a minute on two idle cores)

Both in one process tree and one run. The gain is wall time of the same busy runs with one worker over that with two, and it
needs two idle cores; beside it stands what the machine itself allows, two bare processes against one, at the same time of day.
Overhead is the driver's and workers' time beyond the runs' own, for runs that take none.
"""

import argparse
import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from flm.study import Store, execute, local
from flm.study.execution import Workers


def busy(definition):
    """A fixed amount of arithmetic on one core."""
    x = 0
    for i in range(definition["training"]["work"]):
        x = (x * 31 + i) % 1_000_003
    return {"mse": 1.0 + x}


def definitions(count, work):
    run = {"runner": "study:busy", "problem": "p", "model": "m", "size": 1, "training": {"work": work}}
    return [run | {"seed": i} for i in range(count)]


def study(folder, name, count, work, workers):
    """Wall seconds of the runs alone: a first study of the same executor pays for starting its processes."""
    with (
        local(workers).open() as executor,
        Store(folder / f"{name}-warm.sqlite", write=True) as warm,
        Store(folder / f"{name}.sqlite", write=True) as store,
    ):
        held = Workers(workers, lambda: contextlib.nullcontext(executor))  # left open
        execute(definitions(4 * workers, 10), warm, workers=held)
        began, cpu = time.perf_counter(), time.process_time()
        execute(definitions(count, work), store, workers=held)
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        own = [row.outcome for row in store.rows()]
        assert store.audit().done == count
    return wall, cpu, sum(o["seconds"] for o in own), sum(o["processor_seconds"] for o in own)


def bare(count, work, workers):
    """Wall seconds of the same arithmetic in bare processes: what the machine allows."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        pool.map(busy, definitions(workers, 10), chunksize=1)
        began = time.perf_counter()
        pool.map(busy, definitions(count, work), chunksize=1)
        return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60, help="busy runs")
    parser.add_argument("--work", type=int, default=1_000_000, help="loop turns of a busy run, about 0.1 s")
    parser.add_argument("--empty", type=int, default=2000, help="runs that do nothing")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        one, _, _, work_one = study(folder, "one", options.runs, options.work, 1)
        two, _, _, work_two = study(folder, "two", options.runs, options.work, 2)
        alone, pair = (bare(options.runs, options.work, n) for n in (1, 2))
        wall, cpu, own, _ = study(folder, "empty", options.empty, 0, 1)
    print("| measure | value |\n|---|---|")
    print(f"| two workers over one, wall | {one / two:.2f}x |")
    print(f"| the same in bare processes: what the machine allows now | {alone / pair:.2f}x |")
    print(f"| processor time of the runs, two workers over one | {work_two / work_one:.2f} |")
    print(f"| overhead per run, wall (runs that take none) | {1e3 * (wall - own) / options.empty:.2f} ms |")
    print(f"| overhead per run, processor time of the driver | {1e3 * cpu / options.empty:.2f} ms |")
    print(f"| load average of {os.cpu_count()} cores | {os.getloadavg()[0]:.1f} |")


if __name__ == "__main__":
    main()
