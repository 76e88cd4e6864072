"""The paper's selection and its Table 2, filled run by run. (UZTACK20's comparison is a study: `flm study run uztack20`.)

    python benchmarks/paper_training.py RESULTS.jsonl --kind selection --epochs 1000 --models flm --sizes 16 25 49 --rates 1e-3 5e-3
    python benchmarks/paper_training.py RESULTS.jsonl --choose --epochs 1000
    python benchmarks/paper_training.py RESULTS.jsonl --models flm --sizes 49 --rates 5e-3 --seeds 0
    python benchmarks/paper_training.py RESULTS.jsonl --table

Each finished run is one line of RESULTS.jsonl; runs that are there already are not repeated, so it may be stopped at any time.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import flm
from flm.references.printed import PDE_ERRORS
from flm.solvers import paper_protocol as paper
from flm.study.selection import METRICS, select


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(path: Path, kind: str, problem: str, model: str, size: int, rate: float, seed: int, epochs: int) -> None:
    key = {"kind": kind, "problem": problem, "model": model, "size": size, "rate": rate, "seed": seed}
    key |= {"most_epochs": epochs} if kind == "selection" else {}
    if any(all(row[k] == v for k, v in key.items()) for row in rows(path) if row["kind"] == kind):
        return
    began, equation = time.monotonic(), getattr(flm.problems, problem)()
    if kind == "selection":
        leg = paper.Leg(epochs, paper.SELECTION.loss_tol)
        solution = paper.select_run(equation, model, size, rate, seed=seed, leg=leg)
    else:
        solution = paper.final_run(equation, model, size, rate, seed=seed)
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
    for problem, models in PDE_ERRORS.items():
        for model, theirs in models.items():
            same = [r for r in found if (r["kind"], r["problem"], r["model"]) == ("final", problem, model)]
            for size, rate in sorted({(r["size"], r["rate"]) for r in same}):
                group = [r for r in same if (r["size"], r["rate"]) == (size, rate)]
                ours = [np.mean([r[k] for r in group]) for k in ("mse", "mae", "max_error")]
                cells = [problem, model, size, group[0]["parameters"], f"{rate:g}", len(group)]
                cells += [f"{v:.2e}" for v in (*ours, *theirs)]
                lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def choices(found: list[dict], epochs: int) -> list[str]:
    """The paper's own selection (flm.study.selection) among the selection runs of at most so many epochs."""
    lines = ["| problem | model | configurations | seeds | chosen size | rate | mean MSE | decided by |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    runs = [r for r in found if r["kind"] == "selection" and r["most_epochs"] == epochs]
    for problem, model in dict.fromkeys((r["problem"], r["model"]) for r in runs):
        group = {(r["size"], r["rate"], r["seed"]): r for r in runs if (r["problem"], r["model"]) == (problem, model)}
        configurations = sorted({key[:2] for key in group})
        seeds = sorted({key[2] for key in group})
        value = lambda c, seed, metric, group=group: group[(*c, seed)][metric] if (*c, seed) in group else np.nan
        scores = {m: [[value(c, seed, m) for seed in seeds] for c in configurations] for m in METRICS}
        sizes = [next(r["parameters"] for key, r in group.items() if key[:2] == c) for c in configurations]
        chosen = select(scores, labels=[f"{size}, {rate:g}" for size, rate in configurations], sizes=sizes)
        size, rate = configurations[chosen.winner]
        cells = [problem, model, len(configurations), len(seeds), size, f"{rate:g}"]
        cells += [f"{np.nanmean(scores['mse'][chosen.winner]):.1e}", chosen.reason.removeprefix("Chosen: ")]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--kind", choices=("selection", "final"), default="final")
    parser.add_argument("--problems", nargs="+", default=list(PDE_ERRORS))
    parser.add_argument("--models", nargs="+", default=None)
    parser.add_argument("--sizes", nargs="+", type=int, default=None, help="default: the paper's")
    parser.add_argument("--rates", nargs="+", type=float, default=list(paper.RATES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(paper.SEEDS))
    parser.add_argument("--epochs", type=int, default=paper.SELECTION.epochs, help="of a selection run, at most")
    parser.add_argument("--choose", action="store_true", help="print what the paper's selection chooses, and stop")
    parser.add_argument("--table", action="store_true", help="print what is there as Markdown and stop")
    options = parser.parse_args()
    if options.table or options.choose:
        found = rows(options.results)
        print("\n".join(choices(found, options.epochs) if options.choose else table(found)))
        return
    for problem in options.problems:
        for model in options.models or list(PDE_ERRORS[problem]):
            for size in options.sizes or paper.SIZES[model]:
                for rate in options.rates:
                    for seed in options.seeds:  # innermost: one compilation serves all seeds
                        run(options.results, options.kind, problem, model, size, rate, seed, options.epochs)


if __name__ == "__main__":
    main()
