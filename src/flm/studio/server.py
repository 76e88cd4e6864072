"""The studio's server: one page, the requests of its script, who may make them, and the one piece of work at a time."""

from __future__ import annotations

import asyncio
import asyncio.subprocess as subprocess
import contextlib
import csv
import json
import math
import os
import secrets
import signal
import socket
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from flm.cli.output import EVENTS
from flm.files import write_atomic
from flm.studio.desk import SCRIPT, Desk
from flm.wording import InputError

MOST_BYTES = 20_000_000  # of a table
COLUMNS = 200  # of a table that can be chosen from
KEPT = 200  # events that the page may ask for
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-src 'self'; connect-src 'self'; img-src data:; form-action 'none'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
Answer = dict[str, object] | dict[str, list[str]]


class Job:
    """The work that is being done, or was done last."""

    def __init__(self, folder: Path, limit: float):
        self.folder, self.limit, self.number = folder, limit, 0
        self.state, self.what, self.error = "idle", "", ""
        self.sentence, self.reached = "", False  # what the command said of its answer; whether that is what was asked
        self.events: deque[dict[str, object]] = deque(maxlen=KEPT)
        self.process: subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    def record(self) -> dict[str, object]:
        """The state of the work, which the page asks for again and again."""
        told = ("state", "what", "error", "sentence", "reached", "number", "events")
        return {key: list(self.events) if key == "events" else getattr(self, key) for key in told}

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


class _Studio:
    """The answers to all requests, for one folder."""

    def __init__(self, folder: Path, token: str, port: int, limit: float):
        self.desk, self.token = Desk(folder), token
        self.hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]
        self.job = Job(self.desk.folder, limit)
        asked = (self.listing, self.text, self.state)
        told = (self.keep, self.check, self.solve, self.table, self.fit, self.cancel)
        routes = [Route("/", self.page), Route("/answer/{name}/{file}", self.answer)]
        routes += [Route(f"/api/{f.__name__}", _json(f), methods=["GET"]) for f in asked]
        routes += [Route(f"/api/{f.__name__}", _json(f), methods=["POST"]) for f in told]
        self.app = Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=self.guard)])

    async def guard(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        reason = self.refusal(request)
        response = await call_next(request) if reason is None else PlainTextResponse(f"flm studio: {reason}.\n", 403)
        response.headers.update(HEADERS)
        return response

    def refusal(self, request: Request) -> str | None:
        """Why a request is refused: another Host, another Origin, no token, or a body that is too long; None if it is not.

        The Host keeps out pages that point their own name at this machine, the Origin those that post from elsewhere,
        and the token other users of this machine.
        """
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return "the Host of a request must be this server"
        if any(origin != f"http://{hosts[0]}" for origin in request.headers.getlist("origin")):
            return "the Origin of a request must be this server"
        asked = request.query_params.getlist("token") + request.headers.getlist("x-token")
        if not any(secrets.compare_digest(one.encode(), self.token.encode()) for one in asked):
            return "the token of the address is missing or old: use the address that flm studio printed"
        length = request.headers.get("content-length", "0")
        if request.method == "POST" and not (length.isdigit() and int(length) <= MOST_BYTES):
            return f"a request must say its length, at most {MOST_BYTES:,} bytes"
        return None

    async def page(self, request: Request) -> Response:
        folder = resources.files("flm.studio")
        html, script = ((folder / name).read_text("utf-8") for name in ("studio.html", "studio.js"))
        return HTMLResponse(html.replace("/* SCRIPT */", script))

    async def answer(self, request: Request) -> Response:
        """A file of an answer."""
        name, file = request.path_params["name"], request.path_params["file"]
        if file == SCRIPT:
            return Response(self.desk.script(name), media_type="text/x-python")
        path = self.desk.answer(name, file)
        return Response("There is no such file.\n", 404) if path is None else FileResponse(path)

    async def listing(self, request: Request) -> Answer:
        return self.desk.listing()

    async def text(self, request: Request) -> Answer:
        return {"text": self.desk.text(request.query_params.get("kind", ""), request.query_params.get("name", ""))}

    async def state(self, request: Request) -> Answer:
        """How far the work is, and the files of its answer."""
        return self.job.record() | {"files": self.desk.answers(self.job.what) if self.job.state == "done" else []}

    async def keep(self, request: Request) -> Answer:
        """Store a text as it is typed."""
        asked = await request.json()
        return {"kept": self.desk.keep(asked.get("name"), asked.get("text")).name}

    async def check(self, request: Request) -> Answer:
        """What is wrong with a text."""
        asked = await request.json()
        return self.desk.check(str(asked.get("name", "problem")), str(asked.get("text", "")))

    async def solve(self, request: Request) -> Answer:
        """Solve a stored text."""
        asked = await request.json()
        path, tol = self.desk.path(asked.get("name")), asked.get("tol")
        if not isinstance(tol, float) or not (math.isfinite(tol) and tol > 0):
            raise InputError(f"`tol` must be a positive number; got {tol!r}.")
        return await self.start(path, "solve", f"--tol={tol!r}")

    async def table(self, request: Request) -> Answer:
        """Store a table and return the names of its columns."""
        path, content = self.desk.path(request.query_params.get("name")), await request.body()
        if path.suffix != ".csv" or len(content) > MOST_BYTES:
            raise InputError(f"a table must be a .csv file of at most {MOST_BYTES:,} bytes.")
        if content:
            write_atomic(path, content)
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
            return {"columns": next(csv.reader(lines), [])[:COLUMNS]}

    async def fit(self, request: Request) -> Answer:
        """Fit or impute a table that is in the folder."""
        asked = await request.json()
        verb, known = ("fit", ("target", "features", "time")) if asked.get("verb") == "fit" else ("impute", ("time",))
        options = [f"--{key}={asked[key]}" for key in known if asked.get(key)]
        return await self.start(self.desk.path(asked.get("name")), verb, *options)

    async def cancel(self, request: Request) -> Answer:
        await self.job.cancel()
        return self.job.record()

    async def start(self, path: Path, verb: str, *options: str) -> Answer:
        """Begin a command on a file of the folder."""
        return await self.job.start(path.name, [verb, path.name, *options, "--out", self.desk.out(path.name).name])


def _json(function: Callable[[Request], Awaitable[Answer]]) -> Callable[[Request], Awaitable[Response]]:
    """A handler that answers in JSON; a refusal becomes a sentence."""

    async def respond(request: Request) -> Response:
        try:
            return JSONResponse(await function(request))
        except (ValueError, OSError, AttributeError, KeyError) as error:
            return JSONResponse({"refused": str(error)}, 400)

    return respond


def serve(folder: Path, port: int, limit: float, ready: Callable[[str], object]) -> None:
    """Serve a folder on the loopback address until Ctrl-C; `ready` is called with the address."""
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        port, token = listening.getsockname()[1], secrets.token_urlsafe(24)
        studio = _Studio(folder, token, port, limit)
        ready(f"http://127.0.0.1:{port}/?token={token}")
        server = uvicorn.Server(uvicorn.Config(studio.app, log_level="warning", access_log=False, lifespan="off"))
        try:
            server.run(sockets=[listening])
        finally:
            if studio.job.process is not None and studio.job.process.returncode is None:
                end(studio.job.process)
