"""Problems that march in time: slab after slab, twice on the same slabs, so that the error is known at any time.

The first march finds the slabs, their lengths and cuts; the second follows it slab by slab with more functions, and is the
one that is returned. Their distance is the error estimate, which is known up to wherever the march may stop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from flm.pde.pieces.adapt import MORE as MORE
from flm.pde.pieces.adapt import ROUNDING, UNRESOLVED, Pieces
from flm.pde.pieces.newton import Answer, relative
from flm.pde.pieces.setup import Setup
from flm.results import Ending, Record, Word

REPEATS = 4  # marches with a smaller local tolerance
FLOOR = 1e-14  # a local tolerance below rounding asks for nothing more
FAINT = 1e-140  # coefficients whose squares vanish: nothing tells how far two marches are apart
CHAOS = "stalled: smaller steps no longer bring two marches together"


class Trial(NamedTuple):
    """A slab that was tried: its answer and its tail in time; the answer is None where it did not settle."""

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
        """The slab from `begin` to `end` after slab `before`, with its space cut as needed."""

    @abstractmethod
    def second(self, slab: Answer, before: Answer | None) -> Answer | None:
        """The same slab and cuts with more functions, after another slab of the second march; None where it does not settle."""

    def step(self, dt: float, factor: float) -> float:
        """The length of the next slab, if the last one times `factor` would be right."""
        return factor * dt

    @abstractmethod
    def rough(self, slab: Answer, local: float) -> float:
        """The unresolved part of the slab that the second march does not show."""


@dataclass
class March:
    """Two marches on the same slabs, from the start to where they stopped."""

    shown: int  # unknowns that the user asked for; the rest are their velocities
    few: list[Answer] = field(default_factory=list)
    many: list[Answer] = field(default_factory=list)
    rough: list[float] = field(default_factory=list)  # what both marches leave unresolved, (S,)
    reason: str = ""  # why it ended before the end of time

    def until(self, slab: int = -1) -> float:
        """The time at which a slab ends."""
        return float(self.many[slab].tree.bounds[-1, 1])

    def bars(self) -> np.ndarray:
        """The relative L2 distance over space and time up to the end of each slab, worst unknown, (S,)."""
        squares = []  # integrals over each slab, of the distance and of the answer
        for few, many in zip(self.few, self.many, strict=True):
            both = np.stack([few.gap(many).sizes, many.sizes])
            squares.append(np.ptp(many.tree.bounds[-1]) * both**2)
        totals = np.sqrt(np.cumsum(squares, axis=0))
        apart = np.array([np.max(relative(gap, size)[: self.shown]) for gap, size in totals])
        largest = np.maximum.accumulate([np.abs(many.coefficients).max() for many in self.many])
        apart[(largest > 0) & (largest < FAINT)] = np.inf
        rough = np.maximum.accumulate(self.rough)
        return np.maximum(np.where(rough > 0, 2 * apart, apart), np.maximum(rough, ROUNDING))

    @property
    def num_columns(self) -> int:
        """Coefficients of all slabs that are returned."""
        return sum(slab.num_columns for slab in self.many)


def can_march(setup: Setup, axes: tuple[str, ...]) -> bool:
    """Whether time is the last axis and has all its conditions at the start and none at the end."""
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
    """The search for slabs with a relative L2 error of `tol` over space and time and at most `max_columns` coefficients."""

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
            bounds = march.bars()
            marched, bar = judged(march, bounds, self.tol, self.end), float(bounds[-1])
            if best is None or marched.bar < best.bar or (best.until or -np.inf) < (marched.until or -np.inf):
                best = marched
            self.record.step(
                "march", columns=march.num_columns, estimate=bar, error_estimate=best.bar,
                pieces=sum(s.tree.num_leaves for s in march.many), until=march.until(),
            )  # fmt: skip
            bars.append(bar)
            if march.reason or bar <= self.tol or local <= FLOOR:
                break
            if len(bars) > 1 and bar > 0.5 * bars[-2] and best.until is None:
                # With rounding or chaos each distance is one draw of a random number, so the largest of several counts.
                return replace(best, bar=3 * max(bars[-2:]), ending=Ending(Word.STALLED, CHAOS))
            local *= min(0.3, 0.3 * self.tol / bar)
        return best

    def _march(self, local: float) -> March:
        """March from the start to the end, or to where it cannot go on."""
        march = March(self.slabs.shown)
        try:
            march.reason = self._slab_by_slab(march, local)
        except KeyboardInterrupt:
            if not march.many:
                raise
            march.reason = "it was interrupted there"
        return march

    def _slab_by_slab(self, march: March, local: float) -> str:
        """March slab by slab; return why the march ended before the end of time, or "" if it did not."""
        slabs, whole = self.slabs, self.end - self.begin
        t, dt = self.begin, slabs.longest * whole
        while t < self.end:
            stop = slabs.setup.next_jump(t)
            end = t + dt if t + 1.2 * dt < stop else stop
            few, tail, reason = slabs.first(t, end, march.few[-1] if march.few else None, local)
            if reason:
                return reason
            many = few  # the second march only where the first resolves the slab
            if few is not None and tail <= local:
                many = slabs.second(few, march.many[-1] if march.many else None)
            factor = 0.3 if few is None or many is None else (slabs.aim * local / max(tail, 1e-300)) ** self.power
            if few is None or many is None or tail > local:
                dt = slabs.step(end - t, float(np.clip(factor, 0.2, 0.8)))
                if dt < slabs.smallest * whole or t + dt == t:
                    return f"slabs of {dt:.1e} are still too long there"
                continue
            march.rough.append(slabs.rough(few, local))
            march.few.append(few)
            march.many.append(many)
            self.record.step("slab", columns=many.num_columns, estimate=tail, pieces=few.tree.num_leaves, until=end)
            if march.num_columns > self.max_columns:
                return f"the size limit of {self.max_columns} columns was reached there"
            dt = slabs.step(end - t, float(np.clip(factor, slabs.shrink, 4.0)))
            t = end
        return ""


def judged(march: March, bars: np.ndarray, tol: float, end: float) -> Pieces:
    """The part of a march that can be trusted, given error bars up to the end of each slab."""
    if march.until() >= end and bars[-1] <= max(tol, UNRESOLVED):
        word = Word.CONVERGED if bars[-1] <= tol else Word.STALLED
        return Pieces(march.many, float(bars[-1]), Ending(word))
    good = np.flatnonzero(bars <= tol)
    good = good if len(good) else np.flatnonzero(bars <= UNRESOLVED)
    if not len(good):
        reason = march.reason or "two marches do not agree from the start"
        return Pieces(march.many, np.inf, Ending(Word.STALLED, f"not resolved: {reason}"))
    last = int(good[-1])
    until, bar = march.until(last), float(bars[last])
    reason = march.reason if last == len(bars) - 1 else "beyond it two marches no longer agree"
    ending = Ending(Word.STOPPED, f"stopped at t = {until:.6g}: {reason}", estimate_until=bar)
    return Pieces(march.many[: last + 1], np.inf, ending, until)
