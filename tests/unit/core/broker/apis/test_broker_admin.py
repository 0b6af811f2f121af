"""Topics and settings through the API: what is made, what is refused, with Kafka's codes and messages (recorded from
Apache Kafka 4.3.1), and all of it after a restart."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from support.broker_client import BrokerClient, batch

REFUSED = json.loads((pathlib.Path(__file__).parents[4] / "golden" / "broker" / "refused.json").read_text())
CREATE, DELETE, PARTITIONS, DESCRIBE, INCREMENTAL, ALTER, METADATA = 19, 20, 37, 32, 44, 33, 3
SET, DELETE_OP, APPEND, SUBTRACT = range(4)


def create(
    client: BrokerClient, name: str, partitions: int = 1, factor: int = 1, **more: Any
) -> tuple[int, str | None]:
    configs = [{"name": key, "value": value} for key, value in more.pop("configs", {}).items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": factor, "configs": configs, **more}
    result = client.call(CREATE, 7, topics=[topic], timeout=1000).topics[0]
    return int(result.error_code), result.error_message


def alter(
    client: BrokerClient, kind: int, name: str, *changes: tuple[str, int, str | None], validate: bool = False
) -> tuple[int, str | None]:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    found = client.call(INCREMENTAL, 1, resources=[resource], validate_only=validate).responses[0]
    return int(found.error_code), found.error_message


def describe(client: BrokerClient, kind: int, name: str, *keys: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    found = client.call(DESCRIBE, 4, resources=[resource], include_synonyms=True).results[0]
    assert found.error_code == 0, found
    return {entry.name: entry for entry in found.configs}


@pytest.mark.parametrize(("name", "partitions", "factor", "more", "code", "message"), REFUSED["create_topics"])
def test_topics_that_kafka_refuses(
    client: BrokerClient, name: str, partitions: int, factor: int, more: dict[str, Any], code: int, message: str
) -> None:
    assert create(client, "taken") == (0, None)
    assert create(client, "my.topic") == (0, None)
    assert create(client, name, partitions, factor, **more) == (code, message)
    names = {topic.name for topic in client.call(METADATA, 12, topics=None).topics}
    assert names == {"taken", "my.topic"}


def test_defaults_validate_only_and_duplicates(run_node: Callable[..., Any]) -> None:
    client = run_node({"num.partitions": "3"}).connect()
    topic = {"name": "d", "num_partitions": -1, "replication_factor": -1}
    found = client.call(CREATE, 7, topics=[topic], validate_only=True).topics[0]
    assert (found.error_code, found.num_partitions, found.replication_factor) == (0, 3, 1)
    assert client.call(METADATA, 12, topics=None).topics == ()
    twice = client.call(CREATE, 7, topics=[topic, topic]).topics
    assert [(t.error_code, t.error_message) for t in twice] == [(42, "Duplicate topic name.")]
    made = client.call(CREATE, 7, topics=[topic]).topics[0]
    assert {c.name: c.value for c in made.configs}["cleanup.policy"] == "delete"


def test_growing_a_topic(client: BrokerClient) -> None:
    create(client, "alpha", 3)

    def grow(name: str, count: int, assignments: Any = None) -> tuple[int, str | None]:
        topics = [{"name": name, "count": count, "assignments": assignments}]
        found = client.call(PARTITIONS, 3, topics=topics, timeout=1000).results[0]
        return int(found.error_code), found.error_message

    assert grow("alpha", 3) == (37, "Topic already has 3 partition(s).")
    assert grow("alpha", 2) == (37, "The topic alpha currently has 3 partition(s); 2 would not be an increase.")
    assert grow("nope", 2)[0] == 3
    short = grow("alpha", 6, [{"broker_ids": [1]}])
    assert short == (39, "Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified.")
    assert grow("alpha", 4) == (0, None)
    assert client.produce("alpha", batch([b"v"]), partition=3).error_code == 0


def test_deleting_by_name_and_by_id_and_making_it_again(client: BrokerClient) -> None:
    import uuid

    create(client, "gone")
    client.produce("gone", batch([b"v"]))
    found = client.call(DELETE, 6, topics=[{"name": "gone", "topic_id": None}]).responses[0]
    assert (found.error_code, found.name) == (0, "gone")
    assert client.produce("gone", batch([b"v"])).error_code == 3
    assert create(client, "gone") == (0, None)
    topic = client.call(METADATA, 12, topics=[{"name": "gone", "topic_id": None}]).topics[0]
    assert client.produce("gone", batch([b"v"])).base_offset == 0
    by_id = client.call(DELETE, 6, topics=[{"name": None, "topic_id": topic.topic_id}]).responses[0]
    assert (by_id.error_code, by_id.name) == (0, "gone")
    assert client.call(DELETE, 6, topics=[{"name": None, "topic_id": uuid.uuid4()}]).responses[0].error_code == 100
    assert client.call(DELETE, 4, topic_names=["gone"]).responses[0].error_code == 3


def test_settings_of_a_topic_come_and_go(client: BrokerClient) -> None:
    create(client, "t")
    assert alter(client, 2, "t", ("retention.ms", SET, "1000"), ("cleanup.policy", APPEND, "compact")) == (0, None)
    found = describe(client, 2, "t", "retention.ms", "cleanup.policy", "max.message.bytes")
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("1000", 1)
    assert found["cleanup.policy"].value == "delete,compact"
    assert (found["max.message.bytes"].value, found["max.message.bytes"].config_source) == ("1048588", 5)
    assert [(s.name, s.value, s.source) for s in found["retention.ms"].synonyms] == [("retention.ms", "1000", 1)]
    assert alter(client, 2, "t", ("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE_OP, None)) == (0, None)
    found = describe(client, 2, "t", "retention.ms", "cleanup.policy")
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("604800000", "compact")


@pytest.mark.parametrize(("kind", "name", "change", "expected"), REFUSED["alter_configs"])
def test_settings_that_kafka_refuses(
    client: BrokerClient, kind: int, name: str, change: tuple[str, int, str], expected: tuple[int, str]
) -> None:
    create(client, "t")
    assert alter(client, kind, name, tuple(change)) == tuple(expected)


def test_a_changed_setting_works_at_once_and_the_brokers_default_reaches_its_topics(client: BrokerClient) -> None:
    create(client, "t")
    alter(client, 2, "t", ("max.message.bytes", SET, "100"), validate=True)
    assert client.produce("t", batch([b"x" * 200])).error_code == 0
    alter(client, 2, "t", ("max.message.bytes", SET, "100"))
    assert client.produce("t", batch([b"x" * 200])).error_code == 10
    alter(client, 2, "t", ("max.message.bytes", DELETE_OP, None))
    assert alter(client, 4, "", ("message.max.bytes", SET, "100")) == (0, None)
    assert client.produce("t", batch([b"x" * 200])).error_code == 10
    assert describe(client, 2, "t", "max.message.bytes")["max.message.bytes"].config_source == 3
    assert describe(client, 4, "1", "message.max.bytes")["message.max.bytes"].value == "100"


def test_alter_configs_replaces_everything(client: BrokerClient) -> None:
    create(client, "t", configs={"retention.ms": "5", "retention.bytes": "6"})
    resource = {"resource_type": 2, "resource_name": "t", "configs": [{"name": "retention.ms", "value": "7"}]}
    assert client.call(ALTER, 2, resources=[resource], validate_only=False).responses[0].error_code == 0
    found = describe(client, 2, "t", "retention.ms", "retention.bytes")
    assert (found["retention.ms"].value, found["retention.bytes"].value) == ("7", "-1")


def test_metadata_creates_topics_only_when_asked_to(run_node: Callable[..., Any]) -> None:
    client = run_node().connect()
    wanted = [{"topic_id": None, "name": "auto"}]

    def ask(allow: bool) -> int:
        return int(client.call(METADATA, 12, topics=wanted, allow_auto_topic_creation=allow).topics[0].error_code)

    assert ask(False) == 3
    assert ask(True) == 3
    assert ask(True) == 0
    wanted = [{"topic_id": None, "name": "no good"}]
    assert (ask(False), ask(True)) == (17, 17)


def test_a_node_alone_has_its_rack(run_node: Callable[..., Any]) -> None:
    client = run_node({"broker.rack": "shelf"}).connect()
    assert [broker.rack for broker in client.call(METADATA, 12, topics=()).brokers] == ["shelf"]
    assert [broker.rack for broker in client.call(60, 1, endpoint_type=1).brokers] == ["shelf"]


def test_auto_create_can_be_turned_off(run_node: Callable[..., Any]) -> None:
    client = run_node({"auto.create.topics.enable": "false"}).connect()
    topics = client.call(
        METADATA, 12, topics=[{"topic_id": None, "name": "auto"}], allow_auto_topic_creation=True
    ).topics
    assert topics[0].error_code == 3


@pytest.mark.parametrize("version", range(0, 14))
def test_every_version_of_metadata(client: BrokerClient, version: int) -> None:
    create(client, "t", 2)
    answer = client.call(METADATA, version, topics=[] if version == 0 else None)
    assert [(broker.node_id, broker.host) for broker in answer.brokers] == [(1, "127.0.0.1")]
    (topic,) = answer.topics
    assert (topic.name, [(p.partition_index, p.leader_id, p.isr_nodes) for p in topic.partitions]) == (
        "t",
        [(0, 1, (1,)), (1, 1, (1,))],
    )


def test_topics_settings_and_ids_survive_a_restart(run_node: Callable[..., Any]) -> None:
    running = run_node()
    client = running.connect()
    create(client, "kept", 2, configs={"retention.ms": "77000"})
    create(client, "dropped")
    client.call(DELETE, 4, topic_names=["dropped"])
    alter(client, 4, "1", ("log.cleaner.threads", SET, "2"))
    before = client.call(METADATA, 12, topics=None)
    running.stop()
    client = run_node().connect()
    after = client.call(METADATA, 12, topics=None)
    assert (after.cluster_id, after.topics) == (before.cluster_id, before.topics)
    assert describe(client, 2, "kept", "retention.ms")["retention.ms"].value == "77000"
    assert describe(client, 4, "1", "log.cleaner.threads")["log.cleaner.threads"].config_source == 2


def test_topics_described_together_have_their_own_settings(client: BrokerClient) -> None:
    day = {"retention.ms": "86400000"}
    for name, configs in (
        ("plain", {}),
        ("short", day),
        ("other", {}),
        ("same", day),
        ("two", {**day, "flush.ms": "5"}),
    ):
        assert create(client, name, configs=configs) == (0, None)
    asked = ["plain", "short", "missing", "other", "same", "two"]
    resources = [{"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in asked]
    resources.append({"resource_type": 2, "resource_name": "short", "configuration_keys": ["retention.ms"]})
    for version in (1, 4):
        found = client.call(DESCRIBE, version, resources=resources, include_synonyms=True).results
        assert [(each.resource_name, int(each.error_code)) for each in found] == [
            *((name, 3 if name == "missing" else 0) for name in asked), ("short", 0),
        ]  # fmt: skip
        own = [{one.name: one.value for one in each.configs if int(one.config_source) == 1} for each in found]
        assert own == [{}, day, {}, {}, day, {**day, "flush.ms": "5"}, day]
        assert len(found[-1].configs) == 1
        for each in (found[1], found[4]):
            (synonyms,) = [one.synonyms for one in each.configs if one.name == "retention.ms"]
            assert (synonyms[0].name, synonyms[0].value, int(synonyms[0].source)) == ("retention.ms", "86400000", 1)


def test_pages_of_describe_topic_partitions(client: BrokerClient) -> None:
    create(client, "a", 3)
    create(client, "b", 2)
    seen: list[tuple[str, int]] = []
    cursor = None
    pages = 0
    while pages == 0 or cursor is not None:
        answer = client.call(75, 0, topics=[], response_partition_limit=2, cursor=cursor)
        seen += [(topic.name, partition.partition_index) for topic in answer.topics for partition in topic.partitions]
        end = answer.next_cursor
        cursor = None if end is None else {"topic_name": end.topic_name, "partition_index": end.partition_index}
        pages += 1
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert pages == 3


def test_sizes_of_the_log_directory(client: BrokerClient) -> None:
    create(client, "t")
    records = batch([b"x" * 100])
    client.produce("t", records)
    (found,) = client.call(35, 4, topics=None).results
    assert [(t.name, [p.partition_size for p in t.partitions]) for t in found.topics] == [("t", [len(records)])]
    assert found.total_bytes > found.usable_bytes > 0


def test_offset_for_leader_epoch(client: BrokerClient) -> None:
    create(client, "t")
    client.produce("t", batch([b"a", b"b"]))

    def ask(epoch: int, current: int = -1) -> tuple[int, int, int]:
        partitions = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}]
        found = client.call(23, 4, replica_id=-1, topics=[{"topic": "t", "partitions": partitions}])
        end = found.topics[0].partitions[0]
        return int(end.error_code), end.leader_epoch, end.end_offset

    assert ask(0) == (0, 0, 2)
    assert ask(5) == (0, -1, -1)
    assert ask(0, current=3) == (75, -1, -1)


def test_producer_ids_are_given_once_and_never_again_after_a_restart(run_node: Callable[..., Any]) -> None:
    running = run_node()
    client = running.connect()
    first = [client.call(22, 5, transactional_id=None, transaction_timeout=1).producer_id for _ in range(3)]
    running.stop()
    client = run_node().connect()
    later = client.call(22, 5, transactional_id=None, transaction_timeout=1).producer_id
    assert first == [0, 1, 2]
    assert later == 1000
