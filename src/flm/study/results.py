"""From stored runs to answers: score tables, selections, final runs, where a study is, what it will cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flm.study.execution import Live, MakeExecutor, Report, Tally, execute
from flm.study.runs import run_one
from flm.study.selection import Selection, select
from flm.study.spec import RUNNER, Configuration, Group, Spec
from flm.study.store import DONE, FAILED, Row, Store, run_key
from flm.wording import UnsolvedError

SAMPLE_EPOCHS = (20, 40, 440)  # the first run compiles for the others
RECENT_SECONDS = 120.0


@dataclass(frozen=True)
class Chosen:
    """One group of a study with its selection, and the runs of the chosen configuration's final training."""

    group: Group
    scores: Mapping[str, np.ndarray]
    selection: Selection
    final: tuple[Row, ...]

    @property
    def configuration(self) -> Configuration:
        """The chosen one."""
        return self.group.configurations[self.selection.winner]


def read_rows(store: Store) -> dict[str, Row]:
    """The last attempt of every stored run, by key."""
    return {row.key: row for row in store.rows()}


def score_tables(spec: Spec, rows: Mapping[str, Row], group: Group) -> dict[str, np.ndarray]:
    """(configurations, seeds) for each metric: +inf for failed and diverged runs, NaN for those that are not there."""
    tables = {m: np.full((len(group.configurations), len(spec.seeds)), math.nan) for m in spec.metrics}
    for i, configuration in enumerate(group.configurations):
        for j, seed in enumerate(spec.seeds):
            row = rows.get(run_key(spec.definition(configuration, seed)))
            if row is not None:
                for metric, table in tables.items():
                    table[i, j] = number(row.outcome.get(metric, math.inf)) if row.status == DONE else math.inf
    return tables


def number(value: Any) -> float:
    """A stored score as a number; what is none counts as a failure."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return math.inf
    return math.inf if math.isnan(found) else found


def num_parameters(spec: Spec, rows: Mapping[str, Row], configuration: Configuration) -> float:
    """What breaks ties: the stored number of parameters, else the size."""
    for seed in spec.seeds:
        row = rows.get(run_key(spec.definition(configuration, seed)))
        if row is not None and "parameters" in row.outcome:
            return float(row.outcome["parameters"])
    return float(configuration.size)


def choose(spec: Spec, rows: Mapping[str, Row], group: Group) -> Chosen:
    """The selection of one group by what is stored, with its final runs where they are there."""
    scores = score_tables(spec, rows, group)
    selection = select(
        scores,
        labels=[c.label for c in group.configurations],
        sizes=[num_parameters(spec, rows, c) for c in group.configurations],
        alpha=spec.alpha,
    )
    winner = group.configurations[selection.winner]
    final: Iterable[Row | None] = ()
    if spec.final is not None:
        final = (rows.get(run_key(spec.definition(winner, seed, final=True))) for seed in spec.seeds)
    return Chosen(group, scores, selection, tuple(row for row in final if row is not None))


def run_study(
    spec: Spec,
    store: Store,
    *,
    make_executor: MakeExecutor,
    workers: int,
    retry_failed: bool = False,
    progress: Report | None = None,
) -> list[Live]:
    """The selection's runs, then the final runs of every group's chosen configuration; both resume where they stopped."""
    options: dict[str, Any] = {"make_executor": make_executor, "workers": workers}
    options |= {"retry_failed": retry_failed, "progress": progress}
    found = [execute(list(spec.definitions()), store, **options)]
    if spec.final is not None:
        found.append(execute(final_definitions(spec, read_rows(store)), store, **options))
    return found


def final_definitions(spec: Spec, rows: Mapping[str, Row]) -> list[dict[str, Any]]:
    """The final runs of every group, all seeds of its chosen configuration."""
    return [
        spec.definition(choose(spec, rows, group).configuration, seed, final=True)
        for group in spec.groups
        for seed in spec.seeds
    ]


def status(spec: Spec, store: Store) -> Live:
    """Where a study is, by its store alone: any process may ask. The rate is that of the last two minutes."""
    rows = read_rows(store)
    keys = {run_key(d) for d in spec.definitions()}
    if spec.final is not None and keys <= rows.keys():
        keys |= {run_key(d) for d in final_definitions(spec, rows)}
    mine = [rows[k] for k in keys if k in rows]
    state = Tally(len(keys), mine, 1, 1.0)
    now = time.time()
    recent = [r.finished for r in mine if now - r.finished < RECENT_SECONDS]
    seconds = now - min(recent) if recent else 0.0
    return Live(len(keys), state.done, state.failed, 0, seconds, len(recent), dict(state.best))


@dataclass(frozen=True)
class Cost:
    """What a study will take: at most, because runs end early at their loss tolerance."""

    runs: int
    final_runs: int
    seconds: float
    final_seconds: float
    workers: int

    def __str__(self) -> str:
        parts = [f"{self.runs:,} runs of the selection, at most {duration(self.seconds / self.workers)}"]
        if self.final_runs:
            parts.append(f"{self.final_runs:,} final runs, at most {duration(self.final_seconds / self.workers)}")
        return f"{'; '.join(parts)}, on {self.workers} worker{'s' * (self.workers > 1)}, from a measured sample."


def estimate(spec: Spec, workers: int, done: Sequence[str] = ()) -> Cost:
    """The cost of the runs whose keys are not in `done`, from short samples of every group's smallest and largest size.

    Time per epoch is taken to be linear in the size, and every worker compiles every configuration once. With a runner of
    one's own the sample is one whole run per group.
    """
    seconds = final_seconds = 0.0
    runs = finals = 0
    stored = set(done)
    for group in spec.groups:
        start, slope, fixed, compiling = _sample(spec, group)
        for configuration in group.configurations:
            per_epoch = start + slope * configuration.size
            wanted = [
                d for d in (spec.definition(configuration, seed) for seed in spec.seeds) if run_key(d) not in stored
            ]
            runs += len(wanted)
            seconds += sum(fixed + per_epoch * _epochs(d) for d in wanted) + compiling * min(workers, len(wanted))
        if spec.final is not None:
            largest = max(group.configurations, key=lambda c: c.size)
            finals += len(spec.seeds)
            epochs = _epochs(spec.definition(largest, 0, final=True))
            final_seconds += len(spec.seeds) * (fixed + (start + slope * largest.size) * epochs)
            final_seconds += compiling * min(workers, len(spec.seeds))
    return Cost(runs, finals, seconds, final_seconds, workers)


def _epochs(definition: Mapping[str, Any]) -> int:
    return sum(leg[0] for leg in definition["training"].get("legs", [[1, 0.0]]))


def _sample(spec: Spec, group: Group) -> tuple[float, float, float, float]:
    """(a, b, c, d) of seconds = c + (a + b size) epochs, and d more where the machine code is not there yet."""
    sizes = sorted({c.size for c in group.configurations})
    by_size = {c.size: c for c in reversed(group.configurations)}
    if spec.runner != RUNNER:
        return _timed(spec.definition(by_size[sizes[0]], spec.seeds[0])), 0.0, 0.0, 0.0
    found = []
    for size in {sizes[0], sizes[-1]}:
        found.append((size, *epoch_seconds(spec.definition(by_size[size], spec.seeds[0]), _timed)))
    fixed, compiling = max(f for _, _, f, _ in found), max(c for *_, c in found)
    if len(found) == 1:
        return found[0][1], 0.0, fixed, compiling
    (n1, t1, *_), (n2, t2, *_) = sorted(found)
    slope = max(0.0, (t2 - t1) / (n2 - n1))
    return max(t1 - slope * n1, 0.0), slope, fixed, compiling


def epoch_seconds(
    definition: dict[str, Any], timed: Callable[[Mapping[str, Any]], float]
) -> tuple[float, float, float]:
    """(seconds per epoch, other seconds, seconds of compiling) of a run of training; `timed` gives those of a short one."""
    cold, few, many = (
        timed(definition | {"training": definition["training"] | {"legs": [[n, 0.0]]}}) for n in SAMPLE_EPOCHS
    )
    per_epoch = max(0.0, many - few) / (SAMPLE_EPOCHS[2] - SAMPLE_EPOCHS[1])
    return per_epoch, max(0.0, few - SAMPLE_EPOCHS[1] * per_epoch), max(0.0, cold - few)


def _timed(definition: Mapping[str, Any]) -> float:
    state, outcome = run_one(definition)
    if state == FAILED:
        raise UnsolvedError(
            f"A sample run of {definition['model']} on {definition['problem']} failed: {outcome['reason']}"
        )
    return float(outcome["seconds"])


def duration(seconds: float) -> str:
    """A time as people say it: "40 s", "12 min", "3.4 h", "2.1 days"."""
    if math.isnan(seconds):
        return "unknown"
    for unit, size, digits in (("days", 172_800, 1), ("h", 7_200, 1), ("min", 120, 0)):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'h': 3_600, 'min': 60}[unit]:.{digits}f} {unit}"
    return f"{seconds:.0f} s"
