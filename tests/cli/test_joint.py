"""Clocks in several columns: joined where their times follow each other, else said; written back as they came."""

import numpy as np
import pandas as pd
import pytest

from flm.cli.run import run
from flm.cli.tables import read_file

HOURS = pd.date_range("2024-02-27", periods=120, freq="h")
SHUFFLED = np.random.default_rng(0).permutation(120)
END = HOURS + pd.Timedelta(1, "h")
VALUES = [f"{10 + np.sin(k / 4):.4f}" for k in range(120)]


def table(header, clocks, sep=","):
    return "\n".join([header, *(sep.join([clock, v]) for clock, v in zip(clocks, VALUES, strict=False))]) + "\n"


# name: (content, times)
JOINED = {
    "hours from 0": (table("date;hour;v", HOURS.strftime("%Y-%m-%d;%-H"), ";"), HOURS),
    "hours to 24": (table("Datum,Stunde,v", [f"{t:%d.%m.%Y},{t.hour + 1}" for t in HOURS]), END),
    "newest first": (table("date,HE,v", [f"{t:%d.%m.%Y},{t.hour + 1}" for t in HOURS[::-1]]), END[::-1]),
    "year to hour": (table("Year,Month,Day,Hour,v", HOURS.strftime("%Y,%m,%d,%H")), HOURS),
    "buoys": (table("#YY MM DD hh WSPD\n#yr mo dy hr m/s", HOURS.strftime("%Y %m %d %H"), " "), HOURS),
    "hours in four digits": (table("date,time,v", HOURS.strftime("%Y%m%d,%H%M")), HOURS),
    "hours with h": (table("date,heure,v", HOURS.strftime("%d/%m/%Y,%Hh%M")), HOURS),
    "hours with h alone": (table("date,hour,v", HOURS.strftime("%Y-%m-%d,%-Hh")), HOURS),
    "halves of a day": (table("date,time,v", HOURS.strftime("%m/%d/%Y,%I:%M %p")), HOURS),
    "halves of a day, hours": (table("date,time,v", HOURS.strftime("%m/%d/%Y,%-I %p")), HOURS),
    "year and mo": (
        table("Year,Mo,v", pd.date_range("2010-01-01", periods=120, freq="MS").strftime("%Y,%m")),
        pd.date_range("2010-01-01", periods=120, freq="MS"),
    ),
    "from and to": (table("Datum,von,bis,v", [f"{t:%d.%m.%Y,%H:%M},{t.hour + 1}:00" for t in HOURS]), HOURS),
    "days of the year": (table("YEAR,DOY,HR,v", HOURS.strftime("%Y,%j,%H")), HOURS),
    "days without hours": (
        table("year,day,v", pd.date_range("2023-11-01", periods=120).strftime("%Y,%j")),
        pd.date_range("2023-11-01", periods=120),
    ),
    "derived columns": (table("date,month,doy,hour,v", HOURS.strftime("%Y-%m-%d,%m,%j,%H")), HOURS),
    "hours in any order": (table("date,time,v", HOURS[SHUFFLED].strftime("%Y-%m-%d,%H:%M")), HOURS[SHUFFLED]),
    "names of months": (
        table("Jahr,Monat,v", pd.date_range("2010-01-01", periods=120, freq="MS").strftime("%Y,%B")),
        pd.date_range("2010-01-01", periods=120, freq="MS"),
    ),
    "minutes": (
        table("date,hour,minute,v", pd.date_range("2024-01-01", periods=120, freq="15min").strftime("%Y-%m-%d,%H,%M")),
        pd.date_range("2024-01-01", periods=120, freq="15min"),
    ),
}


@pytest.fixture
def read(tmp_path):
    def give(content):
        (tmp_path / "a.csv").write_text(content)
        return read_file(tmp_path / "a.csv")

    return give


@pytest.mark.parametrize("name", JOINED)
def test_parts_of_a_clock_are_one(name, read):
    content, times = JOINED[name]
    found = read(content)
    (clock,) = found.of_kind("date")
    assert (found.values[clock].to_numpy() == times.to_numpy()).all()
    assert found.assumed[-1].endswith(f"as one clock, {clock!r}")
    assert len(found.of_kind("number")) == (3 if name == "derived columns" else 1)  # the parts are no values


DAYS = pd.date_range("2024-01-01", periods=120)
ONE_TWICE = [f"{day:%Y-%m-%d},{k * 7 % 24}.{k % 10}" for k, day in enumerate(DAYS[:60].append(DAYS[59:]))]


@pytest.mark.parametrize(
    "content",
    [
        table("date,station,v", [f"{t:%Y-%m-%d},{t.hour}" for t in HOURS]),  # series below each other
        table("date,hour,v", [f"{t:%Y-%m-%d},7" for t in HOURS]),
        table("when,date,hour,v", [f"{t:%Y-%m-%d %H:%M},{t:%Y-%m-%d},{t.hour}" for t in HOURS]),  # a clock is there
        table("year,m,v", [f"{1900 + k},{k % 12 + 1}" for k in range(120)]),  # years are clock enough
        table("year,model,v", [f"{1900 + k // 12},{k % 12 + 1}" for k in range(120)]),
        *(table(f"date,{name},v", ONE_TWICE) for name in ("min [°C]", "h_rain", "time on", "std", "h", "time [h]")),
        table("date,hour,v", [f"{cells.partition('.')[0]}" for cells in ONE_TWICE]),
        table("name,date,sleep,v", [f"{k // 50},{DAYS[k % 50]:%Y-%m-%d},7:{k * 7 % 60:02d}" for k in range(100)]),
    ],
)
def test_other_columns_are_no_parts_of_a_clock(content, read):
    assert "one clock" not in ", ".join(read(content).assumed)


def test_an_hour_that_comes_again_when_summer_ends_is_no_obstacle(read):
    local = pd.date_range("2024-10-20", periods=240, freq="h", tz="Europe/Zurich").tz_localize(None)
    rows = "".join(f"{t:%Y-%m-%d},{t.hour},{k % 7}\n" for k, t in enumerate(local))
    for header in ("date,hour,v\n", "date,Hour of Day (local),min\n"):  # and no minutes
        found = read(header + rows)
        assert (found.values["date"].to_numpy() == local.to_numpy()).all()
        assert len(found.of_kind("number")) == 1


def test_times_of_a_day_of_any_name_are_joined_where_they_follow_each_other(read):
    cells = HOURS.strftime("%Y-%m-%d,8:00,%H:%M")
    assert (read(table("date,nap,Uhrzeit,v", cells)).values["date"].to_numpy() == HOURS.to_numpy()).all()
    cells = HOURS.strftime("%Y-%m-%d,%H:%M")
    assert (read(table("date,ab,v", cells)).values["date"].to_numpy() == HOURS.to_numpy()).all()
    assert (read(table("date,ab,v", cells[SHUFFLED])).values["date"].to_numpy() != HOURS[SHUFFLED].to_numpy()).any()


@pytest.mark.slow
def test_joint_clocks_are_written_back_and_kept_by_models(tmp_path, capsys):
    cells = [f"{t:%Y},{t:%B},{t.day},{t.hour}" for t in HOURS]
    content = table("Year,Month,Day,Hour,v", cells)
    (tmp_path / "a.csv").write_text(content.replace(VALUES[50], ""))
    assert run(["impute", str(tmp_path / "a.csv"), "--out", str(tmp_path / "b.csv")]) == 0
    assert "the clock is 'Year'." in capsys.readouterr().err
    filled = (tmp_path / "b.csv").read_text().splitlines()
    assert filled[:51] + filled[52:] == content.splitlines()[:51] + content.splitlines()[52:]
    row, _, value = filled[51].rpartition(",")
    assert row == cells[50]
    assert float(value) == pytest.approx(10 + np.sin(50 / 4), abs=0.05)
    fit = ["fit", str(tmp_path / "a.csv"), "--target", "v", "--out", str(tmp_path / "fit"), "--quiet"]
    assert run(fit) == 0
    capsys.readouterr()
    model, later = str(tmp_path / "fit" / "model.safetensors"), tmp_path / "later.csv"
    later.write_text("Year,Month,Day,Hour\n2024,March,1,7\n")
    assert run(["predict", model, str(later)]) == 0
    *row, value, _ = capsys.readouterr().out.splitlines()[1].split(",")
    assert row == ["2024", "March", "1", "7"]
    assert float(value) == pytest.approx(10 + np.sin(79 / 4), abs=0.05)
    later.write_text("year (local),month,day (local),hour [h]\n2024,March,1,7\n")
    assert run(["predict", model, str(later)]) == 0
    *row, again, _ = capsys.readouterr().out.splitlines()[1].split(",")
    assert (row, again) == (["2024", "March", "1", "7"], value)
    for content in ("Year,Month\n2024,March\n", "Year,Month,Day,Hour\n2024,March,1,\n"):
        later.write_text(content)
        assert run(["predict", model, str(later)]) == 2
        told = "later.csv must have 'Month', 'Day', 'Hour' beside 'Year' in every row, as was fitted; got none."
        assert told in capsys.readouterr().err


@pytest.mark.slow
def test_a_clock_whose_times_come_again_is_said(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(table("date,station,v", [f"{t:%Y-%m-%d},{t.hour}" for t in HOURS]))
    assert run(["impute", str(tmp_path / "a.csv"), "--columns", "v", "--out", str(tmp_path / "b.csv")]) == 0
    assert "115 of 120 rows have a time of 'date' that another row has." in capsys.readouterr().err


BLOCKS = pd.date_range("2024-03-01", periods=48, freq="h")


@pytest.mark.parametrize("form", ["%d/%m/%Y;%H:%M", "%m/%d/%Y;%H:%M", "%d/%m/%y;%-H"])
@pytest.mark.parametrize("times", [BLOCKS, BLOCKS[::-1], BLOCKS[::2], BLOCKS.append(BLOCKS + pd.Timedelta(4, "D"))])
def test_day_and_month_are_told_apart_by_the_joint_clock(form, times, read):
    found = read(table("Date;Heure;Debit", times.strftime(form), ";"))
    assert (found.values["Date"].to_numpy() == times.to_numpy()).all()
    order, other = ("day/month", "month") if form.startswith("%d") else ("month/day", "day")
    assert f"'Date' as dates {order}/year (days and months could change places: --{other}-first)" in found.assumed
    assert found.values.attrs["formats"]["Date"] == f"{form.partition(';')[0]} + Heure"


def test_an_order_that_is_asked_for_stays_beside_hours(read, tmp_path):
    content = table("Date;Heure;Debit", BLOCKS.strftime("%d/%m/%Y;%H:%M"), ";")
    for asked in ({"day_first": False}, {"formats": {"Date": "%m/%d/%Y + Heure"}}):
        read(content)
        assert read_file(tmp_path / "a.csv", **asked).values["Date"].dt.month.unique().tolist() == [1, 2]


@pytest.mark.parametrize("freq", ["30min", "8h", "-1h"])
def test_times_of_a_day_pass_midnight(freq, read):
    times = pd.date_range("2024-03-01 13:00", periods=100, freq=freq)
    found = read(table("time,v", times.strftime("%H:%M")))
    assert (found.values["time"].diff().dropna() == pd.Timedelta(freq)).all()
    assert found.values["time"].min() >= pd.Timedelta(0)
    assert "'time' as times of a day, with a day more after each midnight" in found.assumed
    for cells in (
        times[:30].append(times[20:]).strftime("%H:%M"),  # turns
        (times + pd.Timedelta(4, "D")).strftime("2024-03-%d,%H:%M"),  # the date is there
    ):
        assert "midnight" not in ", ".join(read(table(f"{'date,' * (',' in cells[0])}nap,v", cells)).assumed)
