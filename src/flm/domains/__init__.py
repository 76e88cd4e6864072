"""Domains: boxes and regions with named axes, their insides and the named pieces of their boundaries.

A domain (`base`) has a bounding box, a level that is negative inside, and pieces of its boundary with samplers and
outward unit normals (`piece`); it reads places such as "x=0, t=min". `combined` cuts, joins and multiplies shapes and
remembers which shape a piece came from. Points, float64 (P, m), come from `sequences`, where all sampling is decided.
A file holds a region that is a Python function as its outline (`polygon`) in the plane, as its bounds (`box`) in space.
"""

from flm.domains.base import AbstractDomain as AbstractDomain
from flm.domains.box import Box as Box
from flm.domains.box import NotHeld as NotHeld
from flm.domains.combined import Combination as Combination
from flm.domains.combined import Product as Product
from flm.domains.curve import Ball as Ball
from flm.domains.curve import Curve as Curve
from flm.domains.curve import Disk as Disk
from flm.domains.curve import Ellipse as Ellipse
from flm.domains.level_set import Region as Region
from flm.domains.piece import Piece as Piece
from flm.domains.polygon import Outline as Outline
from flm.domains.polygon import Polygon as Polygon
