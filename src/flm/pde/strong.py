"""Problems of any kind as equations that hold at points."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from flm.pde.problem import PDE
from flm.wording import InputError, InputTypeError


@runtime_checkable
class HasStrongForm(Protocol):
    """A problem of another kind that can be written as equations which hold at points."""

    def strong(self) -> PDE:
        """Those equations, with their conditions."""
        ...


def strong_form(problem: PDE | HasStrongForm) -> PDE:
    """The problem as equations that hold at points; `train` minimizes the squares of their residuals."""
    if isinstance(problem, PDE):
        if problem.jumping:
            raise InputError(
                f"`parameters` must not jump for this method; got flm.Piecewise for {next(iter(problem.jumping))!r}. "
                "Use flm.solve, which keeps the flux continuous."
            )
        if problem.has_ranges:
            raise InputError("`parameters` must be numbers for this method; got flm.Range. Use flm.solve.")
        return problem
    if isinstance(problem, HasStrongForm):
        return problem.strong()
    raise InputTypeError(
        f"`problem` must be a flm.PDE or offer its strong residual; got {type(problem).__name__}. Use flm.solve."
    )
