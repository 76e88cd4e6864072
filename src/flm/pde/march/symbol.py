"""The evolution in coefficients: the symbol of L for every wave, diagonalized, and N by transforms.

For the states c of one wave, c' = Λc + N. Where a pressure keeps a constraint Cc = 0, that is c' = P(Λc + N) with
P = I − B (CB)⁺ C, B the slopes of its gradient, and the pressure itself is −(CB)⁺ C (Λc + N). An unknown that follows from
a constraint Eq + Cc = 0 is q = −E⁺ C c. Blocks Λ whose eigenvectors are nearly parallel are left to N.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from flm.language.arguments import Jet
from flm.pde.march.recognize import Evolution
from flm.pde.march.sides import Unfit
from flm.pde.march.space import Space

AT_ONCE = 50_000  # points whose arrays stay in the cache
PARALLEL = 1e4  # condition of the eigenvectors from which a block is left to N


class Dynamics:
    """The evolution in the coefficients of one space.

    Args:
        evolution: what evolves.
        space: the series.
    """

    def __init__(self, evolution: Evolution, space: Space):
        self.evolution, self.space = evolution, space
        self.zero = (0,) * space.num_axes
        self.jets_by_state = [self._split(jet) for jet in evolution.passed]

    def _split(self, jet: Jet) -> tuple[int, tuple[int, ...]]:
        """Where the function of a jet is among states and then algebraic unknowns, and its space orders."""
        evolution = self.evolution
        state = (jet[0], jet[1][evolution.time])
        if jet[0] in evolution.algebraic:
            return len(evolution.states) + evolution.algebraic.index(jet[0]), evolution.along_space(jet)
        return evolution.states.index(state), evolution.along_space(jet)

    def _matrix(self, by_jet: dict[Jet, np.ndarray], rows: int) -> np.ndarray:
        """Slopes by jet as a matrix for each wave, (*shape, rows, states and algebraic unknowns)."""
        count = len(self.evolution.states) + len(self.evolution.algebraic)
        out = np.zeros((*self.space.shape, rows, count), complex if self.space.half is not None else float)
        for jet, slopes in by_jet.items():
            place, alpha = self._split(jet)
            symbol = self.space.symbol(alpha)
            if symbol is not None:
                out[..., place] += np.broadcast_to(symbol, self.space.shape)[..., None] * slopes
        return out

    @cached_property
    def _blocks(self) -> np.ndarray:
        """Λ and B side by side, (*shape, C, C + algebraic): rates of all states."""
        evolution = self.evolution
        tops, states = evolution.tops, evolution.states
        out = np.zeros((*self.space.shape, len(states), len(states) + len(evolution.algebraic)), self._dtype)
        out[..., list(tops), :] = self._matrix(evolution.linear, len(tops))
        for i, (k, d) in enumerate(states):
            if i not in tops:
                out[..., i, states.index((k, d + 1))] = 1.0
        return out

    @property
    def _dtype(self) -> type:
        return complex if self.space.half is not None else float

    @cached_property
    def follow(self) -> np.ndarray | None:
        """Q with q = Qc for unknowns that follow from their constraint; None without, or where they keep it."""
        if not self.evolution.algebraic or self._keeps:
            return None
        count = len(self.evolution.states)
        matrix = self._constraint
        return -np.linalg.pinv(matrix[..., count:], rcond=1e-12) @ matrix[..., :count]

    @cached_property
    def _constraint(self) -> np.ndarray:
        return self._matrix(self.evolution.constraints, len(self.evolution.algebraic))

    @cached_property
    def _keeps(self) -> bool:
        """Whether the algebraic unknowns are pressures: none of them is in a constraint."""
        evolution = self.evolution
        if any(jet[0] in evolution.algebraic for jet in evolution.constraints):
            return False
        if any(jet[0] in evolution.algebraic for jet in evolution.evaluated):
            raise Unfit("a pressure must enter by its gradient alone, with constant factors")
        return bool(evolution.algebraic)

    @cached_property
    def pressure(self) -> np.ndarray | None:
        """−(CB)⁺ C, by which a pressure follows from the rates without it."""
        if not self._keeps:
            return None
        count = len(self.evolution.states)
        divergence = self._constraint[..., :count]
        product = divergence @ self._blocks[..., count:]
        if np.abs(product).max() == 0:
            raise Unfit("the pressure's gradient must be what keeps the constraint")
        return -np.linalg.pinv(product, rcond=1e-12) @ divergence

    @cached_property
    def symbol(self) -> np.ndarray:
        """Λ for each wave, (*shape, C, C), with what follows from constraints put in."""
        count = len(self.evolution.states)
        own, other = self._blocks[..., :count], self._blocks[..., count:]
        if self.follow is not None:
            return own + other @ self.follow
        if self.pressure is None:
            return own
        equal = np.abs(own - own[..., :1, :1] * np.eye(count)).max() == 0
        return own if equal else own + other @ self.pressure @ own  # a multiple of I commutes with the projection

    def project(self, rates: np.ndarray) -> np.ndarray:
        """Rates of states (K, C, *shape) without what a pressure takes away."""
        if self.pressure is None:
            return rates
        count = len(self.evolution.states)
        away = self._blocks[..., count:] @ self.pressure
        return rates + np.einsum("...ij,kj...->ki...", away, rates)

    # --- diagonal ---------------------------------------------------------------------------------------------------

    @cached_property
    def _eigen(self) -> Eigen:
        symbol, states = self.symbol, self.evolution.states
        diagonal = np.diagonal(symbol, axis1=-2, axis2=-1)
        if np.abs(symbol - diagonal[..., None] * np.eye(len(states))).max() == 0:
            return Eigen(_rows(diagonal), None, None, None)
        # A velocity is larger than its state by a frequency, so that scaled blocks have eigenvectors of like size.
        size = np.sqrt(np.maximum(np.abs(symbol).max(axis=(-2, -1)), 1.0))
        scale = size[..., None] ** np.array([d for _, d in states])
        scaled = symbol / scale[..., :, None] * scale[..., None, :]
        rates, vectors = np.linalg.eig(scaled)
        bad = np.linalg.cond(vectors) > PARALLEL
        rates[bad], vectors[bad] = 0.0, np.eye(len(states))
        left = np.where(bad[..., None, None], symbol, 0.0) if bad.any() else None
        forward = np.linalg.inv(vectors) / scale[..., None, :]
        back = np.where(bad[..., None, None], np.eye(len(states)), vectors * scale[..., :, None])
        forward = np.where(bad[..., None, None], np.eye(len(states)), forward)
        return Eigen(_rows(rates), forward, back, left)

    @property
    def rates(self) -> np.ndarray:
        """Eigenvalues λ, (C, *shape)."""
        return self._eigen.rates

    def to_eigen(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients of states (..., C, *shape) along the eigenvectors."""
        return _apply(self._eigen.forward, coefficients)

    def from_eigen(self, coefficients: np.ndarray) -> np.ndarray:
        """The inverse of `to_eigen`; real where coefficients are."""
        found = _apply(self._eigen.back, coefficients)
        return found if self.space.half is not None else np.real(found)

    # --- the rest ---------------------------------------------------------------------------------------------------

    def forcing(self, states: np.ndarray, times: np.ndarray) -> np.ndarray | None:
        """N at states (K, C, *shape) and times (K,), in coefficients; None where there is nothing beside L."""
        left = self._eigen.left
        if not self.evolution.is_forced and left is None:
            return None
        out = np.zeros(states.shape, self._dtype)
        if self.evolution.is_forced:
            own = self.space.coefficients(self._rates_on_grid(states, times))
            out[:, list(self.evolution.tops)] = np.moveaxis(own, 0, 1)
            out = self.project(out)
        return out if left is None else out + np.einsum("...ij,kj...->ki...", left, states)

    def with_algebraic(self, states: np.ndarray) -> np.ndarray:
        """States and what follows from them, (K, C + algebraic, *shape); zeros for pressures."""
        if not self.evolution.algebraic:
            return states
        shape = (len(states), len(self.evolution.algebraic), *self.space.shape)
        more = (
            np.zeros(shape, states.dtype)
            if self.follow is None
            else np.einsum("...ij,kj...->ki...", self.follow, states)
        )
        return np.concatenate([states, more], axis=1)

    def unknowns(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        """All unknowns of the problem at states (K, C, *shape), (K, unknowns, *shape), pressures included."""
        evolution, every = self.evolution, self.with_algebraic(states)
        if self.pressure is not None:
            count = len(evolution.states)
            rates = np.einsum("...ij,kj...->ki...", self._blocks[..., :count], states)
            if evolution.is_forced:
                own = self.space.coefficients(self._rates_on_grid(states, times))
                rates[:, list(evolution.tops)] += np.moveaxis(own, 0, 1)
            every[:, count:] = np.einsum("...ij,kj...->ki...", self.pressure, rates)
        places = [
            len(evolution.states) + evolution.algebraic.index(k)
            if k in evolution.algebraic
            else evolution.states.index((k, 0))
            for k in range(len(evolution.problem.unknowns))
        ]
        return every[:, places]

    @cached_property
    def _lifted(self) -> list[np.ndarray | None]:
        """The lift's share of each passed jet on the grid."""
        evolution, mesh = self.evolution, np.meshgrid(*self.space.lines, indexing="ij")
        moved = [not evolution.lift or jet[1][evolution.time] > 0 for jet in evolution.passed]
        return [
            None if m else evolution.lift.jet(jet[0], evolution.along_space(jet), mesh)
            for m, jet in zip(moved, evolution.passed, strict=True)
        ]

    def _rates_on_grid(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        """N on the grid, (E, K, *grid)."""
        every, evolution = self.with_algebraic(states), self.evolution
        count, grid = len(states), self.space.grid
        values = np.zeros((len(evolution.passed), count, *grid))
        for i, (place, alpha) in enumerate(self.jets_by_state):
            if i < len(evolution.evaluated):
                values[i] = self.space.values(every[:, place], alpha)
            lifted = self._lifted[i]
            if lifted is not None:
                values[i] += lifted
        if count * np.prod(grid) <= AT_ONCE:
            return evolution.rates(self._coordinates(times), values)
        own = [evolution.rates(self._coordinates(times[[k]]), values[:, [k]]) for k in range(count)]
        return np.concatenate(own, axis=1)

    def _coordinates(self, times: np.ndarray) -> list[np.ndarray]:
        """Times (K, 1, ...) and the lines of the grid, which broadcast, in the order of the problem's axes."""
        every = np.meshgrid(times, *self.space.lines, indexing="ij", sparse=True)
        places = (self.evolution.time, *self.evolution.space)
        return [every[places.index(j)] for j in range(len(places))]

    def start(self) -> np.ndarray:
        """The states at the first time, (C, *shape), projected."""
        evolution = self.evolution
        points = self._all_points(evolution.span[0])
        mesh = np.meshgrid(*self.space.lines, indexing="ij")
        values = []
        for (k, d), given in zip(evolution.states, evolution.starts, strict=True):
            own = given.values(points, evolution.problem.parameter_start).reshape(self.space.grid)
            values.append(own - evolution.lift.jet(k, self.zero, mesh) if d == 0 else own)
        return self.project(self.space.coefficients(np.stack(values))[None])[0]

    def _all_points(self, time: float) -> np.ndarray:
        evolution = self.evolution
        mesh = np.meshgrid(*self.space.lines, indexing="ij")
        out = np.full((mesh[0].size, len(evolution.problem.axes)), time)
        for j, values in zip(evolution.space, mesh, strict=True):
            out[:, j] = values.ravel()
        return out


class Eigen:
    """λ, the change to eigenvectors and back where the symbol is not diagonal, and blocks that are left to N."""

    def __init__(self, rates: np.ndarray, forward: np.ndarray | None, back: np.ndarray | None, left: np.ndarray | None):
        self.rates, self.forward, self.back, self.left = rates, forward, back, left


def _rows(last: np.ndarray) -> np.ndarray:
    """(*shape, C) as (C, *shape), real where it is."""
    found = np.ascontiguousarray(np.moveaxis(last, -1, 0))
    return np.ascontiguousarray(np.real(found)) if not np.imag(found).any() else found


def _apply(matrices: np.ndarray | None, coefficients: np.ndarray) -> np.ndarray:
    return coefficients if matrices is None else np.einsum("...ij,kj...->ki...", matrices, coefficients)
