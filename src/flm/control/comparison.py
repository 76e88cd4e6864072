"""Costs under a control law beside reference costs."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CostComparison:
    """Costs of the simulated dynamics beside reference costs, over initial states (P, n).

    Args:
        x0: The states.
        cost: Of the simulated dynamics, (P,).
        network_cost: Of the networks' own states, (P,).
        reference: What to compare with, (P,).
    """

    x0: np.ndarray
    cost: np.ndarray
    network_cost: np.ndarray
    reference: np.ndarray

    @property
    def percentage_errors(self) -> np.ndarray:
        """100 (cost - reference) / |reference|, signed, (P,)."""
        return 100.0 * (self.cost - self.reference) / np.abs(self.reference)

    @property
    def mape(self) -> float:
        """Mean absolute percentage error, as in the paper."""
        return float(np.abs(self.percentage_errors).mean())

    @property
    def mae(self) -> float:
        """Mean absolute error."""
        return float(np.abs(self.cost - self.reference).mean())

    @property
    def worst(self) -> float:
        """Largest absolute percentage error."""
        return float(np.abs(self.percentage_errors).max())

    @property
    def network_mape(self) -> float:
        """Mean absolute percentage error of the networks' own cost."""
        return float((100.0 * np.abs(self.network_cost - self.reference) / np.abs(self.reference)).mean())

    def __repr__(self) -> str:
        return (
            f"CostComparison over {len(self.cost)} initial states: MAPE {self.mape:.3g} %, largest {self.worst:.3g} %, "
            f"MAE {self.mae:.3g}"
        )
