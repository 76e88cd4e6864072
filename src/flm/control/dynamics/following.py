"""Trajectories under a given control law, integrated tightly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from flm.control.dynamics.simulation import Simulated, adjoint, gauss, grid, integrals, simulate

if TYPE_CHECKING:
    from flm.control.problem import OptimalControl

Inputs = Callable[[np.ndarray, slice], np.ndarray]  # of times (E, P, q) and a slice of the starts: (E, P, q, k)

_CHUNK = 256  # starts simulated together
_ELEMENTS = (6, 12, 24, 48, 96, 192, 384)
_TOL = 1e-12  # relative change of cost and final state, on halving the elements, at which refinement ends


@dataclass(frozen=True, eq=False)
class Followed:
    """Trajectories from several starts under given controls, tightly integrated.

    `change` is the relative change of cost and final state on halving the time steps.
    """

    problem: OptimalControl
    change: float
    chunks: tuple[Simulated, ...]

    @cached_property
    def cost(self) -> np.ndarray:
        """The cost of the simulated dynamics, (P,), infinite where the dynamics could not be solved."""
        return np.concatenate([run.cost for run in self.chunks])

    @cached_property
    def duration(self) -> np.ndarray:
        """The final times, (P,)."""
        if not self.problem.free:
            return np.full(len(self.cost), self.problem.numbers[-1])
        return np.exp(np.concatenate([run.inputs[-1, :, -1, -1] for run in self.chunks]))

    @property
    def violation(self) -> np.ndarray:
        """The largest constraint value of each start, (P,)."""
        return np.concatenate([run.violation for run in self.chunks])

    def states(self, t: np.ndarray) -> np.ndarray:
        """All states (P, R, n) at times t (R,) or (P, R); on the simplex nonnegative with sum one."""
        s = np.asarray(t, float) / self.duration[:, None]
        starts = np.cumsum([0, *(len(run.cost) for run in self.chunks)])
        parts = [_interpolate(run, s[a:b]) for run, a, b in zip(self.chunks, starts[:-1], starts[1:], strict=True)]
        x = self.problem.starts.lift(np.concatenate(parts))
        if not self.problem.on_simplex:
            return x
        x = np.maximum(x, 0.0)
        return x / x.sum(axis=-1, keepdims=True)

    def costates(self) -> tuple[np.ndarray, np.ndarray]:
        """∫ |p|² dt and |p(0)|² for each start, (P,) each: the bias of a penalty method follows from them."""
        found = [adjoint(run) for run in self.chunks]
        along = [np.einsum("epq,epqd->p", run.weights, p.stages**2) for run, p in zip(self.chunks, found, strict=True)]
        return np.concatenate(along) * self.duration, np.concatenate([(p.initial**2).sum(axis=1) for p in found])


def follow(problem: OptimalControl, v0: np.ndarray, inputs: Inputs, breaks: np.ndarray | None = None) -> Followed:
    """The dynamics from v0 (P, d), refined until halving the elements changes nothing or no longer helps.

    Elements end at the `breaks` (P, B), nan for none: normalized times at which the inputs are not smooth.
    """
    chunks, changes = [], []
    for start in range(0, len(v0), _CHUNK):
        part = slice(start, min(start + _CHUNK, len(v0)))
        size = part.stop - part.start
        previous, change = None, np.inf
        for num_elements in _ELEMENTS:
            edges = edges_with(num_elements, size, None if breaks is None else breaks[part])
            run = simulate(problem, v0[part], inputs(grid(edges, size)[0], part), edges)
            if previous is not None:
                last, change = change, _change(run, previous)
                if change < _TOL or (change < 1e-9 and change > 0.3 * last):
                    break
                if num_elements >= 48 and not np.isfinite(change):
                    break
            previous = run
        chunks.append(run)
        changes.append(change)
    return Followed(problem, float(max(changes)), tuple(chunks))


def edges_with(num_elements: int, num_starts: int, breaks: np.ndarray | None) -> np.ndarray:
    """Even edges and, for each start, its own breaks (P, B), in order, (E + 1, P); a break that is nan repeats the end."""
    edges = np.linspace(0.0, 1.0, num_elements + 1)[:, None] * np.ones(num_starts)
    if breaks is None:
        return edges
    return np.sort(np.concatenate([edges, np.where(np.isnan(breaks), 1.0, breaks).T]), axis=0)


def _interpolate(run: Simulated, s: np.ndarray) -> np.ndarray:
    """Coordinates (P, R, d) at normalized times s (P, R), by the collocation polynomials."""
    num_elements, num_starts, q, d = run.stages.shape
    left = run.s[:, :, 0] - run.width * gauss(q).nodes[0]  # (E, P)
    result = np.empty((*s.shape, d))
    for p in range(num_starts):
        e = np.clip(np.searchsorted(left[:, p], s[p], side="right") - 1, 0, num_elements - 1)
        width = run.width[e, p]
        inside = np.clip((s[p] - left[e, p]) / np.where(width > 0, width, 1.0), 0.0, 1.0)
        result[p] = run.edges[e, p] + width[:, None] * np.einsum("rj,rjd->rd", integrals(q, inside), run.rates[e, p])
    return result


def _change(run: Simulated, previous: Simulated) -> float:
    """The largest relative change of cost and final state; infinite when a start fails."""
    if not (np.isfinite(run.cost) & np.isfinite(previous.cost)).all():
        return np.inf
    cost = np.abs(run.cost - previous.cost) / (np.abs(run.cost) + 1e-3 * np.abs(run.cost).mean() + 1e-300)
    end = np.abs(run.edges[-1] - previous.edges[-1]).max(axis=1) / (1.0 + np.abs(run.edges[-1]).max(axis=1))
    return float(max(cost.max(), end.max()))
