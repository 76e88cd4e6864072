"""Optimal control problems as text: the tables [control] and [dynamics] of a TOML file."""

from __future__ import annotations

from collections.abc import Callable

from flm.control.equations import Function
from flm.control.problem import Free, Interval, OptimalControl
from flm.control.starts import Initial
from flm.domains import Ball, Box
from flm.language.expressions import Expression, together
from flm.language.outline import Outline, Place, Rule, among
from flm.wording import did_you_mean

TABLES = ("control", "dynamics", "parameters", "title", "description", "units")
REQUIRED = ("states", "controls", "horizon", "running_cost", "initial")
KEYS = (*REQUIRED, "terminal_cost", "bounds", "radius", "path", "terminal", "on_simplex", "symmetries")
FLAG = Rule("true or false", lambda value: isinstance(value, bool))
LISTS = Rule(
    '"cyclic" or a list of lists of states',
    lambda value: value == "cyclic" or (isinstance(value, list) and all(isinstance(v, list) for v in value)),
)


def read_control(outline: Outline) -> Callable[[], OptimalControl]:
    """Check the tables of a control problem, and return a function that builds it."""
    outline.keys(outline.tree, TABLES, outline.place)
    outline.table("control", required=True)
    found = outline.inner("control", KEYS)
    assert found is not None
    table, at = found.tree, lambda key="": outline.at("control", key)
    for key in REQUIRED:
        if key not in table:
            raise at().refuse(f"{key} is missing")
    parameters = outline.plain_parameters("an optimal control problem")
    states, controls = (outline.names(table[key], at(key)) for key in ("states", "controls"))
    along = among(("t", *states, *controls, *outline.parameters), "this")
    at_end = among(("t", *states, *outline.parameters), "this")
    listed = lambda key: value if isinstance(value := table.get(key, []), list) else [value]
    path: list[Function] = [_path(outline, text, at("path"), along) for text in listed("path")]
    terminal: list[Function] = [outline.equation(text, at("terminal"), at_end) for text in listed("terminal")]
    cost = outline.expression(table["running_cost"], at("running_cost"), along)
    final = None
    if "terminal_cost" in table:
        final = outline.expression(table["terminal_cost"], at("terminal_cost"), at_end)
    initial, bounds = _initial(found, states), _bounds(found, controls)
    dynamics, horizon = _dynamics(outline, states, along), _horizon(found)
    on_simplex, symmetries = found.take("on_simplex", FLAG, False), found.take("symmetries", LISTS, ())
    return lambda: OptimalControl(
        dynamics,
        cost,
        horizon,
        states,
        controls,
        initial=initial,
        terminal_cost=final,
        bounds=bounds,
        parameters=parameters,
        path=path or None,
        terminal=terminal or None,
        on_simplex=on_simplex,
        symmetries=symmetries,
    )


def _dynamics(outline: Outline, states: tuple[str, ...], along: Callable[[str], None]) -> Expression:
    table = outline.table("dynamics", required=True)
    for key in table:
        if key not in states:
            place = outline.at("dynamics", key)
            raise place.refuse(f"the states are {', '.join(states)}; got {key!r}.{did_you_mean(key, states)}")
    for state in states:
        if state not in table:
            raise outline.at("dynamics").refuse(f"the derivative of the state {state!r} is missing")
    rates = [outline.expression(table[state], outline.at("dynamics", state), along) for state in states]
    return together(rates) if len(rates) > 1 else rates[0]


def _initial(control: Outline, states: tuple[str, ...]) -> Initial:
    value, place, radius = control.tree["initial"], control.at("control", "initial"), control.at("control", "radius")
    if isinstance(value, dict):
        if "radius" in control.tree:
            raise radius.refuse("a radius belongs to an initial point, not to a box")
        control.keys(value, states, place)
        return Box(**{s: control.numbers(v, place) for s, v in value.items()})  # type: ignore[arg-type]
    point = control.numbers(value, place)
    if "radius" not in control.tree:
        return point
    return Ball(tuple(point), control.number(control.tree["radius"], radius))


def _bounds(control: Outline, controls: tuple[str, ...]) -> Interval | dict[str, Interval] | None:
    value, place = control.tree.get("bounds"), control.at("control", "bounds")
    # An open end is written "-inf" or "inf".
    end = lambda bound: None if bound in ("inf", "-inf") else control.number(bound, place)
    interval = lambda pair: tuple(map(end, pair)) if isinstance(pair, list) else pair
    if not isinstance(value, dict):
        return interval(value)  # type: ignore[return-value]  # of two numbers, or refused by the problem
    control.keys(value, controls, place)
    return {name: interval(pair) for name, pair in value.items()}  # type: ignore[return-value]


def _horizon(control: Outline) -> float | Free:
    value, place = control.tree["horizon"], control.at("control", "horizon")
    if not isinstance(value, dict):
        return control.number(value, place)
    control.keys(value, ("free",), place)
    guess = control.number(value.get("free"), place)
    if guess <= 0:
        raise place.refuse(f"a positive guess is wanted; got {guess:g}")
    return Free(guess)


def _path(outline: Outline, text: object, place: Place, along: Callable[[str], None]) -> Expression:
    """left - right of "left <= right", right - left of "left >= right": the expression that must not be positive."""
    if not isinstance(text, str) or text.count("<=") + text.count(">=") != 1:
        raise place.refuse(f'a bound such as "x <= 1" is wanted; got {text!r}')
    return outline.sides(text, "<=" if "<=" in text else ">=", place, along)
