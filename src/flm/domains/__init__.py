"""Domains: boxes and regions with named axes, their insides and the named pieces of their boundaries."""

from flm.domains.base import AbstractDomain
from flm.domains.box import Box
from flm.domains.piece import Piece

__all__ = ["AbstractDomain", "Box", "Piece"]
