"""Random texts and bytes for everything that reads: a sentence or a value, in bounded time; nothing in them runs."""

import os
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flm
from flm.cli.run import run
from flm.cli.tables import read_file
from flm.language.expressions import ExpressionError, compile_expression
from flm.problems.text import read_outline
from flm.study.spec import parse_spec

DEADLINE = 2.0  # seconds for one text, on a busy machine
FEW = settings(max_examples=60)
MANY = settings(max_examples=3000, derandomize=False, suppress_health_check=list(HealthCheck))

NAMES = "u x u_xx u_t sin exp where max pi e 1e999 2 0 1e308 __class__ os 9**9**9 10**100 é 𝟏 if else await"
SIGNS = "[ ] ( ) ** * - + / < , = . # ' \" \\ ; := { }"
words = st.sampled_from([*NAMES.split(), *SIGNS.split(), "\x00", "\n", "__import__('os')", "().__class__", "lambda: 0"])
expressions = st.one_of(
    st.text(max_size=60), st.lists(words, max_size=25).map(" ".join), st.lists(words, max_size=25).map("".join)
)
values = st.recursive(
    st.one_of(expressions, st.integers(), st.floats(), st.booleans(), st.none(), st.dates()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=8,
)
tables = ["domain", "equation", "conditions", "parameters", "exact", "data", "control", "dynamics", "conservation"]
study_keys = ["title", "problems", "seeds", "training", "final", "selection", "models", "optimizers", "runner"]


def toml(value):
    """A value as TOML (text that TOML may or may not accept)."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return "" if value is None else str(value)


def documents(keys):
    entries = st.lists(st.tuples(st.sampled_from([*keys, "x", "t", "pde", "t=0"]), values), max_size=6)
    lines = entries.map(lambda pairs: [f"{toml(k)} = {toml(v)}" for k, v in pairs])
    sections = st.lists(st.tuples(st.sampled_from(["[{}]", "[[{}]]"]), st.sampled_from(keys), lines), max_size=5)
    written = sections.map(lambda s: "\n".join("\n".join([mark.format(k), *body]) for mark, k, body in s))
    return st.one_of(written, lines.map("\n".join), st.text(max_size=200))


SEEN = Counter()


def tried(name, call, *refusals):
    """Whether the call was refused; it must end soon, in a sentence."""
    began = time.process_time()
    try:
        call()
        outcome = "read"
    except refusals as error:
        outcome = "refused" if str(error).strip() else "refused in silence"
    assert outcome != "refused in silence"
    assert time.process_time() - began < DEADLINE
    SEEN[f"{name}: {outcome}"] += 1
    return outcome


@pytest.fixture(autouse=True)
def no_code_runs(monkeypatch):
    """Whatever a text holds, it does not reach the shell."""

    def broke_out(*_, **__):
        raise SystemError("broke out")

    monkeypatch.setattr(os, "system", broke_out)
    monkeypatch.setattr(os, "popen", broke_out)


def expression(text):
    def call():
        found = compile_expression(text, declared=("u", "x"))
        value = found(**dict.fromkeys(found.names, np.float64(0.5)))
        assert np.shape(value) == ()

    tried("expressions", call, ExpressionError)


def problem(text):
    tried("problems", lambda: read_outline(text), ValueError, FileNotFoundError)


def study(text):
    tried("study specs", lambda: parse_spec(text, file=Path("study.toml")), ValueError)


def table(raw):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(raw)

        def call():
            found = read_file(path)
            found.checked(list(found.cells), holes=True)

        tried("tables", call, ValueError)


def model(raw):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.safetensors"
        path.write_bytes(raw)
        tried("model files", lambda: flm.load(path), ValueError)


def _saved():
    with tempfile.TemporaryDirectory() as folder:
        flm.save(flm.FLM(flm.Box(x=(0, 1)), 2, key=0), Path(folder) / "a")
        return (Path(folder) / "a").read_bytes()


SAVED = _saved()
cells = st.one_of(
    st.floats().map(str), st.sampled_from(["", "nan", "1e999", '"', "\x00", ",", "x", "2024-01-01", "٣", "0x10"])
)
csvs = st.one_of(
    st.binary(max_size=200),
    st.lists(st.lists(cells, min_size=1, max_size=4).map(",".join), max_size=6).map(lambda r: "\n".join(r).encode()),
)


@st.composite
def damaged(draw):
    """A saved model with spans of bytes changed, removed or repeated."""
    raw = bytearray(SAVED)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(raw) - 1))
        span = draw(st.integers(0, 8))
        raw[place : place + span] = draw(st.binary(max_size=8))
        if not raw:
            return b""
    return bytes(raw)


READERS = {
    "expressions": (expression, expressions),
    "problems": (problem, documents(tables)),
    "study specs": (study, documents(study_keys)),
    "tables": (table, csvs),
    "model files": (model, st.one_of(st.binary(max_size=300), damaged())),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_or_reads(name):
    check, strategy = READERS[name]
    FEW(given(strategy)(check))()


@pytest.mark.soak
@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_or_reads_many(name, tally):
    check, strategy = READERS[name]
    SEEN.clear()
    MANY(given(strategy)(check))()
    for what, count in SEEN.items():
        tally(f"fuzzed: {what}", count)


BREAK_OUTS = [
    "().__class__.__bases__[0].__subclasses__()",
    "__import__('os').system('true')",
    "x.__class__",
    "x[0]",
    "getattr(x, 'a')",
    "(lambda: x)()",
    "[x for x in (1,)]",
    "f'{x}'",
    "open('/etc/passwd')",
    "sin.__globals__",
    "x if x else x",
    "(x := 1)",
    "9**9**9**9",
    "x**1000000",
    "2**(-1e9)",
    "1" * 5000,
    "(" * 500 + "x" + ")" * 500,
    "-" * 2000 + "x",
    "sin(" * 200 + "x" + ")" * 200,
    "+".join(["x"] * 4000),
]


@pytest.mark.slow
@pytest.mark.parametrize("text", BREAK_OUTS, ids=range(len(BREAK_OUTS)))
def test_break_outs_are_refused_in_one_line(text, tmp_path, capsys):
    if text == "9**9**9**9":  # a tower of powers is refused or overflows; it never counts
        found = compile_expression(text)
        assert not np.isfinite(found())
    else:
        with pytest.raises(ExpressionError):
            compile_expression(text, declared=("x",))
    path = tmp_path / "a.toml"
    quoted = toml(f"u_x = {text}")
    path.write_text(f'[domain]\nx = [0, 1]\n[equation]\npde = {quoted}\n[conditions]\n"x=0" = "u = 0"\n')
    assert run(["solve", str(path), "--tol", "1e-2", "--max-columns", "30"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("flm: a.toml")
    assert error.count("\n") == 1
