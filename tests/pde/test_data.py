"""Readings: what they are of is said, named by the column or clear, never guessed."""

import numpy as np
import pytest

import flm
from flm.problems.text import read_problem

PAIR = [lambda a, a_t: a_t + a, lambda b, b_t: b_t + 2 * b]
STARTS = [flm.initial(1.0, unknown="a"), flm.initial(1.0, unknown="b")]
LINE = flm.Box(t=(0, 1))
TIMES = np.linspace(0.1, 0.9, 5)
TEXT = """
unknowns = ["a", "b"]
[domain]
t = [0, 1]
[parameters]
k = {learn = 1.5}
[equation]
first = "a_t = -a"
second = "b_t = -k * b"
[conditions]
"t=0" = ["a = 1", "b = 1"]
[data]
file = "readings.csv"
"""


def test_readings_of_a_system_say_what_they_are_of():
    readings = flm.data(TIMES, np.exp(-2 * TIMES))
    with pytest.raises(
        ValueError, match=r"^`observe` of .* must say which of the unknowns a, b was measured; got nothing"
    ):
        flm.PDE(LINE, PAIR, [*STARTS, readings], unknowns=("a", "b"))
    named = flm.data(TIMES, np.exp(-2 * TIMES), observe=lambda b: b)
    problem = flm.PDE(LINE, PAIR, [*STARTS, named], unknowns=("a", "b"))
    assert problem.conditions[-1].residual.jets == ((1, (0,)),)


def test_readings_of_one_unknown_are_of_it():
    readings = flm.data(TIMES, np.exp(-TIMES))
    problem = flm.PDE(LINE, lambda v, v_t: v_t + v, [readings], unknowns="v")
    assert problem.conditions[0].residual.jets == ((0, (0,)),)


def read(folder, table, header="t,b,note"):
    (folder / "readings.csv").write_text(header + "\n" + "".join(f"{t},{np.exp(-2 * t)},{t}\n" for t in TIMES))
    (folder / "problem.toml").write_text(TEXT + table)
    return read_problem(folder / "problem.toml")


def test_columns_of_a_file_name_the_unknown(tmp_path):
    by_column = read(tmp_path, 'columns = ["t", "b"]')
    assert by_column.conditions[-1].residual.jets == ((1, (0,)),)
    said = read(tmp_path, 'columns = ["t", "note"]\nobserve = "a + b"')
    assert said.conditions[-1].residual.jets == ((0, (0,)), (1, (0,)))
    with pytest.raises(
        ValueError, match=r"observe is missing, and the column 'note' is not named after an unknown \(a, b\)"
    ) as caught:
        read(tmp_path, 'columns = ["t", "note"]')
    assert 'such as observe = "a"' in str(caught.value)
    with pytest.raises(ValueError, match="one column for each of t and one for the value are wanted"):
        read(tmp_path, "")
