"""Optimal control problems as text: the tables [control] and [dynamics] of a TOML file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flm.control.problem import Free, OptimalControl
from flm.domains import Ball, Box
from flm.language.expressions import Expression, together
from flm.language.learn import Learn
from flm.language.outline import Outline, Place, among
from flm.language.piecewise import Piecewise
from flm.wording import did_you_mean

KEYS = (
    *("states", "controls", "horizon", "running_cost", "terminal_cost", "bounds", "initial", "radius"),
    *("path", "terminal", "on_simplex", "symmetries"),
)
TABLES = ("control", "dynamics", "parameters", "title", "description")
REQUIRED = ("states", "controls", "horizon", "running_cost", "initial")


def read_control(outline: Outline) -> Callable[[], OptimalControl]:
    """Check the tables of an outline; what is returned builds the problem."""
    outline.keys(outline.tree, TABLES, outline.place)
    table, at = outline.table("control", required=True), lambda key="": outline.at("control", key)
    outline.keys(table, KEYS, at())
    for key in REQUIRED:
        if key not in table:
            raise at().refuse(f"{key} is missing")
    if any(isinstance(value, Learn | Piecewise) for value in outline.parameters.values()):
        raise outline.at("parameters").refuse("an optimal control problem cannot learn parameters; give numbers")
    states, controls = (outline.names(table[key], at(key)) for key in ("states", "controls"))
    parameters = tuple(outline.parameters)
    along, at_end = ("t", *states, *controls, *parameters), ("t", *states, *parameters)
    cost = outline.expression(table["running_cost"], at("running_cost"), among(along, "this"))
    final = table.get("terminal_cost")
    options: dict[str, Any] = {
        "terminal_cost": None
        if final is None
        else outline.expression(final, at("terminal_cost"), among(at_end, "this")),
        "bounds": _bounds(outline, table.get("bounds"), controls, at("bounds")),
        "initial": _initial(outline, table, states, at),
        "path": [_path(outline, text, at("path"), along) for text in _listed(table.get("path"))] or None,
        "terminal": [
            outline.equation(text, at("terminal"), among(at_end, "this")) for text in _listed(table.get("terminal"))
        ]
        or None,
        "on_simplex": _flag(table.get("on_simplex", False), at("on_simplex")),
        "symmetries": _symmetries(table.get("symmetries"), at("symmetries")),
        "parameters": dict(outline.parameters),
    }
    dynamics = _dynamics(outline, states, along)
    horizon = _horizon(outline, table["horizon"], at("horizon"))
    return lambda: OptimalControl(dynamics, cost, horizon, states, controls, **options)


def _dynamics(outline: Outline, states: tuple[str, ...], along: tuple[str, ...]) -> Expression:
    table = outline.table("dynamics", required=True)
    for key in table:
        if key not in states:
            place = outline.at("dynamics", key)
            raise place.refuse(f"the states are {', '.join(states)}; got {key!r}.{did_you_mean(key, states)}")
    for state in states:
        if state not in table:
            raise outline.at("dynamics").refuse(f"the derivative of the state {state!r} is missing")
    rates = [outline.expression(table[state], outline.at("dynamics", state), among(along, "this")) for state in states]
    return together(rates) if len(rates) > 1 else rates[0]


def _initial(outline: Outline, table: dict[str, Any], states: tuple[str, ...], at: Any) -> Any:
    value = table["initial"]
    if isinstance(value, dict):
        if "radius" in table:
            raise at("radius").refuse("a radius belongs to an initial point, not to a box")
        outline.keys(value, states, at("initial"))
        sides = {s: outline.numbers(v, at("initial")) for s, v in value.items()}
        return Box(**sides)  # type: ignore[arg-type]
    point = outline.numbers(value, at("initial"))
    if "radius" not in table:
        return point
    return Ball(tuple(point), outline.number(table["radius"], at("radius")))


def _bounds(outline: Outline, value: Any, controls: tuple[str, ...], place: Place) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        if len(controls) > 1:
            raise place.refuse(f"intervals by control are wanted, {{{controls[0]} = [-1, 1]}}; got {value!r}")
        value = dict.fromkeys(controls, value)
    outline.keys(value, controls, place)
    found = {}
    for name, pair in value.items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise place.refuse(f"an interval [low, high] is wanted for {name}; got {pair!r}")
        # An open end is written "-inf" or "inf".
        found[name] = tuple(None if end in ("inf", "-inf") else outline.number(end, place) for end in pair)
    return found


def _horizon(outline: Outline, value: Any, place: Place) -> float | Free:
    if isinstance(value, dict):
        outline.keys(value, ("free",), place)
        guess = outline.number(value.get("free"), place)
        if guess <= 0:
            raise place.refuse(f"a positive guess is wanted; got {guess:g}")
        return Free(guess)
    return outline.number(value, place)


def _path(outline: Outline, text: Any, place: Place, names: tuple[str, ...]) -> Expression:
    """left - right of "left <= right", right - left of "left >= right": what must not be positive."""
    if not isinstance(text, str) or text.count("<=") + text.count(">=") != 1:
        raise place.refuse(f'a bound such as "x <= 1" is wanted; got {text!r}')
    return outline.sides(text, "<=" if "<=" in text else ">=", place, among(names, "this"))


def _symmetries(value: Any, place: Place) -> Any:
    if value is None:
        return ()
    if value != "cyclic" and not (isinstance(value, list) and all(isinstance(v, list) for v in value)):
        raise place.refuse(f'"cyclic" or lists of states are wanted; got {value!r}')
    return value if isinstance(value, str) else tuple(tuple(v) for v in value)


def _flag(value: Any, place: Place) -> bool:
    if not isinstance(value, bool):
        raise place.refuse(f"true or false is wanted; got {value!r}")
    return value


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]
