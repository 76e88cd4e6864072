"""Parametric functions with one interface: values and jets at points.

A model is a pytree of arrays with an input map from the user's units to its own (`base`). It gives values and any list of
partial derivatives at points; a model that is linear in its amplitudes also gives its columns, so that a solver can find
the amplitudes by least squares (`least_squares` does so for values at points). The FLM (`flm`) is such a model, with
closed-form derivatives. Solvers return these functions too, or ones with a series on each of many boxes (`pieces`) or
windows of time (`march`), or ones interpolated between values of a parameter (`family`).
MLP and SIREN (`networks`) and the older Fourier networks (`classic`) are what the paper compares the FLM with; `SideBySide`
joins one model per unknown, and `named_model` knows all models by name.

Problems, training and files use nothing else of a model, and never ask which model it is.
"""

from flm.models.base import AbstractLinearModel as AbstractLinearModel
from flm.models.base import AbstractModel as AbstractModel
from flm.models.base import AbstractOutputWeights as AbstractOutputWeights
from flm.models.base import InputMap as InputMap
from flm.models.base import SideBySide as SideBySide
from flm.models.base import input_map as input_map
from flm.models.base import least_squares as least_squares
from flm.models.classic import NAMED as NAMED
from flm.models.classic import FourierNetwork as FourierNetwork
from flm.models.classic import RandomFourierFeatures as RandomFourierFeatures
from flm.models.classic import Silvescu as Silvescu
from flm.models.classic import named_model as named_model
from flm.models.flm import FLM as FLM
from flm.models.networks import MLP as MLP
from flm.models.networks import Siren as Siren
