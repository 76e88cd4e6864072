"""Domains: boxes and regions with named axes, their insides and the named pieces of their boundaries.

A domain (`base`) has a bounding box, a level that is negative inside, a sampler of its inside, and pieces of its boundary
with samplers and outward normals (`piece`); it reads places such as "x=0, t=min". Shapes are boxes, balls and ellipses,
curves, polygons and level sets; `boolean` cuts and joins them and keeps whose boundary a piece was, `product` multiplies a
region with an interval of time. Points come from `sequences`, the one place where sampling is decided. Of a region
that is a Python function, a file holds the outline (`polygon`) in the plane, and the bounds (`box`) in space.

Conventions: a level is negative inside; normals are unit vectors pointing outside; samples are float64 arrays (P, m),
one column for each axis in order.
"""

from flm.domains.ball import Ball, Disk, Ellipse
from flm.domains.base import AbstractDomain
from flm.domains.boolean import Combination
from flm.domains.box import Box, NotHeld
from flm.domains.curve import Curve
from flm.domains.level_set import Region
from flm.domains.piece import Piece
from flm.domains.polygon import Outline, Polygon
from flm.domains.product import Product

__all__ = [
    "AbstractDomain",
    "Ball",
    "Box",
    "Combination",
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
