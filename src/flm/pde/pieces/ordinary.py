"""Ordinary differential equations from an initial state: slabs without space, each a small square system.

On a slab unknown k has s + p_k Legendre functions, p_k its order: the equations hold at s Radau nodes, and its first p_k
derivatives begin where the slab before ended. The user's order is kept; an algebraic unknown has order zero.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from flm.language.arguments import Columns, Residual
from flm.numerics.elementwise import Program, as_numpy
from flm.pde.pieces.fields import AnyResidual
from flm.pde.pieces.functions import Functions
from flm.pde.pieces.marching import FLOOR, MORE, AbstractSlabs, Trial
from flm.pde.pieces.newton import Answer, scale
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.tree import Tree
from flm.series import legendre as line
from flm.series.arrays import Numbers

NODES = 15  # Radau nodes of a slab: more save no time (Lotka-Volterra, Lorenz, van der Pol, Robertson)
STEPS = 15  # of Newton's method on one slab
FEW, LOOKS = 32, 20_000  # points at which the residual is sampled: on a short slab, and over the whole time
UNIT = 5e-16  # rounding of one slab, relative
DEVIATIONS = 3.0  # of rounding errors that an estimate counts
FOLDS = 10.0  # by how many times e a mode may grow on one slab: 15 nodes follow e^10 to nine digits
MISSED = 1e4  # a residual between the nodes more than this many times the accepted tail means that the nodes missed something

Span = tuple[float, float]
Rows = tuple[np.ndarray, np.ndarray]  # linear equations for the coefficients of a slab, (R, C) and (R,)


class Together:
    """Several residuals of one variable as one function; `jets` are all pairs (unknown, order) that they need."""

    def __init__(self, residuals: tuple[AnyResidual, ...]):
        self.residuals = residuals
        self.jets = list(dict.fromkeys((k, alpha[0]) for residual in residuals for k, alpha in residual.jets))
        self._places = [[self.jets.index((k, a[0])) for k, a in residual.jets] for residual in residuals]

    @cached_property
    def _program(self) -> Program | None:
        """Value and derivatives of one equation after the other, by NumPy: what they share is computed once."""
        plain = [residual for residual in self.residuals if isinstance(residual, Residual)]
        if not plain or len(plain) < len(self.residuals):
            return None

        def every(time: Numbers, jets: Numbers, parameters: Numbers, normal: Numbers) -> list[tuple[Numbers, Columns]]:
            pairs = zip(plain, self._places, strict=True)
            found = [r.slopes(time, tuple(jets[a] for a in own), parameters, normal) for r, own in pairs]
            return [(slopes.value, slopes.by_jet) for slopes in found]

        return as_numpy(every, (1,), (len(self.jets),), (len(plain[0].names.parameters),), (1,))

    def __call__(self, times: np.ndarray, jets: np.ndarray, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All equations at times (P,) from jets (A, P): values (E, P) and derivatives by every jet (E, A, P)."""
        value = np.empty((len(self.residuals), len(times)))
        by_jet = np.zeros((len(value), *jets.shape))
        if self._program is not None:
            with np.errstate(all="ignore"):
                found = iter(self._program(times, *jets, *parameters, np.zeros(1)))
            for e, places in enumerate(self._places):
                value[e] = next(found)
                for a in places:
                    by_jet[e, a] = next(found)
            return value, by_jet
        for e, (residual, places) in enumerate(zip(self.residuals, self._places, strict=True)):
            found = residual.linearize(times[:, None], jets[places], parameters, np.zeros((len(times), 1)))
            value[e], by_jet[e, places] = found.value, found.by_jet
        return value, by_jet

    def powers(self, dt: float) -> np.ndarray:
        """Factors from derivatives on the reference slab to derivatives in time, (A, 1, 1)."""
        return ((2 / dt) ** np.array([order for _, order in self.jets]))[:, None, None]


class Table(NamedTuple):
    """Reference tables of s nodes."""

    functions: Functions
    nodes: np.ndarray  # (s,) in [-1, 1]
    equations: np.ndarray  # jets of the equations at the nodes, (A, s, C)
    conditions: np.ndarray  # jets of the initial conditions at the lower end, (B, 1, C)
    first: np.ndarray  # the derivatives that a slab takes over, at its lower end, (D, C)
    last: np.ndarray  # and those that it hands on, at its upper end


class OrdinarySlabs(AbstractSlabs):
    """Slabs of a system of ordinary differential equations with all its conditions at the start."""

    longest = 1.0
    smallest = 1e-15

    def __init__(self, setup: Setup):
        self.setup, self.shown, self.nodes = setup, len(setup.orders), (NODES,)
        self.equations = Together(setup.equations)
        self.conditions = Together(tuple(place.residual for place in setup.places))
        self.states = [(k, order) for k, (p,) in enumerate(setup.orders) for order in range(p)]
        self._orders = np.array([order for _, order in self.states])
        self._tables: dict[int, Table] = {}
        self._running = np.zeros(len(setup.orders))  # the largest size of each unknown so far
        self._spread = np.zeros((0, 0))  # the covariance of rounding errors at the end of the last slab, (D, D)

    def table(self, s: int) -> Table:
        """The tables of s nodes."""
        if s not in self._tables:
            functions = Functions((s,), self.setup.orders, self.setup.ties)

            def at(z: np.ndarray, jets: list[tuple[int, int]]) -> np.ndarray:
                out = np.zeros((len(jets), len(z), functions.num_columns))
                for row, (k, order) in zip(out, jets, strict=True):
                    row[:, functions.columns[k]] = line.table(z, functions.shapes[k][0], order)
                return out

            low, high = np.array([-1.0]), np.array([1.0])
            inside, begin = at(nodes := line.radau(s), self.equations.jets), at(low, self.conditions.jets)
            ends = at(low, self.states)[:, 0], at(high, self.states)[:, 0]
            self._tables[s] = Table(functions, nodes, inside, begin, *ends)
        return self._tables[s]

    # --- the two marches -------------------------------------------------------------------------------------------

    def first(self, begin: float, end: float, before: Answer | None, local: float) -> Trial:
        """One slab; see `AbstractSlabs`."""
        span, functions = (begin, end), self.table(NODES).functions
        if before is None:
            self._running = np.zeros(len(self.setup.orders))
        guess = self._constant(before) if before is not None else self._at_rest(begin, end)
        found = self._newton(NODES, span, before, guess, local)
        if found is None:
            return Trial(None)
        own = _sizes(functions, found)
        size = scale(np.maximum(own, self._running))
        last = np.array([np.sqrt(np.sum(found[columns][-2:] ** 2)) for columns in functions.columns])
        tail = float(np.max(last / size))
        if tail <= local and (growth := self._growth(span, found)) > FOLDS:
            tail = self.aim * local * (growth / FOLDS) ** (NODES - 0.5)  # the next slab is as short as that asks for
        if tail <= local and self._misses(span, found, size) > MISSED * local:
            tail = 10 * local
        elif tail <= local:
            self._running = np.maximum(self._running, own)
        return Trial(self._answer(NODES, span, found), tail)

    def second(self, slab: Answer, before: Answer | None) -> Answer | None:
        """The same slab with more nodes; see `AbstractSlabs`."""
        guess = self.table(NODES + MORE).functions.fitted(slab.coefficients[0], slab.functions)
        span = float(slab.tree.bounds[0, 0]), float(slab.tree.bounds[0, 1])
        found = self._newton(NODES + MORE, span, before, guess, FLOOR)
        if found is None:
            return None
        self._spread = self._spread_on(found, span, before)
        return self._answer(NODES + MORE, span, found)

    def rough(self, slab: Answer, local: float) -> float:
        """The size of rounding errors relative to the unknowns, which two marches do not show, since they grow alike in both."""
        size, variances = scale(self._running), zip(self.states, np.diag(self._spread), strict=True)
        largest = max((float(np.sqrt(v) / size[k]) for (k, order), v in variances if order == 0), default=0.0)
        return DEVIATIONS * largest if largest > 10 * UNIT else 0.0

    def _spread_on(self, found: np.ndarray, span: Span, before: Answer | None) -> np.ndarray:
        """The covariance of rounding errors at the end of a slab, (D, D): those from its start, propagated, plus its own."""
        table, dt = self.table(NODES + MORE), span[1] - span[0]
        lifts = (2 / dt) ** self._orders
        sizes = _sizes(table.functions, found)[[k for k, _ in self.states]]
        own = np.diag((UNIT * np.maximum(np.abs(table.last @ found), np.maximum(sizes, 1e-300)) * lifts) ** 2)
        if before is None:
            return own
        times = span[0] + (table.nodes + 1) / 2 * dt
        rows, _ = self._linearized(self.equations, times, table.equations * self.equations.powers(dt), found)
        matrix = np.concatenate([table.first, rows])
        begin = np.zeros((len(matrix), len(self.states)))
        begin[: len(self.states)] = np.diag(1 / lifts)
        onward = table.last @ _solved(matrix, begin) * lifts[:, None]  # d (state at the end) / d (state at the start)
        return onward @ self._spread @ onward.T + own

    def _growth(self, span: Span, found: np.ndarray) -> float:
        """How many times e the fastest mode of the linearized equations grows over a slab.

        Slabs over which a mode grows much more damp it instead, in both marches alike, where the unknown is small.
        """
        begin, dt = span[0], span[1] - span[0]
        shares = np.array([0.0, 0.5, 1.0])
        _, by_jet = self.equations(begin + shares * dt, self._jets(found, shares, dt), self.setup.parameters)
        slopes = dict(zip(self.equations.jets, np.moveaxis(by_jet, 1, 0), strict=True))  # (E, 3) each
        zero = np.zeros((len(by_jet), len(shares)))
        by_state = np.array([slopes.get(state, zero) for state in self.states])
        by_top = np.array([slopes.get((k, p), zero) for k, (p,) in enumerate(self.setup.orders)])
        try:
            top = np.linalg.solve(by_top.T, -by_state.T)  # the highest derivatives by the states, (3, K, D)
        except np.linalg.LinAlgError:
            return 0.0
        rates = np.zeros((len(shares), len(self.states), len(self.states)))
        for d, (k, order) in enumerate(self.states):
            after = (k, order + 1)
            rates[:, d] = np.eye(len(self.states))[self.states.index(after)] if after in self.states else top[:, k]
        if not np.isfinite(rates).all():
            return 0.0
        return float(np.linalg.eigvals(rates).real.max(initial=0.0)) * dt

    def _answer(self, s: int, span: Span, coefficients: np.ndarray) -> Answer:
        return Answer(self.table(s).functions, Tree.whole(np.array([span]), (False,)), coefficients[None])

    def _constant(self, before: Answer) -> np.ndarray:
        """The end of the slab before, held constant, as coefficients."""
        out, functions = np.zeros(before.functions.num_columns), before.functions
        for columns, shape in zip(functions.columns, functions.shapes, strict=True):
            out[columns.start] = line.node_table(1.0, shape[0], 0)[0] @ before.coefficients[0, columns]
        return out

    def _at_rest(self, begin: float, end: float) -> np.ndarray:
        """The polynomials of lowest degree that meet the initial conditions, as they are linearized at zero."""
        table = self.table(NODES)
        found = np.zeros(table.functions.num_columns)
        low = [table.functions.columns[k].start + order for k, order in self.states]
        at = table.conditions * self.conditions.powers(end - begin)
        rows, right = self._linearized(self.conditions, np.array([begin]), at, found)
        found[low] = np.linalg.lstsq(rows[:, low], right)[0]
        return found

    def _misses(self, span: Span, found: np.ndarray, size: np.ndarray) -> float:
        """The largest residual between the nodes, where a short pulse may hide, as a change of the unknowns' sizes.

        A slab is sampled at its share of `LOOKS` in time, and at a `FEW` points at least.
        """
        begin, dt = span[0], span[1] - span[0]
        count = max(FEW, int(np.ceil(LOOKS * dt / float(np.ptp(self.setup.bounds)))))
        shares = (np.arange(count) + 0.5) / count
        value, by_jet = self.equations(begin + shares * dt, self._jets(found, shares, dt), self.setup.parameters)
        scales = size[[k for k, _ in self.equations.jets], None] * self.equations.powers(dt)[:, :, 0]
        weight = np.sum(np.abs(by_jet) * scales, axis=1)
        return float(np.max(np.abs(value) / np.where(weight > 0, weight, 1.0)))

    def _jets(self, found: np.ndarray, shares: np.ndarray, dt: float) -> np.ndarray:
        """What the equations need at shares of a slab, (A, P)."""
        functions = self.table(NODES).functions
        table = cache(lambda n, order: line.table(2 * shares - 1, n, order))
        at = [table(functions.shapes[k][0], r) @ found[functions.columns[k]] for k, r in self.equations.jets]
        return np.stack(at) * self.equations.powers(dt)[:, :, 0]

    # --- Newton's method -------------------------------------------------------------------------------------------

    def _newton(self, s: int, span: Span, before: Answer | None, guess: np.ndarray, goal: float) -> np.ndarray | None:
        """The coefficients of one slab, (C,), or None where the steps do not become small."""
        table, found, last = self.table(s), guess, np.inf
        begin, dt = span[0], span[1] - span[0]
        times = begin + (table.nodes + 1) / 2 * dt
        if self.setup.jumps is not None:  # the last node is on this side of a jump
            times[-1] -= 1e-13 * dt
        inside = table.equations * self.equations.powers(dt)
        at = table.conditions * self.conditions.powers(dt)
        start, first = np.zeros(len(self.states)), table.first
        if before is not None:
            start = table.last @ before.coefficients[0] * (dt / float(before.tree.widths[0, 0])) ** self._orders
        for _ in range(STEPS):
            rows, right = self._linearized(self.equations, times, inside, found)
            if before is None:
                first, start = self._linearized(self.conditions, np.array([begin]), at, found)
            try:
                new = _solved(np.concatenate([first, rows]), np.concatenate([start, right]))
            except np.linalg.LinAlgError:
                return None
            if not np.isfinite(new).all():
                return None
            size = scale(np.maximum(_sizes(table.functions, new), self._running))
            change = float(np.max(_sizes(table.functions, new - found) / size))
            found = new
            # Steps square: after one this small the next is below the tail that is asked for, or rounding.
            if self.setup.is_linear or change <= max(0.01 * goal, 1e-13) or 0.3 * last < change < 1e-7:
                return found
            last = change
        return None

    def _linearized(self, residuals: Together, times: np.ndarray, tables: np.ndarray, coefficients: np.ndarray) -> Rows:
        """Residuals at some times as rows on the coefficients."""
        jets = tables @ coefficients
        value, by_jet = residuals(times, jets, self.setup.parameters)
        left = np.einsum("eap,apc->epc", by_jet, tables).reshape(-1, len(coefficients))
        return left, (np.einsum("eap,ap->ep", by_jet, jets) - value).ravel()


def _sizes(functions: Functions, coefficients: np.ndarray) -> np.ndarray:
    """The root mean square of each unknown on the slab, (K,)."""
    return np.array([np.sqrt(np.sum(coefficients[columns] ** 2)) for columns in functions.columns])


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of square equations, rows scaled to unit length."""
    length = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    length[length == 0] = 1.0
    return np.linalg.solve(matrix / length[:, None], (right.T / length).T)
