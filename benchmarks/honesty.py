"""Are the error estimates honest? More than four hundred problems with known answers through `flm.solve`.

    python benchmarks/honesty.py results.jsonl                 all that the file does not hold yet; two hours of one core
    python benchmarks/honesty.py results.jsonl --only 3 17     some of them
    python benchmarks/honesty.py results.jsonl --table         the table of docs/reliability.md

A line is appended for each problem, so that a stopped run goes on where it was. An estimate is optimistic when the true error
(relative L2, worst unknown, on an even grid) is more than twice as large and above rounding; data that nothing satisfies
must not end as "converged". An answer whose status says that the problem has more than one solution, and which is not the one that
the problem was made from, is compared with a solve at a thousandth of the tolerance. Times are CPU seconds of this process,
compilation included.
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

import honesty_evolution
import honesty_inverse
import honesty_trees
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
MADE = sum(count for count, _ in FAMILIES.values())
LISTS = (  # a record of each number
    (MADE, lambda index: run_made(index)),
    (len(honesty_trees.LIST), honesty_trees.run),
    (honesty_evolution.COUNT, honesty_evolution.run),
    (honesty_inverse.NUM_CASES * honesty_inverse.DRAWS, honesty_inverse.run),
)
COUNT = sum(count for count, _ in LISTS)
STRIDE = 37  # no divisor of the count: every family early on
assert COUNT % STRIDE
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
    raise IndexError(f"`index` must be below {MADE}; got {index}.")


def run(index: int) -> dict:
    """Solve the problem of that number among all lists; a record of how it went."""
    place = index
    for count, solved in LISTS:
        if place < count:
            return {"index": index, **solved(place)}
        place -= count
    raise IndexError(f"`index` must be below {COUNT}; got {index}.")


def run_made(index: int, max_columns: int = MAX_COLUMNS) -> dict:
    """Solve one of the manufactured problems; a record of how it went."""
    made = case(index)
    cpu = time.process_time()
    solution = flm.solve(made.problem, made.tol, max_columns=max_columns)
    cpu = time.process_time() - cpu
    error, against = (solution.errors().relative_l2, "exact") if made.solvable else (None, "nothing")
    if "more than one solution" in solution.status.sentence and error is not None and error > made.tol:
        finer = flm.solve(made.problem, max(made.tol / 1000, 1e-12), max_columns=max_columns)
        error, against = solution.errors(finer).relative_l2, "finer solve"
    return {
        "family": made.family,
        "tol": made.tol,
        "status": solution.status.word,
        "estimate": solution.error_estimate,
        "error": error,
        "against": against,
        "columns": solution.num_columns,
        "cpu": round(cpu, 2),
    }


def excess(record: dict) -> float:
    """True error over estimate; infinite where data that nothing satisfies passed for solved."""
    if record["error"] is None:
        return np.inf if record["status"] == "converged" and not record.get("determined") else 0.0
    if not np.isfinite(record["error"]):
        return 0.0 if not np.isfinite(record["estimate"]) else np.inf
    return record["error"] / max(record["estimate"], record.get("floor", ROUNDING))


def table(records: list[dict]) -> str:
    """Counts by family, as Markdown."""
    head = "| family | problems | solved | above 2x the estimate | largest error / estimate | how it ended | CPU s, median | most |"
    lines = [head, "|" + "---|" * 8]
    for family in [*dict.fromkeys(r["family"] for r in records), "all"]:
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
    return "\n".join([*lines, "", honesty_inverse.parameters_table(records)])


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
