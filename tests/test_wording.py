"""Sentences: values with their errors, and times."""

import math

import pytest

from flm.results import Parameter
from flm.wording import duration, with_error


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.1002814, 0.000431, "0.1003 ± 0.0004"),
        (0.1, 0.00104, "0.1000 ± 0.0010"),
        (-12.3456, 0.96, "-12.3 ± 1.0"),
        (123456.0, 217.0, "123460 ± 220"),
        (1.23456e-7, 3.1e-10, "1.2346e-07 ± 3.1e-10"),
        (0.0302, 0.9, "0.0 ± 0.9"),
        (1.0, 1e-13, "1.000000000 ± 1.0e-13"),
        (2.5, 0.0, "2.5"),
        (0.512345, math.inf, "0.512 ± ∞"),
        (math.inf, math.nan, "∞"),
    ],
)
def test_a_value_is_shown_to_the_digits_that_its_error_supports(value, error, text):
    assert with_error(value, error) == text
    if math.isfinite(error):
        assert str(Parameter(value, error)) == text


def test_durations():
    assert [duration(s) for s in (40, 720, 12_240, 180_000, math.nan)] == [
        "40 s",
        "12 min",
        "3.4 h",
        "2.1 days",
        "unknown",
    ]
