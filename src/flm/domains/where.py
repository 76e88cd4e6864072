"""Where a condition holds, written as text: "x=0", "x=min", "t=2*pi", "x=0, y=1".

Grammar: comma-separated `axis=value`, value one of `min`, `max`, a number, `pi`, `number*pi`, `pi/number`, with a sign.
"""

import difflib
import math
import re
from collections.abc import Sequence

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_VALUE = re.compile(rf"^([+-]?)(?:({_NUMBER})|(?:({_NUMBER})\*)?pi(?:/({_NUMBER}))?)$")


def parse_value(text: str) -> float | str | None:
    """The number that `text` spells, "min" or "max", or None when it spells neither."""
    text = text.replace(" ", "")
    if text in ("min", "max"):
        return text
    match = _VALUE.match(text)
    if match is None:
        return None
    sign, number, factor, divisor = match.groups()
    value = float(number) if number is not None else float(factor or 1) * math.pi / float(divisor or 1)
    return -value if sign == "-" else value


def parse_where(where: str, axes: Sequence[str]) -> dict[str, float | str]:
    """The pinned axes of `where`, in the order of `axes`: {"x": 0.0, "t": "min"}.

    Raises:
        ValueError: `where` is not of the form above, or names an axis that is not in `axes`.
    """
    pinned: dict[str, float | str] = {}
    for part in where.split(","):
        name, equals, text = (piece.strip() for piece in part.partition("="))
        value = parse_value(text)
        if not equals or value is None:
            raise ValueError(
                f'`where` must be a place like "{axes[0]}=0", "{axes[0]}=min" or "boundary"; got {where!r}. '
                "Values are min, max, numbers, and multiples of pi."
            )
        if name not in axes:
            raise ValueError(
                f"`where` must name an axis of the domain ({', '.join(axes)}); got {name!r} in {where!r}."
                + did_you_mean(name, axes)
            )
        if name in pinned:
            raise ValueError(f"`where` must pin each axis once; got {name!r} twice in {where!r}.")
        pinned[name] = value
    return {axis: pinned[axis] for axis in axes if axis in pinned}


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """ " Did you mean 'x'?" when a known name is close to `name`, else nothing."""
    close = difflib.get_close_matches(name, known, n=1) or [k for k in known if k.lower() == name.lower()]
    return f" Did you mean {close[0]!r}?" if close else ""


def short(value: object) -> str:
    """`value` as an error shows it: one line of at most sixty characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "…"


def number_text(value: float) -> str:
    """`value` as one would write it: 0, 1, 0.5, 1e-06; twelve digits."""
    return f"{value:.12g}" if value else "0"


def place_text(fixed: dict[str, float]) -> str:
    """The canonical name of a place: "x=0, t=1"."""
    return ", ".join(f"{axis}={number_text(value)}" for axis, value in fixed.items())
