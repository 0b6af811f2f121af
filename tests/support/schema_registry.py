"""Schema registries for tests: the recorded answers of a real one, a recorder in front of a real one, and one that
answers what a test tells it. All are HTTP servers on a loopback address."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from support.waiting import PATIENCE_S

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "schema-registry"


class Request(NamedTuple):
    """A request: its path with the query, and its body as text."""

    method: str
    path: str
    body: str
    headers: dict[str, str]


class Answer(NamedTuple):
    """An answer; `body` is text."""

    status: int
    body: str
    kind: str = "application/json"
    headers: dict[str, str] = {}


Respond = Callable[[Request], Answer]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RegistryServer

    def _respond(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size).decode()
        request = Request(self.command, self.path, body, dict(self.headers.items()))
        self.server.requests.append(request)
        answer = self.server.respond(request)
        data = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _respond

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


class RegistryServer(ThreadingHTTPServer):
    """An HTTP server that answers by a function; `requests` are those so far, in their order."""

    daemon_threads = True

    def __init__(self, respond: Respond, path: str = "", port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.respond = respond
        self.requests: list[Request] = []
        self.url = f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing of a client that did not wait for its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serving(respond: Respond, path: str = "", port: int = 0) -> Iterator[RegistryServer]:
    """A running server; `path` is the path of its API, port 0 a free one."""
    server = RegistryServer(respond, path, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _key(method: str, path: str, body: str) -> str:
    return f"{method} {path} {body and json.dumps(json.loads(body), sort_keys=True)}"


@contextlib.contextmanager
def recorded(name: str) -> Iterator[RegistryServer]:
    """A server that replays a recording: equal requests get the recorded answers one after the other, the last one
    from then on. A request that was not recorded is answered with status 599."""
    recording = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    answers: dict[str, list[Answer]] = {}
    for one in recording["exchanges"]:
        answer = Answer(one["status"], one["answer"], one["type"])
        answers.setdefault(_key(one["method"], one["path"], one["request"]), []).append(answer)
    lock = threading.Lock()

    def respond(request: Request) -> Answer:
        with lock:
            found = answers.get(_key(request.method, request.path, request.body))
            if not found:
                return Answer(599, json.dumps({"message": f"not recorded: {request}"}))
            return found.pop(0) if len(found) > 1 else found[0]

    with serving(respond, recording["path"]) as server:
        yield server


@contextlib.contextmanager
def recording(url: str, name: str) -> Iterator[RegistryServer]:
    """A server in front of the real registry at `url`, which writes the exchanges to a golden file at the end."""
    parts, exchanges = urlsplit(url), []

    def respond(request: Request) -> Answer:
        connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_S)
        names = ("Accept", "Content-Type")
        headers = {header: request.headers[header] for header in names if header in request.headers}
        connection.request(request.method, request.path, request.body or None, headers)
        reply = connection.getresponse()
        answer = Answer(reply.status, reply.read().decode(), reply.headers.get_content_type())
        connection.close()
        exchanges.append(
            {
                "method": request.method, "path": request.path, "request": request.body, "status": answer.status,
                "type": answer.kind, "answer": answer.body,
            }
        )  # fmt: skip
        return answer

    with serving(respond, parts.path) as server:
        yield server
    content = {"path": parts.path, "exchanges": exchanges}
    (GOLDEN / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
