"""The APIs of groups over the wire: every version is answered in full, waiting requests are answered on their own
connections, and what was committed is there after the node was started again."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest
from support import offset_id_story
from support.broker_client import BrokerClient
from support.embedded import embedded_broker

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE_GROUPS, OFFSET_DELETE = (
    8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47,
)  # fmt: skip
QUICK = {"group.initial.rebalance.delay.ms": "0"}
NO_MEMBER = {"member_id": "", "generation_id_or_member_epoch": -1}


@pytest.fixture
def node(run_node: Callable[..., Any]) -> Any:
    """A node whose groups do not wait for more members."""
    return run_node(QUICK)


@pytest.fixture
def wire(node: Any) -> BrokerClient:
    """A connection to it; it has the topic `basket` of two partitions."""
    client: BrokerClient = node.connect()
    create_topic(client, "basket")
    return client


def create_topic(client: BrokerClient, name: str) -> None:
    topic = {"name": name, "num_partitions": 2, "replication_factor": 1}
    assert client.call(19, 5, topics=[topic], timeout=5000).topics[0].error_code == 0


def topic_id(client: BrokerClient, name: str) -> Any:
    return client.call(3, 12, topics=[{"name": name}]).topics[0].topic_id


def join(client: BrokerClient, version: int = 9, member_id: str = "", **changes: Any) -> Any:
    fields = {
        "group_id": "g",
        "session_timeout": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"subscription"}],
        **({"rebalance_timeout": 10_000} if version else {}),
        **changes,
    }
    answer = client.call(JOIN, version, **fields)
    return join(client, version, answer.member_id, **changes) if answer.error_code == 79 else answer


def sync(client: BrokerClient, joined: Any, version: int = 5, **fields: Any) -> Any:
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    fields = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id, **names, **fields}
    return client.call(SYNC, version, **fields)


def commit(client: BrokerClient, version: int = 9, group: str = "g", offset: int = 7, **fields: Any) -> list[int]:
    fields = {**NO_MEMBER, **fields}
    partitions = [{"partition_index": index, "committed_offset": offset, "committed_metadata": "m"} for index in (0, 2)]
    topics: list[dict[str, Any]] = [{"partitions": partitions}, {"partitions": partitions[:1]}]
    for topic, name in zip(topics, ("basket", "nothing"), strict=True):
        topic.update(
            {"topic_id": topic_id(client, "basket") if name == "basket" else None} if version >= 10 else {"name": name}
        )
    answer = client.call(COMMIT, version, group_id=group, topics=topics, **fields)
    basket = topics[0].get("topic_id") or "basket"
    is_basket = [basket in (getattr(topic, "name", None), getattr(topic, "topic_id", None)) for topic in answer.topics]
    assert is_basket in ([True, False], [False, True])
    rows = {
        (not of_basket, each.partition_index): each.error_code
        for of_basket, topic in zip(is_basket, answer.topics, strict=True)
        for each in topic.partitions
    }
    return [code for _, code in sorted(rows.items())]  # Kafka's order is that of tests/support/offset_id_story.py


@pytest.mark.parametrize(("codec", "code"), [("0", 28), ("1", 0)], ids=["none", "gzip"])
def test_a_commit_counts_as_too_large_by_its_compressed_size(
    run_node: Callable[..., Any], codec: str, code: int
) -> None:
    settings = {**QUICK, "message.max.bytes": "3000", "offsets.topic.compression.codec": codec}
    client = run_node(settings).connect()
    create_topic(client, "basket")
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "m" * 4_000}
    topics = [{"name": "basket", "partitions": [partition]}]
    answer = client.call(COMMIT, 9, group_id="g", topics=topics, **NO_MEMBER)
    assert answer.topics[0].partitions[0].error_code == code


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(wire: BrokerClient, version: int) -> None:
    if version >= 4:
        answers = wire.call(FIND, version, key_type=0, coordinator_keys=["a", "b"]).coordinators
        assert [each.key for each in answers] == ["a", "b"]
        refused = wire.call(FIND, version, key_type=9, coordinator_keys=["t"]).coordinators[0]
        assert (refused.key, refused.error_code, refused.node_id, refused.port) == ("t", 42, -1, -1)
        assert "malformed" in refused.error_message
    else:
        answers = [wire.call(FIND, version, key="a", **({"key_type": 0} if version else {}))]
    for each in answers:
        assert (each.error_code, each.node_id, each.host) == (0, 1, "127.0.0.1")
        if version:
            assert each.error_message == ("NONE" if version < 4 else "")
    topic = wire.call(3, 12, topics=[{"name": "__consumer_offsets"}]).topics[0]
    assert (topic.is_internal, len(topic.partitions)) == (True, 50)
    wanted = [{"resource_type": 2, "resource_name": "__consumer_offsets", "configuration_keys": None}]
    found = {config.name: config.value for config in wire.call(32, 4, resources=wanted).results[0].configs}
    assert found["cleanup.policy"] == "compact"
    assert found["compression.type"] == "producer"
    assert found["segment.bytes"] == "104857600"


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_beats_and_leaves_in_every_version(wire: BrokerClient, version: int) -> None:
    joined = join(wire, version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert [(member.member_id, member.metadata) for member in joined.members] == [(joined.member_id, b"subscription")]
    given = [{"member_id": joined.member_id, "assignment": b"all of it"}]
    synced = sync(wire, joined, min(version, 5), assignments=given)
    assert (synced.error_code, synced.assignment) == (0, b"all of it")
    place = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id}
    assert wire.call(HEARTBEAT, min(version, 4), **place).error_code == 0
    assert commit(wire, max(2, version), member_id=joined.member_id, generation_id_or_member_epoch=1)[0] == 0
    if min(version, 5) >= 3:
        left = wire.call(
            LEAVE, min(version, 5), group_id="g", members=[{"member_id": joined.member_id}, {"member_id": "x"}]
        )
        assert (left.error_code, [member.error_code for member in left.members]) == (0, [0, 25])
    else:
        assert wire.call(LEAVE, version, group_id="g", member_id=joined.member_id).error_code == 0
        assert wire.call(LEAVE, version, group_id="g", member_id=joined.member_id).error_code == 25
    assert wire.call(HEARTBEAT, min(version, 4), **place).error_code == 25


def test_the_second_member_makes_the_first_join_again(node: Any, wire: BrokerClient) -> None:
    other = node.connect()
    first = join(wire)
    sync(wire, first, assignments=[{"member_id": first.member_id, "assignment": b"all"}])
    required = other.call(JOIN, 9, group_id="g", session_timeout=10_000, rebalance_timeout=10_000, member_id="",
                          protocol_type="consumer", protocols=[{"name": "range", "metadata": b"two"}])  # fmt: skip
    assert required.error_code == 79
    fields = {"group_id": "g", "session_timeout": 10_000, "rebalance_timeout": 10_000,
              "member_id": required.member_id, "protocol_type": "consumer",
              "protocols": [{"name": "range", "metadata": b"two"}]}  # fmt: skip
    other.socket.sendall(other.frame(JOIN, 9, fields))
    place = {"group_id": "g", "generation_id": 1, "member_id": first.member_id}
    deadline = time.monotonic() + 10
    while wire.call(HEARTBEAT, 4, **place).error_code != 27:
        assert time.monotonic() < deadline
    again = join(wire, member_id=first.member_id)
    joined = other.receive(JOIN, 9)
    assert (again.generation_id, joined.generation_id, len(again.members)) == (2, 2, 2)
    waiting = {"group_id": "g", "generation_id": 2, "member_id": joined.member_id,
               "protocol_type": "consumer", "protocol_name": "range"}  # fmt: skip
    other.socket.sendall(other.frame(SYNC, 5, waiting))
    given = [{"member_id": again.member_id, "assignment": b"a"}, {"member_id": joined.member_id, "assignment": b"b"}]
    assert sync(wire, again, assignments=given).assignment == b"a"
    assert other.receive(SYNC, 5).assignment == b"b"
    described = wire.call(DESCRIBE, 6, groups=["g"]).groups[0]
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert {(m.client_id, m.client_host, m.member_assignment) for m in described.members} == {
        ("test", "/127.0.0.1", b"a"),
        ("test", "/127.0.0.1", b"b"),
    }


def test_sync_must_name_the_protocol_from_version_5_on(wire: BrokerClient) -> None:
    joined = join(wire)
    assert sync(wire, joined, protocol_name=None).error_code == 23


@pytest.mark.parametrize("version", range(2, 11))
def test_commits_of_every_version_are_fetched_in_every_version(wire: BrokerClient, version: int) -> None:
    assert commit(wire, version) == [0, 3, 100 if version >= 10 else 3]
    basket = topic_id(wire, "basket")
    for fetch_version in range(1, 11):
        named = {"topic_id": basket} if fetch_version >= 10 else {"name": "basket"}
        topics = [{**named, "partition_indexes": [0, 1]}]
        if fetch_version >= 8:
            answer = wire.call(FETCH, fetch_version, groups=[{"group_id": "g", "topics": topics}]).groups[0]
        else:
            answer = wire.call(FETCH, fetch_version, group_id="g", topics=topics)
        if fetch_version >= 2:
            assert answer.error_code == 0
        found = [(each.partition_index, each.committed_offset, each.metadata) for each in answer.topics[0].partitions]
        assert found == [(0, 7, "m"), (1, -1, "")]
    everything = wire.call(FETCH, 10, groups=[{"group_id": "g", "topics": None}]).groups[0]
    assert [(t.topic_id, [p.committed_offset for p in t.partitions]) for t in everything.topics] == [(basket, [7])]
    assert wire.call(FETCH, 7, group_id="other", topics=None).topics == ()


def test_metadata_that_is_too_long_and_an_unknown_topic_id(wire: BrokerClient) -> None:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 4097}
    answer = wire.call(COMMIT, 9, group_id="g", **NO_MEMBER, topics=[{"name": "basket", "partitions": [partition]}])
    assert answer.topics[0].partitions[0].error_code == 12
    groups = [{"group_id": "g", "topics": [{"topic_id": None, "partition_indexes": [0]}]}]
    assert wire.call(FETCH, 10, groups=groups).groups[0].topics[0].partitions[0].error_code == 100


def test_groups_are_listed_by_state_and_type(wire: BrokerClient) -> None:
    commit(wire, group="simple")
    joined = join(wire)
    for version in range(6):
        found = {each.group_id: each for each in wire.call(LIST, version).groups}
        assert sorted(found) == ["g", "simple"]
        assert (found["g"].protocol_type, found["simple"].protocol_type) == ("consumer", "")
        if version >= 4:
            assert found["g"].group_state == "CompletingRebalance"
        if version >= 5:
            assert found["g"].group_type == "classic"
    assert [each.group_id for each in wire.call(LIST, 4, states_filter=["empty"]).groups] == ["simple"]
    assert wire.call(LIST, 5, types_filter=["share"]).groups == ()
    sync(wire, joined)
    assert [
        each.group_id for each in wire.call(LIST, 5, states_filter=["Stable"], types_filter=["Classic"]).groups
    ] == ["g"]


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(wire: BrokerClient, version: int) -> None:
    joined = join(wire)
    groups = wire.call(DESCRIBE, version, groups=["g", "nothing"]).groups
    assert (groups[0].error_code, groups[0].group_state, groups[0].protocol_type) == (
        0,
        "CompletingRebalance",
        "consumer",
    )
    assert [(m.member_id, m.member_metadata, m.member_assignment) for m in groups[0].members] == [
        (joined.member_id, b"", b"")
    ]
    assert groups[1].group_state == "Dead"
    assert groups[1].error_code == (69 if version >= 6 else 0)
    if version >= 3:
        asked = wire.call(DESCRIBE, version, groups=["g"], include_authorized_operations=True).groups[0]
        assert (groups[0].authorized_operations, asked.authorized_operations) == (-(1 << 31), 3400)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(wire: BrokerClient, version: int) -> None:
    commit(wire, group="simple")
    join(wire)
    results = wire.call(DELETE_GROUPS, version, groups_names=["simple", "g", "nothing"]).results
    assert [(each.group_id, each.error_code) for each in results] == [("simple", 0), ("g", 68), ("nothing", 69)]
    assert wire.call(FETCH, 7, group_id="simple", topics=None).topics == ()


def test_offsets_are_deleted(wire: BrokerClient) -> None:
    commit(wire)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("basket", "nothing")]
    assert wire.call(OFFSET_DELETE, 0, group_id="other", topics=topics).error_code == 69
    answer = wire.call(OFFSET_DELETE, 0, group_id="g", topics=topics)
    assert answer.error_code == 0
    assert [topic.partitions[0].error_code for topic in answer.topics] == [0, 3]
    assert wire.call(FETCH, 7, group_id="g", topics=None).topics == ()


def test_commits_outlive_the_node_and_go_with_their_topic(run_node: Callable[..., Any]) -> None:
    first = run_node({**QUICK, "offsets.topic.num.partitions": "3"})
    client = first.connect()
    for name in ("basket", "trio"):
        create_topic(client, name)
    for name in ("basket", "trio"):
        partitions = [{"partition_index": 1, "committed_offset": 3, "committed_metadata": None}]
        client.call(COMMIT, 9, group_id="g", **NO_MEMBER, topics=[{"name": name, "partitions": partitions}])
    joined = join(client, group_id="members", version=3)
    sync(client, joined, group_id="members")
    first.stop()
    second = run_node(QUICK)
    client = second.connect()
    topics = client.call(FETCH, 7, group_id="g", topics=None).topics
    assert [(topic.name, topic.partitions[0].committed_offset) for topic in topics] == [("basket", 3), ("trio", 3)]
    place = {"group_id": "members", "generation_id": 1, "member_id": joined.member_id}
    assert client.call(HEARTBEAT, 4, **place).error_code == 0
    client.call(20, 5, topic_names=["basket"], timeout=5000)
    assert [topic.name for topic in client.call(FETCH, 7, group_id="g", topics=None).topics] == ["trio"]
    client.call(20, 5, topic_names=["__consumer_offsets"], timeout=5000)
    assert client.call(HEARTBEAT, 4, **place).error_code == 25
    assert client.call(LIST, 5).groups == ()


def test_commits_wait_for_the_disk_when_it_is_asked_for(run_node: Callable[..., Any]) -> None:
    client = run_node({**QUICK, "log.durability": "fsync"}).connect()
    create_topic(client, "basket")
    for _ in range(3):
        assert commit(client) == [0, 3, 3]
    joined = join(client, group_id="h")
    assert joined.error_code == 0


def test_offsets_by_topic_id_are_answered_and_written_as_by_apache_kafka(tmp_path: pathlib.Path) -> None:
    """Topics that are unknown, deleted, and created again; tests/golden/broker/offsets-by-topic-id.json is Kafka's."""
    with embedded_broker(tmp_path, offsets_topic_num_partitions="2") as bootstrap:
        assert offset_id_story.tell(bootstrap) == offset_id_story.golden()


@pytest.mark.parametrize(("protocol", "version"), [("consumer", 10), ("classic", 9)])
def test_members_of_the_consumer_protocol_commit_by_topic_id(
    tmp_path: pathlib.Path, protocol: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"offsets_topic_num_partitions": "2", "group_initial_rebalance_delay_ms": "0"}
    with embedded_broker(tmp_path, **settings) as bootstrap:
        offset_id_story.commit_as_member(bootstrap, protocol, version, monkeypatch)
