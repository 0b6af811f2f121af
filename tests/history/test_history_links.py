"""Links between nodes: a proxy knows which node opened a connection, and a cut concerns its link and direction only."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from support.history.links import HOLD, RESET, UNKNOWN_NODE, LinkProxy, LinkTable

HELD_S = 0.3
PATIENCE_S = 30


class Pair:
    """Both ends of a connection from node 1, which is this process, to node 2."""

    def __init__(self) -> None:
        self.links = LinkTable()
        self.links.nodes = (1, 3)
        self.links.pid_of = lambda node: os.getpid() if node == 1 else None
        self._server = socket.create_server(("127.0.0.1", 0))
        self.proxy = LinkProxy(2, self.links)
        self.proxy.target = self._server.getsockname()[1]
        self._made: list[socket.socket] = []
        self.connect()

    def connect(self) -> None:
        self.opener = socket.create_connection(("127.0.0.1", self.proxy.port))
        self.acceptor = self._server.accept()[0]
        self._made += [self.opener, self.acceptor]

    def passes(self, source: socket.socket, target: socket.socket, seconds: float = PATIENCE_S) -> bool:
        """Whether a byte arrives in time."""
        source.sendall(b"x")
        target.settimeout(seconds)
        try:
            return target.recv(1) == b"x"
        except TimeoutError:
            return False

    def close(self) -> None:
        self.proxy.close()
        for one in (*self._made, self._server):
            one.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_the_opener_of_a_connection_is_known(pair: Pair) -> None:
    port = pair.opener.getsockname()[1]
    assert pair.links.node_of(port, pair.proxy.port) == 1
    pair.links.pid_of = lambda node: None
    assert pair.links.node_of(port, pair.proxy.port) == UNKNOWN_NODE


def test_a_cut_holds_one_direction_and_what_was_held_arrives_after_the_heal(pair: Pair) -> None:
    assert pair.passes(pair.opener, pair.acceptor)
    pair.links.cut(1, 2, HOLD)
    assert not pair.passes(pair.opener, pair.acceptor, HELD_S)
    assert pair.passes(pair.acceptor, pair.opener)
    pair.links.heal()
    pair.acceptor.settimeout(PATIENCE_S)
    assert pair.acceptor.recv(1) == b"x"


def test_a_cut_of_other_links_concerns_nobody_else(pair: Pair) -> None:
    pair.links.cut(3, 2, HOLD)
    pair.links.cut(2, 3, RESET)
    assert pair.passes(pair.opener, pair.acceptor)
    assert pair.passes(pair.acceptor, pair.opener)


def test_a_reset_ends_connections_until_the_heal(pair: Pair) -> None:
    assert pair.passes(pair.opener, pair.acceptor)
    pair.links.cut(1, 2, RESET)
    pair.opener.settimeout(PATIENCE_S)
    assert pair.opener.recv(1) == b""
    pair.links.heal()
    pair.connect()
    assert pair.passes(pair.opener, pair.acceptor)
