"""Our consumer in groups of the embedded broker, with other people's members and through faults."""

from __future__ import annotations

import signal
import subprocess
import uuid
from typing import Any

import pytest
from support.group_members import (
    CLIENTS_PYTHON,
    COOPERATIVE,
    RANGE,
    Sharing,
    java_member,
    kt_member,
    librdkafka_member,
    new_topic,
    our_member,
    produce_everywhere,
    share_with,
)
from support.requirements import require

from kafkatools.core.consumer.subscription import TopicPartition


@pytest.mark.real_kafka
@pytest.mark.parametrize(
    ("args", "settings"),
    [
        (("--group-protocol", "classic", "--assignment-strategy", RANGE), {}),
        (
            ("--group-protocol", "classic", "--assignment-strategy", COOPERATIVE),
            {"partition_assignment_strategy": COOPERATIVE},
        ),
    ],
    ids=["eager", "cooperative"],
)
def test_a_java_member_and_ours_share_a_topic(
    broker: Any, kafka_jars: str, args: tuple[str, ...], settings: dict[str, Any]
) -> None:
    share_with(broker.bootstrap, java_member, *args, **settings)


@pytest.mark.clients
def test_a_librdkafka_member_and_ours_share_a_topic(broker: Any) -> None:
    if subprocess.run([CLIENTS_PYTHON, "-c", "import confluent_kafka"], capture_output=True, check=False).returncode:
        require(f"{CLIENTS_PYTHON} has no confluent_kafka")
    share_with(broker.bootstrap, librdkafka_member, "partition.assignment.strategy=range,roundrobin")


def test_a_stopped_member_comes_back_fenced_and_commits_nothing_of_what_it_lost(make_broker: Any) -> None:
    broker = make_broker()
    broker.start(group_min_session_timeout_ms="500", group_initial_rebalance_delay_ms="0")
    topic, group = new_topic(broker.bootstrap), f"stopped-{uuid.uuid4().hex[:8]}"
    short = {"session.timeout.ms": "1500", "heartbeat.interval.ms": "200", "auto.commit.interval.ms": "50"}
    member = kt_member(broker.bootstrap, topic, group, *(f"{name}={value}" for name, value in short.items()))
    try:
        with our_member(broker.bootstrap, group, **short) as consumer:
            consumer.subscribe([topic])
            ours = Sharing(consumer)
            ours.until(lambda: len(ours.owned) == 2 and len(member.owned) == 2)
            produce_everywhere(broker.bootstrap, topic, 3)
            ours.until(lambda: len(ours.records) == 6 and len(member.records) == 6)
            theirs = sorted(member.owned)
            member.signal(signal.SIGSTOP)
            ours.until(lambda: len(ours.owned) == 4)
            produce_everywhere(broker.bootstrap, topic, 4)
            ours.until(lambda: {(part, 6) for part in range(4)} <= set(ours.records))
            consumer.commit_sync()
            member.signal(signal.SIGCONT)
            ours.until(lambda: len(member.owned) == 2 and len(ours.owned) == 2 and bool(member.lost))
            assert member.lost == theirs
            committed = consumer.committed([(topic, part) for part in range(4)])
            assert [found and found.offset for found in committed.values()] == [7] * 4
            produce_everywhere(broker.bootstrap, topic, 1)
            ours.until(lambda: len(set(ours.records) | set(member.records)) == 32)
            newest = [record for record in ours.records + member.records if record[1] == 7]
            assert sorted(newest) == [(part, 7) for part in range(4)]
    finally:
        member.signal(signal.SIGCONT)
        member.stop()


def test_the_broker_is_killed_and_members_go_on(make_broker: Any) -> None:
    broker = make_broker()
    broker.start(group_initial_rebalance_delay_ms="0")
    topic, group = new_topic(broker.bootstrap), f"killed-{uuid.uuid4().hex[:8]}"
    with our_member(broker.bootstrap, group, reconnect_backoff_max_ms="200") as consumer:
        consumer.subscribe([topic])
        ours = Sharing(consumer)
        produce_everywhere(broker.bootstrap, topic, 3)
        ours.until(lambda: len(ours.records) == 12)
        consumer.commit_sync()
        broker.kill()
        consumer.poll(100)
        broker.start(group_initial_rebalance_delay_ms="0")
        produce_everywhere(broker.bootstrap, topic, 2)
        ours.until(lambda: len(ours.records) == 20)
        consumer.commit_sync()
        committed = consumer.committed([(topic, part) for part in range(4)])
        assert {part: found and found.offset for part, found in committed.items()} == {
            TopicPartition(topic, part): 5 for part in range(4)
        }
    assert sorted(ours.records) == [(part, n) for part in range(4) for n in range(5)]
