"""The `flm` command: parse, call, print.

`run` has the list of commands, which are in `begin`, `solve`, `sweep`, `data` and `study`; `output` prints, `tables` reads
tables.

Exit codes: 0 done, 1 a run that did not reach what was asked for (or was interrupted), 2 bad input.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    from flm.cli.run import run

    raise SystemExit(run(sys.argv[1:] if arguments is None else arguments))
