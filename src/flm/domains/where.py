"""Where a condition holds, written as text: "x=0", "x=min", "t=2*pi", "x=0, y=1".

Grammar: comma-separated `axis=value`, value one of `min`, `max`, a number, `pi`, `number*pi`, `pi/number`, with a sign.
"""

import math
import re
from collections.abc import Sequence

from flm.wording import InputError, did_you_mean, number_text

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
    """The pinned axes of `where`, in the order of `axes`: {"x": 0.0, "t": "min"}; an error where it is no place of theirs."""
    pinned: dict[str, float | str] = {}
    for part in where.split(","):
        name, equals, text = (piece.strip() for piece in part.partition("="))
        value = parse_value(text)
        if not equals or value is None:
            raise InputError(
                f'`where` must be a place like "{axes[0]}=0", "{axes[0]}=min" or "boundary"; got {where!r}. '
                "Values are min, max, numbers, and multiples of pi."
            )
        if name not in axes:
            raise InputError(
                f"`where` must name an axis of the domain ({', '.join(axes)}); got {name!r} in {where!r}."
                + did_you_mean(name, axes)
            )
        if name in pinned:
            raise InputError(f"`where` must pin each axis once; got {name!r} twice in {where!r}.")
        pinned[name] = value
    return {axis: pinned[axis] for axis in axes if axis in pinned}


def place_text(fixed: dict[str, float]) -> str:
    """The canonical name of a place: "x=0, t=1"."""
    return ", ".join(f"{axis}={number_text(value)}" for axis, value in fixed.items())
