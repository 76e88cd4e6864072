"""Columns of files: decimal signs, dates, zones and durations, read for what they are or refused with the place."""

import numpy as np
import pandas as pd
import pytest

from flm.cli.run import run
from flm.cli.tables import read_file


@pytest.fixture
def read(tmp_path):
    def give(content, name="a.csv", **options):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_file(tmp_path / name, **options)

    return give


def table(header, cells):
    return header + "\n" + "".join(f"{cell},{np.sin(k / 2):.3f}\n" for k, cell in enumerate(cells))


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y"])
@pytest.mark.parametrize("step", ["MS", "QS", "YS", "D"])
def test_months_are_no_days_of_january(read, form, step):
    wanted = pd.date_range("2005-01-01", periods=40, freq=step)
    found = read(table("date,v", wanted.strftime(form)))
    assert (found.values["date"].to_numpy() == wanted.to_numpy()).all()
    assert found.values.attrs["formats"]["date"] == ("ISO8601" + " %y" * form.endswith("%y") if step == "YS" else form)
    if step in ("MS", "QS"):
        asked = "month" if form.startswith("%d") else "day"
        assert f"(days and months could change places: --{asked}-first)" in found.assumed[0]
    swapped = read(table("date,v", wanted[:9].strftime(form)), day_first=form.startswith("%m"))
    assert (swapped.values["date"].dt.day == wanted[:9].month).all()


@pytest.mark.slow
def test_a_model_keeps_the_order_of_its_dates(tmp_path, capsys):
    days = pd.date_range("2024-01-01", periods=31)
    (tmp_path / "a.csv").write_text(table("d,v", days.strftime("%d/%m/%Y")))
    fit = ["fit", str(tmp_path / "a.csv"), "--target", "v", "--subnets", "2", "--out", str(tmp_path / "fit")]
    assert run([*fit, "--quiet"]) == 0
    said = []
    for cells in ("05/02/2024", "2024-02-05", "02/03/2024", "2024-03-02"):
        (tmp_path / "b.csv").write_text(f"d\n{cells}\n")
        assert run(["predict", str(tmp_path / "fit" / "model.safetensors"), str(tmp_path / "b.csv")]) == 0
        said.append(capsys.readouterr().out.splitlines()[1].partition(",")[2])
    assert said[0] == said[1]
    assert said[2] == said[3]
    (tmp_path / "b.csv").write_text("d [UT]\n05/02/2024\n")
    assert run(["predict", str(tmp_path / "fit" / "model.safetensors"), str(tmp_path / "b.csv")]) == 0
    assert capsys.readouterr().out.splitlines()[1].partition(",")[2] == said[0]
    assert run(["predict", str(tmp_path / "fit" / "model.safetensors"), str(tmp_path / "b.csv"), "--month-first"]) == 0
    assert capsys.readouterr().out.splitlines()[1].partition(",")[2] != said[0]


SIGNS = {
    "Menge;Preis\n1.000;10,013\n1.007;11,487\n": ((1000, 1007), (10.013, 11.487)),
    "pop;rate\n1,000;10.0\n1,007;11.5\n": ((1000, 1007), (10, 11.5)),
    "a;b\n1.000;0,125\n1.007;0,5\n": ((1000, 1007), (0.125, 0.5)),
    "a;b\n1.000;3\n1.007;4\n": ((1, 1.007), (3, 4)),
    "a;b\n1.234.567;3,125\n1.234.568;4,125\n": ((1234567, 1234568), (3.125, 4.125)),
    "a;b\n1 234 567;.5\n1'234;5.\n": ((1234567, 1234), (0.5, 5)),
}


@pytest.mark.parametrize("content", SIGNS)
def test_a_file_has_one_decimal_sign(content, read):
    assert tuple(tuple(column) for _, column in read(content).values.items()) == SIGNS[content]


def test_signs_of_thousands_are_said(read):
    assert read("a;b\n1.000;10,5\n1.007;11,5\n").assumed == ("semicolons", "points of thousands", "decimal commas")
    assert read("a;b\n1'000;10.5\n1'007;11.5\n").assumed == ("semicolons", "apostrophes of thousands")


def test_two_decimal_signs_are_refused(read):
    told = (
        r"a\.csv must have one decimal sign; got '2\.5' in line 3, column 'a' and '10,5' in line 2, column 'b'\. Write"
    )
    with pytest.raises(ValueError, match=told):
        read("a;b\n1;10,5\n2.5;11,5\n")
    with pytest.raises(ValueError, match=r"one decimal sign; got '10,013' and '11\.487' in column 'v'"):
        read("t;v\n0;10,013\n1;11.487\n2;12,662\n")


READ = {
    "2019Q1 2019Q2": ("2019-01-01", "2019-04-01", "quarters"),
    "2022-W01 2022-W02": ("2022-01-03", "2022-01-10", "weeks"),
    "Jan_2019 Feb_2019": ("2019-01-01", "2019-02-01", "dates month year"),
    "31/01/23 01/02/23": ("2023-01-31", "2023-02-01", "dates day/month/year"),
    "201901 201902 201903": ("2019-01-01", "2019-02-01", "dates yearmonth"),
    "01.2019 02.2019 03.2019": ("2019-01-01", "2019-02-01", "dates yearmonth"),
    "2019M01 2019M02": ("2019-01-01", "2019-02-01", "dates year-month-day"),
    "2019_Jan 2019_Feb": ("2019-01-01", "2019-02-01", "dates year month"),
    "Jan-19 Feb-19": ("2019-01-01", "2019-02-01", "dates month-year"),
    "W01_2022 W02_2022": ("2022-01-03", "2022-01-10", "weeks"),
    "KW_1/2022 KW_2/2022": ("2022-01-03", "2022-01-10", "weeks"),
    "8-Jan-24 9-Jan-24": ("2024-01-08", "2024-01-09", "dates day-month-year"),
    "08JAN2024 09JAN2024": ("2024-01-08", "2024-01-09", "dates daymonthyear"),
    "2024-01-08_07:00:00,5 2024-01-08_07:00:01,000": ("2024-01-08T07:00:00.5", "2024-01-08T07:00:01", "dates year"),
    "Jan_8_2024 Jan_9_2024": ("2024-01-08", "2024-01-09", "dates month day year"),
    "Mon_15/01/2024 Tue_16/01/2024": ("2024-01-15", "2024-01-16", "dates day/month/year"),
    "Wednesday,_31st_January_2024 Thursday,_1st_February_2024": ("2024-01-31", "2024-02-01", "dates day month year"),
    "2024010107 2024010108 2024010109": ("2024-01-01T07:00", "2024-01-01T08:00", "dates year-month-day"),
    "202401010730 202401010740 202401010750": ("2024-01-01T07:30", "2024-01-01T07:40", "dates year-month-day"),
    "20240101073000 20240101074000 20240101075000": ("2024-01-01T07:30", "2024-01-01T07:40", "dates year-month-day"),
    "31.01.2024_23:00_-_31.01.2024_24:00 31.01.2024_24:00_-_01.02.2024_01:00": (
        "2024-01-31T23:00",
        "2024-02-01T00:00",
        "dates day.month.year, by their beginnings",
    ),
    "2024-03-30_00:00_UTC 2024-03-30_01:00_UTC": (
        "2024-03-30T00:00Z",
        "2024-03-30T01:00Z",
        "dates year-month-day in UTC",
    ),
    "2024-03-30T00:00+01:00 2024-03-30T01:00+01:00": (
        "2024-03-30T00:00+01:00",
        "2024-03-30T01:00+01:00",
        "dates year-month-day in UTC+01:00",
    ),
}


@pytest.mark.parametrize("cells", READ)
def test_clocks_as_people_write_them(cells, read):
    found = read("t;v\n" + "".join(f"{cell};{k}\n" for k, cell in enumerate(cells.split())).replace("_", " "))
    one, two, words = READ[cells]
    assert found.values["t"].tolist()[:2] == [pd.Timestamp(one), pd.Timestamp(two)]
    assert found.assumed[1].startswith(f"'t' as {words}")


def test_a_column_of_dates_alone_is_read(read):
    assert read("t [UT]\n5\n").values["t [UT]"].tolist() == [5]
    for name in ("t", "time of day"):
        found = read(f"{name}\n2024-03-30 04:00\n2024-03-30 05:00\n")
        assert found.values[name][2] == pd.Timestamp("2024-03-30 04:00")
        assert read(f"{name}\n5\n").values[name].tolist() == [5]
    assert read("day hour v\n2024-03-30 04:00 1\n2024-03-30 05:00 2\n").cells.shape == (2, 3)


@pytest.mark.slow
def test_only_durations_are_durations(read):
    for cell in ("5 m", "10 W", "2:4", "3 M", "7 Y"):
        assert read(f"t,v\n0,{cell}\n1,{cell}\n").of_kind("duration") == []
    spans = {"1:30": "01:30:00", "1:30:10": "01:30:10", "12 h": "12:00:00", "3 days": "3 days", "90 min": "01:30:00"}
    for cell, span in (spans | {"1 d 2 h": "1 days 02:00:00", "2 days 01:00:00": "2 days 01:00:00"}).items():
        assert read(f"t,v\n{cell},0\n{cell},1\n").values["t"].tolist() == [pd.Timedelta(span)] * 2


def test_zones_and_none_in_one_column_are_refused(read):
    told = r"a\.csv, line 3: column 't' must have a time zone in every cell or in none; got '2024-01-01T01:00' and, in line 2"
    with pytest.raises(ValueError, match=told):
        read(table("t,v", ["2024-01-01T00:00Z", "2024-01-01T01:00"]))


@pytest.mark.slow
def test_offsets_are_counted_in_utc_and_written_back(tmp_path, capsys):
    hours = pd.date_range("2024-03-30", periods=48, freq="h", tz="Europe/Zurich")  # the offset changes
    cells = [hour.isoformat() for hour in hours]
    (tmp_path / "a.csv").write_text(table("t,v", cells))
    fit = ["fit", str(tmp_path / "a.csv"), "--target", "v", "--subnets", "2", "--out", str(tmp_path / "fit")]
    assert run(fit) == 0
    assert "'t' as dates year-month-day with several offsets, counted in UTC." in capsys.readouterr().err
    rows = (tmp_path / "fit" / "fitted.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows[1:]] == cells
    (tmp_path / "b.csv").write_text("t\n2024-04-01 00:00\n")
    assert run(["predict", str(tmp_path / "fit" / "model.safetensors"), str(tmp_path / "b.csv")]) == 0
    assert "the dates of 't' have no time zone and were taken in UTC, as those of the fit." in capsys.readouterr().err


@pytest.mark.slow
def test_days_and_hours_in_two_columns_are_one_clock(tmp_path, read, capsys):
    hours = pd.date_range("2024-03-30", periods=48, freq="h")
    found = read(table("date,time,v", hours.strftime("%Y-%m-%d,%H:%M")))
    assert (found.values["date"].to_numpy() == hours.to_numpy()).all()
    assert found.of_kind("date", "duration") == ["date"]
    assert "'date' and 'time' as one clock" in ", ".join(found.assumed)
    fit = ["fit", str(tmp_path / "a.csv"), "--target", "v", "--subnets", "2", "--out", str(tmp_path / "fit"), "--quiet"]
    assert run(fit) == 0
    (tmp_path / "b.csv").write_text("date\n2024-03-30\n")
    assert run(["predict", str(tmp_path / "fit" / "model.safetensors"), str(tmp_path / "b.csv")]) == 2
    assert "b.csv must have 'time' beside 'date' in every row, as was fitted; got none." in capsys.readouterr().err
    one = read("date,time\n2024-03-30,05:00\n", formats={"date": "ISO8601 + time"})
    assert one.values["date"].tolist() == [pd.Timestamp("2024-03-30 05:00")]


def test_numbers_that_may_stand_for_nothing_are_said(read):
    cells = [f"{np.sin(k):.3f}" for k in range(40)]
    cells[3] = cells[9] = "-999"
    (sentence,) = read("v\n" + "\n".join(cells) + "\n").remarks
    assert sentence == (
        "2 cells of -999 in column 'v' are outside of all other values; they were taken as numbers. "
        "If they stand for missing values, write --missing -999."
    )
    cells[9] = "1"
    assert read("v\n" + "\n".join(cells) + "\n").remarks == ()


def test_numbers_that_are_usual_for_nothing_may_be_near_and_many(read):
    co, nox = ([f"{low + k % 31 * step}" for k in range(200)] for low, step in ((0.5, 0.25), (100, 45)))
    for k in range(0, 200, 3):
        co[k] = nox[k] = "-200"
    nox[1:100:3] = ["-200"] * 33  # as many as all others
    rows = lambda *columns: "".join(",".join(row) + "\n" for row in zip(*columns, strict=True))
    (sentence,) = read("CO,NOx\n" + rows(co, nox)).remarks
    assert sentence.startswith("167 cells of -200 in columns 'CO', 'NOx' are outside of all other values;")
    for value in ("-900", "99", "700"):  # near, or no such number
        steps = [f"{k * 10 - 800}" for k in range(160)] + [value] * 5
        assert read("v\n" + "\n".join(steps) + "\n").remarks == ()


def test_a_comma_in_what_is_missing_may_be_a_decimal_sign(read):
    cells = ["9", "-99,9", "-99", "1,5", "2,5"]
    for missing, gone in ((["-99,9"], [1]), (["-99.9"], [1]), (["-99,9", "-99"], [1, 2]), (["9,-99"], [0, 2])):
        found = read("t;v\n" + "".join(f"{k};{cell}\n" for k, cell in enumerate(cells)), missing=missing)
        assert np.flatnonzero(found.values["v"].isna()).tolist() == gone
        assert np.flatnonzero(found.empty["v"]).tolist() == gone


@pytest.mark.slow
def test_cells_that_stand_for_nothing_are_filled_by_name(tmp_path, capsys):
    values = np.sin(np.arange(60) / 4)
    cells, other = [f"{v:.4f}".replace(".", ",") for v in values], ["ab"] * 60
    cells[7], cells[20], cells[30], cells[40], other[50] = "-200", "-200,0", "MM", "", "-200"
    written = lambda: ["t;v;w", *(f"{k};{v};{w}" for k, (v, w) in enumerate(zip(cells, other, strict=True)))]
    (tmp_path / "a.csv").write_text("\n".join(written()) + "\n")
    impute = ["impute", str(tmp_path / "a.csv"), "--time", "t", "--out", str(tmp_path / "b.csv")]
    assert run(impute) == 2
    assert "line 32: column 'v' must be a number, a date or a duration; got 'MM'." in (told := capsys.readouterr().err)
    assert "or write --missing 'MM' if it is no value." in told
    assert run([*impute, "--missing", "-200", "--missing", "MM"]) == 0
    assert "decimal commas, 4 cells of -200, MM as missing." in capsys.readouterr().err
    lines = (tmp_path / "b.csv").read_text().splitlines()
    for k, (old, new) in enumerate(zip(written()[1:], lines[1:], strict=True)):
        if k in (7, 20, 30, 40):
            assert float(new.split(";")[1].replace(",", ".")) == pytest.approx(values[k], abs=0.1)
        else:
            assert new == old
    fit = ["fit", str(tmp_path / "a.csv"), "--target", "v", "--time", "t", "--subnets", "2"]
    assert run([*fit, "--missing", "-200,MM", "--out", str(tmp_path / "fit")]) == 0
    assert "4 of 60 rows have no 'v' and were left out." in capsys.readouterr().err
    (tmp_path / "c.csv").write_text("t\n1\n-1\n")
    assert (
        run(["predict", str(tmp_path / "fit" / "model.safetensors"), str(tmp_path / "c.csv"), "--missing", "-1"]) == 2
    )
    assert "c.csv, line 3: column 't' is empty; remove the row or use flm impute." in capsys.readouterr().err


def test_a_cell_that_is_no_date_is_named(tmp_path, capsys):
    days = [*pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d"), "Total"]
    (tmp_path / "a.csv").write_text(table("day,v", days))
    assert run(["fit", str(tmp_path / "a.csv"), "--target", "v", "--time", "day"]) == 2
    assert (
        "a.csv, line 62: column 'day' must be a number, a date or a duration; got 'Total'." in capsys.readouterr().err
    )
    (tmp_path / "a.csv").write_text(table("day,v", [f"2023-{k:03d}" for k in range(1, 60)]))
    assert run(["fit", str(tmp_path / "a.csv"), "--target", "v", "--time", "day"]) == 2
    assert (
        "a.csv, line 2: column 'day' must be a number, a date or a duration; got '2023-001'." in capsys.readouterr().err
    )


def test_hours_with_points_are_a_clock_beside_a_date(read):
    rows = "".join(f"{1 + i // 24:02d}/03/2004;{i % 24:02d}.00.00;{i % 7},5\n" for i in range(72))
    found = read("Date;Time;CO\n" + rows)
    assert (found.values["Date"].diff().dropna() == pd.Timedelta("1h")).all()
    assert found.of_kind("rows") == ["Time"]
    assert read("d,v\n01.03.23,1\n02.03.23,2\n03.03.23,4\n").of_kind("date") == ["d"]


@pytest.mark.parametrize("word", ["N.A.", ".", "..", ":", "---", "<NA>", "NaT"])
def test_words_for_nothing_are_holes(word, read):
    assert read(f"v,w\n1,0\n{word},1\n3,2\n").of_kind("number") == ["v", "w"]


@pytest.mark.parametrize("form", ["%d.%m.%Y,%H:%M", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:00", "%m/%d/%Y %H:%M:%S"])
def test_the_end_of_a_day_is_the_next(form, read):
    hours = pd.date_range("2024-02-28 01:00", periods=72, freq="h")
    cells = [  # 24:00 in place of 00:00
        when.strftime(form) if when.hour else (when - pd.Timedelta(1, "D")).strftime(form.replace("%H", "24"))
        for when in hours
    ]
    found = read(table("date,time,v" if "," in form else "date,v", cells))
    assert (found.values["date"].to_numpy() == hours.to_numpy()).all()
    assert [cell for cell in found.cells.iloc[23] if "24:00" in cell]


COUNTS = {
    "Date": (45292 + np.arange(30), "1D", "days as Excel counts"),
    "Timestamp": ([f"{45292 + k / 24:.6f}" for k in range(30)], "1h", "days as Excel counts"),
    "time": (1704067200 + 60 * np.arange(30), "1min", "seconds since 1970"),
    "ts": (1704067200000 + 60000 * np.arange(30)[::-1], "1min", "milliseconds since 1970"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_days_and_seconds_are_dates(name, read):
    cells, step, words = COUNTS[name]
    found = read(table(f"{name},v", cells))
    dates = found.values[name].sort_values()
    assert dates.iloc[0] == pd.Timestamp("2024-01-01")
    assert (dates.diff().dropna() == pd.Timedelta(step)).all()
    assert found.assumed == (f"{name!r} as {words}",)
    again = read(table(f"{name},v", [*cells[2:4], cells[0]]), formats={name: words})
    assert again.values[name].tolist() == found.values[name].iloc[[2, 3, 0]].tolist()
    assert read(table(f"{name},v", cells), formats={}).of_kind("date") == []


def test_other_numbers_are_no_dates(read):
    for name, cells in {
        "time [s]": 45292 + np.arange(30),
        "Date": 60310 + np.arange(30),  # as astronomers count
        "level": 45292 + np.arange(30),
        "date": 45292 + np.arange(30) % 7,
    }.items():
        assert read(table(f"{name},v", cells)).of_kind("date") == []
