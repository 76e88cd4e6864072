"""One run: windows in time whose length follows N, waves in space whose number follows the answer.

A window is solved by sweeps, U ← e^{hΛ}u + h Σ w N(U), all its nodes at once; it is halved if sweeps do not contract or the
last coefficient of N in time is too large. Where the last waves in space are too large, their number is doubled. The answer has
polynomials in time: where the exponentials of a window change faster than its N, it is halved until a polynomial of
the same degree follows them, which costs no evaluation of N.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from flm.pde.march.collocation import Collocation
from flm.pde.march.recognize import Evolution
from flm.pde.march.space import Space
from flm.pde.march.symbol import AT_ONCE, Dynamics
from flm.results import Record
from flm.series import legendre

TICKS = 2**30  # of the whole time: windows begin and end at multiples of their length
SHORTEST = TICKS >> 22
FIRST = TICKS >> 4  # the first window that is tried, unless everything is linear
SHARE = 0.1  # of the tolerance: one for space, one for time
EXTRAPOLATED = 6  # coefficients in time that predict the next window: of 3 to 10, those that need the fewest sweeps
TOGETHER = 16_000  # points of the nodes that one sweep takes together, each from where the last ones lead
SWEEPS, CONTRACTION, PATIENCE = 24, 0.7, 4
SWEPT = 0.01  # of the error in time: what sweeps may leave, since two runs would share it
NOISE = 10.0  # times the share of the tolerance for time: the largest error that counts as noise
STEADY = 8  # windows after which a longer one is tried
ROUNDING = 1e-14  # relative, of one window
GROWTH = 4.0  # e-foldings of the fastest growing wave in a window
HALVINGS = 12  # of a window that is handed over
HANDED = 0.1  # of the tolerance: the last coefficients in time of the answer's polynomials
MOST = {1: 16384, 2: 1024, 3: 128}  # intervals along an axis
SAMPLED = {1: 64, 2: 8, 3: 2}  # times the first size: the grid on which the start is sampled
# Grids on which the start and N are looked at, and looks in time: what all nodes of a march miss, both of its runs miss.
LOOKS = {1: 10_007, 2: 509, 3: 101}  # primes: waves that pass for others on a march's grid do not on these
TIMES = {1: 5_000, 2: 500, 3: 100}
MISSED = 0.5  # of N at a time between the nodes


@dataclass(frozen=True)
class Window:
    """All unknowns on a stretch of time: Legendre coefficients in time of coefficients in space, (K, unknowns, *shape)."""

    begin: float
    end: float
    space: Space
    coefficients: np.ndarray

    def at(self, times: np.ndarray) -> np.ndarray:
        """Coefficients in space at some times; beyond the window the polynomial is continued with fewer coefficients."""
        z = 2 * (times - self.begin) / (self.end - self.begin) - 1
        kept = self.coefficients if z[-1] < 1.001 else self.coefficients[:EXTRAPOLATED]
        return np.tensordot(legendre.values(z, len(kept)), kept, (1, 0))


class Step(NamedTuple):
    """A window's states and N along eigenvectors at its nodes, its error in time as a share of what is allowed, and the last
    sweep's contraction, which is about proportional to the window's length; zero where a few sweeps were enough."""

    states: np.ndarray
    forcing: np.ndarray | None
    error: float = 0.0
    contraction: float = 0.0


@dataclass
class Trajectory:
    """Windows from the start to where the run stopped, and the reason for it; no reason if it reached the end."""

    windows: list[Window] = field(default_factory=list)
    until: float = -np.inf
    reason: str = ""
    left_out: float = 0.0
    tail: float = 0.0  # the largest of the last waves in space, relative
    gap: float = 0.0  # between polynomials in time and what they follow, where halving ended
    work: float = 0.0
    bars: np.ndarray = field(default_factory=lambda: np.zeros(0))  # error bars up to the end of each window, if known

    @property
    def columns(self) -> int:
        """Coefficients in space of the largest window, all unknowns."""
        return max([window.coefficients[0].size for window in self.windows], default=0)


class Start(NamedTuple):
    """The states at the first time in a space that resolves them, and the relative size of what it leaves out."""

    space: Space
    states: np.ndarray
    left_out: float


def resolve_start(evolution: Evolution, base: int, tol: float) -> Start:
    """The smallest space of base · 2^i intervals that leaves out less than a share of the tolerance of every state."""
    d = len(evolution.kinds)
    space = Space(evolution.kinds, evolution.bounds, (base * SAMPLED[d],) * d)
    fine = space.resized((LOOKS[d],) * d)
    seen = Dynamics(evolution, fine).start()
    while True:
        states = Dynamics(evolution, space).start()
        small = _cut_to(space, states, base, SHARE * tol)
        missed = max(float((fine.beyond(seen, j, cut) / _positive(fine.norms(seen))).max())
                     for j, cut in enumerate(small.space.cuts))  # fmt: skip
        small = small._replace(left_out=max(small.left_out, missed))
        if small.left_out <= SHARE * tol or max(space.intervals) >= MOST[d] // 2:
            return small
        space = space.doubled(range(d))


def _cut_to(space: Space, states: np.ndarray, base: int, limit: float) -> Start:
    size, intervals, left = _positive(space.norms(states)), [base] * space.num_axes, 0.0
    beyond = lambda j, n: float((space.beyond(states, j, space.resized([n] * space.num_axes).cuts[j]) / size).max())
    for j, most in enumerate(space.intervals):
        while intervals[j] < most and beyond(j, intervals[j]) > limit:
            intervals[j] *= 2
        # What the largest space leaves out cannot be seen: what its second half holds is taken as a bound.
        left = max(left, beyond(j, intervals[j] // 2 if intervals[j] >= most else intervals[j]))
    small = space.resized(intervals)
    return Start(small, small.padded(states, space), left)


def _positive(sizes: np.ndarray) -> np.ndarray:
    """Sizes to divide by: for functions that are zero beside the others, a trace of the largest."""
    return np.maximum(sizes, 1e-10 * sizes.max()) if sizes.max() > 0 else np.ones_like(sizes)


@dataclass
class Pace:
    """How long windows are, in ticks.

    A window whose error is too large is halved. Where that does not lower an error that is small already, it is noise in the last
    waves in space that no window resolves: it is allowed from then on. Its effect on the answer shows between the two runs of
    an estimate. Length is doubled where the error is surely small enough, and now and then to try.
    """

    ticks: int
    allowed: float = 1.0
    rejected: float = np.inf  # the error of the window that was halved last
    steady: int = 0  # windows of this length

    def accepts(self, step: Step | None) -> bool:
        """Whether a window is accepted; if not, the next length to try is set."""
        error = np.inf if step is None else step.error
        self.steady += 1
        if error <= self.allowed:
            self.rejected = np.inf
            return True
        if self.rejected / 4 < error <= NOISE:
            self.allowed, self.ticks = 1.5 * max(error, self.rejected), 2 * self.ticks
        else:
            self.rejected, self.ticks = error, self.ticks // 2
        self.steady = 0
        return False

    def lengthen(self, error: float, sure: float, place: int) -> None:
        """Double the length where the error is surely small enough, or small enough to try."""
        small = error < sure or (error < self.allowed / 2 and self.steady >= STEADY)
        if small and place % (2 * self.ticks) == 0 and place < TICKS:
            self.ticks, self.steady = 2 * self.ticks, 0


class Run:
    """A march that aims at a relative error `tol`, from `base` intervals along each axis, in windows of `num_nodes`; `most_work` is
    the limit of grid points times the functions that are transformed there for N."""

    def __init__(self, evolution: Evolution, tol: float, base: int, num_nodes: int, most_work: float, record: Record):
        self.evolution, self.tol, self.base, self.record = evolution, tol, base, record
        self.collocation, self.most_work = Collocation(num_nodes), most_work
        self.begin, end = evolution.span
        self.whole = end - self.begin
        self.transforms = len(evolution.evaluated) + len(evolution.tops)
        self.known: Window | None = None  # N of the last window that was solved
        self.fine: dict[int, Dynamics] = {}  # on the grids on which N is looked at
        self.shown = [i for i, (_, order) in enumerate(evolution.states) if order == 0]
        self.found = Trajectory(until=self.begin)

    def march(self) -> Trajectory:
        """The trajectory from the start to the end, or to where the run stopped."""
        found, start = self.found, resolve_start(self.evolution, self.base, self.tol)
        dynamics, states = Dynamics(self.evolution, start.space), start.states
        found.left_out = start.left_out
        self.sizes = _positive(start.space.norms(states))
        self.given = np.zeros(len(self.evolution.problem.unknowns))
        place, pace = 0, Pace(FIRST if self.evolution.is_forced else TICKS)
        while place < TICKS and not found.reason:
            h, t = self.whole * pace.ticks / TICKS, self.begin + self.whole * place / TICKS
            if found.work > self.most_work:
                rough = f"; the start is resolved to {start.left_out:.1e} only" * (start.left_out > SHARE * self.tol)
                found.reason = f"the limit of work was reached{rough}"
            elif pace.ticks < SHORTEST:
                found.reason = f"windows of {2 * h:.1e} are still too long"
            if found.reason:
                break
            fast = float(np.real(dynamics.rates).max()) * h
            step = self._step(dynamics, states, t, h) if fast <= GROWTH else None
            if not pace.accepts(step):
                continue
            assert step is not None
            wanted = self._wanted(dynamics.space, step.states) or self._unseen(dynamics, step, t, h)
            if wanted:
                space, largest = dynamics.space.doubled(wanted), max(dynamics.space.intervals)
                if not dynamics.is_forced:  # waves do not make others: what grew was left out of the start, or rounding
                    found.reason = "the shortest waves grow: what the start leaves out and rounds takes over"
                elif max(space.intervals) > MOST[space.num_axes]:
                    found.reason = f"{largest:,} intervals along an axis do not resolve the answer"
                else:
                    states, dynamics = space.padded(states, dynamics.space), Dynamics(self.evolution, space)
                continue
            self._hand_over(dynamics, states, step, t, h, 0)
            states, place = step.states[-1], place + pace.ticks
            found.until = self.begin + self.whole * place / TICKS
            self.record.tell("march", columns=states.size, share=place / TICKS)
            if 2 * step.contraction < CONTRACTION:
                pace.lengthen(step.error, 2.0 ** (2 - self.collocation.num_nodes), place)
        return found

    def _step(self, dynamics: Dynamics, states: np.ndarray, t: float, h: float) -> Step | None:
        """One window by sweeps; None where they do not contract."""
        times, space = t + h * self.collocation.nodes, dynamics.space
        propagate, start = self.collocation.propagator(dynamics.rates, h), dynamics.to_eigen(states[None])[0]
        work = len(times) * int(np.prod(space.grid)) * self.transforms
        if not dynamics.is_forced:
            self.found.work += work
            return Step(dynamics.from_eigen(propagate(start, None)), None)
        first = dynamics.forcing(states[None], times[:1])  # the window's start stays fixed
        # N before the first sweep: the last window's polynomial, or the value at the start
        guess = first if self.known is None else space.padded(self.known.at(times), self.known.space)
        forcing = np.concatenate([first, np.broadcast_to(guess, (len(times), *states.shape))[1:]])
        own = dynamics.to_eigen(forcing)
        found, change, target = dynamics.from_eigen(propagate(start, own)), np.inf, self._allowed(h, SWEPT)
        sizes = np.maximum(self.sizes, space.norms(found[[0, -1]]).max(axis=0))
        count = max(TOGETHER // int(np.prod(space.grid)), 1)
        for sweep in range(SWEEPS):
            for i in range(1, len(times), count):  # later nodes use what earlier ones of this sweep have found
                now, later = slice(i, i + count), slice(i + count, None)
                if i > 1:
                    found[now] = dynamics.from_eigen(propagate(start, own, now))
                forcing[now] = dynamics.forcing(found[now], times[now])
                new = dynamics.to_eigen(forcing[now])
                own[later] += new[-1] - own[now][-1]
                own[now] = new
            new = dynamics.from_eigen(propagate(start, own))
            self.found.work += work
            before, change = change, float((space.norms(new - found).max(axis=0) / sizes).max())
            if not np.isfinite(change):
                return None
            found, ratio = new, change / before if 0 < before < np.inf else float(change > 0)
            if change * min(ratio, 1.0) <= target * (1 - min(ratio, CONTRACTION)):
                self.known = Window(t, t + h, space, np.tensordot(self.collocation.to_legendre, forcing, 1))
                self.sizes = np.maximum(self.sizes, space.norms(found).max(axis=0))
                error = max(self._error(dynamics, own, h, self.sizes), self._between(dynamics, found, forcing, t, h))
                return Step(found, own, error, ratio * (sweep >= PATIENCE))
            if sweep >= PATIENCE and ratio > CONTRACTION:
                return None
        return None

    def _error(self, dynamics: Dynamics, forcing: np.ndarray, h: float, sizes: np.ndarray) -> float:
        """The last coefficients of N in time, damped as the window damps them, as a share of what is allowed."""
        last = _held(dynamics, self.collocation.last(forcing), h)
        return float((dynamics.space.norms(last).max(axis=0) / sizes).max()) / self._allowed(h)

    def _between(self, dynamics: Dynamics, found: np.ndarray, forcing: np.ndarray, t: float, h: float) -> float:
        """Infinite where a pulse of N in time lies between the nodes: where N is not what the nodes say, and matters."""
        count, space = TIMES[dynamics.space.num_axes], dynamics.space
        if not self.evolution.varies[1]:
            return 0.0
        ends = np.ceil((np.array([t, t + h]) - self.begin) / self.whole * count - 0.5)
        times = self.begin + (np.arange(*ends) + 0.5) * self.whole / count
        missed = 0.0
        for some in np.array_split(times, max(len(times) * int(np.prod(space.grid)) // AT_ONCE, 1)):
            at = self.collocation.at((some - t) / h)
            true = dynamics.forcing(np.tensordot(at, found, 1), some)
            off = true - np.tensordot(at, forcing, 1)
            off = off[(space.norms(off) > MISSED * space.norms(true)).any(axis=1)]
            if len(off):
                missed = missed + space.norms(_held(dynamics, dynamics.to_eigen(off), h)).sum(axis=0) / self.sizes
        return np.inf if np.max(missed) > len(times) * self._allowed(h) else 0.0

    def _unseen(self, dynamics: Dynamics, step: Step, t: float, h: float) -> list[int]:
        """The axes along which N has waves that the grid does not see, or takes for others, and that matter in the answer."""
        space, most, shares = dynamics.space, LOOKS[dynamics.space.num_axes], np.zeros(dynamics.space.num_axes)
        if step.forcing is None or not self.evolution.varies[0]:
            return []
        looks = max(int(TIMES[space.num_axes] * h / self.whole / 10), 1) if self.evolution.varies[1] else 0
        for count, now in ((most, np.ones(1)), (most // 5, (np.arange(looks) + 0.5) / max(looks, 1))):
            if not len(now) or max(space.intervals) >= count:
                continue
            if count not in self.fine:
                self.fine[count] = Dynamics(self.evolution, space.resized((count,) * space.num_axes))
            dense = self.fine[count]
            states = dense.space.padded(np.tensordot(self.collocation.at(now), step.states, 1), space)
            held = dense.to_eigen(dense.forcing(states, t + h * now)) / (1 / self.whole + np.abs(dense.rates))
            held = dense.from_eigen(held)[:, self.shown]
            beyond = [dense.space.beyond(held, j, cut).mean(axis=0) for j, cut in enumerate(space.cuts)]
            shares = np.maximum(shares, np.max(beyond / self.sizes[self.shown], axis=1))
        return self._too_large(shares)

    def _too_large(self, shares: np.ndarray) -> list[int]:
        """The axes along which a share of the answer, (m,), is not seen that matters; if there are none, the largest is noted."""
        limit = max(SHARE * self.tol, self.found.left_out, 10 * ROUNDING)
        if max(shares) <= limit:
            self.found.tail = max(self.found.tail, float(max(shares)))
        return [j for j, share in enumerate(shares) if share > limit]

    def _allowed(self, h: float, share: float = 1.0) -> float:
        return max(share * SHARE * self.tol * h / self.whole, ROUNDING)

    def _wanted(self, space: Space, states: np.ndarray) -> list[int]:
        """The axes along which the last waves of a state are too large; they need not fall below what the start left out.

        Velocities of a kinked start jump: their last waves stay large, but those of the states do not.
        """
        tails = space.tails(states[:, self.shown]).max(axis=1) / self.sizes[self.shown]
        return self._too_large(tails.max(axis=1))

    def _hand_over(self, dynamics: Dynamics, states: np.ndarray, step: Step, t: float, h: float, depth: int) -> None:
        """Keep the window as a polynomial in time, or its halves."""
        rule = self.collocation
        unknowns = dynamics.unknowns(step.states, t + h * rule.nodes)
        coefficients = np.tensordot(rule.to_legendre, unknowns, (1, 0))
        self.given = np.maximum(self.given, dynamics.space.norms(unknowns).max(axis=0))
        tail = float((dynamics.space.norms(coefficients[-2:]).max(axis=0) / _positive(self.given)).max())
        if tail <= max(HANDED * self.tol, ROUNDING) or depth == HALVINGS:
            self.found.gap = max(self.found.gap, tail * np.sqrt(h / self.whole))
            self.found.windows.append(Window(t, t + h, dynamics.space, coefficients))
            return
        propagate, begin = rule.propagator(dynamics.rates, h / 2), states
        for half, time in zip(rule.halves, (t, t + h / 2), strict=True):
            forcing = None if step.forcing is None else np.tensordot(half, step.forcing, (1, 0))
            own = dynamics.from_eigen(propagate(dynamics.to_eigen(begin[None])[0], forcing))
            self._hand_over(dynamics, begin, Step(own, forcing), time, h / 2, depth + 1)
            begin = own[-1]


def _held(dynamics: Dynamics, forcing: np.ndarray, h: float) -> np.ndarray:
    """What a right-hand side in eigen coordinates leaves in the states over a window, which damps it."""
    return dynamics.from_eigen(forcing * h / (1 + np.maximum(-h * np.real(dynamics.rates), 0.0)))
