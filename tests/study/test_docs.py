"""The specification that docs/studies.md shows; its Python runs with that of the other pages."""

import re
from pathlib import Path

from flm.study.spec import parse_spec

DOCUMENT = Path(__file__).parents[2] / "docs" / "studies.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


def test_the_specification_is_valid():
    (text,) = blocks("toml")
    assert parse_spec(text, file=Path("heat.toml")).num_runs == 2 * 5 * 10
