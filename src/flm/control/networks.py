"""States as networks of their own, beside the control's: what the penalty method learns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from flm.control.law import ControlLaw, space_products

_ELEMENTS, _NODES = 24, 8  # Gauss quadrature of the networks' own cost


@dataclass(frozen=True, eq=False)
class StateNetworks:
    """Series v_i(s, z) for the independent coordinates of the state.

    Args:
        frequencies: (d, N, 1 + D), radians per unit of normalized time and start (D varying coordinates).
        coefficients: Separable form, (d, N, 2, 2^D).
        center: Of the start, (D,).
        scale: Of the start, (D,).
        penalties: (μ₁, μ₂), the weights of dynamics and initial state.
    """

    frequencies: np.ndarray
    coefficients: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    penalties: tuple[float, float]

    @property
    def num_parameters(self) -> int:
        """Frequencies, amplitudes and phases."""
        return self.frequencies.size + self.coefficients.size

    @classmethod
    def _unpack(cls, fields: dict) -> "StateNetworks":
        return cls(**fields)

    def coordinates(self, s: np.ndarray, v0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v and dv/ds, (P, R, d) each, at s (R,) or (P, R) from starts v0 (P, ...)."""
        z = (v0[:, : len(self.center)] - self.center) / self.scale
        values, slopes = [], []
        for frequencies, coefficients in zip(self.frequencies, self.coefficients, strict=True):
            products = space_products(z, frequencies[:, 1:])
            amplitudes = np.einsum("pni,nti->pnt", products, coefficients)  # (P, N, 2)
            angle = np.asarray(s, float)[..., None] * frequencies[:, 0]
            cos, sin = np.cos(angle), np.sin(angle)
            a, b = amplitudes[:, :, 0, None], amplitudes[:, :, 1, None]
            values.append((cos @ a + sin @ b)[..., 0])
            slopes.append(((cos * frequencies[:, 0]) @ b - (sin * frequencies[:, 0]) @ a)[..., 0])
        return np.stack(values, axis=-1), np.stack(slopes, axis=-1)

    def states(self, problem: Any, s: np.ndarray, v0: np.ndarray) -> np.ndarray:
        """All states (P, R, n)."""
        return problem.starts.lift(self.coordinates(s, v0)[0])

    def cost(self, problem: Any, law: ControlLaw, v0: np.ndarray) -> np.ndarray:
        """The cost of these states and the law's controls, (P,)."""
        s, weights = _quadrature()
        v = self.coordinates(s, v0)[0]
        _, running = problem.evaluate(s, v, law.controls(s, v0))
        return running @ weights + problem.evaluate_end(self.coordinates(np.ones(1), v0)[0][:, 0])

    def residual(self, problem: Any, law: ControlLaw, v0: np.ndarray) -> np.ndarray:
        """The largest |dv/dt - f| of each start, (P,)."""
        s, _ = _quadrature()
        v, slope = self.coordinates(s, v0)
        rates, _ = problem.evaluate(s, v, law.controls(s, v0))
        return np.abs(slope - rates).max(axis=(1, 2)) / law.duration(v0)


def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    x, weights = np.polynomial.legendre.leggauss(_NODES)
    s = ((np.arange(_ELEMENTS)[:, None] + (x + 1) / 2) / _ELEMENTS).ravel()
    return s, np.tile(weights / 2 / _ELEMENTS, _ELEMENTS)
