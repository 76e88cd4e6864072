"""Filling holes in time series by their own spectrum, with calibrated error bars.

Several channels are cut into windows that share frequencies; their amplitudes are one Gaussian vector, whose mean and
covariance (`cross_spectrum`) are learned by expectation maximization, and a window is filled by one linear solve
(`coupled`). A single channel has all harmonics of its record under a smooth spectral prior with sharp lines, filled by
conjugate gradients (`dense`). `lags` has the models that need no spectrum. Values hidden as holes of every kind (`holes`) give
the weights of the models and calibrate the error bars (`judge`, `blend`). The paper's own method is in `flm.paper.imputation`.
"""

from flm.estimators.imputer.estimator import FLMImputer as FLMImputer
from flm.estimators.imputer.imputation import ExtrapolationWarning as ExtrapolationWarning
from flm.estimators.imputer.imputation import Imputation as Imputation
