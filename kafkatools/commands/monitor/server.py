"""The HTTP server of --web and --prometheus: a thread that answers from the Board, and never asks the cluster.

What is served where: `/` and `/view.json` on the address of --web, `/metrics` on that of --prometheus; both may be the
same. All connections of an address run on one event loop. Whoever connects is bounded: the number of connections, in
all and of one address, the bytes of a request and the time until it is there, the time an answer may take. What a
request may be is up to `http_requests.py`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from kafkatools.commands.monitor.http_requests import (
    HEAD_BYTES,
    TARGET_BYTES,
    TEXT,
    Content,
    Refused,
    Request,
    answer,
    parse_request,
    refusal,
)
from kafkatools.exit_status import CommandError

if TYPE_CHECKING:
    from kafkatools.commands.monitor.board import Board
    from kafkatools.commands.monitor.wanted import Wanted
    from kafkatools.core.net.addresses import HostPort

CONNECTIONS = 128
CONNECTIONS_PER_ADDRESS = 64
REQUEST_S = 10.0
ANSWER_S = 20.0
_LINGER_S = 0.2
_LINGER_BYTES = 1 << 16
_REQUESTS_PER_CONNECTION = 1000
_EMPTY_LINES = 2
"""Before a request they are ignored (RFC 9112 2.2)."""

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
        ports = {address: stack.enter_context(listening(address, found)) for address, found in pages.items()}
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
def listening(address: HostPort, pages: Pages) -> Iterator[int]:
    """Serve these paths while entered; gives the port. Raises CommandError."""
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.net.addresses import resolve

    try:
        found = resolve(address.host, address.port)[0]
        listener = socket.create_server(found.sockaddr[:2], family=found.family, backlog=CONNECTIONS)
    except (OSError, KafkaError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number and number > 0 else str(error)
        raise CommandError(f"cannot listen on {address}: {reason}") from None
    server = _Server(listener, address.host, pages)
    server.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.stop()


class _Server(threading.Thread):
    """One listener and its connections, on a thread with an event loop."""

    def __init__(self, listener: socket.socket, host: str, pages: Pages) -> None:
        super().__init__(name="monitor-http", daemon=True)
        self._listener = listener
        self._host = host
        self._pages = pages
        self._connections: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()

    def run(self) -> None:
        self._loop.set_exception_handler(lambda loop, context: None)  # a client's fault is nobody's news
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        """Close the listener and all connections. Called by the thread that started this one."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stopped.set)
        self.join()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self._listener, limit=HEAD_BYTES)
        await self._stopped.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str((writer.get_extra_info("peername") or ("",))[0])
        self._connections[peer] += 1
        try:
            is_full = self._connections.total() > CONNECTIONS or self._connections[peer] > CONNECTIONS_PER_ADDRESS
            await self._converse(reader, writer, is_full)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._connections[peer] -= 1
            if not self._connections[peer]:
                del self._connections[peer]
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_full: bool) -> None:
        try:
            if is_full:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections")
            for _ in range(_REQUESTS_PER_CONNECTION):
                head = await _read_head(reader)
                if head is None:
                    return
                request = parse_request(head, self._host)
                await _send(writer, self._answer(request))
                if not request.keeps_open:
                    return
        except Refused as problem:
            await _send(writer, refusal(problem))
            await _linger(reader, writer)

    def _answer(self, request: Request) -> bytes:
        is_head = request.method == "HEAD"
        page = self._pages.get(request.path)
        status = HTTPStatus.OK
        if page is None:
            status = HTTPStatus.NOT_FOUND
            content = Content(TEXT, f"There is {', '.join(sorted(self._pages))}.\n".encode())
        else:
            try:
                content = page(request.query)
            except Exception:  # noqa: BLE001 - the boundary of a thread: a page that fails must not end the others
                raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "This page failed", is_head=is_head) from None
        return answer(status, content, is_head=is_head, keeps_open=request.keeps_open)


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    """A request line and its headers, None when the client has gone; raises Refused for one too long or too late."""
    head = b""
    empty_lines = 0
    try:
        async with asyncio.timeout(REQUEST_S):
            while True:
                line = await reader.readline()
                if not line.endswith(b"\n"):
                    return None
                if not head and not line.strip() and empty_lines < _EMPTY_LINES:
                    empty_lines += 1
                    continue
                head += line
                if len(head) > HEAD_BYTES:
                    raise Refused(
                        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"More than {HEAD_BYTES} bytes of headers"
                    )
                if not line.strip():
                    return head
    except TimeoutError:
        if not head:
            return None
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"The request was not complete in {REQUEST_S:g} s") from None
    except ValueError:  # a line longer than the reader's limit
        if not head:
            raise Refused(HTTPStatus.REQUEST_URI_TOO_LONG, f"The target has more than {TARGET_BYTES} bytes") from None
        raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"More than {HEAD_BYTES} bytes of headers") from None


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    async with asyncio.timeout(ANSWER_S):
        writer.write(data)
        await writer.drain()


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take what the client still sends for a moment: closed at once, the connection could lose our answer."""
    if writer.can_write_eof():
        writer.write_eof()
    taken = 0
    with suppress(TimeoutError, ValueError):
        async with asyncio.timeout(_LINGER_S):
            while taken < _LINGER_BYTES and (data := await reader.read(HEAD_BYTES)):
                taken += len(data)
