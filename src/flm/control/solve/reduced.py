"""The reduced method: the control is the series, the states follow from the dynamics.

One start: the time basis grows until the estimated excess cost and the change on enlarging it are below the tolerance.

A family: held-out starts are first solved one by one, which gives the optimum that the law is judged by and the number of
time frequencies that it needs; then one law is fitted to training starts, its lattice in the start growing until
the law's excess cost on the held-out starts is below the tolerance.
"""

from dataclasses import dataclass, replace

import numpy as np

from flm.control.law import ControlLaw
from flm.control.solve import family
from flm.control.solve.adam import Adam, train_reduced
from flm.control.solve.family import SpaceBasis, make_law, space_lattice
from flm.control.solve.frequencies import fit_law
from flm.control.solve.levels import (
    GROWTH,
    Ladder,
    Level,
    elements_for,
    explore,
    solve_level,
    solve_starts,
    stalled,
    transcribe,
)
from flm.control.solve.search import COLUMNS, MET, NO_GAIN, OF_THIS_SIZE, Search
from flm.results import Ending
from flm.wording import InputError

_HELD_OUT = 32


@dataclass(frozen=True)
class Reduced:
    """Settings of the reduced method: only the control is a series, the states follow from the dynamics.

    Args:
        learn_frequencies: Whether frequencies move too. By default they do when the number of sub-networks is given,
            and a growing lattice of fixed ones is used otherwise.
        adam: Train frequencies, amplitudes and phases by Adam instead, as the paper does; needs `num_subnets`.

    Example:
        >>> import flm
        >>> flm.Reduced(learn_frequencies=True)
        Reduced(learn_frequencies=True, adam=None)
        >>> method = flm.Reduced(adam=flm.Adam(epochs=2000))  # flm.solve(problem, num_subnets=8, method=method)
    """

    learn_frequencies: bool | None = None
    adam: Adam | None = None


def solve_reduced(search: Search, settings: Reduced) -> Ending:
    """The law of one initial state or of a family, grown to the tolerance or of a given size."""
    if settings.adam is not None:
        return train_reduced(search, settings.adam)
    first = explore(search.problem, search.seed)
    learn = settings.learn_frequencies is not False
    if search.problem.starts.dimension:
        return _solve_family(search, first, learn)
    search.keep(_law(first), np.inf, first.violation)
    if search.num_subnets is not None:
        return _point_of_size(search, first, learn)
    keep, v0 = lambda level, error: search.keep(_law(level), error, level.violation), search.problem.starts.center[None]
    return solve_starts(search, v0, first, tol=search.tol, max_columns=search.max_columns, keep=keep).ending


def _point_of_size(search: Search, first: Level, learn: bool) -> Ending:
    """The law of one initial state with a given number of sub-networks."""
    problem, num_subnets, v0 = search.problem, search.num_subnets or 1, search.problem.starts.center[None]
    transcription = transcribe(problem, v0, num_subnets)
    level = solve_level(transcription, first.seed(transcription))
    law, cost = _law(level), level.cost[0]
    search.keep(law, np.inf, level.violation)
    if learn and not problem.constrained and not problem.free:
        tuned = fit_law(problem, law, v0, num_elements=elements_for(problem, num_subnets))
        tuned_cost = tuned.at(v0).follow(problem, v0).cost[0]
        if tuned_cost < cost:
            law, cost = tuned, tuned_cost
    larger = transcribe(problem, v0, int(np.ceil(GROWTH * num_subnets)) + 2)
    better = solve_level(larger, level.seed(larger))
    error = float((better.excess[0] + abs(cost - better.cost[0])) / family.cost_scale(better.cost)[0])
    error = search.keep(law, error, level.violation)
    search.record.step("start", columns=law.num_columns, estimate=cost, error_estimate=error)
    return OF_THIS_SIZE


def _law(level: Level) -> ControlLaw:
    """The control of a level's only start as the law of all starts."""
    problem, starts = level.transcription.problem, level.transcription.problem.starts
    v0 = starts.spread(4 * 2**starts.dimension, seed=0)
    space = SpaceBasis.make(space_lattice(starts.dimension, 1), starts.normalize(v0))
    mean = space.values.mean(axis=0, keepdims=True)
    return make_law(problem, level.transcription.basis, space, level.batch.c.T @ mean)


def _solve_family(search: Search, first: Level, learn: bool) -> Ending:
    """One law for all of `initial`."""
    search.keep(_law(first), np.inf)
    held_out = search.problem.starts.spread(_HELD_OUT, seed=search.seed + 1)
    # The best law of a given size is sought whatever the tolerance.
    tol = 0.25 * (search.tol if search.num_subnets is None else min(search.tol, 1e-8))
    ladder = solve_starts(search, held_out, first, tol=tol, max_columns=search.max_columns)
    levels = ladder.levels
    # The smallest time basis that loses no more than a quarter of the tolerance.
    losses = {level.count: float((level.excess / family.cost_scale(level.cost)).max()) for level in levels}
    enough = next((count for count, loss in losses.items() if loss <= tol), levels[-1].count)
    fit = _FamilyFit(search, ladder)
    if search.num_subnets is None:
        return fit.to_tolerance(enough, losses)
    return fit.of_size(search.num_subnets, enough, learn)


@dataclass(frozen=True, eq=False)
class _FamilyFit:
    """Fits of laws on product lattices to training starts, judged on held-out ones."""

    search: Search
    judge: Ladder

    def to_tolerance(self, enough: int, losses: dict[int, float]) -> Ending:
        """Grow the lattice in the start until the law is good enough.

        `losses` are what the held-out starts lose by number of time frequencies, of which `enough` suffice.
        """
        k, d = len(self.search.problem.controls), self.search.problem.starts.dimension
        max_columns = self.search.max_columns
        columns = lambda count, level: 2 * count * len(space_lattice(d, level)) * 2**d * k
        if columns(min(losses), 1) > max_columns:
            raise InputError(
                f"`max_columns` must be at least {columns(min(losses), 1)} for {d} varying coordinates of the start and "
                f"{k} control{'s' if k > 1 else ''}; got {max_columns}."
            )
        law, errors, level = None, [], 1
        while True:
            # Within the allowance, rather fewer time frequencies than a poor lattice in the start.
            fitting = [c for c in sorted(losses) if c <= enough and columns(c, level) <= max_columns]
            if not fitting or (fitting[-1] < enough and errors and losses[fitting[-1]] > 0.5 * min(errors)):
                return COLUMNS
            law = self.fit(fitting[-1], level, law)
            errors.append(self.note(law))
            if errors[-1] <= self.search.tol:
                return MET
            if stalled(errors):
                return NO_GAIN
            level += 1

    def of_size(self, num_subnets: int, enough: int, learn: bool) -> Ending:
        """The best law with `num_subnets` sub-networks: every way to split them between time and start is tried."""
        problem, d, level = self.search.problem, self.search.problem.starts.dimension, 1
        laws = []
        while (in_time := num_subnets // len(space_lattice(d, level))) >= (2 if level > 1 else 1):
            law = self.fit(min(in_time, enough), level, None)
            laws.append((self.note(law), level, law))
            level += 1
        _, level, law = min(laws, key=lambda entry: entry[0])
        if not (problem.constrained or problem.free) and (learn or law.num_subnets < num_subnets):
            num_starts = max(100, 3 * law.coefficients.shape[2] * level**2)
            v0 = problem.starts.spread(num_starts, seed=self.search.seed)
            law = _widened(law, num_subnets, d, level)
            steps = 20 if law.coefficients.size <= 512 else 6
            elements = elements_for(problem, num_subnets // len(space_lattice(d, level)))
            self.note(fit_law(problem, law, v0, num_elements=elements, frequencies=learn, steps=steps))
        return OF_THIS_SIZE

    def fit(self, count: int, level: int, before: ControlLaw | None) -> ControlLaw:
        """The law on `count` time frequencies and the start lattice of the given level."""
        problem, starts = self.search.problem, self.search.problem.starts
        lattice = space_lattice(starts.dimension, level)
        v0 = starts.spread(int(2.5 * len(lattice) * 2**starts.dimension) + 8, seed=self.search.seed)
        space = SpaceBasis.make(lattice, starts.normalize(v0))
        transcription = transcribe(problem, v0, count)
        c = self.judge.levels[0].seed(transcription) if before is None else transcription.coordinates(before.at(v0))
        if not problem.constrained and not problem.bounded:
            X = family.fit_family(transcription, space, c.T @ space.values / len(v0))
            return make_law(problem, transcription.basis, space, X)
        # Constraints and bounds are met start by start; the law is then fitted to these solutions, each weighted
        # by its own Hessian: the same quadratic model that Gauss–Newton would use.
        each = solve_level(transcription, c)
        X = family.fit_coordinates(each.batch.c, each.batch.derivatives.hessian, family.start_weights(each.cost), space)
        if not problem.constrained:
            for _ in range(2):
                aligned = transcription.aligned(space.values @ X.T)
                X = family.fit_family(aligned, space, X, steps=4)
        return make_law(problem, transcription.basis, space, X)

    def note(self, law: ControlLaw) -> float:
        """Judge a law, remember it, and return its error."""
        error = self.search.keep(law, *self.judge.error_of(law))
        mean = float(self.judge.levels[-1].cost.mean())
        self.search.record.step("family", columns=law.num_columns, estimate=mean, error_estimate=error)
        return error


def _widened(law: ControlLaw, num_subnets: int, dimension: int, level: int) -> ControlLaw:
    """The law with sub-networks of zero amplitude added, on the next level of the start lattice, up to `num_subnets`."""
    missing = num_subnets - law.num_subnets
    waves = space_lattice(dimension, level + 1)[len(space_lattice(dimension, level)) :]
    times = np.unique(law.frequencies[:, 0])
    pairs = np.array([[time, *wave] for time in times for wave in waves])[:missing]
    while len(pairs) < missing:
        pairs = np.concatenate([pairs, pairs[: missing - len(pairs)] + np.pi / 4])
    return replace(
        law,
        frequencies=np.concatenate([law.frequencies, pairs]),
        coefficients=np.concatenate([law.coefficients, np.zeros((missing, *law.coefficients.shape[1:]))]),
    )
