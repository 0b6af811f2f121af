"""Frames that are almost right: whatever the bytes, the answer is a response or a closed connection, never a failure
of the broker."""

import pathlib
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatools.core.broker.node import Node, single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.broker.server.apis import BROKER_APIS
from kafkatools.core.broker.server.requests import DELAYED, CloseConnection, FileRegion, Request
from kafkatools.core.clock import SystemClock
from kafkatools.core.protocol import messages


class Sink:
    """Takes what a delayed request answers."""

    client_host = "127.0.0.1"
    principal = "User:ANONYMOUS"
    dispatch = SimpleNamespace(apis=BROKER_APIS)
    acceptor = SimpleNamespace(name="PLAINTEXT", security_protocol="PLAINTEXT", dispatch=dispatch)

    def complete(self, response: Any) -> None:
        assert response


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, list[str]]]:
    directory: pathlib.Path = tmp_path_factory.mktemp("hostile") / "data"
    failures: list[str] = []
    setup = NodeSetup(single_node_config(str(directory), "127.0.0.1", 0), SystemClock(), report=failures.append)
    made = start_node(setup, format_if_needed=True)
    yield made, failures
    made.close()


def frames() -> list[bytes]:
    """A plain request of every API in its lowest and highest version."""
    found = []
    for api in BROKER_APIS.values():
        for version in {api.lowest, api.highest}:
            fields = {"transactional_id": None} if api.key in (0, 22) else {}
            body = messages.encode(messages.build(messages.request_type(api.key, version), fields))
            tags = b"\0" if version >= api.flexible_since else b""
            found.append(struct.pack(">hhih", api.key, version, 1, 4) + b"test" + tags + body)
    return found


FRAMES = frames()


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, len(FRAMES) - 1),
    st.lists(st.tuples(st.integers(8, 80), st.binary(min_size=1, max_size=6)), max_size=4),
    st.integers(0, 12),
    st.binary(max_size=12),
)
def test_no_bytes_make_a_handler_fail(
    node: tuple[Node, list[str]], index: int, edits: list[tuple[int, bytes]], cut: int, tail: bytes
) -> None:
    broker, failures = node
    frame = bytearray(FRAMES[index])
    for position, data in edits:
        frame[position : position + len(data)] = data
    frame = frame[: max(8, len(frame) - cut)] + tail
    request = Request(Sink(), memoryview(frame), struct.unpack_from(">hhi", frame))  # type: ignore[arg-type]
    try:
        response = broker.listener.acceptors[0].dispatch(request)
    except CloseConnection:
        response = ()
    if response and response is not DELAYED:
        size = sum(part.size_bytes if isinstance(part, FileRegion) else len(part) for part in response)
        assert struct.unpack_from(">i", bytes(response[0]))[0] == size - 4  # type: ignore[arg-type]
    assert failures == []
