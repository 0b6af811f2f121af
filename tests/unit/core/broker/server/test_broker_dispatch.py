"""The table of APIs against the handlers and against Kafka's list; the edges of a connection."""

import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient

from kafkatools.core.broker.server.apis import BROKER_APIS, without_telemetry
from kafkatools.core.protocol.messages import build, encode, request_type

API_VERSIONS = Path(__file__).parents[4] / "golden/protocol/api_versions.tsv"


@pytest.mark.parametrize("api", BROKER_APIS.values(), ids=lambda api: api.name)
def test_every_api_has_a_handler_and_headers_are_flexible_when_kafka_s_are(api: Any) -> None:
    assert callable(api.load())
    for version in range(api.lowest, api.highest + 1):
        is_flexible = request_type(api.key, version).__flexible__
        assert is_flexible == (version >= api.flexible_since), version


def test_api_versions_lists_the_table_with_kafkas_ranges(client: BrokerClient) -> None:
    """An API that is served is served in all versions that Apache Kafka 4.3.1 lists for it."""
    rows = [line.split("\t") for line in API_VERSIONS.read_text().splitlines() if not line.startswith("#")]
    kafka = {int(key): (int(first), int(last)) for key, _, first, last, _ in rows}
    kafka[0] = (0, 13)  # Kafka's broker lists Produce from version 0 on
    answer = client.call(18, 3, client_software_name="test", client_software_version="1.0")
    assert answer.error_code == 0
    listed = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    assert listed == {key: kafka[key] for key in listed}
    assert set(listed) == set(without_telemetry(BROKER_APIS))
    assert {(f.name, f.max_version_level) for f in answer.finalized_features} >= {("metadata.version", 30)}


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(client: BrokerClient) -> None:
    client.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    (size,) = struct.unpack(">i", client.read(4))
    correlation_id, error_code, count = struct.unpack(">ihi", client.read(size)[:10])
    assert (correlation_id, error_code, count) == (7, 35, len(without_telemetry(BROKER_APIS)))


def test_a_bad_software_name_is_an_invalid_request(client: BrokerClient) -> None:
    assert client.call(18, 3, client_software_name="-bad-", client_software_version="1").error_code == 42


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">ihhih", 10, 10, 0, 1, -1),  # an API that is not served
        struct.pack(">ihhih", 10, 3, 99, 1, -1),  # a version that is not served
        struct.pack(">ihhih", 10, 3, 9, 1, 500),  # a client id beyond the frame
        struct.pack(">ihhihi", 14, 3, 4, 1, -1, 2**31 - 1),  # an array of two billion topics
        struct.pack(">ihhihhhii", 22, 0, 3, 1, -1, -1, 1, 1000, 2**31 - 1),  # the same of produce
        struct.pack(">i", -1),
        struct.pack(">i", 7),
        struct.pack(">i", 100 * 1024 * 1024 + 1),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
    ],
)
def test_what_cannot_be_served_closes_that_connection_only(run_node: Callable[..., Any], data: bytes) -> None:
    running = run_node()
    other = running.connect()
    hostile = running.connect()
    hostile.socket.sendall(data)
    with pytest.raises(EOFError):
        hostile.read(1)
    assert other.call(60, 0).cluster_id == running.node.cluster_id


@pytest.mark.parametrize("api", BROKER_APIS.values(), ids=lambda api: api.name)
def test_a_request_that_ends_early_closes_the_connection(run_node: Callable[..., Any], api: Any) -> None:
    running = run_node()
    for version in {api.lowest, api.highest}:
        hostile = running.connect()
        fields = {"transactional_id": None} if api.key in (0, 22) else {}
        frame = hostile.frame(api.key, version, fields)
        size = len(encode(build(request_type(api.key, version), fields)))
        if size == 0:
            continue
        hostile.socket.sendall(struct.pack(">i", len(frame) - 4 - size) + frame[4 : len(frame) - size])
        with pytest.raises(EOFError):
            hostile.read(1)


def test_a_request_byte_by_byte_and_two_requests_at_once(client: BrokerClient) -> None:
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in client.frame(60, 0, {}):
        client.socket.sendall(bytes((byte,)))
    assert client.receive(60, 0).controller_id == 1
    client.socket.sendall(client.frame(60, 0, {}) + client.frame(46, 0, {"topics": None}) + client.frame(60, 0, {}))
    assert [client.receive(key, 0).throttle_time for key in (60, 46, 60)] == [0, 0, 0]


def test_announced_frames_cost_no_memory_until_bytes_come(run_node: Callable[..., Any]) -> None:
    running = run_node()
    for _ in range(200):
        running.connect().socket.sendall(struct.pack(">ihhih", 100_000_000, 3, 9, 1, -1))
    assert running.connect().call(60, 0).controller_id == 1
    assert running.node.listener.buffered_bytes < 64 * 1024 * 201
