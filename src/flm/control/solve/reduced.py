"""The reduced method: the control is the series, the states follow from the dynamics.

One start: the time basis grows until the estimated excess cost and the change on enlarging it are below the tolerance.

A family: held-out starts are first solved one by one, which gives the optimum that the law is judged by and the number of
time frequencies that it needs; then one law is fitted to training starts, its lattice in the start growing until
the law's excess cost on the held-out starts is below the tolerance.
"""

from dataclasses import dataclass, replace

import numpy as np

from flm.control.law import ControlLaw
from flm.control.solve.family import SpaceBasis, fit_lattice, learn_frequencies, make_law, space_lattice
from flm.control.solve.levels import Batch, Level, best_controls, explore, solve_starts, stalled, transcribe
from flm.control.solve.networks import Adam, train_reduced
from flm.control.solve.search import COLUMNS, MET, NO_GAIN, OF_THIS_SIZE, Search, cost_scale
from flm.results import Ending
from flm.wording import InputError

_HELD_OUT = 32


@dataclass(frozen=True)
class Reduced:
    """Settings of the reduced method: only the control is a series, the states follow from the dynamics.

    Args:
        adam: Train frequencies, amplitudes and phases by Adam, as the paper does, instead of Newton's method.

    Example:
        >>> import flm
        >>> method = flm.Reduced(adam=flm.Adam(epochs=2000))  # flm.solve(problem, num_subnets=8, method=method)
    """

    adam: Adam | None = None


def solve_reduced(search: Search, settings: Reduced) -> Ending:
    """The law of one initial state or of a family, grown to the tolerance or of a given size."""
    if settings.adam is not None:
        return train_reduced(search, settings.adam)
    starts, tol, size = search.problem.starts, search.tol, search.num_subnets
    first = explore(search.problem, search.seed)
    search.keep(_law(first), np.inf)
    if not starts.dimension and size is None:
        keep = lambda level: search.keep(_law(level), level.error, float(level.batch.run.violation.max()))
        return solve_starts(search, starts.center[None], first, tol=tol, keep=keep)[1]
    held_out = starts.spread(_HELD_OUT, seed=search.seed + 1) if starts.dimension else starts.center[None]
    # The best law of a given size is sought whatever the tolerance.
    tol = 0.25 * (tol if size is None else min(tol, 1e-8))
    levels, _ = solve_starts(search, held_out, first, tol=tol)
    losses = {level.count: float((level.excess / cost_scale(level.cost)).max()) for level in levels}
    enough = next((count for count, loss in losses.items() if loss <= tol), levels[-1].count)
    fit = _FamilyFit(search, levels[-1], losses, enough)
    return fit.to_tolerance() if size is None else fit.of_size(size)


def _law(level: Level) -> ControlLaw:
    """The control of a level's only start as the law of all starts."""
    problem, starts = level.batch.transcription.problem, level.batch.transcription.problem.starts
    v0 = starts.spread(4 * 2**starts.dimension, seed=0)
    space = SpaceBasis.make(space_lattice(starts.dimension, 1), starts.normalize(v0))
    mean = space.values.mean(axis=0, keepdims=True)
    return make_law(problem, level.batch.transcription.basis, space, level.batch.c.T @ mean)


@dataclass(frozen=True, eq=False)
class _FamilyFit:
    """Fits of laws to training starts, judged on held-out ones.

    `losses` are the relative costs that the held-out starts lose with so many time frequencies, of which `enough` lose little.
    """

    search: Search
    judge: Level
    losses: dict[int, float]
    enough: int

    def to_tolerance(self) -> Ending:
        """Grow the lattice in the start until the law is good enough."""
        k, d = len(self.search.problem.controls), self.search.problem.starts.dimension
        max_columns, losses, enough = self.search.max_columns, self.losses, self.enough
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
            lattice = space_lattice(d, level)
            law = fit_lattice(self.solved(_count_for(lattice), fitting[-1], law), lattice)
            errors.append(self.note(law))
            if errors[-1] <= self.search.tol:
                return MET
            if stalled(errors):
                return NO_GAIN
            level += 1

    def of_size(self, num_subnets: int) -> Ending:
        """The best law with `num_subnets` sub-networks: every way to split them between time and start is tried."""
        problem, d = self.search.problem, self.search.problem.starts.dimension
        levels = [1]
        while d and num_subnets // len(space_lattice(d, levels[-1] + 1)) >= 2:
            levels.append(levels[-1] + 1)
        laws = []
        for level in levels:
            lattice = space_lattice(d, level)
            count = min(num_subnets // len(lattice), self.enough) if d else num_subnets
            law = fit_lattice(self.solved(_count_for(lattice), count), lattice)
            laws.append((self.note(law), level, law))
        _, level, law = min(laws, key=lambda entry: entry[0])
        if not (problem.constrained or problem.free):
            law = _widened(law, num_subnets, d, level)
            solved = self.solved(max(100, 3 * 2**d * level**2) if d else 1, self.enough)
            self.note(learn_frequencies(solved, law, steps=20 if law.coefficients.size <= 512 else 6))
        return OF_THIS_SIZE

    def solved(self, num_starts: int, count: int, before: ControlLaw | None = None) -> Batch:
        """So many training starts, solved one by one on `count` time frequencies from the controls of a law."""
        problem, starts = self.search.problem, self.search.problem.starts
        transcription = transcribe(problem, starts.spread(num_starts, seed=self.search.seed), count)
        c = self.judge.seed(transcription) if before is None else transcription.coordinates(before.at(transcription.v0))
        return best_controls(transcription, c)[0]

    def note(self, law: ControlLaw) -> float:
        """Judge a law, remember it, and return its error."""
        error = self.search.keep(law, *self.judge.error_of(law))
        mean = float(self.judge.cost.mean())
        stage = "family" if self.search.problem.starts.dimension else "start"
        self.search.record.step(stage, columns=law.num_columns, estimate=mean, error_estimate=error)
        return error


def _count_for(lattice: np.ndarray) -> int:
    """Training starts for a lattice of the start: 2.5 for each of its functions, and some more."""
    n, d = lattice.shape
    return int(2.5 * n * 2**d) + 8 if d else 1


def _widened(law: ControlLaw, num_subnets: int, dimension: int, level: int) -> ControlLaw:
    """The law with sub-networks of zero amplitude added, on the next level of the start lattice, up to `num_subnets`."""
    missing = num_subnets - len(law.frequencies)
    if not missing:
        return law
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
