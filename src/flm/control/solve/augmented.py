"""The augmented-Lagrangian method: states and control are series, the dynamics are kept by multipliers.

The multipliers of the dynamics converge to the costates, so that the penalty need not be large and leaves no bias.
"""

from dataclasses import dataclass, replace

import numpy as np

from flm.control.law import ControlLaw
from flm.control.networks import StateNetworks
from flm.control.problem import OptimalControl
from flm.control.solve.family import (
    SpaceBasis,
    cost_scale,
    fit_family,
    follow_law,
    lattice_series,
    make_law,
    space_lattice,
)
from flm.control.solve.full import DynamicsMultipliers, FullRun, FullTranscription
from flm.control.solve.levels import elements_for, explore, law_excess, solve_starts, time_frequencies
from flm.control.solve.reduced import Judge, Outcome
from flm.control.solve.single import newton
from flm.control.solve.variation import TimeBasis, control_offset
from flm.results import Record


@dataclass(frozen=True)
class AugmentedLagrangian:
    """Settings of the augmented-Lagrangian method.

    Args:
        weight: μ of dynamics and initial state; moderate, since the multipliers do the work.
        rounds: Of updating the multipliers.
        guesses: Random controls that the error estimate's own reference tries.
    """

    weight: float = 100.0
    rounds: int = 15
    guesses: int = 10


@dataclass(frozen=True)
class Networks:
    """An outcome with the state networks beside the law."""

    outcome: Outcome
    networks: StateNetworks


def solve_augmented(problem: OptimalControl, method: AugmentedLagrangian, tol: float, num_subnets: int | None,
                    max_columns: int, seed: int, record: Record, best: list[Networks]) -> Networks:  # fmt: skip
    """The law and state networks, their lattice growing until the law's estimated excess cost is below `tol`."""
    starts = problem.starts
    judge = _judge(problem, method, tol, max_columns, seed, record) if starts.dimension else None
    for count, level in _sizes(problem, num_subnets, max_columns):
        lattice = space_lattice(starts.dimension, level) if starts.dimension else None
        v0 = (
            starts.center[None]
            if lattice is None
            else starts.spread(int(2.5 * len(lattice) * 2**starts.dimension) + 8, seed=seed)
        )
        law, networks, run = fit_networks(problem, method, v0, count, lattice)
        if judge is not None:
            error, worst = judge.error_of(law)
        else:
            followed = follow_law(problem, law, v0)
            error, worst = (
                float((law_excess(problem, law, v0) / cost_scale(followed.cost))[0]),
                float(followed.violation()[0]),
            )
        record.step(
            "networks",
            columns=law.num_columns + networks.coefficients.size,
            estimate=float(run.cost.mean()),
            error_estimate=error,
        )
        best.append(Networks(Outcome(law, error, "interrupted", worst), networks))
        if error <= tol:
            break
    chosen = min(best, key=lambda entry: entry.outcome.error)
    reason = "converged" if chosen.outcome.error <= tol else "size" if num_subnets else "columns"
    return Networks(replace(chosen.outcome, reason=reason), chosen.networks)


def _sizes(problem: OptimalControl, num_subnets: int | None, max_columns: int):
    """(time frequencies, level of the start lattice) to try in turn."""
    d = problem.starts.dimension
    if num_subnets is not None:
        level = 1
        while d and num_subnets // len(space_lattice(d, level + 1)) >= 4:
            level += 1
        yield max(1, num_subnets // (len(space_lattice(d, level)) if d else 1)), level
        return
    networks = problem.equations.num_coordinates + len(problem.controls)
    sizes = [(6, 1), (6, 2), (8, 3), (8, 4)] if d else [(5, 1), (7, 1), (10, 1), (14, 1), (20, 1)]
    for count, level in sizes:
        if 2 * count * networks * (len(space_lattice(d, level)) * 2**d if d else 1) <= max_columns:
            yield count, level


def _judge(problem, method, tol, max_columns, seed, record) -> Judge:
    """Held-out starts with their own optimal costs, by the reduced method."""
    first = explore(problem, method.guesses, seed)
    levels, errors, _ = solve_starts(problem, problem.starts.spread(16, seed=seed + 1), first, tol, max_columns, record)
    return Judge(problem, levels[-1], errors[-1])


def fit_networks(
    problem: OptimalControl, method: AugmentedLagrangian, v0: np.ndarray, count: int, lattice: np.ndarray | None
) -> tuple[ControlLaw, StateNetworks, FullRun]:
    """Series for states and control on `count` time frequencies, for one start or a lattice of starts."""
    form = "softmax" if problem.on_simplex else "plain"
    basis = TimeBasis.make(time_frequencies(count), elements_for(problem, count))
    transcription = FullTranscription(problem, basis, v0, form)
    multipliers = transcription.no_multipliers((method.weight, method.weight))
    c = _uncontrolled(transcription)
    space = None if lattice is None else SpaceBasis.make(lattice, problem.starts.normalize(v0))
    X = c.T if space is None else c.T @ space.values / len(v0)
    run = transcription.run(c, multipliers)
    for _ in range(method.rounds):
        if space is None:
            batch = newton(transcription, X.T, multipliers=multipliers, steps=40, rtol=1e-14)
            X, run = batch.c.T, batch.derivatives.run
        else:
            X = fit_family(transcription, space, X, multipliers=multipliers)
            run = transcription.run(space.values @ X.T, multipliers)
        multipliers = _updated(multipliers, run, float(problem.numbers[-1]))
    d, m = problem.equations.num_coordinates, basis.size
    law = make_law(problem, basis, space, X[d * m :])
    frequencies, a = lattice_series(basis, space, X[: d * m].reshape(d, m, -1))
    networks = StateNetworks(
        np.repeat(frequencies[None], d, axis=0), np.moveaxis(a, -1, 0), law.center, law.scale, form, None
    )
    return law, networks, run


def _updated(multipliers: DynamicsMultipliers, run: FullRun, horizon: float) -> DynamicsMultipliers:
    along, start = multipliers.weights
    return replace(
        multipliers,
        dynamics=multipliers.dynamics + along * run.dynamics / horizon,
        start=multipliers.start + start * run.start,
        path=np.maximum(0.0, multipliers.path + along * run.path),
        terminal=multipliers.terminal + along * run.terminal,
    )


def _uncontrolled(transcription: FullTranscription) -> np.ndarray:
    """Coordinates of the trajectories under the resting control."""
    problem, (s, _) = transcription.problem, transcription.nodes
    rest = control_offset(problem)
    followed = problem.follow(
        lambda s, part: np.broadcast_to(rest, (*s.shape, len(rest))), problem.starts.lift(transcription.v0)
    )
    x = followed.states(s * problem.numbers[-1])[..., : transcription.v0.shape[1]]
    x = np.where(np.isfinite(x), x, transcription.v0[:, None, :])
    return transcription.first_guess(transcription.logits(x), np.broadcast_to(rest, (*x.shape[:2], len(rest))))
