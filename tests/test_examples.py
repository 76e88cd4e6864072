"""Examples: each says what it solves, how to run it and how long that takes; notebooks are valid and their code runs."""

import ast
import json
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(p for p in EXAMPLES.rglob("*.py") if '__name__ == "__main__"' in p.read_text())
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_a_script_is_headed_by_its_command_and_its_time(path):
    heading = ast.get_docstring(ast.parse(path.read_text()))
    assert f"python {path.relative_to(EXAMPLES.parent)}" in heading
    assert re.search(r"second|minute", heading)


def cells(path, kind):
    return ["".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == kind]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_is_valid_and_headed_as_a_script(path):
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    for cell in notebook["cells"]:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )
        assert cell["cell_type"] != "code" or (cell["outputs"] and cell["execution_count"])  # scripts/run_notebooks.py
    first = cells(path, "markdown")[0]
    assert "$" in first
    assert f"jupyter lab {path.relative_to(EXAMPLES.parent)}" in first
    assert "CPU seconds" in first


def test_notebooks_pass_the_schema_of_jupyter():
    nbformat = pytest.importorskip("nbformat")
    for path in NOTEBOOKS:
        nbformat.validate(nbformat.read(path, as_version=4))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_the_code_of_a_notebook_runs(path, monkeypatch):
    assert len(NOTEBOOKS) >= 2
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace = {"__name__": "__main__"}
    for number, source in enumerate(cells(path, "code")):
        exec(compile(source, f"{path.name}, cell {number}", "exec"), namespace)
