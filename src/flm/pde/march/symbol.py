"""The evolution in coefficients: the symbol of L for every wave, diagonalized, and N by transforms.

For the states c of one wave, c' = Λc + Bq + N with the unknowns q that have no time derivative. Where q follows from a constraint
Eq + Cc = 0 it is q = Qc, Q = −E⁺C. Where it is a pressure that enforces Cc = 0 it is q = R (Λc + N), R = −(CB)⁺C,
and P = I + BR projects: c' = P (Λ + BQ) c + PN in both cases. Blocks whose eigenvectors are nearly parallel are left to N.
"""

from __future__ import annotations

import numpy as np

from flm.language.arguments import Jet
from flm.pde.march.recognize import Evolution
from flm.pde.march.sides import Unfit
from flm.pde.march.space import FOURIER, Space

AT_ONCE = 50_000  # points whose arrays stay in the cache
PARALLEL = 1e4  # condition of the eigenvectors from which a block is left to N


class Dynamics:
    """The evolution in the coefficients of one space: the eigenvalues `rates` (C, *shape), and N where `is_forced`."""

    def __init__(self, evolution: Evolution, space: Space):
        self.evolution, self.space = evolution, space
        self.mesh = np.meshgrid(*space.lines, indexing="ij")
        self._sparse = np.meshgrid(*space.lines, indexing="ij", sparse=True)
        self.dtype = complex if space.half is not None else float
        self.count, self.tops = len(evolution.states), evolution.tops
        # States come first, then unknowns without a time derivative.
        self.places = {state: i for i, state in enumerate((*evolution.states, *((k, 0) for k in evolution.algebraic)))}
        blocks = np.zeros((self.count, len(self.places), *space.shape), self.dtype)
        blocks[self.tops] = self._matrix(evolution.linear, len(self.tops))
        for i, (k, d) in enumerate(evolution.states):
            if i not in self.tops:
                blocks[i, self.places[k, d + 1]] = 1.0
        self._blocks = blocks
        self._eliminate(blocks[:, self.count :])
        self._diagonalize(self._symbol(blocks[:, : self.count], blocks[:, self.count :]))
        self.is_forced = evolution.is_forced or self._left is not None
        # Jets that share one transform: their numbers by whether they are odd along the axes of sines and cosines.
        self._groups: dict[tuple[int, ...], list[int]] = {}
        for i, jet in enumerate(evolution.evaluated):
            odd = np.mod(evolution.along_space(jet), 2) * (np.array(space.kinds) != FOURIER)
            self._groups.setdefault(tuple(odd), []).append(i)
        self._symbols = {
            odd: np.stack([space.symbol(evolution.along_space(evolution.evaluated[i])) for i in jets])
            for odd, jets in self._groups.items()
        }
        self._lifted = None
        if evolution.lift.any():
            self._lifted = np.stack([evolution.lifted(jet, self.mesh) for jet in evolution.passed])

    def _matrix(self, by_jet: dict[Jet, np.ndarray], rows: int) -> np.ndarray:
        """Slopes by jet as a matrix for each wave, (rows, states and algebraic unknowns, *shape)."""
        out = np.zeros((rows, len(self.places), *self.space.shape), self.dtype)
        for jet, slopes in by_jet.items():
            symbol = self.space.symbol(self.evolution.along_space(jet))
            out[:, self.places[jet[0], jet[1][self.evolution.time]]] += np.multiply.outer(slopes, symbol)
        return out

    def _eliminate(self, gradient: np.ndarray) -> None:
        """Q, R and P − I = BR, (rows, columns, *shape), of unknowns without a time derivative; None where they are zero."""
        self._follow = self._pressure = self._away = None
        algebraic = self.evolution.algebraic
        if not algebraic:
            return
        constraint = self._matrix(self.evolution.constraints, len(algebraic))
        known = constraint[:, : self.count]
        if any(jet[0] in algebraic for jet in self.evolution.constraints):
            self._follow = -_product(_inverse(constraint[:, self.count :]), known)
            return
        if any(jet[0] in algebraic for jet in self.evolution.evaluated):
            raise Unfit("a pressure must enter by its gradient alone, with constant factors")
        kept = _product(known, gradient)
        if not kept.any():
            raise Unfit("the pressure's gradient must be what enforces the constraint")
        self._pressure = -_product(_inverse(kept), known)
        self._away = _product(gradient, self._pressure)

    def _symbol(self, own: np.ndarray, other: np.ndarray) -> np.ndarray:
        """P (Λ + BQ) for each wave, (C, C, *shape)."""
        if self._follow is not None:
            return own + _product(other, self._follow)
        diagonal = np.eye(self.count).reshape(self.count, self.count, *(1,) * self.space.num_axes)
        if self._away is None or not (own - own[:1, :1] * diagonal).any():  # a multiple of I commutes with P
            return own
        return own + _product(self._away, own)

    def _diagonalize(self, symbol: np.ndarray) -> None:
        """λ, the change to eigenvectors and back where the symbol is not diagonal, and blocks that are left to N."""
        self._forward = self._back = self._left = None
        blocks, eye = np.moveaxis(symbol, (0, 1), (-2, -1)), np.eye(self.count)
        diagonal = np.diagonal(blocks, axis1=-2, axis2=-1)
        if not (blocks - diagonal[..., None] * eye).any():
            self.rates = _real_if_close(np.moveaxis(diagonal, -1, 0))
            return
        # A velocity is larger than its state by a frequency, so that scaled blocks have eigenvectors of like size.
        size = np.sqrt(np.maximum(np.abs(blocks).max(axis=(-2, -1)), 1.0))
        scale = size[..., None] ** np.array([d for _, d in self.evolution.states])
        rates, vectors = np.linalg.eig(blocks / scale[..., :, None] * scale[..., None, :])
        bad = np.linalg.cond(vectors) > PARALLEL
        rates[bad], vectors[bad], scale[bad] = 0.0, eye, 1.0
        self.rates = _real_if_close(np.moveaxis(rates, -1, 0))
        self._forward = _first(np.linalg.inv(vectors) / scale[..., None, :])
        self._back = _first(vectors * scale[..., :, None])
        self._left = _first(np.where(bad[..., None, None], blocks, 0.0)) if bad.any() else None

    def to_eigen(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients of states (K, C, *shape) along the eigenvectors."""
        return coefficients if self._forward is None else _apply(self._forward, coefficients)

    def from_eigen(self, coefficients: np.ndarray) -> np.ndarray:
        """The inverse of `to_eigen`; real where coefficients are."""
        found = coefficients if self._back is None else _apply(self._back, coefficients)
        return found if self.space.half is not None else np.real(found)

    # --- the rest ---------------------------------------------------------------------------------------------------

    def forcing(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        """N at states (K, C, *shape) and times (K,), in coefficients, less what a pressure takes away."""
        out = self._nonlinear(states, times)
        if self._away is not None:
            out += _apply(self._away, out)
        if self._left is not None:
            out += _apply(self._left, states)
        return out

    def unknowns(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        """All unknowns of the problem at states (K, C, *shape), (K, unknowns, *shape), pressures included."""
        every = self._with_algebraic(states)
        if self._pressure is not None:
            rates = _apply(self._blocks[:, : self.count], states) + self._nonlinear(states, times)
            every[:, self.count :] = _apply(self._pressure, rates)
        return every[:, [self.places[k, 0] for k in range(len(self.evolution.problem.unknowns))]]

    def _with_algebraic(self, states: np.ndarray) -> np.ndarray:
        """States and the unknowns that follow from them, (K, C + algebraic, *shape); zeros for pressures."""
        if not self.evolution.algebraic:
            return states
        every = np.zeros((len(states), len(self.places), *self.space.shape), states.dtype)
        every[:, : self.count] = states
        if self._follow is not None:
            every[:, self.count :] = _apply(self._follow, states)
        return every

    def _nonlinear(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        """N in coefficients, (K, C, *shape), computed for some nodes at a time."""
        out = np.zeros(states.shape, self.dtype)
        if self.evolution.is_forced:
            every, count = self._with_algebraic(states), max(AT_ONCE // int(np.prod(self.space.grid)), 1)
            for i in range(0, len(states), count):
                now = slice(i, i + count)
                own = self.space.coefficients(self._rates_on_grid(every[now], times[now]))
                out[now, self.tops] = np.moveaxis(own, 0, 1)
        return out

    def _rates_on_grid(self, every: np.ndarray, times: np.ndarray) -> np.ndarray:
        """N on the grid, (E, K, *grid)."""
        evolution = self.evolution
        values = np.zeros((len(evolution.passed), len(every), *self.space.grid))
        for odd, jets in self._groups.items():
            places = [self.places[k, alpha[evolution.time]] for k, alpha in (evolution.evaluated[i] for i in jets)]
            values[jets] = np.moveaxis(self.space.values(every[:, places] * self._symbols[odd], odd), 1, 0)
        if self._lifted is not None:
            values += self._lifted[:, None]
        coordinates = list(self._sparse)
        coordinates.insert(evolution.time, times.reshape(-1, *(1,) * self.space.num_axes))
        return evolution.rates(coordinates, values)

    def start(self) -> np.ndarray:
        """The states at the first time, (C, *shape), projected."""
        evolution = self.evolution
        points = np.full((self.mesh[0].size, len(evolution.problem.axes)), evolution.span[0])
        points[:, list(evolution.space)] = np.stack([x.ravel() for x in self.mesh], axis=1)
        values = []
        for (residual, place), state in zip(evolution.starts, evolution.states, strict=True):
            zero = np.zeros((len(residual.jets), len(points)))
            at = residual.linearize(points, zero, evolution.problem.parameter_start)
            given = np.reshape(-at.value / at.by_jet[place], self.space.grid)
            values.append(given - evolution.lifted(evolution.jet(*state), self.mesh))
        found = self.space.coefficients(np.stack(values))
        return found if self._away is None else found + _apply(self._away, found[None])[0]


def _first(last: np.ndarray) -> np.ndarray:
    """Matrices (*shape, i, j) as (i, j, *shape)."""
    return np.ascontiguousarray(np.moveaxis(last, (-2, -1), (0, 1)))


def _real_if_close(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array if np.imag(array).any() else np.real(array))


def _inverse(matrices: np.ndarray) -> np.ndarray:
    return _first(np.linalg.pinv(np.moveaxis(matrices, (0, 1), (-2, -1)), rcond=1e-12))


def _product(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return np.einsum("ij...,jk...->ik...", one, two)


def _apply(matrices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """A matrix for each wave, (i, j, *shape), times vectors (K, j, *shape)."""
    return np.einsum("ij...,kj...->ki...", matrices, coefficients)
