"""Share consumers of librdkafka and of Apache Kafka, on the embedded broker and on Apache Kafka: acknowledgements,
delivery counts, and what a killed member had acquired once its locks end (KIP-932)."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import apache_kafka
from support.embedded import embedded_broker
from support.kt import run_kt
from support.waiting import PATIENCE_S

from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.clients
COUNT = 30
LOCK_MS = 1000
SESSION_MS = 2000
SETTINGS = {
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.session.timeout.ms": str(SESSION_MS),
    "group.share.session.timeout.ms": str(SESSION_MS),
}
HOLDER = """
import sys, time, confluent_kafka
consumer = confluent_kafka.ShareConsumer(
    {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "share.acknowledgement.mode": "explicit"})
consumer.subscribe([sys.argv[3]])
held = []
while not held:
    held = [message for message in consumer.poll(1.0)]
print(*sorted({message.value().decode() for message in held}), flush=True)
time.sleep(600)
"""
MEMBERS = ("by-librdkafka", "by-java")


@pytest.fixture(scope="module", params=["embedded", pytest.param("apache", marks=pytest.mark.real_kafka)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with short locks."""
    directory = tmp_path_factory.mktemp("share")
    with contextlib.ExitStack() as stack:
        if request.param == "embedded":
            settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
            yield stack.enter_context(embedded_broker(directory, **settings))
        else:
            request.getfixturevalue("kafka_jars")
            kafka = apache_kafka.ApacheKafka(directory, settings=SETTINGS)
            kafka.start()
            stack.callback(kafka.stop)
            yield kafka.bootstrap


def prepare(bootstrap: str, topic: str, group: str) -> None:
    """Create a topic with records `0` to `29`, and a share group that begins at their first."""
    server = ("--bootstrap-server", bootstrap)
    assert run_kt("topics", *server, "--create", "--topic", topic, "--partitions", "2").status == ExitStatus.OK
    lines = "".join(f"{number}\n" for number in range(COUNT)).encode()
    assert run_kt("console-producer", *server, "--topic", topic, "--batch-size", "16", stdin=lines).status == 0
    begin = ("--entity-type", "groups", "--entity-name", group, "--add-config", "share.auto.offset.reset=earliest")
    assert run_kt("configs", *server, "--alter", *begin).status == ExitStatus.OK


def librdkafka(bootstrap: str, group: str, mode: str) -> Any:
    """A share consumer of librdkafka."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    if not hasattr(confluent_kafka, "ShareConsumer"):
        pytest.skip("this confluent-kafka has no share consumer")
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode}
    return confluent_kafka.ShareConsumer(settings)


def read_all(consumer: Any, on_message: Callable[[Any], None], is_done: Callable[[], bool]) -> None:
    """Poll until it is done."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_done() and time.monotonic() < deadline:
        for message in consumer.poll(0.5):
            assert message.error() is None, message.error()
            on_message(message)
        consumer.commit_sync(10.0)
    assert is_done()


def test_librdkafka_accepts_releases_and_rejects(bootstrap: str) -> None:
    """Record n is accepted at its delivery n % 3 + 1, except that multiples of 5 are rejected at their first."""
    from confluent_kafka import AcknowledgeType

    prepare(bootstrap, "explicit", "explicit-group")
    accepted: dict[int, int] = {}
    rejected: set[int] = set()

    def take(message: Any) -> None:
        number, count = int(message.value()), message.delivery_count()
        if number % 5 == 0:
            rejected.add(number)
            consumer.acknowledge(message, AcknowledgeType.REJECT)
        elif count > number % 3:
            accepted[number] = count
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        else:
            consumer.acknowledge(message, AcknowledgeType.RELEASE)

    with librdkafka(bootstrap, "explicit-group", "explicit") as consumer:
        consumer.subscribe(["explicit"])
        read_all(consumer, take, lambda: len(accepted) + len(rejected) == COUNT)
    assert rejected == set(range(0, COUNT, 5))
    assert accepted == {number: number % 3 + 1 for number in range(COUNT) if number % 5}
    described = ("--describe", "--group", "explicit-group", "--offsets")
    rows = run_kt("share-groups", "--bootstrap-server", bootstrap, *described).out.splitlines()
    assert [row.split()[-1] for row in rows if row.startswith("explicit-group")] == ["0", "0"]


def hold_by_librdkafka(bootstrap: str, group: str, topic: str) -> subprocess.Popen[str]:
    """Start a process whose member acquires records and does not acknowledge them."""
    words = [sys.executable, "-c", HOLDER, bootstrap, group, topic]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def hold_by_java(bootstrap: str, group: str, topic: str) -> subprocess.Popen[str]:
    """The same with Apache Kafka's KafkaShareConsumer."""
    source = pathlib.Path(apache_kafka.__file__).with_name("ShareMember.java")
    command = [apache_kafka.java_executable(), "-XX:TieredStopAtLevel=1", "-cp", apache_kafka.jars(), str(source)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    opening = f"open a bootstrap.servers={bootstrap} group.id={group} share.acknowledgement.mode=explicit"
    for line in (opening, f"subscribe a {topic}", "poll a 20000"):
        process.stdin.write(line + "\n")
        process.stdin.flush()
    assert process.stdout.readline() == "opened\n"
    assert process.stdout.readline() == "subscribed\n"
    return process


@pytest.mark.parametrize("member", [MEMBERS[0], pytest.param(MEMBERS[1], marks=pytest.mark.real_kafka)])
def test_the_records_of_a_killed_member_go_to_another_one(
    bootstrap: str, member: str, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("confluent_kafka")
    if member == "by-java":
        request.getfixturevalue("kafka_jars")
    topic, group = f"killed-{member}", f"killed-group-{member}"
    prepare(bootstrap, topic, group)
    hold = hold_by_librdkafka if member == "by-librdkafka" else hold_by_java
    holder = hold(bootstrap, group, topic)
    assert holder.stdout is not None
    held = holder.stdout.readline()
    holder.kill()
    holder.communicate()
    assert held.strip()
    deliveries: dict[int, int] = {}
    with librdkafka(bootstrap, group, "implicit") as consumer:
        consumer.subscribe([topic])
        read_all(
            consumer,
            lambda message: deliveries.update({int(message.value()): message.delivery_count()}),
            lambda: len(deliveries) == COUNT,
        )
    assert 2 in deliveries.values()  # what the killed member had acquired
    assert max(deliveries.values()) <= 3
