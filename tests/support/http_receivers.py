"""An HTTP server on loopback that keeps what is posted to it, as a webhook or a collector does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Posted(NamedTuple):
    """A request: its path, its headers in lower case, its body."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers POSTs with `statuses` in their order, then with 200, and keeps them all. `headers`: of the answers."""

    def __init__(self, statuses: Sequence[int] = (), headers: dict[str, str] | None = None) -> None:
        self.posted: list[Posted] = []
        self._statuses = list(statuses)
        self._headers = headers or {}
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                status = receiver.take(Posted(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(status)
                for name, value in receiver._headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, posted: Posted) -> int:
        """Keep a request and return the status of its answer."""
        with self._lock:
            self.posted.append(posted)
            return self._statuses.pop(0) if self._statuses else 200


@contextlib.contextmanager
def receiving(statuses: Sequence[int] = (), headers: dict[str, str] | None = None) -> Iterator[Receiver]:
    """A Receiver that runs within the context."""
    receiver = Receiver(statuses, headers)
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()
