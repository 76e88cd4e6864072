"""Cells of the paper's tables, and the words beside them (`words.toml`)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from importlib import resources

import numpy as np

from flm.wording import measured

WORDS: dict[str, str] = tomllib.loads(
    resources.files("flm.report.paper").joinpath("words.toml").read_text(encoding="utf-8")
)


def beside(ours: float, printed: float) -> list[str]:
    """Two cells: ours, and the ratio to the printed value."""
    return [measured(ours), ratio(ours, printed)]


def ratio(ours: float, printed: float) -> str:
    """Ours over the printed value, two digits."""
    if not math.isfinite(ours):
        return "–"
    found = ours / printed
    return f"{found:.2g}" if 1e-2 <= found < 100 else f"{found:,.0f}" if 100 <= found < 1e5 else f"{found:.1e}"


def mean(values: Sequence[float]) -> float:
    """The mean; NaN of nothing."""
    return sum(values) / len(values) if values else math.nan


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    if not values:
        return "–"
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "")
