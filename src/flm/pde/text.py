"""PDEs and ODEs as text: their tables in a TOML file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flm.domains import Box
from flm.language.arguments import Names
from flm.language.expressions import Expression
from flm.language.outline import Outline, Place, ProblemError, among, sentences
from flm.pde.conditions import data, on, periodic
from flm.pde.problem import PDE
from flm.pde.shapes import read_shape
from flm.wording import did_you_mean, short

MAX_READINGS = 1_000_000
MAX_HEADER = 65_536  # characters
NOTES = ("title", "description")
PDE_TABLES = (
    "domain",
    "parameters",
    "equation",
    "conditions",
    "exact",
    "data",
    "unknowns",
    "complex_unknowns",
    "periodic",
)


def read_domain(outline: Outline) -> Any:
    """A box, or a shape (times a box)."""
    table = outline.table("domain", required=True)
    if "shape" in table:
        place = outline.at("domain", "shape")
        if not isinstance(table["shape"], str):
            raise place.refuse(f"a shape in quotes is wanted; got {short(table['shape'])}")
        shape = outline.guard(lambda: read_shape(table["shape"]), place)
        rest = {k: v for k, v in table.items() if k != "shape"}
        with sentences(place):
            return shape * Box(**{k: _interval(outline, k, v) for k, v in rest.items()}) if rest else shape
    with sentences(outline.at("domain")):
        return Box(**{k: _interval(outline, k, v) for k, v in table.items()})


def _interval(outline: Outline, axis: str, value: Any) -> tuple[float, float]:
    place = outline.at("domain", axis)
    outline.names(axis, place)
    pair = outline.numbers(value, place)
    if len(pair) != 2 or not pair[0] < pair[1]:
        raise place.refuse(f"an interval [low, high] is wanted; got {short(value)}")
    return pair[0], pair[1]


def read_pde(outline: Outline) -> Callable[[], PDE]:
    """Check the tables of a PDE; what is returned builds it."""
    outline.keys(outline.tree, (*PDE_TABLES, *NOTES), outline.place)
    domain = read_domain(outline)
    unknowns = outline.names(outline.tree.get("unknowns", ["u"]), outline.at("", "unknowns"))
    named = outline.tree.get("complex_unknowns", [])
    complex_ones = outline.names(named, outline.at("", "complex_unknowns")) if named != [] else ()
    # With complex unknowns i is the imaginary unit, unless something else is called so.
    unit = {} if not complex_ones or "i" in (*domain.axes, *unknowns, *outline.parameters) else {"i": 1j}
    inside = Names.of(domain.axes, unknowns, outline.parameters)
    border = Names.of(domain.axes, unknowns, outline.parameters, normals=True)
    known = lambda names, what: lambda name: None if name in unit else names.resolve(name, what)
    flux = _flux(outline, unknowns, known(border, "the flux"))
    equations = [
        outline.equation(text, outline.at("equation", key), known(inside, "the equation")).fix(unit)
        for key, text in outline.table("equation", required=True).items()
        if key != "flux"
    ]
    conditions: list[Any] = []
    for where, texts in outline.table("conditions").items():
        place = outline.at("conditions", f'"{where}"')
        with sentences(place):
            domain.piece(where)
        for text in texts if isinstance(texts, list) else [texts]:
            conditions.append(on(where, outline.equation(text, place, known(border, "the condition")).fix(unit)))
    around = outline.tree.get("periodic", [])
    for axis in outline.names(around, outline.at("", "periodic")) if around != [] else ():
        conditions.append(periodic(axis))
    conditions += _data(outline, domain, unknowns, inside)
    exact = read_exact(outline, unknowns, (*domain.axes, *outline.parameters))
    parameters = outline.parameters
    options = {"unknowns": unknowns, "complex_unknowns": complex_ones, "parameters": parameters}
    return lambda: PDE(domain, equations, conditions, flux=flux or None, exact=exact or None, **options)


def _flux(outline: Outline, unknowns: tuple[str, ...], known: Callable[[str], Any]) -> dict[str, Expression]:
    """What flows where a parameter jumps: one expression, or one for each unknown."""
    given, place = outline.table("equation", required=True).get("flux", {}), outline.at("equation", "flux")
    by_name = given if isinstance(given, dict) else {unknowns[0]: given}
    outline.keys(by_name, unknowns, place)
    return {name: outline.expression(text, place, known) for name, text in by_name.items()}


def read_exact(outline: Outline, unknowns: tuple[str, ...], names: tuple[str, ...]) -> dict[str, Expression]:
    """The exact solution of each unknown, by name."""
    exact = {}
    for key, text in outline.table("exact").items():
        place = outline.at("exact", key)
        if key not in unknowns:
            raise place.refuse(f"the unknowns are {', '.join(unknowns)}; got {key!r}.{did_you_mean(key, unknowns)}")
        exact[key] = outline.expression(text, place, among(names, "the exact solution"))
    return exact


def _data(outline: Outline, domain: Any, unknowns: tuple[str, ...], names: Names) -> list[Any]:
    table = outline.table("data")
    if not table:
        return []
    place = outline.at("data")
    outline.keys(table, ("file", "columns", "sigma", "observe"), place)
    if not isinstance(table.get("file"), str):
        raise outline.at("data", "file").refuse("the name of a CSV file is wanted")
    columns = table.get("columns", [*domain.axes, *unknowns[:1]] if len(unknowns) == 1 else None)
    if not isinstance(columns, list) or len(columns) != len(domain.axes) + 1:
        raise outline.at("data", "columns").refuse(
            f"one column for each of {', '.join(domain.axes)} and one for the value are wanted; got {short(columns or [])}"
        )
    observe = outline.expression(
        table["observe"] if "observe" in table else _measured(columns[-1], unknowns, place),
        outline.at("data", "observe"),
        lambda name: names.resolve(name, "observe"),
    )
    sigma = table.get("sigma")
    wanted = [str(c) for c in columns] + ([sigma] if isinstance(sigma, str) else [])
    rows = _read_readings(outline.folder / table["file"], wanted, outline.at("data", "file"))
    m = len(domain.axes)
    error = rows[:, m + 1] if isinstance(sigma, str) else None if sigma is None else outline.number(sigma, place)
    with sentences(place):
        return [data(rows[:, :m], rows[:, m], sigma=error, observe=observe)]


def _measured(column: Any, unknowns: tuple[str, ...], place: Place) -> str:
    """The unknown that readings are of where `observe` does not say: the only one, or the one that the column is named after."""
    if len(unknowns) == 1 or column in unknowns:
        return column if column in unknowns else unknowns[0]
    raise place.refuse(
        f"observe is wanted: the column {column!r} is none of the unknowns {', '.join(unknowns)}. "
        f'Write what was measured, such as observe = "{unknowns[0]}"'
    )


def _read_readings(path: Path, columns: list[str], place: Place) -> np.ndarray:
    """Columns of a CSV file with a header, (rows, len(columns))."""
    if path.exists() and not path.is_file():  # a device or a pipe may never end
        raise place.refuse(f"{str(path)!r} is not a file")
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = [cell.strip() for cell in file.readline(MAX_HEADER).split(",")]
            for column in columns:
                if column not in header:
                    near = did_you_mean(column, header)
                    raise place.refuse(f"{path.name} has the columns {_some(header)}; got {column!r}.{near}")
            order = [header.index(column) for column in columns]
            return np.loadtxt(file, delimiter=",", usecols=order, ndmin=2, max_rows=MAX_READINGS)
    except OSError as error:
        raise place.refuse(f"{str(path)!r} cannot be read ({error.strerror})") from None
    except ProblemError:
        raise
    except (ValueError, UnicodeDecodeError) as error:
        raise place.refuse(f"{path.name} is not a table of numbers ({' '.join(str(error).split())[:120]})") from None


def _some(header: list[str]) -> str:
    text = ", ".join(header)
    return text if len(text) <= 200 else text[:199] + "…"
