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

SHORT = {
    "classic": {"session.timeout.ms": "1500", "heartbeat.interval.ms": "200"},
    "consumer": {"group.protocol": "consumer"},
}
SHORT_SESSIONS = {
    "group_min_session_timeout_ms": "500",
    "group_initial_rebalance_delay_ms": "0",
    "group_consumer_min_session_timeout_ms": "500",
    "group_consumer_session_timeout_ms": "1500",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "200",
}


@pytest.mark.real_kafka
@pytest.mark.parametrize(
    ("args", "settings"),
    [
        (
            ("--group-protocol", "classic", "--assignment-strategy", COOPERATIVE),
            {"partition_assignment_strategy": COOPERATIVE},
        ),
        (("--group-protocol", "consumer"), {"group_protocol": "consumer"}),
    ],
    ids=["cooperative", "consumer"],
)
def test_a_java_member_and_ours_share_a_topic(
    make_broker: Any, kafka_jars: str, args: tuple[str, ...], settings: dict[str, Any]
) -> None:
    broker = make_broker()
    broker.start(**SHORT_SESSIONS)
    share_with(broker.bootstrap, java_member, *args, **settings)


@pytest.mark.clients
def test_a_librdkafka_member_and_ours_share_a_topic(broker: Any) -> None:
    if subprocess.run([CLIENTS_PYTHON, "-c", "import confluent_kafka"], capture_output=True, check=False).returncode:
        require(f"{CLIENTS_PYTHON} has no confluent_kafka")
    share_with(broker.bootstrap, librdkafka_member, "partition.assignment.strategy=range,roundrobin")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_stopped_member_comes_back_fenced_and_commits_nothing_of_what_it_lost(
    make_broker: Any, protocol: str
) -> None:
    broker = make_broker()
    broker.start(**SHORT_SESSIONS)
    topic, group = new_topic(broker.bootstrap), f"stopped-{uuid.uuid4().hex[:8]}"
    short = {**SHORT[protocol], "auto.commit.interval.ms": "50"}
    member = kt_member(broker.bootstrap, topic, group, *(f"{name}={value}" for name, value in short.items()))
    try:
        with our_member(broker.bootstrap, group, **{name.replace(".", "_"): short[name] for name in short}) as consumer:
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


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_killed_members_partitions_go_on_elsewhere_and_nothing_is_missed(make_broker: Any, protocol: str) -> None:
    broker = make_broker()
    broker.start(**SHORT_SESSIONS)
    topic, group = new_topic(broker.bootstrap), f"killed-{uuid.uuid4().hex[:8]}"
    settings = [f"{name}={value}" for name, value in SHORT[protocol].items()]
    first, second = (kt_member(broker.bootstrap, topic, group, *settings) for _ in range(2))
    try:
        with our_member(broker.bootstrap, group, **{k.replace(".", "_"): v for k, v in SHORT[protocol].items()}) as own:
            own.subscribe([topic])
            ours = Sharing(own)
            ours.until(lambda: bool(first.owned and second.owned and ours.owned))
            produce_everywhere(broker.bootstrap, topic, 5)
            ours.until(lambda: len({*ours.records, *first.records, *second.records}) == 20)
            first.signal(signal.SIGKILL)
            produce_everywhere(broker.bootstrap, topic, 5)
            ours.until(lambda: len({*ours.records, *first.records, *second.records}) == 40)
    finally:
        first.stop()
        second.stop()
