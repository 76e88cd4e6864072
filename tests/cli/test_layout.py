"""The layout of files: headers, units, delimiters and encodings that are easily mistaken."""

import gzip

import numpy as np
import pandas as pd
import pytest

from flm.cli.run import run
from flm.cli.tables import read_file

ROWS = "".join(f"{k},{np.sin(k / 2):.4f}\n" for k in range(40))


@pytest.fixture
def read(tmp_path):
    def give(content, name="a.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_file(tmp_path / name)

    return give


@pytest.mark.parametrize("cell", [".11", "-.5", "\u22121.5", "<0.5", "5"])
def test_a_first_row_of_values_is_no_row_of_units(cell, read):
    rows = "".join(f"a,{k}\n" for k in range(5))
    assert len(read(f"station,x\na,{cell}\n{rows}").cells) == 6
    assert list(read(f"station,x\n-,m³/s\n{rows}").cells) == ["station", "x [m³/s]"]


def test_an_empty_cell_between_spaces_is_refused(read):
    told = r"a\.csv, line 3 must have 3 cells, as other lines; got 2\. An empty cell cannot be seen between spaces: write NA"
    with pytest.raises(ValueError, match=told):
        read("a b c\n0 0.5 10\n1     11\n2 1.0 12\n3 1.5 13\n")


@pytest.mark.parametrize("first", ["2023-01-01,10.5", "2023-01-01,10.5,", "01.02.2023 12:00,1", "2023-01,3", "1:30,2"])
def test_a_file_without_names_is_refused(first, read):
    with pytest.raises(ValueError, match=r"a\.csv must have the names of its columns in line 1; got dates or numbers"):
        read(f"{first}\n{first}\n{first}\n")


@pytest.mark.slow
def test_an_index_of_pandas_is_read_and_written_back(tmp_path, capsys):
    frame = pd.DataFrame({"x": np.arange(40), "v": np.sin(np.arange(40) / 2)})
    frame.loc[7, "v"] = np.nan
    path, out = tmp_path / "a.csv", tmp_path / "b.csv"
    frame.to_csv(path)
    assert run(["impute", str(path), "--time", "x", "--out", str(out)]) == 0
    assert "the first column, which has no name, as 'unnamed'" in capsys.readouterr().err
    assert out.read_text().splitlines()[:8] == path.read_text().splitlines()[:8]
    frame.set_index(pd.date_range("2024-01-01", periods=40)).drop(columns="x").to_csv(path)
    assert run(["fit", str(path), "--target", "v", "--subnets", "2"]) == 0
    assert "v by unnamed" in capsys.readouterr().out


def test_layouts_of_other_programs(read):
    plain = read("x,v\n" + ROWS).values
    semicolons = ("x,v\n" + ROWS).replace(",", ";")
    for content, name in (
        ("sep=;\n" + semicolons, "a.csv"),
        (("\ufeffsep=;\n" + semicolons).replace("\n", "\r\n"), "a.csv"),
        (gzip.compress(("x,v\n" + ROWS).encode()), "a.csv.gz"),
        (("x,v\n" + ROWS).encode("utf-16-le"), "a.csv"),
        (("x,v\n" + ROWS).encode("utf-16-be"), "a.csv"),
    ):
        assert (read(content, name).values.to_numpy() == plain.to_numpy()).all()
    assert read("sep=;\n" + semicolons).assumed == ("semicolons",)
    with pytest.raises(ValueError, match=r"a\.csv\.gz must be a whole gzip file"):
        read(gzip.compress(ROWS.encode())[:40], "a.csv.gz")


def test_lines_are_counted_through_breaks_inside_of_cells(read):
    found = read('t,note\n0,"a\nb"\n1,"c\n\nd"\nx,e\n2,f\n')
    assert list(found.cells.index) == [2, 4, 7, 8]
    with pytest.raises(ValueError, match="line 7: column 't' must be a number"):
        found.checked(["t"])


def test_parquet_is_read_as_csv_is(tmp_path):
    pytest.importorskip("pyarrow")
    dates = pd.date_range("2024-01-01", periods=40, tz="Europe/Zurich")
    frame = pd.DataFrame({"t": dates, "v": np.sin(np.arange(40)), "note": "a", "n": np.arange(40)})
    frame.loc[7, "v"] = np.nan
    frame.to_parquet(tmp_path / "a.parquet")
    found = read_file(tmp_path / "a.parquet")
    assert found.values.attrs["kinds"] == {"t": "date", "v": "number", "note": "text", "n": "number"}
    assert (found.values["t"].to_numpy() == dates.to_numpy()).all()
    assert found.cells.loc[9, "v"] == ""
    out = tmp_path / "b.parquet"
    assert run(["impute", str(tmp_path / "a.parquet"), "--columns", "v", "--out", str(out)]) == 0
    assert float(pd.read_parquet(out)["v"][7]) == pytest.approx(np.sin(7), abs=0.5)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch, capsys):
    def missing(path):
        raise ImportError

    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(pd, "read_parquet", missing)
    assert run(["fit", str(tmp_path / "a.parquet"), "--target", "v"]) == 2
    assert "Parquet files need pyarrow: pip install pyarrow, or give the table as CSV." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("d,v\n1:30,1\n1:40,2\n", "--target d", "`--target` must be a column of numbers; got 'd' of a.csv, which is a clock."),
        ("x,v\n1,2\n", "--target v", "a.csv must have at least 3 rows with a 'v'; got 1."),
        (
            "c,v\na,1\na,2\na,3\n",
            "--target v --features c",
            "`X` must have a column whose values differ; got the same text in every row of 'c'. Add another column.",
        ),
        ("c,v\na,1\nb,2\nc,3\n", "--target v --time c", "line 2: column 'c' must be a number, a date or a duration; got 'a'."),
        ("t,v\n0,1.5\n1,(0.5)\n2,(2)\n", "--target v", "of one form; got '1.5' and, in line 3, '(0.5)'."),
        ("t,v\n0,5 m\n1,6 kg\n2,7 s\n", "--target v", "of one form; got '5 m' and, in line 3, '6 kg'."),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted_is_one_sentence(content, arguments, message, tmp_path, capsys):
    (tmp_path / "a.csv").write_text(content)
    assert run(["fit", str(tmp_path / "a.csv"), *arguments.split()]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_inputs_are_matched_by_whole_words_which_is_said(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("t,v\n" + ROWS)
    model, later = tmp_path / "fit" / "model.safetensors", tmp_path / "b.csv"
    fit = ["fit", str(tmp_path / "a.csv"), "--target", "v", "--subnets", "2", "--out", str(model.parent), "--quiet"]
    assert run(fit) == 0
    later.write_text("total_cost,name\n5,a\n")
    assert run(["predict", str(model), str(later)]) == 2
    told = "`inputs of the model` must be a column of b.csv (total_cost, name); got 't'."
    assert told in capsys.readouterr().err
    later.write_text("t [h],total\n5,1\n")
    assert run(["predict", str(model), str(later)]) == 0
    assert "the input 't' of the model was read from column 't [h]'." in capsys.readouterr().err


def test_tables_with_spaces_are_written_so_that_they_are_read_again(read, tmp_path):
    found = read("a b c\n0 NA x\n1 5 y\n2 6 NA\n3 7 z\n4 7 z\n")
    found.write(tmp_path / "b.csv", found.cells.replace("NA", ""))
    assert read_file(tmp_path / "b.csv").cells.equals(found.cells)


def test_a_word_comes_before_a_beginning(read):
    assert read("t [h],Temp [°C]\n0,1\n1,2\n").match(["t"], "--time") == ["t [h]"]


def test_empty_lines_of_a_single_column_are_holes(read):
    assert read("v\n1\n\n3\n\n\n6\n\n").values["v"].isna().tolist() == [False, True, False, True, True, False]
    assert len(read("t,v\n0,1\n\n2,3\n").values) == 2


def test_names_below_those_of_groups_are_joined(read):
    found = read(
        ",North,,South,\ndate,temp,rain,temp,rain\n" + "".join(f"2024-01-{k:02d},{k},1,{k},2\n" for k in range(1, 9))
    )
    assert list(found.cells) == ["date", "North temp", "North rain", "South temp", "South rain"]
    assert found.assumed[0] == "names from a second header line"


DAYS = "".join(f"2024-01-{k:02d};{k};{k}\n" for k in range(1, 12))


@pytest.mark.parametrize(
    ("above", "lines"),
    [
        ("Report;;\n", 1),
        ("Report;;\n;;\nStation;Berne;\n\n", 4),
        ("latitude;longitude;height;zone\n47;7;540;GMT\n\n", 3),
        ("# made by hand\n# on a day\n", 2),
    ],
)
def test_titles_and_tables_above_a_table_are_skipped(above, lines, read):
    found = read(f"{above}day;rain;wind\n{DAYS}")
    assert list(found.cells) == ["day", "rain", "wind"]
    assert found.assumed[1] == f"{lines} line{'s' * (lines > 1)} above the header skipped"


def test_empty_lines_do_not_begin_a_table(read):
    assert len(read(f"day;rain;wind\n2023-12-31;0;0\n\n{DAYS}").cells) == 12


def test_names_behind_a_hash_are_names(read):
    assert list(read("# a title of five words\n# t   v\n  0   1\n  1   2\n  2  5\n 3 5\n").cells) == ["t", "v"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("<!DOCTYPE html>\n<p>Not found, sorry</p>\n", "HTML or XML"),
        ('[{"t": 1, "v": 2},\n{"t": 2, "v": 3}]\n', "JSON"),
    ],
)
def test_what_is_no_table_is_named(content, kind, read):
    with pytest.raises(ValueError, match=rf"a\.csv must be a CSV file; got {kind}, .*\. Save the table as CSV\."):
        read(content)


STATIONS = "".join(f"{name},{k / 2},0.00\n" for k in range(8) for name in ("BER", "MUC"))


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (f"station,tmpf,p01i\nBER,M,T\n{STATIONS}", 17),  # comes again below
        (
            "p01i,station,tmpf\nT,BER,M\n"
            + "".join(f"0.00,{name},{k}\n" for k, name in enumerate(["A", "B", "C", "BER"])),
            5,
        ),
        ("station,height\nBER,M\nMUC,520\nHAM,11\nFRA,110\n", 4),  # no word for a unit
        (f"station,tmpf,p01i\n{'BER,M,T' + chr(10)}{'BER,1,T' + chr(10)}{'BER,M,M' + chr(10)}{STATIONS}", 19),
        ("name,load\n-,kW\nA,1\nB,2\nC,4\n", 3),
        ("name,load\n[text],[kW]\nA,1\nB,2\nC,4\n", 3),
        ("name,load\nstring,kW\nA,1\nB,2\nC,4\n", 3),
        ("day,load\nUTC,kW\n2024-01-01,1\n2024-01-02,2\n2024-01-03,4\n", 3),
    ],
)
def test_rows_of_marks_are_no_units(content, rows, read):
    assert len(read(content).cells) == rows


TIMES = [f"{t:%Y-%m-%d %H:%M}" for t in pd.date_range("2024-03-01", periods=9, freq="h")]
NORTH = [f"{t:%d.%m.%Y %H:%M}" for t in pd.date_range("2024-03-01", periods=9, freq="h")]


@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize(
    ("above", "header", "rows"),
    [
        ("# station 5\n# units m\n", "date,load,temp", [f"{t},1201.{k},10.10" for k, t in enumerate(TIMES)]),
        ("Station: Berlin\nHöhe: 34\n", "Zeit;Temp", [f"{t};{k},5" for k, t in enumerate(NORTH)]),
        ("Station Berlin\n", "Time stamp,load", [f"{t},{k}" for k, t in enumerate(TIMES)]),
        ("Serial,12345,\nInterval,60,min\n", "Time,Temp,Hum", [f"{t},{k},70" for k, t in enumerate(TIMES)]),
        ("Serial,12345\nHeight,34\n", "time,note", [f"{t},ok" for t in TIMES]),
        ("# made by hand\n", "t v w", [f"{k} 1 2" for k in range(9)]),
        ("", "station,2019,2020", [f"A{k},5,{k}" for k in range(9)]),
        ("", "t v w", [f"{k} 1,5 2,5" for k in range(9)]),
        ("# made in 2024\n", "t v w", [f"{k} 1,5 2,5" for k in range(9)]),
        ("", "name,note", ["a b,c d"] * 9),
        ("", "Time,T 1,2 T", [f"{t},{k},70" for k, t in enumerate(TIMES)]),
    ],
)
def test_lines_above_a_table_change_neither_delimiter_nor_header(above, header, rows, count, read):
    found = read("\n".join([*above.splitlines(), header, *rows[:count], ""]))
    assert list(found.cells) == header.replace(",", ";").replace(" ", ";" if header == "t v w" else " ").split(";")
    assert len(found.cells) == count


LOGGER = """"TOA5","CR1000","CR1000","12345","CR1000.Std.22","CPU:a.CR1","1234","Table1"
"TIMESTAMP","RECORD","Batt","Temp"
"TS","RN","Volts","Deg C"
"","","Min","Avg"
"""


@pytest.mark.parametrize("count", [1, 3, 30])
@pytest.mark.parametrize("wider", ["", ',"a","b","c","d"'])
def test_files_of_loggers_have_four_lines_above_the_data(count, wider, read):
    lines = [
        line + (wider if k in (1, 2) else ',"Min"' * 4 * bool(wider) if k else "")
        for k, line in enumerate(LOGGER.splitlines())
    ]
    rows = [
        f'"{t:%Y-%m-%d %H:%M:%S}",{k},12.{k}," NAN"' + ",5" * 4 * bool(wider)
        for k, t in enumerate(pd.date_range("2024-03-01", periods=count, freq="h"))
    ]
    found = read("\n".join([*lines, *rows, ""]))
    assert list(found.cells)[:3] == ["TIMESTAMP", "RECORD [RN]", "Batt [Volts]"]
    assert found.of_kind("date") == ["TIMESTAMP"]
    assert len(found.cells) == count


def test_rows_of_marks_below_names_with_numbers_are_data(read):
    found = read("country,2019,2020\nAT,c,p\nDE,5,6\nFR,7,8\nIT,7,9\n")
    assert list(found.cells) == ["country", "2019", "2020"]
    assert len(found.cells) == 4


def test_units_behind_a_hash_are_units(read):
    rows = "".join(f"{k} {k}\n" for k in range(9))
    assert list(read(f"# t v\n# s m\n{rows}").cells) == ["t [s]", "v [m]"]


def test_data_keep_their_hashes(read):
    found = read("# name,v\n# 1,5\n# 2,6\n")
    assert list(found.cells) == ["name", "v"]
    assert found.cells["name"].tolist() == ["# 1", "# 2"]


def test_an_empty_line_below_the_header_makes_no_header_of_the_first_row(read):
    found = read("name,note\n\nann,good\nbob,bad\neve,good\n")
    assert list(found.cells) == ["name", "note"]
    assert len(found.cells) == 3
