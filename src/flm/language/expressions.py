"""Mathematical expressions as text, compiled to closures of jax.numpy operations. Nothing in a text is ever executed.

Grammar: numbers, names, + - * / **, parentheses, calls of the functions below by position, and comparisons as the first
argument of `where`. Python's parser reads it; every node that is not listed here is refused with its column.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from flm.wording import InputError, did_you_mean

if TYPE_CHECKING:
    from flm.language.arguments import Value

MAX_LENGTH, MAX_NODES, MAX_DEPTH, MAX_EXPONENT = 20_000, 3000, 60, 64

# name -> (name in jax.numpy, least and largest number of arguments)
FUNCTIONS = {
    **{name: (name, 1, 1) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log1p")},
    **{name: (name, 1, 1) for name in ("log2", "log10", "sqrt", "cbrt", "abs", "sign", "floor", "square")},
    **{name: (f"arc{name[1:]}", 1, 1) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    **{name: (name, 1, 1) for name in ("arcsin", "arccos", "arctan")},
    "atan2": ("arctan2", 2, 2),
    "hypot": ("hypot", 2, 2),
    "heaviside": ("heaviside", 2, 2),
    "max": ("maximum", 2, 8),
    "min": ("minimum", 2, 8),
    "erf": ("erf", 1, 1),
    "where": ("where", 3, 3),
}
CONSTANTS = {"pi": math.pi, "e": math.e}
_BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_COMPARE = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
_Closure = Callable[[Mapping[str, Any]], Any]  # from the values of names; numbers, arrays or tuples of them
_Operation = tuple[Callable[..., Any], list[ast.expr]]  # the operation of a node, and the parts that it is applied to


def refuse_reserved(axes: Iterable[str]) -> None:
    """Refuse axes named like a constant or a function; `e` may be the fifth axis after a, b, c and d."""
    for name in axes:
        if name in FUNCTIONS or (name in CONSTANTS and name != "e"):
            what = "function" if name in FUNCTIONS else "constant"
            raise InputError(
                f"`axes` must not be named like a function or a constant; got {name!r}, a {what}. Rename the axis."
            )


class ExpressionError(InputError):
    """A text that is not an expression; it has the column, counted from 1, at which it goes wrong."""

    def __init__(self, message: str, column: int):
        super().__init__(message)
        self.column = column


@dataclass(frozen=True, eq=False)
class Expression:
    """A compiled text: a function of its names, in order of appearance, by position or by name."""

    text: str  # as written
    columns: dict[str, int]  # where each name without a value first appears, from 1
    closure: _Closure

    @property
    def names(self) -> tuple[str, ...]:
        """The names without a value."""
        return tuple(self.columns)

    def __call__(self, *values: Value, **named: Value) -> Any:
        """The value at these values of the names."""
        known = dict(zip(self.names, values, strict=False)) | named
        with np.errstate(all="ignore"):  # the caller looks for values that are not finite
            return self.closure(known)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(name, kind) for name in self.names])

    def fix(self, values: Mapping[str, complex]) -> Expression:
        """The expression with some names replaced by numbers."""
        inner, fixed = self.closure, {name: np.asarray(value) * np.float64(1) for name, value in values.items()}
        columns = {name: column for name, column in self.columns.items() if name not in values}
        return Expression(self.text, columns, lambda known: inner({**fixed, **known}))

    def constant(self) -> float:
        """The value of an expression without names."""
        for name, column in self.columns.items():
            raise ExpressionError(f"a plain number is wanted here; got the name {name!r}", column)
        with np.errstate(all="ignore"):
            value = float(self.closure({}))
        if not math.isfinite(value):
            raise ExpressionError(f"a finite number is wanted here; got {value}", 1)
        return value


def difference(left: Expression, right: Expression, text: str) -> Expression:
    """left - right as one expression."""
    columns = together((left, right)).columns
    return Expression(text, columns, lambda known: left.closure(known) - right.closure(known))


def together(expressions: Iterable[Expression]) -> Expression:
    """Several expressions as one function that returns a tuple."""
    every = tuple(expressions)
    columns = {name: column for e in reversed(every) for name, column in e.columns.items()}
    text = ", ".join(e.text for e in every)
    return Expression(text, columns, lambda known: tuple(e.closure(known) for e in every))


def compile_expression(text: str, *, declared: Iterable[str] = (), offset: int = 0) -> Expression:
    """The expression that a text such as "sin(pi * x) * exp(-t)" stands for; other texts raise an `ExpressionError`.

    Declared names hide constants and functions of the same name. `offset` is added to columns in errors, for a text that is
    part of a longer one.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the text must have at most {MAX_LENGTH} characters; got {len(text)}", offset + 1)
    flat = text.replace("\n", " ").replace("\r", " ").replace("\t", " ").replace("\f", " ")
    lead = len(flat) - len(flat.lstrip())
    if not flat.strip():
        raise ExpressionError("an expression is missing", offset + 1)
    if "#" in flat:
        raise ExpressionError("'#' has no meaning in an expression", offset + flat.index("#") + 1)
    if prime := re.search(r"(?<!['\w])([A-Za-z]\w*)('+)(?=[-+*/^) ]|$)", flat):
        name, order = prime[1], len(prime[2])
        raise ExpressionError(
            f"a derivative is written with the axis, {name}_{'t' * order} or {name}_{'x' * order} for {prime[0]}",
            offset + prime.start() + 1,
        )
    if product := re.search(r"(?<![\w.])(\d+(?:\.\d*)?)(?=[A-DF-Za-df-z(]|[eE](?![-+\d]))(?!j\b)", flat):
        rest = re.match(r"\w+|\(", flat[product.end() :])
        raise ExpressionError(
            f"a product needs its *: write {product[1]} * {rest[0] if rest else ''}", offset + product.start() + 1
        )
    flat = flat.replace("^", "**")
    try:
        tree = parse(flat.strip())
    except SyntaxError as error:
        if product := re.search(r"(?<![\w.])([\w.]+|\))\s+(?!and|or|if|else|not|in|is)([A-Za-z]\w*|[\d(])", flat):
            words = f"a product needs its *: write {product[1]} * {product[2]}"
            raise ExpressionError(words, offset + product.start() + 1) from None
        column = offset + lead + min(error.offset or 1, len(flat.strip()))
        raise ExpressionError(f"this is not an expression ({_lower(error.msg)})", column) from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"this is not an expression ({_lower(str(error)) or 'too deep'})", offset + 1) from None
    reader = _Reader(frozenset(declared), flat.strip(), offset + lead)
    closure = reader.read(tree.body, 0)
    return Expression(text, reader.columns, closure)


def parse(text: str) -> ast.Expression:
    """The tree of a text, without the parser's warnings ("0not x" gives one before it is refused)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return ast.parse(text, mode="eval")


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


class _Reader:
    def __init__(self, declared: frozenset[str], text: str, offset: int):
        self.declared, self.text, self.offset = declared, text, offset
        self.columns: dict[str, int] = {}
        self.count = 0

    def refuse(self, node: ast.AST, message: str) -> ExpressionError:
        # ast counts bytes of UTF-8
        start = len(self.text.encode()[: getattr(node, "col_offset", 0)].decode(errors="ignore"))
        return ExpressionError(message, self.offset + start + 1)

    def read(self, node: ast.expr, depth: int) -> _Closure:
        self.count += 1
        if self.count > MAX_NODES:
            raise self.refuse(node, f"an expression must have at most {MAX_NODES} parts")
        if depth > MAX_DEPTH:
            raise self.refuse(node, f"an expression must be nested at most {MAX_DEPTH} deep")
        if isinstance(node, ast.Name) and (node.id in self.declared or node.id not in (*CONSTANTS, *FUNCTIONS)):
            self.columns.setdefault(node.id, self.refuse(node, "").column)
            return lambda known: known[node.id]
        if isinstance(node, ast.Constant | ast.Name):
            value = self.number(node)
            return lambda known: value
        operate, operands = self.operation(node)
        parts = [self.read(one, depth + 1) for one in operands]
        return lambda known: operate(*(part(known) for part in parts))

    def number(self, node: ast.Constant | ast.Name) -> np.float64:
        if isinstance(node, ast.Name) and node.id in FUNCTIONS:
            raise self.refuse(node, f"the function {node.id} needs its argument: {node.id}(…)")
        value = CONSTANTS[node.id] if isinstance(node, ast.Name) else node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(node, f"a number is wanted; got {str(value)[:40]!r}")
        try:
            found = np.float64(value)
        except OverflowError:
            found = np.float64(np.inf)
        if not np.isfinite(found):
            raise self.refuse(node, "the number is too large")
        return found

    def operation(self, node: ast.expr) -> _Operation:
        """The operation of a node, and the parts that it is applied to."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return operator.neg if isinstance(node.op, ast.USub) else operator.pos, [node.operand]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return self.power(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            # A sum of any number of terms counts as deep as its deepest term.
            signs, terms, first = [], [], node
            while isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add | ast.Sub):
                signs, terms, first = [_BINARY[type(first.op)], *signs], [first.right, *terms], first.left
            add = lambda total, term: term[0](total, term[1])
            return lambda start, *rest: reduce(add, zip(signs, rest, strict=True), start), [first, *terms]
        if isinstance(node, ast.BinOp):
            if type(node.op) not in _BINARY:
                raise self.refuse(node, f"the operator {_OPERATORS.get(type(node.op), 'here')} is not allowed")
            return _BINARY[type(node.op)], [node.left, node.right]
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Compare):
            raise self.refuse(node, "a comparison may only be the first argument of where(condition, yes, no)")
        raise self.refuse(node, f"{_KINDS.get(type(node), 'this')} is not allowed in an expression")

    def power(self, node: ast.BinOp) -> _Operation:
        exponent, sign = node.right, 1
        while isinstance(exponent, ast.UnaryOp) and isinstance(exponent.op, ast.USub | ast.UAdd):
            sign = -sign if isinstance(exponent.op, ast.USub) else sign
            exponent = exponent.operand
        if not isinstance(exponent, ast.Constant):
            return _function("power"), [node.left, node.right]
        value = sign * self.number(exponent)
        if abs(value) > MAX_EXPONENT:
            raise self.refuse(exponent, f"an exponent must be at most {MAX_EXPONENT} in size; got {value:g}")
        # A whole exponent stays an integer: x**2 is then differentiable everywhere.
        whole = int(value) if value.is_integer() else value
        return lambda base: base**whole, [node.left]

    def call(self, node: ast.Call) -> _Operation:
        if not isinstance(node.func, ast.Name):
            raise self.refuse(node, "only functions by their plain name may be called")
        name, arguments = node.func.id, node.args
        if name in self.declared:
            raise self.refuse(
                node.func,
                f"{name!r} is a name of this problem and cannot be called; rename it, or write a product with *",
            )
        if name not in FUNCTIONS:
            near = did_you_mean(name, list(FUNCTIONS))
            raise self.refuse(node.func, f"the function {name!r} is not known.{near}".rstrip("."))
        if node.keywords or any(isinstance(a, ast.Starred) for a in arguments):
            raise self.refuse(node, f"{name} takes its arguments by position")
        target, least, most = FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise self.refuse(node, f"{name} takes {wanted} argument{'s' if most > 1 else ''}; got {len(arguments)}")
        function = _function(target)
        if name in ("max", "min"):
            return lambda *values: reduce(function, values), arguments
        if name != "where":
            return function, arguments
        test = arguments[0]
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or type(test.ops[0]) not in _COMPARE:
            raise self.refuse(test, "the first argument of where must be one comparison such as x < 0.5")
        compare, sides = _COMPARE[type(test.ops[0])], [test.left, *test.comparators]
        return lambda left, right, *values: function(compare(left, right), *values), [*sides, *arguments[1:]]


def _function(name: str) -> Callable[..., Value]:
    """A function of jax by its name, imported on the first call."""

    def called(*values: Value) -> Value:
        import jax.numpy
        import jax.scipy.special

        return getattr(jax.scipy.special if name == "erf" else jax.numpy, name)(*values)

    return called


_KINDS: dict[type, str] = {
    ast.Attribute: "a dot",
    ast.Subscript: "an index [ ]",
    ast.Lambda: "a lambda",
    ast.IfExp: "an if (write where(condition, yes, no))",
    ast.BoolOp: "and/or",
    ast.NamedExpr: "an assignment",
    ast.Tuple: "a comma outside of a call",
    ast.List: "a list",
    ast.Dict: "a dict",
    ast.JoinedStr: "a string",
}
_OPERATORS: dict[type, str] = {ast.Mod: "%", ast.FloorDiv: "//", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|"}
