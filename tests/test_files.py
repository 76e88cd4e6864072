"""Saved files come back equal; damaged, foreign and hostile ones are refused in one sentence; writes are atomic."""

import json
import os
import stat
import struct
import tempfile
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from answers import answer
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from series_cases import parts, phase_series

import flm
from flm import files

BOX = flm.Box(x=(0, 1), t=(0, 2))
SAVABLE = {
    "phase": lambda: flm.PhaseSeries(*parts(2, 3), axes=("x", "t")),
    "phase float32": lambda: flm.PhaseSeries(*(v.astype(np.float32) for v in parts(2, 3))),
    "phase outputs": lambda: phase_series(3, 2, 4),
    "phase empty": lambda: phase_series(2, 3).truncate(0),
    "separable": lambda: phase_series(2, 3).separable(),
    "exponential": lambda: phase_series(2, 3).exponential(),
    "exponential complex": lambda: flm.ExponentialSeries([[1.0, 2.0]], [1 + 2j]),
    "FLM": lambda: flm.FLM(BOX, 3, key=0, period=(2, 3)),
    "FLM hardwired": lambda: flm.FLM(2, 3, key=0, num_outputs=2, train_frequencies=False),
    "MLP": lambda: flm.MLP(BOX, 4, 2, key=0, activation="relu"),
    "Siren": lambda: flm.Siren(3, 4, 1, key=0, omega=30.0, num_outputs=2),
}


def flower(s):
    return (1 + 0.3 * jnp.cos(5 * s)) * jnp.cos(s), (1 + 0.3 * jnp.cos(5 * s)) * jnp.sin(s)


SQUARE = flm.Box(x=(-2, 2), y=(-2, 2))
RING = flm.Region(lambda x, y: (x**2 + y**2 - 1) * (x**2 + y**2 - 0.25), bounds=SQUARE)
HELD = {  # as they are
    "box": BOX,
    "disk": flm.Disk(x=0, y=0.1, radius=0.7),
    "ellipse": flm.Ellipse(x=0, y=0, a=1.5, b=0.3),
    "polygon": flm.Polygon(x=[0, 1, 0.3], y=[0, 0, 1]),
    "ball": flm.Ball((0.1, 0.2, 0.3, 0.4), 2.0),
    "boolean": (SQUARE - flm.Disk(radius=1)) | flm.Box(x=(0, 2), y=(0, 1)) & flm.Disk(radius=0.5),
    "product": flm.Disk(radius=1) * flm.Box(t=(0, 2)),
    "text": flm.Region("x**4 + y**4 + z**2 - 1", bounds=SQUARE * flm.Box(z=(-2, 2))),
}
TRACED = {  # as outlines
    "curve": flm.Curve(flower),
    "region": RING,
    "cut": SQUARE - flm.Curve(flower),
    "in time": RING * flm.Box(t=(0, 1)),
}


def again(solution, folder):
    solution.save(folder / "solution")
    return flm.load(folder / "solution")


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD)
def test_domains_by_their_numbers(name, tmp_path):
    domain = HELD[name]
    back = again(answer(domain), tmp_path).domain
    assert type(back) is type(domain)
    assert repr(back) == repr(domain)
    points = answer(domain).domain.piece("boundary").sample(50, seed=0)[0]
    assert back.contains(points).all()
    every = domain.bounds[:, 0] + domain.width * np.random.default_rng(1).uniform(-0.1, 1.1, (500, len(domain.axes)))
    np.testing.assert_array_equal(back.contains(every), domain.contains(every))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACED)
def test_domains_of_code_as_outlines(name, tmp_path):
    domain = TRACED[name]
    back = again(answer(domain), tmp_path).domain
    edge, normals = domain.piece("boundary").sample(500, seed=0)
    assert back.contains(edge).all()  # the true boundary is inside
    assert not back.contains(edge + 1e-4 * normals).any()
    every = domain.bounds[:, 0] + domain.width * np.random.default_rng(1).uniform(-0.1, 1.1, (2000, len(domain.axes)))
    away = np.abs(domain.level(every)) > 1e-4
    assert (back.contains(every) == domain.contains(every))[away].all()
    assert "Outline of" in repr(back)
    assert np.isfinite(back.interior(100, seed=0)).all()
    assert again(answer(back), tmp_path).domain == back  # an outline is stored as it is


def test_a_region_of_code_in_space_is_not_held(tmp_path):
    ball = flm.Region(lambda x, y, z: x**2 + y**2 + z**2 - 1, bounds=SQUARE * flm.Box(z=(-2, 2)))
    for domain in (ball, ball - flm.Ball((0, 0, 0), 0.5), ball * flm.Box(t=(0, 1))):
        back = again(answer(domain), tmp_path)
        assert "the file does not hold the region Region(level" in repr(back)
        np.testing.assert_array_equal(back.domain.bounds, domain.bounds)
        assert repr(answer(domain)).count("\n") < repr(back).count("\n")


def test_plots_say_what_is_not_held(tmp_path):
    ball = flm.Region(lambda x, y, z: x**2 + y**2 + z**2 - 1, bounds=SQUARE * flm.Box(z=(-2, 2)))
    held = again(answer(HELD["disk"]), tmp_path).plot()
    assert held.get_suptitle() == ""
    assert "does not hold" in again(answer(ball), tmp_path).plot().get_suptitle().replace("\n", " ")


@pytest.mark.parametrize("name", SAVABLE)
def test_round_trip(name, tmp_path):
    obj = SAVABLE[name]()
    path = tmp_path / "object.safetensors"
    flm.save(obj, path)
    back = flm.load(str(path))
    assert type(back) is type(obj)
    assert jax.tree.structure(back) == jax.tree.structure(obj)  # static fields are part of the structure
    for got, want in zip(jax.tree.leaves(back), jax.tree.leaves(obj), strict=True):
        assert isinstance(got, jax.Array)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    assert os.listdir(tmp_path) == ["object.safetensors"]


def test_header_says_what_it_is(tmp_path):
    path = tmp_path / "a.safetensors"
    flm.save(SAVABLE["phase"](), path)
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["flm"])
    assert (header["format"], header["kind"], header["version"]) == (2, "PhaseSeries", flm.__version__)
    assert header["tree"]["fields"]["axes"] == {"tuple": ["x", "t"]}


def refused(path):
    with pytest.raises(ValueError, match=r"^`path` must be an undamaged file written by flm\.save; got '.*") as caught:
        flm.load(path)
    assert "\n" not in str(caught.value)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    flm.save(SAVABLE["FLM"](), path)
    return path


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 100, -1, -8])
def test_truncated_files(saved, keep):
    saved.write_bytes(saved.read_bytes()[:keep])
    refused(saved)


def test_foreign_files(tmp_path):
    path = tmp_path / "other"
    for content in (b"not a model", b"\x80\x04\x95pickle", b"\x00" * 64, b"\xff" * 64, os.urandom(300)):
        path.write_bytes(content)
        refused(path)
    save_file({"a": np.ones(3)}, path)  # safetensors, but not ours
    refused(path)
    save_file({"a": np.ones(3)}, path, metadata={"flm": "{"})
    refused(path)
    with pytest.raises(FileNotFoundError, match=r"^`path` must be a file written by flm\.save; got '.*missing', which"):
        flm.load(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        flm.load(tmp_path)


@given(st.data())
def test_damaged_bytes_are_refused_or_harmless(data):
    """Any single changed byte: a sentence, or an object of the right kind (the byte was in a number)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        flm.save(SAVABLE["phase"](), path)
        raw = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(raw)
        try:
            outcome = flm.load(path)
        except ValueError as error:
            outcome = str(error)
        assert isinstance(outcome, flm.PhaseSeries) or outcome.startswith("`path` must be")


def with_header(path, change):
    """The file with its JSON header changed."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["flm"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(header, arrays)
    save_file(arrays, path, metadata={"flm": json.dumps(header)})


HOSTILE = {
    "a module as kind": lambda h, a: h["tree"].update(kind="os.system"),
    "an unregistered name": lambda h, a: h["tree"].update(kind="Path"),
    "a kind that is not text": lambda h, a: h["tree"].update(kind=["FLM"]),
    "another registered kind": lambda h, a: h["tree"].update(kind="PhaseSeries"),
    "a missing field": lambda h, a: h["tree"]["fields"].pop("phases"),
    "an extra field": lambda h, a: h["tree"]["fields"].update(extra=1),
    "a method's name": lambda h, a: h["tree"]["fields"].update(jets=1),
    "a missing array": lambda h, a: h["tree"]["fields"].update(phases={"array": "nowhere"}),
    "text for an array": lambda h, a: h["tree"]["fields"].update(phases="text"),
    "a wrong shape": lambda h, a: a.update({"root.phases": np.zeros((2, 2))}),
    "another number of outputs": lambda h, a: h["tree"]["fields"].update(num_outputs=2),
    "a map that is none": lambda h, a: h["tree"]["fields"].update(map=None),
    "a map of another size": lambda h, a: h["tree"]["fields"]["map"]["fields"].update(center={"tuple": [0.0]}),
    "a map of text": lambda h, a: h["tree"]["fields"]["map"]["fields"].update(scale={"tuple": ["1", "2"]}),
    "a list for a tree": lambda h, a: h.update(tree=[1, 2]),
    "no tree": lambda h, a: h.pop("tree"),
    "a tree without fields": lambda h, a: h.update(tree={"kind": "FLM"}),
    "a format that is not a number": lambda h, a: h.update(format="new"),
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_headers(saved, attack):
    with_header(saved, HOSTILE[attack])
    refused(saved)


def node(kind, **fields):
    return {"kind": kind, "fields": fields}


BAD_DOMAINS = {
    "text": "Disk",
    "a number": 3,
    "another kind": node("InputMap", center={"tuple": []}, scale={"tuple": []}, axes=None),
    "an interval upside down": node("Box", axes={"tuple": ["x", "t"]}, intervals={"tuple": [{"tuple": [1, 0]}] * 2}),
    "another number of axes": node("Box", axes={"tuple": ["x"]}, intervals={"tuple": [{"tuple": [0, 1]}]}),
    "a radius of text": node("Disk", origin={"tuple": [0.0, 0.0]}, radius="1", axes={"tuple": ["x", "t"]}),
    "a boolean of nothing": node("Combination", operation="-", left=None, right=None),
    "an operation that is none": node("Combination", operation="+", left=None, right=None),
    "a product of nothing": node("Product", left=None, right=None),
    "code in a text": node("Region", function="__import__('os').system('true')", bounds=None, resolution=8),
    "an endless resolution": node("Region", function="x", bounds=None, resolution=10**9),
    "rings that are none": node("Outline", axes={"tuple": ["x", "t"]}, rings={"tuple": [1]}, margin=0.0, source=""),
    "bounds that are none": node("NotHeld", axes={"tuple": ["x"]}, intervals=1, source=""),
}


@pytest.mark.parametrize("attack", BAD_DOMAINS)
def test_hostile_domains(tmp_path, attack):
    path = tmp_path / "solution"
    answer(BOX).save(path)
    with_header(path, lambda h, a: h["tree"]["fields"].update(domain=BAD_DOMAINS[attack]))
    refused(path)


@pytest.mark.parametrize("depth", [300, 100_000])
def test_endless_trees(tmp_path, depth):
    tree = '{"kind": "FLM", "fields": {"map": ' + '{"tuple": [' * depth + "1" + "]}" * depth + "}}"
    path = tmp_path / "a"
    save_file({"a": np.ones(3)}, path, metadata={"flm": '{"format": 2, "kind": "FLM", "tree": ' + tree + "}"})
    refused(path)


def test_files_of_a_later_format(saved):
    with_header(saved, lambda h, a: h.update(format=3))
    with pytest.raises(
        ValueError, match=r"^`path` must be of format 2 or older; got format 3 in '.*'\. Upgrade flm\.$"
    ):
        flm.load(saved)


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "a"
    for obj in (1.0, {"a": 1}, lambda x: x, BOX, type("FLM", (), {})()):
        with pytest.raises(TypeError, match=r"^`obj` must be a series, a model, a solution or .*; got "):
            flm.save(obj, path)
    odd = eqx.tree_at(lambda f: f.phases, SAVABLE["FLM"](), jnp.zeros)
    with pytest.raises(TypeError, match=r"^`obj` must hold numbers, names and arrays only; got .* at root\.phases\.$"):
        flm.save(odd, path)
    assert os.listdir(tmp_path) == []


def test_encoding_of_trees():
    arrays = {}
    tree = {
        "a": {"b": np.arange(3)},
        "a.b": np.ones(2),
        3: (None, True, 1.5, "x", np.float64(2)),
        (1, "t"): 1 + np.zeros(()),
    }
    back = files._decode(json.loads(json.dumps(files._encode(tree, "root", arrays))), arrays)
    assert list(back) == list(tree)
    np.testing.assert_array_equal(back["a"]["b"], [0, 1, 2])
    np.testing.assert_array_equal(back["a.b"], [1, 1])
    assert back[3] == (None, True, 1.5, "x", 2.0)


def test_atomic_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    files.write_atomic(path, b"old")

    def broken(*_):
        raise OSError("disk full")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, broken)
            with pytest.raises(OSError, match="disk full"):
                files.write_atomic(path, b"new")
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["a"]
    files.write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_files_have_ordinary_permissions(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    files.write_atomic(tmp_path / "atomic", b"")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "atomic")]
    assert modes[0] == modes[1]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match=r"^`path` must be in a folder that can be written; got '.*' \(No such file"):
        flm.save(SAVABLE["phase"](), tmp_path / "missing" / "a")


def test_arrays_of_models_are_contiguous_as_loaded_ones_are(tmp_path):
    """From views in any order: a loaded model then multiplies in the same layout as the one that was saved."""
    rng = np.random.default_rng(0)
    backwards = lambda *shape: rng.normal(size=shape[::-1]).transpose()
    model = flm.FLM(BOX, 3, key=0, num_outputs=2, frequencies=backwards(3, 2))
    model = model.with_coefficients(np.asfortranarray(backwards(*model.coefficients.shape)))
    network = eqx.tree_at(lambda n: n.amplitudes, model, backwards(*model.amplitudes.shape))
    built = [model, flm.PhaseSeries(*map(np.asfortranarray, parts(2, 3))), flm.MLP(BOX, 4, 2, key=0)]
    for obj in built:
        flm.save(obj, tmp_path / "a")
        for leaf in [*jax.tree.leaves(obj), *jax.tree.leaves(flm.load(tmp_path / "a"))]:
            assert np.asarray(leaf).flags.c_contiguous
    flm.save(network, tmp_path / "a")
    np.testing.assert_array_equal(flm.load(tmp_path / "a").amplitudes, network.amplitudes)
