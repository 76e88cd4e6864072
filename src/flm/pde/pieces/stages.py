"""Time within a slab: Radau nodes, their matrix diagonalized, and residuals that are read at one node.

On [0, 1] the s Radau nodes c_i end at 1; a polynomial of degree s that vanishes at 0 has the slopes A⁻¹ Y at the nodes, Y its
values there. A⁻¹ = V diag(λ) V⁻¹ turns s coupled problems in space into one for each λ; of each conjugate pair one is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from flm.language.arguments import Jet, Linearized
from flm.pde.pieces.fields import AnyResidual
from flm.series import legendre as line


@dataclass(frozen=True, eq=False)
class Radau:
    """The nodes of a slab of length one.

    Attributes:
        nodes: c, (s,).
        slopes: A⁻¹, (s, s).
        rates: λ, one of each conjugate pair, (M,).
        vectors: columns of V, twice for a pair, (s, M): Y is the real part of their sum.
        dual: the rows of V⁻¹ that belong to them, (M, s).
    """

    nodes: np.ndarray
    slopes: np.ndarray
    rates: np.ndarray
    vectors: np.ndarray
    dual: np.ndarray

    def to_legendre(self, order: int, dt: float) -> np.ndarray:
        """From `order` derivatives at the start and the last of them at the nodes to Legendre coefficients, (n, n).

        What is interpolated is the highest derivative that the slab hands on: a velocity, whose integral ends where the
        value does. Interpolated values would end with another velocity, and the march would be unstable.
        """
        n, last = len(self.nodes) + order, max(order - 1, 0)
        starts = [line.table(np.array([-1.0]), n, r) * (2 / dt) ** r for r in range(order)]
        return np.linalg.inv(np.concatenate([*starts, line.table(2 * self.nodes - 1, n, last) * (2 / dt) ** last]))


@lru_cache(maxsize=16)
def radau(s: int) -> Radau:
    """The rule with s nodes."""
    z = line.radau(s)
    everywhere = np.linalg.inv(line.values(np.concatenate([[-1.0], z]), s + 1))
    slopes = 2 * (line.table(z, s + 1, 1) @ everywhere)[:, 1:]
    rates, vectors = np.linalg.eig(slopes)
    dual, kept = np.linalg.inv(vectors), np.flatnonzero(np.imag(rates) >= 0)
    weights = np.where(np.imag(rates) > 0, 2.0, 1.0)
    return Radau((z + 1) / 2, slopes, rates[kept], (vectors * weights)[:, kept], dual[kept])


@dataclass(frozen=True, eq=False)
class InSpace:
    """A residual of space and time, the last axis, whose jets are read as derivatives in space alone."""

    residual: AnyResidual

    @property
    def jets(self) -> tuple[Jet, ...]:
        """The derivatives in space, one for each jet of the residual."""
        return tuple((k, alpha[:-1]) for k, alpha in self.residual.jets)

    @property
    def orders(self) -> np.ndarray:
        """How often each jet is differentiated in time, (A,)."""
        return np.array([alpha[-1] for _, alpha in self.residual.jets], int)

    def linearize(
        self, points: np.ndarray, jets: np.ndarray, parameters: np.ndarray, normals: np.ndarray
    ) -> Linearized:
        """The residual at points of space and time, (P, m)."""
        return self.residual.linearize(points, jets, parameters, normals)
