"""Regions as text: level functions in quotes, and what is refused."""

import re

import numpy as np
import pytest

import flm
from flm.language.expressions import ExpressionError
from flm.pde.text import read_shape


def test_a_region_by_its_level():
    text = "Region(level='x**4 + y**4 - 1', x=(-1.5, 1.5), y=(-1.5, 1.5)) - Disk(x=0, y=0, radius=0.5)"
    region = read_shape(text)
    assert region.contains([[0.9, 0], [0, 0], [0.9, 0.9]]).tolist() == [True, False, False]
    assert repr(region).startswith("Region('x**4 + y**4 - 1', bounds=Box(x=(-1.5, 1.5), y=(-1.5, 1.5))) - ")
    by_function = flm.Region(lambda x, y: x**4 + y**4 - 1, flm.Box(x=(-1.5, 1.5), y=(-1.5, 1.5)))
    points = np.random.default_rng(0).uniform(-1.5, 1.5, (200, 2))
    np.testing.assert_array_equal(region.left.contains(points), by_function.contains(points))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Region(x=(0, 1), y=(0, 1))", "Region wants its level in quotes"),
        ("Region(level=3, x=(0, 1), y=(0, 1))", "Region wants its level in quotes"),
        ("Region(level='x + z', x=(-1, 1), y=(-1, 1))", "`function` must be a function of x, y; got the argument z"),
        ("Region(level='__import__(1)', x=(-1, 1), y=(-1, 1))", "__import__"),
        ("Region(level='x', x=(-1, 1))", "`bounds` must be a Box with two or more axes"),
        ("Disk(x='0', y=0, radius=1)", "'0'"),
    ],
)
def test_regions_that_are_refused(text, said):
    with pytest.raises(ExpressionError, match=re.escape(said)):
        read_shape(text)
