"""Cells of the paper's tables: numbers, means and ratios to printed values, a dash for what is not there."""

from __future__ import annotations

import math
from collections.abc import Sequence


def ratio(ours: float, printed: float) -> str:
    """Ours over the printed value, two digits."""
    if not math.isfinite(ours):
        return "–"
    found = ours / printed
    return f"{found:.2g}" if 1e-2 <= found < 100 else f"{found:,.0f}" if 100 <= found < 1e5 else f"{found:.1e}"


def mean(values: Sequence[float]) -> float:
    """The mean; NaN of nothing."""
    return sum(map(float, values)) / len(values) if values else math.nan
