"""Limits on connections, the report of refused connections, and protected listeners."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.listeners import open_acceptor, open_listener
from support.waiting import eventually

from kafkatools.core import config as tables
from kafkatools.core.broker.metadata.controller.client_quotas import ClientQuotas
from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.broker.server.connection_limits import UNLIMITED, ConnectionLimits, max_log_files
from kafkatools.core.broker.server.connection_rates import BROKER as BROKER_RATE
from kafkatools.core.broker.server.connection_rates import ConnectionRates, address_rates
from kafkatools.core.broker.server.listener import Listener
from kafkatools.core.broker.server.requests import FileRegion, Request, Response
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import Config
from kafkatools.core.log.files import MAX_OPEN_FILES, RealFileSystem

API_VERSIONS, INCREMENTAL_ALTER_CONFIGS, BROKER = 18, 44, 4


class Broker:
    """A node with a thread, and what connects to it."""

    def __init__(self, directory: pathlib.Path, settings: dict[str, str]) -> None:
        self.reports: list[str] = []
        config = single_node_config(str(directory), "127.0.0.1", 0, settings)
        self.node = start_node(NodeSetup(config, SystemClock(), report=self.reports.append), format_if_needed=True)
        self._thread = threading.Thread(target=self.node.run)
        self._thread.start()
        self._clients: list[BrokerClient] = []

    def connect(self, host: str = "127.0.0.1") -> BrokerClient | None:
        """A connection from an address that is served, or None: it was closed."""
        made = BrokerClient("127.0.0.1", self.node.listener.port, host)
        self._clients.append(made)
        try:
            made.call(API_VERSIONS, 0)
        except (EOFError, OSError):
            return None
        return made

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.node.request_stop()
        self._thread.join()
        self.node.close()


@contextlib.contextmanager
def running(directory: pathlib.Path, **settings: str) -> Iterator[Broker]:
    broker = Broker(directory, {name.replace("_", "."): value for name, value in settings.items()})
    try:
        yield broker
    finally:
        broker.close()


def refusals(broker: Broker) -> list[str]:
    return [line for line in broker.reports if " refused: " in line]


def free(broker: Broker, client: BrokerClient | None) -> None:
    """Close a connection, and wait until the broker knows."""
    assert client is not None
    count = len(broker.node.listener.connections)
    client.close()
    eventually(lambda: len(broker.node.listener.connections) < count, 10)


def waiting_client(broker: Broker) -> BrokerClient:
    """A client that connects and sends a request, whose answer has not come yet."""
    client = BrokerClient("127.0.0.1", broker.node.listener.port)
    client.socket.sendall(client.frame(API_VERSIONS, 0, {}))
    client.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(20)
    return client


@pytest.mark.parametrize("name", ["max_connections", "listener_name_plaintext_max_connections"])
def test_connections_above_max_connections_wait_until_there_is_room(tmp_path: pathlib.Path, name: str) -> None:
    with running(tmp_path, **{name: "3"}) as broker:
        eventually(lambda: not broker.node.listener.connections, 10)
        served = [broker.connect() for _ in range(3)]
        assert None not in served
        waiting = waiting_client(broker)
        assert broker.reports == ["WARN New connections wait: 3 are open, as many as max.connections allows"]
        assert served[0] is not None
        served[0].close()
        assert waiting.receive(API_VERSIONS, 0).error_code == 0
        waiting.close()


def test_a_lower_max_connections_closes_the_least_used_ones(tmp_path: pathlib.Path) -> None:
    with running(tmp_path, max_connections="4") as broker:
        served = [broker.connect() for _ in range(3)]
        client = served[-1]
        assert client is not None
        begun_ms = broker.node.clock.now_ms()
        while broker.node.clock.now_ms() < begun_ms + 3:  # later than the others, whose time is in ms
            client.call(API_VERSIONS, 0)
        assert alter(client, "max.connections", "1") == 0
        eventually(lambda: len(broker.node.listener.connections) == 1, 10)
        assert client.call(API_VERSIONS, 0).error_code == 0


def alter(client: BrokerClient, name: str, value: str) -> int:
    change = {"name": name, "config_operation": 0, "value": value}
    resource = {"resource_type": BROKER, "resource_name": "", "configs": [change]}
    answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    return int(answer.responses[0].error_code)


def test_connections_above_the_rate_of_the_broker_come_later(tmp_path: pathlib.Path) -> None:
    with running(tmp_path) as broker:
        client = broker.connect()
        assert client is not None
        assert alter(client, "max.connection.creation.rate", "1") == 0
        begun_s = time.monotonic()
        assert [broker.connect() is not None for _ in range(12)] == [True] * 12
        assert 1.5 < time.monotonic() - begun_s < 15  # the 11th and the 12th wait for a window each
        assert alter(client, "max.connection.creation.rate", "1000") == 0
        begun_s = time.monotonic()
        assert broker.connect() is not None
        assert time.monotonic() - begun_s < 1


def test_an_address_above_its_rate_is_closed_later_and_others_are_served(tmp_path: pathlib.Path) -> None:
    quotas = ClientQuotas()
    entity = [SimpleNamespace(entity_type="ip", entity_name=None)]
    quotas.replay(SimpleNamespace(entity=entity, key="connection_creation_rate", value=1.0, remove=False))
    rates = ConnectionRates()
    rates.configure(
        Config(tables.BROKER, {"node.id": "1", "log.dirs": "/none"}), {BROKER_RATE: 1e6}, address_rates(quotas)
    )
    delays = [rates.refusal_ms("10.0.0.1", "A", now_ms, is_protected=False) for now_ms in (0,) * 12]
    assert delays == [0] * 10 + [1000] * 2
    assert rates.refusal_ms("10.0.0.2", "A", 0, is_protected=False) == 0
    assert rates.refusal_ms("10.0.0.1", "A", 11_000, is_protected=False) == 0


def test_max_connections_changes_while_the_broker_runs(tmp_path: pathlib.Path) -> None:
    with running(tmp_path, max_connections="1") as broker:
        client = broker.connect()
        assert client is not None
        waiting = waiting_client(broker)
        assert alter(client, "max.connections", "2") == 0
        assert waiting.receive(API_VERSIONS, 0).error_code == 0
        waiting.close()


def test_a_creation_rate_of_zero_lets_a_connection_in_each_second(tmp_path: pathlib.Path) -> None:
    with running(tmp_path, max_connection_creation_rate="0") as broker:
        begun_s = time.monotonic()
        assert broker.connect() is not None
        assert time.monotonic() - begun_s >= 0.9


def test_an_address_has_its_own_limit(tmp_path: pathlib.Path) -> None:
    with running(
        tmp_path, max_connections_per_ip="1", max_connections_per_ip_overrides="127.0.0.2:2,localhost:3"
    ) as broker:
        wanted = ["127.0.0.1"] * 4 + ["127.0.0.2"] * 3 + ["127.0.0.3"] * 2
        served = [broker.connect(host) for host in wanted]
        assert [each is not None for each in served] == [True] * 3 + [False] + [True] * 2 + [False] + [True, False]
        assert refusals(broker) == [
            "WARN 1 connection was refused: 127.0.0.1 has 3 open, as many as max.connections.per.ip allows"
        ]
        free(broker, served[0])
        assert broker.connect() is not None


def test_refusals_are_told_at_once_and_then_once_a_minute_with_their_number() -> None:
    told: list[str] = []
    limits = ConnectionLimits(report=told.append)
    limits.configure(Config(tables.BROKER, {"max.connections": "0", "node.id": "1", "log.dirs": "/none"}))
    for now_ms in (0, 1, 59_999):
        assert not limits.admit([], "::1", now_ms, is_protected=False)
    limits.report_refused(59_999)
    assert len(told) == 1
    limits.report_refused(60_000)
    limits.report_refused(500_000)
    assert told == [
        "WARN 1 connection was refused: 0 are open, as many as max.connections allows",
        "WARN 2 connections were refused: 0 are open, as many as max.connections allows",
    ]


def test_half_of_few_open_files_is_for_the_log() -> None:
    assert [max_log_files(limit) for limit in (20, 256, 1024, 20_000, UNLIMITED)] == [
        16,
        128,
        MAX_OPEN_FILES,
        MAX_OPEN_FILES,
        MAX_OPEN_FILES,
    ]
    with_peers = ConnectionLimits(20_000, 512)
    alone = with_peers.room
    assert 1 < alone < 20_000 - 512
    with_peers.configure(Config(tables.BROKER, {"node.id": "1", "log.dirs": "/none"}), other_nodes=2)
    assert with_peers.room < alone
    assert with_peers.room + with_peers.reserved_count == 20_000


class Sender:
    """Answers every request with a file, behind `head`."""

    def __init__(self, path: pathlib.Path, head: bytes = b"") -> None:
        self.apis: dict[int, Any] = {}
        self.file = RealFileSystem().open(str(path))
        self.head = head

    def __call__(self, request: Request) -> Response:
        size = self.file.size_bytes
        return [struct.pack(">i", len(self.head) + size) + self.head, FileRegion(self.file, 0, size)]


@pytest.fixture
def sender(tmp_path: pathlib.Path) -> Sender:
    path = tmp_path / "large"
    path.write_bytes(bytes(32 << 20))
    return Sender(path)


def turn(listener: Listener, times: int = 20) -> None:
    for _ in range(times):
        listener.poll(10, 0)


@pytest.mark.parametrize(
    ("address", "host"), [("::ffff:10.0.0.1", "10.0.0.1"), ("::1", "0:0:0:0:0:0:0:1"), ("10.0.0.2", "10.0.0.2")]
)
def test_the_host_of_a_client_has_the_form_of_acls(sender: Sender, address: str, host: str) -> None:
    """A listener on `::` sees IPv4 clients by IPv4-mapped addresses."""
    listener = open_listener(sender)
    acceptor = listener.acceptors[0]
    bound = acceptor.socket
    try:
        acceptor.socket = SimpleNamespace(accept=lambda: (bound.accept()[0], (address, 1, 0, 0)))  # type: ignore[assignment]
        with socket.create_connection(("127.0.0.1", listener.port), 10):
            turn(listener)
            assert [connection.client_host for connection in listener.connections] == [host]
    finally:
        acceptor.socket = bound
        listener.close()


@pytest.mark.parametrize("has_room", [True, False])
def test_who_reads_slowly_is_disconnected_when_no_descriptor_is_left(sender: Sender, has_room: bool) -> None:
    limits = ConnectionLimits(UNLIMITED if has_room else 1)  # room for one connection, and nothing beside it
    listener = open_listener(sender, limits=limits)
    try:
        with socket.create_connection(("127.0.0.1", listener.port), 10) as client:
            client.sendall(struct.pack(">ihhi", 8, API_VERSIONS, 0, 1))
            turn(listener)
            assert len(listener.connections) == has_room
        turn(listener)
        assert not listener.connections
        with socket.create_connection(("127.0.0.1", listener.port), 10) as client:
            turn(listener)
            assert len(listener.connections) == 1  # what it held was given back
    finally:
        listener.close()


def test_another_node_of_the_cluster_is_let_in_and_the_least_used_stranger_goes(sender: Sender) -> None:
    listener = open_listener(sender, limits=ConnectionLimits(1))
    listener.add_acceptor(open_acceptor(sender, name="CONTROLLER", is_protected=True))
    port = listener.acceptors[1].port
    try:
        with (
            socket.create_connection(("127.0.0.1", listener.port), 10) as stranger,
            socket.create_connection(("127.0.0.1", port), 10),
        ):
            turn(listener)
            assert [each.is_protected for each in listener.connections] == [True]
            stranger.settimeout(10)
            assert stranger.recv(1) == b""
            with socket.create_connection(("127.0.0.1", listener.port), 10) as late:
                turn(listener)
                late.settimeout(10)
                assert late.recv(1) == b""
            assert [each.is_protected for each in listener.connections] == [True]
    finally:
        listener.close()


def test_a_file_behind_bytes_that_a_slow_reader_has_not_taken_is_sent_although_it_was_deleted(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"records")
    sender = Sender(path, bytes(60 << 10))
    listener = open_listener(sender)
    try:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", listener.port))
            listener.poll(1000, 0)
            for connection in listener.connections:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            client.sendall(struct.pack(">ihhi", 8, API_VERSIONS, 0, 1))
            while not any(connection._output for connection in listener.connections):
                listener.poll(10, 0)  # until the socket has taken a part of the head
            client.setblocking(False)
            received = bytearray()
            sender.file.close()
            path.unlink()
            while len(received) < 4 + len(sender.head) + len(b"records"):
                listener.poll(10, 0)
                assert listener.connections
                with contextlib.suppress(BlockingIOError):
                    received += client.recv(1 << 20)
            assert received.endswith(b"records")
    finally:
        listener.close()


@contextlib.contextmanager
def no_free_descriptor() -> Iterator[None]:
    """The process may open no more files within the context."""
    with open(os.devnull) as probe:
        lowest_free = probe.fileno()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_without_a_free_descriptor_connections_wait_a_second(sender: Sender) -> None:
    listener = open_listener(sender)
    later = open_acceptor(sender)
    later.is_open = False
    listener.add_acceptor(later)
    clients = [socket.create_connection(("127.0.0.1", port)) for port in (listener.port, listener.port)]
    with no_free_descriptor():
        listener.poll(1000, 5000)
        assert not listener.connections and listener.poll(0, 5001) == 0
        listener.open_acceptors()  # as the broker is unfenced
    clients.append(socket.create_connection(("127.0.0.1", later.port)))
    listener.maintain(5999)
    assert listener.poll(0, 5999) == 0
    listener.maintain(6000)
    for _ in range(3):
        listener.poll(1000, 6000)
    assert len(listener.connections) == 3
    for client in clients:
        client.close()
    listener.close()


class _Refusing:
    """The listening socket of an acceptor whose next accept fails."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self._socket, self._number = sock, number

    def accept(self) -> tuple[socket.socket, Any]:
        if self._number:
            number, self._number = self._number, 0
            raise OSError(number, os.strerror(number))
        return self._socket.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


@pytest.mark.parametrize(
    "number",
    [errno.EPERM, errno.EACCES, errno.EPROTO, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.ENOSR, errno.ESOCKTNOSUPPORT],
)
def test_a_failed_accept_is_reported_and_connections_wait_a_second(sender: Sender, number: int) -> None:
    # accept(2): network errors of the new socket, EPERM of a firewall, and others of some protocols. A security module
    # or seccomp denies the call before the connection leaves the queue.
    reports: list[str] = []
    listener = Listener(report=reports.append)
    for _ in range(2):
        listener.add_acceptor(open_acceptor(sender))
    first = listener.acceptors[0]
    first.socket = _Refusing(first.socket, number)  # type: ignore[assignment]
    with socket.create_connection(("127.0.0.1", listener.port)):
        listener.poll(1000, 5000)
        listener.maintain(5999)
        assert not listener.connections
        assert listener.poll(0, 5999) == 0  # the connection is still in the queue
        assert len(reports) == 1
        assert reports[0].startswith("WARN Error while accepting a connection on PLAINTEXT: ")
        assert os.strerror(number) in reports[0]
        listener.maintain(6000)
        listener.poll(1000, 6000)
        assert len(listener.connections) == 1
        with socket.create_connection(("127.0.0.1", listener.acceptors[1].port)):
            listener.poll(1000, 6000)
            assert len(listener.connections) == 2
    assert len(reports) == 1
    listener.close()


@pytest.mark.parametrize("number", [errno.EBADF, errno.EINVAL, errno.ENOTSOCK])
def test_an_unusable_listening_socket_is_an_error(sender: Sender, number: int) -> None:
    listener = open_listener(sender)
    (acceptor,) = listener.acceptors
    acceptor.socket = _Refusing(acceptor.socket, number)  # type: ignore[assignment]
    with socket.create_connection(("127.0.0.1", listener.port)), pytest.raises(OSError, match=os.strerror(number)):
        listener.poll(1000, 0)
    listener.close()
