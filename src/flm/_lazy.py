"""Packages whose names are imported on first use (PEP 562), so that a light module in them does not load a heavy one."""

import importlib
import sys
from collections.abc import Callable


def on_first_use(package: str, **modules: tuple[str, ...]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose public names live in these modules of it."""
    homes = {name: module for module, names in modules.items() for name in names}

    def getattribute(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return getattribute
