"""The mathematics of nonharmonic Fourier series; knows nothing of training.

Names are imported on first use: `flm.series.tables` needs NumPy alone.
"""

from typing import TYPE_CHECKING

from flm._lazy import on_first_use

if TYPE_CHECKING:
    from flm.series.calculus import AbstractSeries as AbstractSeries
    from flm.series.calculus import Term as Term
    from flm.series.exponential import ExponentialSeries as ExponentialSeries
    from flm.series.forms import PhaseSeries as PhaseSeries
    from flm.series.forms import SeparableSeries as SeparableSeries
    from flm.series.lattices import lattice as lattice
    from flm.series.signs import sign_matrix as sign_matrix
    from flm.series.sine_cosine import sincos as sincos
else:
    __getattr__ = on_first_use(
        __name__,
        calculus=("AbstractSeries", "Term"),
        exponential=("ExponentialSeries",),
        forms=("PhaseSeries", "SeparableSeries"),
        lattices=("lattice",),
        signs=("sign_matrix",),
        sine_cosine=("sincos",),
    )
