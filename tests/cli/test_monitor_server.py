"""The monitor's HTTP server over real sockets: limits on requests, time and connections; what it refuses."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from support.waiting import eventually

from kafkatools.commands.monitor.access import Access, Role, Token
from kafkatools.commands.monitor.http_requests import Content
from kafkatools.commands.monitor.routes import Route, Site, Visit
from kafkatools.commands.monitor.server import listening
from kafkatools.core.net import http_server
from kafkatools.core.net.addresses import HostPort

_WAIT_S = 30
HOST = "127.0.0.1"


VIEW, READ = "view-token-0123456789", "read-token-0123456789"


def fail(visit: Visit) -> Content:
    raise ZeroDivisionError


def page(visit: Visit) -> Content:
    return Content("text/html; charset=utf-8", b"<p>page</p>")


def query(visit: Visit) -> Content:
    return Content("application/json", json.dumps(visit.query).encode())


PAGES = Site(
    {
        "/": Route(page, None),
        "/view.json": Route(query, None),
        "/broken": Route(fail, None),
        "/large": Route(lambda visit: Content("text/plain", b"x" * (32 << 20)), None),
        "/page": Route(page, is_page=True),
        "/figures": Route(query),
        "/records": Route(query, Role.READ),
        "/metrics": Route(query),
    },
    Access({Role.VIEW: Token(VIEW, is_ours=True), Role.READ: Token(READ, is_ours=True)}),
)


@pytest.fixture
def port() -> Iterator[int]:
    with listening(HostPort(HOST, 0), PAGES) as found:
        yield found


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), _WAIT_S)


def exchange(port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and everything behind them until the server closes."""
    with connect(port) as client:
        client.sendall(request)
        return parsed(b"".join(iter(lambda: client.recv(65536), b"")))


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    return int(lines[0].split()[1]), dict(line.split(": ", 1) for line in lines[1:]), body


def get(target: str, *headers: str, version: str = "1.1", method: str = "GET") -> bytes:
    lines = [f"{method} {target} HTTP/{version}", *(headers or ("Host: localhost", "Connection: close")), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def test_answers_carry_headers_that_keep_other_pages_out(port: int) -> None:
    for target in ("/", "/nothing", "nothing"):
        _, headers, _ = exchange(port, get(target))
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
        assert (headers["X-Frame-Options"], headers["Cache-Control"]) == ("DENY", "no-store")


def test_a_query_is_handed_to_its_page(port: int) -> None:
    status, _, body = exchange(port, get("/view.json?topic=a%20b&topic=c&x=%FF"))
    assert (status, json.loads(body)) == (200, {"topic": "c", "x": "\N{REPLACEMENT CHARACTER}"})


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(get("http://localhost/"), 400, id="absolute form"),
        pytest.param(get("*", method="OPTIONS"), 400, id="asterisk form"),
        pytest.param(get("localhost:80", method="CONNECT"), 400, id="authority form"),
        pytest.param(get("/\xe9"), 400, id="not ASCII"),
        pytest.param(get("/a\x00b"), 400, id="control character"),
        pytest.param(get("view.json"), 400, id="no path"),
        pytest.param(get("/" + "a" * 3000), 414, id="long target"),
        pytest.param(get("/" + "a" * 100_000), 414, id="target beyond the reader"),
        pytest.param(get("/../../etc/passwd"), 404, id="traversal"),
        pytest.param(get("/%2e%2e/%2e%2e/etc/passwd"), 404, id="escaped traversal"),
        pytest.param(get("//localhost/"), 404, id="two slashes"),
        pytest.param(get("/view.json/"), 404, id="page with a slash behind"),
        pytest.param(get("/?" + "&".join(f"a{n}=1" for n in range(30))), 400, id="many query fields"),
        pytest.param(get("/", "Host: localhost", "Host: localhost"), 400, id="two Host headers"),
        pytest.param(get("/", "Host: localhost", "host: evil.example"), 400, id="two Host headers in two cases"),
        pytest.param(get("/", "Accept: */*"), 400, id="no Host header"),
        pytest.param(get("/", "Host : localhost"), 400, id="space before the colon"),
        pytest.param(get("/", "Host: local host"), 400, id="space in Host"),
        pytest.param(get("/", "Host: user@localhost"), 400, id="user in Host"),
        pytest.param(get("/", "Host: evil.example"), 403, id="name that points here"),
        pytest.param(get("/", "Host: 127.0.0.1.evil.example"), 403, id="name that begins like an address"),
        pytest.param(get("/", "Host: 192.168.1.1"), 403, id="address of the network"),
        pytest.param(get("/", "Host: localhost", "Content-Length: 5") + b"hello", 413, id="body"),
        pytest.param(get("/", "Host: localhost", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 413, id="chunks"),
        pytest.param(get("/", "Host: localhost", *(f"X-{n}: 1" for n in range(150))), 431, id="many headers"),
        pytest.param(get("/", "Host: localhost", "X: " + "a" * 9000), 431, id="long header"),
        pytest.param(get("/", "Host: localhost", *(f"X-{n}: {'a' * 500}" for n in range(50))), 431, id="large head"),
        pytest.param(get("/", version="2.0"), 505, id="HTTP/2.0"),
        pytest.param(get("/", version="x"), 400, id="no version number"),
        pytest.param(b"GET /\r\n\r\n", 400, id="HTTP/0.9"),
        pytest.param(b"GET\r\n\r\n", 400, id="one word"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, id="TLS"),
    ],
)
def test_requests_that_are_refused(port: int, request_bytes: bytes, status: int) -> None:
    answered, headers, body = exchange(port, request_bytes)
    assert answered == status
    assert headers["Connection"] == "close"
    assert len(body) == int(headers["Content-Length"]) < 200
    assert exchange(port, get("/"))[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO", "get"])
def test_other_methods_are_not_allowed(port: int, method: str) -> None:
    status, headers, _ = exchange(port, get("/", method=method))
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "127.9.9.9", "[::1]:80", "localhost."])
def test_names_of_this_machine_are_answered(port: int, name: str) -> None:
    assert exchange(port, get("/", f"Host: {name}", "Connection: close"))[0] == 200


def test_head_has_the_length_and_no_body(port: int) -> None:
    status, headers, body = exchange(port, get("/", method="HEAD"))
    assert (status, headers["Content-Length"], body) == (200, "11", b"")


def test_old_clients_need_no_host_and_are_closed(port: int) -> None:
    status, headers, body = exchange(port, b"GET / HTTP/1.0\r\n\r\n")
    assert (status, headers["Connection"], body) == (200, "close", b"<p>page</p>")
    assert exchange(port, b"\r\nGET / HTTP/1.0\n\n")[2] == b"<p>page</p>"


def test_requests_sent_together_are_answered_in_their_order(port: int) -> None:
    requests = [get(f"/view.json?n={number}", "Host: localhost") for number in range(20)]
    with connect(port) as client:
        client.sendall(b"".join(requests) + get("/"))
        received = io.BytesIO(b"".join(iter(lambda: client.recv(65536), b"")))
    for number in range(20):
        head = b"".join(iter(received.readline, b"\r\n")).decode()
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        assert json.loads(received.read(length)) == {"n": str(number)}
    assert received.read().endswith(b"\r\n\r\n<p>page</p>")


def test_a_request_behind_a_refused_one_is_not_answered(port: int) -> None:
    _, _, body = exchange(port, get("/", "Host: localhost", "Content-Length: 40") + get("/view.json"))
    assert b"HTTP/1.1" not in body


def test_a_page_that_fails_is_a_status_without_a_traceback(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    status, _, body = exchange(port, get("/broken"))
    assert (status, body) == (500, b"Internal error.\n")
    assert capfd.readouterr() == ("", "")


def test_a_request_that_never_ends_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_S", 0.3)
    with listening(HostPort(HOST, 0), PAGES) as port, connect(port) as slow, connect(port) as silent:
        stopped = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                slow.sendall(b"GET / HTTP/1.1\r\n")
                while not stopped.wait(0.05):
                    slow.sendall(b"X: 1\r\n")

        dripping = threading.Thread(target=drip)
        dripping.start()
        assert slow.recv(65536).startswith(b"HTTP/1.1 408 ")
        assert silent.recv(1) == b""
        stopped.set()
        dripping.join()


def test_a_reader_that_takes_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "ANSWER_S", 0.3)
    with listening(HostPort(HOST, 0), PAGES) as port, connect(port) as idle:
        idle.sendall(get("/large"))
        assert exchange(port, get("/"))[0] == 200
        received = 0
        with contextlib.suppress(ConnectionResetError):
            deadline = threading.Event()
            deadline.wait(1)
            while data := idle.recv(1 << 20):
                received += len(data)
        assert received < 32 << 20


def test_connections_of_one_address_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_PER_ADDRESS", 4)
    _assert_limited(4)


def test_connections_in_all_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS", 3)
    _assert_limited(3)


def _assert_limited(limit: int) -> None:
    with listening(HostPort(HOST, 0), PAGES) as port, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(limit)]
        for client in clients:
            client.sendall(get("/", "Host: localhost"))
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert exchange(port, b"")[0] == 503
        clients[0].close()
        connection = http.client.HTTPConnection(HOST, port, timeout=_WAIT_S)
        while True:  # the server hears of the end of a connection a moment later
            connection.request("GET", "/")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                break
            assert answer.status == 503
            connection.close()
        connection.close()


def test_garbage_leaves_nothing_behind(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(200):
        with connect(port) as client, contextlib.suppress(OSError):
            client.sendall(bytes((number * 7 + step * 13) % 256 for step in range(300)) + b"\r\n\r\n")
    with connect(port) as client:
        client.sendall(b"GET / HT")  # and gone
    eventually(lambda: exchange(port, get("/"))[0] == 200)  # those that are being closed count as connections
    assert capfd.readouterr() == ("", "")


def test_server_given_a_name_answers_to_it_and_to_addresses() -> None:
    from kafkatools.commands.monitor.http_requests import is_expected_host

    assert is_expected_host("monitor.example:80", "monitor.example")
    assert is_expected_host("10.0.0.5:80", "monitor.example")
    assert not is_expected_host("evil.example", "monitor.example")
    assert is_expected_host("monitor.example", "0.0.0.0") and is_expected_host("monitor.example", "::")
    assert not is_expected_host("10.0.0.5", "127.0.0.1")


# -- tokens --

BEARER = "Authorization: Bearer "
COOKIE = "Cookie: kt-monitor-PORT="


def status_of(port: int, target: str, *headers: str, method: str = "GET") -> int:
    own = [header.replace("PORT", str(port)) for header in headers]
    return exchange(port, get(target, "Host: localhost", "Connection: close", *own, method=method))[0]


@pytest.mark.parametrize(
    ("target", "without", "view", "read"),
    [("/page", 401, 200, 200), ("/figures", 401, 200, 200), ("/metrics", 401, 200, 200), ("/records", 401, 403, 200)],
)
def test_each_role_gets_what_its_token_allows(port: int, target: str, without: int, view: int, read: int) -> None:
    for method in ("GET", "HEAD"):
        assert status_of(port, target, method=method) == without
        for header in (BEARER, COOKIE, "authorization: bearer   ", "Cookie: a=b; kt-monitor-PORT="):
            assert status_of(port, target, header + VIEW, method=method) == view
            assert status_of(port, target, header + READ, method=method) == read


@pytest.mark.parametrize(
    "header",
    [
        BEARER, BEARER + "x", BEARER + VIEW[:-1], BEARER + VIEW + "x", BEARER + VIEW.upper(), "Authorization: " + VIEW,
        "Authorization: Basic " + VIEW, COOKIE, COOKIE + "x", "Cookie: kt-monitor-8081=" + VIEW, "Cookie: " + VIEW,
        "Cookie: xkt-monitor-PORT=" + VIEW, "X-Token: " + VIEW, BEARER + "\xff" * 21,
    ],
)  # fmt: skip
def test_anything_else_is_no_token(port: int, header: str) -> None:
    for target in ("/page", "/figures", "/metrics", "/records"):
        status, headers, body = exchange(port, get(target, "Host: localhost", header.replace("PORT", str(port))))
        assert (status, headers["WWW-Authenticate"]) == (401, 'Bearer realm="kt monitor"')
        assert b"token is required" in body and b"view-token" not in body and "Set-Cookie" not in headers


def test_the_token_of_the_page_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(port: int) -> None:
    status, headers, body = exchange(port, get(f"/page?token={READ}"))
    assert (status, headers["Set-Cookie"]) == (200, f"kt-monitor-{port}={READ}; Path=/; HttpOnly; SameSite=Strict")
    assert READ.encode() not in body
    assert status_of(port, "/page?token=wrong", COOKIE + VIEW) == 200, "a bookmark of an earlier run"
    for target in ("/figures", "/records", "/metrics"):
        assert status_of(port, f"{target}?token={READ}") == 401, "an address with data could be copied with its token"


def test_pages_of_other_servers_of_this_machine_get_nothing(port: int) -> None:
    for origin in ("same-site", "cross-site", "x"):
        assert status_of(port, "/figures", COOKIE + VIEW, f"Sec-Fetch-Site: {origin}") == 403
    for origin in ("same-origin", "none"):
        assert status_of(port, "/figures", COOKIE + VIEW, f"Sec-Fetch-Site: {origin}") == 200
    assert status_of(port, f"/page?token={VIEW}", "Sec-Fetch-Site: cross-site") == 200, "a link in a message"


def test_what_is_refused_names_what_to_do(port: int) -> None:
    assert b"--open-metrics" in exchange(port, get("/metrics"))[2]
    assert b"printed when it started" in exchange(port, get("/page"))[2]
    assert b"--role read" in exchange(port, get("/records", "Host: localhost", BEARER + VIEW))[2]
