"""The reduced method: the control is the series, the states follow from the dynamics.

One start: the time basis grows until the estimated excess cost and the change on enlarging it are below the tolerance.

A family: held-out starts are first solved one by one, which gives the optimum that the law is judged by and the number of
time frequencies that it needs; then one law is fitted to training starts, its lattice in the start growing until
the law's excess cost on the held-out starts is below the tolerance.
"""

from dataclasses import dataclass, replace

import numpy as np

from flm.control.dynamics.simulation import grid
from flm.control.law import ControlLaw
from flm.control.problem import OptimalControl
from flm.control.solve.constraints import FEASIBLE
from flm.control.solve.family import (
    SpaceBasis,
    cost_scale,
    fit_coordinates,
    fit_family,
    follow_law,
    make_law,
    space_lattice,
    start_weights,
)
from flm.control.solve.frequencies import fit_law
from flm.control.solve.levels import (
    GROWTH,
    STALLED,
    Level,
    elements_for,
    explore,
    solve_level,
    solve_starts,
    transcribe,
)
from flm.results import Record
from flm.wording import InputError

_HELD_OUT = 32


@dataclass(frozen=True)
class Outcome:
    """A law, its estimated relative excess cost, and why the search ended: "converged", "columns", "stalled", …."""

    law: ControlLaw
    error: float
    reason: str
    violation: float = 0.0


@dataclass(frozen=True)
class Request:
    """What was asked for: see `solve_control` and `Reduced`."""

    tol: float
    num_subnets: int | None
    max_columns: int
    seed: int
    learn: bool | None = None
    num_starts: int | None = None
    guesses: int = 10


def solve_point(problem: OptimalControl, request: Request, record: Record, best: list[Outcome]) -> Outcome:
    """The law of one initial state. Laws found on the way are put into `best`."""
    v0 = problem.starts.center[None]
    first = explore(problem, request.guesses, request.seed)
    best.append(Outcome(_law(first), float((first.excess / cost_scale(first.cost))[0]), "interrupted", first.violation))
    if request.num_subnets is None:
        keep = lambda level, error: best.append(Outcome(_law(level), error, "interrupted", level.violation))
        levels, errors, reason = solve_starts(problem, v0, first, request.tol, request.max_columns, record, keep)
        index = -1 if reason == "converged" else int(np.argmin(errors))
        return Outcome(_law(levels[index]), errors[index], reason, levels[index].violation)
    transcription = transcribe(problem, v0, request.num_subnets)
    level = solve_level(transcription, first.seed(transcription))
    law, cost, excess = _law(level), level.cost[0], level.excess[0]
    best.append(Outcome(law, float(excess / cost_scale(level.cost)[0]), "interrupted", level.violation))
    if request.learn is not False and not problem.constrained and not problem.free:
        tuned = fit_law(problem, law, v0, num_elements=elements_for(problem, request.num_subnets))
        tuned_cost = follow_law(problem, tuned, v0).cost[0]
        if tuned_cost < cost:
            law, cost = tuned, tuned_cost
    larger = transcribe(problem, v0, int(np.ceil(GROWTH * request.num_subnets)) + 2)
    better = solve_level(larger, level.seed(larger))
    error = float((better.excess[0] + abs(cost - better.cost[0])) / cost_scale(better.cost)[0])
    record.step("start", columns=law.num_columns, estimate=cost, error_estimate=error)
    return Outcome(law, error, "converged" if error <= request.tol else "size", level.violation)


def _law(level: Level) -> ControlLaw:
    return make_law(level.transcription.problem, level.transcription.basis, None, level.batch.c[:1].T)


def _same_for_all(level: Level) -> ControlLaw:
    """The control of the middle start as the law of all starts."""
    problem, starts = level.transcription.problem, level.transcription.problem.starts
    v0 = starts.spread(4 * 2**starts.dimension, seed=0)
    space = SpaceBasis.make(space_lattice(starts.dimension, 1), starts.normalize(v0))
    X = np.repeat(level.batch.c, len(v0), axis=0).T @ space.values / len(v0)
    return make_law(problem, level.transcription.basis, space, X)


def solve_family(problem: OptimalControl, request: Request, record: Record, best: list[Outcome]) -> Outcome:
    """One law for all of `initial`. Laws found on the way are put into `best`."""
    first = explore(problem, request.guesses, request.seed)
    best.append(Outcome(_same_for_all(first), np.inf, "interrupted"))
    held_out = problem.starts.spread(_HELD_OUT, seed=request.seed + 1)
    levels, errors, _ = solve_starts(problem, held_out, first, 0.25 * request.tol, request.max_columns, record)
    judge = Judge(problem, levels[-1], errors[-1])
    # The smallest time basis that loses no more than a quarter of the tolerance.
    losses = [float((level.excess / cost_scale(level.cost)).max()) for level in levels]
    enough = next(
        (level.count for level, loss in zip(levels, losses, strict=True) if loss <= 0.25 * request.tol),
        levels[-1].count,
    )
    fit = FamilyFit(problem, levels[0], request, judge, record, best)
    if request.num_subnets is not None:
        return fit.of_size(request.num_subnets, enough)
    return fit.to_tolerance(enough, [level.count for level in levels], losses)


@dataclass(frozen=True, eq=False)
class Judge:
    """Held-out starts with their own optimal costs, which a law is compared with."""

    problem: OptimalControl
    level: Level
    error: float

    def error_of(self, law: ControlLaw) -> tuple[float, float]:
        """The worst relative excess cost over the held-out starts, their own error added, and the worst violation."""
        followed = follow_law(self.problem, law, self.level.transcription.v0)
        if not np.isfinite(followed.cost).all():
            return np.inf, np.inf
        excess = np.abs(followed.cost - self.level.cost) / cost_scale(self.level.cost)
        return float(excess.max()) + self.error, float(followed.violation().max())


@dataclass(frozen=True, eq=False)
class FamilyFit:
    """Fits of laws on product lattices to training starts, judged on held-out ones."""

    problem: OptimalControl
    first: Level
    request: Request
    judge: Judge
    record: Record
    best: list[Outcome]

    def to_tolerance(self, count: int, counts: list[int], losses: list[float]) -> Outcome:
        """Grow the lattice in the start until the law is good enough."""
        k, d = len(self.problem.controls), self.problem.starts.dimension
        tol, max_columns = self.request.tol, self.request.max_columns
        columns = lambda count, level: 2 * count * len(space_lattice(d, level)) * 2**d * k
        law, reason, errors, level = None, "columns", [], 1
        while True:
            # Within the allowance, rather fewer time frequencies than a poor lattice in the start.
            fitting = [c for c in sorted({*counts, count}) if c <= count and columns(c, level) <= max_columns]
            if not fitting:
                break
            if fitting[-1] < count and errors and losses[counts.index(fitting[-1])] > 0.5 * min(errors):
                break
            law = self.fit(fitting[-1], level, law)
            errors.append(self.note(law))
            if errors[-1] <= tol and self.best[-1].violation <= max(FEASIBLE, 10 * tol):
                reason = "converged"
                break
            if len(errors) > STALLED and not min(errors[-STALLED:]) < 0.5 * min(errors[:-STALLED]):
                reason = "stalled"
                break
            level += 1
        if not errors:
            raise InputError(
                f"`max_columns` must be at least {columns(min(counts), 1)} for {d} varying coordinates of the start and "
                f"{k} control{'s' if k > 1 else ''}; got {max_columns}."
            )
        return self.conclude(reason)

    def of_size(self, num_subnets: int, count: int) -> Outcome:
        """The best law with `num_subnets` sub-networks: every way to split them between time and start is tried."""
        d, level, learn = self.problem.starts.dimension, 1, self.request.learn
        laws = []
        while (in_time := num_subnets // len(space_lattice(d, level))) >= (2 if level > 1 else 1):
            laws.append((self.fit(min(in_time, count), level, None), level))
            self.note(laws[-1][0])
            level += 1
        law, level = min(laws, key=lambda entry: self.judge.error_of(entry[0])[0])
        free_or_constrained = self.problem.constrained or self.problem.free
        if not free_or_constrained and (learn is not False or law.num_subnets < num_subnets):
            v0 = self.problem.starts.spread(
                self.request.num_starts or max(100, 3 * law.coefficients.shape[2] * level**2), seed=self.request.seed
            )
            law = _widened(law, num_subnets, d, level)
            steps = 20 if law.coefficients.size <= 512 else 6
            elements = elements_for(self.problem, num_subnets // len(space_lattice(d, level)))
            law = fit_law(self.problem, law, v0, num_elements=elements, frequencies=learn is not False, steps=steps)
            self.note(law)
        outcome = self.conclude("size")
        return replace(outcome, reason="converged") if outcome.error <= self.request.tol else outcome

    def fit(self, count: int, level: int, before: ControlLaw | None) -> ControlLaw:
        """The law on `count` time frequencies and the start lattice of the given level."""
        problem, starts = self.problem, self.problem.starts
        lattice = space_lattice(starts.dimension, level)
        v0 = starts.spread(
            self.request.num_starts or int(2.5 * len(lattice) * 2**starts.dimension) + 8, seed=self.request.seed
        )
        space = SpaceBasis.make(lattice, starts.normalize(v0))
        transcription = transcribe(problem, v0, count)
        if before is None:
            c = self.first.seed(transcription)
        else:
            s = grid(transcription.basis.edges[:, 0], 1)[0][:, 0]
            raw = before.raw(s.reshape(-1), v0).reshape(len(v0), *s.shape, -1).transpose(1, 0, 2, 3)
            ratio = np.log(before.duration(v0) / problem.numbers[-1]) if problem.free else None
            c = transcription.coordinates(raw, ratio)
        if not problem.constrained and not problem.bounded:
            X = fit_family(transcription, space, c.T @ space.values / len(v0))
            return make_law(problem, transcription.basis, space, X)
        # Constraints and bounds are met start by start; the law is then fitted to these solutions, each weighted
        # by its own Hessian: the same quadratic model that Gauss–Newton would use.
        each = solve_level(transcription, c)
        X = fit_coordinates(each.batch.c, each.batch.derivatives.hessian, start_weights(each.cost), space)
        if not problem.constrained:
            for _ in range(2):
                aligned = transcription.aligned(space.values @ X.T)
                X = fit_family(aligned, space, X, steps=4)
        return make_law(problem, transcription.basis, space, X)

    def note(self, law: ControlLaw) -> float:
        """Judge a law, remember it, and return its error."""
        error, worst = self.judge.error_of(law)
        self.record.step(
            "family", columns=law.num_columns, estimate=float(self.judge.level.cost.mean()), error_estimate=error
        )
        self.best.append(Outcome(law, error, "interrupted", worst))
        return error

    def conclude(self, reason: str) -> Outcome:
        """The best law met."""
        return replace(min(self.best, key=lambda entry: entry.error), reason=reason)


def _widened(law: ControlLaw, num_subnets: int, dimension: int, level: int) -> ControlLaw:
    """The law with sub-networks of zero amplitude added, on the next level of the start lattice, up to `num_subnets`."""
    missing = num_subnets - law.num_subnets
    if not missing:
        return law
    known = len(space_lattice(dimension, level))
    waves = space_lattice(dimension, level + 1)[known:]
    times = np.unique(law.frequencies[:, 0])
    pairs = np.array([[time, *wave] for time in times for wave in waves])[:missing]
    while len(pairs) < missing:
        pairs = np.concatenate([pairs, pairs[: missing - len(pairs)] + np.pi / 4])
    return law.with_arrays(
        frequencies=np.concatenate([law.frequencies, pairs]),
        coefficients=np.concatenate([law.coefficients, np.zeros((missing, *law.coefficients.shape[1:]))]),
    )
