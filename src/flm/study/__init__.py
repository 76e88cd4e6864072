"""Many runs: a specification, a store that no kill damages, execution on all cores, and statistical selection.

    spec = flm.study.read_spec("heat.toml")                         # problems × models × sizes × optimizers × seeds
    with flm.study.Store("heat.sqlite", write=True) as store:
        flm.study.run_study(spec, store, workers=flm.study.local(2))
        rows = flm.study.read_rows(store)
    chosen = flm.study.choose(spec, rows, spec.groups[0])

Data walks from `spec` (what to run) through `execution` (which sends `runs` to workers and keeps them in the `store`) to
`results` (tables of scores, the cost of a study) and `selection` (which configuration, and why).
Names are imported on first use: a worker needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flm._lazy import on_first_use

if TYPE_CHECKING:
    from flm.study.execution import dask as dask
    from flm.study.execution import execute as execute
    from flm.study.execution import local as local
    from flm.study.results import choose as choose
    from flm.study.results import read_rows as read_rows
    from flm.study.results import run_study as run_study
    from flm.study.selection import select as select
    from flm.study.spec import read_spec as read_spec
    from flm.study.store import Store as Store

__getattr__ = on_first_use(__name__)
