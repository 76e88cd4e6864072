"""The flux of each unknown across the faces where a parameter jumps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flm.language.arguments import Residual, unique_jets
from flm.language.parameters import names_of
from flm.wording import InputError, InputTypeError

if TYPE_CHECKING:
    from flm.pde.problem import PDE


def bind_fluxes(flux: Any, problem: PDE) -> dict[int, Residual]:
    """The flux of each unknown by its number; an unknown is left out where its flux is the normal derivative."""
    _check_orders(problem)
    if flux is None:
        return {}
    unknowns = problem.unknowns
    if not isinstance(flux, Mapping):
        if len(unknowns) > 1:
            known = ", ".join(f"{u!r}: lambda a, {u}_n: ..." for u in unknowns)
            raise InputTypeError(f"`flux` must be a dict by unknown for a system, {{{known}}}; got {flux!r}.")
        flux = dict.fromkeys(unknowns, flux)
    names = names_of(problem.axes, unknowns, problem.parameters, normals=True)
    fluxes = {}
    for unknown, function in flux.items():
        if unknown not in unknowns:
            raise InputError(f"`flux` must be given by unknown ({', '.join(unknowns)}); got {unknown!r}.")
        k = unknowns.index(unknown)
        fluxes[k] = problem.bind(function, names, f"`flux` of {unknown}")
        if not any(index == k for index, _ in fluxes[k].jets):
            raise InputError(f"`flux` of {unknown} must ask for {unknown} or {unknown}_n; got a function of neither.")
    if not problem.jumping:
        raise InputError("`flux` must come with a parameter that jumps, flm.Piecewise; got numbers only. Leave it out.")
    return fluxes


def _check_orders(problem: PDE) -> None:
    """Refuse jumps in equations of higher order, where more than a value and a flux is continuous."""
    across = {axis for jump in problem.jumping.values() for axis in jump.axes}
    for k, alpha in unique_jets(block.residual for block in problem.equations):
        for axis, order in zip(problem.axes, alpha, strict=True):
            if order > 2 and axis in across:
                raise InputError(
                    f"`equation` must have at most second derivatives along {axis}, across which a parameter jumps; got "
                    f"{problem.unknowns[k]} differentiated {order} times."
                )
