"""The mathematics of nonharmonic Fourier series; it knows nothing of training.

A sub-network has one frequency vector and a cosine for every row of the sign matrix (`lattices`). A sum of sub-networks has
three forms that are one function: cosines with phases and products of sines and cosines (`forms`), and complex
exponentials (`exponential`); a signed Walsh-Hadamard transform leads from one to the other. A sum of products (`products`)
is for any number of inputs. What every form can do, because all are sums of plane waves, is in `calculus`: values, sums and
products, derivatives, integrals over boxes, the largest terms.

Below lie what solvers and models use directly: the lattice of whole frequencies (`lattices`), sine and cosine from one
range reduction and derivatives as quarter-turns of one table (`waves` for JAX, `tables` for NumPy), and `arrays`, by which
a series is computed by NumPy when its numbers are at hand and by JAX when they are traced.

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
    from flm.series.lattices import sign_matrix as sign_matrix
    from flm.series.products import ProductSeries as ProductSeries
    from flm.series.products import to_products as to_products
    from flm.series.waves import sincos as sincos
else:
    __getattr__ = on_first_use(__name__)
