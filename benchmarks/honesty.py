"""Are the error estimates honest? 588 problems with known answers through `flm.solve`.

    python benchmarks/honesty.py               all that benchmarks/results/honesty.jsonl does not hold yet; 40 minutes of one core
    python benchmarks/honesty.py corners       families whose names contain one of these words
    python benchmarks/honesty.py --again       what it holds too
    python benchmarks/honesty.py --table       the table of docs/reliability.md
    python benchmarks/honesty.py --most 20     at most so many problems in this call

A line is appended for each problem, so that a stopped run goes on where it was. True errors are relative L2, worst unknown, on
an even grid or at random points, against the exact answer or an independent program. Where that program does not resolve the
problem, the reference is a solve at a thousandth of the tolerance; so it is for an answer whose status tells of more than one
solution and which is not the one that the problem was made from. A problem has 120 CPU seconds and 3 GB. Times are CPU seconds,
compilation included; `version` is the commit.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import argparse
import gc
import json
import resource
import signal
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import honesty_blind
import honesty_evolution
import honesty_inverse
import honesty_many
import honesty_problems
import honesty_regions
import honesty_rough
import honesty_systems
import jax
import numpy as np
from honesty_blind import Listed
from honesty_problems import Family

import flm

RESULTS = Path(__file__).parent / "results" / "honesty.jsonl"
LISTS = (honesty_problems, honesty_rough, honesty_systems, honesty_regions, honesty_evolution, honesty_blind)
OWN = (honesty_inverse, honesty_many)  # which run their problems themselves
WITHOUT = {"inverse, undetermined", "many: inconsistent"}  # families of theirs that have no answer
FAMILIES = {family.name: family for module in LISTS for family in module.FAMILIES}
SECONDS, MEMORY = 120, 3 << 30
ROUNDING = 1e-14
SEVERAL = "more than one solution"


@contextmanager
def limited(seconds: float = 0.0):
    """So much memory and, if given, time: for the solves, not for their references."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        signal.setitimer(signal.ITIMER_PROF, 0)


def solved(problem: flm.PDE, tol: float) -> flm.Solution:
    """A solve within its limits."""
    with limited(SECONDS):
        return flm.solve(problem, tol)


def true_error(solution: flm.Solution, problem: flm.PDE, family: Family | Listed, reference=None) -> float:
    """The relative L2 error, worst unknown."""
    if not family.scattered:
        return solution.errors(reference).relative_l2
    points = problem.domain.interior(20_000, seed=3, warp=False)
    exact = problem.exact_values(points) if reference is None else np.asarray(reference(points))
    return float(np.linalg.norm(np.asarray(solution(points)) - exact) / np.linalg.norm(exact))


def run(name: str, number: int) -> dict:
    """Solve one problem; a record of how it went."""
    for own in OWN:
        if name in own.COUNTS:
            with limited():
                return own.run(name, number)
    family = FAMILIES[name]
    problem, tol = family.problem(number)
    record = {"family": name, "number": number, "list": family.year, "tol": tol}
    cpu = time.process_time()
    try:
        solution = solved(problem, tol)
    except (KeyboardInterrupt, MemoryError) as problem_:
        word = "memory" if isinstance(problem_, MemoryError) else "time"
        return record | {"status": word, "estimate": np.inf, "error": None, "cpu": round(time.process_time() - cpu, 2)}
    cpu = time.process_time() - cpu
    several = SEVERAL in solution.status.sentence
    record |= {"status": solution.status.word, "several": several, "estimate": solution.error_estimate, "error": None}
    record |= {"columns": solution.num_columns, "cpu": round(cpu, 2)}
    if not family.solvable:
        return record
    reference = getattr(problem, "reference", None)
    error, against = true_error(solution, problem, family), "reference" if reference else "exact"
    unknown = max(getattr(reference, "left", 0.0), ROUNDING)
    if (several and error > tol) or unknown > max(0.1 * solution.error_estimate, 1e-9):
        try:
            finer = solved(problem, max(tol / 1000, 1e-12))
        except (KeyboardInterrupt, MemoryError):
            return record | {"against": "nothing"}
        error, against, unknown = true_error(solution, problem, family, finer), "finer solve", finer.error_estimate
    return record | {"error": error, "against": against, "unknown": unknown}


def solvable(record: dict) -> bool:
    """Whether the problem of a record has an answer."""
    family = FAMILIES.get(record["family"])
    return record["family"] not in WITHOUT if family is None else family.solvable


def excess(record: dict) -> float:
    """True error over estimate; infinite where data that nothing satisfies passed for solved, or NaN for an answer."""
    if not solvable(record):
        return np.inf if np.isfinite(record["estimate"]) else 0.0
    if record["error"] is None or not np.isfinite(record["estimate"]):
        return 0.0
    if not np.isfinite(record["error"]):
        return np.inf
    return record["error"] / max(record["estimate"], record.get("unknown", ROUNDING))


def row(name: str, rows: list[dict]) -> str:
    """A line of the table."""
    good = [r for r in rows if r["error"] is not None and r["status"] == "converged" and r["error"] <= r["tol"]]
    worst, cpu = [excess(r) for r in rows], [r["cpu"] for r in rows]
    words = ", ".join(f"{n} {word}" for word, n in Counter(r["status"] for r in rows).most_common())
    wide = [r["estimate"] / max(r["error"], r.get("unknown", ROUNDING)) for r in good]
    lists = ", ".join(str(year) for year in sorted({r["list"] for r in rows}))
    return (
        f"| {name} | {lists} | {len(rows)} | {len(good)} | {sum(w > 2 for w in worst)} | {max(worst):.2g} | "
        f"{f'{np.median(wide):.2g}' if wide else ''} | {words} | {np.median(cpu):.1f} | {max(cpu):.0f} |"
    )


def table(records: list[dict]) -> str:
    """Counts by family, as Markdown."""
    titles = (
        "family", "list", "problems", "solved", "above 2x", "largest error / estimate", "estimate / error, median",
        "how it ended", "CPU s, median", "most",
    )  # fmt: skip
    names = list(dict.fromkeys(r["family"] for r in records))
    groups = {name: [r for r in records if r["family"] == name] for name in names}
    groups |= {"all that have a solution": [r for r in records if solvable(r)], "all": records}
    lines = [
        f"| {' | '.join(titles)} |",
        "|" + "---|" * len(titles),
        *(row(name, rows) for name, rows in groups.items() if rows),
    ]
    commits = ", ".join(f"{n} {commit}" for commit, n in Counter(r["version"] for r in records).most_common())
    return "\n".join([*lines, "", f"Records by commit: {commits}.", honesty_inverse.parameters_table(records)])


def late(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--most", type=int)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    counts = {name: family.count for name, family in FAMILIES.items()}
    counts |= {name: count for own in OWN for name, count in own.COUNTS.items()}
    listed = [(name, number) for name, count in counts.items() for number in range(count)]
    listed.sort(key=lambda which: which[1] / counts[which[0]])  # every family early on
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    done = {(r["family"], r["number"]): r for r in map(json.loads, lines)}
    named = lambda which: not options.words or any(word in f"{which[0]} {which[1]}" for word in options.words)
    todo = [which for which in listed if named(which) and (options.again or which not in done)]
    if not options.table:
        signal.signal(signal.SIGPROF, late)
        version = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        for which in todo[: options.most]:
            record = done[which] = run(*which) | {"version": version}
            with options.results.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), "<<<<" if excess(record) > 2 else "", flush=True)
            jax.clear_caches()
            gc.collect()
    print(
        table(
            [done[which] for which in sorted(listed, key=lambda which: list(counts).index(which[0])) if which in done]
        )
    )


if __name__ == "__main__":
    main()
