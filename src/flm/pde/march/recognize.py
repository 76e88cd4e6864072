"""Recognition of problems u' = Lu + N(u, x, t), with L of constant coefficients, and of L and N.

Slopes of the residuals at random points and states decide: the matrix of the highest time derivatives must not depend
on the state; a derivative whose slopes are the same everywhere belongs to L, and N is the residual without it. An unknown
without a time derivative is one of two things: it follows from a constraint (a stream function), or it enforces one (a
pressure that enters by its gradient alone).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from flm.domains import Box
from flm.language.arguments import Jet, Reference, Residual, unique_jets
from flm.models.march import lift_jet
from flm.numerics.elementwise import Values, as_numpy
from flm.pde.march.sides import PROBES, SAME, Unfit, affine_in_one, read_sides
from flm.pde.problem import PDE


@dataclass(frozen=True, eq=False)
class Evolution:
    """A problem as first-order evolution of its states."""

    problem: PDE
    time: int  # which axis of the problem
    space: tuple[int, ...]  # the others
    kinds: tuple[str, ...]  # the series along each of them
    lift: np.ndarray  # the polynomials that make the sides homogeneous, (unknowns, d, 3)
    states: tuple[tuple[int, int], ...]  # (unknown, order in time) of everything that evolves
    algebraic: tuple[int, ...]  # unknowns without a time derivative
    equations: tuple[Residual, ...]  # those with a time derivative
    inverse: np.ndarray | None  # of the mass matrix, where that is constant
    linear: dict[Jet, np.ndarray]  # L by jet: slopes of the rates of the evolving unknowns, (E,)
    constraints: dict[Jet, np.ndarray]  # slopes of the equations without a time derivative by jet
    evaluated: tuple[Jet, ...]  # the jets that N needs
    starts: tuple[tuple[Residual, int], ...]  # the initial condition of each state, and the place of its jet

    @cached_property
    def tops(self) -> list[int]:
        """The places in `states` of the highest order of each evolving unknown."""
        return [i for i, (k, d) in enumerate(self.states) if (k, d + 1) not in self.states]

    @cached_property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """The bounds of space."""
        return tuple((float(a), float(b)) for a, b in np.asarray(self.problem.domain.bounds)[list(self.space)])

    @cached_property
    def span(self) -> tuple[float, float]:
        """First and last time."""
        low, high = np.asarray(self.problem.domain.bounds, float)[self.time]
        return float(low), float(high)

    def jet(self, unknown: int, order: int) -> Jet:
        """The jet of a derivative in time."""
        return unknown, tuple(order * (j == self.time) for j in range(len(self.problem.axes)))

    def along_space(self, jet: Jet) -> tuple[int, ...]:
        """The space part of a jet's orders."""
        return tuple(jet[1][j] for j in self.space)

    def lifted(self, jet: Jet, mesh: Sequence[np.ndarray]) -> np.ndarray | float:
        """The lift's part of a jet, at one array per space axis."""
        return lift_jet(self.lift[jet[0]], self.bounds, self.along_space(jet), mesh) * (jet[1][self.time] == 0)

    @cached_property
    def passed(self) -> tuple[Jet, ...]:
        """The jets whose values the rates need: with a lift, those of L too."""
        return (*self.evaluated, *(self.linear if self.lift.any() else ()))

    @cached_property
    def is_forced(self) -> bool:
        """Whether there is anything besides L."""
        if self.evaluated or self.lift.any():
            return True
        points = self.problem.domain.interior(PROBES, seed=4, warp=False)
        return bool(np.abs(self.rates(list(points.T), np.zeros((0, PROBES)))).max() > 0)

    @cached_property
    def varies(self) -> tuple[bool, bool]:
        """Whether the equations hold a coordinate of space, and time."""
        held = {reference.index for reference in self._references if reference.kind == "axis"}
        return bool(held & set(self.space)), self.time in held

    @cached_property
    def _references(self) -> list[Reference]:
        return list(dict.fromkeys(reference for r in self.equations for reference in r.references))

    @cached_property
    def _program(self) -> Callable[..., Sequence[npt.ArrayLike]]:
        """All equations with a time derivative as one function of their references."""
        places = [[self._references.index(reference) for reference in r.references] for r in self.equations]
        each = lambda *values: [
            r.function(*(values[i] for i in own)) for r, own in zip(self.equations, places, strict=True)
        ]
        # A function with operations that are not elementwise is called as it is.
        return as_numpy(each, *[()] * len(self._references)) or (lambda *values: each(*np.broadcast_arrays(*values)))

    def rates(self, coordinates: Sequence[Values], values: np.ndarray) -> np.ndarray:
        """N, (E, ...): the mass matrix's inverse times the residuals without L, from coordinates and passed jets (A, ...)."""
        shape = np.broadcast_shapes(*(np.shape(c) for c in coordinates), values.shape[1:])
        given: dict[Jet, Values] = dict(zip(self.passed, values, strict=True))
        with np.errstate(all="ignore"):  # a window that overflows is rejected
            base = self._residuals(coordinates, given, shape)
            if self.inverse is not None:
                return np.einsum("ij,j...->i...", -self.inverse, base)
            tops = [self.jet(k, d + 1) for k, d in (self.states[i] for i in self.tops)]
            moved = [self._residuals(coordinates, {**given, top: 1.0}, shape) for top in tops]
        mass = np.stack([rows - base for rows in moved], axis=1)  # (E, E, ...)
        return -np.moveaxis(
            np.linalg.solve(np.moveaxis(mass, (0, 1), (-2, -1)), np.moveaxis(base, 0, -1)[..., None])[..., 0], -1, 0
        )

    def _residuals(self, coordinates: Sequence[Values], given: dict[Jet, Values], shape: tuple[int, ...]) -> np.ndarray:
        """The equations with a time derivative, (E, ...); jets that are not given are zero."""
        found = self._program(*(self._argument(r, coordinates, given) for r in self._references))
        out = np.empty((len(found), *shape))
        for row, values in zip(out, found, strict=True):
            row[...] = values
        return out

    def _argument(self, reference: Reference, coordinates: Sequence[Values], given: dict[Jet, Values]) -> Values:
        if reference.kind == "axis":
            return coordinates[reference.index]
        if reference.kind == "parameter":
            return float(self.problem.parameter_start[reference.index])
        return given.get((reference.index, reference.alpha), 0.0)


def recognize(problem: PDE) -> Evolution:
    """The problem as an evolution; raises `Unfit` with a sentence if it is not one."""
    axes = problem.axes
    if not isinstance(problem.domain, Box) or "t" not in axes or not 2 <= len(axes) <= 4:
        raise Unfit("the domain must be a box of one to three space axes and an axis t")
    if problem.learned or any(block.kind == "data" for block in problem.conditions):
        raise Unfit("there must be nothing to learn and no data")
    time = axes.index("t")
    if problem.periodic_axes[time]:
        raise Unfit("t must not be periodic")
    space = tuple(j for j in range(len(axes)) if j != time)
    residuals = [block.residual for block in problem.equations]
    jets, unknowns = unique_jets(residuals), range(len(problem.unknowns))
    order = [max([alpha[time] for k, alpha in jets if k == unknown], default=0) for unknown in unknowns]
    states = tuple((k, d) for k in unknowns for d in range(order[k]))
    algebraic = tuple(k for k in unknowns if order[k] == 0)
    tops = [(k, tuple(order[k] * (j == time) for j in range(len(axes)))) for k in unknowns if order[k]]
    moving = [r for r in residuals if set(r.jets) & set(tops)]
    still = [r for r in residuals if not set(r.jets) & set(tops)]
    if not tops or len(moving) != len(tops) or len(still) != len(algebraic):
        raise Unfit("there must be one equation with a time derivative for each unknown that has one")
    for k, alpha in jets:
        if order[k] and alpha[time] == order[k] and sum(alpha) > alpha[time]:
            raise Unfit(f"the highest time derivative of {problem.unknowns[k]} must not be differentiated in space")
    highest = np.zeros((len(unknowns), len(space)), int)
    for k, alpha in jets:
        highest[k] = np.maximum(highest[k], [alpha[j] for j in space])
    kinds, lift = read_sides(problem, space, highest)
    slopes, inverse = _slopes(problem, moving, tops)
    size = max([float(np.abs(row).max()) for row in slopes.values()], default=1.0)
    odd = lambda jet: any(jet[1][j] % 2 for j, kind in zip(space, kinds, strict=True) if kind != "fourier")
    same = lambda row: np.ptp(row, axis=1).max() <= SAME * size
    linear = {jet: row[:, 0] for jet, row in slopes.items() if same(row) and not odd(jet)}
    if algebraic and set(kinds) != {"fourier"}:
        raise Unfit("an unknown without a time derivative needs periodic axes")
    return Evolution(
        problem, time, space, kinds, lift, states, algebraic, tuple(moving), inverse, linear,
        _constraints(problem, still, time), tuple(jet for jet in slopes if jet not in linear),
        _starts(problem, states, time),
    )  # fmt: skip


def _probe(problem: PDE, residuals: Sequence[Residual]) -> np.ndarray:
    """Slopes of residuals in their unique jets at three random states and random points, (3, residuals, jets, PROBES)."""
    points, jets = problem.domain.interior(PROBES, seed=4, warp=False), unique_jets(residuals)
    rng = np.random.default_rng(5)
    out = np.zeros((3, len(residuals), len(jets), PROBES))
    for table in out:
        states = 1 + 0.5 * rng.uniform(-1, 1, (len(jets), PROBES))
        for rows, residual in zip(table, residuals, strict=True):
            places = [jets.index(jet) for jet in residual.jets]
            rows[places] = residual.linearize(points, states[places], problem.parameter_start).by_jet
    return out


def _slopes(
    problem: PDE, moving: Sequence[Residual], tops: Sequence[Jet]
) -> tuple[dict[Jet, np.ndarray], np.ndarray | None]:
    """The slopes of the rates by jet at all probes, (E, probes), and the inverse of the mass matrix where that is constant."""
    jets, table = unique_jets(moving), _probe(problem, moving)
    mass = table[:, :, [jets.index(top) for top in tops]]  # (3, E, E, probes)
    size = np.abs(mass).max()
    if np.ptp(mass, axis=0).max() > SAME * size:
        raise Unfit(
            "the equations must be affine in the highest time derivatives, with factors that depend on x and t alone"
        )
    matrices = np.moveaxis(mass[0], -1, 0)
    if not np.isfinite(matrices).all() or np.linalg.cond(matrices).max() > 1e10:
        raise Unfit("the equations must determine the highest time derivative of each unknown")
    inverses = np.linalg.inv(matrices)
    rates = np.concatenate(list(-np.einsum("pij,sjap->siap", inverses, table)), axis=-1)
    constant = np.ptp(matrices, axis=0).max() <= SAME * size
    return {jet: rates[:, a] for a, jet in enumerate(jets) if jet not in tops}, inverses[0] if constant else None


def _constraints(problem: PDE, still: Sequence[Residual], time: int) -> dict[Jet, np.ndarray]:
    """The equations without a time derivative; they must be linear, of constant coefficients and without a source."""
    points, jets = problem.domain.interior(PROBES, seed=4, warp=False), unique_jets(still)
    at_zero = [r.linearize(points, np.zeros((len(r.jets), PROBES)), problem.parameter_start).value for r in still]
    slopes = np.concatenate(list(_probe(problem, still)), axis=-1)
    if still and (
        np.ptp(slopes, axis=-1).max() > SAME or np.abs(at_zero).max() > SAME or any(a[time] for _, a in jets)
    ):
        raise Unfit("an equation without a time derivative must be linear, of constant coefficients, without a source")
    return {jet: slopes[:, a, 0] for a, jet in enumerate(jets)}


def _starts(problem: PDE, states: tuple[tuple[int, int], ...], time: int) -> tuple[tuple[Residual, int], ...]:
    """The initial condition of each state, in the order of states, and the place of the one jet that it is affine in."""
    found: dict[tuple[int, int], tuple[Residual, int]] = {}
    points = problem.domain.interior(PROBES, seed=4, warp=False)
    for block in (block for block in problem.conditions if block.kind == "initial"):
        given = affine_in_one(block.residual, points, problem)
        if given is None or sum(given.alpha) != given.alpha[time] or any(f.patches[0].keep for f in block.faces):
            raise Unfit("an initial condition must give one unknown or one of its time derivatives on all of space")
        state = (given.unknown, given.alpha[time])
        if state in found:
            raise Unfit("an initial condition must give each unknown once")
        found[state] = block.residual, given.place
    if set(found) != set(states):
        raise Unfit("there must be an initial condition for each unknown and each time derivative but the highest")
    return tuple(found[state] for state in states)
