"""The look of figures: colors, fonts and small helpers that every figure of the package shares."""

from __future__ import annotations

import io
import sys
from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.figure import Figure

# Okabe and Ito's colors, which color-blind readers can tell apart; black is left to axes and text.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#5F5F5F")
FIELD, SIGNED, ERROR = "viridis", "RdBu_r", "magma"  # color maps of a field, of one that changes sign, of an error
BESIDE: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": 3}  # a legend by the title

_SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "date.converter": "concise",
    "figure.dpi": 110,
    "figure.max_open_warning": 0,  # a page draws as many as it needs
    "font.size": 9,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "flm",  # equal figures give equal files
}


def house_style() -> AbstractContextManager[None]:
    """Settings that hold while a figure is drawn; the user's own are restored afterwards."""
    return mpl.rc_context(_SETTINGS)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; where pyplot is already in use it is one of pyplot's, so that `plt.show()` finds it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    make: Any = Figure if pyplot is None else pyplot.figure
    return make(figsize=(width, height), layout="constrained")


def limits(values: np.ndarray) -> dict[str, Any]:
    """Color map and range for a field: symmetric about zero when it changes sign by more than a tenth, else plain."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low < 0 < high and min(-low, high) > 0.1 * max(-low, high):
        top = max(-low, high)
        return {"cmap": SIGNED, "vmin": -top, "vmax": top}
    return {"cmap": FIELD, "vmin": low, "vmax": high if high > low else low + 1.0}


def to_svg(figure: Figure) -> str:
    """The figure as an `<svg>` element for a page: text stays text, no prolog, no date."""
    text = _file(figure, format="svg", metadata={"Date": None, "Creator": None}, transparent=True).decode()
    return text[text.index("<svg") :]


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """The figure as a PNG file."""
    return _file(figure, format="png", dpi=dpi)


def _file(figure: Figure, **options: Any) -> bytes:
    """The content of a file; the figure is removed from pyplot's list, which would keep it forever."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, **options)
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close(figure)
    return buffer.getvalue()
