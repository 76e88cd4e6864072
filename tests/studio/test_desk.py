"""The place that the studio marks is the place of the mistake."""

import pytest

from flm.studio.desk import Desk

ROD = """\
[domain]
x = [0, 1]
t = [0, 1]
[equation]
pde = "u_t = 0.1 * u_xx"
[conditions]
"t=0" = "u = sin(pi * x)"
"x=0" = "u = 0"
"x=1" = "u = 0"
"""


@pytest.mark.parametrize(
    ("right", "wrong", "marked"),
    [
        ("0.1 * u_xx", "0.1 * sinn(u_xx)", "sinn(u_xx)"),
        ("sin(pi * x)", "sinn(pi * x)", "sinn(pi * x)"),
        ('"x=0" = "u = 0"', '"x=0, t=0" = "u = sinn(0)"', "sinn(0)"),
        ('"t=0" =', '"t=7" =', "u = sin(pi * x)"),
        ("x = [0, 1]", "x = [1, 0]", "x = [1, 0]"),
        ("[domain]", "[control]\n[domain]", "[equation]"),
        ("[domain]", "[domain", ""),
        ("[domain]", "titel = 3\n[domain]", "titel"),
    ],
)
def test_a_mistake_is_marked_at_its_place(right, wrong, marked, tmp_path):
    text = ROD.replace(right, wrong, 1)
    found = Desk(tmp_path).check("rod.toml", text)
    line = text.splitlines()[found["line"] - 1]
    assert line[found["column"] - 1 :].startswith(marked)
    assert Desk(tmp_path).check("rod.toml", ROD) == {}


def test_an_example_or_a_start_comes_with_its_readings(tmp_path):
    desk = Desk(tmp_path)
    text = desk.text("new", "inverse")
    desk.keep("my-inverse.toml", text)
    assert desk.check("my-inverse.toml", text) == {}
    assert desk.listing()["files"] == ["my-inverse.csv", "my-inverse.toml"]
