"""Conservation laws as text: their tables in a TOML file."""

from __future__ import annotations

from collections.abc import Callable

from flm.conservation.law import ConservationLaw
from flm.domains import Box
from flm.language.outline import Outline, among
from flm.pde.text import NOTES, read_domain, read_exact

TABLES = ("domain", "parameters", "conservation", "exact")


def read_conservation(outline: Outline) -> Callable[[], ConservationLaw]:
    """Check the tables of a conservation law, and return a function that builds it."""
    outline.keys(outline.tree, (*TABLES, *NOTES), outline.place)
    table = outline.table("conservation", required=True)
    outline.keys(table, ("flux", "initial"), outline.at("conservation"))
    for key in ("flux", "initial"):
        if key not in table:
            raise outline.at("conservation").refuse(f"{key} is missing")
    fixed = outline.plain_parameters("a conservation law")
    domain = read_domain(outline)
    if not isinstance(domain, Box) or len(domain.axes) != 2 or domain.axes[1] != "t":
        raise outline.at("domain").refuse("a conservation law needs two axes, space first and then t")
    space = domain.axes[0]
    taken = {*domain.axes, *fixed}
    flux = outline.expression(table["flux"], outline.at("conservation", "flux"), lambda name: None)
    unknown = [n for n in flux.names if n not in taken]
    if len(unknown) != 1 or set(flux.names) & set(domain.axes):
        raise outline.at("conservation", "flux").refuse("the flux must be a function of one unknown, such as u**2 / 2")
    initial = outline.expression(
        table["initial"], outline.at("conservation", "initial"), among((space, *fixed), "initial")
    )
    exact = read_exact(outline, tuple(unknown), (*domain.axes, *fixed)).get(unknown[0])
    start = initial.fix(fixed)
    return lambda: ConservationLaw(
        flux=flux.fix(fixed),
        domain=domain,
        initial=start if start.names else start.constant(),
        exact=None if exact is None else exact.fix(fixed),
    )
