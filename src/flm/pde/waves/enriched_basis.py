"""A lattice basis with singular columns beside it."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from flm.pde.waves.basis import AbstractBasis, Alpha
from flm.pde.waves.enriched import EnrichedFLM, SingularFunctions
from flm.pde.waves.lattice_basis import LatticeBasis, Tables


class EnrichedBasis(AbstractBasis[tuple[Tables, np.ndarray]]):
    """The columns of a lattice, then those of corner and hole functions."""

    def __init__(self, lattice: LatticeBasis, singular: SingularFunctions):
        self.plain, self.singular = lattice, singular
        self.periods, self.domain = lattice.periods, lattice.domain

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return self.plain.num_columns + self.singular.count

    def tables(self, points: np.ndarray) -> tuple[Tables, np.ndarray]:
        """The lattice's tables and the points."""
        return self.plain.tables(points), points

    def combine(self, tables: tuple[Tables, np.ndarray], weights: dict[Alpha, np.ndarray], out: np.ndarray) -> None:
        """out (C, P) = sum over alpha of weight_alpha * D^alpha column."""
        table, points = tables
        self.plain.combine(table, weights, out[: self.plain.num_columns])
        out[self.plain.num_columns :] = sum(
            weight * self.singular.derivative(np, points, alpha) for alpha, weight in weights.items()
        )

    def evaluate(
        self, tables: tuple[Tables, np.ndarray], coefficients: np.ndarray, alphas: Sequence[Alpha]
    ) -> np.ndarray:
        """D^alpha of the sum of coefficients (C, K) times columns: (A, P, K)."""
        table, points = tables
        smooth, rough = np.split(coefficients, [self.plain.num_columns])
        extra = np.stack([self.singular.derivative(np, points, alpha).T @ rough for alpha in alphas])
        return self.plain.evaluate(table, smooth, alphas) + extra

    def model(self, coefficients: np.ndarray) -> EnrichedFLM:
        """The series part and the singular part as one model."""
        smooth, rough = np.split(coefficients, [self.plain.num_columns])
        return EnrichedFLM(self.plain.model(smooth), self.singular, jnp.asarray(rough))
