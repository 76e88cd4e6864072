"""scikit-learn faces: regression with error bars and imputation of time series."""

from flm.estimators.imputation import ExtrapolationWarning as ExtrapolationWarning
from flm.estimators.imputation import Imputation as Imputation
from flm.estimators.imputer import FLMImputer as FLMImputer
from flm.estimators.regressor import FLMRegressor as FLMRegressor
from flm.estimators.spectrum import Spectrum as Spectrum
