"""One piece of work at a time, in its own process, which can be ended."""

from __future__ import annotations

import asyncio
import asyncio.subprocess as subprocess
import contextlib
import json
import os
import signal
import sys
from collections import deque
from pathlib import Path

from flm.cli.output import EVENTS
from flm.wording import InputError

KEPT = 200  # events that the page may ask for


class Job:
    """The work that is being done, or was done last."""

    def __init__(self, folder: Path, limit: float):
        self.folder, self.limit = folder, limit
        self.state, self.what, self.error, self.number = "idle", "", "", 0
        self.sentence, self.reached = (
            "",
            False,
        )  # what the command said of its answer, and whether that is what was asked
        self.events: deque[dict[str, object]] = deque(maxlen=KEPT)
        self.process: subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    def record(self) -> dict[str, object]:
        """The state of the work, which the page asks for again and again."""
        words = {"state": self.state, "what": self.what, "error": self.error, "sentence": self.sentence}
        return {**words, "reached": self.reached, "number": self.number, "events": list(self.events)}

    async def start(self, what: str, arguments: list[str]) -> dict[str, object]:
        """Begin the work, unless other work is being done."""
        if self.state == "running":
            raise InputError(f"one piece of work at a time: {self.what} is being solved. Cancel it first.")
        self.state, self.what, self.error, self.sentence, self.reached = "running", what, "", "", False
        self.number += 1
        self.events.clear()
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "flm", *arguments, cwd=self.folder, env=os.environ | {EVENTS: "1"}, limit=2**20,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._task = asyncio.create_task(self._watch(self.process))
        return self.record()

    async def _watch(self, process: subprocess.Process) -> None:
        said = asyncio.create_task(process.stderr.read())  # type: ignore[union-attr]

        async def listen() -> None:
            async for line in process.stdout:  # type: ignore[union-attr]
                words = line.decode(errors="replace").rstrip()
                if words.startswith("{"):
                    self.events.append(json.loads(words))
                else:  # the first line that a command prints; the others are on the page
                    self.sentence = self.sentence or words
            await process.wait()

        try:
            await asyncio.wait_for(listen(), self.limit)
        except TimeoutError:
            self.error = f"stopped after {self.limit:g} seconds, the limit of flm studio; --limit raises it."
            end(process)
            await process.wait()
        words = (await said).decode(errors="replace").strip().splitlines()
        if self.state == "running":
            good = process.returncode in (0, 1) and not self.error
            self.state, self.reached = "done" if good else "failed", process.returncode == 0
            self.error = self.error or ("" if good else (words or ["the work ended without a word."])[-1])

    async def cancel(self) -> None:
        """End the work, and every process that it started."""
        if self.state == "running" and self.process is not None:
            self.state = "canceled"
            end(self.process)
            await self.process.wait()


def end(process: subprocess.Process) -> None:
    """End a process at once, with those that it started where the system knows groups of them."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
