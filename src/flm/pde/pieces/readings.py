"""The answer as a function of the parameters on fixed pieces, and the sum of squares that the parameters minimize.

The equation and the conditions hold as they do without readings: for given parameters p the square rows F(u, p) = 0 determine u
by elimination, and one more right-hand side for each parameter determines its derivatives: F_u u_p = -F_p. Slabs hand on both u and
u_p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from flm.numerics.newton import Step, Trial
from flm.pde.pieces.elimination import eliminate
from flm.pde.pieces.fields import AnyResidual, Prior
from flm.pde.pieces.newton import Answer, solve_system, table_at
from flm.pde.pieces.rows import System
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.slabs import with_velocities
from flm.pde.problem import PDE


@dataclass(frozen=True, eq=False)
class Readings:
    """Measured values of one observable."""

    residual: AnyResidual  # what was measured, as a function of the answer and the parameters
    points: np.ndarray  # where, (P, m)
    values: np.ndarray  # (P,)
    sigma: np.ndarray | None  # standard deviations, (P,); None where it was not given

    @classmethod
    def of(cls, problem: PDE, setup: Setup) -> list[Readings]:
        """The readings of a problem."""
        found = []
        for residual, data in [(b.residual, b.data) for b in problem.conditions if b.data is not None]:
            points, values = (np.asarray(a, float) for a in (data.points, data.values))
            sigma = None if data.sigma is None else np.broadcast_to(np.asarray(data.sigma, float), values.shape)
            found.append(cls(setup.known.bind(residual), points, values, sigma))
        return found


@dataclass(frozen=True, eq=False)
class Point:
    """The answer at some parameters."""

    parameters: np.ndarray  # (Q,)
    answers: list[Answer]  # one for each slab
    misfit: np.ndarray  # what is observed less what was measured, all readings one after the other, (P,)


class Spot(NamedTuple):
    """The readings of one kind in one slab: their numbers, their leaves, and a table for each jet."""

    rows: np.ndarray
    leaves: np.ndarray
    tables: list[np.ndarray]


class Chain:
    """Fixed pieces, slab after slab, on which the answer is found for any parameters, with some functions fewer if asked."""

    def __init__(self, setup: Setup, answers: Sequence[Answer], readings: Sequence[Readings], fewer: int = 0):
        moves = len(answers[0].functions.orders) > len(setup.orders)
        self.setup, self.readings = with_velocities(setup) if moves else setup, readings
        self.systems: list[System] = []
        for before, answer in zip([None, *answers], answers, strict=False):
            nodes = tuple(max(q - fewer, min(q, 3)) for q in answer.functions.nodes)
            self.systems.append(self.setup.system(answer.tree, nodes, before))
        ends = np.array([answer.tree.bounds[-1, 1] for answer in answers[:-1]])
        self.spots = [self._spots(kind, np.searchsorted(ends, kind.points[:, -1])) for kind in readings]

    def _spots(self, kind: Readings, slab: np.ndarray) -> list[Spot]:
        found = []
        for index, system in enumerate(self.systems):
            rows = np.flatnonzero(slab == index)
            points, functions = kind.points[rows], system.functions
            leaves = system.tree.locate(points)
            tables = [table_at(functions, system.tree, k, alpha, points, leaves) for k, alpha in kind.residual.jets]
            found.append(Spot(rows, leaves, tables))
        return found

    def at(self, parameters: np.ndarray, starts: Sequence[np.ndarray | None]) -> Point:
        """The answer at some parameters; LinAlgError where there is none on these pieces."""
        answers: list[Answer] = []
        for system, start in zip(self.systems, starts, strict=True):
            system.parameters = parameters
            if answers:
                system.begin(answers[-1])
            answer = solve_system(system, start, self.setup.is_linear)
            if not (answer.finite and answer.settled):
                raise np.linalg.LinAlgError("no answer at these parameters")
            answers.append(answer)
        coefficients = [answer.coefficients for answer in answers]
        observed = [
            kind.residual.linearize(kind.points, self._jets(i, coefficients), parameters).value - kind.values
            for i, kind in enumerate(self.readings)
        ]
        return Point(parameters, answers, np.concatenate(observed))

    def derivatives(self, point: Point) -> list[np.ndarray]:
        """The derivatives of each slab's coefficients in each learned parameter, (L, C, Q)."""
        learned, found = self.setup.known.learned, []
        for system, answer in zip(self.systems, point.answers, strict=True):
            system.parameters = point.parameters
            if found:
                system.begin(replace(point.answers[len(found) - 1], coefficients=found[-1]))
            rows = system.assemble(answer.coefficients, learned=learned)
            found.append(np.stack(eliminate(rows, system.sizes, system.order)))
        return found

    def slopes(self, point: Point, derivatives: Sequence[np.ndarray]) -> np.ndarray:
        """Derivatives of the observed values in the learned parameters, (P, Q)."""
        learned, found = list(self.setup.known.learned), []
        for i, kind in enumerate(self.readings):
            here = self._jets(i, [answer.coefficients for answer in point.answers])
            line = kind.residual.linearize(kind.points, here, point.parameters)
            through = np.einsum("ap,apq->pq", line.by_jet, self._jets(i, derivatives))
            found.append(through + line.by_parameter[learned].T)
        return np.concatenate(found)

    def _jets(self, index: int, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """The jets that readings need, (A, P), or for many coefficients at once, (A, P, Q)."""
        kind = self.readings[index]
        out = np.zeros((len(kind.residual.jets), len(kind.points), *coefficients[0].shape[2:]))
        for system, spot, own in zip(self.systems, self.spots[index], coefficients, strict=True):
            for a, (k, _) in enumerate(kind.residual.jets):
                there = own[spot.leaves][:, system.functions.columns[k]]
                out[a, spot.rows] = np.einsum("pn,pn...->p...", spot.tables[a], there)
        return out


@dataclass(frozen=True, eq=False)
class Weights:
    """How readings and priors count."""

    sigma: np.ndarray  # standard deviation of each reading, (P,)
    whitening: np.ndarray  # W: the learned parameters are their start plus W z, z of variance 1 where there is a prior
    prior: np.ndarray  # 1 for the z that have a prior, 0 for numbers, (Q,)
    strengths: tuple[Prior, ...] = ()  # of the prior of each unknown function


@dataclass(frozen=True, eq=False)
class Misfit:
    """The sum of squares near a point: see `flm.numerics.newton.Model`."""

    chain: Chain
    weights: Weights
    point: Point

    @property
    def learned(self) -> np.ndarray:
        """The learned parameters, (Q,)."""
        return self.point.parameters[list(self.chain.setup.known.learned)]

    @property
    def away(self) -> np.ndarray:
        """The deviation of the learned parameters from their start."""
        known = self.chain.setup.known
        return self.learned - known.start[list(known.learned)]

    @cached_property
    def z(self) -> np.ndarray:
        """This deviation in units of the prior."""
        return np.linalg.solve(self.weights.whitening, self.away)

    @cached_property
    def residuals(self) -> np.ndarray:
        """Residuals of the readings, in standard deviations, then of the priors."""
        return np.concatenate([self.point.misfit / self.weights.sigma, self.weights.prior * self.z])

    @property
    def value(self) -> float:
        """The sum of squares."""
        return float(self.residuals @ self.residuals)

    @cached_property
    def derivatives(self) -> list[np.ndarray]:
        """The derivatives of the answer in the learned parameters."""
        return self.chain.derivatives(self.point)

    @cached_property
    def plain(self) -> np.ndarray:
        """Slopes of the readings in the learned parameters, in standard deviations, (P, Q)."""
        return self.chain.slopes(self.point, self.derivatives) / self.weights.sigma[:, None]

    @cached_property
    def slopes(self) -> np.ndarray:
        """Slopes of `residuals` in z."""
        return np.concatenate([self.plain @ self.weights.whitening, np.diag(self.weights.prior)])

    def step(self, damping: np.ndarray) -> Step:
        """Levenberg and Marquardt's step, in z."""
        J, r = self.slopes, self.residuals
        size = np.sqrt(np.sum(J**2, axis=0))
        size = np.where(size > 0, size, 1.0)
        rows = np.concatenate([J / size, np.sqrt(float(damping)) * np.eye(len(size))])
        move = np.linalg.lstsq(rows, np.concatenate([-r, np.zeros(len(size))]), rcond=1e-12)[0] / size
        return Step(move, float(-2 * (J.T @ r) @ move - np.sum((J @ move) ** 2)))

    def take(self, move: np.ndarray) -> Trial[Point]:
        """The answer after a step, within the limits; Newton's method starts where the derivatives point."""
        known, parameters = self.chain.setup.known, self.point.parameters
        learned = list(known.learned)
        change = np.zeros_like(parameters)
        change[learned] = self.weights.whitening @ move
        change = known.limited(parameters, change)
        along = change[learned]
        starts = [a.coefficients + d @ along for a, d in zip(self.point.answers, self.derivatives, strict=True)]
        point = self.chain.at(parameters + change, starts)
        return Trial(point, replace(self, point=point).value)

    @cached_property
    def inverse(self) -> np.ndarray:
        """The pseudo-inverse of `slopes`."""
        return np.linalg.pinv(self.slopes, rcond=1e-14)

    def covariance(self) -> np.ndarray:
        """The covariance of the learned parameters, (Q, Q): the inverse of JᵀJ."""
        half = self.weights.whitening @ self.inverse
        return half @ half.T

    @property
    def scatter(self) -> float:
        """Root mean square of the readings' misfit, in standard deviations."""
        return float(np.sqrt(np.mean((self.point.misfit / self.weights.sigma) ** 2)))
