"""Serve the tools by the Model Context Protocol over HTTP, at a port of 127.0.0.1.

Rules: each request needs the token in its Authorization header, compared in constant time, so other users of the
machine have no access. The package refuses a request with an Origin, which a page in a browser sends, or with another
Host, so a page cannot reach the server by a name that resolves to 127.0.0.1.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from kafkatools.tools.mcp.calls import Calls
from kafkatools.tools.mcp.server import make_server

LOOPBACK = "127.0.0.1"
_PATH = "/mcp"
_STOP_S = 5
"""Seconds that open requests have when the server ends."""


def serve_http(calls: Calls, port: int, token: str, on_listening: Callable[[str], None]) -> None:
    """Serve the tools until a signal ends the process. Port 0: any free port. `on_listening` gets the URL when clients
    can connect. Raises OSError if the port cannot be used."""
    with socket.create_server((LOOPBACK, port)) as listener:
        port = listener.getsockname()[1]
        hosts = [f"{LOOPBACK}:{port}", f"localhost:{port}"]
        security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[])
        app = make_server(calls).streamable_http_app(streamable_http_path=_PATH, transport_security=security)
        config = uvicorn.Config(
            TokenCheck(app, token), log_config=None, access_log=False, server_header=False, lifespan="on",
            timeout_graceful_shutdown=_STOP_S,
        )  # fmt: skip
        on_listening(f"http://{LOOPBACK}:{port}{_PATH}")
        uvicorn.Server(config).run(sockets=[listener])


class TokenCheck:
    """Passes requests with the token to an application, and answers others with status 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or the start and end of the application."""
        if scope["type"] != "lifespan":
            sent = Headers(scope=scope).get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(sent, self._expected):
                refused = PlainTextResponse("Send the token that kt mcp printed: Authorization: Bearer TOKEN\n", 401)
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)
