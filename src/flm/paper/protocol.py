"""The paper's training protocols, ready specifications of studies in `protocols/`: what it says, and what it leaves open.

Said: 10,000 epochs of Adam to a training loss of 1e-4 for the selection, 30,000 additional epochs to 1e-8 for the chosen
configuration, 10 seeds, the sizes of the appendix's table of parameters, losses averaged over random initial, boundary
and interior points.

Left open, chosen there (docs/paper.md): how many points, which rates were tried, and from what the additional epochs start.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from flm.study.spec import Spec, SpecError, parse_spec, read_spec
from flm.wording import did_you_mean

POINTS = {"equation": 1000, "initial": 200, "boundary": 200}  # of each kind, left open by the paper


def protocol_names() -> list[str]:
    """The specifications of studies that come with the package."""
    return sorted(p.name.removesuffix(".toml") for p in resources.files("flm.paper").joinpath("protocols").iterdir())


def read_protocol(name: str) -> Spec:
    """A ready protocol by its name, whatever files there are."""
    ready = resources.files("flm.paper").joinpath("protocols", f"{name}.toml")
    if not ready.is_file():
        known = protocol_names()
        near = did_you_mean(name, known)
        raise SpecError(f"`SPEC` must be a TOML file or one of {', '.join(known)}; got {name!r}.{near}")
    return parse_spec(ready.read_text(encoding="utf-8"), file=Path(f"{name}.toml"))


def find_spec(name: str) -> Spec:
    """The study of a TOML file, or the ready protocol of that name."""
    file = Path(name)
    if file.suffix == ".toml" or (file.is_file() and name not in protocol_names()):
        return read_spec(file)
    return read_protocol(name)
