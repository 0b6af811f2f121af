"""Our consumer in groups of Apache Kafka: alone, with Java members, with librdkafka members, in both protocols."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support import offset_id_story, pattern_story
from support.apache_kafka import ApacheKafka
from support.group_members import (
    CLIENTS_PYTHON,
    COOPERATIVE,
    RANGE,
    close_as_told,
    java_member,
    librdkafka_member,
    new_topic,
    our_member,
    share_with,
)
from support.raw_client import RawClient
from support.rebalances import Told, settle
from support.requirements import require

from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.group_subscription import SubscriptionPattern
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import CommitFailed, InvalidRegularExpression
from kafkatools.core.protocol.api_versions import ApiKey

pytestmark = pytest.mark.real_kafka
# Members of the consumer protocol hear of a rebalance with a heartbeat, by default every 5 s.
QUICK = {"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "200"}


@pytest.fixture(scope="module")
def cluster(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One node whose members hear of everything soon."""
    assert kafka_jars
    made = ApacheKafka(tmp_path_factory.mktemp("groups"), settings=QUICK)
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("args", "settings"),
    [
        (("--group-protocol", "classic", "--assignment-strategy", RANGE), {}),
        (
            ("--group-protocol", "classic", "--assignment-strategy", COOPERATIVE),
            {"partition_assignment_strategy": COOPERATIVE},
        ),
        (("--group-protocol", "consumer"), {"group_protocol": "consumer"}),
    ],
    ids=["eager", "cooperative", "consumer"],
)
def test_a_java_member_and_ours_share_a_topic(
    cluster: ApacheKafka, args: tuple[str, ...], settings: dict[str, Any]
) -> None:
    share_with(cluster.bootstrap, java_member, *args, **settings)


@pytest.mark.clients
@pytest.mark.parametrize(
    ("args", "settings"),
    [
        (("partition.assignment.strategy=cooperative-sticky",), {"partition_assignment_strategy": COOPERATIVE}),
        (("group.protocol=consumer",), {"group_protocol": "consumer"}),
    ],
    ids=["cooperative", "consumer"],
)
def test_a_librdkafka_member_and_ours_share_a_topic(
    cluster: ApacheKafka, args: tuple[str, ...], settings: dict[str, Any]
) -> None:
    if subprocess.run([CLIENTS_PYTHON, "-c", "import confluent_kafka"], capture_output=True, check=False).returncode:
        require(f"{CLIENTS_PYTHON} has no confluent_kafka")
    share_with(cluster.bootstrap, librdkafka_member, *args, **settings)


def group_name() -> str:
    return f"ours-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_removed_member_cannot_commit_and_loses_its_partitions(cluster: ApacheKafka, protocol: str) -> None:
    topic, told = new_topic(cluster.bootstrap, 2), Told()
    settings = {"group_protocol": protocol, "enable_auto_commit": "false"}
    with our_member(cluster.bootstrap, group_name(), **settings) as consumer:
        consumer.subscribe([topic], told)
        settle([consumer], 2)
        remove(cluster.bootstrap, consumer, protocol)
        with pytest.raises(CommitFailed):
            consumer.commit_sync({(topic, 0): 3})
        while len([call for call in told.calls if call[1]]) < 3:
            consumer.poll(50)
        assert [call for call in told.calls if call[1]] == [
            ("assigned", [0, 1]),
            ("lost", [0, 1]),
            ("assigned", [0, 1]),
        ]
        assert consumer.committed([(topic, 0)]) == {TopicPartition(topic, 0): None}
        consumer.commit_sync({(topic, 0): 0})


def remove(bootstrap: str, consumer: Consumer, protocol: str) -> None:
    """The coordinator forgets the member, as if its session had expired."""
    known = consumer.group_metadata()
    with RawClient(bootstrap) as client:
        if protocol == "classic":
            leaving = {"member_id": known.member_id, "group_instance_id": None}
            answer = client.call(ApiKey.LEAVE_GROUP, 5, {"group_id": known.group_id, "members": [leaving]})
        else:
            fields = {"group_id": known.group_id, "member_id": known.member_id, "member_epoch": -1}
            answer = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields)
        assert int(answer.error_code) == 0


def test_the_brokers_pattern_finds_topics_as_they_come(cluster: ApacheKafka) -> None:
    prefix = f"pattern-{uuid.uuid4().hex[:8]}"
    with RawClient(cluster.bootstrap) as client:
        client.create_topic(f"{prefix}-a", 1)
    with our_member(cluster.bootstrap, group_name(), group_protocol="consumer") as consumer:
        consumer.subscribe(SubscriptionPattern(f"{prefix}.*"))
        settle([consumer], 1)
        assert consumer.assignment() == [(f"{prefix}-a", 0)]
    with our_member(cluster.bootstrap, group_name(), group_protocol="consumer") as consumer:
        consumer.subscribe(SubscriptionPattern("(broken"))
        with pytest.raises(InvalidRegularExpression):
            settle([consumer], 1)


def test_a_consumer_member_that_does_not_poll_leaves_and_comes_back(cluster: ApacheKafka) -> None:
    topic, group, told = new_topic(cluster.bootstrap, 2), group_name(), Told()
    how = {"group_protocol": "consumer", "enable_auto_commit": "false"}
    with (
        our_member(cluster.bootstrap, group, max_poll_interval_ms="1500", **how) as slow,
        our_member(cluster.bootstrap, group, **how) as other,
    ):
        slow.subscribe([topic], told)
        settle([slow], 2)
        other.subscribe([topic])
        settle([other], 2)
        with pytest.raises(CommitFailed):
            slow.commit_sync({(topic, 0): 1})
        settle([slow, other], 1, 1)
        assert [call for call in told.calls if call[1]][:2] == [("assigned", [0, 1]), ("lost", [0, 1])]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_restarts_and_gets_its_partitions_back(cluster: ApacheKafka, protocol: str) -> None:
    topic, group, told = new_topic(cluster.bootstrap, 2), group_name(), Told()
    with our_member(cluster.bootstrap, group, group_instance_id="b", group_protocol=protocol) as stays:
        stays.subscribe([topic], told)
        first = our_member(cluster.bootstrap, group, group_instance_id="a", group_protocol=protocol)
        first.subscribe([topic])
        settle([first, stays], 1, 1)
        told.calls.clear()
        had = first.assignment()
        first.close()
        with our_member(cluster.bootstrap, group, group_instance_id="a", group_protocol=protocol) as again:
            again.subscribe([topic])
            settle([again, stays], 1, 1)
            assert again.assignment() == had
            assert [call for call in told.calls if call[1]] == []


def test_members_of_both_protocols_share_while_a_group_is_upgraded(cluster: ApacheKafka) -> None:
    topic, group = new_topic(cluster.bootstrap, 2), group_name()
    with our_member(cluster.bootstrap, group) as old:
        old.subscribe([topic])
        settle([old], 2)
        with our_member(cluster.bootstrap, group, group_protocol="consumer") as new:
            new.subscribe([topic])
            settle([old, new], 1, 1)
            old.close()
            settle([new], 2)


def test_offsets_by_topic_id(cluster: ApacheKafka) -> None:
    """Where tests/golden/broker/offsets-by-topic-id.json comes from."""
    assert offset_id_story.tell(cluster.bootstrap) == offset_id_story.golden()


@pytest.mark.parametrize(("protocol", "version"), [("consumer", 10), ("classic", 9)])
def test_members_of_the_consumer_protocol_commit_by_topic_id(
    cluster: ApacheKafka, protocol: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset_id_story.commit_as_member(cluster.bootstrap, protocol, version, monkeypatch)


def test_odd_patterns(cluster: ApacheKafka) -> None:
    """Where tests/golden/re2/matches.json comes from."""
    assert pattern_story.tell(cluster.bootstrap) == pattern_story.golden()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_leaves_or_stays_when_it_closes(cluster: ApacheKafka, protocol: str) -> None:
    close_as_told(cluster.bootstrap, protocol)
