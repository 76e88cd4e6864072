"""A fitted spectrum: the lines A cos(k.x - phi) with their standard errors, in the units of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Lines A cos(k.x - phi), one row each, strongest first; several outputs on a last axis.

    Attributes:
        frequency: k in radians per unit of x, (L, m).
        period: 2 pi / |k_j| per feature, infinite where k_j = 0, (L, m).
        amplitude: A >= 0, (L,) or (L, K).
        phase: phi in (-pi, pi], (L,) or (L, K).
        frequency_error, period_error, amplitude_error, phase_error: standard errors, of the same shapes. Those of
            frequencies are zero where the frequencies were not fitted (a lattice, or given ones).
        feature_names: names of the m features.
    """

    frequency: np.ndarray
    period: np.ndarray
    amplitude: np.ndarray
    phase: np.ndarray
    frequency_error: np.ndarray
    period_error: np.ndarray
    amplitude_error: np.ndarray
    phase_error: np.ndarray
    feature_names: tuple[str, ...]

    @classmethod
    def of(cls, vectors: np.ndarray, wave: np.ndarray, covariances: np.ndarray, names: tuple[str, ...]) -> Spectrum:
        """By the delta method, from vectors k (L, m) and coefficients C + iS (L, K) of cosines and sines.

        The covariances are those of (C, S, k_1 ... k_m) of every line and output, (L, K, 2 + m, 2 + m).
        """
        C, S = np.real(wave), np.imag(wave)
        A = np.hypot(C, S)
        safe = np.where(A > 0, A, 1.0)
        # A = sqrt(C^2 + S^2), phi = atan2(S, C): gradients by (C, S)
        of_A = np.stack([C, S], axis=-1) / safe[..., None]
        of_phi = np.stack([-S, C], axis=-1) / safe[..., None] ** 2
        block = covariances[..., :2, :2]
        amplitude_error = np.sqrt(np.einsum("lki,lkij,lkj->lk", of_A, block, of_A).clip(0))
        phase_error = np.sqrt(np.einsum("lki,lkij,lkj->lk", of_phi, block, of_phi).clip(0))
        # No amplitude, no phase: its error is that of a uniform angle at most.
        phase_error = np.minimum(np.where(A > 0, phase_error, np.inf), np.pi / np.sqrt(3))
        diagonal = np.arange(2, covariances.shape[-1])
        frequency_error = np.sqrt(covariances[:, 0, diagonal, diagonal].clip(0))
        with np.errstate(divide="ignore", invalid="ignore"):
            period = np.where(vectors != 0, 2 * np.pi / np.abs(vectors), np.inf)
            # d(2 pi / k) = -2 pi / k^2 dk
            period_error = np.where(vectors != 0, frequency_error * 2 * np.pi / vectors**2, 0.0)
        order = np.argsort(-A.max(axis=1), kind="stable")
        flat = (lambda v: v[order, 0]) if C.shape[1] == 1 else (lambda v: v[order])
        return cls(
            vectors[order],
            period[order],
            flat(A),
            flat(np.arctan2(S, C)),
            frequency_error[order],
            period_error[order],
            flat(amplitude_error),
            flat(phase_error),
            names,
        )

    def __len__(self) -> int:
        return len(self.frequency)

    def to_pandas(self) -> pd.DataFrame:
        """A data frame with one row per line; columns of several features or outputs carry their name or number."""
        import pandas as pd

        columns = {}
        for name in ("frequency", "period"):
            for j, feature in enumerate(self.feature_names):
                label = name if len(self.feature_names) == 1 else f"{name}[{feature}]"
                columns[label] = getattr(self, name)[:, j]
                columns[f"{label} error"] = getattr(self, f"{name}_error")[:, j]
        for name in ("amplitude", "phase"):
            values, errors = getattr(self, name), getattr(self, f"{name}_error")
            for k in range(1 if values.ndim == 1 else values.shape[1]):
                label = name if values.ndim == 1 else f"{name}[{k}]"
                columns[label] = values if values.ndim == 1 else values[:, k]
                columns[f"{label} error"] = errors if values.ndim == 1 else errors[:, k]
        return pd.DataFrame(columns)

    def plot(self, *, feature: int | str = 0, output: int = 0, periods: bool = False):
        """Amplitudes as stems with one-sigma bars; bars to the side are the errors of the frequencies.

        Args:
            feature: the feature whose frequency is on the axis.
            output: which of several outputs.
            periods: periods on the axis, logarithmic, instead of frequencies.
        """
        from flm.report.figures.data import plot_spectrum

        return plot_spectrum(self, feature=feature, output=output, periods=periods)

    def __repr__(self) -> str:
        rows = [f"Spectrum of {len(self)} lines in {', '.join(self.feature_names)}, strongest first:"]
        for i in range(min(len(self), 8)):
            pairs = zip(self.frequency[i], self.frequency_error[i], strict=True)
            k = ", ".join(f"{v:.6g} ± {e:.2g}" if e else f"{v:.6g}" for v, e in pairs)  # fixed ones have no error
            A, phi = np.atleast_1d(self.amplitude[i])[0], np.atleast_1d(self.phase[i])[0]
            dA, dphi = np.atleast_1d(self.amplitude_error[i])[0], np.atleast_1d(self.phase_error[i])[0]
            one = len(self.feature_names) == 1
            dot = k if one and "±" not in k else f"({k})"
            x = self.feature_names[0] if one else f"({', '.join(self.feature_names)})"
            rows.append(f"  ({A:.5g} ± {dA:.2g}) cos({dot} · {x} − ({phi:.4g} ± {dphi:.2g}))")
        return "\n".join(rows + (["  …"] if len(self) > 8 else []))
