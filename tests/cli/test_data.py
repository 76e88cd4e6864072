"""Tables on the command line: fit, predict and impute on generated series."""

import io
import json
import sys

import numpy as np
import pytest

from flm.cli import output
from flm.cli.run import run
from flm.cli.tables import read_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    hour = np.arange(240.0)
    height = 3 + np.sin(2 * np.pi * hour / 12.42) + 0.01 * rng.standard_normal(240)
    lines = [f"{h:g},{v:.6f},x" for h, v in zip(hour, height, strict=True)]
    (path / "tides.csv").write_text("hour,height,note\n" + "\n".join(lines) + "\n")
    holed = [
        f"2024-01-{1 + int(h) // 24:02d} {int(h) % 24:02d}:00,{'' if h % 7 == 3 else f'{v:.6f}'},keep"
        for h, v in zip(hour, height, strict=True)
    ]
    (path / "holes.csv").write_text("when,height,note\n" + "\n".join(holed) + "\n")
    return path


@pytest.mark.slow
def test_fit_finds_the_tide_and_predicts_it(folder, capsys):
    out = folder / "fit"
    assert (
        run(["fit", str(folder / "tides.csv"), "--target", "height", "--features", "hour", "--json", "--out", str(out)])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["r2"] > 0.999
    assert found["noise"] == pytest.approx(0.01, rel=0.3)
    assert "within 1.96 standard deviations" in (out / "index.html").read_text()
    periods = [2 * np.pi / abs(f[0]) for f in found["frequencies"] if f[0]]
    assert min(abs(p - 12.42) for p in periods) < 0.02
    (folder / "later.csv").write_text("hour\n10.5\n100.25\n")
    assert run(["predict", str(out / "model.safetensors"), str(folder / "later.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = 3 + np.sin(2 * np.pi * np.array([10.5, 100.25]) / 12.42)
    np.testing.assert_allclose(found["value"], wanted, atol=0.02)
    assert all(0.005 < s < 0.05 for s in found["standard_deviation"])


@pytest.mark.slow
def test_impute_fills_holes_and_keeps_the_rest(folder, capsys):
    out = folder / "filled.csv"
    arguments = [
        "impute",
        str(folder / "holes.csv"),
        "--time",
        "when",
        "--columns",
        "height",
        "--out",
        str(out),
        "--json",
    ]
    assert run(arguments) == 0
    holes = [i for i in range(240) if i % 7 == 3]
    assert json.loads(capsys.readouterr().out)["filled"] == {"height": len(holes)}
    before, after = (read_file(path).cells for path in (folder / "holes.csv", out))
    assert list(after) == list(before)
    truth = 3 + np.sin(2 * np.pi * np.arange(240.0) / 12.42)
    for i, (old, new) in enumerate(zip(before.to_numpy().tolist(), after.to_numpy().tolist(), strict=True)):
        if i in holes:
            assert float(new[1]) == pytest.approx(truth[i], abs=0.1)
            assert (new[0], new[2]) == (old[0], old[2])
        else:
            assert new == old


@pytest.mark.slow
def test_impute_says_which_values_are_a_forecast(folder, capsys):
    rows = (folder / "holes.csv").read_text().splitlines()
    rows[-2:] = [",".join([row.split(",")[0], "", "keep"]) for row in rows[-2:]]
    (folder / "ends.csv").write_text("\n".join(rows) + "\n")
    out = folder / "ends_filled.csv"
    arguments = [
        "impute",
        str(folder / "ends.csv"),
        "--time",
        "when",
        "--columns",
        "height",
        "--out",
        str(out),
        "--json",
    ]
    assert run(arguments) == 0
    written = capsys.readouterr()
    found = json.loads(written.out)
    missing = sum(row.split(",")[1] == "" for row in rows)
    assert found["filled"] == {"height": missing}
    assert found["extrapolated"] == {"height": 2}
    assert "2 missing values lie outside the time span" in written.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "tides.csv", "--target", "heigt"],
            "`--target` must be a column of tides.csv (hour, height, note); got 'heigt'. Did you mean 'height'?",
        ),
        (
            ["fit", "holes.csv", "--target", "height", "--features", "height"],
            "`--features` must be columns besides the target; got 'height'.",
        ),
    ],
)
def test_bad_tables_are_one_line(folder, arguments, message, capsys):
    assert run([arguments[0], str(folder / arguments[1]), *arguments[2:]]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_the_tables_of_the_documentation_are_as_generated(tmp_path):
    import runpy
    from pathlib import Path

    tables = Path(__file__).parents[2] / "examples" / "tables"
    runpy.run_path(str(tables / "make_tables.py"))["main"](tmp_path)
    for made in tmp_path.iterdir():
        assert made.read_text() == (tables / made.name).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("fit tides.csv --target height --features hour", ("columns", "line 1 of")),
        ("impute holes.csv --time when --columns height --out filled.csv", ("lines", "filling")),
    ],
)
def test_fits_have_a_bar_with_the_time_left_in_a_terminal(arguments, words, folder, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    told = []
    monkeypatch.chdir(folder)
    monkeypatch.setattr(output, "LATE", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr("rich.progress.Progress.update", lambda bar, task, **state: told.append(state))
    assert run(arguments.split()) == 0
    assert "-:--:--" in sys.stderr.getvalue()  # rich's time left before anything was told
    shares = [state["completed"] for state in told]
    assert len(shares) > 2
    assert 0 <= min(shares) <= max(shares) <= 1
    assert all(any(word in state["state"] for state in told) for word in words)


def test_a_folder_gets_the_filled_table_and_a_page(tmp_path):
    t = np.arange(60)
    values = [f"{np.sin(k / 3):.6f}" if k % 11 else "" for k in t]
    (tmp_path / "a.csv").write_text("hour,y\n" + "".join(f"{k},{v}\n" for k, v in zip(t, values, strict=True)))
    assert run(["impute", str(tmp_path / "a.csv"), "--time", "hour", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert "6 of 60 cells filled" in page
    assert page.count('class="answer"') == 1
    assert "&#34;bands&#34;: [[1, 2]]" in page
    assert (tmp_path / "out" / "filled.csv").is_file()


@pytest.mark.slow
def test_a_table_without_a_clock_is_said(tmp_path, capsys):
    lines = [f"{k % 24},{'' if k % 9 == 4 else round(np.sin(k / 4), 4)}" for k in range(60)]
    (tmp_path / "a.csv").write_text("hour,v\n" + "\n".join(lines) + "\n")
    assert run(["impute", str(tmp_path / "a.csv"), "--out", str(tmp_path / "b.csv")]) == 0
    told = "no column is the clock: rows are taken as equal steps of time. --time names a clock."
    assert told in capsys.readouterr().err
    (tmp_path / "a.csv").write_text("no,hour,v\n" + "".join(f"{k},{line}\n" for k, line in enumerate(lines)))
    assert run(["impute", str(tmp_path / "a.csv"), "--out", str(tmp_path / "b.csv")]) == 0
    assert "equal steps of time. --time 'no' names a clock." in capsys.readouterr().err
    spans = [f"2024-01-01 {k // 6:02d}:{k % 6}0,2024-01-01 {k // 6:02d}:{k % 6}9" for k in range(60)]
    (tmp_path / "a.csv").write_text(
        "from,to,v\n" + "".join(f"{s},{k.split(',')[1]}\n" for s, k in zip(spans, lines, strict=True))
    )
    assert run(["impute", str(tmp_path / "a.csv"), "--out", str(tmp_path / "b.csv")]) == 0
    assert "the clock is 'from'." in capsys.readouterr().err
    (tmp_path / "a.csv").write_text("t,v\n0,1\n,\n2,3\n3,4\n,5\n")
    assert run(["impute", str(tmp_path / "a.csv"), "--time", "t", "--out", str(tmp_path / "b.csv")]) == 2
    assert capsys.readouterr().err.endswith("column 't' is empty; remove the row.\n")


@pytest.mark.slow
def test_inputs_with_the_names_of_predictions_are_kept(tmp_path, capsys):
    path, model, out = tmp_path / "a.csv", tmp_path / "fit" / "model.safetensors", tmp_path / "b.csv"
    rows = [f"{k},{np.sin(k / 2):.4f}" for k in range(40)]
    path.write_text("\n".join(["value,y", *rows, ""]))
    assert run(["fit", str(path), "--target", "y", "--subnets", "2", "--out", str(model.parent), "--quiet"]) == 0
    assert run(["predict", str(model), str(path), "--out", str(out)]) == 0
    told = "column 'value' is kept: the new one is 'predicted value'."
    assert told in capsys.readouterr().err
    written = read_file(out).values
    assert list(written) == ["value", "predicted value", "standard_deviation"]
    np.testing.assert_allclose(written["value"], np.arange(40))
    np.testing.assert_allclose(written["predicted value"], np.sin(np.arange(40) / 2), atol=0.1)


@pytest.mark.parametrize("command", ["impute", "predict"])
def test_a_spreadsheet_is_not_written_as_text(command, folder, capsys):
    first = ["x.safetensors"] if command == "predict" else []
    assert run([command, *first, str(folder / "holes.csv"), "--out", str(folder / "b.xlsx")]) == 2
    told = "b.xlsx must be a CSV or Parquet file; got a spreadsheet. Write a CSV file, which spreadsheets open."
    assert capsys.readouterr().err.endswith(f"{told}\n")


def test_columns_of_deviations_do_not_take_the_place_of_others(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("t,x,x_standard_deviation\n0,1,7\n1,,8\n2,3,9\n3,4,9\n")
    arguments = ["impute", str(tmp_path / "a.csv"), "--time", "t", "--out", str(tmp_path / "b.csv")]
    assert run([*arguments, "--deviations"]) == 2
    told = (
        "`--deviations` must add new columns; a.csv has 'x_standard_deviation' already. Rename or remove that column."
    )
    assert told in capsys.readouterr().err
    assert not (tmp_path / "b.csv").exists()


DAYS = np.arange("2023-01-01", "2023-02-10", dtype="datetime64[D]").tolist()
FITTED = {  # the name of a column: the cells of the fit
    "date": [f"{day:%Y%m%d}" for day in DAYS],
    "month": [f"{2001 + k // 12}{k % 12 + 1:02d}" for k in range(40)],
    "written": [f"{day:%d/%m/%Y}" for day in DAYS],
    "unix": [str(1610122000 + 10 * k) for k in range(40)],
    "since": [f"{k}:30:00" for k in range(40)],
    "day": [str(k) for k in range(40)],
    "load": [f"{k} kW" for k in range(40)],
    "kind": [f"{k % 2}{'ab'[k // 20]}" if k % 3 else "5" for k in range(40)],
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    made = {}

    def give(name):
        if name not in made:
            path = tmp_path_factory.mktemp("fitted")
            rows = "".join(f"{cell},{np.sin(k / 2):.4f}\n" for k, cell in enumerate(FITTED[name]))
            (path / "a.csv").write_text(f"{name},v\n{rows}")
            fit = ["fit", str(path / "a.csv"), "--target", "v", "--features", name, "--subnets", "2"]
            assert run([*fit, "--out", str(path / "fit"), "--quiet"]) == 0
            made[name] = str(path / "fit" / "model.safetensors")
        return made[name]

    return give


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "row"),
    [*[(name, row) for name in ("date", "month", "unix", "since", "day", "load") for row in (4, 19)], ("kind", 3)],
)
def test_few_rows_are_read_as_the_model_knows_them(name, row, fitted, tmp_path, capsys):
    capsys.readouterr()
    values = []
    for rows in ([row], [row, row + 7, row + 9, row + 12]):
        (tmp_path / "b.csv").write_text("\n".join([name.title(), *(FITTED[name][k] for k in rows), ""]))
        assert run(["predict", fitted(name), str(tmp_path / "b.csv"), "--json"]) == 0
        values.append(json.loads(capsys.readouterr().out)["value"][0])
    assert values[0] == pytest.approx(values[1])
    assert name == "kind" or values[0] == pytest.approx(np.sin(row / 2), abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cell", "rule", "got"),
    [
        ("written", "45019", "a date", "the number '45019'"),
        ("unix", "20230105", "a date", "the number '20230105'"),
        ("since", "2.5", "a duration", "the number '2.5'"),
        ("since", "2023-01-05", "a duration", "the date '2023-01-05'"),
        ("day", "2024-01-05", "a number", "the date '2024-01-05'"),
        ("day", "5 d", "a number", "the duration '5 d'"),
        ("day", "five", "a number", "the text 'five'"),
    ],
)
def test_other_kinds_than_were_fitted_are_refused(name, cell, rule, got, fitted, tmp_path, capsys):
    for rows in (1, 4):
        (tmp_path / "b.csv").write_text(f"{name}\n" + f"{cell}\n" * rows)
        assert run(["predict", fitted(name), str(tmp_path / "b.csv")]) == 2
        told = (
            f"b.csv, line 2: column {name!r} must be {rule}, as was fitted; got {got}. Write it as in the fitted table."
        )
        assert told in capsys.readouterr().err


@pytest.mark.slow
def test_the_first_cell_of_another_kind_is_named(fitted, tmp_path, capsys):
    (tmp_path / "b.csv").write_text("written\n05/01/2023\n\n45019\n45020\n45021\n")
    assert run(["predict", fitted("written"), str(tmp_path / "b.csv")]) == 2
    assert "line 4: column 'written' must be a date, as was fitted; got the number '45019'." in capsys.readouterr().err


@pytest.mark.slow
def test_a_unit_may_be_left_out_but_is_not_exchanged(fitted, tmp_path, capsys):
    (tmp_path / "b.csv").write_text("load\n4\n")
    assert run(["predict", fitted("load"), str(tmp_path / "b.csv")]) == 0
    written = capsys.readouterr()
    assert "the input 'load [kW]' of the model was read from column 'load'." in written.err
    assert float(written.out.split(",")[-2].split()[-1]) == pytest.approx(np.sin(2), abs=0.3)
    (tmp_path / "b.csv").write_text("load\n4 W\n5 W\n6 W\n")
    assert run(["predict", fitted("load"), str(tmp_path / "b.csv")]) == 2
    assert "must be a column of b.csv (load [W]); got 'load [kW]'." in capsys.readouterr().err


@pytest.mark.parametrize("cell", ["", "NA"])
def test_an_empty_category_is_refused(cell, tmp_path, capsys):
    rows = "".join(f"{'AB'[k % 2]},{k},{k % 5}\n" for k in range(20))
    (tmp_path / "a.csv").write_text(f"station,t,v\n{rows}{cell},4,5\n")
    assert run(["fit", str(tmp_path / "a.csv"), "--target", "v", "--features", "station,t"]) == 2
    assert "line 22: column 'station' is empty; remove the row" in capsys.readouterr().err


def test_none_is_a_category(tmp_path):
    (tmp_path / "a.csv").write_text("rain,v\nnone,1\nsnow ,2\n")
    found = read_file(tmp_path / "a.csv")
    assert found.checked(["rain"], text=True)["rain"].tolist() == ["none", "snow"]
    with pytest.raises(ValueError, match="line 2: column 'rain' is empty"):
        read_file(tmp_path / "a.csv", missing=["none"]).checked(["rain"], text=True)
