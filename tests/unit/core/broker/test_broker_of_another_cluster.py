"""A node alone on the directory of one of several brokers: the others are gone, with what only they had."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from kafkatools.core.broker.metadata.controller import sole_broker
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.protocol.schemas.metadata import PartitionChangeRecord, PartitionRecord, TopicRecord
from kafkatools.core.protocol.uuids import random_uuid

METADATA, FIND_COORDINATOR, CREATE_TOPICS, CREATE_PARTITIONS = 3, 10, 19, 37


def test_brokers_that_are_not_there_are_fenced(run_node: Callable[..., Any]) -> None:
    running = run_node()
    writer, topic_id = running.node.controller.ensure_active(), random_uuid()
    epoch = writer.end_offset
    partition = {"version": 2, "topic_id": topic_id, "leader": 2, "leader_epoch": 3, "partition_epoch": 5}
    records = [
        sole_broker.broker_registration(2, epoch, [("PLAINTEXT", "127.0.0.1", 1, 0)], [random_uuid()], None),
        sole_broker.unfencing(2, epoch),
        TopicRecord(name="shared", topic_id=topic_id),
        PartitionRecord(partition_id=0, replicas=(2, 1), isr=(2, 1), directories=(None, None), **partition),
        PartitionRecord(partition_id=1, replicas=(2,), isr=(2,), directories=(None,), **partition),
    ]
    writer.append(records, running.node.clock.wall_ms())
    running.stop()
    running = run_node()
    client = running.connect()
    assert [broker.node_id for broker in client.call(METADATA, 12, topics=None).brokers] == [1]
    shared = running.node.image.topics["shared"].partitions
    assert [(shared[index].leader, shared[index].leader_epoch) for index in (0, 1)] == [(1, 4), (-1, 4)]
    client.call(CREATE_TOPICS, 7, topics=[{"name": "new", "num_partitions": 4, "replication_factor": 1}])
    assert {each.leader for each in running.node.image.topics["new"].partitions.values()} == {1}


def test_a_partition_that_is_led_again_has_no_eligible_leaders_left(run_node: Callable[..., Any]) -> None:
    """As a stop of a single node of Apache Kafka leaves its partitions."""
    running = run_node()
    running.node.member.create_topic(NewTopic("a", 1, 1))
    change = {"isr": (), "leader": -1, "eligible_leader_replicas": (1,), "last_known_elr": (1,)}
    topic_id = running.node.image.topics["a"].topic_id
    record = PartitionChangeRecord(version=2, topic_id=topic_id, partition_id=0, **change)
    running.node.controller.ensure_active().append([record], running.node.clock.wall_ms())
    running.stop()
    partition = run_node().node.image.topics["a"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (1, (1,), (), ())


def test_topics_of_a_copy_without_metadata_log_have_no_gaps(
    run_node: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    settings = {"offsets.topic.num.partitions": "5"}
    running = run_node(settings)
    client = running.connect()
    client.call(CREATE_TOPICS, 7, topics=[{"name": "a", "num_partitions": 3, "replication_factor": 1}])
    client.call(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    running.stop()
    for name in ("__cluster_metadata-0", "a-1", "__consumer_offsets-1", "__consumer_offsets-4"):
        shutil.rmtree(tmp_path / "data" / name)
    running = run_node(settings)
    topics = running.node.image.topics
    assert {name: sorted(topic.partitions) for name, topic in topics.items()} == {
        "a": [0, 1, 2],
        "__consumer_offsets": [0, 1, 2, 3, 4],
    }
    client = running.connect()
    found = client.call(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=list("abcdefgh")).coordinators
    assert {(each.error_code, each.node_id) for each in found} == {(0, 1)}
    client.call(CREATE_PARTITIONS, 3, topics=[{"name": "a", "count": 4, "assignments": None}])
    assert [topics["a"].partitions[index].leader_epoch for index in range(4)] == [1, 0, 1, 0]
