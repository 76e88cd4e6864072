"""Parametric functions with one interface: values and jets at points."""

from flm.models.base import AbstractLinearModel as AbstractLinearModel
from flm.models.base import AbstractModel as AbstractModel
from flm.models.base import AbstractOutputWeights as AbstractOutputWeights
from flm.models.base import InputMap as InputMap
from flm.models.base import input_map as input_map
from flm.models.classic.cosine_squasher import GallantWhite as GallantWhite
from flm.models.classic.fixed_lattice import FourierSeriesNetwork as FourierSeriesNetwork
from flm.models.classic.fixed_lattice import SharedBasisNetwork as SharedBasisNetwork
from flm.models.classic.random_waves import FourierELM as FourierELM
from flm.models.classic.random_waves import RandomFourierFeatures as RandomFourierFeatures
from flm.models.classic.trained_waves import LiuNetwork as LiuNetwork
from flm.models.classic.trained_waves import NonharmonicNetwork as NonharmonicNetwork
from flm.models.classic.trained_waves import Silvescu as Silvescu
from flm.models.fitting import least_squares as least_squares
from flm.models.flm import FLM as FLM
from flm.models.named import NAMED as NAMED
from flm.models.named import named_model as named_model
from flm.models.networks import MLP as MLP
from flm.models.networks import Siren as Siren
from flm.models.side_by_side import SideBySide as SideBySide
