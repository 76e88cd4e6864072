"""Who may ask: a page of this very server, with the token of this very start."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CLOSED = "default-src 'none'; frame-src 'self'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; "
CLOSED += "script-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
HEADERS = [
    (b"content-security-policy", CLOSED.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """Refuses a request with another Host, another Origin, no token, or too long a body.

    The Host keeps out pages that point a name of their own at this machine, the Origin those that post from elsewhere, and the
    token other users of this machine.
    """

    def __init__(self, app: ASGIApp, token: str, port: int, most_bytes: int):
        self.app, self.token, self.most_bytes = app, token, most_bytes
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        if (reason := self.refusal(scope)) is not None:
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": f"flm studio: {reason}.\n".encode()})
            return

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        await self.app(scope, receive, dressed)

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is refused; None where it is not."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return "the Host of a request must be this server"
        if any(origin != f"http://{hosts[0]}" for origin in headers.get("origin", [])):
            return "the Origin of a request must be this server"
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", []) + headers.get("x-token", [])
        if not any(secrets.compare_digest(one.encode(), self.token.encode()) for one in asked):
            return "the token of the address is missing or old: use the address that flm studio printed"
        length = headers.get("content-length", ["0"])[0]
        if scope["method"] == "POST" and not (length.isdigit() and int(length) <= self.most_bytes):
            return f"a request must say its length, at most {self.most_bytes:,} bytes"
        return None
