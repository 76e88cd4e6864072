"""What a control solver tells while it works, and what it remembers of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Monitor:
    """A record of a solve, passed on to the user's `progress`.

    Args:
        progress: A function of a dict, or False.
    """

    progress: bool | Callable[[dict[str, Any]], Any] = False
    history: dict[str, list] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self.started

    def record(self, stage: str, columns: int, cost: float, error: float) -> None:
        """Remember one level of a solve and show it."""
        entry = {
            "stage": stage,
            "columns": columns,
            "cost": float(cost),
            "error": float(error),
            "seconds": self.seconds,
        }
        for name, value in entry.items():
            self.history.setdefault(name, []).append(value)
        self.show(entry)

    def show(self, entry: dict[str, Any]) -> None:
        """Pass an entry on to the user."""
        if callable(self.progress):
            self.progress(entry)
