"""How sure a march is: two runs of different sizes, and where they begin to differ.

The answer is a run at a share of the tolerance; beside it stands one at ten times that with another number of waves and
another order in time. Their difference, relative L2 over space and time, is essentially the error of the worse of them; the bar is
twice that. A flow that amplifies errors shows in it: then the tolerance of the runs is tightened, the finer run becoming the
coarser, until the bar meets the tolerance or nothing is left to tighten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flm.pde.march.recognize import Evolution
from flm.pde.march.run import Run, Trajectory, Window
from flm.results import Record
from flm.series import legendre

FINE, COARSE = 1 / 3, 10 / 3  # of the tolerance: the answer's run and the one beside it
TIGHTEN, ROUNDS = 0.1, 5
FINEST = 1e-13
BASES, NODES = (32, 24), (10, 9)  # intervals and nodes of one run and the next, by turns
SAFETY = 2.0  # a tie between error and difference was seen in 1 of 18 cases


@dataclass
class Estimated:
    """A run with its error bar up to the end of each of its windows, and whether it was asked to stop."""

    run: Trajectory
    bars: np.ndarray
    interrupted: bool = False


def march(evolution: Evolution, tol: float, most_work: float, record: Record) -> Estimated:
    """Two runs or more, until the bar is within the tolerance or they can do no better."""
    aim, coarse, best = tol * COARSE, None, Estimated(Trajectory(), np.zeros(0))
    try:
        for turn in range(1, ROUNDS + 2):
            run = Run(evolution, max(aim, FINEST), BASES[turn % 2], NODES[turn % 2], most_work, record)
            best = best if best.run.windows else Estimated(run.found, np.zeros(0))
            fine = run.march()
            if coarse is not None:
                best = Estimated(fine, _bars(fine, coarse))
                bar = float(best.bars[-1]) if len(best.bars) else np.inf
                record.step("march", columns=columns(fine), estimate=bar, until=fine.until)
                if fine.reason or bar <= tol or aim <= FINEST:
                    break
            elif fine.reason:  # nothing to compare with: a second run at the same tolerance
                aim /= TIGHTEN
            coarse, aim = fine, aim * TIGHTEN
    except KeyboardInterrupt:
        best.interrupted = True
    return best


def columns(run: Trajectory) -> int:
    """Coefficients in space of the largest window, all unknowns."""
    return max([window.coefficients[0].size for window in run.windows], default=0)


def _bars(fine: Trajectory, coarse: Trajectory) -> np.ndarray:
    """The error bar up to the end of each window of the finer run, as far as both came: worst unknown, by Gauss's rule."""
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
    return SAFETY * (relative + fine.left_out) + fine.gap


def _squares(one: Window, two: Window, times: np.ndarray) -> np.ndarray:
    """Mean squares in space of the difference and of the first, (times, 2, unknowns)."""
    space = one.space.resized(tuple(map(max, one.space.intervals, two.space.intervals)))
    first, second = (space.padded(window.at(times), window.space) for window in (one, two))
    return np.stack([space.norms(first - second), space.norms(first)], axis=1) ** 2
