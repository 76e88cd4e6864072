"""Second derivatives in time as first derivatives of velocities: u_tt = f becomes u_t = v, v_t = f.

Polynomials that satisfy u_tt = f at the nodes of each slab amplify short waves from slab to slab (a wave equation loses a
digit and a half in each); with the velocity as an unknown of its own nothing grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache

from flm.language.arguments import Named, Names, Reference, Residual
from flm.pde.pieces.count import Ties, Trace
from flm.pde.pieces.fields import AnyResidual, FieldResidual
from flm.pde.pieces.setup import Setup
from flm.pde.pieces.stages import InSpace


def with_velocities(setup: Setup) -> Setup:
    """The setup with an unknown for the velocity of each unknown that has second derivatives in time, the last axis."""
    second = tuple(k for k, orders in enumerate(setup.orders) if orders[-1] > 1)
    if not second:
        return setup
    residuals = (*setup.equations, *(place.residual for place in setup.places))
    speeds = {k: len(setup.orders) + i for i, k in enumerate(second)}
    orders = [(*row[:-1], min(row[-1], 1)) for row in setup.orders]
    for k in second:  # across space a velocity has the derivatives that the problem asks of it
        asked = [a[:-1] for r in residuals for u, a in r.jets if u == k and a[-1]]
        orders.append((*(max(row[j] for row in asked) for j in range(len(setup.bounds) - 1)), 1))
    moved = lambda residual: _wrapped(residual, lambda inner: _moved(inner, tuple(speeds.items())))
    velocity = lambda k, v: _wrapped(setup.equations[0], lambda inner: _velocity(inner, k, v))
    return replace(
        setup,
        equations=(*map(moved, setup.equations), *(velocity(k, v) for k, v in speeds.items())),
        places=tuple(replace(place, residual=moved(place.residual)) for place in setup.places),
        orders=tuple(orders),
        ties=tuple(_more_ties(ties, orders, speeds.values(), j) for j, ties in enumerate(setup.ties)),
    )


def _more_ties(ties: Ties, orders: list[tuple[int, ...]], speeds: Iterable[int], axis: int) -> Ties:
    """What neighbors share across an axis, with the velocities."""
    return replace(ties, traces=(*ties.traces, *(Trace(v, order) for v in speeds for order in range(orders[v][axis]))))


def _wrapped(residual: AnyResidual | InSpace, change: Callable[[Residual], Residual]) -> AnyResidual:
    """A residual made from another, with the same unknown functions among the parameters."""
    assert not isinstance(residual, InSpace)
    return replace(residual, inner=change(residual.inner)) if isinstance(residual, FieldResidual) else change(residual)


@lru_cache(maxsize=64)
def _moved(residual: Residual, speeds: tuple[tuple[int, int], ...]) -> Residual:
    """A residual that asks for velocities instead of derivatives in time; made once, because it is compiled."""
    by_unknown = dict(speeds)

    def reference(old: Reference) -> Reference:
        if old.kind == "jet" and old.index >= len(residual.names.unknowns):  # a function among the parameters
            return old._replace(index=old.index + len(speeds))
        if old.kind != "jet" or old.index not in by_unknown or old.alpha[-1] == 0:
            return old
        return Reference("jet", by_unknown[old.index], (*old.alpha[:-1], old.alpha[-1] - 1))

    return replace(
        residual, references=tuple(map(reference, residual.references)), names=_extended(residual.names, len(speeds))
    )


@lru_cache(maxsize=64)
def _velocity(like: Residual, unknown: int, speed: int) -> Residual:
    """u_t - v."""
    names = _extended(like.names, speed + 1 - len(like.names.unknowns))
    return Residual.bind(
        Named(lambda slope, velocity: slope - velocity, (f"{names.unknowns[unknown]}_t", names.unknowns[speed])),
        names,
        "velocity",
    )


def _extended(names: Names, count: int) -> Names:
    return replace(names, unknowns=(*names.unknowns, *(f"velocity{i}" for i in range(count))))
