"""The columns of an FLM: what a fit asks of the functions in which it writes the unknown, and how they move with frequencies.

With z = 2 pi (x - center) / period, wave i of sub-network q has k = e_i * n_q and the columns cos(k . z), sin(k . z). With
u = sum C cos + S sin, moving a frequency component moves every jet:
d/dk_j [k^alpha trig(theta)] = alpha_j k^(alpha - e_j) trig(theta) + k^alpha z_j trig'(theta).
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from flm.domains import AbstractDomain
from flm.models import FLM
from flm.models.base import AbstractLinearModel, AbstractModel
from flm.series import sign_matrix
from flm.series.waves import quarter_turn

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
        """One per amplitude."""
        return len(self._model.coefficients)

    def columns(self, points: np.ndarray, alphas: Sequence[Alpha]) -> Iterator[np.ndarray]:
        """D^alpha of every column, (C, P) each."""
        return iter(np.swapaxes(np.asarray(self._model.basis(points, tuple(alphas))), 1, 2) if alphas else ())

    def model(self, coefficients: np.ndarray) -> AbstractLinearModel:
        """The model with these amplitudes (C, K)."""
        return self._model.with_coefficients(coefficients if self._model.num_outputs > 1 else coefficients[:, 0])


class WaveBasis(AbstractBasis):
    """Cosines and sines of N sub-networks.

    Args:
        domain: whose bounding box the period is measured in.
        frequencies: (N, m), of mapped inputs z.
        periods: of the frequency-1 wave in widths of the box, per axis, for a lattice: frequencies are then integers that stay,
            and waves that are equal are one. None for frequencies that are free, with z in [-1, 1].
    """

    def __init__(
        self, domain: AbstractDomain, frequencies: np.ndarray, periods: Sequence[float] | np.ndarray | None = None
    ):
        self.domain, self.is_lattice = domain, periods is not None
        self.frequencies = np.asarray(frequencies, float)
        self.periods = np.full(len(domain.axes), np.pi) if periods is None else np.asarray(periods, float)
        self.center = domain.bounds.mean(axis=1)
        self.scale = 2 * np.pi / (domain.width * self.periods)  # radians per unit of x
        self.signs = sign_matrix(len(domain.axes))
        every = (self.frequencies[:, None, :] * self.signs).reshape(-1, len(domain.axes))
        self.kept = np.arange(len(every))  # which of all waves are columns
        if self.is_lattice:
            leading = np.take_along_axis(every, (every != 0).argmax(axis=1)[:, None], axis=1)
            _, self.kept = np.unique(every * np.where(leading < 0, -1.0, 1.0) + 0.0, axis=0, return_index=True)
        self.waves = every[self.kept]
        self.has_sine = self.waves.any(axis=1) if self.is_lattice else np.ones(len(every), bool)

    @property
    def num_columns(self) -> int:
        """All cosines, then all sines; a constant has none."""
        return len(self.waves) + int(self.has_sine.sum())

    def _angles(self, points: np.ndarray) -> np.ndarray:
        return self.waves @ ((points - self.center) * self.scale).T  # (M, P)

    def _factor(self, alpha: Alpha) -> np.ndarray:
        return np.prod((self.waves * self.scale) ** np.array(alpha), axis=1)

    def _pair(self, coefficients: np.ndarray, order: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the cosines and of the sines, (M, ...) both, after so many derivatives."""
        sines = np.zeros((len(self.waves), *coefficients.shape[1:]))
        sines[self.has_sine] = coefficients[len(self.waves) :]
        return quarter_turn(coefficients[: len(self.waves)], sines, order)

    def columns(self, points: np.ndarray, alphas: Sequence[Alpha]) -> Iterator[np.ndarray]:
        """D^alpha of every cosine, then of every sine, (C, P) each."""
        angles = self._angles(points)
        cosine, sine = np.cos(angles), np.sin(angles)
        for alpha in alphas:
            factor = self._factor(alpha)[:, None]
            c, s = quarter_turn(cosine, sine, -sum(alpha))
            yield np.concatenate([factor * c, (factor * s)[self.has_sine]])

    def slopes(
        self, points: np.ndarray, coefficients: np.ndarray, weights: dict[Alpha, np.ndarray], out: np.ndarray
    ) -> None:
        """out (N m, P) += derivative by each free frequency of sum_alpha weight_alpha D^alpha u, one unknown."""
        count, m = self.frequencies.shape
        scaled, angles = self.waves * self.scale, self._angles(points)
        cosine, sine, z = np.cos(angles), np.sin(angles), (points - self.center) * self.scale
        for alpha, weight in weights.items():
            C, S = self._pair(coefficients, sum(alpha))
            value = C[:, None] * cosine + S[:, None] * sine  # trig(theta) of each wave
            slope = S[:, None] * cosine - C[:, None] * sine  # trig'(theta)
            for j in range(m):
                total = self._factor(alpha)[:, None] * slope * z[:, j]
                if alpha[j]:
                    lower = np.array(alpha)
                    lower[j] -= 1
                    rate = alpha[j] * self.scale[j] * np.prod(scaled**lower, axis=1)
                    total += rate[:, None] * value
                signed = (total * weight).reshape(count, -1, total.shape[1])
                out[j::m] += np.einsum("qip,i->qp", signed, self.signs[:, j])

    def model(self, coefficients: np.ndarray) -> FLM:
        """The FLM that these coefficients (C, K) make."""
        count, outputs = len(self.frequencies), coefficients.shape[1]
        model = FLM(
            self.domain,
            count,
            key=0,
            period=2 * np.pi / self.scale,
            num_outputs=outputs,
            frequencies=self.frequencies,
            train_frequencies=not self.is_lattice,
        )
        parts = np.zeros((2, count * len(self.signs), outputs))
        parts[:, self.kept] = self._pair(coefficients)
        whole = parts.reshape(-1, outputs)
        return model.with_coefficients(whole if outputs > 1 else whole[:, 0])
