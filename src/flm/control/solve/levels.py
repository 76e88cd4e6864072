"""Each start on its own: controls on growing time bases, solved in batches.

Time frequencies are π(k + ½) in normalized time, amplitudes by Newton's method with exact second derivatives. A level's error
is the estimated excess cost, ½∫h_u²/h_uu, plus the change from the level before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flm.control.law import ControlLaw, StateNetworks
from flm.control.problem import OptimalControl
from flm.control.solve.family import cost_scale
from flm.control.solve.search import COLUMNS, MET, NO_GAIN, Search
from flm.control.solve.single import FEASIBLE, STEPS, Batch, first_multipliers, meet_constraints, newton, owed
from flm.control.solve.variation import TimeBasis, Transcription, excess_along
from flm.results import Ending

GROWTH = 1.4
_FIRST = 4  # time frequencies to begin with
_ALIGNMENTS = 6  # rounds of moving elements' edges to the corners of bounded controls
_GUESSES = 10  # random controls that are tried beside zero


@dataclass(frozen=True, eq=False)
class Level:
    """Independent solutions of a batch of starts on one time basis.

    `cost` (P,) is that of the tightly simulated dynamics, `excess` (P,) the estimate ½∫h_u²/h_uu of what is lost.
    """

    batch: Batch
    cost: np.ndarray
    excess: np.ndarray

    @property
    def transcription(self) -> Transcription:
        """The problem on that basis."""
        return self.batch.transcription

    @property
    def count(self) -> int:
        """The number of time frequencies."""
        return len(self.transcription.basis.frequencies)

    @property
    def violation(self) -> float:
        """The largest constraint value."""
        return float(self.batch.run.violation.max())

    def seed(self, transcription: Transcription) -> np.ndarray:
        """Coordinates of these controls (of the first start, when the starts differ) in another transcription."""
        return transcription.coordinates(self.transcription.at(self.batch.c))


def time_frequencies(count: int) -> np.ndarray:
    """π(k + ½): waves that repeat after 4, 4/3, … horizons. No component is zero, so no column is wasted."""
    return np.pi * (np.arange(count) + 0.5)


def elements_for(problem: OptimalControl, count: int) -> int:
    """Collocation elements for `count` time frequencies; more where controls or multipliers have corners."""
    return max(24 if problem.equations.path else 12 if problem.bounded else 6, count // 2 + 2)


def transcribe(problem: OptimalControl, v0: np.ndarray, count: int) -> Transcription:
    """The problem on `count` time frequencies."""
    return Transcription(problem, TimeBasis.make(time_frequencies(count), elements_for(problem, count)), v0)


def solve_level(transcription: Transcription, c: np.ndarray) -> Level:
    """Each start's best control, from coordinates c."""
    problem = transcription.problem
    found, multipliers = meet_constraints(transcription, c, first_multipliers(transcription, c))
    if problem.bounded and not problem.equations.path:
        # Where u = clip(w) has corners, elements end: quadrature across a corner is of second order only.
        for _ in range(_ALIGNMENTS):
            c, before = found.point.c, found.point.run.lagrangian
            trial, trial_multipliers = meet_constraints(found.point.transcription.aligned(c), c, multipliers)
            after = trial.point.run.lagrangian
            if not np.all(after <= before + 1e-4 * np.abs(before)):
                break
            found, multipliers = trial, trial_multipliers
            if np.all(np.abs(before - after) <= 1e-11 * np.abs(before)) or found.steps == STEPS:
                break
    batch = found.point
    followed = batch.transcription.at(batch.c).follow(problem, batch.transcription.v0)
    if not problem.constrained and not problem.free:
        excess = np.concatenate([excess_along(problem, run) for run in followed.chunks])
    else:
        # Multipliers and the horizon's derivatives live on the solver's grid. Those of path constraints are known node
        # by node, too roughly for a pointwise estimate: there the change between levels has to do.
        excess = owed(multipliers, batch.run) + (0.0 if problem.equations.path else batch.derivatives.excess)
    return Level(batch, followed.cost, excess)


def judge(search: Search, law: ControlLaw, networks: StateNetworks | None = None) -> float:
    """Remember a trained law and return its error: ½∫h_u²/h_uu along its trajectories / cost, the worst of 16 held-out starts."""
    problem, starts = search.problem, search.problem.starts
    v0 = starts.spread(16, seed=search.seed + 1) if starts.dimension else starts.center[None]
    followed = law.at(v0).follow(problem, v0)
    excess = np.concatenate([excess_along(problem, run) for run in followed.chunks])
    error = float((excess / cost_scale(followed.cost)).max())
    return search.keep(law, error, float(followed.violation.max()), networks)


def explore(problem: OptimalControl, seed: int) -> Level:
    """The best of several starting controls at the middle start: zero, and random smooth ones."""
    v0 = np.repeat(problem.starts.center[None], 1 + _GUESSES, axis=0)
    transcription = transcribe(problem, v0, _FIRST)
    size = np.where(np.isfinite(problem.upper - problem.lower), (problem.upper - problem.lower) / 2, 1.0)
    rng = np.random.default_rng(seed)
    k, m = len(problem.controls), transcription.basis.size
    c = np.zeros((len(v0), transcription.size))
    c[1:, : k * m] = (rng.standard_normal((_GUESSES, k, m)) * size[:, None] / np.sqrt(m)).reshape(_GUESSES, k * m)
    batch = newton(transcription, c, steps=25, multipliers=first_multipliers(transcription, c)).point
    # Zero is kept unless another guess is better by more than the accuracy of this look.
    lagrangian = batch.run.lagrangian
    best = int(np.nanargmin(lagrangian)) if np.isfinite(lagrangian).any() else 0
    if lagrangian[best] > lagrangian[0] - 1e-3 * abs(lagrangian[0]):
        best = 0
    one, chosen = transcribe(problem, v0[:1], _FIRST), batch.c[best : best + 1]
    found = Batch(one, chosen, one.run(chosen), None)
    return Level(found, found.run.cost, found.derivatives.excess)


@dataclass(frozen=True, eq=False)
class Ladder:
    """Solutions of a batch of starts on growing time bases, the error of each level, and why they end.

    A level's error is the worst start's (estimated excess + change from the level before) / cost.
    """

    levels: list[Level]
    errors: list[float]
    ending: Ending

    def error_of(self, law: ControlLaw) -> tuple[float, float]:
        """A law's worst relative excess cost over these starts' own, their error added, and its worst violation."""
        level = self.levels[-1]
        followed = law.at(level.transcription.v0).follow(level.transcription.problem, level.transcription.v0)
        if not np.isfinite(followed.cost).all():
            return np.inf, np.inf
        excess = np.abs(followed.cost - level.cost) / cost_scale(level.cost)
        return float(excess.max()) + self.errors[-1], float(followed.violation.max())


def solve_starts(
    search: Search,
    v0: np.ndarray,
    first: Level,
    *,
    tol: float,
    max_columns: int,
    keep: Callable[[Level, float], object] = lambda level, error: None,
) -> Ladder:
    """Solve each start v0 (P, d) on its own, on growing time bases, until the error is below `tol`.

    `keep` is told of each level and its error.
    """
    problem, count, level = search.problem, _FIRST, first
    levels: list[Level] = []
    errors: list[float] = []
    while True:
        transcription = transcribe(problem, v0, count)
        level = solve_level(transcription, level.seed(transcription))
        change = np.abs(levels[-1].cost - level.cost) if levels else np.full(len(v0), np.inf)
        error = np.inf
        if np.isfinite(level.cost).all():
            error = float(np.max((level.excess + change) / cost_scale(level.cost)))
        levels.append(level)
        errors.append(error)
        keep(level, error)
        columns, stage = 2 * count * len(problem.controls), "starts" if len(v0) > 1 else "start"
        search.record.step(stage, columns=columns, estimate=level.cost.mean(), error_estimate=error)
        if error <= tol and level.violation <= FEASIBLE:
            return Ladder(levels, errors, MET)
        if stalled(errors[1:]):
            return Ladder(levels, errors, NO_GAIN)
        count = int(np.ceil(count * GROWTH))
        if 2 * count * len(problem.controls) > max_columns:
            return Ladder(levels, errors, COLUMNS)


def stalled(errors: list[float]) -> bool:
    """Whether the last three levels have not halved the error."""
    return len(errors) > 3 and not min(errors[-3:]) < 0.5 * min(errors[:-3])
