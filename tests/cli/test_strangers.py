"""Files from strangers on the command line: a thousand broken ones, each refused in one line, none of them run."""

import os
import random
import re
import shutil
import sys
import time
from pathlib import Path

import jax
import pytest
import typer
from strange_texts import EXAMPLES, mutated

import flm
from flm.cli.run import app, run
from flm.problems.text import ProblemError, read_outline

CONTROL_CHARACTER = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
REACHED = 77  # the exit code of the stub that stands for the solver

SCALAR = '[domain]\nx = [0, 1]\nt = [0, 1]\n[parameters]\na = 2.0\n[equation]\npde = "u_t = {}"\n[conditions]\n"t=0" = "u = 0"\n'
EXPRESSIONS = (
    "a * u_xx - sin(pi * x) * exp(-t) + u**3",
    "where(x < 0.5, u_x, -u_x) / (1 + x**2)",
    "a * (u_xx + max(u, 0) * min(1, x)) - hypot(x, t)",
    "log1p(abs(u)) - sqrt(x + 1) * u_xt + 1e-3 * heaviside(x - 0.5)",
)
PARTS = (
    *("__import__('os').system('true')", "().__class__.__bases__[0]", "open('x')", "eval", "lambda: 0", "[i for i in x]"),
    *("{0!r}", "x.y", "x[0]", "9**9**9", "1e999", "(" * 90, "*" * 4, "==", "=", ",", ")", "'", "\\", "#", ";", "@", "é", "u_zz"),
    *("sinn(x)", "sin", "b", "x if t else u", "not x", "x and t", "~x", "0x10", "1_0", "1j", "None", "f'{x}'", "…", "\u202e"),
)  # fmt: skip

DANGEROUS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket.",
    "shutil.",
    "ctypes.dlopen",
)
_watched: list[list[str]] = []  # lists that receive what the interpreter reports; an audit hook cannot be taken off


def _watch(event: str, arguments: tuple) -> None:
    writes = event == "open" and set(str(arguments[1])) & set("wax+")
    # The tests keep XLA's programs in a folder of their own (conftest.py): that alone is not the stranger's doing.
    ours = writes and str(arguments[0]).startswith(f"{jax.config.jax_compilation_cache_dir}{os.sep}")
    if _watched and (event.startswith(DANGEROUS) or (writes and not ours)):
        _watched[-1].append(f"{event} {arguments[:2]}")


sys.addaudithook(_watch)


@pytest.fixture
def refuse(tmp_path, monkeypatch, capsys):
    """Give a text to `flm solve`; the code, the line, and what it tried to start, connect to or write."""

    def stub(*arguments, **options):
        raise SystemExit(REACHED)

    monkeypatch.setattr(flm, "solve", stub)
    # typer builds its commands anew at every call, which is most of the time of a refusal
    monkeypatch.setattr("flm.cli.run.app", typer.main.get_command(app))
    shutil.copy(EXAMPLES[0].parent / "rod_readings.csv", tmp_path)
    path = tmp_path / "stranger.toml"

    def give(text):
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        harm = []
        _watched.append(harm)
        began = time.process_time()
        try:
            code = run(["solve", str(path)])
        finally:
            _watched.pop()
        assert time.process_time() - began < 5, text
        out, err = capsys.readouterr()
        assert (out, harm) == ("", []), text
        return code, err

    return give


def one_line(code, err):
    return (
        code == 2
        and re.fullmatch(r"flm: [^\n]+\n", err)
        and not CONTROL_CHARACTER.search(err[:-1])
        and len(err) < 1000
        and "Traceback" not in err
    )


@pytest.mark.slow
def test_six_hundred_mutated_files_are_refused_in_one_line(refuse):
    rng, texts = random.Random(7), [path.read_text() for path in EXAMPLES]
    refused, built = 0, 0
    while refused < 600:
        text = mutated(rng.choice(texts), rng)
        try:
            read_outline(text, name="p", folder=EXAMPLES[0].parent)
        except ProblemError:
            code, err = refuse(text)
            assert one_line(code, err), (text, err)
            refused += 1
        else:  # still a problem as far as it is read: building costs more, so a few only
            if built < 6:
                code, err = refuse(text)
                assert (code, err) == (REACHED, "") or one_line(code, err), (text, err)
                built += 1
    assert built == 6


@pytest.mark.slow
def test_four_hundred_mutated_expressions_are_refused_in_one_line(refuse):
    rng, refused = random.Random(8), 0
    quoted = lambda text: text.replace("\\", "\\\\").replace('"', '\\"')
    while refused < 400:
        text = rng.choice(EXPRESSIONS)
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(text) + 1)
            text = text[:i] + rng.choice([*PARTS, chr(rng.randrange(33, 127))]) + text[i + rng.choice([0, 0, 1, 4]) :]
        whole = SCALAR.format(quoted(text))
        try:
            read_outline(whole)
        except ProblemError:
            code, err = refuse(whole)
            assert one_line(code, err), (text, err)
            assert "stranger.toml" in err
            refused += 1


@pytest.mark.parametrize("file", ["/dev/zero", "/proc/self/mem", ".", "a\\u0000b", "no.csv", "pipe"])
def test_a_data_file_that_never_ends_is_refused(refuse, tmp_path, file):
    os.mkfifo(tmp_path / "pipe")
    text = SCALAR.format("a * u_xx").replace("a = 2.0", "a = {learn = 1.0}") + f'[data]\nfile = "{file}"\nsigma = 0.1\n'
    code, err = refuse(text)
    assert one_line(code, err), err


def test_a_wide_header_is_cut(refuse, tmp_path):
    (tmp_path / "wide.csv").write_text(",".join(f"c{i}" for i in range(100_000)))
    text = (
        SCALAR.format("a * u_xx").replace("a = 2.0", "a = {learn = 1.0}") + '[data]\nfile = "wide.csv"\nsigma = 0.1\n'
    )
    code, err = refuse(text)
    assert one_line(code, err), err
    assert "wide.csv has the columns c0, c1" in err


def test_the_watch_sees_what_it_should(tmp_path):
    seen = []
    _watched.append(seen)
    (tmp_path / "written").write_text("x")
    _watched.pop()
    assert any("written" in line for line in seen)
    assert Path(tmp_path / "written").is_file()
