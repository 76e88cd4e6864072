"""The paper, run by run, and the tables of docs/paper.md, made from results/ alone.

    python benchmarks/paper.py control                (fixed starts and families by the penalty method and by our solver)
    python benchmarks/paper.py solver                 (our solver on the four PDEs)
    python benchmarks/paper.py readings               (what the words on imputation may mean; needs FLM_ETT)
    python benchmarks/paper.py training --models flm  (the protocol of Table 2: selection, then final runs)
    python benchmarks/paper.py tables                 (writes the tables and the picture of docs/paper.md)

Each finished run is one line of results/, with the commit of the sources that made it. Runs that are there are not repeated, so
all of it may be stopped at any time. The protocol is that of `flm.paper.protocol`.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import argparse
import json
import re
import subprocess
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd

from flm.paper.imputation import find_series
from flm.paper.plan import FULL, SOLVER, STARTS, Plan
from flm.paper.printed import DISKS, FIVE_STRATEGIES, FIXED_STARTS, IMPUTATION, PARAMETERS, PDE_ERRORS
from flm.paper.protocol import FIGURE, FIGURE_SIZES, read_protocol
from flm.report.figures.data import size_figure
from flm.report.pages.demo import TITLES
from flm.report.pages.study import mean_and_deviation
from flm.series import sincos
from flm.study.runs import run_one, train
from flm.study.selection import METRICS, select
from flm.study.spec import Configuration
from flm.study.store import run_key
from flm.wording import measured

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "paper.md"
PICTURE = PAGE.parent / "images" / "sizes.png"
ERRORS, NAMES = ("mse", "mae", "max_error"), ("MSE", "MAE", "max error")
ERRORS_OF_COST = {"networks, %": "network_mape", "simulated, %": "mape", "bias law, %": "law_mape"}
RATES = (1e-3, 5e-3)  # of the adopted selection; docs/paper.md says what the others change
Row = dict


def sources() -> str:
    """The last commit that changed the package, and whether it was changed since; results are no sources."""
    folder = Path(__file__).parent.parent / "src"
    git = lambda *command: subprocess.run(
        ["git", *command, "--", "."], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
    return git("log", "-1", "--format=%h") + ("-dirty" if git("status", "--porcelain") else "")


COMMIT = sources()  # of what this process runs, whatever is committed while it does


def rows(name: str) -> list[Row]:
    """The lines of a file of results."""
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add(name: str, row: Row) -> None:
    """One more line: a single write to a file opened to append."""
    with (RESULTS / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(row | {"commit": COMMIT}) + "\n")
    print(json.dumps(row)[:160], flush=True)


def run(name: str, definitions: list[Row]) -> None:
    """Runs of `flm paper` that are not there yet; curves and surfaces are left out."""
    there = {run_key(row["definition"]) for row in rows(name)}
    for definition in definitions:
        if run_key(definition) not in there:
            status, outcome = run_one(definition)
            kept = {k: v for k, v in outcome.items() if k == "parts" or not isinstance(v, list | dict)}
            add(name, {"definition": definition, "status": status, "outcome": kept})


# --- Table 2: the selection and the final runs -------------------------------------------------------------------------


def training(options: argparse.Namespace) -> None:
    """The figure's runs; the protocol's selection, every size and setting of Adam; the final runs of what it chooses.

    Ten seeds in one program (vmap) agree with single runs to 4e-15 after 200 epochs, but an epoch of a seed then takes 1.1
    times (FLM, N = 4) to 1.4 times (N = 25) as long on one core: the work is elementwise, and ten tables leave the cache.
    One compilation serves all seeds as it is.
    """
    for problem in (FIGURE, *options.problems):
        spec = read_protocol(problem)
        for group in spec.groups:
            if group.problem in options.problems and group.model in options.models:
                for c in group.configurations:
                    for seed in spec.seeds[: options.seeds]:
                        train_one("selection", spec.definition(c, seed), spec.training["epochs"])
        for choice in choices(rows("paper_training")):
            if choice["problem"] == problem and choice["model"] in options.models:
                adam = {"name": "adam"} | {k: choice[k] for k in ("rate", "b2") if k in choice}
                c = Configuration(problem, choice["model"], choice["size"], adam)
                for seed in spec.seeds[: options.seeds]:
                    train_one("final", spec.definition(c, seed, final=True), None)


def train_one(kind: str, definition: Row, epochs: int | None) -> None:
    """One run of training, unless it is there."""
    key = {"kind": kind} | {k: definition[k] for k in ("problem", "model", "size", "seed")}
    key |= {k: v for k, v in definition["optimizer"].items() if k != "name"} | (
        {"most_epochs": epochs} if epochs else {}
    )
    settings = ("rate", "b1", "b2", *key)
    if any(all(row.get(k) == key.get(k) for k in settings) for row in rows("paper_training")):
        return
    began = time.monotonic()
    found = train(definition)
    row = key | {"status": found["reason"], "seconds": round(time.monotonic() - began, 1)}
    add("paper_training", row | {k: found[k] for k in ("parameters", "epochs", "loss", *ERRORS)})


def setting(row: Row) -> tuple:
    """The configuration of a run: size, rate, second momentum (None is the default)."""
    return row["size"], row["rate"], row.get("b2")


def selected(found: list[Row]) -> dict[tuple[str, str], dict[tuple, list[Row]]]:
    """The runs among which each model is selected, by configuration, as many seeds of each.

    The whole protocol where it is all there. Else the rates of `RATES`, for the most seeds that six configurations have.
    """
    there: dict[tuple[str, str], dict[tuple, dict[int, Row]]] = {}
    for row in found:
        if row["kind"] == "selection" and row["size"] in PARAMETERS[row["model"]]:
            runs = there.setdefault((row["problem"], row["model"]), {})
            runs.setdefault(setting(row), {})[row["seed"]] = row
    chosen = {}
    for problem, spec in ((p, read_protocol(p)) for p in PDE_ERRORS):
        for group in (g for g in spec.groups if (problem, g.model) in there):
            runs = there[problem, group.model]
            every = [(c.size, c.optimizer["rate"], c.optimizer.get("b2")) for c in group.configurations]
            adopted = [c for c in every if c in runs and c[1] in RATES and c[2] is None]
            whole = all(set(spec.seeds) <= set(runs.get(c, ())) for c in every)
            count = len(spec.seeds) if whole else sorted((len(runs[c]) for c in adopted), reverse=True)[:6][-1]
            seeds = spec.seeds[:count]
            among = [c for c in (every if whole else adopted) if set(seeds) <= set(runs[c])]
            chosen[problem, group.model] = {c: [runs[c][seed] for seed in seeds] for c in among}
    return chosen


def choices(found: list[Row]) -> list[Row]:
    """The paper's own selection (flm.study.selection) among the runs of `selected`."""
    chosen = []
    for (problem, model), group in selected(found).items():
        scores = {m: [[row[m] for row in several] for several in group.values()] for m in METRICS}
        sizes = [several[0]["parameters"] for several in group.values()]
        selection = select(scores, labels=[str(c) for c in group], sizes=sizes)
        (size, rate, b2), winners = list(group.items())[selection.winner]
        row = {"problem": problem, "model": model, "configurations": len(group), "seeds": len(winners)}
        row |= {"not told apart": len(selection.finalists), "size": size, "rate": rate} | ({"b2": b2} if b2 else {})
        chosen.append(row | {"mean MSE": mean(winners, "mse"), "commits": commits(winners)})
    return chosen


def mean(group: list[Row], key: str) -> float:
    """The mean of a score over seeds."""
    return float(np.mean([row[key] for row in group]))


def commits(group: list[Row]) -> str:
    """The sources that made a figure; runs of Table 2 before lines had commits are of those between two commits."""
    return ", ".join(sorted({row.get("commit", "8c73ca6 to f617842") for row in group}))


def count_table(found: list[Row]) -> list[Row]:
    """How much of the whole protocol is there: every configuration and seed of the selection."""
    lines = []
    for problem in PDE_ERRORS:
        spec = read_protocol(problem)
        wanted = {
            (c.model, c.size, c.optimizer["rate"], c.optimizer.get("b2")) for g in spec.groups for c in g.configurations
        }
        there = [r for r in found if r["kind"] == "selection" and r["problem"] == problem]
        runs = sum((row["model"], *setting(row)) in wanted for row in there)
        lines.append({"problem": problem, "runs of the selection": runs, "of": spec.num_runs})
    return [*lines, {"problem": "**all**"} | {key: sum(line[key] for line in lines) for key in list(lines[0])[1:]}]


def markdown(rows: list[Row]) -> list[str]:
    """A table of rows; a row without one of the keys has an empty cell there."""
    if not rows:
        return ["Not run yet."]
    show = lambda key, v: (f"{v:g}" if key in ("rate", "b2") else f"{v:.2e}") if isinstance(v, float) else str(v)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    return lines + ["| " + " | ".join(show(k, row.get(k, "")) for k in keys) + " |" for row in rows]


def finals(found: list[Row], chosen: list[Row], *, others: bool) -> list[Row]:
    """Final runs of the chosen configurations, or of all others with more than one seed, beside the paper's; means over seeds."""
    picked = {(c["problem"], c["model"], *setting(c)) for c in chosen}
    groups: dict[tuple, list[Row]] = {name: [] for name in sorted(picked, key=str) if not others}
    for row in found:
        if row["kind"] == "final" and ((name := (row["problem"], row["model"], *setting(row))) in picked) != others:
            groups.setdefault(name, []).append(row)
    lines = []
    for problem, models in PDE_ERRORS.items():
        for model, theirs in models.items():
            for name in sorted((n for n in groups if n[:2] == (problem, model)), key=str):
                group, (size, rate, b2) = groups[name], name[2:]
                if others and len(group) == 1:
                    continue
                line = {"problem": problem, "model": model, "size": size, "parameters": PARAMETERS[model][size]}
                line |= {"rate": f"{rate:g}" + (f", b2 {b2:g}" if b2 else ""), "seeds": len(group)}
                line |= {n: mean(group, k) if group else "not run" for n, k in zip(NAMES, ERRORS, strict=True)}
                line |= {f"paper {n}": v for n, v in zip(NAMES, theirs, strict=True)}
                lines.append(line | {"commits": commits(group)})
    return lines


def verdict(ours: float, theirs: float) -> str:
    """What a row says."""
    ratio = ours / theirs
    if ratio < 0.8:
        times = f"{1 / ratio:.2g}" if ratio > 0.1 else f"{1 / ratio:.0f}" if ratio > 1e-5 else f"{1 / ratio:.0e}"
        return f"better ({times} times)"
    if ratio > 1.25:
        return f"not reproduced ({ratio:.2g} times)"
    return f"reproduced (within {100 * abs(ratio - 1):.0f} %)"


def table_2(found: list[Row], chosen: list[Row]) -> list[Row]:
    """Final runs of the chosen configurations, and what they say."""
    lines = finals(found, chosen, others=False)
    says = lambda row: verdict(row["MSE"], row["paper MSE"]) if row["seeds"] else "not run"
    return [row | {"by MSE": says(row)} for row in lines]


def of_figure(found: list[Row], size: int) -> list[Row]:
    """Runs of the figure of N against MSE: the FLM at PyTorch's rate."""
    return [r for r in found if (*setting(r), r["model"], r["kind"]) == (size, 1e-3, None, "flm", "selection")]


def sizes_picture(found: list[Row]) -> None:
    """The figure of N against MSE, with the range over seeds."""
    runs = [(size, row) for size in FIGURE_SIZES for row in of_figure(found, size)]
    scores = lambda problem: {n: [r["mse"] for m, r in runs if m == n and r["problem"] == problem] for n, _ in runs}
    size_figure({TITLES[problem]: {"mean, range over seeds": scores(problem)} for problem in PDE_ERRORS}).savefig(
        PICTURE
    )


def sizes_table(found: list[Row]) -> list[Row]:
    """The MSE of the FLM against its number of sub-networks, mean ± standard deviation over seeds."""
    lines = []
    for size in FIGURE_SIZES:
        of_size, line = of_figure(found, size), {"N": size}
        for problem in PDE_ERRORS:
            mse = [row["mse"] for row in of_size if row["problem"] == problem]
            line[problem] = f"{mean_and_deviation(mse)} ({len(mse)})" if mse else "not run"
        lines.append(line | {"commits": commits(of_size)})
    return lines


def older_table(found: list[Row]) -> list[Row]:
    """The comparison of UZTACK20 at its better rate, means over seeds."""
    lines = []
    for problem, model in dict.fromkeys((row["problem"], row["model"]) for row in found):
        group = [r for r in found if (r["problem"], r["model"], r["rate"]) == (problem, model, 1e-2)]
        line = {"problem": problem, "model": model, "size": group[0]["size"], "parameters": group[0]["parameters"]}
        mse = [row["mse"] for row in group]
        line |= {"seeds": len(group), "MSE": mean(group, "mse"), "lowest": min(mse), "highest": max(mse)}
        lines.append(line | {"MAE": mean(group, "mae"), "max error": mean(group, "max_error")})
    return lines


# --- optimal control and our solver ------------------------------------------------------------------------------------


def fixed_table(found: list[Row]) -> list[Row]:
    """The three fixed starts by the penalty method and by our solver; errors of the cost in per cent."""
    fixed = [row for row in found if "start" in row["definition"]["training"]]
    lines = []
    for start, printed in zip(STARTS, FIXED_STARTS, strict=True):
        line = {"start": str(start)}
        for row in (r for r in fixed if r["definition"]["training"]["start"] == list(start)):
            ours, out = row["definition"]["model"] == SOLVER, row["outcome"]
            names = {"our solver, %": "mape"} if ours else ERRORS_OF_COST
            line |= {name: measured(out[key]) for name, key in names.items()} | {"paper, %": f"{printed:.2f}"}
            line |= {} if ours else {"says": verdict(out["network_mape"], printed), "commit": row["commit"]}
        lines += [line] if len(line) > 1 else []
    return lines


def control_table(found: list[Row]) -> list[Row]:
    """Families: networks' own cost, simulated cost and bias law by the penalty method, seed by seed and their mean; ours."""
    lines = []
    families = [row for row in found if "start" not in row["definition"]["training"]]
    disks = [("rock_paper_scissors", f"disk around {c}", k, v) for k, (c, v) in enumerate(DISKS.items())]
    for problem, place, k, (mape, mae) in (*disks, ("rpssl", "five strategies", 0, FIVE_STRATEGIES)):
        here = [row for row in families if row["definition"]["problem"] == problem]
        laws = [row for row in here if row["definition"]["model"] != SOLVER]
        seeds = {f"penalty, seed {row['definition']['seed']}": [row] for row in laws}
        for method, group in (seeds | {f"penalty, mean of {len(laws)} seeds": laws}).items():
            parts = [row["outcome"]["parts"][k] for row in group]
            line = {"starts": place, "method": method, "states": len(parts[0]["starts"])}
            line |= {name: measured(mean(parts, key)) for name, key in ERRORS_OF_COST.items()}
            line |= {"paper, %": f"{mape:.2f}", "MAE": mean(parts, "network_mae"), "paper MAE": mae}
            line["says"] = verdict(mean(parts, "network_mape"), mape) if method not in seeds else ""
            lines.append(line | {"commit": commits(group), "CPU s": f"{cpu(group):.0f}"})
        for row in (row for row in here if row not in laws):
            d, part = row["definition"], row["outcome"]["parts"][k]
            method = f"ours, N = {d['size']}" if d["size"] else f"ours, tolerance {d['training']['tol']:g}"
            line = {"starts": place, "method": method, "states": len(part["starts"]), "networks, %": "–"}
            line |= {"simulated, %": measured(part["mape"]), "bias law, %": "–", "paper, %": f"{mape:.2f}"}
            line |= {"MAE": part["mae"], "paper MAE": mae, "says": verdict(part["mape"], mape), "commit": row["commit"]}
            lines.append(line | {"CPU s": f"{cpu([row]):.0f}"})
    return lines


def cpu(group: list[Row]) -> float:
    """The mean of processor seconds."""
    return mean([row["outcome"] for row in group], "processor_seconds")


def solver_table(found: list[Row]) -> list[Row]:
    """Our solver on the four PDEs, beside the printed figures of the FLM."""
    lines = []
    for row in found:
        d, out = row["definition"], row["outcome"]
        asked = f"N = {d['size']}" if d["size"] else f"tolerance {d['training']['tol']:g}"
        line = {"problem": d["problem"], "asked": asked, "estimate": out["error_estimate"]}
        line |= {"relative L2": out["relative_l2"], "MSE": out["mse"], "paper MSE": PDE_ERRORS[d["problem"]]["flm"][0]}
        line |= {"by MSE": verdict(line["MSE"], line["paper MSE"]), "CPU s": measured(out["processor_seconds"])}
        lines.append(line | {"commit": row["commit"]})
    return lines


# --- imputation --------------------------------------------------------------------------------------------------------

EPOCHS, STRIDE, SEEDS = 10_000, 7, 10  # of each reading; every seventh hour, which meets every hour of the day
READINGS = {
    # what is scaled, where time is counted, what is fitted
    ("train", "whole", "train"): "the words of our row: scaled by the training part, the whole series on [−π, π]",
    ("train", "train", "train"): "the training part on [−π, π], the rest beyond",
    ("train", "split", "train"): "each part on [−π, π]",
    ("whole", "whole", "train"): "scaled by the whole series",
    ("whole", "train", "train"): "scaled by the whole series, the training part on [−π, π]",
    ("whole", "split", "train"): "scaled by the whole series, each part on [−π, π]",
    ("split", "split", "train"): "each part scaled by itself and on [−π, π]",
    ("train", "whole", "all"): "fitted to the observed values of all parts: the test part is filled, not foretold",
    ("train", "whole", "nothing"): "no network: the mean of the training part",
    ("whole", "whole", "nothing"): "no network: the mean of the whole series",
}


def readings() -> None:
    """The paper's FLM on oil temperature (N = 8, Adam 1e-4, early stopping), under each reading of the text."""
    path = find_series()
    assert path is not None, "FLM_ETT names the folder of ETTh1.csv"
    series = pd.read_csv(path, index_col=0)["OT"].to_numpy()
    there = {(r["scaled"], r["clock"], r["fitted"], r["rate"]) for r in rows("readings")}
    for rate in IMPUTATION:
        for reading in READINGS:
            if (*reading, rate) not in there:
                began = time.process_time()
                found = read_as(series, *reading, rate)
                row = dict(zip(("scaled", "clock", "fitted"), reading, strict=True)) | {"rate": rate, "seeds": SEEDS}
                add("readings", row | found | {"seconds": round(time.process_time() - began, 1)})


def read_as(series: np.ndarray, scaled: str, clock: str, fitted: str, rate: float) -> Row:
    """The mean absolute error on hidden values of the last fifth over seeds, at the best validation loss and at the end."""
    n = len(series)
    part = np.searchsorted([int(0.6 * n), int(0.8 * n)], np.arange(n), side="right")  # 0, 1, 2
    groups = {"train": [(slice(None), part == 0)], "whole": [(slice(None), part >= 0)]}
    each = [(part == k, part == k) for k in range(3)]
    y, t, hours = series.astype(float).copy(), np.zeros(n), np.arange(n, dtype=float)
    for where, by in groups.get(scaled, each):
        y[where] = (series[where] - series[by].mean()) / series[by].std()
    for where, by in groups.get(clock, each):
        t[where] = np.pi * (2 * (hours[where] - hours[by].min()) / np.ptp(hours[by]) - 1)
    hidden = np.stack([np.random.default_rng(seed).random(n) < rate for seed in range(SEEDS)])
    thin = np.arange(n) % STRIDE == 0
    learn = thin if fitted == "all" else thin & (part == 0)
    judge = thin & (part == 1)

    def start(key):
        return {"n": jnp.arange(8.0), "A": jnp.zeros(8), "phi": jax.random.normal(key, (8,)) * np.pi / 3}

    def values(p, z):
        sine, cosine = sincos(p["n"][:, None] * z)
        return (p["A"] * jnp.cos(p["phi"])) @ cosine + (p["A"] * jnp.sin(p["phi"])) @ sine

    optimizer = optax.adam(1e-4)

    def one(seed_key, seen, held):
        square = lambda p, where, weight: jnp.sum(weight * (values(p, t[where]) - y[where]) ** 2) / jnp.sum(weight)

        def step(carry, _):
            p, state, best, least = carry
            judged = square(p, judge, held)
            best = jax.tree.map(lambda new, old: jnp.where(judged < least, new, old), p, best)
            update, state = optimizer.update(jax.grad(square)(p, learn, seen), state)
            return (optax.apply_updates(p, update), state, best, jnp.minimum(judged, least)), None

        p = start(seed_key)
        (last, _, best, _), _ = jax.lax.scan(step, (p, optimizer.init(p), p, jnp.inf), length=EPOCHS)
        return values(best, t[part == 2]), values(last, t[part == 2])

    keys = jax.random.split(jax.random.key(0), SEEDS)
    found = (
        np.zeros((2, SEEDS, 1))
        if fitted == "nothing"
        else jax.jit(jax.vmap(one))(keys, jnp.asarray(~hidden[:, learn], float), jnp.asarray(~hidden[:, judge], float))
    )
    wrong = [np.abs(np.asarray(f) - y[part == 2]) for f in found]
    best, last = ([float(w[h].mean()) for w, h in zip(one, hidden[:, part == 2], strict=True)] for one in wrong)
    summary = lambda name, v: {name: float(np.mean(v)), f"{name}_deviation": float(np.std(v, ddof=1))}
    return summary("mae", best) | summary("mae_at_end", last)


def readings_table(found: list[Row]) -> list[Row]:
    """One line for each reading, both rates."""
    lines = []
    for reading, words in READINGS.items():
        line, of_both = {"reading": words}, []
        for rate in IMPUTATION:
            same = [r for r in found if (r["scaled"], r["clock"], r["fitted"], r["rate"]) == (*reading, rate)]
            cell = lambda r, key: f"{r[key]:.2f} ± {r[key + '_deviation']:.2f}"
            line[f"{rate:.0%}"] = cell(same[0], "mae") if same else "not run"
            line[f"{rate:.0%}, last epoch"] = cell(same[0], "mae_at_end") if same else "not run"
            line[f"{rate:.0%} says"] = verdict(same[0]["mae"], IMPUTATION[rate]["FLM"][0]) if same else ""
            of_both += same
        lines.append(line | {"commits": commits(of_both)})
    printed = {f"{rate:.0%}": " ± ".join(f"{v:.2f}" for v in models["FLM"]) for rate, models in IMPUTATION.items()}
    return [*lines, {"reading": "**the paper**"} | {k: printed.get(k, "") for k in list(lines[0])[1:]}]


# --- the page ----------------------------------------------------------------------------------------------------------


def tables() -> None:
    """Every table of docs/paper.md between `<!-- table NAME -->` and `<!-- end -->`, written anew."""
    found, control = rows("paper_training"), rows("control")
    chosen = choices(found)
    made = {
        "count": count_table(found),
        "selection": chosen,
        "table 2": table_2(found, chosen),
        "others": finals(found, chosen, others=True),
        "sizes": sizes_table(found),
        "solver": solver_table(rows("solver")),
        "uztack20": older_table(rows("uztack20")),
        "fixed starts": fixed_table(control),
        "control": control_table(control),
        "readings": readings_table(rows("readings")),
    }
    text = PAGE.read_text()
    for name, lines in made.items():
        body = f"<!-- table {name} -->\n" + "\n".join(markdown(lines)) + "\n<!-- end -->"
        pattern = rf"<!-- table {re.escape(name)} -->.*?<!-- end -->"
        text, count = re.subn(pattern, lambda match, body=body: body, text, flags=re.DOTALL)
        assert count == 1, f"docs/paper.md has {count} places for the table {name!r}"
    PAGE.write_text(text)
    sizes_picture(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("control", "solver", "readings", "training", "tables"))
    parser.add_argument("--problems", nargs="+", default=list(PDE_ERRORS))
    parser.add_argument("--models", nargs="+", default=sorted({m for models in PDE_ERRORS.values() for m in models}))
    parser.add_argument("--seeds", type=int, default=10, help="of training: the first so many")
    options = parser.parse_args()
    plan = Plan(budget=FULL)
    if options.what == "control":
        run("control", plan.control())
    elif options.what == "solver":
        without = lambda d: d | {"training": {k: v for k, v in d["training"].items() if k != "surface"}}
        run("solver", [without(plan.solve(problem, size)) for problem in PDE_ERRORS for size in (49, 0)])
    elif options.what == "training":
        training(options)
    else:
        {"readings": readings, "tables": tables}[options.what]()


if __name__ == "__main__":
    main()
