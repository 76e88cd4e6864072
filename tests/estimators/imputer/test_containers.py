"""Tables of other libraries, and columns that are not numbers, in the imputer."""

import numpy as np
import pandas as pd
import pytest

import flm
from flm.wording import InputError


def holed():
    """Two channels by days, with holes."""
    t = np.arange(150.0)
    X = np.stack([np.sin(0.3 * t), np.cos(0.3 * t)], axis=1)
    X[20:24, 0] = X[70, 1] = np.nan
    return X


DAYS = pd.date_range("2024-01-01", periods=150)


def test_tables_of_polars():
    polars = pytest.importorskip("polars")
    X = holed()
    table = polars.DataFrame({"day": DAYS.to_numpy(), "a": X[:, 0], "b": X[:, 1]})
    found = flm.FLMImputer(time="day").fit(table).impute(table, fitted=True)
    frame = pd.DataFrame({"day": DAYS, "a": X[:, 0], "b": X[:, 1]})
    same = flm.FLMImputer(time="day").fit(frame).impute(frame, fitted=True)
    np.testing.assert_array_equal(found.values[["a", "b"]], same.values[["a", "b"]])
    assert found.interval()[0]["a"].notna().all()


def test_tables_of_xarray():
    xarray = pytest.importorskip("xarray")
    X = holed()
    table = xarray.Dataset({"a": ("day", X[:, 0]), "b": ("day", X[:, 1])}, {"day": DAYS})
    filled = flm.FLMImputer().fit_transform(table)
    frame = pd.DataFrame(X, columns=["a", "b"], index=pd.DatetimeIndex(DAYS, name="day"))
    np.testing.assert_array_equal(filled, flm.FLMImputer().fit_transform(frame))
    assert list(filled.columns) == ["a", "b"]
    grid = xarray.Dataset({"a": (("x", "y"), X)})
    with pytest.raises(InputError, match=r"rows and columns; got one of dimensions \('x', 'y'\)\. Give"):
        flm.FLMImputer().fit(grid)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["Berlin"] * 150, "numbers; got 'Berlin' in 'c'. Leave that column out."),
        (pd.Categorical(["Berlin"] * 150), "numbers; got 'Berlin' in 'c'. Leave that column out."),
        (DAYS, "got dates or durations in 'c'. Give time='c' if it is the clock, else leave it out."),
        (DAYS.tz_localize("UTC"), "got dates or durations in 'c'. Give time='c'"),
        (DAYS - DAYS[0], "got dates or durations in 'c'. Give time='c'"),
    ],
    ids=["text", "category", "date", "date with a zone", "duration"],
)
def test_columns_that_are_not_numbers_are_refused_in_one_sentence(column, words):
    frame = pd.DataFrame(holed(), columns=["a", "b"])
    frame["c"] = column
    with pytest.raises(InputError) as refused:
        flm.FLMImputer().fit(frame)
    assert words in str(refused.value)


def test_columns_of_objects_that_are_numbers_are_numbers():
    frame = pd.DataFrame(holed(), columns=["a", "b"])
    mixed = frame.astype({"a": object})
    np.testing.assert_array_equal(
        flm.FLMImputer().fit_transform(mixed).astype(float), flm.FLMImputer().fit_transform(frame)
    )
