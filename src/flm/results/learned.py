"""What was learned from readings: numbers, and functions of some of the axes, each with its standard error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from flm.series import legendre
from flm.wording import InputError, with_error

SHOWN = 101  # points along each axis at which a function is summarized


@dataclass(frozen=True)
class Parameter:
    """A learned parameter: its value, its standard error, and the correlations of its error with those of others."""

    value: float
    standard_error: float
    correlations: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def several(cls, values: Mapping[str, float], covariance: np.ndarray) -> dict[str, Parameter]:
        """Parameters by name from their values and the covariance of their errors, (Q, Q)."""
        errors, found = np.sqrt(np.diagonal(covariance)), {}
        sure = np.isfinite(errors).all() and bool(np.all(errors > 0))
        for i, (name, value) in enumerate(values.items()):
            shares = dict(zip(values, covariance[i] / (errors[i] * errors), strict=True)) if sure else {}
            found[name] = cls(value, float(errors[i]), {n: float(v) for n, v in shares.items() if n != name})
        return found

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return with_error(self.value, self.standard_error)

    def record(self) -> dict[str, object]:
        """The entry for this parameter in a file of results."""
        return {"value": self.value, "standard_error": self.standard_error, "correlations": dict(self.correlations)}


def field_table(points: np.ndarray, bounds: np.ndarray, shape: tuple[int, ...], alpha: tuple[int, ...]) -> np.ndarray:
    """D^alpha of products of Legendre functions that are orthonormal on a box: values at its points (P, m), (P, C)."""
    width = bounds[:, 1] - bounds[:, 0]
    z = 2 * (points - bounds[:, 0]) / width - 1
    table = np.ones((len(points), 1))
    for j, (n, a) in enumerate(zip(shape, alpha, strict=True)):
        own = legendre.table(z[:, j], n, a) * (2 / width[j]) ** a
        table = (table[:, :, None] * own[:, None, :]).reshape(len(points), table.shape[1] * n)
    return table


@dataclass(frozen=True, eq=False)
class LearnedFunction:
    """A learned function of some of a problem's axes, a sum of orthonormal Legendre functions, with its band.

    Call it, or `value`, with one array for each of `axes`; value ± 1.96 standard errors is its 95 % band, point by point.

    Example:
        >>> import numpy as np
        >>> from flm.results import LearnedFunction
        >>> line = LearnedFunction(("x",), np.array([[0.0, 1.0]]), np.array([2.0]), np.array([[0.01]]))
        >>> float(line(0.3)), round(float(line.standard_error(x=0.3)), 6)
        (2.0, 0.1)
    """

    axes: tuple[str, ...]
    bounds: np.ndarray  # (m, 2)
    coefficients: np.ndarray  # (n_1, ..., n_m)
    covariance: np.ndarray  # of all C coefficients, (C, C)

    def __post_init__(self) -> None:
        m, count = len(self.axes), int(np.size(self.coefficients))
        shapes = (np.shape(self.bounds), np.ndim(self.coefficients), self.covariance.shape)
        if shapes != ((m, 2), m, (count, count)):
            raise InputError(
                f"`coefficients` must have {m} axes and `covariance` be square; got shapes {np.shape(self.coefficients)} and "
                f"{np.shape(self.covariance)}."
            )

    def value(self, *places: npt.ArrayLike, **named: npt.ArrayLike) -> np.ndarray:
        """Values at places, one array for each axis, in order or by name."""
        grids = self._grids(places, named)
        return (self._table(grids) @ self.coefficients.ravel()).reshape(grids[0].shape)

    def standard_error(self, *places: npt.ArrayLike, **named: npt.ArrayLike) -> np.ndarray:
        """Standard errors of the values at places, given as in `value`."""
        grids = self._grids(places, named)
        table = self._table(grids)
        variance = np.sum((table @ self.covariance) * table, axis=1)
        return np.sqrt(np.maximum(variance, 0.0)).reshape(grids[0].shape)

    __call__ = value

    def _grids(self, places: tuple[npt.ArrayLike, ...], named: dict[str, npt.ArrayLike]) -> list[np.ndarray]:
        given = dict(zip(self.axes, places, strict=False)) | named
        if len(places) + len(named) != len(self.axes) or set(given) != set(self.axes):
            raise InputError(
                f"call with one array for each of {', '.join(self.axes)}; got {len(places)} and {sorted(named)}."
            )
        return list(np.broadcast_arrays(*(np.asarray(given[axis], float) for axis in self.axes)))

    def _table(self, grids: list[np.ndarray]) -> np.ndarray:
        points = np.stack([grid.ravel() for grid in grids], axis=1)
        inside = np.all((points >= self.bounds[:, 0]) & (points <= self.bounds[:, 1]), axis=1)
        table = field_table(points, self.bounds, self.coefficients.shape, (0,) * len(self.axes))
        return np.where(inside[:, None], table, np.nan)

    def record(self) -> dict[str, object]:
        """The entry for this function in a file of results: values on an even grid."""
        lines = [np.linspace(low, high, SHOWN if len(self.axes) == 1 else 21) for low, high in self.bounds]
        grids = np.meshgrid(*lines, indexing="ij")
        lined = dict(zip(self.axes, lines, strict=True))
        return {"axes": lined, "value": self.value(*grids), "standard_error": self.standard_error(*grids)}

    def __str__(self) -> str:
        found = self.record()
        values, errors = np.asarray(found["value"]), np.asarray(found["standard_error"])
        return (
            f"a function of {', '.join(self.axes)} from {values.min():.4g} to {values.max():.4g}, "
            f"standard error {errors.min():.2g} to {errors.max():.2g}"
        )
