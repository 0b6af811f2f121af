"""What other nodes forward to the controller: requests within a request."""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.cluster_nodes import ClusterNodes, has_response

from kafkatools.core.protocol import messages

ENVELOPE, CREATE_TOPICS, PRODUCE = 58, 19, 0
LOOPBACK = b"\x7f\0\0\1"
NOT_CONTROLLER, INVALID_REQUEST = 41, 42


@pytest.fixture
def running(tmp_path: pathlib.Path) -> Iterator[ClusterNodes]:
    made = ClusterNodes(tmp_path).start()
    yield made
    made.close()


def forward(cluster: ClusterNodes, node_id: int, data: bytes, host: bytes = LOOPBACK) -> Any:
    """Send an envelope to the controller of a node."""
    client = BrokerClient("127.0.0.1", cluster.ports[node_id][1])
    fields = {"request_data": data, "request_principal": b"", "client_host_address": host}
    body = messages.encode_fields(messages.request_type(ENVELOPE, 0), fields)
    head = struct.pack(">hhih", ENVELOPE, 0, 9, 4) + b"node" + b"\0"
    client.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    try:
        cluster.run_until(lambda: has_response(client))
        size = struct.unpack(">i", client.read(4))[0]
        answer = client.read(size)
    finally:
        client.close()
    assert struct.unpack_from(">i", answer) == (9,)
    return messages.decode(messages.response_type(ENVELOPE, 0), answer, 5)[0]


def create_topic(name: str, correlation_id: int) -> bytes:
    """A whole CreateTopics request without its size."""
    topic = {"name": name, "num_partitions": 1, "replication_factor": 3}
    fields = {"topics": [topic], "timeout": 1000, "validate_only": False}
    body = messages.encode_fields(messages.request_type(CREATE_TOPICS, 7), fields)
    return struct.pack(">hhih", CREATE_TOPICS, 7, correlation_id, 4) + b"test" + b"\0" + body


def test_the_active_controller_answers_with_the_clients_correlation_id(running: ClusterNodes) -> None:
    answer = forward(running, running.controller.node_id, create_topic("inside", 77))
    assert int(answer.error_code) == 0
    assert struct.unpack_from(">ib", answer.response_data) == (77, 0)
    [topic] = messages.decode(messages.response_type(CREATE_TOPICS, 7), answer.response_data, 5)[0].topics
    assert (topic.name, int(topic.error_code)) == ("inside", 0)


@pytest.mark.slow
def test_another_one_says_that_it_is_not_the_controller(running: ClusterNodes) -> None:
    other = next(node_id for node_id in running.ids if node_id != running.controller.node_id)
    answer = forward(running, other, create_topic("elsewhere", 1))
    assert (int(answer.error_code), answer.response_data) == (NOT_CONTROLLER, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "host"),
    [
        (struct.pack(">hhih", PRODUCE, 9, 1, 4) + b"test\0", LOOPBACK),
        (struct.pack(">hhih", CREATE_TOPICS, 99, 1, 4) + b"test\0", LOOPBACK),
        (struct.pack(">hhih", 9999, 0, 1, 4) + b"test\0", LOOPBACK),
        (create_topic("cut", 1)[:-6], LOOPBACK),
        (b"\0", LOOPBACK),
        (create_topic("host", 1), b"\x7f\0"),
    ],
    ids=["not forwarded", "version", "unknown", "cut", "no header", "address"],
)
def test_what_is_no_request_to_a_controller(running: ClusterNodes, data: bytes, host: bytes) -> None:
    answer = forward(running, running.controller.node_id, data, host)
    assert (int(answer.error_code), answer.response_data) == (INVALID_REQUEST, None)
    assert running.lines == []
