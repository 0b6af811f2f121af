"""Parse requests and build responses of the HTTP server of kt monitor, without a connection.

The standard library parses the request line and the headers. Refused as well: bodies, methods other than GET and HEAD,
targets that are not plain paths, several Host headers, and a Host header that does not name this server.
Only the page may run scripts and use styles, and only those whose hashes its Content-Security-Policy lists.
"""

from __future__ import annotations

import base64
import hashlib
import io
import ipaddress
import re
from collections.abc import Iterator, Mapping
from email.message import Message
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from kafkatools.core.net.addresses import is_loopback
from kafkatools.core.net.http_server import Refused

TARGET_BYTES = 2048
METHODS = ("GET", "HEAD")
_QUERY_FIELDS = 20
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)?(?::[0-9]{1,5})?")
_TARGET = re.compile(r"/[!-~]*")
_ANY_ADDRESS = ("0.0.0.0", "::", "")

TEXT = "text/plain; charset=utf-8"
_HEADERS = {
    "Server": "kt-monitor",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_NO_SCRIPTS = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
_TOKEN_FIELD = "token"
COOKIE = "kt-monitor"


class Content(NamedTuple):
    """The media type and the body of a response. `policy`: the Content-Security-Policy."""

    type: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    policy: str = _NO_SCRIPTS


class Request(NamedTuple):
    """A valid request. `query`: the last value of each field. `keeps_open`: the client may send another one on this
    connection. `bearer`: the token of the Authorization header. `cookies`: name and value of each cookie.
    `is_from_elsewhere`: a browser sends it for a page of another server. `accept`: the Accept header."""

    method: str
    path: str
    query: dict[str, str]
    keeps_open: bool
    bearer: str = ""
    cookies: tuple[tuple[str, str], ...] = ()
    is_from_elsewhere: bool = False
    accept: str = ""

    @property
    def is_head(self) -> bool:
        """Return whether the response has no body."""
        return self.method == "HEAD"

    @property
    def url_token(self) -> str:
        """The token in the address, empty without one."""
        return self.query.get(_TOKEN_FIELD, "")

    def tokens(self, cookie: str) -> list[str]:
        """Return the tokens of the Authorization header and of the cookie with this name."""
        return [text for text in (self.bearer, *(value for name, value in self.cookies if name == cookie)) if text]


def page_policy(html: str) -> str:
    """Return the Content-Security-Policy of a page: it runs its own script and style, by their hashes, and requests
    data of this server only."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(html):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    sources = "; ".join(f"{kind}-src {' '.join(found)}" for kind, found in hashes.items())
    trusted = "require-trusted-types-for 'script'; trusted-types 'none'"
    return f"{_NO_SCRIPTS}; {sources}; connect-src 'self'; img-src data:; {trusted}"


class _Parser(BaseHTTPRequestHandler):
    """The standard library's request parser, reading from bytes."""

    protocol_version = "HTTP/1.1"

    def __init__(self, head: bytes) -> None:
        self.rfile = io.BufferedReader(io.BytesIO(head))
        self.raw_requestline = self.rfile.readline()
        self.error: tuple[int, str] | None = None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.error = code, message or HTTPStatus(code).phrase

    def handle_expect_100(self) -> bool:
        return True


def parse_request(head: bytes, address_host: str) -> Request:
    """Parse a request line and headers, up to the empty line. Raises Refused.

    `address_host` is the host of --web or --prometheus.
    """
    parser = _Parser(head)
    target = _target(parser.raw_requestline)
    if not parser.parse_request():
        status, reason = parser.error or (HTTPStatus.BAD_REQUEST, "Bad request")
        raise Refused(HTTPStatus(status), reason)
    if parser.request_version == "HTTP/0.9":
        raise Refused(HTTPStatus.BAD_REQUEST, "The request line has no HTTP version")
    if parser.command not in METHODS:
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"Only {' and '.join(METHODS)} are supported")
    is_head = parser.command == "HEAD"
    _check_headers(parser, address_host, is_head)
    url = urlsplit("//-" + target)  # without the prefix "//host/path" would name a host
    try:
        query = parse_qs(url.query, max_num_fields=_QUERY_FIELDS)
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST, "Too many query fields", is_head=is_head) from None
    return Request(
        parser.command,
        url.path,
        {name: values[-1] for name, values in query.items()},
        not parser.close_connection,
        _bearer(parser.headers),
        tuple(_cookies(parser.headers)),
        # browsers send it; a page on another port of this machine counts as the same site for cookies
        parser.headers.get("Sec-Fetch-Site", "none").strip().lower() not in ("none", "same-origin"),
        parser.headers.get("Accept", ""),
    )


def _bearer(headers: Message) -> str:
    scheme, _, token = headers.get("Authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _cookies(headers: Message) -> Iterator[tuple[str, str]]:
    for line in headers.get_all("Cookie", []):
        for part in line.split(";"):
            name, equals, value = part.strip().partition("=")
            if equals:
                yield name, value


def _target(request_line: bytes) -> str:
    words = request_line.decode("latin-1").split()
    target = words[1] if len(words) > 1 else "/"
    if len(target) > TARGET_BYTES:
        raise Refused(HTTPStatus.REQUEST_URI_TOO_LONG, f"The target has more than {TARGET_BYTES} bytes")
    if not _TARGET.fullmatch(target):
        raise Refused(HTTPStatus.BAD_REQUEST, "The target has to be a path of ASCII characters that begins with '/'")
    return target


def _check_headers(parser: _Parser, address_host: str, is_head: bool) -> None:
    headers = parser.headers
    if headers.defects:
        raise Refused(HTTPStatus.BAD_REQUEST, "Malformed headers", is_head=is_head)
    if headers.get("Transfer-Encoding") is not None or headers.get("Content-Length", "0").strip() != "0":
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "A request with a body is not answered", is_head=is_head)
    hosts = headers.get_all("Host", [])
    is_missing = not hosts and parser.request_version != "HTTP/1.0"
    if len(hosts) > 1 or is_missing or not all(_HOST.fullmatch(host) for host in hosts):
        raise Refused(HTTPStatus.BAD_REQUEST, "Exactly one Host header is required", is_head=is_head)
    if hosts and not is_expected_host(hosts[0], address_host):
        raise Refused(HTTPStatus.FORBIDDEN, "The Host header does not name this server", is_head=is_head)


def is_expected_host(host: str, address_host: str) -> bool:
    """Return whether a Host header names this server: this machine, or the host of --web or --prometheus.

    Otherwise a web page could let its own host name resolve to this server and read the answers (DNS rebinding). A
    server on a network address also accepts IP addresses; one on all addresses accepts any name.
    """
    if is_this_machine(host):
        return True
    name = _name(host)
    if address_host in _ANY_ADDRESS:
        return True
    return name == address_host.lower() or (not is_loopback(address_host) and _is_address(name))


def is_this_machine(host: str) -> bool:
    """Return whether the Host of a request is a loopback name or empty."""
    name = _name(host)
    return not name or is_loopback(name)


def _name(host: str) -> str:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.strip("[]").lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def answer(content: Content, *, is_head: bool, keeps_open: bool, extra: Mapping[str, str] = {}) -> bytes:
    """Build the bytes of an HTTP response; the body is left out for a HEAD request."""
    headers = {
        "Date": formatdate(usegmt=True),
        **_HEADERS,
        "Content-Security-Policy": content.policy,
        "Content-Type": content.type,
        "Content-Length": str(len(content.body)),
        "Connection": "keep-alive" if keeps_open else "close",
        **extra,
    }
    status = content.status
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if is_head else head + content.body


def refusal(problem: Refused) -> bytes:
    """Build the bytes of the HTTP response to a refused request."""
    extra = _EXTRA.get(problem.status, {})
    content = Content(TEXT, f"{problem.reason}.\n".encode(), problem.status)
    return answer(content, is_head=problem.is_head, keeps_open=False, extra=extra)


def cookie_header(name: str, token: str) -> dict[str, str]:
    """Return the header that keeps a token as a cookie which no script can read and no other site can send."""
    return {"Set-Cookie": f"{name}={token}; Path=/; HttpOnly; SameSite=Strict"}


_EXTRA: dict[HTTPStatus, dict[str, str]] = {
    HTTPStatus.METHOD_NOT_ALLOWED: {"Allow": ", ".join(METHODS)},
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": 'Bearer realm="kt monitor"'},
}
