"""Regions as text: "Disk(x=0, y=0, radius=1) - Disk(x=0, y=0, radius=0.5)".

Grammar: the shapes below with keyword arguments that are numbers, intervals (a, b) or lists of numbers; `-` cuts out, `&`
intersects, `|` joins. `Region(level='x**4 + y**4 - 1', x=(-2, 2), y=(-2, 2))` is where an expression is negative. Nothing in
a text is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from flm.domains import AbstractDomain, Box, Disk, Ellipse, Polygon, Region
from flm.language.expressions import ExpressionError, compile_expression, parse
from flm.wording import did_you_mean

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


def read_shape(text: str) -> AbstractDomain:
    """The region that a text describes.

    Raises:
        ExpressionError: The text is no shape; with the column.
    """
    flat = " ".join(text.split("\n"))
    if len(flat) > MAX_TEXT:
        raise ExpressionError(f"a shape must have at most {MAX_TEXT} characters; got {len(flat)}", 1)
    try:
        tree = parse(flat.strip())
    except SyntaxError as error:
        raise ExpressionError(f"this is no shape ({error.msg})", min(error.offset or 1, len(flat) or 1)) from None
    except (ValueError, MemoryError, RecursionError):
        raise ExpressionError("this is no shape", 1) from None
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
    """The expression of a Region."""
    for argument in node.keywords:
        if (
            argument.arg == "level"
            and isinstance(argument.value, ast.Constant)
            and isinstance(argument.value.value, str)
        ):
            return argument.value.value
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
