"""The APIs of share groups over the wire: members, records that are handed out once, sessions, locks, and the state
that outlives the node."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from support.broker_client import BrokerClient

from kafkatools.core.records.builder import BatchBuilder

HEARTBEAT, DESCRIBE, FETCH, ACKNOWLEDGE, OFFSETS, ALTER = 76, 77, 78, 79, 90, 91
ACCEPT, RELEASE = 1, 2
GROUP_DENIED, UNSUPPORTED_VERSION, FENCED_MEMBER_EPOCH, NON_EMPTY, NO_GROUP, NO_SESSION = 30, 35, 110, 68, 69, 122
STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}


def create_topic(client: BrokerClient, partitions: int = 2) -> uuid.UUID:
    topic = {"name": "queue", "num_partitions": partitions, "replication_factor": 1}
    topic_id: uuid.UUID = client.call(19, 7, topics=[topic], timeout=5000).topics[0].topic_id
    read_from_the_start(client)
    return topic_id


def read_from_the_start(client: BrokerClient, **more: str) -> None:
    values = {"share.auto.offset.reset": "earliest", **more}
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in values.items()]
    client.call(44, 1, resources=[{"resource_type": 32, "resource_name": "g", "configs": configs}])


def produce(client: BrokerClient, count: int, partition: int = 0) -> None:
    builder = BatchBuilder(1 << 16)
    for i in range(count):
        builder.append(i, None, b"%d" % i)
    data = [{"index": partition, "records": bytes(builder.close())}]
    fields = {"acks": -1, "timeout": 5000, "topic_data": [{"name": "queue", "partition_data": data}]}
    assert client.call(0, 9, **fields).responses[0].partition_responses[0].error_code == 0


def join(client: BrokerClient, member_id: str = "a", epoch: int = 0, **changes: Any) -> Any:
    fields = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, **changes}
    if epoch == 0:
        fields.setdefault("subscribed_topic_names", ["queue"])
    return client.call(HEARTBEAT, 1, **fields)


def partitions_of(heartbeat: Any) -> list[int]:
    return [index for topic in heartbeat.assignment.topic_partitions for index in topic.partitions]


def acknowledgements(topic_id: uuid.UUID, rows: list[tuple[int, int, int]], partition: int = 0) -> list[Any]:
    batches = [{"first_offset": a, "last_offset": b, "acknowledge_types": [kind]} for a, b, kind in rows]
    return [{"topic_id": topic_id, "partitions": [{"partition_index": partition, "acknowledgement_batches": batches}]}]


def fetch(client: BrokerClient, topic_id: uuid.UUID, epoch: int = 0, member_id: str = "a", **changes: Any) -> Any:
    fields = {
        "group_id": "g",
        "member_id": member_id,
        "share_session_epoch": epoch,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 100,
        "batch_size": 100,
        "topics": acknowledgements(topic_id, []) if epoch == 0 else [],
        "forgotten_topics_data": [],
        **changes,
    }
    return client.call(FETCH, 2, **fields)


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]


def acknowledge(client: BrokerClient, topic_id: uuid.UUID, epoch: int, *rows: tuple[int, int, int]) -> int:
    topics = acknowledgements(topic_id, list(rows))
    answer = client.call(ACKNOWLEDGE, 1, group_id="g", member_id="a", share_session_epoch=epoch, topics=topics)
    return int(answer.error_code or answer.responses[0].partitions[0].error_code)


def start_offset(client: BrokerClient) -> tuple[int, int]:
    topics = [{"topic_name": "queue", "partitions": [0]}]
    found = client.call(OFFSETS, 1, groups=[{"group_id": "g", "topics": topics}]).groups[0].topics[0].partitions[0]
    return (found.start_offset, found.lag)


def test_members_share_partitions_and_are_described(run_node: Callable[..., Any]) -> None:
    running = run_node(SETTINGS)
    client = running.connect()
    create_topic(client)
    first = join(client, "a")
    assert (first.error_code, partitions_of(first)) == (0, [0, 1])
    second = join(client, "b")
    assert len(partitions_of(second)) == 1
    moved = join(client, "a", first.member_epoch)
    assert len(partitions_of(moved)) == 1
    assert join(client, "a", moved.member_epoch).assignment is None
    assert join(client, "a", 99).error_code == FENCED_MEMBER_EPOCH
    before = client.call(DESCRIBE, 1, group_ids=["g"])
    assert (before.groups[0].group_state, [member.member_id for member in before.groups[0].members]) == (
        "Stable",
        ["a", "b"],
    )
    running.stop()
    client = run_node(SETTINGS).connect()
    assert client.call(DESCRIBE, 1, group_ids=["g"]) == before
    assert join(client, "b", -1).error_code == 0
    left = join(client, "a", moved.member_epoch)
    assert partitions_of(left) == [0, 1]


def test_a_group_is_assigned_again_after_the_assignment_interval(run_node: Callable[..., Any]) -> None:
    client = run_node({**SETTINGS, "group.share.assignment.interval.ms": "1000"}).connect()
    create_topic(client)
    first = join(client, "a")
    assert partitions_of(first) == [0, 1]  # the first assignment waits for nothing
    begun = time.monotonic()
    second = join(client, "b")
    assert (partitions_of(second), second.member_epoch) == ([], first.member_epoch)
    while (beaten := join(client, "b", second.member_epoch)).assignment is None:
        assert time.monotonic() < begun + 10
        time.sleep(0.02)
    assert len(partitions_of(beaten)) == 1
    assert time.monotonic() > begun + 0.5


def test_a_topic_that_a_member_no_longer_subscribes_to_is_taken_from_it_at_once(run_node: Callable[..., Any]) -> None:
    client = run_node({**SETTINGS, "group.share.assignment.interval.ms": "1000"}).connect()
    create_topic(client)
    client.call(19, 7, topics=[{"name": "other", "num_partitions": 1, "replication_factor": 1}], timeout=5000)
    first = join(client)
    assert partitions_of(first) == [0, 1]
    changed = join(client, "a", first.member_epoch, subscribed_topic_names=["other"])
    assert (partitions_of(changed), changed.member_epoch) == ([], first.member_epoch)
    begun = time.monotonic()
    while (beaten := join(client, "a", first.member_epoch)).assignment is None:
        assert time.monotonic() < begun + 10
        time.sleep(0.02)
    assert (partitions_of(beaten), beaten.member_epoch) == ([0], first.member_epoch + 1)


@pytest.mark.parametrize("durability", ["none", "fsync"])
def test_what_is_acknowledged_outlives_the_node(run_node: Callable[..., Any], durability: str) -> None:
    running = run_node({**SETTINGS, "log.durability": durability})
    client = running.connect()
    topic_id = create_topic(client)
    join(client)
    produce(client, 10)
    assert acquired(fetch(client, topic_id)) == [(0, 9, 1)]
    assert acknowledge(client, topic_id, 1, (0, 2, ACCEPT), (5, 6, ACCEPT), (8, 8, RELEASE)) == 0
    assert start_offset(client) == (0, 5)
    running.stop()
    client = run_node(SETTINGS).connect()
    assert start_offset(client) == (3, 5)
    assert acquired(fetch(client, topic_id)) == [(3, 4, 2), (7, 9, 2)]
    assert acknowledge(client, topic_id, 1, (3, 4, ACCEPT), (7, 9, ACCEPT)) == 0
    assert start_offset(client)[1] == 0


def test_a_fetch_waits_for_records_and_for_those_that_others_release(run_node: Callable[..., Any]) -> None:
    running = run_node(SETTINGS)
    one, two = running.connect(), running.connect()
    topic_id = create_topic(one)
    join(one, "a")
    join(one, "b")
    two.socket.sendall(two.frame(FETCH, 2, waiting(topic_id)))
    produce(one, 3)
    assert acquired(two.receive(FETCH, 2)) == [(0, 2, 1)]
    one_waits = running.connect()
    one_waits.socket.sendall(one_waits.frame(FETCH, 2, {**waiting(topic_id), "member_id": "a"}))
    two.close()  # the session of b ends with its connection
    assert acquired(one_waits.receive(FETCH, 2)) == [(0, 2, 2)]


def waiting(topic_id: uuid.UUID) -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": "b",
        "share_session_epoch": 0,
        "max_wait": 20_000,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 100,
        "batch_size": 100,
        "topics": acknowledgements(topic_id, []),
        "forgotten_topics_data": [],
    }


def test_records_of_a_member_that_leaves_stay_acquired_until_its_session_is_closed(
    run_node: Callable[..., Any],
) -> None:
    client = run_node(SETTINGS).connect()
    topic_id = create_topic(client)
    join(client, "a")
    join(client, "b")
    produce(client, 4)
    assert acquired(fetch(client, topic_id)) == [(0, 3, 1)]
    assert acquired(fetch(client, topic_id, member_id="b")) == []
    join(client, "a", -1)
    assert acknowledge(client, topic_id, 1, (0, 0, ACCEPT)) == 0
    assert acquired(fetch(client, topic_id, 1, member_id="b")) == []
    fetch(client, topic_id, -1)
    assert acquired(fetch(client, topic_id, 2, member_id="b", max_wait=10_000)) == [(1, 3, 2)]
    assert acknowledge(client, topic_id, 2, (1, 3, ACCEPT)) == NO_SESSION


def test_only_committed_records_are_delivered_when_the_group_asks_for_that(run_node: Callable[..., Any]) -> None:
    client = run_node(SETTINGS).connect()
    topic_id = create_topic(client)
    read_from_the_start(client, **{"share.isolation.level": "read_committed"})
    join(client)
    client.call(10, 4, key_type=1, coordinator_keys=["t"])
    for is_committed, count in ((False, 2), (True, 3)):
        made = client.call(22, 4, transactional_id="t", transaction_timeout=60_000, producer_id=-1, producer_epoch=-1)
        who = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        topics = [{"name": "queue", "partitions": [0]}]
        client.call(24, 3, v3_and_below_transactional_id="t", v3_and_below_producer_id=made.producer_id,
                    v3_and_below_producer_epoch=made.producer_epoch, v3_and_below_topics=topics)  # fmt: skip
        builder = BatchBuilder(4096, base_sequence=0, is_transactional=True, **who)
        for i in range(count):
            builder.append(i, None, b"x")
        data = [{"name": "queue", "partition_data": [{"index": 0, "records": bytes(builder.close())}]}]
        sent = client.call(0, 9, transactional_id="t", acks=-1, timeout=5000, topic_data=data)
        assert sent.responses[0].partition_responses[0].error_code == 0
        if not is_committed:
            assert acquired(fetch(client, topic_id)) == []
        assert client.call(26, 3, transactional_id="t", committed=is_committed, **who).error_code == 0
    answer = fetch(client, topic_id, 1, max_wait=5000)
    assert [span[:2] for span in acquired(answer)] == [(2, 6)]  # 0-1 aborted, 2 and 6 are markers
    assert acknowledge(client, topic_id, 2, (2, 6, ACCEPT)) == 0
    assert start_offset(client)[1] == 0


def test_an_offset_is_set_only_while_nobody_reads(run_node: Callable[..., Any]) -> None:
    client = run_node(SETTINGS).connect()
    topic_id = create_topic(client)
    produce(client, 5)
    topics = [{"topic_name": "queue", "partitions": [{"partition_index": 0, "start_offset": 3}]}]
    join(client)
    assert client.call(ALTER, 0, group_id="g", topics=topics).error_code == NON_EMPTY
    assert acquired(fetch(client, topic_id)) == [(0, 4, 1)]
    join(client, epoch=-1)
    assert client.call(ALTER, 0, group_id="g", topics=topics).error_code == 0
    assert start_offset(client) == (3, 2)
    join(client)
    assert acquired(fetch(client, topic_id)) == [(3, 4, 1)]


def test_a_deleted_topic_takes_its_state_along(run_node: Callable[..., Any]) -> None:
    running = run_node(SETTINGS)
    client = running.connect()
    topic_id = create_topic(client)
    join(client)
    produce(client, 5)
    fetch(client, topic_id)
    client.call(20, 6, topics=[{"name": "queue", "topic_id": None}], timeout=5000)
    described = client.call(OFFSETS, 1, groups=[{"group_id": "g", "topics": None}]).groups[0]
    assert (described.error_code, described.topics) == (0, ())
    again = create_topic(client)
    produce(client, 2)
    assert partitions_of(join(client)) == [0, 1]
    assert acquired(fetch(client, again)) == [(0, 1, 1)]


def test_an_empty_group_is_deleted_with_its_state(run_node: Callable[..., Any]) -> None:
    client = run_node(SETTINGS).connect()
    topic_id = create_topic(client)
    join(client)
    produce(client, 5)
    fetch(client, topic_id)
    acknowledge(client, topic_id, 1, (0, 1, ACCEPT))
    assert client.call(42, 2, groups_names=["g"]).results[0].error_code == NON_EMPTY
    join(client, epoch=-1)
    assert client.call(42, 2, groups_names=["g"]).results[0].error_code == 0
    assert client.call(DESCRIBE, 1, group_ids=["g"]).groups[0].error_code == NO_GROUP
    assert start_offset(client) == (-1, -1)


def test_nobody_may_do_anything_with_share_groups_unless_allowed(run_node: Callable[..., Any]) -> None:
    client = run_node(STANDARD).connect()
    topic_id = uuid.UUID(int=5)
    codes = [
        join(client).error_code,
        client.call(DESCRIBE, 1, group_ids=["g"]).groups[0].error_code,
        fetch(client, topic_id).error_code,
        acknowledge(client, topic_id, 1, (0, 0, ACCEPT)),
        client.call(OFFSETS, 1, groups=[{"group_id": "g", "topics": None}]).groups[0].error_code,
        client.call(ALTER, 0, group_id="g", topics=[]).error_code,
    ]
    assert codes == [GROUP_DENIED] * len(codes)


def test_a_cluster_without_the_feature_refuses(run_node: Callable[..., Any]) -> None:
    client = run_node(SETTINGS).connect()
    update = {"feature": "share.version", "max_version_level": 0, "upgrade_type": 2}
    assert client.call(57, 1, timeout=5000, feature_updates=[update]).error_code == 0
    assert join(client).error_code == UNSUPPORTED_VERSION
    assert fetch(client, uuid.UUID(int=5)).error_code == UNSUPPORTED_VERSION
