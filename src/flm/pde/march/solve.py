"""From a problem to a marched answer: whether the problem fits, how far the march came, and how sure the answer is.

The answer is a run at a share of the tolerance; it is compared with one at ten times that, with another number of waves and
another order in time. Their difference, relative L2 over space and time, is essentially the error of the worse of them; the bar is
twice that. A flow that amplifies errors shows in it: then the tolerance of the runs is tightened, and the finer run becomes the
coarser, until the bar meets the tolerance or the runs cannot be tightened further.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flm.models.march import MarchedFLM
from flm.pde.march.recognize import Evolution, recognize
from flm.pde.march.run import SHARE, Run, Start, Trajectory, Window, resolve_start
from flm.pde.march.sides import Unfit
from flm.pde.march.space import Space
from flm.pde.march.symbol import Dynamics
from flm.pde.problem import PDE
from flm.results import Ending, Listener, Record, Solution, Word
from flm.series import legendre
from flm.wording import InputError

WORK = 2e10  # grid points times functions transformed in one run: some ten minutes
SHORT = 6e8  # the limit where slabs of pieces can follow
LEAVES = 3e-3  # a right-hand side with more than this share in its last waves does not stay in the series
NARROW = 4096  # intervals that resolve a narrow source; coefficients like 1/k leave 5e-3 in their last waves there
DROPPED = 1e-3  # of the tolerance: coefficients below this share are left out, many of which make a tenth of it
COARSE = 10 / 3  # of the tolerance: the first run; the answer's is at a tenth of that
TIGHTEN, ROUNDS = 0.1, 5
FINEST = 1e-13
BASES, NODES = (32, 24), (10, 9)  # intervals and nodes of one run and the next, by turns
FAINT = 1e-140  # coefficients whose squares vanish: nothing tells how far two runs are apart
SAFETY = 2.0  # a tie between error and difference was seen in 1 of 18 cases


def solve_by_march(problem: PDE, tol: float, progress: Listener) -> Solution:
    """The answer of the march, however it ends; a problem that does not fit is refused in one sentence."""
    try:
        return _answer(_fitting(problem), tol, WORK, progress)
    except Unfit as reason:
        raise InputError(f"`method` must not be 'march' for this problem: {reason}. Leave `method` out.") from None


def try_march(problem: PDE, tol: float, progress: Listener) -> Solution | None:
    """The answer of the march if the problem fits and its start is resolved; None if it is left to slabs of pieces."""
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
    if _stays(evolution, start, start.space.doubled(range(start.space.num_axes))):
        return evolution
    # A source along a line may be narrow and still smooth.
    if len(evolution.space) == 1 and evolution.varies[0] and _stays(evolution, start, start.space.resized([NARROW])):
        return evolution
    raise Unfit("the right-hand side must be smooth in the series of the sides: periodic, or even or odd about them")


def _stays(evolution: Evolution, start: Start, space: Space) -> bool:
    """Whether the last waves of the right-hand side are small in a space."""
    first, last = evolution.span
    times = first + (last - first) * np.array([0.0, 0.37])
    states = np.stack([space.padded(start.states, start.space)] * 2)
    forcing = Dynamics(evolution, space).forcing(states, times)
    size = space.norms(forcing)
    if not np.isfinite(size).all():
        raise Unfit("the right-hand side must be finite at the start")
    least = 1e-8 * (size.max() + space.norms(states).max() / (last - first))  # N may be zero up to rounding
    return bool((space.tails(forcing).max(axis=0) <= LEAVES * size + least).all())


def _answer(evolution: Evolution, tol: float, most_work: float, progress: Listener) -> Solution:
    record = Record(progress)
    run, interrupted = march(evolution, tol, most_work, record)
    if not run.windows:  # nothing beyond the first time
        start, (first, last) = resolve_start(evolution, 32, tol), evolution.span
        at_first = Dynamics(evolution, start.space).unknowns(start.states[None], np.array([first]))
        run.windows.append(Window(first, last, start.space, at_first))
    return Solution(
        model=as_model(run, evolution, tol),
        tolerance=tol,
        history=record.history,
        num_columns=run.columns,
        seconds=record.seconds,
        **evolution.problem.frame,
        **_judge(run, interrupted, evolution, tol)._asdict(),
    )


def march(evolution: Evolution, tol: float, most_work: float, record: Record) -> tuple[Trajectory, bool]:
    """The best of two runs or more, until the bar meets the tolerance or they cannot improve; and whether it was interrupted."""
    aim, coarse, best = tol * COARSE, None, Trajectory()
    try:
        for turn in range(1, ROUNDS + 2):
            run = Run(evolution, max(aim, FINEST), BASES[turn % 2], NODES[turn % 2], most_work, record)
            best = best if best.windows else run.found
            fine = run.march()
            if coarse is not None:
                best, fine.bars = fine, _bars(fine, coarse)
                bar = float(fine.bars[-1]) if len(fine.bars) else np.inf
                record.step("march", columns=fine.columns, estimate=bar, error_estimate=bar, until=fine.until)
                if fine.reason or bar <= tol or aim <= FINEST:
                    break
            elif fine.reason:  # nothing to compare with: a second run at the same tolerance
                aim /= TIGHTEN
            coarse, aim = fine, aim * TIGHTEN
    except KeyboardInterrupt:
        return best, True
    return best, False


def _bars(fine: Trajectory, coarse: Trajectory) -> np.ndarray:
    """The error bar up to the end of each window of the finer run, as far as both runs came: worst unknown, by Gauss's rule."""
    windows = [w for w in fine.windows if w.end <= coarse.until + 1e-12 * abs(coarse.until)]
    starts = np.array([w.begin for w in coarse.windows])
    squares = np.zeros((len(windows), 2, windows[0].coefficients.shape[1] if windows else 1))
    for own, window in zip(squares, windows, strict=True):
        nodes, weights = legendre.gauss(len(window.coefficients))
        times = window.begin + (window.end - window.begin) * (nodes + 1) / 2
        places = np.searchsorted(starts, times, side="right") - 1
        for place in np.unique(places):
            here = places == place
            own += np.tensordot(weights[here], _squares(window, coarse.windows[place], times[here]), 1)
        own *= window.end - window.begin
    differences, sizes = np.moveaxis(np.cumsum(squares, axis=0), 1, 0)
    relative = np.sqrt(differences / np.where(sizes > 0, sizes, 1.0)).max(axis=1)
    largest = np.maximum.accumulate([np.abs(window.coefficients).max() for window in windows])
    relative[(largest > 0) & (largest < FAINT)] = np.inf
    return SAFETY * (relative + fine.left_out + fine.tail) + fine.gap


def _squares(one: Window, two: Window, times: np.ndarray) -> np.ndarray:
    """Mean squares in space of the difference and of the first, (times, 2, unknowns)."""
    space = one.space.resized(tuple(map(max, one.space.intervals, two.space.intervals)))
    first, second = (space.padded(window.at(times), window.space) for window in (one, two))
    return np.stack([space.norms(first - second), space.norms(first)], axis=1) ** 2


class Verdict(NamedTuple):
    """How a march ended, its estimate and, where it stopped before the end, how far it can be trusted."""

    ending: Ending
    error_estimate: float
    trusted_until: float | None = None
    estimate_until: float | None = None


def _judge(run: Trajectory, interrupted: bool, evolution: Evolution, tol: float) -> Verdict:
    """Status, estimate, and how far the answer can be trusted."""
    bars, (first, last) = run.bars, evolution.span
    if len(bars) == len(run.windows) and not run.reason and not interrupted:
        if bars[-1] <= tol:
            return Verdict(Ending(Word.CONVERGED), float(bars[-1]))
        if run.left_out > SHARE * tol:
            clause = f"stalled: the start is resolved to {run.left_out:.1e} only"
            return Verdict(Ending(Word.STALLED, clause), float(bars[-1]))
    good = np.flatnonzero(bars <= tol)
    until, estimate = (run.windows[good[-1]].end, float(bars[good[-1]])) if len(good) else (first, math.inf)
    if interrupted:
        return Verdict(Ending(Word.INTERRUPTED), math.inf, until, estimate)
    reason = run.reason or "two runs differ by more than the tolerance from there on: errors grow too fast"
    clause = f"stopped at t = {until:.6g} of {last:.6g}: {reason}"
    ending = Ending(Word.STOPPED, clause, estimate_until=estimate if len(good) else None)
    return Verdict(ending, math.inf, until, estimate)


def as_model(run: Trajectory, evolution: Evolution, tol: float) -> MarchedFLM:
    """All windows in real coefficients, without the last waves that are too small to matter."""
    blocks = []
    for window in run.windows:
        block = window.space.real(window.coefficients)
        size = np.abs(block).max(axis=tuple(i for i in range(block.ndim) if i != 1), keepdims=True)
        large = np.abs(block) > DROPPED * tol / np.sqrt(block[0, 0].size) * size
        for j in range(2, block.ndim):
            kept = np.flatnonzero(large.any(axis=tuple(i for i in range(block.ndim) if i != j)))
            count = int(kept[-1]) + 1 if len(kept) else 1
            count += evolution.kinds[j - 2] == "fourier" and count % 2 == 0  # a cosine comes with its sine
            block, large = (a[(slice(None),) * j + (slice(0, count),)] for a in (block, large))
        blocks.append(block)
    edges = [run.windows[0].begin, *(window.end for window in run.windows)]
    return MarchedFLM(
        edges, blocks, evolution.kinds, evolution.bounds, evolution.lift, evolution.problem.axes,
        evolution.time, DROPPED * tol,
    )  # fmt: skip
