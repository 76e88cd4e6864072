"""What the documentation shows is true: its code runs, its examples print what they say, its reference is complete."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import os
import re
from pathlib import Path

import pytest

import flm

ROOT = Path(__file__).parents[1]
SOURCE = Path(flm.__file__).parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r'^```python(?: title="needs (\w+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def blocks(page):
    """Python blocks with their line numbers, but for those that say they need a package which is not here."""
    text = page.read_text()
    found = [block for block in FENCE.finditer(text) if not block[1] or importlib.util.find_spec(block[1])]
    return [(text.count("\n", 0, block.start()) + 1, block[2]) for block in found]


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace = {"__name__": "__main__"}
    for line, source in blocks(page):
        # the page's own line numbers in tracebacks
        exec(compile("\n" * line + source, str(page), "exec"), namespace)


def test_every_python_block_is_one_that_runs():
    for page in PAGES:
        text = page.read_text()
        assert len(FENCE.findall(text)) == text.count("\n```py"), page.name


def test_every_page_is_in_the_menu():
    menu = re.findall(r": (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(menu) == len(set(menu))
    assert {str(p.relative_to(ROOT / "docs")) for p in PAGES[1:]} <= set(menu)


def module_name(path):
    return ".".join(("flm", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


NEEDS = {"flm.torch": "torch"}  # extras of the modules with examples


@pytest.mark.slow
@pytest.mark.parametrize("name", [module_name(p) for p in sorted(SOURCE.rglob("*.py")) if ">>> " in p.read_text()])
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.chdir(tmp_path)
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testmod(importlib.import_module(name), optionflags=options)
    assert result.attempted > 0
    assert result.failed == 0


def offered(module):
    """The names that a public module offers: those it imports under the same name, or its `__all__`."""
    home = importlib.import_module(f"flm.{module}")
    tree = ast.parse(Path(home.__file__).read_text())
    imported = [a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names if a.asname == a.name]
    return {name: getattr(home, name) for name in getattr(home, "__all__", imported)}


def test_every_public_name_has_an_example():
    names = {f"flm.{name}": getattr(flm, name) for name in flm._HOMES}
    for module in set(flm._MODULES) - {"study", "torch"}:  # torch is an extra
        names |= {f"flm.{module}.{name}": value for name, value in offered(module).items()}
    missing = [n for n, v in names.items() if callable(v) and ">>> " not in (inspect.getdoc(v) or "")]
    shown = "".join(source for _, source in FENCE.findall((ROOT / "docs" / "studies.md").read_text()))
    missing += [f"flm.study.{name}" for name in offered("study") if f"flm.study.{name}(" not in shown]
    assert len(names) > 80
    assert not missing


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(flm.problems.catalogue()))  # the example of a problem is its call
def test_every_problem_shows_its_names_its_domain_and_its_conditions(name):
    problem = flm.problems.catalogue()[name]()
    said = repr(problem)
    if isinstance(problem, flm.OptimalControl):
        assert all(part in said for part in (*problem.states, *problem.controls, "horizon", "from the"))
        return
    assert repr(problem.domain) in said
    assert all(re.search(rf"\b{unknown}(_\w+)?\b", said) for unknown in problem.unknowns)
    if isinstance(problem, flm.PDE):
        many = 2 if "h_re" in problem.unknowns else 1  # a complex equation is two real ones
        assert many * said.count("equation: ") == len(problem.equations)
        assert len(said.splitlines()) > 1 + said.count("equation: ")  # and its conditions


def test_reference_has_every_public_name():
    listed = re.findall(r"^::: flm\.(\w+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(flm._HOMES)


def test_pages_and_examples_name_only_what_is_public():
    places = [*PAGES, *(path for path in (ROOT / "examples").rglob("*") if path.suffix in (".py", ".ipynb"))]
    public = {*flm._HOMES, *flm._MODULES, "__version__"}
    for place in places:
        imported = re.findall(r"\bfrom flm(?:\.(\w+))?[\w.]* import", place.read_text())
        used = re.findall(r"(?<![\w/.-])flm\.(\w+)", place.read_text())
        assert {name for name in imported + used if name} <= public, place.relative_to(ROOT)


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, *ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md")]:
        prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", prose):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_map_of_the_house_is_true():
    parts = "|".join(sorted({p.relative_to(SOURCE).parts[0].removesuffix(".py") for p in SOURCE.rglob("*.py")}))
    named = re.findall(rf"\b(?:{parts})/[a-z_]+(?:/[a-z_]+)*", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 15
    for name in named:
        assert (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file(), f"CONTRIBUTING.md names {name}"


def test_imports_that_the_changelog_offers_are_there():
    rows = re.findall(r"^\| `(flm\.[^`]+)` \| `(flm\.[^`]+)` \|$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert len(rows) > 100
    modules = [module_name(path) for path in SOURCE.rglob("*.py")]
    for _, new in rows:
        home = max((name for name in modules if f"{new}.".startswith(f"{name}.")), key=len)
        value = importlib.import_module(home)
        for attribute in new[len(home) + 1 :].split(".") if new != home else ():
            value = getattr(value, attribute)


def test_version_is_said_once_more():
    assert f"version: {flm.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def test_every_target_of_the_makefile_is_said():
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert {"demo", "test", "quick", "lint", "bench", "paper", "docs"} <= set(targets)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
