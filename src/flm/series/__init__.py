"""The mathematics of nonharmonic Fourier series; knows nothing of training."""

from flm.series.calculus import AbstractSeries as AbstractSeries
from flm.series.calculus import Term as Term
from flm.series.exponential import ExponentialSeries as ExponentialSeries
from flm.series.forms import PhaseSeries as PhaseSeries
from flm.series.forms import SeparableSeries as SeparableSeries
from flm.series.lattices import lattice as lattice
from flm.series.signs import sign_matrix as sign_matrix
from flm.series.sincos import sincos as sincos
