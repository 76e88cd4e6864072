"""Reading a problem or a study from TOML: tables, numbers, names and expressions, and the place of what is wrong."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from flm.language.expressions import Expression, ExpressionError, compile_expression, difference
from flm.language.parameters import Extent, Learn, Piecewise, Range
from flm.wording import FileMissingError, InputError, did_you_mean, short

MAX_BYTES = 65_536
MAX_ENTRIES = 200


class ProblemError(InputError):
    """A mistake in the text of a problem, with its file, table, key and column."""


@dataclass(frozen=True)
class Place:
    """A place in a text: its name, a table and a key; `error` is the kind of error that is raised about it."""

    source: str
    table: str = ""
    key: str = ""
    error: type[InputError] = ProblemError

    def __str__(self) -> str:
        inside = " ".join(filter(None, [self.table and f"[{self.table}]", self.key]))
        return ", ".join(filter(None, [self.source, inside]))

    def refuse(self, message: str, column: int | None = None) -> InputError:
        """The error to raise, with this place in front of the message."""
        at = f"{self}, column {column}" if column is not None else str(self)
        return self.error(f"{at}: {message if message.endswith(('.', '?')) else message + '.'}")


class Rule(NamedTuple):
    """What a value must be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]  # of any value that a TOML file may hold


TEXT = Rule("a text in quotes", lambda value: isinstance(value, str))
COUNT = Rule("an integer of at least 1", lambda value: type(value) is int and value >= 1)
POSITIVE = Rule("a positive number", lambda value: type(value) in (int, float) and value > 0)


def read_file(path: Path, what: str, error: type[InputError] = ProblemError) -> str:
    """The text of a TOML file of bounded size; `what` is the kind of file, for messages."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise error(f"{path.name}: a {what} must have at most {MAX_BYTES} bytes; got {size}.")
        return path.read_bytes().decode("utf-8")
    except OSError as reason:
        raise FileMissingError(f"the {what} file {str(path)!r} cannot be read ({reason.strerror}).") from None
    except UnicodeDecodeError:
        raise error(f"{path.name}: a {what} must be text in UTF-8; got other bytes.") from None


@contextmanager
def sentences(place: Place) -> Iterator[None]:
    """A context that adds the place, and the column of an expression, to errors raised inside."""
    try:
        yield
    except place.error:
        raise
    except ExpressionError as error:
        raise place.refuse(str(error), error.column) from None
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise place.refuse(" ".join(str(error.args[0] if error.args else error).split())) from None


@dataclass
class Outline:
    """A text that has been read, with its expressions compiled, before anything numerical happens."""

    place: Place
    tree: dict[str, Any]
    folder: Path
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, place: Place, folder: Path) -> Outline:
        """The outline of a TOML text; the files that it names are in `folder`."""
        if len(text.encode(errors="replace")) > MAX_BYTES:
            raise place.refuse(f"a text of at most {MAX_BYTES} bytes is wanted")
        try:
            return cls(place, tomllib.loads(text), folder)
        except (ValueError, RecursionError) as error:  # TOMLDecodeError, bad dates, arrays in arrays in arrays …
            raise place.refuse(f"not a TOML file: {str(error)[:200]}") from None

    def table(self, name: str, *, required: bool = False) -> dict[str, Any]:
        """A table of the file; empty when it is missing."""
        found = self.tree.get(name, {})
        if not isinstance(found, dict):
            raise self.place.refuse(f"{name} must be a table, [{name}]; got {short(found)}")
        if required and not found:
            raise self.place.refuse(f"a table [{name}] with at least one entry is missing")
        if len(found) > MAX_ENTRIES:
            raise self.place.refuse(f"[{name}] must have at most {MAX_ENTRIES} entries; got {len(found)}")
        return found

    def at(self, table: str, key: str = "") -> Place:
        """A place in this text."""
        return replace(self.place, table=table, key=key)

    def take(self, key: str, rule: Rule, *default: Any) -> Any:
        """The value of a key, refused where it breaks the rule; the default where the key is missing."""
        place = replace(self.place, key=key)
        if key not in self.tree and not default:
            raise place.refuse(f"{rule.words} is wanted, and missing")
        value = self.tree.get(key, *default)
        if key in self.tree and not rule.holds(value):
            raise place.refuse(f"{rule.words} is wanted; got {short(value)}")
        return value

    def inner(self, name: str, known: tuple[str, ...]) -> Outline | None:
        """The outline of a table with these keys, or None where it is missing."""
        if name not in self.tree:
            return None
        found = replace(self, place=replace(self.place, table=" ".join(filter(None, [self.place.table, name]))))
        found.tree = self.table(name)
        found.keys(found.tree, known, found.place)
        return found

    def inners(self, name: str, known: tuple[str, ...]) -> list[Outline]:
        """The outlines of the tables [[name]], at least one; where no keys are given, any are allowed."""
        tables = Rule(f"one or more tables, each headed [[{name}]],", lambda v: _all(v, dict))
        every = enumerate(self.take(name, tables), 1)
        found: list[Outline] = [replace(self, place=self.at(f"{name} {i}"), tree=table) for i, table in every]
        for outline in found if known else ():
            outline.keys(outline.tree, known, outline.place)
        return found

    def number(self, value: object, place: Place) -> float:
        """A number, given as one or as a text such as "2*pi"."""
        if isinstance(value, str):
            with sentences(place):
                return compile_expression(value).constant()
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise place.refuse(f"a number is wanted; got {short(value)}")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise place.refuse(f"a finite number is wanted; got {value}")
        return value

    def numbers(self, value: object, place: Place) -> list[float]:
        """A list of numbers."""
        if not isinstance(value, list):
            raise place.refuse(f"a list of numbers is wanted; got {short(value)}")
        return [self.number(v, place) for v in value]

    def names(self, value: object, place: Place) -> tuple[str, ...]:
        """Names that can stand in an expression."""
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not _all(value, str):
            raise place.refuse(f"a list of names is wanted; got {short(value)}")
        for v in value:
            if not (v.isidentifier() and v.isascii()):
                raise place.refuse(f"a name must be letters, digits and underscores; got {v!r}")
        if len(set(value)) < len(value):
            raise place.refuse("names must differ")
        return tuple(value)

    @property
    def _declared(self) -> set[str]:
        """Names that the file defines, such as an axis e: they hide a constant or function of the same name."""
        named = [self.parameters, self.tree.get("domain", ()), self.tree.get("unknowns", ())]
        control = self.tree.get("control", {})
        named += [control.get(key, ()) for key in ("states", "controls")] if isinstance(control, dict) else []
        return {name for group in named if isinstance(group, dict | list) for name in group if isinstance(name, str)}

    def compiled(self, text: str, place: Place, offset: int = 0) -> Expression:
        """A compiled expression; `offset` is its place in a longer text."""
        with sentences(place):
            return compile_expression(text, declared=self._declared, offset=offset)

    def expression(self, value: object, place: Place, known: Callable[[str], object]) -> Expression:
        """A compiled expression all of whose names `known(name)` accepts."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = repr(self.number(value, place))
        if not isinstance(value, str):
            raise place.refuse(f"an expression in quotes is wanted; got {short(value)}")
        return self.checked(self.compiled(value, place), place, known)

    def equation(self, value: object, place: Place, known: Callable[[str], object]) -> Expression:
        """left - right of a text "left = right"."""
        if not isinstance(value, str):
            raise place.refuse(f'an equation in quotes such as "u_t = u_xx" is wanted; got {short(value)}')
        return self.sides(value, "=", place, known)

    def sides(self, value: str, sign: str, place: Place, known: Callable[[str], object]) -> Expression:
        """left - right of a text "left sign right"; right - left where the sign is >=."""
        if value.replace("==", "=").count("=") != 1 or sign not in value:
            column = value.find("=", value.find("=") + 1) + 1 if value.count("=") > 1 else None
            raise place.refuse(f"an equation must have one '=', left = right; got {short(value)}", column)
        if "==" in value:
            raise place.refuse("an equation has one '=', not two", value.index("==") + 1)
        cut = value.index(sign)
        left, right = self.compiled(value[:cut], place), self.compiled(value[cut + len(sign) :], place, cut + len(sign))
        sides = (right, left) if sign == ">=" else (left, right)
        return self.checked(difference(*sides, value), place, known)

    def checked(self, found: Expression, place: Place, known: Callable[[str], object]) -> Expression:
        """The expression, refused unless all its names are known."""
        for name, column in found.columns.items():
            try:
                known(name)
            except ValueError as error:
                raise place.refuse(str(error), column) from None
        return found

    def read_parameters(self, given: Mapping[str, float]) -> None:
        """Read numbers, parameters to be learned and those that jump; the `given` ones replace those of the file."""
        for name, value in self.table("parameters").items():
            place = self.at("parameters", name)
            self.names(name, place)
            if name in given or not isinstance(value, dict):
                self.parameters[name] = self.number(given.get(name, value), place)
            else:
                with sentences(place):
                    self.parameters[name] = self._special(value, place)
        for name in given:
            if name not in self.parameters:
                near = did_you_mean(name, self.parameters)
                raise self.at("parameters").refuse(f"the parameter {name!r} is not declared.{near}")

    def plain_parameters(self, kind: str) -> dict[str, float]:
        """The parameters of a kind of problem that takes only numbers."""
        for name, value in self.parameters.items():
            if not isinstance(value, float):
                what = type(value).__name__
                raise self.at("parameters", name).refuse(f"{kind} takes numbers as parameters; got flm.{what}")
        return dict(self.parameters)

    def _special(self, value: dict[str, Any], place: Place) -> Learn | Range | Piecewise:
        """A parameter that is learned, takes every value of an interval, or jumps."""
        if "range" in value and "where" not in value:
            self.keys(value, ("range",), place)
            ends = self.numbers(value["range"], place)
            if len(ends) != 2:
                raise place.refuse(f"two numbers are wanted, {{range = [0.05, 0.3]}}; got {short(value['range'])}")
            return Range(*ends)
        if "where" not in value:
            self.keys(value, ("learn", "lower", "upper", "axes"), place)
            if "learn" not in value:
                raise place.refuse("a parameter to be found needs its start: {learn = 0.5}")
            numbers = {k: self.number(value[k], place) for k in ("learn", "lower", "upper") if k in value}
            axes = self.names(value["axes"], place) if "axes" in value else None
            return Learn(numbers.pop("learn"), axes=axes, **numbers)
        self.keys(value, ("value", "where"), place)
        wanted = "boxes and their values are wanted, {value = 1, where = [{box = {x = [0, 0.5]}, value = 100}]}"
        if "value" not in value or not _all(value["where"], dict):
            raise place.refuse(wanted)
        where: dict[Extent, float] = {}
        for entry in value["where"]:
            self.keys(entry, ("box", "value"), place)
            box = entry.get("box")
            if not isinstance(box, dict) or not box or "value" not in entry:
                raise place.refuse(wanted)
            pairs = [self.numbers(pair, place) for pair in box.values()]
            if not all(len(pair) == 2 and pair[0] < pair[1] for pair in pairs):
                raise place.refuse(f"an interval [low, high] is wanted for each axis of a box; got {short(box)}")
            where[Extent(tuple(box), tuple((a, b) for a, b in pairs))] = self.number(entry["value"], place)
        return Piecewise(self.number(value["value"], place), where)

    def keys(self, found: Iterable[str], known: tuple[str, ...], place: Place) -> None:
        """Refuse keys that are not known."""
        for key in found:
            if key not in known:
                raise place.refuse(f"{short(key)} is not one of {', '.join(known)}.{did_you_mean(str(key), known)}")


def _all(value: object, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, kind) for v in value)


def among(names: tuple[str, ...], what: str) -> Callable[[str], None]:
    """A check that a name is one of these."""

    def known(name: str) -> None:
        if name not in names:
            raise InputError(f"{what} may use {', '.join(names)}; got {name!r}.{did_you_mean(name, names)}")

    return known
