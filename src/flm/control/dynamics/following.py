"""Trajectories under a given control law, integrated tightly."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flm.control.dynamics.kernels import Multipliers, constraint_counts
from flm.control.dynamics.simulation import Simulated, adjoint, gauss, grid, integrals, simulate
from flm.control.equations import Equations

_CHUNK = 256  # starts simulated together
_ELEMENTS = (6, 12, 24, 48, 96, 192, 384)


@dataclass(frozen=True, eq=False)
class Followed:
    """Trajectories from several starts under given controls, tightly integrated.

    `cost` (P,) is the cost of the simulated dynamics, infinite where the dynamics could not be solved; `duration` (P,)
    the final times; `change` the relative change of cost and final state on halving the time steps.
    """

    equations: Equations
    cost: np.ndarray
    duration: np.ndarray
    change: float
    chunks: tuple[Simulated, ...]

    def states(self, t: np.ndarray) -> np.ndarray:
        """All states (P, R, n) at times t (R,) or (P, R); on the simplex nonnegative with sum one."""
        size = (len(self.cost), np.shape(t)[-1])
        s = np.broadcast_to(np.asarray(t, float), size) / self.duration[:, None]
        starts = np.cumsum([0, *(len(run.cost) for run in self.chunks)])
        parts = [interpolate(run, s[a:b]) for run, a, b in zip(self.chunks, starts[:-1], starts[1:], strict=True)]
        v = np.concatenate(parts)
        if not self.equations.on_simplex:
            return v
        x = np.maximum(np.concatenate([v, 1.0 - v.sum(axis=-1, keepdims=True)], axis=-1), 0.0)
        return x / x.sum(axis=-1, keepdims=True)

    def costates(self) -> tuple[np.ndarray, np.ndarray]:
        """∫ |p|² dt and |p(0)|² for each start, (P,) each: what a penalty on the dynamics pays with."""
        along, first = [], []
        for run in self.chunks:
            found = adjoint(run)
            weights = run.width[..., None] * gauss(run.s.shape[-1]).weights
            along.append(np.einsum("epq,epqd->p", weights, found.stages**2))
            first.append((found.initial**2).sum(axis=1))
        return np.concatenate(along) * self.duration, np.concatenate(first)

    def violation(self) -> np.ndarray:
        """The largest path (positive part) or terminal (absolute) constraint value of each start, (P,)."""
        worst = []
        for run in self.chunks:
            path = np.maximum(run.path, 0.0).max(axis=(0, 2, 3), initial=0.0)
            worst.append(np.maximum(path, np.abs(run.terminal).max(axis=1, initial=0.0)))
        return np.concatenate(worst)


def follow(
    equations: Equations,
    numbers: np.ndarray,
    v0: np.ndarray,
    inputs: Callable[[np.ndarray, slice], np.ndarray],
    breaks: np.ndarray | None = None,
    *,
    tol: float = 1e-12,
) -> Followed:
    """The dynamics from v0 (P, d), refined until halving the elements changes cost and final state by less than `tol`.

    Args:
        equations: The problem's functions.
        numbers: Its parameters and horizon.
        v0: Initial coordinates.
        inputs: Controls (and log T), (E, P, q, k), at times s (E, P, q) for a slice of the starts.
        breaks: Times (P, B) at which the inputs are not smooth, elements' edges there; nan for none.
        tol: Relative change to stop at. Refinement ends too when it no longer helps.
    """
    chunks, changes = [], []
    for start in range(0, len(v0), _CHUNK):
        part = slice(start, min(start + _CHUNK, len(v0)))
        size = part.stop - part.start
        previous, change = None, np.inf
        for num_elements in _ELEMENTS:
            edges = np.linspace(0.0, 1.0, num_elements + 1)[:, None] * np.ones(size)
            if breaks is not None and breaks.shape[1]:
                own = np.where(np.isnan(breaks[part]), 1.0, breaks[part]).T
                edges = np.sort(np.concatenate([edges, own]), axis=0)
            s, _ = grid(edges, size)
            run = simulate(
                equations, numbers, v0[part], inputs(s, part), edges, multipliers=_no_multipliers(equations, s)
            )
            if previous is not None:
                last, change = change, _change(run, previous)
                if change < tol or (change < 1e-9 and change > 0.3 * last):
                    break
                if num_elements >= 48 and not np.isfinite(change):
                    break
            previous = run
        chunks.append(run)
        changes.append(change)
    last_inputs = np.concatenate([run.inputs[-1, :, -1] for run in chunks])
    free = len(equations.controls)
    duration = np.exp(last_inputs[:, free]) if equations.free else np.full(len(v0), numbers[-1])
    return Followed(
        equations, np.concatenate([run.cost for run in chunks]), duration, float(max(changes)), tuple(chunks)
    )


def interpolate(run: Simulated, s: np.ndarray) -> np.ndarray:
    """Coordinates (P, R, d) at normalized times s (R,) or (P, R), by the collocation polynomials."""
    num_elements, num_starts, q, d = run.stages.shape
    s = np.broadcast_to(np.asarray(s, float), (num_starts, np.shape(s)[-1]))
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


def _no_multipliers(equations: Equations, s: np.ndarray) -> Multipliers | None:
    num_path, num_terminal = constraint_counts(equations)
    if not num_path and not num_terminal:
        return None
    return Multipliers(np.zeros((*s.shape, num_path)), np.zeros((s.shape[1], num_terminal)), 1e-12)
