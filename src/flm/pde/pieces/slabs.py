"""Problems that march in time: one slab after the other, the space of each cut afresh where its start asks for it.

A slab is [t, t + dt] with one piece in time. Its start is the end of the slab before, at the Gauss points of every piece; dt
follows the last coefficients in time. Space is cut by projecting the start, so that it coarsens by itself. An ODE system is
a march without space. The estimate is the whole march again with more functions on the recorded slabs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from flm.pde.pieces.functions import Functions
from flm.pde.pieces.newton import Answer, norms, scale, solve_system
from flm.pde.pieces.rows import Given, System
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.tree import Cut, Tree
from flm.results import Ending, Record, Word
from flm.series import legendre as line

MORE = 2
SMALLEST = 1e-9  # of the whole time: a slab this short means that the march cannot go on
ROUNDS = 40  # of cutting space within one slab
REPEATS = 3  # marches with a smaller local tolerance
FIRST = 1 / 8  # of the whole time: the first slab that is tried


def importance(shares: np.ndarray) -> np.ndarray:
    """How much the tail of a piece counts, by its share of space.

    The square root is its share of the L2 norm. Pieces that were cut more than six times see a kink or a jump, whose tail
    stays as it is however small they are; what they get wrong is an integral that spreads, so they count by their share.
    """
    return np.minimum(np.sqrt(shares), 8 * shares)


@dataclass
class March:
    """Slabs from the start to wherever the march came."""

    slabs: list[Answer] = field(default_factory=list)
    rough: float = 0.0  # what kinks and jumps leave in the smallest pieces
    until: float = -np.inf
    bar: float = np.inf
    ending: Ending = field(default_factory=lambda: Ending(Word.INTERRUPTED))

    def norms(self) -> np.ndarray:
        """The root mean square of each unknown over the marched time, (K,)."""
        durations = np.array([slab.tree.bounds[-1, 1] - slab.tree.bounds[-1, 0] for slab in self.slabs])
        squares = np.stack([slab.sizes**2 for slab in self.slabs])
        return np.sqrt(durations @ squares / durations.sum())


@dataclass(frozen=True, eq=False)
class Front:
    """The end of a slab: an unknown's derivative in time as a function of space."""

    slab: Answer
    unknown: int
    order: int

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values at points (P, m), whose time is ignored."""
        tree, functions = self.slab.tree, self.slab.functions
        there = points.copy()
        there[:, -1] = tree.bounds[-1, 1]
        leaf = tree.locate(there)
        z = 2 * (there - tree.lower[leaf]) / tree.widths[leaf] - 1
        alpha = (*(0,) * (tree.num_axes - 1), self.order)
        table = functions.scattered(self.unknown, alpha, z)
        own = self.slab.coefficients[leaf][:, functions.columns[self.unknown]]
        table = table * (2 / tree.widths[leaf, -1:]) ** self.order
        return np.einsum("pn,pn...->p...", table, own)


def handed_on(setup: Setup, before: Answer) -> list[Given]:
    """What a slab hands on to the next: every unknown and its derivatives in time below its order."""
    last, t = before.tree.num_axes - 1, float(before.tree.bounds[-1, 1])
    return [
        Given(k, (*(0,) * last, order), {last: t}, Front(before, k, order))
        for k, orders in enumerate(setup.orders)
        for order in range(orders[last])
    ]


def can_march(setup: Setup, axes: tuple[str, ...]) -> bool:
    """Whether time is the last axis, begins with all its conditions, and nothing is asked at its end."""
    if axes[-1] != "t" or len(axes) > 2:
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


def march_nodes(tol: float, num_axes: int) -> tuple[int, ...]:
    """Equation nodes along space and time."""
    if num_axes == 1:
        return (13,)
    space, time = (9, 7) if tol >= 1e-5 else (11, 8) if tol >= 1e-7 else (15, 12)
    return (*(space,) * (num_axes - 1), time)


class Marching:
    """The search for slabs.

    Args:
        setup: the problem, time last.
        tol: relative L2 error over space and time.
        max_columns: coefficients of one slab.
        record: remembers and tells each slab.
    """

    def __init__(self, setup: Setup, tol: float, max_columns: int, record: Record):
        self.setup, self.tol, self.max_columns, self.record = setup, tol, max_columns, record
        self.num_axes = len(setup.bounds)
        self.begin, self.end = map(float, setup.bounds[-1])
        self.nodes = march_nodes(tol, self.num_axes)
        self.result = March()

    # --- one slab --------------------------------------------------------------------------------------------------

    def _slab_system(self, tree: Tree, nodes: tuple[int, ...], before: Answer | None) -> System:
        return self.setup.system(tree, nodes, () if before is None else handed_on(self.setup, before))

    def _bounds(self, t: float, dt: float) -> np.ndarray:
        bounds = self.setup.bounds.copy()
        bounds[-1] = t, t + dt
        return bounds

    def _space(self, t: float, dt: float, before: Answer | None, local: float) -> Tree:
        """Space cut where the start of a slab asks for it."""
        tree = Tree.whole(self._bounds(t, dt), self.setup.periodic)
        if before is None or self.num_axes == 1:
            return tree
        fronts = [Front(before, k, 0) for k, orders in enumerate(self.setup.orders) if orders[-1]]
        for _ in range(ROUNDS):
            tails = self._front_tails(tree, fronts)
            marked = tails * importance(tree.shares) > local
            if not marked.any():
                return tree
            tree, _ = tree.split({int(leaf): [Cut(0)] for leaf in np.flatnonzero(marked)})
        return tree

    def _front_tails(self, tree: Tree, fronts: list[Callable[[np.ndarray], np.ndarray]]) -> np.ndarray:
        n = self.nodes[0] + max(orders[0] for orders in self.setup.orders)
        nodes, weights = line.gauss(n + 2)
        project = (line.values(nodes, n) * weights[:, None]).T
        tails = np.zeros(tree.num_leaves)
        for front in fronts:
            points = np.zeros((tree.num_leaves, n + 2, self.num_axes))
            points[..., 0] = tree.lower[:, :1] + (nodes + 1) / 2 * tree.widths[:, :1]
            values = front(points.reshape(-1, self.num_axes)).reshape(tree.num_leaves, -1)
            size = np.sqrt(np.mean(values**2)) or 1.0
            coefficients = values @ project.T
            tails = np.maximum(tails, np.sqrt(np.sum(coefficients[:, -2:] ** 2, axis=1)) / size)
        return tails

    def _start(self, functions: Functions, tree: Tree, before: Answer | None) -> np.ndarray | None:
        """The end of the slab before, held constant in time."""
        if before is None:
            return None
        out = np.zeros((tree.num_leaves, functions.num_columns))
        for k, shape in enumerate(functions.shapes):
            front = Front(before, k, 0)
            if self.num_axes == 1:
                out[:, functions.columns[k].start] = front(np.full((1, 1), tree.bounds[-1, 0]))
                continue
            nodes, weights = line.gauss(shape[0])
            project = (line.values(nodes, shape[0]) * weights[:, None]).T
            points = np.zeros((tree.num_leaves, shape[0], self.num_axes))
            points[..., 0] = tree.lower[:, :1] + (nodes + 1) / 2 * tree.widths[:, :1]
            block = np.zeros((tree.num_leaves, *shape))
            block[:, :, 0] = front(points.reshape(-1, self.num_axes)).reshape(tree.num_leaves, -1) @ project.T
            out[:, functions.columns[k]] = block.reshape(tree.num_leaves, -1)
        return out

    def _try(self, t: float, dt: float, before: Answer | None, local: float) -> tuple[Answer | None, float]:
        """A slab with its space cut as needed and its tail in time; None where Newton or the cuts do not settle."""
        tree = self._space(t, dt, before, local)
        start: np.ndarray | None = None
        for _ in range(ROUNDS):
            system = self._slab_system(tree, self.nodes, before)
            if start is None:
                start = self._start(system.functions, tree, before)
            answer = solve_system(system, start, self.setup.is_linear)
            if not answer.finite or not answer.settled:
                return None, np.inf
            tails = answer.tails()
            late = float(np.linalg.norm(tails[:, -1] * importance(tree.shares)))
            early = tails[:, 0] * importance(tree.shares)
            marked = early > max(local, 0.1 * early.max())
            # A space that is not resolved shows in time too: space first, unless time alone is worse.
            if self.num_axes == 1 or not marked.any() or (late > local and late > early.max()):
                return answer, late
            tree, parents = tree.split({int(leaf): [Cut(0)] for leaf in np.flatnonzero(marked)})
            if tree.num_leaves * answer.functions.num_columns > self.max_columns:
                return None, np.inf
            start = answer.on(tree, parents)
        return None, np.inf

    def _rough(self, answer: Answer, local: float) -> float:
        """What pieces leave that do not resolve their start: a kink or a jump, which a second march shares."""
        tails = answer.tails()[:, 0] if self.num_axes > 1 else np.zeros(1)
        unresolved = (tails > 10 * local) & (answer.tree.shares < 1 / 64)
        return float(np.linalg.norm((tails * importance(answer.tree.shares))[unresolved]))

    # --- the march -------------------------------------------------------------------------------------------------

    def _march(self, local: float) -> March:
        """From the start to the end, or to where the slabs became too short."""
        whole = self.end - self.begin
        t, dt, march = self.begin, FIRST * whole, March(until=self.begin)
        while t < self.end - 1e-12 * whole:
            before = march.slabs[-1] if march.slabs else None
            dt = min(dt, self.end - t)
            if self.end - t - dt < 0.2 * dt:
                dt = self.end - t
            answer, tail = self._try(t, dt, before, local)
            if answer is None or tail > local:
                power = 1 / (self.nodes[-1] - 0.5)
                dt *= 0.4 if answer is None else float(np.clip(0.9 * (local / tail) ** power, 0.2, 0.8))
                if dt < SMALLEST * whole:
                    reason = f"stopped at t = {t:.6g}: slabs of {dt:.1e} are still too long"
                    march.ending = Ending(Word.STALLED, reason)
                    return march
                continue
            march.slabs.append(answer)
            march.rough = max(march.rough, self._rough(answer, local))
            t = self.end if t + dt >= self.end - 1e-12 * whole else t + dt
            march.until = t
            self.record.step(
                "slab",
                columns=answer.num_columns,
                estimate=tail,
                pieces=answer.tree.num_leaves,
                until=t,
            )
            power = 1 / (self.nodes[-1] - 0.5)
            dt *= 4.0 if tail == 0 else float(np.clip(0.9 * (local / max(tail, 1e-300)) ** power, 0.5, 4.0))
        march.ending = Ending(Word.CONVERGED)
        return march

    def _again(self, march: March) -> March | None:
        """The same slabs and cuts with more functions."""
        nodes = tuple(q + MORE for q in self.nodes)
        second, before = March(until=march.until), None
        for slab in march.slabs:
            system = self._slab_system(slab.tree, nodes, before)
            start = system.functions.padded(slab.coefficients, slab.functions)
            answer = solve_system(system, start, self.setup.is_linear)
            if not answer.finite or not answer.settled:
                return None
            second.slabs.append(answer)
            before = answer
        return second

    def difference(self, first: March, second: March) -> float:
        """The relative L2 distance over space and time, worst unknown."""
        total = np.zeros(len(self.setup.orders))
        duration = 0.0
        for one, two in zip(first.slabs, second.slabs, strict=True):
            gap = two.coefficients - two.functions.padded(one.coefficients, one.functions)
            dt = float(two.tree.bounds[-1, 1] - two.tree.bounds[-1, 0])
            total += dt * norms(two.functions, two.tree, gap) ** 2
            duration += dt
        return float(np.max(np.sqrt(total / duration) / scale(second.norms())))

    def run(self) -> March:
        """March, compare with a second march, and repeat with a smaller local tolerance while that is needed."""
        local = 0.1 * self.tol
        for _ in range(REPEATS):
            march = self._march(local)
            if not march.slabs:
                return march
            second = self._again(march)
            if second is None:
                march.ending = Ending(Word.STALLED, "stalled: a second march with more functions does not settle")
                return march
            bar = max(self.difference(march, second), march.rough, 1e-15)
            whole = march.until >= self.end
            second.bar = bar if whole else np.inf
            second.ending = march.ending
            if second.bar < self.result.bar or not self.result.slabs:
                self.result = replace(second)
            self.record.step(
                "second march", columns=sum(s.num_columns for s in second.slabs), estimate=bar, error_estimate=second.bar,
                pieces=sum(s.tree.num_leaves for s in second.slabs), until=march.until,
            )  # fmt: skip
            if not whole or bar <= self.tol:
                break
            local *= min(0.3, 0.3 * self.tol / bar)
        return self.result
