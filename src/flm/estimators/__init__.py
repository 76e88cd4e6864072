"""scikit-learn faces: regression with error bars and imputation of time series."""

from flm.estimators.imputer.estimator import FLMImputer as FLMImputer
from flm.estimators.imputer.imputation import ExtrapolationWarning as ExtrapolationWarning
from flm.estimators.imputer.imputation import Imputation as Imputation
from flm.estimators.regressor.estimator import FLMRegressor as FLMRegressor
from flm.estimators.regressor.spectrum import Spectrum as Spectrum
