"""Conservation laws as text: their tables in a TOML file."""

from __future__ import annotations

from collections.abc import Callable

from flm.conservation.law import ConservationLaw
from flm.domains import Box
from flm.language.outline import Outline, among
from flm.pde.text import NOTES, read_domain, read_exact
from flm.wording import short

TABLES = ("domain", "parameters", "unknowns", "conservation", "exact")


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
    unknown = outline.names(outline.tree.get("unknowns", ["u"]), outline.at("", "unknowns"))
    if len(unknown) != 1 or unknown[0] in taken:
        raise outline.at("", "unknowns").refuse(f"one name that is not taken is wanted; got {', '.join(unknown)}")
    flux = outline.expression(table["flux"], outline.at("conservation", "flux"), among((*unknown, *fixed), "the flux"))
    if unknown[0] not in flux.names:
        raise outline.at("conservation", "flux").refuse(
            f"the flux must be a function of the unknown {unknown[0]}, such as {unknown[0]}**2 / 2; got {short(table['flux'])}"
        )
    initial = outline.expression(
        table["initial"], outline.at("conservation", "initial"), among((space, *fixed), "initial")
    )
    exact = read_exact(outline, unknown, (*domain.axes, *fixed)).get(unknown[0])
    start = initial.fix(fixed)
    return lambda: ConservationLaw(
        flux=flux.fix(fixed),
        domain=domain,
        initial=start if start.names else start.constant(),
        exact=None if exact is None else exact.fix(fixed),
    )
