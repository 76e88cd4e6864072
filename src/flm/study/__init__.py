"""Many runs: a specification, a store that survives anything, execution on all cores, and honest selection.

    spec = flm.study.read_spec("heat.toml")                         # problems × models × sizes × optimizers × seeds
    with flm.study.Store("heat.sqlite", write=True) as store:
        flm.study.run_study(spec, store, workers=flm.study.local(2))
        rows = flm.study.read_rows(store)
    chosen = flm.study.choose(spec, rows, spec.groups[0])

Data walks from `spec` (what to run) through `execution` (which sends `runs` to `workers` and keeps them in the `store`) to
`results` (tables of scores), `statistics` and `selection` (which configuration, and why). `cost` says how long it will take.
Names are imported on first use: a worker needs few of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flm.study.cost import estimate as estimate
    from flm.study.execution import execute as execute
    from flm.study.results import choose as choose
    from flm.study.results import read_rows as read_rows
    from flm.study.results import run_study as run_study
    from flm.study.results import status as status
    from flm.study.selection import select as select
    from flm.study.spec import read_spec as read_spec
    from flm.study.store import Store as Store
    from flm.study.workers import dask as dask
    from flm.study.workers import local as local

_HOMES = {
    "Store": "store",
    "choose": "results",
    "dask": "workers",
    "estimate": "cost",
    "execute": "execution",
    "local": "workers",
    "read_rows": "results",
    "read_spec": "spec",
    "run_study": "results",
    "select": "selection",
    "status": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'flm.study' has no attribute {name!r}")
    return getattr(importlib.import_module(f"flm.study.{_HOMES[name]}"), name)
