"""Units inside of cells: numbers where the cells agree, written back as they came."""

import numpy as np
import pandas as pd
import pytest

from flm.cli.run import run
from flm.cli.tables import read_file

VALUES = 1200 + 300 * np.sin(np.arange(60) / 6)


def european(value):
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


# how a cell is written: (function, unit, words)
WRITTEN = {
    "percent": (lambda v: f"{v:.2f} %".replace(".", ","), "%", "decimal commas"),
    "percent, tight": (lambda v: f"{v:.2f}%", "%", ""),
    "euros": (lambda v: f"€ {european(v)}", "€", "decimal commas, points of thousands"),
    "euros behind": (lambda v: f"{european(v)} EUR", "EUR", "decimal commas, points of thousands"),
    "dollars": (lambda v: f"${v:.2f}", "$", ""),
    "dollars of Canada": (lambda v: f"CA${v:,.2f}", "CA$", "commas of thousands"),
    "francs": (lambda v: f"CHF {v:,.2f}".replace(",", "'"), "CHF", "apostrophes of thousands"),
    "crowns": (lambda v: f"{v:,.2f} kr".replace(",", "\u00a0"), "kr", "spaces of thousands"),
    "meters, now and then with a space": (lambda v: f"{v:.2f}{' ' * int(v > 1200)}m", "m", ""),
    "meters": (lambda v: f"{v:.2f} m", "m", ""),
    "a second per cubic meter": (lambda v: f"{v:.2f} s/m3", "s/m3", ""),
}


@pytest.fixture
def read(tmp_path):
    def give(cells, header="t;v", options=None):
        rows = "".join(f"{k};{cell}\n" for k, cell in enumerate(cells))
        (tmp_path / "a.csv").write_text(f"{header}\n{rows}")
        return read_file(tmp_path / "a.csv", **(options or {}))

    return give


@pytest.mark.parametrize("name", WRITTEN)
def test_cells_with_a_unit_are_numbers(name, read, tmp_path):
    write, unit, words = WRITTEN[name]
    found = read([*map(write, VALUES), ""])
    assert found.of_kind("number") == ["t", f"v [{unit}]"]
    np.testing.assert_allclose(found.values[f"v [{unit}]"][:-1], VALUES, atol=0.006)
    assert ", ".join(found.assumed) == ", ".join(filter(None, ["semicolons", f"'v' in {unit}", words]))
    cells = found.cells.copy()
    cells.iloc[-1, 1] = found.number(-2.5, column=f"v [{unit}]")
    found.write(tmp_path / "b.csv", cells)
    assert (tmp_path / "b.csv").read_text().startswith((tmp_path / "a.csv").read_text()[:-1])
    assert read_file(tmp_path / "b.csv").values.iloc[-1, 1] == -2.5


def test_a_unit_that_the_header_has_is_not_repeated(read):
    assert list(read([f"{k} %" for k in range(9)], "t;v [%]").cells) == ["t", "v [%]"]
    assert list(read([f"{k} m" for k in range(9)], "t;from").cells) == ["t", "from [m]"]


def test_numbers_beside_units_are_signed_and_may_be_missing(read):
    found = read(["-$3.40", "$-3.40", "+$3.40", "$.5", "n.d.", ""], options={"missing": ["n.d."]})
    values = found.checked(["v"], holes=True)["v [$]"] if "v" in found.cells else found.values["v [$]"]
    assert values.tolist()[:4] == [-3.4, -3.4, 3.4, 0.5]
    assert values.isna().tolist()[4:] == [True, True]


@pytest.mark.parametrize(
    "cells",
    [
        ["A1", "A2", "A3", "A4"],
        ["12 h", "13 h", "14 h", "15 h"],
        ["2019Q1", "2019Q1", "2019Q1", "2019Q1"],
        ["12:30 Uhr", "12:40 Uhr", "12:50 Uhr", "13:00 Uhr"],
        ["5 m", "6 km", "7 mm", "8 ft"],
        ["2A"],
        ["11A", "12A", "13A", "14B", "15A"],
        ["<0.5", "<0.6", "<0.7", "<0.8"],
    ],
)
def test_other_cells_have_no_unit(cells, read):
    assert not read(cells).units


def test_a_cell_of_another_unit_is_named(read):
    cells = [f"{k} m" for k in range(19)]
    for odd in ("70 cm", "7", "x"):
        found = read([*cells, odd])
        told = (
            rf"a\.csv, line 21: column 'v \[m\]' must be a number with 'm', as most cells; got '{odd}'\. Write the same"
        )
        with pytest.raises(ValueError, match=told):
            found.checked(["v [m]"])


@pytest.mark.slow
def test_prices_are_filled_and_fitted_as_they_are_written(tmp_path, capsys):
    cells = [f"€ {european(v)}" for v in VALUES]
    cells[20] = ""
    rows = [f"{k};{cell}" for k, cell in enumerate(cells)]
    (tmp_path / "a.csv").write_bytes("\n".join(["t;Preis", *rows, ""]).encode("cp1252"))
    assert run(["impute", str(tmp_path / "a.csv"), "--time", "t", "--out", str(tmp_path / "b.csv")]) == 0
    assert "semicolons, Latin-1, 'Preis' in €, decimal commas, points of thousands." in capsys.readouterr().err
    filled = (tmp_path / "b.csv").read_bytes().decode("cp1252").splitlines()
    assert filled[0] == "t;Preis"
    assert [row for row in filled[1:] if row not in rows] == [filled[21]]
    assert filled[21].startswith("20;€ 1")
    assert float(filled[21][5:].replace(",", ".")) == pytest.approx(VALUES[20], abs=1)
    fit = ["fit", str(tmp_path / "b.csv"), "--target", "t", "--features", "preis", "--subnets", "2", "--quiet"]
    assert run([*fit, "--out", str(tmp_path / "fit")]) == 0
    (tmp_path / "c.csv").write_text('Preis\n"€ 1.300,50"\n')
    assert run(["predict", str(tmp_path / "fit" / "model.safetensors"), str(tmp_path / "c.csv")]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith('"€ 1.300,50",')
    (tmp_path / "c.csv").write_text("Preis\n1300.5\n")
    assert run(["predict", str(tmp_path / "fit" / "model.safetensors"), str(tmp_path / "c.csv")]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("1300.5,")


def test_columns_of_units_in_parquet_are_read(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"t": range(9), "v": [f"{k} %" for k in range(9)]}).to_parquet(tmp_path / "a.parquet")
    assert read_file(tmp_path / "a.parquet").values["v [%]"].tolist() == list(range(9))


def test_parquet_has_the_names_of_the_file(read, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(pd.DataFrame, "to_parquet", lambda frame, stream, index: written.append(list(frame)))
    found = read([f"€ {k}" for k in range(9)], "t;price")
    for name in ("b.parquet", "b.pq"):
        found.write(tmp_path / name, found.cells)
    assert written == [["t", "price"]] * 2
