"""Which bytes of a connection count as an event: event loops wake no task for a part of a frame."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from kafkatools.core.net.addresses import Address
from kafkatools.core.net.channel import Channel
from kafkatools.core.net.selector import READ, WRITE
from kafkatools.core.net.transport import PlaintextTransport

FRAME = b"\0\0\0\3abc"


@pytest.fixture
def node() -> Iterator[socket.socket]:
    """The listener of a node."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def ends(node: socket.socket) -> Iterator[tuple[Channel, socket.socket]]:
    """A connected channel and the node's end of it."""
    transport = PlaintextTransport(Address(socket.AF_INET, node.getsockname()))
    channel = Channel(1, transport, 1 << 20)
    with closing(channel):
        transport.connect()
        accepted, _ = node.accept()
        transport.finish_connect()
        channel.is_connected = True
        with accepted:
            yield channel, accepted


def receive(channel: Channel, peer: socket.socket, data: bytes) -> list[bytes]:
    """Send bytes to the channel and read them at once; return the complete frames."""
    peer.sendall(data)
    arrived = channel.transport.socket
    arrived.setblocking(True)
    assert arrived.recv(len(data), socket.MSG_PEEK | socket.MSG_WAITALL) == data
    arrived.setblocking(False)
    return [bytes(frame) for frame in channel.read()]


@pytest.mark.parametrize("size", range(1, len(FRAME)))
def test_a_part_of_a_frame_is_no_event(ends: tuple[Channel, socket.socket], size: int) -> None:
    channel, peer = ends
    assert receive(channel, peer, FRAME[:size]) == []
    assert channel.has_only_part(READ)
    assert not channel.has_only_part(READ | WRITE)
    assert receive(channel, peer, FRAME[size:]) == [b"abc"]
    assert not channel.has_only_part(READ)


def test_a_completed_frame_before_the_start_of_another_is_an_event(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    assert receive(channel, peer, FRAME + FRAME[:2]) == [b"abc"]
    assert channel.is_receiving
    assert not channel.has_only_part(READ)
    assert receive(channel, peer, FRAME[2:4]) == []
    assert channel.has_only_part(READ)


def test_a_closed_channel_has_an_event(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    receive(channel, peer, FRAME[:2])
    channel.close()
    assert not channel.has_only_part(READ)
