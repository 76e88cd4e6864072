"""Disks that are full or read-only, paths that are no files, files from strangers: one sentence, nothing half written."""

import ast
import errno
import json
import os
import pickle
import re
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as to_bytes

import flm
from flm.cli.run import run

SERIES = flm.PhaseSeries([[1.0]], [[2.0]], [[0.0]], axes=("x",))
SOURCE = Path(flm.__file__).parent
DECAY = '[domain]\nt = [0, 1]\n[equation]\node = "u_t = -u"\n[conditions]\n"t=0" = "u = 1"\n'


def failing(code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("path", [None, 3, b"a", "a\0b"])
def test_what_is_no_path(path):
    for call in (lambda: flm.save(SERIES, path), lambda: flm.load(path)):
        with pytest.raises(TypeError, match=r"^`path` must be a path such as "):
            call()


def test_folders_and_devices_are_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/null", ""):
        with pytest.raises(
            OSError, match=r"^`path` must be a file, new or old; got .*, which is a folder or a device\.$"
        ):
            flm.save(SERIES, path)
    assert os.listdir(tmp_path) == ["pipe"]
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
def test_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "model"
    flm.save(SERIES, path)
    before = path.read_bytes()
    monkeypatch.setattr(os, call, failing(errno.ENOSPC))
    with pytest.raises(OSError, match=r"^`path` must be on a disk that takes the file; got .*No space left on device"):
        flm.save(SERIES * 2.0, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


def test_a_folder_without_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "mkstemp", failing(errno.EACCES))  # root may write anywhere: simulate
    with pytest.raises(OSError, match=r"^`path` must be in a folder that can be written; got .*Permission denied"):
        flm.save(SERIES, tmp_path / "model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["with space.safetensors", "Größe-Ω-模型.safetensors", "no-suffix", "a;b&c'd\"e"])
def test_names_of_any_kind(tmp_path, name):
    flm.save(SERIES, tmp_path / name)
    assert float(flm.load(tmp_path / name)(x=0.0)) == 2.0
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(("call", "code"), [("fsync", errno.ENOSPC), ("replace", errno.EROFS)])
def test_the_command_line_on_a_full_disk(tmp_path, monkeypatch, capsys, call, code):
    problem = tmp_path / "Zerfall mit Ω.toml"
    problem.write_text(DECAY, encoding="utf-8")
    monkeypatch.setattr(os, call, failing(code))
    assert run(["solve", str(problem), "--tol", "1e-2", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("flm: `path` must be on a disk that takes the file")
    assert error.count("\n") == 1
    assert list((tmp_path / "out").iterdir()) == []


class Boom:
    """A pickle that would run a command."""

    def __reduce__(self):
        return os.system, ("touch broken-out",)


def header(tree, **more):
    return json.dumps({"format": 1, "kind": "FLM", "version": "0", "tree": tree} | more)


ONE = {"a": np.ones(3)}
STRANGERS = {
    "a pickle": lambda: pickle.dumps(Boom()),
    "a zip of a pickle": lambda: b"PK\x03\x04" + pickle.dumps(Boom()),
    "a header of a terabyte": lambda: struct.pack("<Q", 2**40) + b"{}",
    "a header of all there is": lambda: struct.pack("<Q", 2**64 - 1),
    "an array of a petabyte": lambda: _raw({"a": {"dtype": "F64", "shape": [2**47], "data_offsets": [0, 2**50]}}),
    "a shape that overflows": lambda: _raw({"a": {"dtype": "F64", "shape": [2**63, 2], "data_offsets": [0, 16]}}),
    "a negative shape": lambda: _raw({"a": {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]}}),
    "arrays that overlap": lambda: _raw(
        {k: {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} for k in ("a", "b")}, b"\0" * 8
    ),
    "a command as kind": lambda: to_bytes(
        ONE, metadata={"flm": header({"kind": "os.system", "fields": {"c": "true"}})}
    ),
    "a dunder as kind": lambda: to_bytes(ONE, metadata={"flm": header({"kind": "__import__", "fields": {}})}),
    "YAML that runs": lambda: to_bytes(ONE, metadata={"flm": "!!python/object/apply:os.system ['touch broken-out']"}),
    "a pickle in the header": lambda: to_bytes(ONE, metadata={"flm": pickle.dumps(Boom(), 0).decode("latin-1")}),
    "fields with dunders": lambda: to_bytes(
        ONE, metadata={"flm": header({"kind": "FLM", "fields": {"__class__": "os", "__init__": 1}})}
    ),
    "ten thousand digits": lambda: to_bytes(ONE, metadata={"flm": '{"format": ' + "9" * 10_000 + ', "tree": {}}'}),
    "NaN as format": lambda: to_bytes(ONE, metadata={"flm": '{"format": NaN, "tree": {"kind": "FLM"}}'}),
    "a list as tree": lambda: to_bytes(ONE, metadata={"flm": '{"format": 2, "tree": ["kind"]}'}),
    "an old estimator without its parts": lambda: to_bytes(
        ONE, metadata={"flm": header({"kind": "FLMRegressor", "fields": {}})}
    ),
    "a tree that is deep": lambda: to_bytes(ONE, metadata={"flm": '{"format": 1, "tree": ' + "[" * 50_000}),
}


def _raw(table, body=b""):
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.slow
@pytest.mark.parametrize("name", STRANGERS)
def test_a_strangers_file_is_refused_and_runs_nothing(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(STRANGERS[name]())
    with pytest.raises(ValueError, match=r"^`path` must be ") as caught:
        flm.load(path)
    assert "\n" not in str(caught.value)
    assert run(["show", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert os.listdir(tmp_path) == ["model.safetensors"]


LOADERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml", "ruamel"}
CALLS = {"eval", "exec", "compile", "__import__"}


@pytest.mark.slow
def test_nothing_that_runs_code_is_used_to_read():
    """The whole package, so also all that the command line loads: no pickle, no eval, no numpy or torch pickles."""
    words = re.compile(rf"\b({'|'.join([*LOADERS, *CALLS, 'allow_pickle', 'load'])})\b")
    texts = {file: file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
    for file in (file for file, text in texts.items() if words.search(text)):
        for node in ast.walk(ast.parse(texts[file])):
            place = f"{file.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                assert not {a.name.split(".")[0] for a in node.names} & LOADERS, place
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in LOADERS, place
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in CALLS, place
            if isinstance(node, ast.Call) and any(k.arg == "allow_pickle" for k in node.keywords):
                raise AssertionError(place)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
                owner = node.func.value
                assert not (isinstance(owner, ast.Name) and owner.id in {"np", "numpy", "torch", "joblib"}), place
