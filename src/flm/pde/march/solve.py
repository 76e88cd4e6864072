"""From a problem to a marched answer: what fits, how far it came, how sure it is."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from flm.models.march import MarchedFLM
from flm.pde.march.estimate import Estimated, columns, march
from flm.pde.march.recognize import Evolution, recognize
from flm.pde.march.run import SHARE, Window, resolve_start
from flm.pde.march.sides import Unfit
from flm.pde.march.symbol import Dynamics
from flm.pde.problem import PDE
from flm.results import Ending, Listener, Record, Solution, Word
from flm.wording import InputError

WORK = 3e9  # evaluations of N at grid points in one run: some minutes
SHORT = 2e8  # where slabs of pieces stand by
LEAVES = 3e-3  # a right-hand side with such a share in its last waves does not stay in the series
DROPPED = 1e-3  # of the tolerance: coefficients below this share are left out, many of which make a tenth of it


def solve_by_march(problem: PDE, tol: float, progress: Listener) -> Solution:
    """The answer of the march, however it ends; a problem that does not fit is refused in one sentence."""
    try:
        return _answer(_fitting(problem), tol, WORK, progress)
    except Unfit as reason:
        raise InputError(f"`method` must not be 'march' for this problem: {reason}. Leave `method` out.") from None


def try_march(problem: PDE, tol: float, progress: Listener) -> Solution | None:
    """The answer of the march where the problem fits and its start is resolved; None where it is left to slabs of pieces."""
    try:
        evolution = _fitting(problem)
        if resolve_start(evolution, 32, tol).left_out > SHARE * tol:
            return None
        stands_by = len(evolution.space) == 1
        solution = _answer(evolution, tol, SHORT if stands_by else WORK, progress)
    except Unfit:
        return None
    return None if stands_by and solution.status.word not in (Word.CONVERGED, Word.INTERRUPTED) else solution


def _fitting(problem: PDE) -> Evolution:
    """The problem as an evolution whose right-hand side stays in its series."""
    evolution = recognize(problem)
    if not evolution.is_forced:
        return evolution
    start = resolve_start(evolution, 48, 1e-4)
    space = start.space.doubled(range(start.space.num_axes))
    first, last = evolution.span
    times = first + (last - first) * np.array([0.0, 0.37])
    states = np.stack([space.padded(start.states, start.space)] * 2)
    forcing = Dynamics(evolution, space).forcing(states, times)
    size = space.norms(forcing)
    if not np.isfinite(size).all():
        raise Unfit("the right-hand side must be finite at the start")
    least = 1e-8 * (size.max() + space.norms(states).max() / (last - first))  # N may vanish but for rounding
    if (space.tails(forcing).max(axis=0) > LEAVES * size + least).any():
        raise Unfit(
            "the right-hand side must be smooth in the series of the sides: periodic, or even or odd about them"
        )
    return evolution


def _answer(evolution: Evolution, tol: float, most_work: float, progress: Listener) -> Solution:
    began, record, problem = time.perf_counter(), Record(progress), evolution.problem
    found = march(evolution, tol, most_work, record)
    if not found.run.windows:  # nothing beyond the first time
        start, (first, last) = resolve_start(evolution, 32, tol), evolution.span
        at_first = Dynamics(evolution, start.space).unknowns(start.states[None], np.array([first]))
        found.run.windows.append(Window(first, last, start.space, at_first))
    return Solution(
        model=_model(found, evolution, tol),
        axes=problem.axes,
        unknowns=problem.unknowns,
        bounds=problem.domain.bounds,
        tolerance=tol,
        history=record.history,
        num_columns=columns(found.run),
        seconds=time.perf_counter() - began,
        domain=problem.domain,
        exact=problem.exact_values if problem.exact is not None else None,
        **_judge(found, evolution, tol)._asdict(),
    )


class Verdict(NamedTuple):
    """How a march ended, its estimate and, where it stopped before the end, how far it can be trusted."""

    ending: Ending
    error_estimate: float
    trusted_until: float | None = None
    estimate_until: float | None = None


def _judge(found: Estimated, evolution: Evolution, tol: float) -> Verdict:
    """Status, estimate, and how far the answer can be trusted."""
    bars, run, (first, last) = found.bars, found.run, evolution.span
    if len(bars) == len(run.windows) and not run.reason and not found.interrupted:
        if bars[-1] <= tol:
            return Verdict(Ending(Word.CONVERGED), float(bars[-1]))
        if run.left_out > SHARE * tol:
            clause = f"stalled: the start is resolved to {run.left_out:.1e} only"
            return Verdict(Ending(Word.STALLED, clause), float(bars[-1]))
    good = np.flatnonzero(bars <= tol)
    until, estimate = (run.windows[good[-1]].end, float(bars[good[-1]])) if len(good) else (first, math.inf)
    if found.interrupted:
        return Verdict(Ending(Word.INTERRUPTED), math.inf, until, estimate)
    reason = run.reason or "two runs differ by more than the tolerance from there on: errors grow too fast"
    clause = f"stopped at t = {until:.6g} of {last:.6g}: {reason}"
    clause += f"; up to there the error estimate is {estimate:.1e}" if len(good) else ""
    return Verdict(Ending(Word.STOPPED, clause), math.inf, until, estimate)


def _model(found: Estimated, evolution: Evolution, tol: float) -> MarchedFLM:
    """All windows in real coefficients, without the last waves that are too small to matter."""
    blocks = []
    for window in found.run.windows:
        block = window.space.real(window.coefficients)
        size = np.abs(block).max(axis=tuple(i for i in range(block.ndim) if i != 1), keepdims=True)
        large = np.abs(block) > DROPPED * tol / np.sqrt(block[0, 0].size) * size
        for j in range(2, block.ndim):
            kept = np.flatnonzero(large.any(axis=tuple(i for i in range(block.ndim) if i != j)))
            count = int(kept[-1]) + 1 if len(kept) else 1
            count += evolution.kinds[j - 2] == "fourier" and count % 2 == 0  # a cosine comes with its sine
            block, large = (a[(slice(None),) * j + (slice(0, count),)] for a in (block, large))
        blocks.append(block)
    edges = [found.run.windows[0].begin, *(window.end for window in found.run.windows)]
    return MarchedFLM(
        edges, blocks, evolution.kinds, evolution.bounds, evolution.lift, evolution.problem.axes,
        evolution.time, DROPPED * tol,
    )  # fmt: skip
