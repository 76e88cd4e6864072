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
from flm.pde.march.space import Space
from flm.results import Record
from flm.series import legendre

FINE, COARSE = 1 / 3, 10 / 3  # of the tolerance: the answer's run and the one beside it
TIGHTEN, ROUNDS = 0.1, 5
FINEST = 1e-13
BASES, NODES = (32, 24), (10, 9)  # intervals and nodes of one run and the next, by turns
SAFETY = 2.0  # a tie between error and difference was seen in 1 of 18 cases


@dataclass
class Comparison:
    """Squared differences and sizes of the unknowns, integrated up to the end of each window of the finer run, (W, K)."""

    ends: np.ndarray
    differences: np.ndarray
    sizes: np.ndarray

    def bars(self, least: float) -> np.ndarray:
        """The error bar of the answer up to each end, (W,), worst unknown."""
        sizes = np.where(self.sizes > 0, self.sizes, 1.0)
        return SAFETY * np.sqrt(self.differences / sizes).max(axis=1) + least


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
        for turn in range(ROUNDS + 1):
            run = Run(evolution, max(aim, FINEST), BASES[(turn + 1) % 2], NODES[(turn + 1) % 2], most_work, record)
            best = best if best.run.windows else Estimated(run.found, np.zeros(0))
            fine = run.march()
            if coarse is not None:
                comparison = compare(fine, coarse)
                bars = comparison.bars(SAFETY * fine.left_out + fine.gap)
                record.step(
                    "march", columns=columns(fine), estimate=float(bars[-1]) if len(bars) else np.inf, until=fine.until
                )
                best = Estimated(fine, bars)
                if fine.reason or bars[-1] <= tol or aim <= FINEST:
                    break
            elif fine.reason:  # nothing to compare with: a second run at the same tolerance
                aim /= TIGHTEN
            coarse, aim = fine, aim * TIGHTEN
    except KeyboardInterrupt:
        best.interrupted = True
    return best


def columns(run: Trajectory) -> int:
    """Coefficients in space of the largest window, all unknowns."""
    return max([int(np.prod(w.coefficients.shape[1:])) for w in run.windows], default=0)


def compare(fine: Trajectory, coarse: Trajectory) -> Comparison:
    """Both runs at the Gauss nodes of the finer one's windows, as far as both came."""
    until = coarse.until + 1e-12 * abs(coarse.until)
    windows = [w for w in fine.windows if w.end <= until]
    if not windows:
        none = np.zeros((0, 1))
        return Comparison(np.zeros(0), none, none)
    starts = np.array([w.begin for w in coarse.windows])
    differences, sizes = [], []
    for window in windows:
        n = len(window.coefficients)
        nodes, weights = legendre.gauss(n)
        times = window.begin + (window.end - window.begin) * (nodes + 1) / 2
        places = np.clip(np.searchsorted(starts, times, side="right") - 1, 0, None)
        total, size = 0.0, 0.0
        for place in np.unique(places):
            own = places == place
            difference, norm = _squares(window, coarse.windows[place], times[own])
            total, size = total + weights[own] @ difference, size + weights[own] @ norm
        differences.append((window.end - window.begin) * total)
        sizes.append((window.end - window.begin) * size)
    ends = np.array([w.end for w in windows])
    return Comparison(ends, np.cumsum(differences, axis=0), np.cumsum(sizes, axis=0))


def _squares(one: Window, two: Window, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares in space of the difference and of the first, (times, K)."""
    intervals = tuple(map(max, one.space.intervals, two.space.intervals))
    space = Space(one.space.kinds, one.space.bounds, intervals)
    first, second = (space.padded(_at(w, times), w.space) for w in (one, two))
    return space.norms(first - second) ** 2, space.norms(first) ** 2


def _at(window: Window, times: np.ndarray) -> np.ndarray:
    z = 2 * (times - window.begin) / (window.end - window.begin) - 1
    return np.tensordot(legendre.values(z, len(window.coefficients)), window.coefficients, (1, 0))
