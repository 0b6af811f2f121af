"""A token endpoint on a loopback port that keeps the requests, and assertions in them."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl


class Request(NamedTuple):
    """The path, the headers and the body of a request."""

    path: str
    headers: dict[str, str]
    body: str

    @property
    def fields(self) -> dict[str, str]:
        """The decoded fields of the body."""
        return dict(parse_qsl(self.body, strict_parsing=True))


class TokenEndpoint:
    """A running endpoint: `answers` are given once each, then those of `always`."""

    def __init__(self, always: Callable[[], tuple[int, Any]] | None = None) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.requests: list[Request] = []
        self._always = always
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint._answer(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/oauth/token?tenant=1"

    def _answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
        self.requests.append(Request(handler.path, dict(handler.headers), body))
        if self.answers or self._always is None:
            status, answer = self.answers.pop(0)
        else:
            status, answer = self._always()
        handler.send_response(status)
        handler.send_header("Location", "/elsewhere")
        handler.end_headers()
        handler.wfile.write(json.dumps(answer).encode())

    def __enter__(self) -> TokenEndpoint:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def parts_of(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """The header, the claims and the signature of a JSON Web Token."""
    header, claims, signature = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split("."))
    return json.loads(header), json.loads(claims), signature
