"""Regression on tables: y = f(x) + noise with f a finite nonharmonic Fourier series, and error bars.

Given frequencies, f is linear in its amplitudes, whose posterior under a Gaussian prior follows from one triangular factor
(`evidence`, `wave_model`). Frequencies come from a lattice over the data's extent, grown under a spectral prior until the
marginal likelihood stops rising (`lattice_fit`), or are lines of the periodogram, moved to the largest likelihood
by variable projection and counted by evidence (`lines`). `search` keeps the better of the two, `wave_fit` holds it in the
units of the data.
"""

from flm.estimators.regressor.estimator import FLMRegressor as FLMRegressor
from flm.estimators.regressor.wave_fit import Spectrum as Spectrum
