"""The HTTP server of pages: its end while a response is being made."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading

import pytest
from support.waiting import eventually

from kafkatools.core.net.addresses import HostPort
from kafkatools.core.net.http_server import LongReply, Refused, listening

HOST = "127.0.0.1"


def refuse(problem: Refused) -> bytes:
    raise problem


@pytest.mark.parametrize("round_", range(5))
def test_the_end_while_a_subprocess_starts(round_: int) -> None:
    starts = threading.Event()

    async def make() -> bytes:
        starts.set()
        sleep = (sys.executable, "-c", "import time; time.sleep(600)")
        process = await asyncio.create_subprocess_exec(*sleep, stdin=-1, stdout=-1)
        process.kill()  # the server's end came later: a response is cancelled only once
        with contextlib.suppress(asyncio.CancelledError):
            await process.communicate()
        await process.communicate()
        return b""

    def serve() -> None:
        with (
            listening(HostPort(HOST, 0), lambda head: LongReply(make), refuse) as port,
            socket.create_connection((HOST, port), 30) as client,
        ):
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert starts.wait(30)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    server.join(60)
    assert not server.is_alive(), "the server waits for a subprocess that it has cancelled"


def test_a_client_that_leaves_and_the_end_of_the_server_cancel_a_response_once() -> None:
    starts = threading.Event()
    cancellations: list[str] = []

    async def make() -> bytes:
        try:
            starts.set()
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancellations.append("begins")
            try:
                await asyncio.sleep(0.3)  # a subprocess that ends
            except asyncio.CancelledError:
                cancellations.append("again")
            cancellations.append("ended")
        return b""

    with listening(HostPort(HOST, 0), lambda head: LongReply(make), refuse) as port:
        with socket.create_connection((HOST, port), 30) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert starts.wait(30)
        eventually(lambda: bool(cancellations))
    assert cancellations == ["begins", "ended"]
