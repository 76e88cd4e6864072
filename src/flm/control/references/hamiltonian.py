"""The Hamiltonian h = l + p.F of a control problem, minimized over the controls, and the two-point problem that follows.

y = (v, p, J) are coordinates, costates and the running cost so far; z = (v, p, u, log T) is what h depends on. The minimization
over u is a projected Newton method at each point, exact in one step when h is quadratic in u; u* moves with (v, p) by
the implicit function theorem, du*/dy = -h_uu^-1 h_uy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flm.control.dynamics.kernels import Last, Multipliers, Points, finish
from flm.control.problem import OptimalControl

_NEWTON_STEPS = 50


class Local(NamedTuple):
    """l (R,) with its gradient (R, z), and the gradient (R, z) and Hessian (R, z, z) of h."""

    running: np.ndarray
    running_z: np.ndarray
    h_z: np.ndarray
    h_zz: np.ndarray


class Minimized(NamedTuple):
    """The best controls (R, k), which of them are held at a bound, and the derivatives there."""

    controls: np.ndarray
    held: np.ndarray
    at: Local


@dataclass(frozen=True, eq=False)
class Hamiltonian:
    """h of a problem, at many points (R) at once; `unknowns` are terminal multipliers and log T, where there are any."""

    problem: OptimalControl

    @property
    def size(self) -> int:
        """The number of coordinates, d."""
        return self.problem.equations.num_coordinates

    @property
    def own(self) -> slice:
        """Where the controls are in z."""
        return slice(2 * self.size, 2 * self.size + len(self.problem.controls))

    def derivatives(self, s: np.ndarray, y: np.ndarray, u: np.ndarray, unknowns: np.ndarray) -> Local:
        """l and h with their derivatives at normalized times s (R,), y (2d + 1, R) and controls u (R, k)."""
        d, v, p, count = self.size, y[: self.size].T, y[self.size : -1].T, len(s)
        w = np.column_stack([u, np.full(count, unknowns[-1])]) if self.problem.free else u
        points = Points(self.problem, s, w)
        first, h_ww = points.first(v), points.second(v, p)  # by (v, w), w = (u, log T)
        h_w, nothing = first.l_z + (p[:, None] @ first.F_z)[:, 0], np.zeros((count, d, d))
        size = h_w.shape[1]
        order = [*range(d), *range(size, size + d), *range(d, size)]  # (v, w, p) -> (v, p, w)
        h_zz = np.block([[h_ww, np.swapaxes(first.F_z, 1, 2)], [first.F_z, nothing]])
        running_z, h_z = np.hstack([first.l_z, nothing[:, 0]]), np.hstack([h_w, first.rates])
        return Local(first.running, running_z[:, order], h_z[:, order], h_zz[:, order][:, :, order])

    def minimize(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> Minimized:
        """The controls within their bounds that make h least."""
        problem, own, k = self.problem, self.own, len(self.problem.controls)
        u = np.clip(np.zeros((len(s), k)), problem.lower, problem.upper)
        for _ in range(_NEWTON_STEPS):
            at = self.derivatives(s, y, u, unknowns)
            slope = at.h_z[:, own]
            held = ((u <= problem.lower) & (slope > 0)) | ((u >= problem.upper) & (slope < 0))
            step = -np.linalg.solve(self._curvature(at, held), np.where(held, 0.0, slope)[..., None])[..., 0]
            moved = np.clip(u + np.where(held, 0.0, step), problem.lower, problem.upper)
            if not np.isfinite(moved).all() or np.abs(moved - u).max() <= 1e-13 * (1 + np.abs(u).max()):
                break
            u = moved
        return Minimized(u, held, at)

    def _curvature(self, at: Local, held: np.ndarray) -> np.ndarray:
        """h_uu (R, k, k), with the identity for controls that are held and where it is singular."""
        k = held.shape[1]
        system = np.where(held[:, :, None] | held[:, None, :], np.eye(k), at.h_zz[:, self.own, self.own])
        singular = ~np.isfinite(system).all(axis=(1, 2)) | (np.abs(np.linalg.det(np.nan_to_num(system))) < 1e-280)
        return np.where(singular[:, None, None], np.eye(k), system)

    def rates(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> np.ndarray:
        """The right-hand side of the two-point problem, (2d + 1, R)."""
        d, at = self.size, self.minimize(s, y, unknowns).at
        return np.concatenate([at.h_z[:, d : 2 * d], -at.h_z[:, :d], at.running[:, None]], axis=1).T

    def jacobian(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its derivatives by y, (2d + 1, 2d + 1, R), and by the unknowns, (2d + 1, q, R)."""
        d, own = self.size, self.own
        _, held, at = self.minimize(s, y, unknowns)
        others = [i for i in range(at.h_zz.shape[1]) if not own.start <= i < own.stop]
        coupling = np.where(held[..., None], 0.0, at.h_zz[:, own][:, :, others])
        moves = -np.linalg.solve(self._curvature(at, held), coupling)  # (R, k, others)
        rows = [*range(d, 2 * d), *range(d)]
        sign = np.repeat([1.0, -1.0], d)[:, None]
        total = sign * (at.h_zz[:, rows][:, :, others] + at.h_zz[:, rows][:, :, own] @ moves)
        cost = at.running_z[:, None, others] + at.running_z[:, None, own] @ moves
        whole = np.concatenate([total, cost], axis=1)  # (R, 2d + 1, 2d [+ 1])
        by_y = np.concatenate([whole[..., : 2 * d], np.zeros((len(s), 2 * d + 1, 1))], axis=-1)
        by_unknowns = np.zeros((len(s), 2 * d + 1, len(unknowns)))
        if self.problem.free:
            by_unknowns[..., -1] = whole[..., -1]
        return np.ascontiguousarray(np.moveaxis(by_y, 0, -1)), np.ascontiguousarray(np.moveaxis(by_unknowns, 0, -1))

    def at_end(self, end: np.ndarray, unknowns: np.ndarray) -> np.ndarray:
        """What transversality demands to be zero at s = 1: p - phi_v - nu . h_v, h, and h + d phi / d log T if T is free."""
        d, last = self.size, self.last(end, unknowns)
        conditions = [end[d : 2 * d] - last.phi_z[0, :d], last.terminal[0]]
        if self.problem.free:
            at = self.minimize(np.ones(1), end[:, None], unknowns).at
            along = at.running[0] + end[d : 2 * d] @ at.h_z[0, d : 2 * d]
            conditions.append(along + last.phi_z[:, -1])
        return np.concatenate(conditions)

    def last(self, end: np.ndarray, unknowns: np.ndarray) -> Last:
        """The terminal cost, with the terminal constraints' multipliers in its derivatives, at y = `end`."""
        free = self.problem.free
        w = np.zeros((1, self.problem.equations.num_inputs))
        if free:
            w[0, -1] = unknowns[-1]
        multipliers = Multipliers(np.zeros(0), unknowns[None, : len(unknowns) - free], 0.0)
        return finish(self.problem, end[None, : self.size], w, multipliers)

    def is_linear(self, v0: np.ndarray, unknowns: np.ndarray) -> bool:
        """Whether h_uu vanishes in the direction of some control, near v0 and for random costates."""
        d, rng = self.size, np.random.default_rng(0)
        y = np.vstack([v0[:, None] + 0.1 * rng.standard_normal((d, 9)), rng.standard_normal((d, 9)), np.zeros((1, 9))])
        u = np.clip(rng.standard_normal((9, len(self.problem.controls))), self.problem.lower, self.problem.upper)
        h_uu = self.derivatives(np.linspace(0.0, 1.0, 9), y, u, unknowns).h_zz[:, self.own, self.own]
        return bool((np.abs(np.einsum("rkk->rk", h_uu)).max(axis=0) < 1e-14).any())

    def convexity(self, s: np.ndarray, y: np.ndarray, unknowns: np.ndarray) -> float:
        """The smallest eigenvalue of h_uu over the mesh."""
        h_zz = self.minimize(s, y, unknowns).at.h_zz
        return float(np.linalg.eigvalsh(h_zz[:, self.own, self.own]).min())
