"""Estimators for scikit-learn: regression with error bars (`regressor`) and imputation of time series (`imputer`).

Both rest on the same parts: plane waves as columns (`waves`), the marginal likelihood of a linear model from a triangular
factor (`evidence`), periodograms on any clock (`periodogram`), tables in and out (`table`).
"""

from flm.estimators.imputer import ExtrapolationWarning as ExtrapolationWarning
from flm.estimators.imputer import FLMImputer as FLMImputer
from flm.estimators.imputer import Imputation as Imputation
from flm.estimators.regressor import FLMRegressor as FLMRegressor
from flm.estimators.regressor import Spectrum as Spectrum
