"""APIs between nodes of a cluster are refused to clients without CLUSTER_ACTION."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.broker_client import FLEXIBLE_SINCE, BrokerClient
from support.embedded import embedded_broker

from kafkatools.core.broker.server.apis import CONTROLLER_APIS
from kafkatools.core.broker.server.requests import Request
from kafkatools.core.errors import ClusterAuthorizationFailed, TopicAuthorizationFailed
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.uuids import random_uuid

REFUSED = ClusterAuthorizationFailed.code
TOPIC_ID = random_uuid()
STATE = {"group_id": "g", "topics": [{"topic_id": TOPIC_ID, "partitions": [{"partition": 0}]}]}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerClient]:
    """A broker with an authorizer and no ACLs: nobody may do anything."""
    directory: Path = tmp_path_factory.mktemp("internal")
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with embedded_broker(directory, authorizer_class_name=authorizer) as bootstrap:
        host, port = bootstrap.rsplit(":", 1)
        with BrokerClient(host, int(port)) as made:
            yield made


@pytest.mark.parametrize(("api_key", "version"), [(83, 0), (84, 0), (85, 1), (86, 0), (87, 1)])
def test_the_state_of_share_groups_is_for_brokers(client: BrokerClient, api_key: int, version: int) -> None:
    answer = client.call(api_key, version, **STATE)
    assert [int(each.error_code) for each in answer.results[0].partitions] == [REFUSED]


@pytest.mark.parametrize("version", [1, 2])
def test_transaction_markers_are_for_brokers(client: BrokerClient, version: int) -> None:
    topics = [{"name": "t", "partition_indexes": [0]}]
    marker = {"producer_id": 1, "producer_epoch": 0, "transaction_result": True, "topics": topics}
    answer = client.call(27, version, markers=[marker])
    assert [int(each.error_code) for each in answer.markers[0].topics[0].partitions] == [REFUSED]


def test_partitions_of_several_transactions_are_for_brokers(client: BrokerClient) -> None:
    transaction = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, "verify_only": True, "topics": []}
    assert int(client.call(24, 5, transactions=[transaction]).error_code) == REFUSED


@pytest.mark.parametrize("version", [11, 12])
def test_a_fetch_in_the_name_of_a_replica_is_for_brokers(client: BrokerClient, version: int) -> None:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    fields = {"max_wait": 0, "min_bytes": 0, "topics": [{"topic": "t", "partitions": [partition]}]}
    answer = client.call(1, version, replica_id=2, session_epoch=-1, **fields)
    assert int(answer.responses[0].partitions[0].error_code) == TopicAuthorizationFailed.code


def test_the_coordinator_of_share_state_is_for_brokers(client: BrokerClient) -> None:
    answer = client.call(10, 6, key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAQ:0"])
    assert int(answer.coordinators[0].error_code) == REFUSED


class Stranger:
    """A node that nobody may act for, and that must not be asked for anything else."""

    clock = SimpleNamespace(now_ms=lambda: 0)
    raft = object()

    @property
    def controller(self) -> Any:
        """Its methods are named before the request is looked at; none is called."""
        return SimpleNamespace(alter_partitions=None, assign_directories=None)

    def authorize(self, *_: Any) -> bool:
        return False

    def authorize_or_raise(self, *_: Any) -> None:
        raise ClusterAuthorizationFailed


# Registration, heartbeat, ISR changes, producer ids, directories, envelopes; the quorum's own.
OF_NODES = [1, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73]


@pytest.mark.parametrize("api_key", OF_NODES)
def test_the_controllers_own_apis_are_for_nodes(api_key: int) -> None:
    api = CONTROLLER_APIS[api_key]
    for version in range(api.lowest, api.highest + 1):
        body = messages.encode(messages.build(messages.request_type(api_key, version), {}))
        frame = memoryview(bytearray(body))
        connection: Any = SimpleNamespace(client_host="127.0.0.1")
        request = Request(connection, frame, (api_key, version, 1))
        request.is_flexible = version >= FLEXIBLE_SINCE[api_key]
        node: Any = Stranger()
        (response,) = api.load()(node, request)
        size = struct.unpack_from(">i", response)[0]
        assert size + 4 == len(response)
        offset = 9 if request.is_flexible else 8
        entity, _ = messages.decode(messages.response_type(api_key, version), response, offset)
        assert int(entity.error_code) == REFUSED, version
