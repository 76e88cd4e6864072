"""The folder of the studio: texts that are kept as they are typed, tables, answers. Nothing outside of it is read or written."""

from __future__ import annotations

import json
import re
from pathlib import Path

from flm.cli.begin import STARTS, Start, start_text
from flm.files import write_atomic
from flm.language.outline import MAX_BYTES, Outline, Place
from flm.problems import catalogue
from flm.problems.text import parse_problem
from flm.wording import InputError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,60}\.(toml|csv)")
SCRIPT = "solve.py"
ANSWERS = ("index.html", "model.safetensors", "record.json", "solution.csv", "fitted.csv", "filled.csv")
_PACKED, _SOURCES = Path(__file__).parents[1] / "examples", Path(__file__).parents[3] / "examples" / "problems"
EXAMPLES = _PACKED if _PACKED.is_dir() else _SOURCES


class Desk:
    """The texts and tables in a folder, by plain names."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: object) -> Path:
        """The place of a text or table, refused unless it lies in the folder itself."""
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(f"`name` must be letters, digits, spaces and dashes, then .toml or .csv; got {name!r}.")
        path = self.folder / name
        if path.is_symlink() or path.resolve().parent != self.folder:
            raise InputError(f"`name` must be a file of the folder; got {name!r}, which leads elsewhere.")
        return path

    def answer(self, name: str, file: str) -> Path | None:
        """A file of the answer to a text; None where there is none."""
        path = self.out(name) / file
        safe = file in ANSWERS and not path.is_symlink() and path.resolve().parent.parent == self.folder
        return path if safe and path.is_file() else None

    def answers(self, name: str) -> list[str]:
        """The files of the answer to a text that can be saved."""
        found = [file for file in ANSWERS if self.answer(name, file) is not None]
        return [*found, SCRIPT] if "model.safetensors" in found and name.endswith(".toml") else found

    def script(self, name: str) -> str:
        """Python that solves a text again."""
        record = self.answer(name, "record.json")
        tol = json.loads(record.read_text(encoding="utf-8"))["tolerance"] if record is not None else None
        read = f'problem = flm.problems.read_problem("{self.path(name).name}")'
        return f"import flm\n\n{read}\nsolution = flm.solve(problem, tol={tol})\nprint(solution)\n"

    def out(self, name: str) -> Path:
        """The folder of the answer to a text or table."""
        return self.folder / f"flm-{self.path(name).stem}"

    def listing(self) -> dict[str, list[str]]:
        """The names of everything that can be opened."""
        files = sorted(p.name for p in self.folder.iterdir() if NAME.fullmatch(p.name) and p.is_file())
        return {"files": files, "new": list(map(str, Start)), "examples": _examples(), "catalogue": list(catalogue())}

    def text(self, kind: str, name: str) -> str:
        """The text of a file, of a new one, or of a problem of the catalogue."""
        if kind == "files":
            return self.path(name).read_text(encoding="utf-8")
        if kind == "new" and name in list(Start):
            return start_text(Start(name), f"my-{name}")
        if kind == "examples" and name in _examples():
            return (EXAMPLES / name).read_text(encoding="utf-8")
        if kind == "catalogue" and name in catalogue():
            comment = "# A problem of the catalogue; numbers for its arguments go into [set]."
            return f'{comment}\nproblem = "{name}"\n\n[set]\n'
        raise InputError(f"`name` must be something that is listed; got {name!r}.")

    def keep(self, name: object, text: object) -> Path:
        """Write a text into the folder, with the readings that belong to an example or a start."""
        path = self.path(name)
        if not isinstance(text, str) or len(text.encode()) > MAX_BYTES:
            raise InputError(f"`text` must be at most {MAX_BYTES:,} bytes.")
        write_atomic(path, text.encode())
        wanted = _readings_of(text)
        if NAME.fullmatch(wanted) and not (readings := self.path(wanted)).exists():
            for source in (EXAMPLES / wanted, STARTS / wanted.removeprefix("my-")):
                if source.is_file():
                    write_atomic(readings, source.read_bytes())
        return path

    def check(self, name: str, text: str) -> dict[str, object]:
        """What is wrong with a text and where, counted from 1; empty where nothing is."""
        if len(text.encode()) > MAX_BYTES:
            return {"error": f"a text must have at most {MAX_BYTES:,} bytes.", "line": 1, "column": 1}
        try:
            parse_problem(text, name=name, folder=self.folder)
        except (ValueError, TypeError, KeyError, OSError) as error:
            words = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
            line, column = _place(text, words)
            return {"error": words, "line": line, "column": column}
        return {}


def _examples() -> list[str]:
    """The files of examples/problems, which a wheel contains in the package."""
    return sorted(path.name for path in EXAMPLES.glob("*.toml"))


def _readings_of(text: str) -> str:
    """The file of readings that a text names; empty where it names none or is not TOML yet."""
    try:
        data = Outline.of(text, Place("text"), Path()).tree.get("data")
    except InputError:
        return ""
    return str(data.get("file", "")) if isinstance(data, dict) else ""


def _place(text: str, words: str) -> tuple[int, int]:
    """The line and column, from 1, that a message names; (1, 1) where it names none."""
    if found := re.search(r"\(at line (\d+), column (\d+)\)", words):
        return int(found[1]), int(found[2])
    named = re.search(r'\[(\w+)\](?: ("[^"]*"|\w+))?[^:]*?(?:, column (\d+))?:', words)
    named = named or re.search(r"got .*\[(\w+)\]()()", words)
    table, key, column = named.groups() if named else ("", "", "")
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip().startswith("["):
            inside = line.strip().startswith(f"[{table}]")
            if inside and not key:
                return number, 1
        elif inside and key and (start := re.match(rf"\s*{re.escape(key)}\s*=", line)):
            quote = line.find('"', start.end())
            return number, quote + 1 + int(column or 1) if quote >= 0 else 1
    return 1, 1
