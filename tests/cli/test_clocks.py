"""Clocks as strangers wrote them: centuries, seasons, ranges of hours, fractions of a second, nights."""

import numpy as np
import pandas as pd
import pytest

from flm.cli.tables import read_file


@pytest.fixture
def read(tmp_path):
    def give(header, cells, **options):
        rows = "".join(f"{cell};{100 + k}\n" for k, cell in enumerate(cells))
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


SEASONS = {
    "{}/{:02d}": range(2001, 2012),
    "{}-{:02d}": range(2000, 2012),
    "{}–{:02d}": range(1995, 2004),
    "{}/{}": range(2011, 2000, -1),
}


@pytest.mark.parametrize("form", SEASONS)
def test_seasons_are_the_years_in_which_they_begin(form, read):
    later = lambda year: year + 1 if form == "{}/{}" else (year + 1) % 100
    cells = lambda years: [form.format(year, later(year)) for year in years]
    found = read("season", cells(SEASONS[form]))
    assert found.values["season"].tolist() == [pd.Timestamp(year, 1, 1) for year in SEASONS[form]]
    assert found.assumed[1] == "'season' as seasons, by their first years"
    formats = found.values.attrs["formats"]
    one = read("season", cells([2011]), formats=formats)
    assert one.values["season"].tolist() == [pd.Timestamp(2011, 1, 1)]
    assert one.values.attrs["formats"] == formats


def test_months_of_one_year_are_no_seasons(read):
    for cells in (["2001-02"], ["2001-02"] * 3, ["2001-02", "2001-03", "2001-04"], ["2000-12", "2001-01", "2001-02"]):
        assert read("month", cells).values["month"].tolist() == [pd.Timestamp(f"{cell}-01") for cell in cells]


QUARTERS = pd.date_range("2024-03-30 22:00", periods=120, freq="15min")
HOURS = pd.date_range("2024-03-13", periods=3000, freq="h")


@pytest.mark.parametrize("times", [HOURS, HOURS[:2], HOURS[:200], QUARTERS])
@pytest.mark.parametrize("day", ["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y"])
@pytest.mark.parametrize("between", ["-", " - ", "–"])
def test_ranges_of_hours_are_read_by_their_beginnings(times, day, between, read):
    step = times[1] - times[0]
    for hour in ("%H:%M", "%H:%M:%S", "%H")[: 3 if times[0] == HOURS[0] else 2]:
        cells = [f"{t:{day} {hour}}{between}{t + step:{hour}}" for t in times]
        found = read("time", cells)
        assert (found.values["time"].to_numpy() == times.to_numpy()).all()
        assert ", by their beginnings" in found.assumed[1]
    cells = [cell.replace(f"{between}00", f"{between}24") for cell in cells]
    assert (read("time", cells).values["time"].to_numpy() == times.to_numpy()).all()


@pytest.mark.parametrize("zone", ["Chile/Continental", "America/Sao_Paulo", "America/New_York"])
@pytest.mark.parametrize("freq", ["h", "D", "24h", "15min"])
def test_offsets_are_no_ranges(zone, freq, read):
    times = pd.date_range("2024-03-20", "2024-04-20", freq=freq, tz=zone)
    for form in ("%Y-%m-%d %H:%M%z", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M %z"):
        cells = [f"{cell[:-2]}:{cell[-2:]}" for cell in times.strftime(form)]
        found = read("time", cells).values["time"]
        assert (found.dt.tz_convert("UTC").to_numpy() == times.tz_convert("UTC").to_numpy()).all()
        assert read("time", cells[:1]).values["time"].iloc[0] == times[0]


def test_fractions_of_seconds_are_kept(read):
    for step, unit in ((0.1, "s"), (0.001, "s"), (0.5, "ms")):
        start = 1709251200 if unit == "s" else 1709251200000
        dates = read("time", [f"{start + k * step:.4f}" for k in range(50)]).values["time"]
        assert (
            dates.to_numpy() == (pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(50) * step, unit)).round("us")
        ).all()
    dates = read("Date", [f"{45019 + k / 864000:.10f}" for k in range(50)]).values["Date"]
    assert (dates.diff().dropna() == pd.Timedelta("100ms")).all()


@pytest.mark.parametrize("digits", [4, 5, 6, 7, 12])
def test_days_of_few_digits_are_even(digits, read):
    step = "15min" if digits > 4 else "36min"
    cells = [f"{45019 + k * (pd.Timedelta(step) / pd.Timedelta('1D')):.{digits}f}" for k in range(200)]
    assert (read("Date", cells).values["Date"].diff().dropna() == pd.Timedelta(step)).all()


def test_points_that_may_be_of_thousands_are_said(tmp_path):
    said = lambda cells: ", ".join(read_cells(tmp_path, cells).assumed)
    assert "'Stück' with points as decimals" in said(["999", "1.234", "1.250", "980"])
    assert "'Stück' with points as decimals" in said(["-999", "11.234", "", "980"])
    for cells in (["1.234", "1.250"], ["999", "1.2"], ["99", "1.234"], ["999", "0.234"], ["999", "980"]):
        assert "points" not in said(cells)
    assert "points as decimals" not in said(["999", "1.234", "1.250", "980,5"])


def read_cells(folder, cells):
    (folder / "a.csv").write_text("Datum;Stück\n" + "".join(f"{2001 + k};{cell}\n" for k, cell in enumerate(cells)))
    return read_file(folder / "a.csv")


def test_months_with_points_have_no_decimal_sign(read):
    cells = pd.date_range("1965-01-01", periods=30, freq="MS")
    found = read("Monat;x", [f"{month:%m.%Y};{k},5" for k, month in enumerate(cells)])
    assert (found.values["Monat"].to_numpy() == cells.to_numpy()).all()
    assert found.values["x"].tolist()[:2] == [0.5, 1.5]
