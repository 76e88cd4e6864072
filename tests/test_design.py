"""The shape of the package: imports point one way, the public surface is sorted and documented, importing is cheap."""

import ast
import builtins
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flm

SOURCE = Path(flm.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
NODES = {path: list(ast.walk(tree)) for path, tree in TREES.items()}
MODULES = {".".join(("flm", *p.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__") for p in FILES}
SPINE = ("wording", "series", "numerics", "language", "domains", "models", "results")
ROOMS = ("pde", "conservation", "control", "estimators")
# Which parts of the package a part may import, itself aside; `files`, `_version` and `_lazy` are open to all. The spine is a
# ladder: each part may import those before it. Rooms stand on the spine and do not import each other.
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
    "_lazy": {"wording"},
}
ALLOWED["study"] = {*SPINE, *ROOMS, "training", "problems", "references", "dispatch"}
ALLOWED["paper"] = ALLOWED["study"] | {"study"}
ALLOWED |= dict.fromkeys(("report", "cli", "studio", "__init__", "__main__"))  # a door may import anything
# `files` and `__init__` are registers: they name modules as text, and import them when somebody asks.
REGISTERS = ("files", "__init__")

# Rooms that read another room's objects by protocol: a law offers its strong form, which training and fits of waves take.
READS = {("pde", "conservation")}

# Debts, each of which may only shrink: a test fails when one of them grows.
LONGEST = 350
ANY = 159  # annotations that say `Any`


def imports(tree):
    """(module, whether inside a function) of every import, those for the type checker alone and those by text too."""
    found = []

    def walk(node, local):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((alias.name, local) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "imports are absolute"
                names = [f"flm.{a.name}" for a in child.names] if child.module == "flm" else [child.module]
                found.extend((name, local) for name in names)
            elif isinstance(child, ast.Constant) and child.value in MODULES - {"flm"}:
                found.append((child.value, local))
            walk(child, local or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    walk(tree, False)
    return found


def part(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def place(path):
    return path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=place)
def test_imports_point_one_way(path):
    here = part(path)
    assert here in ALLOWED, f"flm.{here} has no place in the house: give it one in tests/test_design.py"
    for module, local in imports(TREES[path]):
        top, *rest = module.split(".")
        if top == "matplotlib":
            assert here == "report", f"{place(path)} imports matplotlib: only flm.report may"
        if top != "flm" or ALLOWED[here] is None or here in REGISTERS:
            continue
        assert rest, f"{place(path)} imports flm itself: name the module"
        there = rest[0]
        if there in (here, "files", "_version", "_lazy") or (there == "report" and local):
            continue
        assert there in ALLOWED[here], f"flm.{here} ({place(path)}) must not import flm.{there}"


def test_registers_import_only_words():
    for path in FILES:
        if part(path) in REGISTERS:
            block = [
                n for n in TREES[path].body if not (isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
            ]
            found = [n.module for n in block if isinstance(n, ast.ImportFrom) and n.module.startswith("flm.")]
            assert set(found) <= {"flm._lazy", "flm._version", "flm.wording"}, place(path)


def members(node):
    """Names that a class defines: methods, fields, and what its methods store on `self`."""
    found = set()
    for child in node.body:
        if isinstance(child, ast.FunctionDef):
            found.add(child.name)
            found |= {
                n.attr
                for n in ast.walk(child)
                if isinstance(n, ast.Attribute)
                and isinstance(n.ctx, ast.Store)
                and isinstance(n.value, ast.Name)
                and n.value.id == "self"
            }
        elif isinstance(child, ast.AnnAssign):
            found.add(ast.unparse(child.target))
        elif isinstance(child, ast.Assign):
            found |= {ast.unparse(target) for target in child.targets}
    return found


def test_protocols_point_one_way_too():
    # A protocol is an edge without an import: its module reads the objects of every class that fits it. The spine may read
    # the rooms' objects so: that is what its protocols are for. A room may only where READS says so.
    classes = [(path, node) for path in FILES for node in NODES[path] if isinstance(node, ast.ClassDef)]
    named = {node: {ast.unparse(b).split("[")[0].split(".")[-1] for b in node.bases} for _, node in classes}
    bases, own = named.__getitem__, {node: members(node) for _, node in classes}
    by_name = {node.name: node for _, node in classes}

    def everything(node, seen=()):
        inherited = [everything(by_name[b], (*seen, b)) for b in bases(node) if b in by_name and b not in seen]
        return own[node].union(*inherited)

    whole = [(part(path), everything(node)) for path, node in classes if "Protocol" not in bases(node)]
    for path, protocol in classes:
        if "Protocol" not in bases(protocol):
            continue
        wanted = own[protocol]
        if wanted <= {"__call__"}:  # a function's shape: any function may have it
            continue
        fitting = {there for there, offered in whole if wanted <= offered}
        here = part(path)
        if here not in SPINE and ALLOWED[here] is not None:
            beyond = {(here, there) for there in fitting - {here, *ALLOWED[here]}}
            assert beyond <= READS, f"{place(path)}: by {protocol.name}, {here} reads {fitting}"


def returned(tree):
    """(function, how many values it returns) for functions of a module and methods; functions inside those are JAX's.

    A starred call stands for several values, a starred list or generator for one sequence of like things.
    """
    for function in (n for top in (tree, *(c for c in tree.body if isinstance(c, ast.ClassDef))) for n in top.body):
        if not isinstance(function, ast.FunctionDef):
            continue
        everything = list(ast.walk(function))
        inner = {n for f in everything[1:] if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
        sizes = [
            sum(2 if isinstance(e, ast.Starred) and isinstance(e.value, ast.Call) else 1 for e in n.value.elts)
            for n in everything
            if isinstance(n, ast.Return) and n not in inner and isinstance(n.value, ast.Tuple)
        ]
        for node in ast.walk(function.returns) if function.returns else ():
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "tuple":
                entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                sizes.append(1 if ast.unparse(entries[-1]) == "..." else len(entries))
        yield function.name, max(sizes, default=1)


def test_no_function_returns_more_than_two_unnamed_values():
    found = {f"{place(path)}:{name}" for path in FILES for name, size in returned(TREES[path]) if size > 2}
    assert not found, "give the values a name: a NamedTuple or a frozen dataclass"


def test_files_fit_in_a_head():
    found = {place(path) for path in FILES if len(path.read_text().splitlines()) > LONGEST}
    assert not found, f"a file of more than {LONGEST} lines holds two ideas"


def test_every_folder_of_code_has_a_folder_of_tests():
    folders = {path.parent.relative_to(SOURCE) for path in FILES}
    missing = [str(folder) for folder in folders if not any((Path(__file__).parent / folder).glob("test_*.py"))]
    assert not missing, "tests mirror the package, folder by folder"


def test_no_prefix_stands_for_a_folder():
    for folder in {path.parent for path in FILES}:
        stems = [path.stem for path in FILES if path.parent == folder]
        folders = {path.parent.name for path in FILES if path.parent.parent == folder} | {folder.name}
        firsts = [stem.split("_")[0] for stem in stems if "_" in stem.strip("_")]
        for first in firsts:
            assert first not in folders | {f.removesuffix("s") for f in folders}, f"{folder.name}/{first}_*.py"
            assert firsts.count(first) < 3, f"{folder.name}/{first}_*.py want a folder {first}/"


def test_types_say_something():
    annotations = [
        annotation
        for nodes in NODES.values()
        for node in nodes
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if annotation is not None
    ]
    found = sum(isinstance(n, ast.Name) and n.id == "Any" for a in annotations for n in ast.walk(a))
    assert found <= ANY, "a type that says something, please"


def test_the_tree_of_errors_is_as_it_is_drawn():
    """The docstring of `flm.wording` has every error below its parent, with the built-in error that it also is."""
    found = {
        node.name: getattr(importlib.import_module(f"flm.{place(path)[:-3].replace('/', '.')}"), node.name)
        for path in FILES
        for node in NODES[path]
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
    }
    drawn, above = {"FLMError"}, {4: "FLMError"}
    for line in importlib.import_module("flm.wording").__doc__.splitlines():
        if entry := re.match(r"([ │]*)[├└]── (\w+)(?: \((\w+)\))?", line):
            name, builtin = entry[2], entry[3] or "Exception"
            assert issubclass(found[name], found[above[len(entry[1])]])
            assert issubclass(found[name], getattr(builtins, builtin))
            above[len(entry[1]) + 4] = name
            drawn.add(name)
    assert drawn == set(found)


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
    block = next(
        n
        for n in TREES[SOURCE / "__init__.py"].body
        if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    )
    seen = {a.name: n.module for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert seen == flm._HOMES | dict.fromkeys(flm._MODULES, "flm")


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


DTYPES = "print(flm.FLM(1, 2, key=0).phases.dtype, flm.PhaseSeries([[1]], [[1]], [[0]])([0.5]).dtype)"


@pytest.mark.slow
def test_importing_everything_is_silent_writes_and_seeds_nothing(tmp_path):
    modules = [m for m in sorted(MODULES) if m not in ("flm.torch", "flm.__main__")]
    code = (
        f"import importlib, os, random, numpy as np; os.chdir({str(tmp_path)!r})\n"
        "import jax, jax.numpy as jnp  # draws from numpy's global generator\n"
        "before = random.getstate(), np.random.get_state()[1].tolist()\n"
        f"for name in {modules}: importlib.import_module(name)\n"
        "assert (random.getstate(), np.random.get_state()[1].tolist()) == before\n"
        f"print(os.listdir()); import flm; {DTYPES}\n"  # float64 also where jax was first
    )
    assert run(code) == "[]\nfloat64 float64\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "shown", "dtype"),
    [
        ({}, DTYPES, "float64"),
        ({"JAX_ENABLE_X64": "0"}, DTYPES, "float32"),
        ({"JAX_ENABLE_X64": "1"}, "import jax; print(*[jax.numpy.ones(1).dtype] * 2)", "float64"),  # as above, then
    ],
)
def test_float64_unless_the_user_says_otherwise(environment, shown, dtype, tmp_path):
    code = f"import os; os.chdir({str(tmp_path)!r}); import flm; {shown}; print(os.listdir())"
    assert run(code, **environment) == f"{dtype} {dtype}\n[]\n"
