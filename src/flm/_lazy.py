"""Packages whose names are imported on first use (PEP 562), so that a light module in them does not load a heavy one.

The names are those that the package imports for the type checker, under `if TYPE_CHECKING:`.
"""

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache


@cache
def homes(package: str) -> dict[str, str]:
    """The module of each name that a package imports for the type checker."""
    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package) if spec is not None else ""  # pyright: ignore
    blocks = [n for n in ast.parse(source).body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    imports = [n for block in blocks for n in block.body if isinstance(n, ast.ImportFrom)]
    return {alias.name: str(n.module) for n in imports for alias in n.names}


def on_first_use(package: str) -> Callable[[str], object]:
    """The `__getattr__` of such a package."""
    found = homes(package)

    def getattribute(name: str) -> object:
        if name not in found:
            from flm.wording import did_you_mean

            raise AttributeError(f"module {package!r} has no attribute {name!r}.{did_you_mean(name, found)}")
        if found[name] == package:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(found[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return getattribute
