"""The paths that the HTTP server of kt monitor serves, and the roles that they need."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import NamedTuple

from kafkatools.commands.monitor.access import Access, Role
from kafkatools.commands.monitor.http_requests import COOKIE, TEXT, Content, Request, answer, cookie_header
from kafkatools.core.net.http_server import LongReply, Refused, Reply

_NO_TOKEN = "A token is required: open the address that kt monitor printed when it started"
_NO_TOKEN_DATA = (
    "A token is required: open the page's address that kt monitor printed when it started, or send the header "
    "Authorization: Bearer TOKEN"
)
_NO_TOKEN_METRICS = (
    "A token is required: send the header Authorization: Bearer TOKEN, or start kt monitor with --open-metrics"
)
_FIGURES_ONLY = "This token shows figures only: records need the address that kt monitor --role read prints"
_FROM_ELSEWHERE = "A page of another server may not request this"


class Visit(NamedTuple):
    """The part of a request that a route gets: the last value of each query field, the client's role, and the Accept
    header."""

    query: dict[str, str]
    role: Role | None
    accept: str = ""


LongContent = Callable[[], Coroutine[None, None, Content]]
"""Content that takes time; made for GET only."""


class Route(NamedTuple):
    """The content of a path, and the role that it needs; None for everybody. `is_page`: its address may have the
    token, which becomes a cookie."""

    content: Callable[[Visit], Content | LongContent]
    needs: Role | None = Role.VIEW
    is_page: bool = False


class Site(NamedTuple):
    """All paths of one address."""

    routes: dict[str, Route]
    access: Access


def respond(request: Request, site: Site, port: int) -> Reply | LongReply:
    """Return the response to a valid request. The name of the cookie with the token ends with the port, since browsers
    send all monitors of a machine the same cookies. Raises Refused."""
    cookie = f"{COOKIE}-{port}"
    route = site.routes.get(request.path)
    if route is None:
        text = f"Not found. The paths are {', '.join(sorted(site.routes))}.\n"
        return _reply(request, Content(TEXT, text.encode(), HTTPStatus.NOT_FOUND))
    by_url = site.access.role_of([request.url_token]) if route.is_page else None
    role = by_url or site.access.role_of(request.tokens(cookie))
    _check(request, route, role)
    try:
        content = route.content(Visit(request.query, role, request.accept))
    except Exception:  # noqa: BLE001 - the boundary of a thread: a page that fails must not end the others
        raise _internal_error(request) from None
    if not isinstance(content, Content):
        return _long_reply(request, content)
    return _reply(request, content, cookie_header(cookie, request.url_token) if by_url else {})


def _internal_error(request: Request) -> Refused:
    return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error", is_head=request.is_head)


def _long_reply(request: Request, content: LongContent) -> LongReply:
    if request.is_head:
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is supported here", is_head=True)

    async def make() -> bytes:
        try:
            return answer(await content(), is_head=request.is_head, keeps_open=False)
        except Exception:  # noqa: BLE001 - as above
            raise _internal_error(request) from None

    return LongReply(make)


def _check(request: Request, route: Route, role: Role | None) -> None:
    if route.needs is None:
        return
    if request.is_from_elsewhere and not route.is_page:
        raise Refused(HTTPStatus.FORBIDDEN, _FROM_ELSEWHERE, is_head=request.is_head)
    if role is None:
        reason = _NO_TOKEN if route.is_page else _NO_TOKEN_METRICS if "metrics" in request.path else _NO_TOKEN_DATA
        raise Refused(HTTPStatus.UNAUTHORIZED, reason, is_head=request.is_head)
    if role < route.needs:
        raise Refused(HTTPStatus.FORBIDDEN, _FIGURES_ONLY, is_head=request.is_head)


def _reply(request: Request, content: Content, extra: dict[str, str] | None = None) -> Reply:
    data = answer(content, is_head=request.is_head, keeps_open=request.keeps_open, extra=extra or {})
    return Reply(data, request.keeps_open)
