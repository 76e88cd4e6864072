"""The studio's server: one page, and what its script asks for."""

from __future__ import annotations

import csv
import math
import secrets
import socket
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from flm.files import write_atomic
from flm.studio.desk import SCRIPT, Desk
from flm.studio.guard import Guard
from flm.studio.job import Job, end
from flm.wording import InputError

MOST_BYTES = 20_000_000  # of a table
Answer = dict[str, object] | dict[str, list[str]]
COLUMNS = 200  # of a table that can be chosen from


class Studio:
    """The answers to all requests, for one folder."""

    def __init__(self, folder: Path, token: str, port: int, limit: float):
        self.desk, self.token, self.port = Desk(folder), token, port
        self.job = Job(self.desk.folder, limit)
        routes = [
            Route("/", self.page),
            Route("/answer/{name}/{file}", self.answer),
            *(Route(f"/api/{f.__name__}", _json(f), methods=["GET"]) for f in (self.listing, self.text, self.state)),
            *(
                Route(f"/api/{f.__name__}", _json(f), methods=["POST"])
                for f in (self.keep, self.check, self.solve, self.table, self.fit, self.cancel)
            ),
        ]
        self.app = Guard(Starlette(routes=routes), token, port, MOST_BYTES)

    async def page(self, request: Request) -> Response:
        """The page itself."""
        folder = resources.files("flm.studio")
        text = (folder / "studio.html").read_text(encoding="utf-8")
        script = (folder / "studio.js").read_text(encoding="utf-8")
        return HTMLResponse(text.replace("/* SCRIPT */", script))

    async def answer(self, request: Request) -> Response:
        """A file of an answer."""
        name, file = request.path_params["name"], request.path_params["file"]
        if file == SCRIPT:
            return Response(self.desk.script(name), media_type="text/x-python")
        path = self.desk.answer(name, file)
        return Response("There is no such file.\n", 404) if path is None else FileResponse(path)

    async def listing(self, request: Request) -> Answer:
        """What can be opened."""
        return self.desk.listing()

    async def text(self, request: Request) -> Answer:
        """One text."""
        return {"text": self.desk.text(request.query_params.get("kind", ""), request.query_params.get("name", ""))}

    async def state(self, request: Request) -> Answer:
        """How far the work is, and the files of its answer."""
        done = self.job.state == "done"
        return self.job.record() | {"files": self.desk.answers(self.job.what) if done else []}

    async def keep(self, request: Request) -> Answer:
        """Keep a text as it is typed."""
        asked = await request.json()
        return {"kept": self.desk.keep(asked.get("name"), asked.get("text")).name}

    async def check(self, request: Request) -> Answer:
        """What is wrong with a text."""
        asked = await request.json()
        return self.desk.check(str(asked.get("name", "problem")), str(asked.get("text", "")))

    async def solve(self, request: Request) -> Answer:
        """Solve a text that is kept."""
        asked = await request.json()
        path, tol = self.desk.path(asked.get("name")), asked.get("tol")
        if not isinstance(tol, float) or not (math.isfinite(tol) and tol > 0):
            raise InputError(f"`tol` must be a positive number; got {tol!r}.")
        return await self._start(path, ["solve", path.name, "--tol", f"{tol!r}"])

    async def table(self, request: Request) -> Answer:
        """Take in a table; the names of its columns."""
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
        path, verb = self.desk.path(asked.get("name")), "fit" if asked.get("verb") == "fit" else "impute"
        words = {key: str(asked.get(key) or "") for key in ("target", "features", "time")}
        known = [f"--{key}={value}" for key, value in words.items() if value and (verb == "fit" or key == "time")]
        return await self._start(path, [verb, path.name, *known])

    async def cancel(self, request: Request) -> Answer:
        """End the work."""
        await self.job.cancel()
        return self.job.record()

    async def _start(self, path: Path, arguments: list[str]) -> Answer:
        if not await self.job.start(path.name, [*arguments, "--out", self.desk.out(path.name).name]):
            raise InputError(f"one piece of work at a time: {self.job.what} is being solved. Cancel it first.")
        return self.job.record()


def _json(function: Callable[[Request], Awaitable[Answer]]) -> Callable[[Request], Awaitable[Response]]:
    """The answer as JSON; what is refused as a sentence."""

    async def respond(request: Request) -> Response:
        try:
            return JSONResponse(await function(request))
        except (ValueError, OSError, AttributeError, KeyError) as error:
            return JSONResponse({"refused": str(error)}, 400)

    respond.__name__ = function.__name__
    return respond


def serve(folder: Path, port: int, limit: float, ready: Callable[[str], object]) -> None:
    """Serve a folder on the loopback address until Ctrl-C; `ready` is called with the address."""
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        port, token = listening.getsockname()[1], secrets.token_urlsafe(24)
        studio = Studio(folder, token, port, limit)
        ready(f"http://127.0.0.1:{port}/?token={token}")
        server = uvicorn.Server(uvicorn.Config(studio.app, log_level="warning", access_log=False, lifespan="off"))
        try:
            server.run(sockets=[listening])
        finally:
            if studio.job.process is not None and studio.job.process.returncode is None:
                end(studio.job.process)
