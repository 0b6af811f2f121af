"""The HTTP server of --web and --prometheus: a thread that answers from the Board, and never asks the cluster.

What is served where: `/` and `/view.json` on the address of --web, `/metrics` on that of --prometheus; both may be the
same. On a loopback address a request has to name this machine as its host, so that no page of the Web can read along
by a name that it lets point here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from kafkatools.exit_status import CommandError

if TYPE_CHECKING:
    from kafkatools.commands.monitor.board import Board
    from kafkatools.commands.monitor.wanted import Wanted
    from kafkatools.core.net.addresses import HostPort

_TIMEOUT_S = 10


class Content(NamedTuple):
    """What a path answers."""

    type: str
    body: bytes


Pages = dict[str, Callable[[dict[str, str]], Content]]
"""What answers each path, given the query."""


@contextmanager
def serving(board: Board, wanted: Wanted) -> Iterator[list[str]]:
    """Listens while entered; gives a line about each address."""
    from kafkatools.core.net.addresses import HostPort

    pages: dict[HostPort, Pages] = {}
    lines: list[tuple[str, HostPort, str]] = []
    if wanted.web is not None:
        pages.setdefault(wanted.web, {}).update(_web_pages(board, wanted))
        lines.append(("page", wanted.web, "/"))
    if wanted.prometheus is not None:
        pages.setdefault(wanted.prometheus, {}).update(_metrics_pages(board))
        lines.append(("metrics", wanted.prometheus, "/metrics"))
    with ExitStack() as stack:
        ports = {address: stack.enter_context(_listening(address, found)) for address, found in pages.items()}
        yield [f"{name}: http://{HostPort(address.host, ports[address])}{path}" for name, address, path in lines]


def _web_pages(board: Board, wanted: Wanted) -> Pages:
    from kafkatools.commands.monitor.page import page
    from kafkatools.commands.monitor.page_data import page_data
    from kafkatools.output import json_line

    html = page(wanted.interval_ms).encode()
    return {
        "/": lambda query: Content("text/html; charset=utf-8", html),
        "/view.json": lambda query: Content(
            "application/json", json_line(page_data(board, query.get("topic", ""))).encode()
        ),
    }


def _metrics_pages(board: Board) -> Pages:
    from kafkatools.commands.monitor.prometheus import CONTENT_TYPE, metrics

    return {"/metrics": lambda query: Content(CONTENT_TYPE, metrics(board).encode())}


@contextmanager
def _listening(address: HostPort, pages: Pages) -> Iterator[int]:
    """Serves these paths while entered; gives the port. Raises CommandError."""
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.net.addresses import resolve

    try:
        found = resolve(address.host, address.port)[0]
        server = _server_type(found.family)(found.sockaddr[:2], _handler_type(pages, address))
    except (OSError, KafkaError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"cannot listen on {address}: {reason}") from None
    thread = threading.Thread(target=server.serve_forever, args=(0.2,), name="monitor-http", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _server_type(family: int) -> Any:
    """A server that does not look up its own name, and says nothing of readers who went away."""
    from http.server import ThreadingHTTPServer
    from socketserver import TCPServer

    class Server(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True

        def server_bind(self) -> None:
            TCPServer.server_bind(self)
            self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

        def handle_error(self, request: Any, client_address: Any) -> None:
            return None

    return Server


def _handler_type(pages: Pages, address: HostPort) -> Any:
    from http.server import BaseHTTPRequestHandler

    from kafkatools.commands.monitor.wanted import is_loopback

    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S
        server_version = "kt-monitor"
        sys_version = ""

        def do_GET(self) -> None:
            """The page of the path."""
            url = urlsplit(self.path)
            found = pages.get(url.path)
            if is_loopback(address.host) and not is_this_machine(self.headers.get("Host", "")):
                self._answer(403, Content(_TEXT, b"This address is for this machine.\n"))
            elif found is None:
                self._answer(404, Content(_TEXT, f"There is {', '.join(sorted(pages))}.\n".encode()))
            else:
                query = {name: values[-1] for name, values in parse_qs(url.query).items()}
                self._answer(200, found(query))

        do_HEAD = do_GET

        def _answer(self, status: int, content: Content) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content.type)
            self.send_header("Content-Length", str(len(content.body)))
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content.body)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    return Handler


_TEXT = "text/plain; charset=utf-8"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


def is_this_machine(host: str) -> bool:
    """Does the Host of a request name loopback, or nothing?"""
    from kafkatools.commands.monitor.wanted import is_loopback

    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return not name or is_loopback(name.strip("[]"))
