"""What the process of a job does: a command of flm whose events are lines of JSON on stdout, beside what it prints."""

from __future__ import annotations

import json
import math
import sys

from flm.cli.output import LISTENER
from flm.cli.run import run
from flm.results import Progress


def tell(event: Progress) -> None:
    """One step, as a line."""
    numbers = {"estimate": event.error_estimate, "residual": event.estimate, "share": event.share}
    known = {name: float(value) for name, value in numbers.items() if math.isfinite(value)}
    print(json.dumps({"words": event.words, "columns": event.columns, "seconds": event.seconds} | known), flush=True)


if __name__ == "__main__":
    LISTENER.set(tell)
    raise SystemExit(run(sys.argv[1:]))
