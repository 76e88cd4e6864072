"""Twenty ugly files that people have: read for what they are, or refused in one sentence with the place."""

import json

import numpy as np
import pytest

from flm.cli.run import run
from flm.cli.tables import read_file

N = 60
HEIGHT = 3 + np.sin(2 * np.pi * np.arange(N) / 12.42)
DAYS = np.datetime64("2024-01-15") + np.arange(N)


def lines(header, *columns, sep=","):
    return "\n".join([header, *(sep.join(row) for row in zip(*columns, strict=True))]) + "\n"


def dates(form):
    return [d.item().strftime(form) for d in DAYS]


HOURS = [str(h) for h in range(N)]
DOT = [f"{v:.5f}" for v in HEIGHT]
COMMA = [v.replace(".", ",") for v in DOT]

# name: (content, target, features or clock, what was assumed)
READ = {
    "plain": (lines("hour,height", HOURS, DOT), "height", ""),
    "semicolons and decimal commas": (
        lines("hour;height", HOURS, COMMA, sep=";"),
        "height",
        "semicolons, decimal commas",
    ),
    "tabs": (lines("hour\theight", HOURS, DOT, sep="\t"), "height", "tabs"),
    "spaces": (lines("hour height", HOURS, DOT, sep="   "), "height", "spaces"),
    "bars": (lines("hour|height", HOURS, DOT, sep="|"), "height", "bars"),
    "Latin-1": (lines("hour,Höhe [m]", HOURS, DOT).encode("latin-1"), "Höhe", "Latin-1"),
    "byte order mark": (lines("hour,height", HOURS, DOT).encode("utf-8-sig"), "height", ""),
    "UTF-16": (lines("hour,height", HOURS, DOT).encode("utf-16"), "height", "utf-16"),
    "quotes": (lines('"hour","the ""height"", in m"', HOURS, [f'"{v}"' for v in DOT]), "the", ""),
    "Windows ends of lines": (lines("hour,height", HOURS, DOT).replace("\n", "\r\n"), "height", ""),
    "dates year-month-day": (lines("day,height", dates("%Y-%m-%d"), DOT), "height", "'day' as dates year-month-day"),
    "dates with Z": (
        lines("day,height", dates("%Y-%m-%dT%H:%M:%SZ"), DOT),
        "height",
        "'day' as dates year-month-day in UTC",
    ),
    "dates day.month.year": (lines("day,height", dates("%d.%m.%Y"), DOT), "height", "'day' as dates day.month.year"),
    "dates month/day/year": (lines("day,height", dates("%m/%d/%Y"), DOT), "height", "'day' as dates month/day/year"),
    "dates 20240131": (lines("day,height", dates("%Y%m%d"), DOT), "height", "'day' as dates year-month-day"),
    "dates Jan 31, 2024": (
        lines("day;height", dates("%b %d, %Y"), DOT, sep=";"),
        "height",
        "semicolons, 'day' as dates month day, year",
    ),
    "durations": (
        lines("since,height", [f"{h}:30" for h in range(N)], DOT),
        "height",
        "'since' as durations",
    ),
    "empty column, trailing delimiters": (
        lines("hour,height,,", HOURS, DOT, [""] * N, [""] * N),
        "height",
        "",
    ),
    "two header lines": (
        lines("hour,height", ["h", *HOURS], ["m", *DOT]),
        "height",
        "units from a second header line",
    ),
    "lines above the header": (
        "Station 12\nmade in 2024\n\n" + lines("hour,height,note", HOURS, DOT, ["a"] * N),
        "height",
        "3 lines above the header skipped",
    ),
    "thousands": (
        lines('hour,"height"', HOURS, [f'"{1e4 * v:,.1f}"' for v in HEIGHT]),
        "height",
        "commas of thousands",
    ),
    "1.234,5": (
        lines("hour;height", HOURS, [f"{1e4 * v:,.1f}".translate(str.maketrans(",.", ".,")) for v in HEIGHT], sep=";"),
        "height",
        "semicolons, decimal commas, points of thousands",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_ugly_files_are_read_for_what_they_are(name, tmp_path):
    content, target, assumed = READ[name]
    path = tmp_path / "ugly.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = read_file(path)
    (goal,) = found.match([target], "--target")
    (clock,) = [c for c in found.of_kind("number", "date", "duration") if c != goal]
    values = found.checked([clock, goal])
    height = values[goal].to_numpy()
    np.testing.assert_allclose(height / height.max(), HEIGHT / HEIGHT.max(), atol=1e-4)
    steps = np.diff(values[clock].to_numpy())
    assert (steps == steps[0]).all()
    assert steps[0] > 0 * steps[0]
    assert ", ".join(found.assumed) == assumed


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_ugly_files_are_fitted_and_filled(name, tmp_path, capsys):
    content, target, assumed = READ[name]
    path, out = tmp_path / "ugly.csv", tmp_path / "filled.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert run(["fit", str(path), "--target", target, "--subnets", "2", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["r2"] > 0.99
    assert (f"was read with {assumed}." in said.err) == bool(assumed)
    written = read_file(path)
    (goal,) = written.match([target], "--target")
    cells = written.cells.copy()
    cells.iloc[20, list(cells).index(goal)] = "NA"
    written.write(path, cells)
    (clock,) = [c for c in written.of_kind("number", "date", "duration") if c != goal]
    assert run(["impute", str(path), "--time", clock, "--columns", goal, "--out", str(out), "--quiet"]) == 0
    filled = read_file(out)
    height = filled.checked([goal])[goal].to_numpy()
    np.testing.assert_allclose(height / height.max(), HEIGHT / HEIGHT.max(), atol=0.02)
    assert filled.cells.drop(index=filled.cells.index[20]).equals(
        read_file(path).cells.drop(index=filled.cells.index[20])
    )


def test_a_comma_before_three_digits_is_read_by_what_is_around_it(tmp_path):
    for content, wanted in {
        "x;y\n1;1,234\n2;2,345\n": (1.234, 2.345),
        "x;y\n1;1,234\n2;1,234,567\n": (1234, 1234567),
        "x;y\n1;1,234\n2;2,345.5\n": (1234, 2345.5),
        'x,y\n1,"1,234"\n2,"2,345"\n': (1234, 2345),
    }.items():
        (tmp_path / "a.csv").write_text(content)
        assert tuple(read_file(tmp_path / "a.csv").values["y"]) == wanted


def test_day_and_month_are_told_apart_by_an_even_clock(tmp_path):
    days = np.datetime64("2024-01-01") + np.arange(9)  # every number could be a day or a month
    for form in ("%d/%m/%Y", "%m/%d/%Y"):
        (tmp_path / "d.csv").write_text(
            lines("day,v", [d.item().strftime(form) for d in days], [str(i) for i in range(9)])
        )
        assert (read_file(tmp_path / "d.csv").values["day"].to_numpy() == days).all()


REFUSED = {
    "x,y\n": "ugly.csv must have a header and at least one row; got 1 lines.",
    "": "ugly.csv must have a header and at least one row; got 0 lines.",
    "x,y\n1,2\n3,4,5\n": "ugly.csv, line 3 must have 2 cells, as the header has; got 3. Mend it, or name every column in line 1.",
    "x,y,y\n1,2,3\n": "ugly.csv must have different names in its header; got 'y' again. Rename one of them.",
    "1,2\n3,4\n5,6\n": "ugly.csv must have the names of its columns in line 1; got numbers. Write a header.",
    "x,y\n1,2\n3,4 kg\n5,6\n": "ugly.csv, line 3: column 'y' must be a number, a date or a duration; got '4 kg'. Mend",
    "x,y\n1,a\n2,b\n": "ugly.csv, line 2: column 'y' must be a number, a date or a duration; got 'a'. Mend",
    "x,y\n1,\n2,\n": "`--target` must have values; got none in column 'y' of ugly.csv.",
    "x,y\n,1\n2,3\n": "ugly.csv, line 2: column 'x' is empty; remove the row or use flm impute.",
    "x1,x2,y\n1,2,3\n": None,
    "y,note\n1,a\n2,b\n": "`--features` must name a column besides 'y'; ugly.csv has no other of numbers.",
    "x,y\n1,inf\n2,3\n": "ugly.csv, line 2: column 'y' must be a number, a date or a duration; got 'inf'. Mend",
    "x\0,y\n1,2\n": "ugly.csv must be a text file with a table; got binary content.",
}


@pytest.mark.slow
@pytest.mark.parametrize("content", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_sentence(content, tmp_path, capsys):
    path = tmp_path / "ugly.csv"
    path.write_text(content)
    message = REFUSED[content]
    features = ["--features", "x"] if message is None else []
    assert run(["fit", str(path), "--target", "y", *features]) == 2
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert (message or "`--features` must name one column of ugly.csv (x1, x2, y); got 'x', with which 2 begin.") in err


def test_parquet_and_spreadsheets_say_what_to_do(tmp_path, capsys):
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    assert run(["fit", str(tmp_path / "a.xlsx"), "--target", "y"]) == 2
    assert "Save it as CSV first." in capsys.readouterr().err


@pytest.mark.slow
def test_a_stranger_fits_dates_and_gets_dates_back(tmp_path, capsys):
    days = np.datetime64("1990-01-01") + np.arange(0, 3000, 25)
    temperature = 10 + 8 * np.cos(2 * np.pi * np.arange(0, 3000, 25) / 365.2425 - 1)
    cells = [f"{v:.3f}".replace(".", ",") for v in temperature + 0.1 * np.random.default_rng(0).normal(size=120)]
    cells[5] = ""
    written = [d.item().strftime("%d.%m.%Y") for d in days]
    path, out = tmp_path / "w.csv", tmp_path / "fit"
    path.write_bytes(lines("Datum;Temp [°C];Ort", written, cells, ["Zürich"] * 120, sep=";").encode("latin-1"))
    assert run(["fit", str(path), "--target", "temp", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "1 of 120 rows have no 'Temp [°C]' and were left out." in said.err
    assert "left alone: Ort" in said.err
    assert "w.csv was read with semicolons, Latin-1, 'Datum' as dates day.month.year, decimal commas." in said.err
    assert "period 365" in said.out or "period 1 years" in said.out  # a duration
    assert "days from the first row" not in said.out
    assert (out / "fitted.csv").read_text().splitlines()[1].startswith("1990-01-01")
    later = tmp_path / "later.csv"
    later.write_text("Datum;Ort\n15.07.1995;Bern\n")
    assert run(["predict", str(out / "model.safetensors"), str(later)]) == 0
    row = capsys.readouterr().out.splitlines()[1].split(",")
    assert row[0] == "15.07.1995"
    wanted = 10 + 8 * np.cos(2 * np.pi * 2021 / 365.2425 - 1)
    assert abs(float(row[1]) - wanted) < 0.5
    cells[60:65] = [""] * 5
    path.write_bytes(lines("Datum;Temp [°C];Ort", written, cells, ["Zürich"] * 120, sep=";").encode("latin-1"))
    assert run(["impute", str(path), "--out", str(tmp_path / "filled.csv"), "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["filled"] == {"Temp [°C]": 6}
    assert "the clock is 'Datum'" in said.err
    old, new = (p.read_bytes().decode("latin-1").splitlines() for p in (path, tmp_path / "filled.csv"))
    for i, (a, b) in enumerate(zip(old, new, strict=True)):
        if ";;" not in a:
            assert a == b
        else:
            value = float(b.split(";")[1].replace(",", "."))
            assert abs(value - temperature[i - 1]) < 0.6
            assert b.split(";")[::2] == a.split(";")[::2]


@pytest.mark.slow
def test_fifty_thousand_rows(tmp_path):
    n = 50_000
    hours = np.datetime64("2000-01-01T00:00") + np.arange(n) * np.timedelta64(1, "h")
    rows = (f"{h};{i % 100},5" for i, h in enumerate(hours.astype(str)))
    (tmp_path / "long.csv").write_text("when;v\n" + "\n".join(rows) + "\n")
    found = read_file(tmp_path / "long.csv")
    assert found.of_kind("date") == ["when"]
    assert (found.values["v"].to_numpy() == np.arange(n) % 100 + 0.5).all()
