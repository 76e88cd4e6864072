"""From stored runs to answers: score tables, selections, final runs, where a study is."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from flm.results import Listener
from flm.study.execution import Counts, execute
from flm.study.selection import Selection, select
from flm.study.spec import Configuration, Group, Spec
from flm.study.store import DONE, Record, Row, Store, run_key
from flm.study.workers import Workers

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
                    table[i, j] = score(row.outcome.get(metric, math.inf)) if row.status == DONE else math.inf
    return tables


def score(value: float | str | None) -> float:
    """A stored score as a number; the text "inf", and whatever is not a number, stand for a failed run."""
    try:
        found = math.nan if value is None else float(value)
    except ValueError:
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
    seeds = () if spec.final is None else spec.seeds
    final = (rows.get(run_key(spec.definition(winner, seed, final=True))) for seed in seeds)
    return Chosen(group, scores, selection, tuple(row for row in final if row is not None))


def run_study(
    spec: Spec,
    store: Store,
    *,
    workers: Workers,
    retry_failed: bool = False,
    progress: bool | Listener = False,
) -> list[Counts]:
    """The selection's runs, then the final runs of every group's chosen configuration; both resume where they stopped.

    Args:
        spec: what to run.
        store: open for writing.
        workers, retry_failed, progress: as for `execute`.
    """
    run = partial(execute, store=store, workers=workers, retry_failed=retry_failed, progress=progress)
    found = [run(list(spec.definitions()))]
    if spec.final is not None:
        found.append(run(final_definitions(spec, read_rows(store))))
    return found


def final_definitions(spec: Spec, rows: Mapping[str, Row]) -> list[Record]:
    """The final runs of every group, all seeds of its chosen configuration."""
    return [
        spec.definition(choose(spec, rows, group).configuration, seed, final=True)
        for group in spec.groups
        for seed in spec.seeds
    ]


def status(spec: Spec, store: Store) -> Counts:
    """Where a study is, by its store alone: any process may ask. The rate is that of the last two minutes."""
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
