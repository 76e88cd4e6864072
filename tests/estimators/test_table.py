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


@pytest.mark.parametrize("fitted", ["numbers", "dates", "durations"])
@pytest.mark.parametrize("given", ["numbers", "dates", "durations"])
def test_a_clock_of_another_kind_is_refused(fitted, given):
    columns = {"numbers": pd.Series(np.arange(60.0)), "dates": DAYS, "durations": DAYS - DAYS[0]}
    model = flm.FLMRegressor(2).fit(pd.DataFrame({"t": columns[fitted]}), Y)
    if given in (fitted, "numbers"):  # numbers are in the unit of the clock
        model.predict(pd.DataFrame({"t": columns[given]}))
        return
    with pytest.raises(ValueError, match=f"^`X` must have {fitted} in 't', as were fitted; got {given}. Give the col"):
        model.predict(pd.DataFrame({"t": columns[given]}))


def test_texts_and_objects_are_dates_in_the_zone_of_the_clock():
    hours = pd.date_range("2024-10-25", periods=60, freq="h", tz="Europe/Zurich")
    model = flm.FLMRegressor(2).fit(pd.DataFrame({"t": hours}), Y)
    for six in ("2024-10-26 06:00", pd.Timestamp("2024-10-26 06:00"), "2024-10-26 06:00+02:00"):
        assert model.predict(pd.DataFrame({"t": [six]})) == pytest.approx(
            model.predict(pd.DataFrame({"t": hours[30:31]}))
        )
    over = pd.date_range("2024-10-26 23:00", periods=8, freq="h", tz="Europe/Zurich")
    both = [model.predict(pd.DataFrame({"t": dates})) for dates in (over, over.tz_localize(None))]
    np.testing.assert_allclose(*both)
    with pytest.raises(ValueError, match=r"`X` must have times in 't' that come once in Europe/Zurich, or w"):
        model.predict(pd.DataFrame({"t": [pd.Timestamp("2024-10-27 02:30")]}))
    with pytest.raises(ValueError, match=r"^`until` must have times in 't' that come once"):
        model.forecast(until="2024-10-27 02:30")
    objects = pd.DataFrame({"t": [day.date() for day in DAYS]})
    plain = [flm.FLMRegressor(2).fit(X, Y).predict(X) for X in (objects, DAYS.to_numpy(), pd.DataFrame({"t": DAYS}))]
    np.testing.assert_allclose(plain[0], plain[2])
    np.testing.assert_allclose(plain[1], plain[2])


def test_an_index_of_dates_is_the_clock_however_it_is_kept():
    series = pd.Series(np.where(np.arange(60) == 31, np.nan, np.arange(60.0)), index=pd.DatetimeIndex(DAYS))
    mixed = series.sample(frac=1, random_state=1)
    for index in (mixed.index, mixed.index.date, mixed.index.astype(str)):
        filled = flm.FLMImputer().fit_transform(mixed.set_axis(index))
        assert filled.to_numpy()[mixed.isna().to_numpy()] == pytest.approx(31.0, abs=0.1)
    with pytest.raises(ValueError, match="`time` must be a column of numbers, dates or durations; got"):
        flm.FLMImputer(time="t").fit(pd.DataFrame({"t": list("abc") * 20, "y": Y}))


def test_forecasts_go_on_beyond_2262_and_below_milliseconds():
    months = pd.date_range("1990-01-01", periods=60, freq="MS")
    model = flm.FLMRegressor(2).fit(months, Y)
    assert f"{model.forecast(5000).index[-1]:%Y-%m-%d}" == "2411-08-01"
    assert len(model.forecast(until="2300-01-01")) == 3661
    for clock in (pd.date_range("2024", periods=60, freq="100us"), pd.timedelta_range(0, periods=60, freq="100us")):
        after = flm.FLMRegressor(2).fit(clock, Y).forecast(3).index
        assert after.equals(clock[-1] + pd.to_timedelta([100, 200, 300], "us"))


@pytest.mark.parametrize(
    ("y", "got"),
    [
        (["1.5"] * 60, "`y` must have numbers; got the text '1.5'"),
        (DAYS, "`y` must have numbers; got dates or durations"),
        (pd.Series([None, *Y[1:]], dtype=object), "`y` must have no NaN; got 1 of 60"),
    ],
)
def test_outputs_must_be_numbers(y, got):
    with pytest.raises(ValueError, match=got):
        flm.FLMRegressor().fit(np.arange(60.0)[:, None], y)
    objects = flm.FLMRegressor(2).fit(np.arange(60.0)[:, None], pd.Series(list(Y), dtype=object))
    assert objects.predict([[3.0]])[0] == pytest.approx(Y[3], abs=0.3)


def test_few_rows_and_constants_are_fitted_without_warnings(tmp_path):
    for X, y in ((np.arange(3.0)[:, None], Y[:3]), (np.ones((40, 1)), Y[:40])):
        assert (flm.FLMRegressor().fit(X, y).predict(X, return_std=True)[1] > 0.01).all()
    straight = flm.FLMRegressor(1).fit(np.arange(40.0)[:, None], np.arange(40.0))
    assert straight.spectrum_.plot().axes
    assert straight.spectrum_.to_pandas().empty
    with pytest.raises(
        ValueError, match="`X` must have at least two rows, as one says nothing about errors; got 1 sample"
    ):
        flm.FLMRegressor().fit([[1.0]], [5.0])
    with pytest.raises(ValueError, match="not fitted yet"):
        flm.save(flm.FLMRegressor(), tmp_path / "model.safetensors")
    frame = pd.DataFrame({"a": pd.Series([1, 2, None, 4] * 15, dtype=object), "b": Y})
    drawn = flm.FLMImputer().fit(frame).impute(frame).sample(2)
    assert np.isfinite(drawn).all()
    with pytest.raises(ValueError, match="`n` must be an integer of at least 1; got -1"):
        flm.FLMImputer().fit(frame).impute(frame).sample(-1)
