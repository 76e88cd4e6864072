"""PDEs and ODEs as text: their tables in a TOML file, and regions: "Disk(x=0, y=0, radius=1) - Disk(x=0, y=0, radius=0.5)".

Grammar of regions: the shapes below with keyword arguments that are numbers, intervals (a, b) or lists of numbers; `-` cuts out,
`&` intersects, `|` joins. `Region(level='x**4 + y**4 - 1', x=(-2, 2), y=(-2, 2))` is where an expression is negative.
Nothing in a text is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flm.domains import AbstractDomain, Box, Disk, Ellipse, Polygon, Region
from flm.language.arguments import Names
from flm.language.expressions import Expression, ExpressionError, compile_expression, parse, refuse_reserved
from flm.language.outline import Outline, Place, among, sentences
from flm.language.parameters import names_of
from flm.pde.conditions import data, on, periodic
from flm.pde.problem import PDE
from flm.wording import did_you_mean, short

MAX_READINGS = 1_000_000
MAX_HEADER = 65_536  # characters
NOTES = ("title", "description", "units")
PDE_TABLES = ("domain", "parameters", "equation", "conditions", "exact", "data")
PDE_LISTS = ("unknowns", "complex_unknowns", "periodic")
MAX_SHAPES, MAX_CORNERS, MAX_TEXT = 32, 500, 8000
SHAPES: dict[str, Callable[..., AbstractDomain]] = {
    "Disk": Disk,
    "Ellipse": Ellipse,
    "Polygon": Polygon,
    "Box": Box,
    "Region": lambda level="", **bounds: Region(level, Box(**bounds)),
}
_JOIN: dict[type, Callable[[AbstractDomain, AbstractDomain], AbstractDomain]] = {
    ast.Sub: lambda a, b: a - b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
}


def read_domain(outline: Outline) -> AbstractDomain:
    """The domain: a box, or a shape, or a shape times a box."""
    domain = _domain(outline, outline.table("domain", required=True))
    with sentences(outline.at("domain")):
        refuse_reserved(domain.axes)
    return domain


def _domain(outline: Outline, table: dict[str, object]) -> AbstractDomain:
    if "shape" in table:
        place = outline.at("domain", "shape")
        if not isinstance(table["shape"], str):
            raise place.refuse(f"a shape in quotes is wanted; got {short(table['shape'])}")
        with sentences(place):
            shape = read_shape(table["shape"])
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
    """Check the tables of a PDE, and return a function that builds it."""
    outline.keys(outline.tree, (*PDE_TABLES, *PDE_LISTS, *NOTES), outline.place)
    domain = read_domain(outline)
    unknowns = outline.names(outline.tree.get("unknowns", ["u"]), outline.at("", "unknowns"))
    named = outline.tree.get("complex_unknowns", [])
    complex_ones = outline.names(named, outline.at("", "complex_unknowns")) if named != [] else ()
    # With complex unknowns i is the imaginary unit, unless the text uses that name for something else.
    unit = {} if not complex_ones or "i" in (*domain.axes, *unknowns, *outline.parameters) else {"i": 1j}
    inside = names_of(domain.axes, unknowns, outline.parameters)
    border = names_of(domain.axes, unknowns, outline.parameters, normals=True)
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
    """The flux where a parameter jumps, by unknown: from one expression, or from one for each unknown."""
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
    path = outline.folder / table["file"]
    if not path.resolve().is_relative_to(outline.folder.resolve()):
        raise outline.at("data", "file").refuse(
            f"a file beside or below the problem file is wanted; got {table['file']!r}. Copy it there"
        )
    rows = _read_readings(path, wanted, outline.at("data", "file"))
    m = len(domain.axes)
    error = rows[:, m + 1] if isinstance(sigma, str) else None if sigma is None else outline.number(sigma, place)
    with sentences(place):
        return [data(rows[:, :m], rows[:, m], sigma=error, observe=observe)]


def _measured(column: Any, unknowns: tuple[str, ...], place: Place) -> str:
    """The unknown that readings are of where `observe` is not given: the only one, or the one that names the column."""
    if len(unknowns) == 1 or column in unknowns:
        return column if column in unknowns else unknowns[0]
    raise place.refuse(
        f"observe is missing, and the column {column!r} is not named after an unknown ({', '.join(unknowns)}). "
        f'Write what was measured, such as observe = "{unknowns[0]}"'
    )


def _read_readings(path: Path, columns: list[str], place: Place) -> np.ndarray:
    """Columns of a CSV file with a header, (rows, len(columns))."""
    if path.exists() and not path.is_file():  # a device or a pipe may never end
        raise place.refuse(f"{str(path)!r} is not a file")
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = [cell.strip() for cell in file.readline(MAX_HEADER).split(",")]
            if set(columns) <= set(header):
                order = [header.index(column) for column in columns]
                return np.loadtxt(file, delimiter=",", usecols=order, ndmin=2, max_rows=MAX_READINGS)
    except OSError as error:
        raise place.refuse(f"{str(path)!r} cannot be read ({error.strerror})") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise place.refuse(f"{path.name} is not a table of numbers ({' '.join(str(error).split())[:120]})") from None
    known, column = ", ".join(header), next(c for c in columns if c not in header)
    known = known if len(known) <= 200 else known[:199] + "…"
    raise place.refuse(f"{path.name} has the columns {known}; got {column!r}.{did_you_mean(column, header)}")


def read_shape(text: str) -> AbstractDomain:
    """The region that a text describes.

    Raises:
        ExpressionError: The text is not a shape; the message has the column.
    """
    flat = " ".join(text.split("\n"))
    if len(flat) > MAX_TEXT:
        raise ExpressionError(f"a shape must have at most {MAX_TEXT} characters; got {len(flat)}", 1)
    try:
        tree = parse(flat.strip())
    except SyntaxError as error:
        raise ExpressionError(f"this is not a shape ({error.msg})", min(error.offset or 1, len(flat) or 1)) from None
    except (ValueError, MemoryError, RecursionError):
        raise ExpressionError("this is not a shape", 1) from None
    if sum(isinstance(node, ast.Call) for node in ast.walk(tree)) > MAX_SHAPES:
        raise ExpressionError(f"a region must have at most {MAX_SHAPES} shapes", 1)
    return _shape(tree.body)


def _shape(node: ast.expr) -> AbstractDomain:
    if isinstance(node, ast.BinOp) and type(node.op) in _JOIN:
        left, right = _shape(node.left), _shape(node.right)
        return _made(node, lambda: _JOIN[type(node.op)](left, right))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise _refuse(node, f"a shape is wanted: {', '.join(SHAPES)}, joined by -, & or |")
    name = node.func.id
    if name not in SHAPES:
        raise _refuse(node, f"the shape {name!r} is not one of {', '.join(SHAPES)}.{did_you_mean(name, list(SHAPES))}")
    if node.args or any(k.arg is None for k in node.keywords):
        raise _refuse(node, f"{name} takes its arguments by name, for example Disk(x=0, y=0, radius=1)")
    arguments = {k.arg: _value(k.value) for k in node.keywords if k.arg and (name, k.arg) != ("Region", "level")}
    if name == "Region":
        arguments["level"] = _text(node)
    return _made(node, lambda: SHAPES[name](**arguments))


def _text(node: ast.Call) -> str:
    """The expression in a call of Region."""
    level = next((k.value for k in node.keywords if k.arg == "level"), None)
    if isinstance(level, ast.Constant) and isinstance(level.value, str):
        return level.value
    raise _refuse(
        node, "Region wants its level in quotes and its bounds: Region(level='x**2 + y**2 - 1', x=(-2, 2), y=(-2, 2))"
    )


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Tuple | ast.List):
        if len(node.elts) > MAX_CORNERS:
            raise _refuse(node, f"a list must have at most {MAX_CORNERS} numbers")
        return tuple(_value(e) for e in node.elts)
    try:
        return compile_expression(ast.unparse(node)).constant()
    except (ExpressionError, RecursionError) as error:
        raise _refuse(node, str(error)) from None


def _made(node: ast.expr, make: Callable[[], AbstractDomain]) -> AbstractDomain:
    try:
        return make()
    except (ValueError, TypeError) as error:
        raise _refuse(node, str(error)) from None


def _refuse(node: ast.expr, message: str) -> ExpressionError:
    return ExpressionError(message.rstrip("."), getattr(node, "col_offset", 0) + 1)
