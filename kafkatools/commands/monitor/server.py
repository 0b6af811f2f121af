"""The HTTP server of kt monitor --web and --prometheus, which answers from the Board and never queries the cluster.

--web serves `/` and `/view.json`, --prometheus serves `/metrics`; both may have the same address.
`core/net/http_server.py` bounds connections and requests, `http_requests.py` validates requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus

from kafkatools.commands.monitor.http_requests import TEXT, Content, Request, answer, parse_request, refusal
from kafkatools.commands.monitor.monitor_options import MonitorOptions
from kafkatools.core.errors import KafkaError
from kafkatools.core.net import http_server
from kafkatools.core.net.addresses import HostPort
from kafkatools.core.net.http_server import Refused
from kafkatools.core.package_files import package_text
from kafkatools.exit_status import CommandError
from kafkatools.output import json_line
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.page_data import page_data
from kafkatools.tools.monitor.prometheus import CONTENT_TYPE, metrics

Pages = dict[str, Callable[[dict[str, str]], Content]]
"""The function that returns the content of each path for a query."""


@contextmanager
def serving(board: Board, options: MonitorOptions) -> Iterator[list[str]]:
    """Serve --web and --prometheus within the context. Its value is a line about each address. Raises CommandError."""
    pages: dict[HostPort, Pages] = {}
    lines: list[tuple[str, HostPort, str]] = []
    if options.web is not None:
        pages.setdefault(options.web, {}).update(_web_pages(board, options))
        lines.append(("page", options.web, "/"))
    if options.prometheus is not None:
        metrics_routes = pages.setdefault(options.prometheus, {})
        metrics_routes["/metrics"] = lambda query: Content(CONTENT_TYPE, metrics(board).encode())
        lines.append(("metrics", options.prometheus, "/metrics"))
    with ExitStack() as stack:
        ports = {address: stack.enter_context(listening(address, routes)) for address, routes in pages.items()}
        yield [f"{name}: http://{HostPort(address.host, ports[address])}{path}" for name, address, path in lines]


def page(interval_ms: int) -> str:
    """Return the HTML page of --web, with style and script, which fetches /view.json every `interval_ms`.

    The script inserts texts of the cluster as text nodes only. The page works without colours, without a mouse and in
    both colour schemes. Updates can be paused (WCAG 2.2.2), and screen readers announce only the line with the health.
    """
    html, style, script = (package_text(__name__, f"page.{kind}") for kind in ("html", "css", "js"))
    return html.replace("@INTERVAL@", str(interval_ms)).replace("@STYLE@", style).replace("@SCRIPT@", script)


def _web_pages(board: Board, options: MonitorOptions) -> Pages:
    html = page(options.interval_ms).encode()
    return {
        "/": lambda query: Content("text/html; charset=utf-8", html),
        "/view.json": lambda query: Content(
            "application/json", json_line(page_data(board, query.get("topic", ""))).encode()
        ),
    }


@contextmanager
def listening(address: HostPort, pages: Pages) -> Iterator[int]:
    """Serve HTTP paths at an address within the context, whose value is the port. Raises CommandError."""

    def respond(head: bytes) -> http_server.Reply:
        request = parse_request(head, address.host)
        return http_server.Reply(_answer(request, pages), request.keeps_open)

    with ExitStack() as stack:
        try:
            port = stack.enter_context(http_server.listening(address, respond, refusal))
        except (OSError, KafkaError) as error:
            raise CommandError(f"Cannot listen on {address}: {http_server.reason_of(error)}") from None
        yield port


def _answer(request: Request, pages: Pages) -> bytes:
    is_head = request.method == "HEAD"
    page = pages.get(request.path)
    status = HTTPStatus.OK
    if page is None:
        status = HTTPStatus.NOT_FOUND
        content = Content(TEXT, f"Not found. The paths are {', '.join(sorted(pages))}.\n".encode())
    else:
        try:
            content = page(request.query)
        except Exception:  # noqa: BLE001 - the boundary of a thread: a page that fails must not end the others
            raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error", is_head=is_head) from None
    return answer(status, content, is_head=is_head, keeps_open=request.keeps_open)
