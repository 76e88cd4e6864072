"""Each start on its own: controls on growing time bases, solved in batches by Newton's method with exact second derivatives.

Time frequencies are π(k + ½) in normalized time. A level's error is the estimated excess cost, ½∫h_u²/h_uu, plus the change
from the level before; a basis that still loses much is enlarged even if that has not helped yet, since it may be too coarse for
the dynamics.

Path and terminal constraints are met by the method of multipliers: inequalities g <= 0 have multipliers
lam <- max(0, lam + rho g), equalities h = 0 have nu <- nu + rho h; the weight rho grows when a round has not reduced the
violation to a quarter (Nocedal and Wright, Numerical Optimization, ch. 17).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flm.control.dynamics import NODES, Simulated
from flm.control.equations import Multipliers
from flm.control.law import ControlLaw, Controls
from flm.control.problem import OptimalControl
from flm.control.solve.search import (
    COLUMNS,
    FEASIBLE,
    MET,
    NO_GAIN,
    NOT_MET,
    UNRESOLVED,
    Search,
    cost_scale,
    relative_excess,
)
from flm.control.solve.variation import Derivatives, TimeBasis, Transcription, excess_along
from flm.numerics.newton import Minimum, Nielsen, Step, Trial, minimize
from flm.results import Ending, Word

_GROWTH = 1.4
FIRST = 4  # time frequencies to begin with
_ALIGNMENTS = 6  # rounds of moving elements' edges to the corners of bounded controls
_GUESSES = 10  # random controls that are tried beside zero
_STEPS = 40  # of Newton's method
_ROUGH = 1e-6  # the relative decrease that may be left to a guess: it is only compared with others, then refined
_AIM = 1e-10  # the violation that rounds aim at: a violation h changes the cost by nu . h, to first order
_ROUNDS = 40
_IN_VAIN = 8  # rounds after which a violation that has not become smaller is given up
_RESOLVED = 0.05  # the error above which a time basis may be too coarse for the dynamics,
_COARSE = 100  # and the number of frequencies up to which it is then enlarged
_FAR = 14.0  # |log(T / guess)| at which a free final time is not an answer
RUNAWAYS = "the final time grows without bound", "the final time shrinks to zero", "the cost falls without bound"
# Steps start undamped: the Hessian is exact, and far from the minimum its negative eigenvalues are turned positive.
_RULE = Nielsen(start=0.0, most=1e6, least=1e-4)


@dataclass(frozen=True, eq=False)
class Batch:
    """Coefficients c (P, M) of each start with the trajectories under them: an iterate of Newton's method and its local model."""

    transcription: Transcription
    c: np.ndarray
    run: Simulated
    multipliers: Multipliers

    @cached_property
    def derivatives(self) -> Derivatives:
        """The derivatives of each start's Lagrangian."""
        return self.transcription.derivatives(self.run, self.c, self.multipliers)

    @property
    def value(self) -> np.ndarray:
        """The merit that a step must decrease, (P,)."""
        return self.transcription.merit(self.run, self.c, self.derivatives)

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (P, M) and eigenvectors (P, M, M) of the Hessians; those of the identity where a Hessian is not finite."""
        hessian = self.derivatives.hessian
        good = np.isfinite(hessian).all(axis=(1, 2), keepdims=True)
        return np.linalg.eigh(np.where(good, hessian, np.eye(hessian.shape[1])))

    @property
    def controls(self) -> Controls:
        """The controls as functions of any time."""
        return self.transcription.at(self.c)

    def step(self, damping: np.ndarray) -> Step:
        """-V (V'g) / (|e| + damping), with e and V the Hessian's eigenvalues and eigenvectors."""
        values, vectors = self._spectrum
        scale = np.abs(values).max(axis=1)
        along = np.einsum("pim,pi->pm", vectors, np.nan_to_num(self.derivatives.gradient))
        size = np.maximum(np.abs(values), 1e-13 * scale[:, None]) + (damping * scale)[:, None]
        predicted = (along**2 / size - 0.5 * values * (along / size) ** 2).sum(axis=1)
        return Step(-np.einsum("pim,pm->pi", vectors, along / size), predicted)

    def take(self, move: np.ndarray) -> Trial[Batch]:
        """The trajectories after a step, by Newton's iteration from those before it."""
        c = self.c + move
        run = self.transcription.run(c, self.multipliers, guess=np.nan_to_num(self.run.stages))
        return Trial(replace(self, c=c, run=run), self.transcription.merit(run, c, self.derivatives))

    def mixed(self, other: Batch, accepted: np.ndarray) -> Batch:
        """This batch with the starts that accepted a step taken from another one."""
        c = np.where(accepted[:, None], other.c, self.c)
        return replace(self, c=c, run=self.run.mixed(other.run, accepted))


def _newton(
    transcription: Transcription,
    c: np.ndarray,
    multipliers: Multipliers,
    steps: int,
    *,
    guess: np.ndarray | None = None,
    tol: float = 1e-13,
) -> Minimum[Batch]:
    """Minimize each start's Lagrangian by a damped, saddle-free Newton method from coefficients c (P, M)."""
    start = Batch(transcription, c, transcription.run(c, multipliers, guess), multipliers)
    return minimize(start, lambda batch: batch, _RULE, max_steps=steps, step_tol=tol, noise=1e-15, mix=Batch.mixed)


def _meet_constraints(
    transcription: Transcription, c: np.ndarray, multipliers: Multipliers
) -> tuple[Minimum[Batch], Multipliers]:
    """Minimize and update multipliers in turn until the constraints are met; without constraints, minimize once."""
    if not transcription.problem.equations.path:
        # Multipliers of path constraints live on the grid, which must then stay the same; without them it may have changed.
        multipliers = replace(multipliers, path=_no_multipliers(transcription).path)
    history, stages = [], None
    for _ in range(_ROUNDS):
        found = _newton(transcription, c, multipliers, _STEPS, guess=stages)
        c, run = found.point.c, found.point.run
        stages = np.nan_to_num(run.stages)  # the next round begins where this one ended
        # max(g, -lam/rho): how far g is from feasibility and complementarity.
        weight, g, h = multipliers.weight, run.first.path, run.last.terminal
        gap = np.maximum(g, -multipliers.path / weight)
        worst = max(np.abs(gap).max(initial=0.0), np.abs(h).max(initial=0.0))
        if not np.isfinite(worst):
            break
        path, terminal = np.maximum(0.0, multipliers.path + weight * g), multipliers.terminal + weight * h
        multipliers = Multipliers(path, terminal, weight)
        history.append(worst)
        if len(history) > _IN_VAIN and worst > 0.9 * min(history[:-_IN_VAIN]):
            break
        if worst <= _AIM or (len(history) > 6 and worst < FEASIBLE and worst > 0.5 * min(history[:-3])):
            break
        if len(history) > 1 and worst > 0.25 * history[-2]:
            multipliers = replace(multipliers, weight=min(5.0 * weight, 1e7))
    return found, multipliers


def _no_multipliers(transcription: Transcription) -> Multipliers:
    equations, count = transcription.problem.equations, len(transcription.v0)
    path = np.zeros((len(transcription.basis.edges) - 1, count, NODES, equations.num_path))
    return Multipliers(path, np.zeros((count, equations.num_terminal)), 1.0)


def _first_multipliers(transcription: Transcription, c: np.ndarray) -> Multipliers:
    """Zero multipliers, with a weight that makes the constraints count as much as the cost."""
    zeros = _no_multipliers(transcription)
    if not transcription.problem.constrained:
        return zeros
    run = transcription.run(c)
    finite = np.isfinite(run.cost)
    worst = max(run.violation[finite].max(initial=0.0), 0.1)
    size = max(np.abs(run.cost[finite]).mean() if finite.any() else 1.0, 0.1)
    return replace(zeros, weight=float(np.clip(10.0 * size / worst**2, 1.0, 1e4)))


@dataclass(frozen=True, eq=False)
class Level:
    """Independent solutions of a batch of starts on one time basis.

    `cost` and `violation` (P,) are those of the accurately simulated dynamics, `excess` (P,) is the estimate ½∫h_u²/h_uu of what
    is lost, and `error` the worst start's (excess + change from the level before) over the optimum; `doubt` says why it has none.
    """

    batch: Batch
    cost: np.ndarray
    excess: np.ndarray
    violation: np.ndarray
    error: float = np.inf
    doubt: str = ""

    @property
    def count(self) -> int:
        """The number of time frequencies."""
        return len(self.batch.transcription.basis.frequencies)

    def error_of(self, law: ControlLaw) -> tuple[float, float]:
        """A law's worst relative excess over these starts' own costs, plus their error; and its worst violation."""
        v0 = self.batch.transcription.v0
        run = law.at(v0).follow(self.batch.transcription.problem, v0)
        if not np.isfinite(run.cost).all():
            return np.inf, np.inf if self.batch.transcription.problem.constrained else 0.0
        excess = np.abs(run.cost - self.cost) / cost_scale(self.cost)
        return float(excess.max()) * (1.0 + self.error) + self.error, float(run.violation.max())

    def after(self, before: Level | None, allowed: float) -> Level:
        """This level with its error, by the change from the level before, or with the reason why it has none."""
        if not np.isfinite(self.cost).all():
            return replace(self, doubt="the dynamics failed")
        if doubt := self._runs_away(before):
            return replace(self, doubt=doubt)
        if not self.violation.max() <= allowed:
            return self  # which is said with the violation
        if not np.isfinite(self.excess).all():
            # Where h_uu <= 0 a control without bounds has no best value nearby.
            return replace(self, doubt="a control that is not bounded enters linearly, or where its cost is not convex")
        if before is None:
            return replace(self, doubt="one must be compared with another, for which there were not enough columns")
        lost = self.excess + np.abs(before.cost - self.cost)
        error = float(relative_excess(lost, self.cost).max())
        return replace(self, error=error, doubt="" if np.isfinite(error) else UNRESOLVED)

    def _runs_away(self, before: Level | None) -> str:
        """What grows or falls from level to level without end, if it does."""
        if self.batch.transcription.problem.free:
            shift = self.batch.c[:, -1]  # log(T / guess)
            further = shift - (shift if before is None else before.batch.c[:, -1])
            poor = ~(relative_excess(self.excess, self.cost) <= _RESOLVED)
            if shift.max() > _FAR or (poor & (further > 0.05)).any():
                return RUNAWAYS[0]
            if shift.min() < -_FAR:
                return RUNAWAYS[1]
        falls = before is not None and ((self.cost < 0) & (self.cost < -1e3 * np.abs(before.cost))).any()
        return RUNAWAYS[2] if falls else ""


def time_frequencies(count: int) -> np.ndarray:
    """π(k + ½): waves that repeat after 4, 4/3, … horizons. No frequency is zero, so no column is wasted."""
    return np.pi * (np.arange(count) + 0.5)


def transcribe(problem: OptimalControl, v0: np.ndarray, count: int) -> Transcription:
    """The problem on `count` time frequencies, with more elements where controls or multipliers have corners."""
    num_elements = max(24 if problem.equations.path else 12 if problem.bounded else 6, count // 2 + 2)
    return Transcription(problem, TimeBasis.make(time_frequencies(count), num_elements), v0)


def best_controls(transcription: Transcription, c: np.ndarray) -> tuple[Batch, Multipliers]:
    """Each start's best control, from coordinates c, and the multipliers of its constraints."""
    problem = transcription.problem
    found, multipliers = _meet_constraints(transcription, c, _first_multipliers(transcription, c))
    if problem.bounded and not problem.equations.path:
        # Elements end where u = clip(w) has corners: quadrature across a corner is only of second order.
        for _ in range(_ALIGNMENTS):
            c, before = found.point.c, found.point.run.lagrangian
            trial, trial_multipliers = _meet_constraints(found.point.transcription.aligned(c), c, multipliers)
            after = trial.point.run.lagrangian
            if not np.all(after <= before + 1e-4 * np.abs(before)):
                break
            found, multipliers = trial, trial_multipliers
            if np.all(np.abs(before - after) <= 1e-11 * np.abs(before)) or found.steps == _STEPS:
                break
    return found.point, multipliers


def _solve_level(transcription: Transcription, c: np.ndarray) -> Level:
    """Each start's best control, from coordinates c, with its accurately simulated cost and the estimate of what is lost."""
    problem, (batch, multipliers) = transcription.problem, best_controls(transcription, c)
    run = batch.controls.follow(problem, transcription.v0)
    if not problem.constrained and not problem.free:
        return Level(batch, run.cost, excess_along(run), run.violation)
    # Multipliers and the horizon's derivatives live on the solver's grid. A violation is worth |nu . h| + ∫ lam |g|. Multipliers
    # of path constraints are known node by node, too roughly for a pointwise estimate, which the change between levels replaces.
    excess = np.einsum("epq,epqg->p", batch.run.weights, multipliers.path * np.abs(batch.run.first.path))
    excess += np.abs(multipliers.terminal * run.last.terminal).sum(axis=1) + np.abs(run.cost - batch.run.cost)
    if not problem.equations.path:
        excess += batch.derivatives.excess
    # A minimum that is not there, such as a final time that grows for ever, leaves Newton's method something to gain.
    excess += batch.step(np.zeros(len(run.cost))).predicted
    return Level(batch, run.cost, excess, run.violation)


def explore(problem: OptimalControl, seed: int) -> Batch:
    """The best of several starting controls at the middle start: zero, and random smooth ones."""
    v0 = np.repeat(problem.starts.center[None], 1 + _GUESSES, axis=0)
    transcription = transcribe(problem, v0, FIRST)
    size = np.where(np.isfinite(problem.upper - problem.lower), (problem.upper - problem.lower) / 2, 1.0)
    rng = np.random.default_rng(seed)
    k, m = len(problem.controls), transcription.basis.size
    c = np.zeros((len(v0), transcription.size))
    c[1:, : k * m] = (rng.standard_normal((_GUESSES, k, m)) * size[:, None] / np.sqrt(m)).reshape(_GUESSES, k * m)
    batch = _newton(transcription, c, _first_multipliers(transcription, c), 25, tol=_ROUGH).point
    # Zero is kept unless another guess is better by more than the accuracy of this comparison.
    lagrangian = batch.run.lagrangian
    best = int(np.argmin(lagrangian))
    if lagrangian[best] > lagrangian[0] - 1e-3 * abs(lagrangian[0]):
        best = 0
    one, chosen = transcribe(problem, v0[:1], FIRST), batch.c[best : best + 1]
    return Batch(one, chosen, one.run(chosen), _no_multipliers(one))


def solve_starts(
    search: Search,
    v0: np.ndarray,
    first: Batch,
    *,
    tol: float,
    keep: Callable[[Level], object] = lambda level: None,
) -> tuple[list[Level], Ending]:
    """Solve each start v0 (P, d) on its own, on growing time bases, until the error is below `tol`; each level goes to `keep`."""
    problem, count, batch = search.problem, FIRST, first
    levels: list[Level] = []
    while True:
        transcription = transcribe(problem, v0, count)
        level = _solve_level(transcription, transcription.coordinates(batch.controls))
        level = level.after(levels[-1] if levels else None, search.allowed)
        levels.append(level)
        batch = level.batch
        keep(level)
        columns, stage = 2 * count * len(problem.controls), "starts" if len(v0) > 1 else "start"
        search.record.step(stage, columns=columns, estimate=level.cost.mean(), error_estimate=level.error)
        if level.error <= tol and level.batch.run.violation.max() <= FEASIBLE:
            return levels, MET
        if (ending := _given_up(levels, search.allowed)) is not None:
            return levels, ending
        count = int(np.ceil(count * _GROWTH))
        if 2 * count * len(problem.controls) > search.max_columns:
            return levels, COLUMNS


def _given_up(levels: list[Level], allowed: float) -> Ending | None:
    """Why larger bases are not tried, if so."""
    last, missed = levels[-1], [float(level.violation.max()) for level in levels]
    if len(levels) > 2 and last.doubt in RUNAWAYS and levels[-2].doubt == last.doubt:
        return Ending(Word.STALLED, f"stalled: {last.doubt}")
    if missed[-1] > allowed:
        return NOT_MET if stalled(missed) else None
    errors = [level.error for level in levels[1:]]
    coarse = not min(errors, default=np.inf) <= _RESOLVED and last.count <= _COARSE and np.isfinite(last.excess).all()
    return NO_GAIN if stalled(errors) and not coarse else None


def stalled(errors: list[float]) -> bool:
    """Whether the last three levels have not halved the error."""
    return len(errors) > 3 and not min(errors[-3:]) < 0.5 * min(errors[:-3])
