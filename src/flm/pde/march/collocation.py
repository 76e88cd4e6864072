"""Exponential collocation: u' = λu + N on a window, exact for λ and a polynomial in time for N.

With nodes s_m on [0, 1] and z = hλ, variation of constants for N interpolated at the nodes is

    u(s_m) = e^{z s_m} u(0) + h Σ_j w_mj(z) N(s_j),    w_mj(z) = ∫_0^{s_m} e^{z (s_m − s)} ℓ_j(s) ds.

Nodes are Chebyshev–Lobatto points, so that a window holds its own start and end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from flm.series import legendre

STIFF = 40.0  # |z| from which the closed form of the weights loses no digits; below, 40 Gauss nodes integrate exactly
GAUSS = 40
CACHED = 6  # tables of weights that are kept: steps double and halve


@dataclass
class Collocation:
    """Nodes, weights and what follows from them for one number of nodes.

    Args:
        num_nodes: of a window, start and end included; the order in time.
    """

    num_nodes: int
    tables: dict[tuple[int, float], Propagator] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> np.ndarray:
        """s_m, increasing from 0 to 1."""
        return (1 - np.cos(np.pi * np.arange(self.num_nodes) / (self.num_nodes - 1))) / 2

    @cached_property
    def to_legendre(self) -> np.ndarray:
        """From values at the nodes to coefficients of orthonormal Legendre functions on the window."""
        return np.linalg.inv(legendre.values(2 * self.nodes - 1, self.num_nodes))

    def at(self, s: np.ndarray) -> np.ndarray:
        """ℓ_j(s), (len(s), K): from values at the nodes to values of their polynomial elsewhere."""
        return legendre.values(2 * np.asarray(s) - 1, self.num_nodes) @ self.to_legendre

    @cached_property
    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """From values at the nodes to those at the nodes of the first and of the second half of the window."""
        return self.at(self.nodes / 2), self.at((1 + self.nodes) / 2)

    def last(self, values: np.ndarray) -> np.ndarray:
        """The last two coefficients in time, of values (K, ...): what the polynomial leaves out is of their size."""
        return np.tensordot(self.to_legendre[-2:], values, (1, 0))

    def propagator(self, rates: np.ndarray, step: float) -> Propagator:
        """Exponentials and weights for rates λ and a step h; some tables are kept."""
        key = (id(rates), step)
        if key not in self.tables:
            while len(self.tables) >= CACHED:
                self.tables.pop(next(iter(self.tables)))
            self.tables[key] = self._propagator(rates, step)
        self.tables[key] = self.tables.pop(key)  # the last one used goes last
        return self.tables[key]

    def _propagator(self, rates: np.ndarray, step: float) -> Propagator:
        z, place = np.unique(step * rates, return_inverse=True)
        place = place.reshape(rates.shape)
        exponentials = np.exp(self.nodes[:, None] * z)
        weights = np.zeros((self.num_nodes, self.num_nodes, len(z)), z.dtype)
        stiff = np.abs(z) > STIFF
        weights[:, :, stiff], weights[:, :, ~stiff] = self._stiff(z[stiff]), self._mild(z[~stiff])
        return Propagator(rates, exponentials[:, place], step * weights[:, :, place])

    def _mild(self, z: np.ndarray) -> np.ndarray:
        """The integrals by Gauss's rule on [0, s_m]."""
        x, g = legendre.gauss(GAUSS)
        out = np.zeros((self.num_nodes, self.num_nodes, len(z)), z.dtype)
        for m, s in enumerate(self.nodes[1:], 1):
            there = s * (x + 1) / 2
            out[m] = s * (g[:, None] * self.at(there)).T @ np.exp((s - there)[:, None] * z)
        return out

    def _stiff(self, z: np.ndarray) -> np.ndarray:
        """q' − zq = ℓ_j has the polynomial solution q = −Σ_i ℓ_j^(i) / z^(i+1); the weight is q(s_m) − e^{z s_m} q(0)."""
        ends = 2 * self.nodes - 1
        q = np.zeros((self.num_nodes, self.num_nodes, len(z)), z.dtype)
        for i in range(self.num_nodes):
            derivative = 2.0**i * legendre.table(ends, self.num_nodes, i) @ self.to_legendre
            q -= derivative[:, :, None] / z ** (i + 1)
        return q - np.exp(self.nodes[:, None] * z)[:, None] * q[:1]


@dataclass(frozen=True)
class Propagator:
    """e^{z s_m}, (K, ...), and h w_mj(z), (K, K, ...), for all rates of a symbol; the rates keep their identity alive."""

    rates: np.ndarray
    exponentials: np.ndarray
    weights: np.ndarray

    def __call__(self, start: np.ndarray, forcing: np.ndarray | None) -> np.ndarray:
        """u at the nodes, (K, ...), from u at the start and N at the nodes."""
        out = self.exponentials * start
        if forcing is not None:
            for j, own in enumerate(forcing):
                out = out + self.weights[:, j] * own
        return out
