"""The paper's Table 2 and UZTACK20's comparison, filled run by run.

    python benchmarks/paper_training.py RESULTS.jsonl --kind selection --models flm --sizes 25 49 --rates 1e-3 5e-3 --seeds 0 1 2
    python benchmarks/paper_training.py RESULTS.jsonl --models flm --sizes 49 --rates 5e-3 --seeds 0
    python benchmarks/paper_training.py RESULTS.jsonl --older --problems heat poisson --rates 5e-3 --seeds 0
    python benchmarks/paper_training.py RESULTS.jsonl --table

Each finished run is one line of RESULTS.jsonl; runs that are there already are not repeated, so it may be stopped at any time.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import flm
from flm.solvers import paper_protocol as paper


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(path: Path, kind: str, problem: str, model: str, size: int, rate: float, seed: int) -> None:
    key = {"kind": kind, "problem": problem, "model": model, "size": size, "rate": rate, "seed": seed}
    if any(all(row[k] == v for k, v in key.items()) for row in rows(path)):
        return
    began = time.monotonic()
    chosen = paper.select_run if kind == "selection" else paper.final_run
    solution = chosen(getattr(flm.problems, problem)(), model, size, rate, seed=seed)
    errors = solution.errors()
    row = key | {
        "parameters": solution.model.num_parameters,
        "points": paper.POINTS,
        "status": solution.status.word,
        "epochs": len(solution.history["loss"]),
        "loss": float(solution.history["loss"].min()),
        "mse": errors.mse,
        "mae": errors.mae,
        "max_error": errors.max_error,
        "seconds": round(time.monotonic() - began, 1),
    }
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def table(found: list[dict]) -> list[str]:
    """Final runs beside the paper's figures; several seeds of a row are averaged."""
    lines = [
        "| problem | model | size | parameters | rate | seeds | MSE | MAE | max error | paper MSE | paper MAE | paper max |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for problem, models in paper.REPORTED.items():
        for model, theirs in models.items():
            same = [r for r in found if (r["kind"], r["problem"], r["model"]) == ("final", problem, model)]
            for size, rate in sorted({(r["size"], r["rate"]) for r in same}):
                group = [r for r in same if (r["size"], r["rate"]) == (size, rate)]
                ours = [np.mean([r[k] for r in group]) for k in ("mse", "mae", "max_error")]
                cells = [problem, model, size, group[0]["parameters"], f"{rate:g}", len(group)]
                cells += [f"{v:.2e}" for v in (*ours, *theirs)]
                lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--kind", choices=("selection", "final"), default="final")
    parser.add_argument("--problems", nargs="+", default=list(paper.REPORTED))
    parser.add_argument("--models", nargs="+", default=None)
    parser.add_argument("--sizes", nargs="+", type=int, default=None, help="default: the paper's")
    parser.add_argument("--rates", nargs="+", type=float, default=list(paper.RATES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(paper.SEEDS))
    parser.add_argument("--older", action="store_true", help="GW88, S99, L13 and a sigmoid MLP instead, selection runs")
    parser.add_argument("--table", action="store_true", help="print what is there as Markdown and stop")
    options = parser.parse_args()
    if options.table:
        print("\n".join(table(rows(options.results))))
        return
    if options.older:
        for seed in options.seeds:
            for problem in options.problems:
                for model, size in paper.OLDER.items():
                    for rate in options.rates:
                        run(options.results, "selection", problem, model, size, rate, seed)
        return
    for seed in options.seeds:
        for problem in options.problems:
            for model in options.models or list(paper.REPORTED[problem]):
                for size in options.sizes or paper.SIZES[model]:
                    for rate in options.rates:
                        run(options.results, options.kind, problem, model, size, rate, seed)


if __name__ == "__main__":
    main()
