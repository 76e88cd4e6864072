"""What a fit asks of the functions in which it writes the unknown: columns, their derivatives, and the model of a sum."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float

from flm.models.base import AbstractModel

Alpha = tuple[int, ...]  # how often each input is differentiated
Table = TypeVar("Table")


class AbstractBasis(abc.ABC, Generic[Table]):
    """Functions of points, called columns, whose weighted sum is the unknown; `Table` is what they need to know of points."""

    @property
    @abc.abstractmethod
    def num_columns(self) -> int:
        """C, the number of columns."""

    @abc.abstractmethod
    def tables(self, points: Float[np.ndarray, "P m"]) -> Table:
        """What `combine` and `evaluate` need at these points, made once."""

    @abc.abstractmethod
    def combine(
        self, tables: Table, weights: dict[Alpha, Float[np.ndarray, "P"]], out: Float[np.ndarray, "C P"]
    ) -> None:
        """Write sum over alpha of weight_alpha * D^alpha column into `out`: rows of a least-squares problem."""

    @abc.abstractmethod
    def evaluate(
        self, tables: Table, coefficients: Float[np.ndarray, "C K"], alphas: Sequence[Alpha]
    ) -> Float[np.ndarray, "A P K"]:
        """D^alpha of the sum of coefficients times columns."""

    @abc.abstractmethod
    def model(self, coefficients: Float[np.ndarray, "C K"]) -> AbstractModel:
        """The sum of coefficients times columns as a model."""


AnyBasis = AbstractBasis[Any]
