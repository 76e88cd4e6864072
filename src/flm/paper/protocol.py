"""The paper's training protocol (`protocol.toml`) as specifications of studies, and the other ready studies in `protocols/`.

That file and docs/paper.md say what the paper states and what it leaves open.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

from flm.paper.printed import PARAMETERS, PDE_ERRORS
from flm.study.spec import Spec, SpecError, parse_spec, read_spec
from flm.wording import did_you_mean

_FOLDER = resources.files("flm.paper")
_COMMON = _FOLDER.joinpath("protocol.toml").read_text(encoding="utf-8")
POINTS: dict[str, int] = tomllib.loads(_COMMON)["training"]["points"]  # of each kind, left open by the paper
FIGURE = "n_versus_mse"
FIGURE_SIZES = (4, 9, 16, 25, 36, 49, 64)


def protocol_names() -> list[str]:
    """The specifications of studies that come with the package."""
    others = (p.name.removesuffix(".toml") for p in _FOLDER.joinpath("protocols").iterdir())
    return sorted([*PDE_ERRORS, FIGURE, *others])


def read_protocol(name: str) -> Spec:
    """A ready protocol by its name, even if there is a file of that name."""
    known = protocol_names()
    if name not in known:
        near = did_you_mean(name, known)
        raise SpecError(f"`SPEC` must be a TOML file or one of {', '.join(known)}; got {name!r}.{near}")
    if name in PDE_ERRORS:
        models = {model: PARAMETERS[model] for model in PDE_ERRORS[name]}
        text = _text(f"{name}: the paper's protocol", [name], _COMMON, models)
    elif name == FIGURE:
        # The first rate is PyTorch's default, named in the figure's caption; there are no additional epochs.
        training, _, rest = _COMMON.partition("[final]")
        first = "[[optimizers]]" + rest.split("[[optimizers]]")[1]
        text = _text("N against MSE: the paper's figure", PDE_ERRORS, training + first, {"flm": FIGURE_SIZES})
    else:
        text = _FOLDER.joinpath("protocols", f"{name}.toml").read_text(encoding="utf-8")
    return parse_spec(text, file=Path(f"{name}.toml"))


def _text(title: str, problems: Iterable[str], common: str, models: Mapping[str, Iterable[int]]) -> str:
    tables = "".join(f'\n[[models]]\nname = "{name}"\nsizes = {list(sizes)}\n' for name, sizes in models.items())
    named = ", ".join(f'"{problem}"' for problem in problems)
    return f'title = "{title}"\nproblems = [{named}]\n{common.rstrip()}\n{tables}'


def find_spec(name: str) -> Spec:
    """The study of a TOML file, or the ready protocol of that name."""
    file = Path(name)
    if file.suffix == ".toml" or (file.is_file() and name not in protocol_names()):
        return read_spec(file)
    return read_protocol(name)
