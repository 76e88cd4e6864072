"""Clocks of tables: dates that are missing, zones, and what a forecast is asked for."""

import numpy as np
import pandas as pd
import pytest

import flm
from flm.estimators.table import Feature, seconds

DAYS = pd.Series(pd.date_range("2005-01-01", periods=60))
Y = 5 + np.sin(2 * np.pi * np.arange(60) / 12)
HOLED = DAYS.where(np.arange(60) != 4)


@pytest.mark.parametrize("column", [HOLED, HOLED.dt.to_period("D"), HOLED - DAYS[0], HOLED.dt.tz_localize("UTC")])
def test_a_missing_date_is_refused_as_nan_is(column):
    frame = pd.DataFrame({"a": column})
    assert np.isnan(seconds(pd.Index(column))).tolist() == [k == 4 for k in range(60)]
    with pytest.raises(ValueError, match="`X` must have no NaN; got 1 in 'a'"):
        flm.FLMRegressor().fit(frame, Y)
    with pytest.raises(ValueError, match="`X` must have no NaN; got 1 in 'a'"):
        flm.FLMRegressor(2).fit(frame.drop(4), np.delete(Y, 4)).predict(frame)
    with pytest.raises(ValueError, match="`time` must have no missing values; got 1 in column 'a'"):
        flm.FLMImputer(time="a").fit(frame.assign(y=Y))
    with pytest.raises(ValueError, match="`time` must have no missing values; got 1 in the index"):
        flm.FLMImputer().fit(pd.DataFrame({"y": Y}, index=pd.Index(column)))


def test_a_missing_first_date_is_not_the_origin():
    assert Feature.of("a", DAYS.where(np.arange(60) > 0)).origin == seconds(pd.Index(DAYS))[1]
    with pytest.raises(ValueError, match="`X` must have no NaN; got 60 in 'a'"):
        flm.FLMRegressor().fit(pd.DataFrame({"a": DAYS.where(DAYS.isna())}), Y)


def test_nulls_of_polars_are_refused():
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match="`X` must have no NaN; got 1 in 'a'"):
        flm.FLMRegressor().fit(polars.DataFrame({"a": [*DAYS[:4], None, *DAYS[5:]]}), Y)


def test_hours_between_dates_with_a_zone_are_true_hours(tmp_path):
    hours = pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Zurich")  # clocks jump at the 26th
    assert np.unique(np.diff(seconds(hours))).tolist() == [3600.0]
    flm.save(flm.FLMRegressor(2).fit(pd.DataFrame({"t": hours}), Y), tmp_path / "model.safetensors")
    model = flm.load(tmp_path / "model.safetensors")
    assert model.forecast(3).index.equals(hours[-1] + pd.to_timedelta([1, 2, 3], "h"))
    assert len(model.forecast(until="2024-04-01 16:00")) == 4  # in the zone of the rows, where the last is at 12:00
    rows = lambda dates: pd.DataFrame({"t": dates})
    np.testing.assert_array_equal(model.predict(rows(hours)), model.predict(rows(hours.tz_convert("UTC"))))
    np.testing.assert_array_equal(model.predict(rows(hours[30:])), model.predict(rows(hours[30:].tz_localize(None))))
    plain = flm.FLMRegressor(2).fit(rows(hours.tz_convert(None)), Y)
    with pytest.raises(ValueError, match="`X` must have dates without a time zone in 't', as were fitted; got Europe"):
        plain.predict(rows(hours))


def test_the_end_of_a_forecast_must_be_a_time_of_the_clock():
    dates, numbers = (flm.FLMRegressor(2).fit(X, Y) for X in (pd.DataFrame({"t": DAYS}), np.arange(60.0)[:, None]))
    for model, wanted in ((dates, "a date"), (numbers, "a number")):
        with pytest.raises(ValueError, match=f"^`until` must be {wanted}, as the clock is; got 'soon'"):
            model.forecast(until="soon")


def test_a_table_with_a_zone_is_filled_and_drawn():
    hours = pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Zurich")
    frame = pd.DataFrame({"t": hours, "y": np.where(np.arange(60) % 9 == 4, np.nan, Y)})
    found = flm.FLMImputer(time="t").fit(frame).impute(frame)
    assert (found.values["t"] == hours).all()
    np.testing.assert_allclose(found.values["y"], Y, atol=0.05)
    assert found.plot().axes


def test_features_of_earlier_files_are_read():
    old = {"name": "t", "kind": "date", "unit": "days", "origin": 0.0, "levels": ()}
    assert Feature._unpack(old) == Feature("t", "date", "days")
