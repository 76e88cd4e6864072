"""Clocks as strangers wrote them: centuries, seasons, ranges of hours, fractions of a second, nights."""

import numpy as np
import pandas as pd
import pytest

from flm.cli.tables import read_file


@pytest.fixture
def read(tmp_path):
    def give(header, cells, **options):
        rows = "".join(f"{cell};{np.sin(k / 2):.3f}\n" for k, cell in enumerate(cells))
        (tmp_path / "a.csv").write_text(f"{header};v\n{rows}")
        return read_file(tmp_path / "a.csv", **options)

    return give


@pytest.mark.parametrize("form", ["%b-%y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%b-%y", "%d.%m.%y %H:%M"])
@pytest.mark.parametrize("years", [("1960", "1974"), ("1955", "2021"), ("1960", "1962"), ("1999", "2003")])
def test_years_of_two_digits_are_of_one_century_or_the_next(form, years, read):
    wanted = pd.date_range(*years, freq="QS")
    for times in (wanted, wanted[::-1]):
        assert (read("date", times.strftime(form)).values["date"].to_numpy() == times.to_numpy()).all()


def test_years_of_two_digits_in_any_order_are_not_in_the_future(read):
    wanted = pd.date_range("1955", "2021", freq="QS")[np.random.default_rng(0).permutation(265)]
    read_as = read("date", wanted.strftime("%d.%m.%y")).values["date"]
    assert read_as.dt.year.max() <= pd.Timestamp.now().year + 20
    assert (read_as.dt.year.to_numpy() % 100 == wanted.year % 100).all()
