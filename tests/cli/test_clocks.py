"""Clocks as strangers wrote them: centuries, seasons, ranges of hours, fractions of a second, nights."""

import numpy as np
import pandas as pd
import pytest

from flm.cli.run import run
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


def test_dates_in_any_order_and_records_ahead_stay_in_their_century(read):
    assert list(read("built", ["03/15/71", "06/20/23", "04/01/80", "09/09/95"]).values["built"].dt.year) == [
        *(1971, 2023, 1980, 1995)
    ]
    ahead = pd.date_range("2026", "2049", freq="QS")
    assert (read("date", ahead.strftime("%d/%m/%y")).values["date"].to_numpy() == ahead.to_numpy()).all()


def test_a_model_takes_years_of_two_digits_in_the_century_of_its_record(tmp_path):
    days = pd.date_range("1930-01-01", "2001-01-01", freq="YS")
    lines = [f"{day:%m/%d/%y},{1 + np.sin(k / 3):.6f}\n" for k, day in enumerate(days)]
    for name, part in (("all", lines), ("three", lines[:3])):
        (tmp_path / f"{name}.csv").write_text("date,v\n" + "".join(part))
    assert run(["fit", str(tmp_path / "all.csv"), "--target", "v", "--out", str(tmp_path / "m")]) == 0
    for name in ("all", "three"):
        ask = [str(tmp_path / "m" / "model.safetensors"), str(tmp_path / f"{name}.csv")]
        assert run(["predict", *ask, "--out", str(tmp_path / f"{name}_out.csv")]) == 0
    every, three = (pd.read_csv(tmp_path / f"{name}_out.csv")["value"] for name in ("all", "three"))
    np.testing.assert_allclose(every[:3], three)


def test_counts_under_other_names_and_few_pairs_of_years_are_no_dates(read):
    for name, first in (("timeout", 900_000_000), ("date_count", 40_000)):
        assert read(name, range(first, first + 5)).of_kind("number") == [name, "v"]
    assert read("timestamp", range(1_700_000_000, 1_700_000_005)).of_kind("date") == ["timestamp"]
    assert read("a", ["10.1850", "11.1900", "12.1990"]).of_kind("number") == ["a", "v"]
    assert list(read("m", ["2010-11", "2011-12"]).values["m"].dt.month) == [11, 12]


def test_a_model_of_ranges_and_months_reads_a_single_row(read):
    assert read("t", ["02.03.2024 16:00-17:00"], formats={"t": "%d.%m.%Y %H:%M - "}).values["t"].dt.hour.item() == 16
    assert read("t", ["2024-03-02 05:00-06:00"], formats={"t": "ISO8601 - "}).values["t"].dt.hour.item() == 5
    table = read("m;x", ["05.2013;6,48"], formats={"m": "%Y%m"})
    assert (table.values["m"].dt.month.item(), table.values["x"].item()) == (5, 6.48)


def test_an_hour_of_autumn_and_an_empty_hour_leave_a_clock_whole(tmp_path):
    hours = pd.date_range("2024-10-26", periods=73, freq="h", tz="Europe/Berlin")
    for form in ("%H:%M", "%H"):
        lines = [f"{hour:%d.%m.%Y};{hour.strftime(form)};1\n" for hour in hours]
        (tmp_path / "a.csv").write_text("Datum;Stunde;x\n" + "".join(lines))
        assert list(read_file(tmp_path / "a.csv").values["Datum"].dt.hour) == list(hours.hour)
    lines[30] = "27.10.2024;;1\n"
    (tmp_path / "a.csv").write_text("Datum;Stunde;x\n" + "".join(lines))
    assert read_file(tmp_path / "a.csv").values["Datum"].isna().sum() == 1
    ranks = "".join(f"2024-01-{day:02d},{k},{k + 1}\n" for day in range(1, 11) for k in (1, 2, 3))
    (tmp_path / "a.csv").write_text("date,from,to\n" + ranks)
    assert read_file(tmp_path / "a.csv").of_kind("number") == ["from", "to"]


@pytest.mark.parametrize("above", ["# exported 2024-05-01, by me, v1", "# Station, Berlin, DWD\n# units: C, m, UTC"])
def test_comments_as_wide_as_the_table_are_no_header(above, tmp_path):
    rows = "".join(f"2024-01-01 {k:02d}:00,15.{k},0\n" for k in range(12))
    (tmp_path / "a.csv").write_text(f"{above}\nt,a,b\n{rows}")
    assert list(read_file(tmp_path / "a.csv").values) == ["t", "a", "b"]
