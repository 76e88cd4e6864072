"""The interface of the functions in which a fit writes the unknown."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from flm.models.base import AbstractLinearModel, AbstractModel

Alpha = tuple[int, ...]  # how often each input is differentiated
BLOCK = 512  # points whose columns are made at once


class AbstractBasis(abc.ABC):
    """Functions of points, called columns, whose weighted sum is the unknown."""

    @property
    @abc.abstractmethod
    def num_columns(self) -> int:
        """C, the number of columns."""

    @abc.abstractmethod
    def columns(self, points: Float[np.ndarray, "P m"], alphas: Sequence[Alpha]) -> Iterator[Float[np.ndarray, "C P"]]:
        """D^alpha of every column, one alpha after the other."""

    @abc.abstractmethod
    def model(self, coefficients: Float[np.ndarray, "C K"]) -> AbstractModel:
        """The sum of coefficients times columns as a model."""

    def combine(
        self, points: Float[np.ndarray, "P m"], weights: dict[Alpha, Float[np.ndarray, "P"]], out: np.ndarray
    ) -> None:
        """Write sum over alpha of weight_alpha * D^alpha column into `out` (C, P): rows of a least-squares problem."""
        out[...] = 0.0
        for start in range(0, len(points), BLOCK):
            rows = slice(start, start + BLOCK)
            found = self.columns(points[rows], tuple(weights))
            for weight, column in zip(weights.values(), found, strict=True):
                out[:, rows] += column * weight[rows]

    def evaluate(
        self, points: Float[np.ndarray, "P m"], coefficients: Float[np.ndarray, "C K"], alphas: Sequence[Alpha]
    ) -> Float[np.ndarray, "A P K"]:
        """D^alpha of the sum of coefficients times columns."""
        out = np.empty((len(alphas), len(points), coefficients.shape[1]))
        for start in range(0, len(points), BLOCK):
            rows = slice(start, start + BLOCK)
            for a, column in enumerate(self.columns(points[rows], alphas)):
                out[a, rows] = column.T @ coefficients
        return out


class ModelColumns(AbstractBasis):
    """The columns of a linear model."""

    def __init__(self, model: AbstractLinearModel):
        self._model = model

    @property
    def num_columns(self) -> int:
        """The number of columns, one per amplitude."""
        return len(self._model.coefficients)

    def columns(self, points: np.ndarray, alphas: Sequence[Alpha]) -> Iterator[np.ndarray]:
        """D^alpha of every column, (C, P) each."""
        return iter(np.swapaxes(np.asarray(self._model.basis(points, tuple(alphas))), 1, 2) if alphas else ())

    def model(self, coefficients: np.ndarray) -> AbstractLinearModel:
        """The model with these amplitudes (C, K)."""
        return self._model.with_coefficients(coefficients if self._model.num_outputs > 1 else coefficients[:, 0])
