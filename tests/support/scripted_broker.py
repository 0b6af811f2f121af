"""A server on loopback that answers Kafka requests from a script, turned by `run_once` or by a thread of its own.

It says what a test wants a broker to say, right or wrong. `answers` maps an API key to what is said: a function of
(header, request entity) that gives the fields of the response, raw bytes to put on the wire, SILENCE or CLOSE.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from support.frames import encode_response, feed

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import FrameReader, RequestHeader, decode_request_header
from kafkatools.core.protocol.messages import build, decode, request_type, response_type

SILENCE = object()
CLOSE = object()
TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)

Answer = Callable[[RequestHeader, Any], Any]


class ScriptedBroker:
    """One listener; `requests` holds the headers and entities in the order they came."""

    def __init__(
        self, answers: Mapping[int, Answer] | None = None, versions: Mapping[int, tuple[int, int]] | None = None
    ) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.answers: dict[int, Answer] = {ApiKey.API_VERSIONS: self.say_versions, ApiKey.METADATA: self.say_cluster}
        self.answers.update(answers or {})
        self.versions = dict(versions or {})
        self.nodes = {1: self.port}
        self.topics: list[dict[str, Any]] = []
        self.requests: list[tuple[RequestHeader, Any]] = []
        self.is_disconnecting = False  # the next `run_once` closes every connection
        self._connections: dict[socket.socket, FrameReader] = {}

    def count(self, api_key: int) -> int:
        """How many requests of an API came."""
        return sum(header.api_key == api_key for header, _ in self.requests)

    def say_versions(self, header: RequestHeader, request: Any) -> Any:
        """All versions there are, or those of `versions`; telemetry only if it is scripted, as brokers have it only
        with a plugin."""
        keys_of_all = [key for key in ApiKey if key in self.answers or key not in TELEMETRY]
        ranges = {int(key): (key.first_version, key.last_version) for key in keys_of_all} | self.versions
        keys = [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in ranges.items()]
        return {"api_keys": keys}

    def say_cluster(self, header: RequestHeader, request: Any) -> Any:
        """`nodes` and `topics`."""
        brokers = [{"node_id": node, "host": "127.0.0.1", "port": port} for node, port in self.nodes.items()]
        return {"brokers": brokers, "topics": self.topics, "controller_id": 1, "cluster_id": "c"}

    def run_once(self, wait_s: float = 0.002) -> None:
        """Accept, read and answer what there is."""
        if self.is_disconnecting:
            self.disconnect_all()
            self.is_disconnecting = False
        arrived = select.poll()  # unlike select(), it takes descriptors above 1023
        sockets = {sock.fileno(): sock for sock in (self.listener, *self._connections)}
        for descriptor in sockets:
            arrived.register(descriptor, select.POLLIN)
        for sock in [sockets[descriptor] for descriptor, _ in arrived.poll(wait_s * 1000)]:
            if sock is self.listener:
                connection, _ = self.listener.accept()
                self._connections[connection] = FrameReader()
            else:
                self._read(sock)

    def _read(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(1 << 20)
        except ConnectionError:
            data = b""
        if not data:
            self._drop(sock)
            return
        reader = self._connections[sock]
        feed(reader, data)
        for frame in reader.receive():
            if sock in self._connections:  # an answer may have been to close it
                self._answer(sock, frame)

    def _answer(self, sock: socket.socket, frame: memoryview) -> None:
        header = decode_request_header(frame)
        api = ApiKey(header.api_key)
        low, high = api.first_version, api.last_version
        entity = None
        if low <= header.api_version <= high:
            entity, _ = decode(request_type(header.api_key, header.api_version), frame, header.body_offset)
        self.requests.append((header, entity))
        said = self.answers[header.api_key](header, entity)
        if said is SILENCE:
            return
        if said is CLOSE:
            self._drop(sock)
            return
        if isinstance(said, Mapping):
            response = build(response_type(header.api_key, header.api_version), known_fields(header, said))
            said = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        sock.sendall(said)

    def disconnect_all(self) -> None:
        """Close every connection."""
        for sock in list(self._connections):
            self._drop(sock)

    def _drop(self, sock: socket.socket) -> None:
        del self._connections[sock]
        sock.close()

    def close(self) -> None:
        """Close everything."""
        self.disconnect_all()
        self.listener.close()

    @contextmanager
    def in_background(self) -> Iterator[ScriptedBroker]:
        """Turned by a thread until the end of the block."""
        stop = threading.Event()

        def turn() -> None:
            while not stop.is_set():
                self.run_once(0.01)

        thread = threading.Thread(target=turn)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()
            self.close()


def known_fields(header: RequestHeader, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without the fields of a response that its version does not have."""
    known = response_type(header.api_key, header.api_version).__layout__.names
    return {name: value for name, value in fields.items() if name in known}


def partition(index: int, leader: int = 1, epoch: int = 0, error: int = 0) -> dict[str, Any]:
    """A partition of a Metadata response."""
    return {
        "partition_index": index, "leader_id": leader, "leader_epoch": epoch, "replica_nodes": (1,), "isr_nodes": (1,),
        "error_code": error,
    }  # fmt: skip
