"""Parametric functions with one interface: values and jets at points."""

from flm.models.base import AbstractLinearModel as AbstractLinearModel
from flm.models.base import AbstractModel as AbstractModel
from flm.models.flm import FLM as FLM
from flm.models.networks import MLP as MLP
from flm.models.networks import Siren as Siren
