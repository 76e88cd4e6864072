"""Names that are imported on first use, and those that are not there."""

import pytest

import flm


def test_unknown_names():
    with pytest.raises(
        AttributeError, match=r"^module 'flm' has no attribute 'PhaseSerie'\. Did you mean 'PhaseSeries'\?$"
    ):
        flm.PhaseSerie  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'flm' has no attribute 'zzz'\.$"):
        flm.zzz  # noqa: B018
