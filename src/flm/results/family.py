"""A family of solutions at values of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flm.domains import AbstractDomain, Box, Product
from flm.models.family import FamilyFLM
from flm.results.solution import Solution
from flm.wording import InputError


def member(family: Solution, values: Mapping[str, float]) -> Solution:
    """The family with some of its parameters, or all, at values: a function of the axes that are left."""
    model = family.model
    if not isinstance(model, FamilyFLM):
        raise InputError("`at` must be called on a family, which flm.Range makes; this solution is not one.")
    limits = dict(zip(family.axes, family.bounds.tolist(), strict=True))
    known = family.axes[-len(model.counts) :]
    for name, value in values.items():
        if name not in known or not limits[name][0] <= value <= limits[name][1]:
            ranges = ", ".join(f"{n} in [{limits[n][0]:.6g}, {limits[n][1]:.6g}]" for n in known)
            raise InputError(
                f"`at` must have parameters of the family within their ranges, {ranges}; got {name}={value!r}."
            )
    kept = [j for j, axis in enumerate(family.axes) if axis not in values]
    return replace(
        family,
        model=model.at(values),
        axes=tuple(family.axes[j] for j in kept),
        bounds=family.bounds[kept],
        domain=_without(family.domain, values),
        exact=None,
    )


def _without(domain: AbstractDomain | None, names: Mapping[str, float]) -> AbstractDomain | None:
    """The domain without some axes of its boxes."""
    if isinstance(domain, Product):
        left, right = _without(domain.left, names), _without(domain.right, names)
        return left * right if left is not None and right is not None else left or right
    if isinstance(domain, Box):
        kept = {axis: pair for axis, pair in zip(domain.axes, domain.intervals, strict=True) if axis not in names}
        return Box(**kept) if kept else None
    return domain
