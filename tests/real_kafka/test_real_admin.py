"""The admin client against Apache Kafka."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.waiting import eventually

from kafkatools.core import config as config_tables
from kafkatools.core import errors
from kafkatools.core.admin import cluster, configs, offsets, reassignments, topics
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewPartitions, NewTopic
from kafkatools.core.clock import SystemClock

pytestmark = pytest.mark.real_kafka


@pytest.fixture
def admin(real_kafka: Any) -> Iterator[AdminClient]:
    with AdminClient(real_kafka.bootstrap, {"client.id": "test"}, SystemClock()) as client:
        yield client


def make_topic(admin: AdminClient, name: str, **fields: Any) -> None:
    created = topics.create_topics(admin, [NewTopic(name, **fields)])
    assert created[name].error is None, created
    eventually(lambda: topics.describe_topics(admin, names=[name])[name].error is None)


def names(admin: AdminClient) -> set[str]:
    return {each.name for each in topics.list_topics(admin)}


def test_topic_is_created_listed_described_and_deleted(admin: AdminClient) -> None:
    created = topics.create_topics(admin, [NewTopic("adm-a", 3, 1, configs={"retention.ms": "1000"})])["adm-a"]
    assert (created.error, created.num_partitions, created.replication_factor) == (None, 3, 1)
    eventually(lambda: "adm-a" in names(admin))
    listing = {each.name: each for each in topics.list_topics(admin)}["adm-a"]
    assert listing.topic_id == created.topic_id
    assert not listing.is_internal

    by_name = topics.describe_topics(admin, names=["adm-a", "adm-none"])
    described = by_name["adm-a"]
    assert [(part.partition, part.replicas, part.isr) for part in described.partitions] == [
        (index, (1,), (1,)) for index in range(3)
    ]
    assert described.partitions[0].leader == 1
    assert described.partitions[0].elr == ()
    assert isinstance(by_name["adm-none"].error, errors.UnknownTopicOrPartition)
    assert listing.topic_id is not None
    assert topics.describe_topics(admin, ids=[listing.topic_id])[listing.topic_id].name == "adm-a"
    unknown = "AAAAAAAAAAAAAAAAAAAAAw"
    assert isinstance(topics.describe_topics(admin, ids=[unknown])[unknown].error, errors.UnknownTopicId)

    deleted = topics.delete_topics(admin, ["adm-a", "adm-none"])
    assert deleted["adm-a"].error is None
    assert isinstance(deleted["adm-none"].error, errors.UnknownTopicOrPartition)
    eventually(lambda: "adm-a" not in names(admin))


def test_pages_of_a_description_are_put_together(admin: AdminClient) -> None:
    make_topic(admin, "adm-p1", num_partitions=7)
    make_topic(admin, "adm-p2", num_partitions=4)
    described = topics.describe_topics(admin, names=["adm-p2", "adm-p1"], partition_limit=3)
    assert list(described) == ["adm-p2", "adm-p1"]
    assert [part.partition for part in described["adm-p1"].partitions] == list(range(7))
    assert [part.partition for part in described["adm-p2"].partitions] == list(range(4))


def test_errors_of_creation_are_kafkas_per_topic(admin: AdminClient) -> None:
    make_topic(admin, "adm-b", num_partitions=1)
    created = topics.create_topics(
        admin,
        [
            NewTopic("adm-b", 1, 1),
            NewTopic("bad name", 1, 1),
            NewTopic("adm-b3", 1, 3),
            NewTopic("adm-b4", 1, 1, configs={"retention.ms": "never"}),
            NewTopic("adm-b5", 0, 1),
            NewTopic("adm-b6", replicas_assignments={0: [1], 1: [1]}),
        ],
    )
    found = {name: type(each.error) for name, each in created.items()}
    assert found == {
        "adm-b": errors.TopicAlreadyExists,
        "bad name": errors.InvalidTopic,
        "adm-b3": errors.InvalidReplicationFactor,
        "adm-b4": errors.InvalidConfig,
        "adm-b5": errors.InvalidPartitions,
        "adm-b6": type(None),
    }
    assert str(created["adm-b"].error) == "Topic 'adm-b' already exists."
    assert created["adm-b6"].num_partitions == 2


def test_validate_only_creates_nothing(admin: AdminClient) -> None:
    assert topics.create_topics(admin, [NewTopic("adm-v", 1, 1)], validate_only=True)["adm-v"].error is None
    assert "adm-v" not in names(admin)


def test_partitions_are_added(admin: AdminClient) -> None:
    make_topic(admin, "adm-c", num_partitions=1)
    assert topics.create_partitions(admin, [NewPartitions("adm-c", 3, [[1], [1]])])["adm-c"].error is None
    eventually(lambda: len(topics.describe_topics(admin, names=["adm-c"])["adm-c"].partitions) == 3)
    fewer = topics.create_partitions(admin, [NewPartitions("adm-c", 2)])["adm-c"].error
    assert isinstance(fewer, errors.InvalidPartitions)


def test_configs_are_described_with_sources_and_synonyms_and_changed(admin: AdminClient) -> None:
    make_topic(admin, "adm-d", num_partitions=1, configs={"retention.ms": "7000"})
    key = (configs.TOPIC, "adm-d")
    described = configs.describe_configs(admin, [key, (configs.TOPIC, "adm-none")], include_synonyms=True)
    assert isinstance(described[configs.TOPIC, "adm-none"].error, errors.UnknownTopicOrPartition)
    entries = {entry.name: entry for entry in described[key].entries}
    public = {setting.name for setting in config_tables.TOPIC if not setting.internal}
    assert set(entries) == public
    retention = entries["retention.ms"]
    assert (retention.value, retention.is_default, retention.source_name) == ("7000", False, "DYNAMIC_TOPIC_CONFIG")
    assert [(each.name, each.source_name) for each in retention.synonyms][0] == ("retention.ms", "DYNAMIC_TOPIC_CONFIG")
    assert entries["cleanup.policy"].is_default

    changes = [
        configs.ConfigChange("retention.ms", None, configs.DELETE),
        configs.ConfigChange("cleanup.policy", "compact", configs.APPEND),
        configs.ConfigChange("segment.ms", "1234"),
    ]
    altered = configs.incremental_alter_configs(
        admin, {key: changes, (configs.TOPIC, "adm-none"): [configs.ConfigChange("segment.ms", "1")]}
    )
    assert altered[key] is None
    assert isinstance(altered[configs.TOPIC, "adm-none"], errors.UnknownTopicOrPartition)

    def after() -> tuple[str | None, ...]:
        values = {entry.name: entry.value for entry in configs.describe_configs(admin, [key])[key].entries}
        return values["retention.ms"], values["cleanup.policy"], values["segment.ms"]

    eventually(lambda: after() == ("604800000", "delete,compact", "1234"))  # the broker learns of it later


def test_config_of_a_broker_comes_from_that_broker(admin: AdminClient) -> None:
    key = (configs.BROKER, "1")
    described = configs.describe_configs(admin, [key, (configs.TOPIC, "adm-none")], names=["node.id", "log.dirs"])
    entries = {entry.name: entry for entry in described[key].entries}
    assert entries["node.id"].value == "1"
    assert entries["node.id"].is_read_only
    assert entries["node.id"].source_name == "STATIC_BROKER_CONFIG"


def test_offsets_of_every_kind(admin: AdminClient, real_kafka: Any) -> None:
    make_topic(admin, "adm-e", num_partitions=1)
    real_kafka.tool("console-producer", "--topic", "adm-e", stdin=b"a\nb\nc\n")
    part = ("adm-e", 0)

    def offset(timestamp: int) -> offsets.PartitionOffset:
        return offsets.list_offsets(admin, {part: timestamp})[part]

    assert (offset(offsets.LATEST).offset, offset(offsets.EARLIEST).offset) == (3, 0)
    assert offset(offsets.EARLIEST_LOCAL).offset == 0
    newest = offset(offsets.MAX_TIMESTAMP)
    assert newest.timestamp > 1_600_000_000_000
    assert 0 <= newest.offset < 3
    assert offset(newest.timestamp).offset <= newest.offset
    assert offset(newest.timestamp + 100_000).offset == -1
    assert offset(0).offset == 0
    assert offset(offsets.LATEST_TIERED).offset == -1
    assert offset(offsets.EARLIEST_PENDING_UPLOAD).offset == -1
    committed = offsets.list_offsets(admin, {part: -1}, isolation_level=offsets.READ_COMMITTED)
    assert committed[part].offset == 3

    deleted = topics.delete_records(admin, {part: 2, ("adm-none", 0): 1, ("adm-e", 9): 1})
    assert deleted[part] == (2, None)
    assert isinstance(deleted["adm-none", 0].error, errors.UnknownTopicOrPartition)
    assert isinstance(deleted["adm-e", 9].error, errors.UnknownTopicOrPartition)
    assert offset(offsets.EARLIEST).offset == 2
    beyond = topics.delete_records(admin, {part: 99})[part]
    assert isinstance(beyond.error, errors.OffsetOutOfRange)


def test_cluster_is_described(admin: AdminClient, real_kafka: Any) -> None:
    described = cluster.describe_cluster(admin)
    assert [node.id for node in described.nodes] == [1]
    assert f"{described.nodes[0].host}:{described.nodes[0].port}" == real_kafka.bootstrap
    assert described.controller_id == 1
    assert described.cluster_id


def test_nothing_is_being_reassigned(admin: AdminClient) -> None:
    make_topic(admin, "adm-f", num_partitions=1)
    assert reassignments.list_reassignments(admin) == {}
    assert reassignments.list_reassignments(admin, [("adm-f", 0)]) == {}
