"""A small HTTP server for the pages of a command: all connections on one event loop, in a separate thread.

Limits: the number of connections (in total and for one address), the size of a request, the time to receive it and the
time to send its response. `respond` returns the response to a request line with its headers, or a LongReply; it raises
nothing but Refused. A LongReply is cancelled when its client disconnects, and only some are made at the same time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import NamedTuple

from kafkatools.core.errors import KafkaError
from kafkatools.core.net.addresses import HostPort, resolve

HEAD_BYTES = 8192
CONNECTIONS = 128
CONNECTIONS_PER_ADDRESS = 64
REQUEST_S = 10.0
ANSWER_S = 20.0
LONG_REPLIES = 4
_LINGER_S = 0.2
_LINGER_BYTES = 1 << 16
_REQUESTS_PER_CONNECTION = 1000
_EMPTY_LINES = 2
"""Empty lines before a request that are ignored (RFC 9112 2.2)."""


class Reply(NamedTuple):
    """The bytes of an HTTP response. `keeps_open`: the client may send another request on this connection."""

    data: bytes
    keeps_open: bool


class LongReply(NamedTuple):
    """A response that takes time: `make` returns its bytes and limits its own time. The connection is closed behind
    it."""

    make: Callable[[], Coroutine[None, None, bytes]]


class Refused(Exception):
    """An HTTP request that gets an error response with this status; its connection is closed."""

    def __init__(self, status: HTTPStatus, reason: str, *, is_head: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.is_head = is_head


Respond = Callable[[bytes], Reply | LongReply]
Refuse = Callable[[Refused], bytes]


@contextmanager
def listening(address: HostPort, respond: Respond, refuse: Refuse) -> Iterator[int]:
    """Serve HTTP within the context; yields the port. Raises KafkaError or OSError when it cannot listen on the
    address. `respond` may raise Refused; `refuse` returns the error response."""
    resolved = resolve(address.host, address.port)[0]
    listener = socket.create_server(resolved.sockaddr[:2], family=resolved.family, backlog=CONNECTIONS)
    server = _Server(listener, respond, refuse)
    server.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.stop()


def reason_of(error: OSError | KafkaError) -> str:
    """The short reason why the server cannot listen on an address, such as "Address already in use"."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number and number > 0 else str(error)


class _Server(threading.Thread):
    def __init__(self, listener: socket.socket, respond: Respond, refuse: Refuse) -> None:
        super().__init__(name="monitor-http", daemon=True)
        self._listener = listener
        self._respond = respond
        self._refuse = refuse
        self._connections: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[object]] = set()
        self._making: set[asyncio.Task[bytes]] = set()
        self._long_replies = 0
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()

    def run(self) -> None:
        self._loop.set_exception_handler(lambda loop, context: None)  # a client's errors are not reported
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        """Close the listener and all connections, and wait for the thread to end."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stopped.set)
        self.join()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self._listener, limit=HEAD_BYTES)
        await self._stopped.wait()
        server.close()
        # Only the tasks of connections are cancelled, which end their subprocesses.
        # The end of asyncio would also cancel a task that connects pipes of a subprocess, and wait forever.
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*self._making, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
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
                reply = self._respond(head)
                if isinstance(reply, LongReply):
                    await self._send_long(reader, writer, reply)
                    return
                await _send(writer, reply.data)
                if not reply.keeps_open:
                    return
        except Refused as problem:
            await _send(writer, self._refuse(problem))
            await _linger(reader, writer)

    async def _send_long(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: LongReply) -> None:
        """Make a response and send it, unless the client disconnects meanwhile."""
        if self._long_replies >= LONG_REPLIES:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Too many reads at the same time: try again in a few seconds")
        self._long_replies += 1
        making, gone = asyncio.create_task(reply.make()), asyncio.ensure_future(_wait_until_gone(reader))
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        try:
            await asyncio.wait((making, gone), return_when=asyncio.FIRST_COMPLETED)
            if making.done():
                await _send(writer, making.result())
        finally:
            for task in (making, gone):
                task.cancel()
            try:
                # Unlike `gather`, this does not cancel them again when this task is cancelled now: then nobody would
                # wait for a subprocess that starts or ends.
                await asyncio.wait((making, gone))
            finally:
                self._long_replies -= 1


async def _wait_until_gone(reader: asyncio.StreamReader) -> None:
    """Return when the client closes its side of the connection; what it sends is ignored."""
    with suppress(OSError):
        while await reader.read(HEAD_BYTES):
            pass


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    """Read an HTTP request line and its headers; None when the client disconnected or sent nothing for 10 s. Raises
    Refused when they are too long or arrive too slowly."""
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
                    raise _headers_too_large()
                if not line.strip():
                    return head
    except TimeoutError:
        if not head:
            return None
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"The request was not complete in {REQUEST_S:g} s") from None
    except ValueError:  # a line longer than the reader's limit
        if head:
            raise _headers_too_large() from None
        message = f"The request line has more than {HEAD_BYTES} bytes"
        raise Refused(HTTPStatus.REQUEST_URI_TOO_LONG, message) from None


def _headers_too_large() -> Refused:
    return Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"More than {HEAD_BYTES} bytes of headers")


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    async with asyncio.timeout(ANSWER_S):
        writer.write(data)
        await writer.drain()


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read and discard the rest of a request, for up to 0.2 s or 64 KiB: after an immediate close the client might not
    get the response."""
    if writer.can_write_eof():
        writer.write_eof()
    discarded = 0
    with suppress(TimeoutError, ValueError):
        async with asyncio.timeout(_LINGER_S):
            while discarded < _LINGER_BYTES and (data := await reader.read(HEAD_BYTES)):
                discarded += len(data)
