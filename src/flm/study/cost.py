"""What a study will take: the time of its runs, from short samples measured here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flm.study.runs import run_one
from flm.study.spec import RUNNER, Group, Spec
from flm.study.store import FAILED, Definition, Record, run_key
from flm.wording import UnsolvedError, duration

SAMPLE_EPOCHS = (20, 40, 440)  # the first run compiles for the others
Timed = Callable[[Definition], float]  # the seconds of a run


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


class Speed(NamedTuple):
    """Seconds of a run: fixed + (start + slope size) epochs, and `compiling` more where there is no machine code yet."""

    start: float
    slope: float = 0.0
    fixed: float = 0.0
    compiling: float = 0.0

    def of_all(self, runs: Sequence[Definition], workers: int) -> float:
        """The seconds of all these runs of one configuration, which every worker compiles once."""
        epochs = sum(leg[0] for d in runs for leg in d["training"].get("legs", [[1, 0.0]]))
        per_epoch = self.start + self.slope * runs[0]["size"] if runs else 0.0
        return self.fixed * len(runs) + per_epoch * epochs + self.compiling * min(workers, len(runs))


def estimate(spec: Spec, workers: int, done: Collection[str] = (), timed: Timed | None = None) -> Cost:
    """The cost of the runs whose keys are not in `done`, from short samples of every group's smallest and largest size.

    Time per epoch is taken to be linear in the size, and every worker compiles every configuration once. With a runner of
    one's own the sample is one whole run per group.

    Args:
        spec: the study.
        workers: runs at a time.
        done: keys of runs that are stored.
        timed: gives the seconds of a sample; by default it is run.
    """
    runs, finals, seconds, final_seconds = 0, 0, 0.0, 0.0
    for group in spec.groups:
        speed = _speed(spec, group, timed or run_time)
        for configuration in group.configurations:
            wanted = [d for seed in spec.seeds if run_key(d := spec.definition(configuration, seed)) not in done]
            runs += len(wanted)
            seconds += speed.of_all(wanted, workers)
        if spec.final is not None:
            largest = max(group.configurations, key=lambda c: c.size)
            finals += len(spec.seeds)
            final_seconds += speed.of_all([spec.definition(largest, s, final=True) for s in spec.seeds], workers)
    return Cost(runs, finals, seconds, final_seconds, workers)


def _speed(spec: Spec, group: Group, timed: Timed) -> Speed:
    smallest, largest = (choose(group.configurations, key=lambda c: c.size) for choose in (min, max))
    if spec.runner != RUNNER:
        return Speed(timed(spec.definition(smallest, spec.seeds[0])))
    first = _sampled(spec.definition(smallest, spec.seeds[0]), timed)
    last = first if largest == smallest else _sampled(spec.definition(largest, spec.seeds[0]), timed)
    wider = largest.size - smallest.size
    slope = max(0.0, (last.start - first.start) / wider) if wider else 0.0
    start = max(first.start - slope * smallest.size, 0.0)
    return Speed(start, slope, max(first.fixed, last.fixed), max(first.compiling, last.compiling))


def _sampled(definition: Record, timed: Timed) -> Speed:
    cold, few, many = (
        timed(definition | {"training": definition["training"] | {"legs": [[n, 0.0]]}}) for n in SAMPLE_EPOCHS
    )
    per_epoch = max(0.0, many - few) / (SAMPLE_EPOCHS[2] - SAMPLE_EPOCHS[1])
    return Speed(per_epoch, 0.0, max(0.0, few - SAMPLE_EPOCHS[1] * per_epoch), max(0.0, cold - few))


def run_time(definition: Definition) -> float:
    """The seconds of one run, done here and now."""
    state, outcome = run_one(definition)
    if state == FAILED:
        raise UnsolvedError(
            f"A sample run of {definition['model']} on {definition['problem']} failed: {outcome['reason']}"
        )
    return float(outcome["seconds"])
