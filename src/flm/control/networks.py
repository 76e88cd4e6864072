"""States as networks of their own, beside the control's: what the penalty method learns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flm.control.dynamics.simulation import gauss, grid
from flm.control.law import ControlLaw, space_products, time_waves
from flm.control.problem import OptimalControl

_ELEMENTS = 24  # of Gauss quadrature of the networks' own cost


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

    def __post_init__(self):
        for name in ("frequencies", "coefficients", "center", "scale"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), float))

    @classmethod
    def _unpack(cls, named: dict[str, np.ndarray]) -> StateNetworks:
        return cls(**named)  # type: ignore[arg-type]

    def coordinates(self, s: np.ndarray, v0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v and dv/ds, (P, R, d) each, at s (R,) or (P, R) from starts v0 (P, ...)."""
        z = (v0[:, : len(self.center)] - self.center) / self.scale
        values, slopes = [], []
        for frequencies, coefficients in zip(self.frequencies, self.coefficients, strict=True):
            products = space_products(z, frequencies[:, 1:])
            amplitudes = np.einsum("pni,nti->pnt", products, coefficients).reshape(len(z), -1, 1)
            values.append(time_waves(s, frequencies[:, 0]) @ amplitudes)
            slopes.append(time_waves(s, frequencies[:, 0], 1) @ amplitudes)
        return np.concatenate(values, axis=-1), np.concatenate(slopes, axis=-1)

    def cost(self, problem: OptimalControl, law: ControlLaw, v0: np.ndarray) -> np.ndarray:
        """The cost of these states and the law's controls, (P,)."""
        s, weights = _quadrature()
        v, _ = self.coordinates(s, v0)
        _, running = problem.evaluate(s, v, law.controls(s, v0))
        end, _ = self.coordinates(np.ones(1), v0)
        return running @ weights + problem.evaluate_end(end[:, 0])

    def residual(self, problem: OptimalControl, law: ControlLaw, v0: np.ndarray) -> np.ndarray:
        """The largest |dv/dt - f| of each start, (P,)."""
        s, _ = _quadrature()
        v, slope = self.coordinates(s, v0)
        rates, _ = problem.evaluate(s, v, law.controls(s, v0))
        return np.abs(slope - rates).max(axis=(1, 2)) / law.duration(v0)


def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Times (R,) and weights (R,) over [0, 1]."""
    s, width = grid(np.linspace(0.0, 1.0, _ELEMENTS + 1), 1)
    return s.ravel(), (width[..., None] * gauss().weights).ravel()
