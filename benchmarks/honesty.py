"""Are the error estimates honest? More than two hundred manufactured problems through `flm.solve`.

    python benchmarks/honesty.py results.jsonl                 all that the file does not hold yet; half an hour of one core
    python benchmarks/honesty.py results.jsonl --only 3 17     some of them
    python benchmarks/honesty.py results.jsonl --table         the table of docs/reliability.md

A line is appended for each problem, so that a stopped run goes on where it was. An estimate is optimistic when the true error
(relative L2, worst unknown, on an even grid) is more than twice as large and above rounding; data that nothing satisfies
must not end as "converged". Times are CPU seconds of this process, compilation included.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np
from honesty_problems import TOLERANCES, Case, elliptic, evolution, layer, ordinary, resonance, spatial
from honesty_regions import planar, ring, unbalanced
from honesty_regions import spatial as balls
from honesty_rough import inconsistent, rough
from honesty_systems import FAMILIES as SYSTEMS

import flm

FAMILIES = {
    "ordinary, m = 1": (25, ordinary),
    "elliptic, m = 2": (30, elliptic),
    "nonlinear elliptic": (25, lambda rng: elliptic(rng, nonlinear=True)),
    "evolution": (25, evolution),
    "nonlinear evolution": (15, lambda rng: evolution(rng, nonlinear=True)),
    "m = 3": (15, spatial),
    "layers": (20, layer),
    "near resonance": (20, resonance),
    "not smooth": (12, rough),
    "inconsistent": (13, inconsistent),
    **SYSTEMS,
    "regions": (18, planar),
    "holes": (5, ring),
    "balls": (4, balls),
    "inconsistent, regions": (4, unbalanced),
}
COUNT = sum(count for count, _ in FAMILIES.values())
STRIDE = 37  # no divisor of the count: every family early on
MAX_COLUMNS = 40_000  # of all pieces; what the lattice still solves has its own limit of 3,000
ROUNDING = 1e-14


def case(index: int) -> Case:
    """The problem of that number, the same every time."""
    rng, tol = np.random.default_rng([2025, index]), TOLERANCES[index % len(TOLERANCES)]
    place = index
    for family, (count, make) in FAMILIES.items():
        if place < count:
            solvable = not family.startswith("inconsistent")
            return Case(family, make(rng) if solvable else make(rng, tol), tol, solvable)
        place -= count
    raise IndexError(f"`index` must be below {COUNT}; got {index}.")


def run(index: int, max_columns: int = MAX_COLUMNS) -> dict:
    """Solve one problem; a record of how it went."""
    made = case(index)
    cpu = time.process_time()
    solution = flm.solve(made.problem, made.tol, max_columns=max_columns)
    cpu = time.process_time() - cpu
    error = solution.errors().relative_l2 if made.solvable else None
    return {
        "index": index,
        "family": made.family,
        "tol": made.tol,
        "status": solution.status.word,
        "estimate": solution.error_estimate,
        "error": error,
        "columns": solution.num_columns,
        "cpu": round(cpu, 2),
    }


def excess(record: dict) -> float:
    """True error over estimate; infinite where data that nothing satisfies passed for solved."""
    if record["error"] is None:
        return np.inf if record["status"] == "converged" else 0.0
    if not np.isfinite(record["error"]):
        return 0.0 if not np.isfinite(record["estimate"]) else np.inf
    return record["error"] / max(record["estimate"], ROUNDING)


def table(records: list[dict]) -> str:
    """Counts by family, as Markdown."""
    head = "| family | problems | solved | above 2x the estimate | largest error / estimate | how it ended | CPU s, median | most |"
    lines = [head, "|" + "---|" * 8]
    for family in [*FAMILIES, "all"]:
        rows = [r for r in records if family in (r["family"], "all")]
        if not rows:
            continue
        solved = sum(r["error"] is not None and r["status"] == "converged" and r["error"] <= r["tol"] for r in rows)
        worst = [excess(r) for r in rows]
        words = ", ".join(f"{n} {word}" for word, n in Counter(r["status"] for r in rows).most_common())
        cpu = [r["cpu"] for r in rows]
        lines.append(
            f"| {family} | {len(rows)} | {solved} | {sum(w > 2 for w in worst)} | {max(worst):.2g} | {words} "
            f"| {np.median(cpu):.1f} | {max(cpu):.0f} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    done = {r["index"]: r for r in map(json.loads, lines)}
    if not options.table:
        for index in options.only or [i * STRIDE % COUNT for i in range(COUNT)]:
            if index in done and not options.only:
                continue
            record = done[index] = run(index)
            with options.results.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), "<<<<" if excess(record) > 2 else "", flush=True)
            jax.clear_caches()
    print(table([done[i] for i in sorted(done)]))


if __name__ == "__main__":
    main()
