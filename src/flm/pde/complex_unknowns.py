"""Complex unknowns: each is two real ones, `h_re` and `h_im`, and each complex equation is two real equations.

Functions are written with the complex name, `lambda h, h_t, h_xx: 1j * h_t + 0.5 * h_xx + abs(h) ** 2 * h`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from flm.language.arguments import Named, argument_names, as_named
from flm.pde.conditions import Condition, Data, Periodic
from flm.wording import InputError

PARTS = ("re", "im")


@dataclass(frozen=True)
class ComplexUnknowns:
    """Which unknowns of a problem are complex."""

    unknowns: tuple[str, ...]  # all of them, as the user named them
    names: tuple[str, ...]  # those that are complex

    def __post_init__(self) -> None:
        strange = [name for name in self.names if name not in self.unknowns]
        if strange:
            raise InputError(
                f"`complex_unknowns` must be among the unknowns {', '.join(self.unknowns)}; got {strange[0]!r}."
            )

    def real_names(self) -> tuple[str, ...]:
        """The real unknowns, in order."""
        return tuple(part for u in self.unknowns for part in (self._pair(u) or (u,)))

    def _pair(self, name: str) -> tuple[str, str] | None:
        """The two real names that stand for an unknown or a derivative of it; None for other names."""
        for unknown in self.names:
            if name == unknown or (name.startswith(f"{unknown}_") and name not in self.unknowns):
                return tuple(f"{unknown}_{part}{name[len(unknown) :]}" for part in PARTS)  # type: ignore[return-value]
        return None

    def split(self, function: Any, label: str) -> list[Any]:
        """A residual as its real and imaginary part, or itself where it is real and uses no complex unknown."""
        if not self.names:
            return [function]
        written = argument_names(function, label)
        call = function.function if isinstance(function, Named) else function
        pairs = [self._pair(name) for name in written]
        names = tuple(dict.fromkeys(n for name, pair in zip(written, pairs, strict=True) for n in (pair or (name,))))

        def whole(*values: Any) -> Any:
            at = dict(zip(names, values, strict=True))
            return call(*(at[p[0]] + 1j * at[p[1]] if p else at[n] for n, p in zip(written, pairs, strict=True)))

        return _parts(whole, names) if _is_complex(whole, len(names)) else [Named(whole, names)]

    def conditions(self, given: Iterable[Any]) -> list[Any]:
        """The given conditions, rewritten for the real unknowns."""
        out: list[Any] = []
        for i, condition in enumerate(given):
            label = f"`conditions[{i}]`"
            if isinstance(condition, Condition):
                out += [replace(condition, residual=part) for part in self.split(condition.residual, label)]
            elif isinstance(condition, Periodic) and condition.unknown in self.names:
                out += [Periodic(condition.axis, name) for name in self._pair(condition.unknown) or ()]
            elif isinstance(condition, Data) and condition.observe is not None:
                out.append(replace(condition, observe=self.split(condition.observe, label)[0]))
            else:
                out.append(condition)
        return out

    def exact(self, by_name: dict[str, Any]) -> dict[str, Any]:
        """The exact solution of each real unknown."""
        out: dict[str, Any] = {}
        for name, value in by_name.items():
            if name in self.names and not isinstance(value, int | float):
                named = as_named(value, "`exact`")
                out |= dict(zip(self._pair(name) or (), _parts(named.function, named.names), strict=True))
            else:
                out |= dict(zip(self._pair(name) or (name,), (value, 0.0), strict=False))
        return out


def _parts(function: Callable[..., Any], names: tuple[str, ...]) -> list[Named]:
    part = lambda take: Named(lambda *values: take(jnp.asarray(function(*values))), names)
    return [part(jnp.real), part(jnp.imag)]


def _is_complex(function: Callable[..., Any], count: int) -> bool:
    try:
        dtype = jax.eval_shape(function, *(jnp.full(3, 0.5),) * count).dtype
    except (TypeError, ValueError, jax.errors.JAXTypeError, AttributeError):
        return True
    return jnp.issubdtype(dtype, jnp.complexfloating)
