"""Families: problems with parameters that are ranges, solved once for every value.

The problem is solved at Chebyshev points of the parameters and interpolated; the points of a level contain those of the one
before. A few more values, which no level contains, are solved for comparison: the interpolation's distance from them is its error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from flm.domains import Box
from flm.language.parameters import Range
from flm.models.family import FamilyFLM, chebyshev
from flm.pde.pieces.newton import distance
from flm.pde.problem import PDE
from flm.results import Ending, Listener, Record, Solution, Word, frame_of
from flm.wording import InputError

LEVELS = {1: (3, 5, 9, 17, 33), 2: (3, 5, 9, 17)}  # nodes of each parameter, by the number of parameters
# shares of the ranges where interpolation is judged
HELD_OUT = ((0.03, 0.41), (0.56, 0.97), (0.87, 0.22), (0.31, 0.72))
SHARE = 0.25  # of the tolerance, for each single solve
TESTS = 500  # points of the domain for each comparison
UNRESOLVED = 0.03


def solve_family(problem: PDE, tol: float, solve_one: Callable[[PDE, float], Solution], progress: Listener) -> Solution:
    """Solve a problem with ranges to a tolerance that holds over the domain and the ranges."""
    record = Record(progress)
    ranges = {name: value for name, value in problem.parameters.items() if isinstance(value, Range)}
    family, gap, bar = Family(problem, ranges, tol, solve_one), math.inf, math.inf
    for count in LEVELS[len(ranges)]:
        model = family.model(count)
        gap = family.gap(model) if family.failed is None else math.inf
        bar = 2 * gap + 2 * family.worst
        record.step("family", columns=family.num_columns, estimate=gap, error_estimate=bar)
        if bar <= tol or family.failed is not None:
            break
    ending = Ending(Word.CONVERGED) if bar <= tol else Ending(Word.STALLED, "stalled: the most values were tried")
    if family.failed is not None:
        where, member = family.failed
        clause = f"at {where}: {member.status.clause}"
        bar, ending = math.inf, replace(member.ending, word=member.status.word, clause=clause)
    elif gap > UNRESOLVED:
        bar, ending = math.inf, Ending(Word.STALLED, "not resolved: solutions at neighboring values differ too much")
    domain = problem.domain * Box(**{name: (r.low, r.high) for name, r in ranges.items()})
    return Solution(
        model=model,
        ending=ending,
        error_estimate=bar,
        tolerance=tol,
        history=record.history,
        num_columns=family.num_columns,
        seconds=record.seconds,
        **frame_of(domain, problem.unknowns, None if problem.exact is None else family.exact),
    )


class Family:
    """Solutions of a problem at values of its ranges, each solved once, to a share of the tolerance."""

    def __init__(self, problem: PDE, ranges: dict[str, Range], tol: float, solve_one: Callable[[PDE, float], Solution]):
        self.problem, self.ranges, self.tol, self.solve_one = problem, ranges, tol, solve_one
        self.solved: dict[tuple[float, ...], Solution] = {}
        self.failed: tuple[str, Solution] | None = None  # the first place where a solve failed, with its answer
        self.worst = 0.0  # the largest estimate of the single solves
        self.points = problem.domain.interior(TESTS, seed=7, warp=False)

    def at(self, values: tuple[float, ...]) -> Solution:
        """The solution at values of the parameters."""
        key = tuple(round(v, 14) for v in values)
        if key not in self.solved:
            named = dict(zip(self.ranges, values, strict=True))
            found = self.solve_one(self.problem.with_parameters(named), SHARE * self.tol)
            self.solved[key] = found
            self.worst = max(self.worst, found.error_estimate)
            if self.failed is None and (not np.isfinite(found.error_estimate) or found.error_estimate > self.tol):
                self.failed = ", ".join(f"{n} = {v:.6g}" for n, v in named.items()), found
        return self.solved[key]

    def model(self, count: int) -> FamilyFLM:
        """The interpolation of a level with `count` nodes for each parameter, the last parameter fastest."""
        limits = [(r.low, r.high) for r in self.ranges.values()]
        lines = [(low + high) / 2 + (high - low) / 2 * chebyshev(count) for low, high in limits]
        members = [self.at(tuple(map(float, values))).model for values in itertools.product(*lines)]
        return FamilyFLM(members, limits, (count,) * len(limits), tuple(self.ranges))

    def gap(self, model: FamilyFLM) -> float:
        """The largest relative distance, over unknowns, of the interpolation from solutions at values between its nodes."""
        worst = 0.0
        for shares in HELD_OUT:
            values = tuple(r.low + s * (r.high - r.low) for r, s in zip(self.ranges.values(), shares, strict=False))
            points = np.column_stack([self.points, np.tile(values, (len(self.points), 1))])
            wanted, found = np.asarray(self.at(values).model(self.points)), np.asarray(model(points))
            worst = max(worst, distance(found, wanted))
        return worst

    @property
    def num_columns(self) -> int:
        """The linear unknowns of all solves."""
        return sum(solution.num_columns for solution in self.solved.values())

    def exact(self, points: np.ndarray) -> np.ndarray:
        """The exact solution over domain and ranges."""
        points, cut = np.asarray(points, float), len(self.ranges)
        distinct, which = np.unique(points[:, -cut:], axis=0, return_inverse=True)
        out = np.empty((len(points), len(self.problem.unknowns)))
        for i, values in enumerate(distinct):
            rows, named = np.flatnonzero(which.ravel() == i), dict(zip(self.ranges, map(float, values), strict=True))
            found = self.problem.with_parameters(named).exact_values(points[rows, :-cut])
            out[rows] = found.reshape(len(rows), -1)
        return out[:, 0] if out.shape[1] == 1 else out


def check_ranges(problem: PDE) -> None:
    """Refuse a problem that cannot be solved as a family."""
    count = sum(isinstance(value, Range) for value in problem.parameters.values())
    if count > 2:
        raise InputError(f"`parameters` must have at most two ranges; got {count}. Fix the others at a value.")
    if problem.learned:
        raise InputError("`parameters` must not have flm.Range and flm.Learn together; fix the range at a value.")
