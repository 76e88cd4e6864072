"""Domains: boxes and regions with named axes, their insides and the named pieces of their boundaries.

Conventions: a level is negative inside; normals are unit vectors pointing outside; samples are float64 arrays (P, m),
one column for each axis in order.
"""

from flm.domains.ball import Ball, Disk
from flm.domains.base import AbstractDomain
from flm.domains.boolean import Combination
from flm.domains.box import Box
from flm.domains.curve import Curve, Ellipse
from flm.domains.level_set import Region
from flm.domains.outline import NotHeld, Outline
from flm.domains.piece import Piece
from flm.domains.polygon import Corner, Polygon
from flm.domains.product import Product

__all__ = [
    "AbstractDomain",
    "Ball",
    "Box",
    "Combination",
    "Corner",
    "Curve",
    "Disk",
    "Ellipse",
    "NotHeld",
    "Outline",
    "Piece",
    "Polygon",
    "Product",
    "Region",
]
