"""Filling holes in time series, from what a table's own spectrum says, with calibrated error bars.

Several channels are cut into windows that share frequencies; their amplitudes are one Gaussian vector, whose mean and
covariance (`cross_spectrum`) are learned by expectation maximization, and a window is filled by one linear solve. A single
channel has all harmonics of its record under a smooth spectral prior with sharp lines (`dense`), filled by conjugate
gradients. `methods` has both; values hidden while learning calibrate the error bars (`imputation`). `paper_recipe` is what
the paper does instead.
"""

from flm.estimators.imputer.estimator import FLMImputer as FLMImputer
from flm.estimators.imputer.imputation import ExtrapolationWarning as ExtrapolationWarning
from flm.estimators.imputer.imputation import Imputation as Imputation
