"""The columns of an FLM whose frequencies are anywhere, and how they change with the frequencies.

On z in [-1, 1]^m, wave i of sub-network q has k = e_i * n_q and the columns cos(k . z), sin(k . z). With
u = sum C cos + S sin, moving a frequency component moves every jet:
d/dk_j [k^alpha trig(theta)] = alpha_j k^(alpha - e_j) trig(theta) + k^alpha z_j trig'(theta).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from flm.domains import AbstractDomain
from flm.models import FLM
from flm.pde.waves.basis import AbstractBasis, Alpha
from flm.series import sign_matrix
from flm.series.waves import quarter_turn


class Table(NamedTuple):
    """Points on [-1, 1]^m (P, m), and cos and sin of every wave there (M, P)."""

    z: np.ndarray
    cosine: np.ndarray
    sine: np.ndarray


class FreeBasis(AbstractBasis[Table]):
    """Cosines and sines of N sub-networks at given frequencies.

    Args:
        domain: its bounding box is mapped to z in [-1, 1]^m.
        frequencies: (N, m), in radians per unit of z.
    """

    def __init__(self, domain: AbstractDomain, frequencies: np.ndarray):
        self.domain = domain
        self.frequencies = np.asarray(frequencies, float)
        self.center, self.scale = domain.bounds.mean(axis=1), 2 / (domain.bounds[:, 1] - domain.bounds[:, 0])

    @cached_property
    def waves(self) -> np.ndarray:
        """k of every wave, (N l, m)."""
        return (self.frequencies[:, None, :] * self.signs).reshape(-1, self.signs.shape[1])

    @cached_property
    def signs(self) -> np.ndarray:
        """The sign matrix."""
        return sign_matrix(self.frequencies.shape[1])

    @property
    def num_columns(self) -> int:
        """2^m columns per sub-network: all cosines, then all sines."""
        return 2 * len(self.waves)

    def tables(self, points: np.ndarray) -> Table:
        """cos and sin of every wave at points."""
        z = (points - self.center) * self.scale
        angle = self.waves @ z.T
        return Table(z, np.cos(angle), np.sin(angle))

    def _factor(self, alpha: Alpha) -> np.ndarray:
        return np.prod((self.waves * self.scale) ** np.array(alpha), axis=1)

    def combine(self, tables: Table, weights: dict[Alpha, np.ndarray], out: np.ndarray) -> None:
        """out (C, P) = sum over alpha of weight_alpha * D^alpha column."""
        half = len(self.waves)
        out[...] = 0.0
        for alpha, weight in weights.items():
            factor = self._factor(alpha)[:, None] * weight
            (cc, cs), (sc, ss) = quarter_turn(1, 0, sum(alpha)), quarter_turn(0, 1, sum(alpha))
            out[:half] += factor * (cc * tables.cosine + cs * tables.sine)
            out[half:] += factor * (sc * tables.cosine + ss * tables.sine)

    def evaluate(self, tables: Table, coefficients: np.ndarray, alphas: Sequence[Alpha]) -> np.ndarray:
        """D^alpha of the sum of coefficients (C, K) times columns: (A, P, K)."""
        half = len(self.waves)
        out = np.empty((len(alphas), len(tables.z), coefficients.shape[1]))
        for a, alpha in enumerate(alphas):
            C, S = quarter_turn(coefficients[:half], coefficients[half:], sum(alpha))
            factor = self._factor(alpha)[:, None]
            out[a] = tables.cosine.T @ (factor * C) + tables.sine.T @ (factor * S)
        return out

    def slopes(
        self, tables: Table, coefficients: np.ndarray, weights: dict[Alpha, np.ndarray], out: np.ndarray
    ) -> None:
        """out (N m, P) += derivative by each frequency component of sum_alpha weight_alpha D^alpha u, one unknown."""
        half = len(self.waves)
        count, m = self.frequencies.shape
        for alpha, weight in weights.items():
            C, S = quarter_turn(coefficients[:half], coefficients[half:], sum(alpha))
            value = C[:, None] * tables.cosine + S[:, None] * tables.sine  # trig(theta) of each wave
            slope = S[:, None] * tables.cosine - C[:, None] * tables.sine  # trig'(theta)
            scaled = self.waves * self.scale
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
        """The FLM that these coefficients (C, K) make; its mapped inputs are z."""
        count, _ = self.frequencies.shape
        outputs = coefficients.shape[1]
        model = FLM(
            self.domain, count, key=0, period=2 * np.pi / self.scale, num_outputs=outputs, frequencies=self.frequencies
        )
        C, S = (part.reshape(count, -1, outputs) for part in np.split(coefficients, 2))
        shape = model.amplitudes.shape
        parts = (jnp.asarray(np.hypot(C, S)).reshape(shape), jnp.asarray(np.arctan2(S, C)).reshape(shape))
        return eqx.tree_at(lambda f: (f.amplitudes, f.phases), model, parts)
