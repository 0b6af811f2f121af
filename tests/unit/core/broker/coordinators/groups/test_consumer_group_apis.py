"""The APIs of consumer groups over the wire: versions, who may ask, settings that turn the protocol off, and the log
that outlives the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.broker_client import BrokerClient

HEARTBEAT, DESCRIBE = 68, 69
GROUP_DENIED, UNSUPPORTED_VERSION = 30, 35
STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
SUBSCRIPTION = b"\0\1\0\0\0\1\0\6basket\xff\xff\xff\xff\0\0\0\0"


def create_topic(client: BrokerClient) -> None:
    topic = {"name": "basket", "num_partitions": 2, "replication_factor": 1}
    assert client.call(19, 5, topics=[topic], timeout=5000).topics[0].error_code == 0


def join(client: BrokerClient, version: int = 1, member_id: str = "a", **changes: Any) -> Any:
    fields = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["basket"],
        "topic_partitions": [],
        **changes,
    }
    return client.call(HEARTBEAT, version, **fields)


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_is_described_and_outlives_the_node(run_node: Callable[..., Any], version: int) -> None:
    running = run_node()
    client = running.connect()
    create_topic(client)
    joined = join(client, version, member_id="" if version == 0 else "a")
    assert (joined.error_code, joined.member_epoch) == (0, 2)
    assert [(len(t.partitions)) for t in joined.assignment.topic_partitions] == [2]
    before = client.call(DESCRIBE, version, group_ids=["g"])
    (member,) = before.groups[0].members
    assert (before.groups[0].group_state, member.member_id, member.client_host) == (
        "Stable",
        joined.member_id,
        "/127.0.0.1",
    )
    running.stop()
    client = run_node().connect()
    assert client.call(DESCRIBE, version, group_ids=["g"]) == before
    left = client.call(HEARTBEAT, version, group_id="g", member_id=joined.member_id, member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (0, -1)


def test_the_protocol_can_be_left_out(run_node: Callable[..., Any]) -> None:
    client = run_node({"group.coordinator.rebalance.protocols": "classic"}).connect()
    create_topic(client)
    assert join(client).error_code == UNSUPPORTED_VERSION
    assert client.call(DESCRIBE, 1, group_ids=["g"]).groups[0].error_code == UNSUPPORTED_VERSION


def test_nobody_may_do_anything_with_groups_unless_allowed(run_node: Callable[..., Any]) -> None:
    client = run_node(STANDARD).connect()
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": "basket", "partitions": [partition]}]
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
    group = {"group_id": "g"}
    member = {**group, "member_id": "a", "generation_id": 1}
    classic = {**group, "member_id": "", "session_timeout": 10_000, "rebalance_timeout": 10_000}
    sync = {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}
    fetched = client.call(9, 9, groups=[{"group_id": "g", "topics": None}]).groups[0]
    committed = client.call(8, 9, **group, member_id="", generation_id_or_member_epoch=-1, topics=topics).topics[0]
    codes = [
        join(client).error_code,
        client.call(DESCRIBE, 1, group_ids=["g"]).groups[0].error_code,
        client.call(11, 9, **classic, protocol_type="consumer", protocols=protocols).error_code,
        client.call(14, 5, **member, **sync).error_code,
        client.call(12, 4, **member).error_code,
        client.call(13, 5, **group, members=[{"member_id": "a"}]).error_code,
        client.call(15, 6, groups=["g"]).groups[0].error_code,
        client.call(42, 2, groups_names=["g"]).results[0].error_code,
        client.call(47, 0, **group, topics=[]).error_code,
        fetched.error_code,
        committed.partitions[0].error_code,
    ]
    assert codes == [GROUP_DENIED] * 11
    assert client.call(16, 5, states_filter=[], types_filter=[]).groups == ()


def test_offsets_that_an_open_transaction_commits_are_unstable(run_node: Callable[..., Any]) -> None:
    running = run_node()
    client = running.connect()
    create_topic(client)
    join(client)
    from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset

    running.node.groups.offsets.pending.put(5, "g", ("basket", 0), CommittedOffset(9))
    wanted = [{"name": "basket", "partition_indexes": [0, 1]}]

    def codes(require_stable: bool) -> list[int]:
        groups = [{"group_id": "g", "topics": wanted}]
        answer = client.call(9, 8, groups=groups, require_stable=require_stable).groups[0]
        return [each.error_code for each in answer.topics[0].partitions]

    assert codes(require_stable=True) == [88, 0]
    assert codes(require_stable=False) == [0, 0]
