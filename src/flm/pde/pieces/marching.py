"""Problems that march in time: one slab after the other, twice on the same slabs, so that the error is known at any time.

The first march finds the slabs, their lengths and cuts; the second follows it slab by slab with more functions, and is the
one that is returned. Their distance is the error estimate: it is known up to wherever the march may stop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from flm.pde.pieces.adapt import MORE as MORE
from flm.pde.pieces.adapt import ROUNDING, UNRESOLVED, Pieces
from flm.pde.pieces.newton import Answer, norms, scale
from flm.pde.pieces.setup import Setup
from flm.results import Ending, Record, Word

REPEATS = 4  # marches with a smaller local tolerance
FLOOR = 1e-14  # a local tolerance below rounding asks for nothing more
CHAOS = "stalled: smaller steps no longer bring two marches together"


class Trial(NamedTuple):
    """A slab that was tried: its answer and its tail in time; no answer where it did not settle."""

    answer: Answer | None
    tail: float = np.inf
    reason: str = ""  # why shorter slabs would not settle either


class AbstractSlabs(ABC):
    """How one slab is solved."""

    setup: Setup  # the problem, time last
    shown: int  # unknowns that the user asked for; the rest are their velocities
    nodes: tuple[int, ...]  # equation nodes along space and time
    aim: float = 0.2  # the tail in time that the next slab should have, as a share of what is accepted
    shrink: float = 0.5  # the least factor from a slab that was short enough to the next
    share: float = 0.1  # of the tolerance: what tails may be in the first march
    longest: float  # the first slab that is tried, as a share of the whole time
    smallest: float  # a slab of this share means that the march cannot go on

    @abstractmethod
    def first(self, begin: float, end: float, before: Answer | None, local: float) -> Trial:
        """The slab from `begin` to `end` after another, with its space cut as needed."""

    @abstractmethod
    def second(self, slab: Answer, before: Answer | None) -> Answer | None:
        """The same slab and cuts with more functions, after another such slab; None where it does not settle."""

    def step(self, dt: float, factor: float) -> float:
        """The length of the next slab, where another factor times the last one would do."""
        return factor * dt

    def rough(self, slab: Answer, local: float) -> float:
        """What the slab leaves unresolved and the second march does not show."""
        return 0.0


@dataclass
class March:
    """Two marches on the same slabs, from the start to wherever they came."""

    shown: int  # unknowns that the user asked for; the rest are their velocities
    few: list[Answer] = field(default_factory=list)
    many: list[Answer] = field(default_factory=list)
    gaps: list[np.ndarray] = field(default_factory=list)  # integrals of the squared distance over each slab, (K,)
    squares: list[np.ndarray] = field(default_factory=list)  # of the answer's squares
    edges: list[float] = field(default_factory=list)  # ends of the slabs
    rough: list[float] = field(default_factory=list)  # what both marches leave unresolved, (S,)
    reason: str = ""  # why it ended before the end of time

    def append(self, few: Answer, many: Answer, rough: float) -> None:
        """One more slab."""
        low, high = map(float, many.tree.bounds[-1])
        gap = many.coefficients - many.functions.fitted(few.coefficients, few.functions)
        self.few.append(few)
        self.many.append(many)
        self.gaps.append((high - low) * norms(many.functions, many.tree, gap) ** 2)
        self.squares.append((high - low) * many.sizes**2)
        self.edges.append(high)
        self.rough.append(rough)

    def bars(self) -> np.ndarray:
        """The relative L2 distance over space and time up to the end of each slab, worst unknown, (S,)."""
        sizes = np.stack([scale(size) for size in np.sqrt(np.cumsum(self.squares, axis=0))])
        apart = (np.sqrt(np.cumsum(self.gaps, axis=0)) / sizes)[:, : self.shown].max(axis=1)
        rough = np.maximum.accumulate(self.rough)
        return np.maximum(np.where(rough > 0, 2 * apart, apart), np.maximum(rough, ROUNDING))

    @property
    def num_columns(self) -> int:
        """Coefficients of all slabs that are returned."""
        return sum(slab.num_columns for slab in self.many)


def can_march(setup: Setup, axes: tuple[str, ...]) -> bool:
    """Whether time is the last axis, begins with all its conditions, and nothing is asked at its end."""
    if axes[-1] != "t":
        return False
    last = len(axes) - 1
    start, _ = setup.bounds[last]
    at = [place for place in setup.places if last in place.pinned]
    return (
        not setup.periodic[last]
        and bool(at)
        and all(place.pinned == {last: start} for place in at)
        and len(at) == sum(orders[last] for orders in setup.orders)
    )


class Marching:
    """The search for slabs: a relative L2 error of `tol` over space and time with at most `max_columns` coefficients."""

    def __init__(self, slabs: AbstractSlabs, tol: float, max_columns: float, record: Record):
        self.slabs, self.tol, self.max_columns, self.record = slabs, tol, max_columns, record
        self.begin, self.end = map(float, slabs.setup.bounds[-1])
        self.power = 1 / (slabs.nodes[-1] - 0.5)  # the tail in time falls like dt to the number of functions

    def run(self) -> Pieces | None:
        """March, and repeat with a smaller local tolerance while the estimate asks for it; None where not even one slab
        could be solved."""
        local, best, bars = self.slabs.share * self.tol, None, []
        for _ in range(REPEATS):
            march = self._march(max(local, FLOOR))
            if not march.many:
                return best
            marched, bar = judged(march, self.tol, self.end), float(march.bars()[-1])
            if best is None or marched.bar < best.bar or (best.until or -np.inf) < (marched.until or -np.inf):
                best = marched
            self.record.step(
                "march", columns=march.num_columns, estimate=bar, error_estimate=best.bar,
                pieces=sum(s.tree.num_leaves for s in march.many), until=march.edges[-1],
            )  # fmt: skip
            bars.append(bar)
            if march.reason or bar <= self.tol or local <= FLOOR:
                break
            if len(bars) > 1 and bar > 0.5 * bars[-2] and best.until is None:
                # Rounding or chaos: each distance is one draw of a random number, so the largest of several counts.
                return replace(best, bar=3 * max(bars[-2:]), ending=Ending(Word.STALLED, CHAOS))
            local *= min(0.3, 0.3 * self.tol / bar)
        return best

    def _march(self, local: float) -> March:
        """From the start to the end, or to where it could not go on."""
        whole = self.end - self.begin
        t, dt, march = self.begin, self.slabs.longest * whole, March(self.slabs.shown)
        try:
            while t < self.end:
                stop = self.slabs.setup.next_jump(t)
                end = t + dt if t + 1.2 * dt < stop else stop
                few, tail, reason = self.slabs.first(t, end, march.few[-1] if march.few else None, local)
                if reason:
                    march.reason = reason
                    return march
                many = few  # the second march only where the first resolves the slab
                if few is not None and tail <= local:
                    many = self.slabs.second(few, march.many[-1] if march.many else None)
                if few is None or many is None or tail > local:
                    settled = few is not None and many is not None
                    factor = (self.slabs.aim * local / tail) ** self.power if settled else 0.3
                    dt = self.slabs.step(end - t, float(np.clip(factor, 0.2, 0.8)))
                    if dt < self.slabs.smallest * whole or t + dt == t:
                        march.reason = f"slabs of {dt:.1e} are still too long there"
                        return march
                    continue
                march.append(few, many, self.slabs.rough(few, local))
                self.record.step("slab", columns=many.num_columns, estimate=tail, pieces=few.tree.num_leaves, until=end)
                if march.num_columns > self.max_columns:
                    march.reason = f"the size limit of {self.max_columns} columns was reached there"
                    return march
                factor = (self.slabs.aim * local / max(tail, 1e-300)) ** self.power
                dt = self.slabs.step(end - t, float(np.clip(factor, self.slabs.shrink, 4.0)))
                t = end
        except KeyboardInterrupt:
            if not march.many:
                raise
            march.reason = "it was interrupted there"
        return march


def judged(march: March, tol: float, end: float) -> Pieces:
    """What can be trusted of a march."""
    bars = march.bars()
    whole = march.edges[-1] >= end
    if whole and bars[-1] <= max(tol, UNRESOLVED):
        word = Word.CONVERGED if bars[-1] <= tol else Word.STALLED
        return Pieces(march.many, float(bars[-1]), Ending(word))
    good = np.flatnonzero(bars <= tol)
    good = good if len(good) else np.flatnonzero(bars <= UNRESOLVED)
    if not len(good):
        reason = march.reason or "two marches do not agree from the start"
        return Pieces(march.many, np.inf, Ending(Word.STALLED, f"not resolved: {reason}"))
    last = int(good[-1])
    until, bar = march.edges[last], float(bars[last])
    reason = march.reason if last == len(bars) - 1 else "beyond it two marches no longer agree"
    ending = Ending(
        Word.STOPPED, f"stopped at t = {until:.6g}: {reason}", f"up to there the error estimate is {bar:.1e}"
    )
    return Pieces(march.many[: last + 1], np.inf, ending, until, bar)
