"""The columns of an FLM: what a fit asks of the functions in which it writes the unknown, and how they move with frequencies.

With z = 2 pi (x - center) / period, wave i of sub-network q has k = e_i * n_q and the columns cos(k . z), sin(k . z). With
u = sum C cos + S sin, moving a frequency component moves every jet:
d/dk_j [k^alpha trig(theta)] = alpha_j k^(alpha - e_j) trig(theta) + k^alpha z_j trig'(theta).
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from flm.domains import AbstractDomain
from flm.models import FLM
from flm.models.base import AbstractModel
from flm.series import sign_matrix
from flm.series.waves import quarter_turn

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


class WaveTable(NamedTuple):
    """Mapped points z (P, m), and cos and sin of every wave there (M, P)."""

    z: np.ndarray
    cosine: np.ndarray
    sine: np.ndarray


class WaveBasis(AbstractBasis[WaveTable]):
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

    def tables(self, points: np.ndarray) -> WaveTable:
        """cos and sin of every wave at points."""
        z = (points - self.center) * self.scale
        angle = self.waves @ z.T
        return WaveTable(z, np.cos(angle), np.sin(angle))

    def _factor(self, alpha: Alpha) -> np.ndarray:
        return np.prod((self.waves * self.scale) ** np.array(alpha), axis=1)

    def _pair(self, coefficients: np.ndarray, order: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the cosines and of the sines, (M, ...) both, after so many derivatives."""
        sines = np.zeros((len(self.waves), *coefficients.shape[1:]))
        sines[self.has_sine] = coefficients[len(self.waves) :]
        return quarter_turn(coefficients[: len(self.waves)], sines, order)

    def combine(self, tables: WaveTable, weights: dict[Alpha, np.ndarray], out: np.ndarray) -> None:
        """out (C, P) = sum over alpha of weight_alpha * D^alpha column."""
        half = len(self.waves)
        out[...] = 0.0
        for alpha, weight in weights.items():
            factor = self._factor(alpha)[:, None] * weight
            (cc, cs), (sc, ss) = quarter_turn(1, 0, sum(alpha)), quarter_turn(0, 1, sum(alpha))
            out[:half] += factor * (cc * tables.cosine if cc else cs * tables.sine)
            out[half:] += (factor * (sc * tables.cosine if sc else ss * tables.sine))[self.has_sine]

    def evaluate(self, tables: WaveTable, coefficients: np.ndarray, alphas: Sequence[Alpha]) -> np.ndarray:
        """D^alpha of the sum of coefficients (C, K) times columns: (A, P, K)."""
        out = np.empty((len(alphas), len(tables.z), coefficients.shape[1]))
        for a, alpha in enumerate(alphas):
            C, S = self._pair(coefficients, sum(alpha))
            factor = self._factor(alpha)[:, None]
            out[a] = tables.cosine.T @ (factor * C) + tables.sine.T @ (factor * S)
        return out

    def slopes(
        self, tables: WaveTable, coefficients: np.ndarray, weights: dict[Alpha, np.ndarray], out: np.ndarray
    ) -> None:
        """out (N m, P) += derivative by each free frequency of sum_alpha weight_alpha D^alpha u, one unknown."""
        count, m = self.frequencies.shape
        scaled = self.waves * self.scale
        for alpha, weight in weights.items():
            C, S = self._pair(coefficients, sum(alpha))
            value = C[:, None] * tables.cosine + S[:, None] * tables.sine  # trig(theta) of each wave
            slope = S[:, None] * tables.cosine - C[:, None] * tables.sine  # trig'(theta)
            for j in range(m):
                total = self._factor(alpha)[:, None] * slope * tables.z[:, j]
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
        C, S = np.zeros((2, count * len(self.signs), outputs))
        C[self.kept], S[self.kept] = self._pair(coefficients)
        shape = model.amplitudes.shape
        parts = (jnp.asarray(np.hypot(C, S)).reshape(shape), jnp.asarray(np.arctan2(S, C)).reshape(shape))
        return eqx.tree_at(lambda f: (f.amplitudes, f.phases), model, parts)


def lattice_set(sizes: Sequence[float], power: float) -> np.ndarray:
    """Points k of N_0^m with sum_j (k_j / (sizes_j - 1/2))^power <= 1: 1 total degree, 2 Euclidean, inf a box.

    Along axis j alone, sizes_j points: k_j = 0 ... sizes_j - 1.
    """
    reach = np.maximum(np.asarray(sizes, float) - 0.5, 0.5)
    lines = [np.arange(int(np.floor(r)) + 1) for r in reach]
    if np.isinf(power):
        return np.array(np.meshgrid(*lines, indexing="ij")).reshape(len(lines), -1).T
    points, used = np.zeros((1, 0), int), np.zeros(1)
    for line, r in zip(lines, reach, strict=True):
        total = used[:, None] + (line / r)[None, :] ** power
        i, k = np.nonzero(total <= 1.0)
        points, used = np.concatenate([points[i], line[k][:, None]], axis=1), total[i, k]
    return points
