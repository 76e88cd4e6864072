"""Velocities as unknowns of their own, u_t = v and v_t = f, for slabs over a line.

Polynomials that satisfy u_tt = f at the nodes of each slab amplify short waves from slab to slab (a wave equation loses a
digit and a half in each). With the velocity as an unknown nothing grows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from flm.language.arguments import Named, Names, Reference, Residual
from flm.pde.pieces.count import Trace
from flm.pde.pieces.fields import AnyResidual, FieldResidual, InSpace
from flm.pde.pieces.setup import Setup


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
    more = lambda axis: (Trace(v, order) for v in speeds.values() for order in range(orders[v][axis]))
    return replace(
        setup,
        equations=(*map(moved, setup.equations), *(velocity(k, v) for k, v in speeds.items())),
        places=tuple(replace(place, residual=moved(place.residual)) for place in setup.places),
        orders=tuple(orders),
        ties=tuple(replace(ties, traces=(*ties.traces, *more(j))) for j, ties in enumerate(setup.ties)),
    )


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

    names = _extended(residual.names, len(speeds))
    return replace(residual, references=tuple(map(reference, residual.references)), names=names)


@lru_cache(maxsize=64)
def _velocity(like: Residual, unknown: int, speed: int) -> Residual:
    """u_t - v."""
    names = _extended(like.names, speed + 1 - len(like.names.unknowns))
    arguments = (f"{names.unknowns[unknown]}_t", names.unknowns[speed])
    return Residual.bind(Named(lambda slope, velocity: slope - velocity, arguments), names, "velocity")


def _extended(names: Names, count: int) -> Names:
    return replace(names, unknowns=(*names.unknowns, *(f"velocity{i}" for i in range(count))))
