"""The sentences that users read: checks of arguments, near misses of names, values as a message shows them."""

import difflib
from collections.abc import Iterable
from numbers import Integral
from typing import Any


def check_count(name: str, value: Any, least: int = 0) -> int:
    """That argument as a number of things, refused unless it is an integer of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"`{name}` must be an integer of at least {least}; got {value!r}.")
    return int(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ " Did you mean 'x'?" when a known name is close to `name`, else nothing."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1) or [k for k in known if k.lower() == name.lower()]
    return f" Did you mean {close[0]!r}?" if close else ""


def short(value: object) -> str:
    """`value` as an error shows it: one line of at most sixty characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "…"


def number_text(value: float) -> str:
    """`value` as one would write it: 0, 1, 0.5, 1e-06; twelve digits."""
    return f"{value:.12g}" if value else "0"
