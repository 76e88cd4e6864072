"""The paper's selection and its Table 2, filled run by run. (UZTACK20's comparison is a study: `flm study run uztack20`.)

    python benchmarks/paper_training.py RESULTS.jsonl --kind selection --models flm --sizes 16 25 49
    python benchmarks/paper_training.py RESULTS.jsonl --choose --rates 1e-3 5e-3
    python benchmarks/paper_training.py RESULTS.jsonl --models flm --sizes 49 --rates 5e-3 --seeds 0
    python benchmarks/paper_training.py RESULTS.jsonl --table

Each finished run is one line of RESULTS.jsonl; runs that are there already are not repeated, so it may be stopped at any time.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from flm.paper.printed import PARAMETERS, PDE_ERRORS
from flm.paper.protocol import POINTS
from flm.study.runs import train
from flm.study.selection import METRICS, select

SELECTION, FINAL = (10_000, 1e-4), (30_000, 1e-8)  # epochs at most, and the loss that ends them
ERRORS, NAMES = ("mse", "mae", "max_error"), ("MSE", "MAE", "max error")


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(path: Path, kind: str, problem: str, model: str, size: int, rate: float, seed: int, epochs: int) -> None:
    key = {"kind": kind, "problem": problem, "model": model, "size": size, "rate": rate, "seed": seed}
    key |= {"most_epochs": epochs} if kind == "selection" else {}
    if any(all(row[k] == v for k, v in key.items()) for row in rows(path) if row["kind"] == kind):
        return
    began = time.monotonic()
    legs = [(epochs, SELECTION[1])] if kind == "selection" else [SELECTION, FINAL]
    definition = {"problem": problem, "model": model, "size": size, "seed": seed}
    definition |= {"optimizer": {"name": "adam", "rate": rate}, "training": {"points": POINTS, "legs": legs}}
    found = train(definition)
    row = key | {"points": POINTS, "status": found["reason"], "seconds": round(time.monotonic() - began, 1)}
    row |= {k: found[k] for k in ("parameters", "epochs", "loss", *ERRORS)}
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def choices(found: list[dict], epochs: int, rates: list[float]) -> list[dict]:
    """The paper's own selection (flm.study.selection) among the selection runs of at most so many epochs at these rates."""
    chosen = []
    runs = [r for r in found if r["kind"] == "selection" and r["most_epochs"] == epochs and r["rate"] in rates]
    for problem, models in PDE_ERRORS.items():
        for model in models:
            same = [r for r in runs if (r["problem"], r["model"]) == (problem, model)]
            if not same:
                continue
            group = {(r["size"], r["rate"], r["seed"]): r for r in same}
            configurations = sorted({key[:2] for key in group})
            seeds = sorted({key[2] for key in group})
            value = lambda c, seed, metric, group=group: group[(*c, seed)][metric] if (*c, seed) in group else np.nan
            scores = {m: [[value(c, seed, m) for seed in seeds] for c in configurations] for m in METRICS}
            sizes = [next(r["parameters"] for key, r in group.items() if key[:2] == c) for c in configurations]
            selection = select(scores, labels=[f"{size}, {rate:g}" for size, rate in configurations], sizes=sizes)
            size, rate = configurations[selection.winner]
            row = {"problem": problem, "model": model, "configurations": len(configurations), "seeds": len(seeds)}
            row |= {"not told apart": len(selection.finalists), "size": size, "rate": rate}
            chosen.append(row | {"mean MSE": float(np.nanmean(scores["mse"][selection.winner]))})
    return chosen


def markdown(rows: list[dict]) -> list[str]:
    """A table of rows with the same keys."""
    cell = lambda key, v: (
        f"{v:.2e}" if isinstance(v, float) and key != "rate" else f"{v:g}" if key == "rate" else str(v)
    )
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])] if rows else []
    return lines + ["| " + " | ".join(cell(k, v) for k, v in row.items()) + " |" for row in rows]


def finals(found: list[dict], chosen: list[dict], *, others: bool) -> list[dict]:
    """Final runs of the chosen configurations, or of all others, beside the paper's figures; seeds are averaged."""
    picked = {(c["problem"], c["model"], c["size"], c["rate"]) for c in chosen}
    lines = []
    for problem, models in PDE_ERRORS.items():
        for model, theirs in models.items():
            same = [r for r in found if (r["kind"], r["problem"], r["model"]) == ("final", problem, model)]
            for size, rate in sorted({(r["size"], r["rate"]) for r in same}):
                if ((problem, model, size, rate) in picked) == others:
                    continue
                group = [r for r in same if (r["size"], r["rate"]) == (size, rate)]
                row = {"problem": problem, "model": model, "size": size, "parameters": group[0]["parameters"]}
                row |= {"rate": rate, "seeds": len(group)}
                row |= {n: float(np.mean([r[k] for r in group])) for n, k in zip(NAMES, ERRORS, strict=True)}
                lines.append(row | {f"paper {n}": v for n, v in zip(NAMES, theirs, strict=True)})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--kind", choices=("selection", "final"), default="final")
    parser.add_argument("--problems", nargs="+", default=list(PDE_ERRORS))
    parser.add_argument("--models", nargs="+", default=None)
    parser.add_argument("--sizes", nargs="+", type=int, default=None, help="default: the paper's")
    parser.add_argument("--rates", nargs="+", type=float, default=[1e-3, 5e-3, 1e-2])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(10)))
    parser.add_argument("--epochs", type=int, default=SELECTION[0], help="of a selection run, at most")
    parser.add_argument("--choose", action="store_true", help="print what the paper's selection chooses, and stop")
    parser.add_argument(
        "--table", action="store_true", help="print the final runs, those of the chosen first, and stop"
    )
    options = parser.parse_args()
    if options.table or options.choose:
        found = rows(options.results)
        chosen = choices(found, options.epochs, options.rates)
        tables = [chosen] if options.choose else [finals(found, chosen, others=o) for o in (False, True)]
        print("\n\n".join("\n".join(markdown(t)) for t in tables))
        return
    for problem in options.problems:
        for model in options.models or list(PDE_ERRORS[problem]):
            for size in options.sizes or PARAMETERS[model]:
                for rate in options.rates:
                    for seed in options.seeds:  # innermost: one compilation serves all seeds
                        run(options.results, options.kind, problem, model, size, rate, seed, options.epochs)


if __name__ == "__main__":
    main()
