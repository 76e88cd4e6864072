"""From stored runs to answers: score tables, selections, final runs, how far a study is, and how long it will take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from flm.results import Listener
from flm.study.execution import Counts, Workers, execute
from flm.study.runs import run_one
from flm.study.selection import Selection, select
from flm.study.spec import RUNNER, Configuration, Group, Spec
from flm.study.store import DONE, FAILED, Definition, Record, Row, Store, run_key
from flm.wording import UnsolvedError

RECENT_SECONDS = 120.0
SAMPLE_EPOCHS = (20, 40, 440)  # of three sample trainings; the first compiles for the others


@dataclass(frozen=True)
class Chosen:
    """One group of a study with its selection, and the runs of the chosen configuration's final training."""

    group: Group
    scores: Mapping[str, np.ndarray]
    selection: Selection
    final: tuple[Row, ...]

    @property
    def configuration(self) -> Configuration:
        """The chosen configuration."""
        return self.group.configurations[self.selection.winner]


def read_rows(store: Store) -> dict[str, Row]:
    """The last attempt of every stored run, by key."""
    return {row.key: row for row in store.rows()}


def score_tables(spec: Spec, rows: Mapping[str, Row], group: Group) -> dict[str, np.ndarray]:
    """(configurations, seeds) for each metric: +inf for failed and diverged runs, NaN for missing ones."""
    tables = {m: np.full((len(group.configurations), len(spec.seeds)), math.nan) for m in spec.metrics}
    for (i, configuration), (j, seed) in product(enumerate(group.configurations), enumerate(spec.seeds)):
        row = rows.get(run_key(spec.definition(configuration, seed)))
        if row is None:
            continue
        for metric, table in tables.items():
            table[i, j] = score(row.outcome.get(metric, math.inf)) if row.status == DONE else math.inf
    return tables


def score(value: float | str | None) -> float:
    """A stored score as a number: one that is missing or not a number is that of a failed run."""
    found = math.inf if value is None else float(value)  # the store has infinity as the text "inf"
    return math.inf if math.isnan(found) else found


def _parameters(spec: Spec, rows: Mapping[str, Row], configuration: Configuration) -> float:
    """The number that breaks ties: the stored number of parameters, else the size."""
    stored = (rows.get(run_key(spec.definition(configuration, seed))) for seed in spec.seeds)
    found = (float(row.outcome["parameters"]) for row in stored if row and "parameters" in row.outcome)
    return next(found, float(configuration.size))


def choose(spec: Spec, rows: Mapping[str, Row], group: Group) -> Chosen:
    """The selection for one group by the stored runs, with the stored ones of its final runs."""
    scores = score_tables(spec, rows, group)
    sizes = [_parameters(spec, rows, c) for c in group.configurations]
    selection = select(scores, labels=[c.label for c in group.configurations], sizes=sizes, alpha=spec.alpha)
    winner = group.configurations[selection.winner]
    seeds = () if spec.final is None else spec.seeds
    final = (rows.get(run_key(spec.definition(winner, seed, final=True))) for seed in seeds)
    return Chosen(group, scores, selection, tuple(row for row in final if row is not None))


def run_study(
    spec: Spec, store: Store, *, workers: Workers, retry_failed: bool = False, progress: bool | Listener = False
) -> list[Counts]:
    """Do the selection's runs, then the final runs of every group's choice; both resume. Arguments are as for `execute`."""
    run = partial(execute, store=store, workers=workers, retry_failed=retry_failed, progress=progress)
    found = [run(list(spec.definitions()))]
    if spec.final is not None:
        found.append(run(final_definitions(spec, read_rows(store))))
    return found


def final_definitions(spec: Spec, rows: Mapping[str, Row]) -> list[Record]:
    """The definitions of the final runs of every group: all seeds of its chosen configuration."""
    winners = (choose(spec, rows, group).configuration for group in spec.groups)
    return [spec.definition(winner, seed, final=True) for winner in winners for seed in spec.seeds]


def status(spec: Spec, store: Store) -> Counts:
    """How far a study is, by its store alone, so that any process may ask. The rate is that of the last two minutes."""
    rows = read_rows(store)
    keys = {run_key(d) for d in spec.definitions()}
    if spec.final is not None and keys <= rows.keys():
        keys |= {run_key(d) for d in final_definitions(spec, rows)}
    counts, now = Counts(len(keys)), time.time()
    for row in (rows[key] for key in keys if key in rows):
        counts.add(row.definition, row.status, row.outcome)
        if now - row.finished < RECENT_SECONDS:
            counts.fresh += 1
            counts.seconds = max(counts.seconds, now - row.finished)
    return counts


@dataclass(frozen=True)
class Cost:
    """The runs left in a study, and at most how many seconds one worker takes: runs may end early, at their loss tolerance."""

    runs: int
    final_runs: int
    seconds: float


def run_time(definition: Definition) -> float:
    """The seconds that one run takes, done here and now."""
    state, outcome = run_one(definition)
    if state == FAILED:
        what = f"{definition['model']} on {definition['problem']}"
        raise UnsolvedError(f"A sample run of {what} failed: {outcome['reason']}")
    return float(outcome["seconds"])


def estimate(
    spec: Spec, workers: int, done: Collection[str] = (), timed: Callable[[Definition], float] = run_time
) -> Cost:
    """The cost of the runs whose keys are not in `done`, from samples of the largest configuration of every group.

    With a user's own runner a sample is a whole run, otherwise a short training. Every worker compiles every configuration.
    """
    runs, finals, seconds = 0, 0, 0.0
    for group in spec.groups:
        largest = max(group.configurations, key=lambda c: c.size)
        wanted = [spec.definition(c, seed) for c in group.configurations for seed in spec.seeds]
        wanted = [d for d in wanted if run_key(d) not in done]
        last = [] if spec.final is None else [spec.definition(largest, seed, final=True) for seed in spec.seeds]
        runs, finals = runs + len(wanted), finals + len(last)
        sample = spec.definition(largest, spec.seeds[0])
        if spec.runner != RUNNER:
            seconds += timed(sample) * len(wanted)
            continue
        short = lambda epochs, sample=sample: sample | {"training": sample["training"] | {"legs": [[epochs, 0.0]]}}
        cold, few, many = (timed(short(epochs)) for epochs in SAMPLE_EPOCHS)
        per_epoch = max(0.0, many - few) / (SAMPLE_EPOCHS[2] - SAMPLE_EPOCHS[1])
        fixed = max(0.0, few - SAMPLE_EPOCHS[1] * per_epoch)
        compiling = max(0.0, cold - few) * min(workers, len(spec.seeds)) * len(group.configurations)
        epochs = sum(leg[0] for d in wanted + last for leg in d["training"]["legs"])
        seconds += compiling + fixed * len(wanted + last) + per_epoch * epochs
    return Cost(runs, finals, seconds)
