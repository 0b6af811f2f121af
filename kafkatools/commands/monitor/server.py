"""The HTTP server of kt monitor --web and --prometheus. Figures come from the Board, without a query of the cluster,
except for details of one topic, group or broker.

--web serves `/`, the data of the page (`data_routes.py`) and, with --role read, `/messages.json`; --prometheus serves
`/metrics`. Both may have the same address. Records are read by a process of its own for each request (`messages.py`).
`core/net/http_server.py` bounds connections and requests, `http_requests.py` validates requests, `routes.py` checks
the token that a path needs.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kafkatools.commands.monitor.access import Access, Role
from kafkatools.commands.monitor.data_routes import data_routes
from kafkatools.commands.monitor.http_requests import Content, page_policy, parse_request, refusal
from kafkatools.commands.monitor.messages import messages_route
from kafkatools.commands.monitor.monitor_options import MonitorOptions
from kafkatools.commands.monitor.routes import Route, Site, Visit, respond
from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaError
from kafkatools.core.net import http_server
from kafkatools.core.net.addresses import HostPort
from kafkatools.core.package_files import package_text
from kafkatools.exit_status import CommandError
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.details import Details
from kafkatools.tools.monitor.messages.request import Source

_SCRIPT_PARTS = ("words", "tables", "charts", "sections", "details", "records")
"""The parts of the page's script, `page.*.js`, which page.js includes by their names in capitals."""


@contextmanager
def serving(
    board: Board, options: MonitorOptions, access: Access, details: Details, source: Source | None, clock: Clock
) -> Iterator[list[str]]:
    """Serve --web and --prometheus within the context, with records if there is a `source`. Its value is a line about
    each address. Raises CommandError."""
    sites: dict[HostPort, dict[str, Route]] = {}
    if options.web is not None:
        routes = sites.setdefault(options.web, _web_routes(board, options, details))
        if source is not None:
            routes["/messages.json"] = messages_route(source, options.scope().takes_topic, clock)
    if options.prometheus is not None:
        sites.setdefault(options.prometheus, {})["/metrics"] = _metrics_route(board, options, access)
    with ExitStack() as stack:
        ports = {
            address: stack.enter_context(listening(address, Site(routes, access))) for address, routes in sites.items()
        }
        yield list(_lines(options, access, ports))


def _metrics_route(board: Board, options: MonitorOptions, access: Access) -> Route:
    from kafkatools.tools.monitor.metrics.exposition import MetricsPage

    try:
        page = MetricsPage(board, options.families)
    except ImportError as error:
        from kafkatools.core.install_command import install_command

        raise CommandError(
            f"--prometheus needs the Python package {error.name}: {install_command('prometheus')}"
        ) from None

    def metrics(visit: Visit) -> Content:
        return Content(*page.answer(visit.accept))

    return Route(metrics, None if access.has_open_metrics else Role.VIEW)


def _lines(options: MonitorOptions, access: Access, ports: dict[HostPort, int]) -> Iterator[str]:
    names = {Role.VIEW: "page", Role.READ: "records"}
    for role, token in sorted(access.tokens.items() if options.web is not None else ()):
        assert options.web is not None
        note = "" if token.is_ours else f" (token: --{role.name.lower()}-token)"
        yield f"{names[role]}: http://{HostPort(options.web.host, ports[options.web])}/{token.query()}{note}"
    if options.prometheus is not None:
        url = f"http://{HostPort(options.prometheus.host, ports[options.prometheus])}/metrics"
        token = access.tokens[Role.VIEW]
        place = "--view-token" if not token.is_ours else "the page's address" if options.web is not None else token.text
        yield f"metrics: {url}" + ("" if access.has_open_metrics else f" (token: {place}; none with --open-metrics)")


def page(interval_ms: int, role: Role = Role.VIEW) -> str:
    """Return the HTML page of --web, with style and script, which fetches /view.json every `interval_ms`.

    The script inserts texts of the cluster as text nodes only. The page works without colours, without a mouse and in
    both colour schemes. Updates can be paused (WCAG 2.2.2), and screen readers announce only the line with the health.
    """
    html, style, script = (package_text(__name__, f"page.{kind}") for kind in ("html", "css", "js"))
    for part in _SCRIPT_PARTS:
        script = script.replace(f"@{part.upper()}@", package_text(__name__, f"page.{part}.js"))
    html = html.replace("@INTERVAL@", str(interval_ms)).replace("@ROLE@", role.name.lower())
    return html.replace("@STYLE@", style).replace("@SCRIPT@", script)


def _web_routes(board: Board, options: MonitorOptions, details: Details) -> dict[str, Route]:
    pages = {role: page(options.interval_ms, role) for role in Role}
    policy = page_policy(pages[Role.VIEW])

    def html(visit: Visit) -> Content:
        return Content("text/html; charset=utf-8", pages[visit.role or Role.VIEW].encode(), policy=policy)

    return {"/": Route(html, is_page=True), **data_routes(board, details)}


@contextmanager
def listening(address: HostPort, site: Site) -> Iterator[int]:
    """Serve the paths of a site at an address within the context, whose value is the port. Raises CommandError."""
    port = address.port

    def respond_to(head: bytes) -> http_server.Reply | http_server.LongReply:
        return respond(parse_request(head, address.host), site, port)

    with ExitStack() as stack:
        try:
            port = stack.enter_context(http_server.listening(address, respond_to, refusal))
        except (OSError, KafkaError) as error:
            is_taken = getattr(error, "errno", None) == errno.EADDRINUSE
            hint = "; another program has this port: choose another one, or port 0 for a free one" if is_taken else ""
            raise CommandError(f"Cannot listen on {address}: {http_server.reason_of(error)}{hint}") from None
        yield port
