"""The shape of the package: imports point one way, the public surface is sorted and documented, importing is cheap."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flm

SOURCE = Path(flm.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
SPINE = ("wording", "series", "numerics", "language", "domains", "models", "results")
ROOMS = ("pde", "conservation", "control", "estimators")
# Which parts of the package a part may import, itself aside; `files` and `_version` are open to all. The spine is a ladder:
# each part may import those before it. Rooms stand on the spine and do not import each other.
ALLOWED = {part: set(SPINE[:place]) for place, part in enumerate(SPINE)}
ALLOWED |= {room: set(SPINE) for room in ROOMS}
ALLOWED["conservation"] |= {"pde"}
ALLOWED |= {
    "training": {*SPINE, "pde", "conservation"},
    "dispatch": {*SPINE, *ROOMS},
    "problems": {*SPINE, *ROOMS},
    "references": {*SPINE, *ROOMS},
    "torch": {*SPINE},
    "files": {"wording"},
    "_version": set(),
    "__init__": set(),
}
ALLOWED["study"] = {*SPINE, *ROOMS, "training", "problems", "references", "dispatch"}
ALLOWED["paper"] = ALLOWED["study"] | {"study"}
ALLOWED |= {"report": None, "cli": None}


def imports(tree):
    """(module, whether inside a function, whether for the type checker alone) of every import statement."""
    found = []

    def walk(node, local, typing):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((alias.name, local, typing) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "imports are absolute"
                names = [f"flm.{a.name}" for a in child.names] if child.module == "flm" else [child.module]
                found.extend((name, local, typing) for name in names)
            inside = local or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            checking = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            walk(child, inside, typing or checking)

    walk(tree, False, False)
    return found


def part(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    here = part(path)
    assert here in ALLOWED, f"flm.{here} has no place in the pipeline: give it one in tests/test_design.py"
    for module, local, typing in imports(ast.parse(path.read_text())):
        top, *rest = module.split(".")
        if top == "matplotlib":
            assert here == "report", f"{path.name} imports matplotlib: only flm.report may"
        if top != "flm" or typing or ALLOWED[here] is None:
            continue
        assert rest, f"{path.name} imports flm itself: name the module"
        there = rest[0]
        if there in (here, "files", "_version") or (there == "report" and local):
            continue
        assert there in ALLOWED[here], f"flm.{here} ({path.name}) must not import flm.{there}"


def test_no_drawers_for_odds_and_ends():
    names = {part for path in FILES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert not names & {"utils", "util", "helpers", "misc", "common", "tools"}


def test_public_names_are_sorted_and_documented():
    names = list(flm._HOMES)
    assert names == sorted(names)
    assert list(flm._MODULES) == sorted(flm._MODULES)
    for name in names:
        value = getattr(flm, name)
        doc = inspect.getdoc(value)
        assert doc, f"flm.{name} has no docstring"
        assert doc.splitlines()[0].rstrip().endswith((".", ")")), (
            f"flm.{name}: first line is not a sentence: {doc.splitlines()[0]}"
        )
        assert getattr(importlib.import_module(flm._HOMES[name]), name) is value
        assert name in dir(flm)
    for name in flm._MODULES:
        if name != "torch":
            assert getattr(flm, name).__doc__, f"flm.{name} has no docstring"


def test_the_type_checker_sees_the_same_names():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    seen = {a.name: n.module for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert seen == flm._HOMES


def test_public_classes_document_their_public_methods():
    missing = []
    for name in flm._HOMES:
        value = getattr(flm, name)
        if inspect.isclass(value):
            for attribute, member in vars(value).items():
                member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if (
                    not attribute.startswith("_")
                    and inspect.isfunction(member)
                    and not inspect.getdoc(getattr(value, attribute))
                ):
                    missing.append(f"{name}.{attribute}")
    assert not missing


def test_unknown_names():
    with pytest.raises(
        AttributeError, match=r"^module 'flm' has no attribute 'PhaseSerie'; did you mean 'PhaseSeries'\?$"
    ):
        flm.PhaseSerie  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'flm' has no attribute 'zzz'$"):
        flm.zzz  # noqa: B018


def run(code, **environment):
    """What a fresh interpreter prints."""
    env = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"} | environment
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_importing_is_silent_and_lazy():
    heavy = ("jax", "numpy", "scipy", "matplotlib", "sklearn", "equinox", "optax", "torch", "pandas", "typer", "rich")
    assert run(f"import sys, flm; dir(flm); print([m for m in {heavy} if m in sys.modules])") == "[]\n"


def test_importing_is_quick():
    # A ratio within one run: our import against the interpreter's own start, measured inside that interpreter.
    code = (
        "import time; a = time.perf_counter(); import argparse, inspect, json; b = time.perf_counter(); import flm; "
        "c = time.perf_counter(); print((c - b) / (b - a), c - b)"
    )
    ratio, seconds = min(tuple(map(float, run(code).split())) for _ in range(3))
    assert ratio < 5 or seconds < 0.1


def test_importing_everything_is_silent_and_seeds_nothing():
    modules = [".".join(("flm", *p.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__") for p in FILES]
    modules = [m for m in modules if m not in ("flm.torch", "flm.cli.__main__", "flm.__main__")]
    code = (
        "import importlib, random, numpy as np\n"
        "import jax  # draws from numpy's global generator\n"
        "before = random.getstate(), np.random.get_state()[1].tolist()\n"
        f"for name in {modules}: importlib.import_module(name)\n"
        "assert (random.getstate(), np.random.get_state()[1].tolist()) == before\n"
    )
    assert run(code) == ""


def test_importing_writes_nothing(tmp_path):
    code = f"import os; os.chdir({str(tmp_path)!r}); import flm; flm.FLM, flm.Box, flm.PhaseSeries; print(os.listdir())"
    assert run(code) == "[]\n"


@pytest.mark.parametrize(
    ("environment", "before", "dtype"),
    [
        ({}, "", "float64"),
        ({}, "import jax, jax.numpy as jnp", "float64"),
        ({"JAX_ENABLE_X64": "0"}, "", "float32"),
        ({"JAX_ENABLE_X64": "1"}, "", "float64"),
    ],
)
def test_float64_unless_the_user_says_otherwise(environment, before, dtype):
    code = f"{before}\nimport flm; print(flm.FLM(1, 2, key=0).phases.dtype, flm.PhaseSeries([[1]], [[1]], [[0]])([0.5]).dtype)"
    assert run(code, **environment) == f"{dtype} {dtype}\n"
